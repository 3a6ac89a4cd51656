"""Formats: how a question is put, and how the answer to it is read."""
