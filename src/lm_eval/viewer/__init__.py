"""Stored runs in a browser: a server for this machine, or files that open without one.

Read in this order: samples, catalogue, figures, contract, app, export.
"""
