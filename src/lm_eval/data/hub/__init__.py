"""Data sets of the Hugging Face hub: finds, fetches and caches them by split, with plain HTTP.

Read in this order: settings, client, cache, layout, repository, opening, splits.
"""
