"""Batches of providers: requests are submitted together and answered within a day, at half the price.

Read in this order: protocols, stream.
"""
