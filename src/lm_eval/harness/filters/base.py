"""``Filter``: one step between a model's responses and their scores, for subclasses to fill in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Responses = Iterable[Any]
"""What the requests of a task got, in order: a list of responses for each, or, after
``take_first``, the response itself."""


class Filter(ABC):
    """A step over all responses of a task at once. A new one is made for every run."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027 - subclasses need none of their own
        """Take the keys that stand beside ``function`` in the task file."""

    @abstractmethod
    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        """What becomes of the responses: as many entries, in the same order as ``docs``."""


def each(change: Callable[[Any], Any], resps: Responses) -> list[list[Any]]:
    """``change`` on every response of every list. A bare string is taken letter by letter."""
    return [[change(response) for response in some] for some in resps]


def each_text(change: Callable[[str], str], resps: Responses) -> list[list[Any]]:
    """As ``each``; what is no text, such as a (log-likelihood, is greedy) pair, stays as it is."""
    return each(lambda one: change(one) if isinstance(one, str) else one, resps)
