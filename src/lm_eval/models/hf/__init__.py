"""The parts of ``HFLM``, for models of ``transformers``: loading, tokens, scoring, generation.

Read in this order: auto_batch, forward, options, sources, loading, tokens, tree_forward,
tree_scoring, endings, generation, engine, identity.
"""
