"""Where programs written for EleutherAI's harness find its names: a list, and how Python asks for it.

Read in this order: backends, names, finder.
"""
