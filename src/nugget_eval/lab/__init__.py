"""Runs of the judge as the format lab sees them.

Read in this order: nuggets, runs, trials.
"""
