"""``lm-eval power``: how many items or repeats a difference needs."""
