"""Text for people and files: the terminal, progress, secrets, JSON, names, and files written whole."""
