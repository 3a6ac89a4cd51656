"""Commands about tasks that ask no model: list them, check them, bring their data.

Read in this order: catalog, ls, validate, fetch.
"""
