"""Data sets of the Hugging Face hub: found, fetched and kept, split by split, with HTTP alone.

Read in this order: settings, client, cache, layout, repository, opening, splits.
"""
