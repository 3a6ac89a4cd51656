"""The steps of one run: its plan, the requests it prepares, its kept answers, its results and groups.

Read in this order: plan, prepare, borders, groups, resume, results, forecast.
"""
