"""Checks of replies that have no gold answer: whether each instruction of a prompt was followed.

Read in this order: instructions, score.
"""
