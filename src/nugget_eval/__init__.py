"""A judge of nuggets: does a passage support each of a list of facts? Built on ``lm_eval``.

The rule above all: never invent a label. A reply that cannot be read is missing, and is counted.
"""
