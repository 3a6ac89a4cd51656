"""Commands about tasks that need no model: list them, check them, download their data.

Read in this order: ls, validate, fetch.
"""
