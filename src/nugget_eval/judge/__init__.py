"""The judge: what is asked, read, voted on and kept."""
