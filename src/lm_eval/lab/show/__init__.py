"""How the lab shows what it found: phrases, excerpts, plots."""
