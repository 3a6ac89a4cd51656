"""Scores against a baseline: each paired with its counterpart, item by item.

In: the scores of a table, and which value of which dimension is the baseline. Out: a ``BaselineTest``
for each score that has a counterpart on the same items, adjusted for all of them, and notes on the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lm_eval.errors import ComparisonError, UsageError, did_you_mean, listing
from lm_eval.lab.compare.values import Pair
from lm_eval.lab.stored.measurement import Measurement, align, doc_of, taken
from lm_eval.lab.stored.scores import DIMENSIONS, StoredScore, parts_of_samples, value_in
from lm_eval.lab.stored.select import SelectedResult, groups_in, tasks_below
from lm_eval.lab.table.values import BaselineTest
from lm_eval.stats.estimates import DEFAULT_SEED
from lm_eval.stats.multiplicity import holm

_BASE, _OTHER = "baseline", "other"


class Baseline:
    """Tests scores against those with one value in one dimension, such as the format ``mcqa``."""

    def __init__(self, name: str, scores: Sequence[StoredScore]) -> None:
        self.dimension, self.name = _found(name, scores)
        self._by_key = {
            self._key(score): score
            for score in scores
            if value_in(score, self.dimension) == self.name
        }

    def counterpart(self, score: StoredScore) -> StoredScore | None:
        """The baseline's score that differs in nothing else; None for the baseline itself."""
        if value_in(score, self.dimension) == self.name:
            return None
        return self._by_key.get(self._key(score))

    def _key(self, score: StoredScore) -> tuple[str, ...]:
        others = (each for each in DIMENSIONS if each != self.dimension)
        return tuple(value_in(score, dimension) for dimension in others)


def _found(name: str, scores: Sequence[StoredScore]) -> tuple[str, str]:
    """The dimension that has this value; ``format=mcqa`` says which, if several have it."""
    stated, is_stated, value = name.partition("=")
    if is_stated and stated in DIMENSIONS:
        known = {stated: _values(scores, stated)}
    else:
        value = name
        known = {dimension: _values(scores, dimension) for dimension in DIMENSIONS}
    among = [dimension for dimension, values in known.items() if value in values]
    if len(among) == 1:
        return among[0], value
    if among:
        raise UsageError(
            f"--baseline {name!r} may be a {' or a '.join(among)}. Say which: "
            f"{' or '.join(f'--baseline {dimension}={value}' for dimension in among)}."
        )
    there = [each for values in known.values() if len(values) > 1 for each in values]
    raise UsageError(
        f"--baseline {name!r} is in none of these runs.{did_you_mean(value, there)} They have: "
        f"{listing(there, 5)}."
    )


def _values(scores: Sequence[StoredScore], dimension: str) -> list[str]:
    values = dict.fromkeys(value_in(score, dimension) for score in scores)
    return [value for value in values if value]


def against_baseline(
    baseline: Baseline, scores: Sequence[StoredScore], source: ItemSource
) -> tuple[dict[int, BaselineTest], list[str]]:
    """Index in ``scores`` → its test, and notes on what could not be compared."""
    pairs: dict[int, Pair] = {}
    why_not: dict[str, list[str]] = {}
    for index, score in enumerate(scores):
        base = baseline.counterpart(score)
        if base is None:
            continue
        try:
            pairs[index] = _paired(source.measurement(base), source.measurement(score))
        except ComparisonError as error:
            why_not.setdefault(str(error), []).append(_title(score))
    adjusted = holm([pair.p_adjusted for pair in pairs.values()])
    remaining = holm([pair.p_remaining for pair in pairs.values()])
    tests = {
        index: _test(pair, p_adjusted, p_remaining)
        for (index, pair), p_adjusted, p_remaining in zip(
            pairs.items(), adjusted, remaining, strict=True
        )
    }
    notes = [
        f"{listing(titles, 5)} {'is' if len(titles) == 1 else 'are'} not compared with "
        f"{baseline.name}: {why}"
        for why, titles in why_not.items()
    ]
    return tests, notes


def _title(score: StoredScore) -> str:
    return score.name if score.part is None else f"{score.name} ({score.part})"


def _paired(base: Measurement, other: Measurement) -> Pair:
    """The two as a pair on the same items."""
    from lm_eval.lab.compare.statistics import pairs  # late: it needs numpy

    aligned = align([replace(base, condition=_BASE), replace(other, condition=_OTHER)])
    (pair,) = pairs(
        aligned, (_BASE, _OTHER), None, adjust="holm", seed=DEFAULT_SEED, lists_flips=False
    )
    return pair


def _test(pair: Pair, p_adjusted: float, p_remaining: float) -> BaselineTest:
    result = pair.result if pair.first == _OTHER else pair.result.reversed()
    return BaselineTest(
        difference=result.difference.value,
        low=result.difference.low,
        high=result.difference.high,
        p=result.p,
        p_adjusted=p_adjusted,
        p_remaining=max(p_adjusted, p_remaining),
        test=result.test,
    )


class ItemSource:
    """The items behind scores, read from disk once."""

    def __init__(self, results: Sequence[SelectedResult], field: str | None) -> None:
        self._results = {(str(result.run.path), result.name): result for result in results}
        self._field = field
        self._measured: dict[tuple[str, str, str], Measurement] = {}
        self._parts: dict[tuple[str, str], Mapping[str, str]] = {}

    def measurement(self, score: StoredScore) -> Measurement:
        """The items of a score; an error if the run does not have them."""
        key = (score.run, score.name, score.metric)
        if key not in self._measured:
            self._measured[key] = self._group(score) if score.is_group else self._task(score)
        measured = self._measured[key]
        if score.part is None:
            return measured
        parts = self._parts_of(score)
        return taken(
            measured, [item for item in measured.items if parts[doc_of(item)] == score.part]
        )

    def _task(self, score: StoredScore) -> Measurement:
        return self._results[score.run, score.name].measured([score.metric])

    def _group(self, score: StoredScore) -> Measurement:
        run = next(result.run for (path, _), result in self._results.items() if path == score.run)
        leaves = tasks_below(run.results, score.name)
        members = [self._results.get((score.run, leaf)) for leaf in leaves]
        measured = [member.measured([score.metric]) for member in members if member is not None]
        for group in groups_in(run.results, measured):
            if group.name == score.name:
                return group
        raise ComparisonError("the score of the group is not the mean over the items of its tasks.")

    def _parts_of(self, score: StoredScore) -> Mapping[str, str]:
        key = (score.run, score.name)
        if key not in self._parts:
            self._parts[key] = dict(self._read_parts(self._results[key], score))
        return self._parts[key]

    def _read_parts(self, result: SelectedResult, score: StoredScore) -> Iterator[tuple[str, str]]:
        """Doc id → the part it is in."""
        assert self._field is not None
        columns = result.run.items(result.name, score.filter)
        if self._field in columns.parts:
            parts = columns.parts[self._field]
            yield from zip(map(str, columns.doc_ids), parts, strict=True)
            return
        for part, sample in parts_of_samples(result, self._field, score.filter):
            yield str(sample.get("doc_id")), part
