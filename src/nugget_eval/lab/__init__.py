"""What the judge gives to comparisons and the viewer: the nuggets of a stored run.

Read in this order: nuggets, judgements.
"""
