"""Model backends: each answers requests; none knows about tasks or formats.

Read in this order: http, tree, estimating, borders, base, chat_template, sampling, dummy, loading,
api, api_models, openai_completions, gguf, hf, huggingface.
"""
