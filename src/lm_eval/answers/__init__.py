"""Answers of a model: asked for once, kept on disk, and what they cost."""
