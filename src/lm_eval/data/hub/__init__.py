"""Data sets of the Hugging Face hub: finds, fetches and caches them by split, with ``huggingface_hub``.

Read in this order: settings, layout, repository, load.
"""
