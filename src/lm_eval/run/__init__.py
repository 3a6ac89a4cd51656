"""The steps of one run: its plan, the requests it prepares, the scorers of its tasks, its groups.

Read in this order: plan, prepare, borders, groups, scorers, files, forecast.
"""
