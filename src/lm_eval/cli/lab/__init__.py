"""The commands of the format lab, and their options.

Read in this order: options, compare, table, power, reread, diff, sweep, view.
"""
