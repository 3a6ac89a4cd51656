"""What the judge gives to comparisons: the nuggets of a stored run, and trials of several prompts.

Read in this order: nuggets, judgements, trials.
"""
