"""GGUF files as models: llama.cpp in this process. ``GgufLM`` is the backend.

Read in this order: engine, generation, model.
"""

from lm_eval.models.gguf.model import GgufLM

__all__ = ["GgufLM"]
