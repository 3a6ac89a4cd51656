"""``lm-eval sweep``: a task under many formats of a list."""
