"""``--permute``: the choices of a doc in several orders, asked, scored and reported.

Read in this order: permutation, requests, results, scoring.
"""
