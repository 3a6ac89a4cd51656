"""Where programs written for EleutherAI's harness find its names: the list, and the import hook.

Read in this order: backends, names, finder.
"""
