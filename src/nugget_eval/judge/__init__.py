"""The judge: what is asked, read, voted on and kept.

Read in this order: evidence, calls, voting, judge, evaluation.
"""
