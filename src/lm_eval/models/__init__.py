"""Model backends: each answers requests; none knows about tasks or formats.

Read in this order: http, cost_estimates, borders, sampling, settings, base, overrides,
chat_template, dummy, loading, api, batches, api_models, openai_completions, providers,
local, llama_cpp, gguf, hf, huggingface, ray, vllm.
"""

from lm_eval.addresses.finder import attributes_of

__getattr__ = attributes_of(__name__)
