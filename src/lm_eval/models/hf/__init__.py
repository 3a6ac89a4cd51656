"""Models of ``transformers``; the documented address is ``lm_eval.models.huggingface``.

Read in this order: auto_batch, forward, options, sources, loading, tokens, tree_forward,
shared_prefix, generation, encoding, tree_scoring, model.
"""
