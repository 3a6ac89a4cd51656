"""The prefix tree that local backends share: each distinct beginning is evaluated once.

Read in this order: tokens, spans.
"""
