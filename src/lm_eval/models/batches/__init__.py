"""Batches of providers: requests are handed in together, answered within a day, at half the price.

Read in this order: protocols, stream.
"""
