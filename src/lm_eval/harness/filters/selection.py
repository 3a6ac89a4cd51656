"""Filters that choose among the responses to one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval.errors import ConfigError
from lm_eval.harness.filters.base import Filter, Responses


class TakeFirstFilter(Filter):
    """The first response, which is no list any more: a later step sees its letters."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return [some[:1] if isinstance(some, str) else some[0] for some in resps]


class TakeKFilter(Filter):
    """The first ``k`` responses; the task's ``repeats`` must give that many."""

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        resps = list(resps)
        if resps and len(resps[0]) < self.k:
            raise ConfigError(
                f"The filter take_first_k takes {self.k} responses to each request, and there are "
                f"{len(resps[0])}. Set `repeats: {self.k}` in the task, or a smaller `k`."
            )
        return [some[: self.k] for some in resps]


class MajorityVoteFilter(Filter):
    """A list of one: the most frequent response, of equally frequent ones the first seen."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return [_most_frequent(some) for some in resps]


def _most_frequent(responses: Iterable[Any]) -> list[Any]:
    counts: Counter[Any] = Counter(responses)
    return [response for response, _ in counts.most_common(1)]
