"""Helpers that build on the harness: a filter class and a sampler class."""

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter
from lm_eval.api.samplers import ContextSampler


class LastWordFilter(Filter):
    def apply(self, resps, docs):
        return [[reply.strip().split(" ")[-1].lower() for reply in replies] for replies in resps]


class LastSampler(ContextSampler):
    """The last examples of the pool."""

    def sample(self, n, eval_doc=None, df=None, **kwargs):
        return self.df[-n:]


@register_filter("shouting")
class ShoutingFilter(Filter):
    def __init__(self, mark="!"):
        self.mark = mark

    def apply(self, resps, docs):
        return [[reply.upper() + self.mark for reply in replies] for replies in resps]


def unchanged(dataset):
    return dataset
