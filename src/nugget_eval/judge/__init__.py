"""The judge: what is asked, read, voted on and kept.

Read in this order: calls, voting, judge, evaluation.
"""
