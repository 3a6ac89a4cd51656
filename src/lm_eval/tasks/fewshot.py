"""Draws the docs that are shown as worked examples before a question.

The task draws them from one seeded stream before any format is applied: all formats of a task show the
same examples for the same doc.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from lm_eval.errors import ConfigError, UnknownNameError, UsageError, did_you_mean, listing
from lm_eval.tasks.keys.rows import indices_by_value

Doc = Mapping[str, Any]
DEFAULT_SEED = 1234


class Sampler(Protocol):
    """Draws the examples of one doc after another, as indices into the pool; call it in doc order."""

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class PoolRules:
    """How the docs to be asked relate to the pool of examples."""

    draws_one_more: bool
    excludes_doc: bool


class RandomSampler:
    """``count`` examples without replacement, from one stream for all docs.

    ``draws_one_more`` is the harness's rule if the pool is the split that is asked: one more is drawn
    and copies of the doc are dropped. ``excludes_doc`` closes a gap in that rule: a doc drawn as its
    own example is replaced, from a separate stream, so that other docs keep their examples.
    """

    def __init__(self, pool: Sequence[Doc], rules: PoolRules, *, seed: int, task: str) -> None:
        self._pool = pool
        self._task = task
        self._indices = range(len(pool))
        self._seed = seed
        self._random = random.Random(seed)
        self._rules = rules
        self._drawn = 0

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]:
        self._drawn += 1
        if self._rules.draws_one_more:
            drawn = self._random.sample(self._indices, min(count + 1, len(self._pool)))
            others = [index for index in drawn if self._pool[index] != doc]
            if len(others) < count:  # the doc is in the pool more than once
                others = self._random.sample(self._without(doc, count), count)
            return tuple(others[:count])
        drawn = self._random.sample(self._indices, count)
        if self._rules.excludes_doc and any(self._pool[index] == doc for index in drawn):
            return self._replaced(doc, drawn)
        return tuple(drawn)

    def _replaced(self, doc: Doc, drawn: list[int]) -> tuple[int, ...]:
        others = [index for index in self._without(doc, len(drawn)) if index not in drawn]
        random.Random(f"{self._seed}:{self._drawn}").shuffle(others)
        spare = iter(others)
        return tuple(next(spare) if self._pool[index] == doc else index for index in drawn)

    def _without(self, doc: Doc, count: int) -> list[int]:
        """The pool without copies of the doc, which must still hold ``count``."""
        others = [index for index in self._indices if self._pool[index] != doc]
        if len(others) < count:
            raise _too_few(self._task, count, len(others), COPIES)
        return others


@dataclass(frozen=True)
class FirstSampler:
    """The first ``count`` of the pool, without the doc itself if the pool may contain it."""

    pool: Sequence[Doc]
    excludes_doc: bool
    task: str

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]:
        if not self.excludes_doc:
            return tuple(range(count))
        others = (index for index in range(len(self.pool)) if self.pool[index] != doc)
        drawn = tuple(index for index, _ in zip(others, range(count), strict=False))
        if len(drawn) < count:
            raise _too_few(self.task, count, len(drawn), COPIES)
        return drawn


@dataclass
class MatchedSampler:
    """Examples that share a value with the doc, such as its category.

    Each value has its own sampler and stream, so that a task of one category draws the same examples as
    a task of all categories.
    """

    pool: Sequence[Doc]
    match: Callable[[Doc], Any]
    make: Callable[[Sequence[Doc]], Sampler]
    task: str
    _samplers: dict[Any, Sampler] = field(default_factory=dict)

    @cached_property
    def _by_value(self) -> dict[Any, list[int]]:
        return indices_by_value(self.pool, self.match)

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]:
        value = self.match(doc)
        if value not in self._samplers:
            self._samplers[value] = self._sampler(value)
        drawn = self._samplers[value].draw(doc, count)
        return tuple([self._by_value[value][position] for position in drawn])

    def suits(self, index: int, doc: Doc) -> bool:
        """Whether a doc of the pool that was not drawn may replace one that was."""
        return bool(self.match(self.pool[index]) == self.match(doc))

    def _sampler(self, value: Any) -> Sampler:
        if value not in self._by_value:
            known = list(map(str, self._by_value))
            raise UsageError(
                f"Task {self.task!r}: fewshot_match finds no example for docs with {value!r}."
                f"{did_you_mean(str(value), known)} The examples have {listing(known, 20)}. Use "
                "--num_fewshot 0, or another fewshot_split."
            )
        try:
            return self.make([self.pool[index] for index in self._by_value[value]])
        except UsageError as error:
            raise UsageError(
                f"{error} Only examples with {value!r} count, as fewshot_match says."
            ) from None


def with_substitutes(
    drawn: Sequence[int], size: int, can_be_shown: Callable[[int], bool]
) -> tuple[int, ...]:
    """The indices drawn; one that cannot be shown is replaced by the next in the pool that can."""
    shown: list[int] = []
    for index in drawn:
        candidates = ((index + step) % size for step in range(size))
        free = (i for i in candidates if i == index or not (i in drawn or i in shown))
        shown.append(next((i for i in free if can_be_shown(i)), index))
    return tuple(shown)


COPIES = "copies of the doc are left out"
SAMPLERS = ("default", "first_n")


def make_sampler(
    kind: Any,
    pool: Sequence[Doc],
    rules: PoolRules,
    *,
    count: int,
    seed: int,
    task: str,
    match: Callable[[Doc], Any] | None = None,
) -> Sampler:
    """The sampler that ``fewshot_config.sampler`` names; an error if the pool is too small.

    ``match`` gives the value that a doc and its examples must share.
    """
    check_sampler(kind, task=task)
    if match is not None:

        def inner(docs: Sequence[Doc]) -> Sampler:
            return make_sampler(kind, docs, rules, count=count, seed=seed, task=task)

        return MatchedSampler(pool, match, inner, task=task)
    available = len(pool) - (1 if rules.excludes_doc else 0)
    if count > available:
        why = "the doc itself is left out" if rules.excludes_doc else ""
        raise _too_few(task, count, available, why)
    if kind in (None, "default"):
        return RandomSampler(pool, rules, seed=seed, task=task)
    if kind == "first_n":
        excludes = rules.excludes_doc or rules.draws_one_more
        return FirstSampler(pool, excludes_doc=excludes, task=task)
    return _CustomSampler(kind, pool, seed)


def check_sampler(kind: Any, *, task: str) -> None:
    """Refuse a sampler that is neither a known name nor a class."""
    if kind is None or kind in SAMPLERS or callable(kind):
        return
    raise ConfigError(
        f"Task {task!r}: unknown few-shot sampler {kind!r}.{did_you_mean(str(kind), SAMPLERS)} "
        f"Samplers: {listing(SAMPLERS)}, or a class given with `!function`."
    )


def _too_few(task: str, count: int, available: int, why: str) -> UsageError:
    return UsageError(
        f"Task {task!r}: num_fewshot is {count}, but its few-shot pool holds {available} "
        f"usable docs{f' ({why})' if why else ''}. Use --num_fewshot {max(available, 0)} or fewer, "
        "or give the task a larger fewshot_split."
    )


class ContextSampler:
    """The base class of custom samplers: ``df`` is the pool, ``rnd`` the seeded stream.

    ``fewshot_indices`` restricts the pool to these docs.
    """

    def __init__(
        self,
        df: Sequence[Doc] | None = None,
        *,
        rnd: Any = None,
        fewshot_indices: Sequence[int] | None = None,
        **settings: Any,
    ) -> None:
        self.df: Sequence[Doc] = df or []
        self.fewshot_indices = fewshot_indices
        self.settings = settings
        self.set_rnd(rnd)

    def set_rnd(self, rnd: Any) -> ContextSampler:
        """Use this seed or stream from now on."""
        self.rnd = rnd if isinstance(rnd, random.Random) else random.Random(rnd)
        return self

    def replace_df(self, df: Sequence[Doc]) -> ContextSampler:
        """Use this pool from now on."""
        self.df = df
        return self

    def fewshot_docs(self) -> list[Doc]:
        """The docs to draw from."""
        if not self.fewshot_indices:
            return list(self.df)
        return [self.df[index] for index in self.fewshot_indices]

    @staticmethod
    def rm_eval_doc(doc: Any, _iter: Sequence[Any], n: int | None = None) -> list[Any]:
        """The docs that are not ``doc``, at most ``n`` of them."""
        return [other for other in _iter if other != doc][:n]

    def sample(
        self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **_: Any
    ) -> Sequence[Doc]:
        """``n`` docs of the pool, without ``eval_doc``.

        With an ``eval_doc``, one more is drawn and copies of it are dropped, as in a task whose examples
        come from the docs that it asks.
        """
        if n == 0:
            return []
        if df:
            self.replace_df(df)
        pool = self.fewshot_docs()
        if not eval_doc:
            return self.rnd.sample(pool, n)
        others = self.rm_eval_doc(eval_doc, self.rnd.sample(pool, n + 1), n)
        return others if len(others) == n else self.rnd.sample(self.rm_eval_doc(eval_doc, pool), n)


class FirstNSampler(ContextSampler):
    """The first docs of the pool."""

    def sample(
        self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **_: Any
    ) -> Sequence[Doc]:
        pool = self.rm_eval_doc(eval_doc, df or self.df)
        assert n <= len(pool), f"{n} examples asked for, {len(pool)} are there"
        return pool[:n]


SAMPLER_REGISTRY: dict[str, type[ContextSampler]] = {
    "default": ContextSampler,
    "first_n": FirstNSampler,
}


def get_sampler(name: str) -> type[ContextSampler]:
    """The class of a sampler, by the name that ``fewshot_config.sampler`` gives."""
    if name not in SAMPLER_REGISTRY:
        raise UnknownNameError(
            f"Unknown few-shot sampler {name!r}.{did_you_mean(str(name), SAMPLER_REGISTRY)} "
            f"Samplers: {listing(SAMPLER_REGISTRY)}.",
            name=str(name),
        )
    return SAMPLER_REGISTRY[name]


class _CustomSampler:
    """Adapts a task's own sampler class."""

    def __init__(self, kind: Any, pool: Sequence[Doc], seed: int) -> None:
        made = kind.resolve() if hasattr(kind, "resolve") else kind
        self._sampler = made(pool, rnd=random.Random(seed))
        self._pool = list(pool)

    def draw(self, doc: Doc, count: int) -> tuple[int, ...]:
        examples = self._sampler.sample(count, eval_doc=doc, df=self._pool)
        return tuple(map(self._pool.index, examples))
