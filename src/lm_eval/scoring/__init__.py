"""Readings and gold answers become scores."""
