"""``lm-eval compare``: the same items under several formats or of several models."""
