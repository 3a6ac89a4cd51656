"""The commands of the format lab, and their options.

Read in this order: options, compare, power, reread, diff, sweep.
"""
