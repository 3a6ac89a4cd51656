"""Commands about tasks that ask no model: list them, check them, bring their data.

Read in this order: catalog, card, ls, validate, fetch.
"""
