"""Few-shot samplers, and the base of those that tasks bring, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.tasks.fewshot import SAMPLER_REGISTRY, ContextSampler, FirstNSampler, get_sampler

__all__ = ["SAMPLER_REGISTRY", "ContextSampler", "FirstNSampler", "get_sampler"]

__getattr__ = attributes_of(__name__)
