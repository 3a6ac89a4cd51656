"""The base of few-shot samplers that tasks bring, for Python users."""

from lm_eval.tasks.fewshot import ContextSampler, FirstNSampler

__all__ = ["ContextSampler", "FirstNSampler"]
