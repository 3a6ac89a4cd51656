"""Which docs stand as worked examples before a question.

The task draws them, before any format is applied, from one seeded stream: all formats of a task see
the same examples for the same doc.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lm_eval.errors import ConfigError, UsageError, did_you_mean, listing

Doc = Mapping[str, Any]
DEFAULT_SEED = 1234


class Sampler(Protocol):
    """Draws places in the pool for one doc after another, in doc order."""

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]: ...


class RandomSampler:
    """``count`` examples without replacement, from one stream for all docs.

    ``may_hold_doc`` says that the docs to be asked come from the same split as the pool: one more is
    drawn then and copies of the doc are dropped, as the harness does, so that no doc is its own example.
    """

    def __init__(self, pool: Sequence[Doc], *, seed: int, may_hold_doc: bool, task: str) -> None:
        self._pool = pool
        self._task = task
        self._places = range(len(pool))
        self._random = random.Random(seed)
        self._may_hold_doc = may_hold_doc

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]:
        if not self._may_hold_doc:
            return tuple(self._random.sample(self._places, count))
        extra = min(count + 1, len(self._pool))
        drawn = [p for p in self._random.sample(self._places, extra) if self._pool[p] != doc]
        if len(drawn) < count:  # the doc stands in the pool more than once
            others = [place for place in self._places if self._pool[place] != doc]
            if len(others) < count:
                raise _too_few(self._task, count, len(others), "copies of the doc are left out")
            drawn = self._random.sample(others, count)
        return tuple(drawn[:count])


class FirstSampler:
    """The first ``count`` of the pool, without the doc itself."""

    def __init__(self, pool: Sequence[Doc], *, may_hold_doc: bool, task: str) -> None:
        self._pool = pool
        self._task = task
        self._may_hold_doc = may_hold_doc

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]:
        if not self._may_hold_doc:
            return tuple(range(count))
        others = (place for place in range(len(self._pool)) if self._pool[place] != doc)
        drawn = tuple(place for place, _ in zip(others, range(count), strict=False))
        if len(drawn) < count:
            raise _too_few(self._task, count, len(drawn), "copies of the doc are left out")
        return drawn


SAMPLERS = ("default", "first_n")


def make_sampler(
    kind: Any, pool: Sequence[Doc], *, count: int, seed: int, may_hold_doc: bool, task: str
) -> Sampler:
    """The sampler a task names in ``fewshot_config.sampler``, checked against the pool's size."""
    available = len(pool) - (1 if may_hold_doc else 0)
    if count > available:
        raise _too_few(task, count, available, "the doc itself is left out" if may_hold_doc else "")
    if kind in (None, "default"):
        return RandomSampler(pool, seed=seed, may_hold_doc=may_hold_doc, task=task)
    if kind == "first_n":
        return FirstSampler(pool, may_hold_doc=may_hold_doc, task=task)
    raise ConfigError(
        f"Task {task!r}: unknown few-shot sampler {kind!r}.{did_you_mean(str(kind), SAMPLERS)} "
        f"Samplers: {listing(SAMPLERS)}."
    )


def _too_few(task: str, count: int, available: int, why: str) -> UsageError:
    return UsageError(
        f"Task {task!r}: num_fewshot is {count}, but its few-shot pool holds {available} "
        f"usable docs{f' ({why})' if why else ''}. Use --num_fewshot {max(available, 0)} or fewer, "
        "or give the task a larger fewshot_split."
    )
