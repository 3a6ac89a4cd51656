"""What an evaluation writes and prints."""
