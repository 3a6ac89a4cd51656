"""Two results item by item: where each pair of samples begins to differ, with the first examples.

Samples are read side by side in the order of their docs, one of each at a time. A pair differs first in
its prompt, else in the answer to the same prompt, else in how the same answer was read, else in the
score of the same reading; what that is decides to which stage its difference in score belongs.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lm_eval.lab.reread.items import first_reply
from lm_eval.lab.stored.run import StoredResult
from lm_eval.text.encode import doc_hash

Stage = Literal["prompt", "answer", "reading", "score", "nothing"]
STAGES: tuple[Stage, ...] = ("prompt", "answer", "reading", "score")
Sample = dict[str, Any]
Metric = tuple[str, str | None]
"""A metric and the filter it is under; None: the first filter."""
COUNTED = (
    *("shared", "only_a", "only_b", "changed", "moved", "unscored", "flips", "shots", "no_shots"),
    *("targets", "prompts", "no_prompts", "same_prompts", "tokens", "answers", "same_answers"),
    *("readings", "with_reading", "replies_a", "replies_b", "read_a", "read_b"),
)
"""``changed``: same number, other content; ``moved``: the reverse; ``no_…``: not stored."""


@dataclass
class ItemDiff:
    """What two results have in common, item by item, and what not."""

    scores: tuple[array[float], array[float]] = field(
        default_factory=lambda: (array("d"), array("d"))
    )
    """Of all items of either result that have a number."""
    paired: tuple[array[float], array[float]] = field(
        default_factory=lambda: (array("d"), array("d"))
    )
    """Of the items that both have with the same content."""
    all_clusters: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    """What each of ``scores`` belongs to, where that is known."""
    clusters: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """``COUNTED``: how many items are shared, and how many pairs differ in what."""
    parts: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Stage → sum of score differences of the pairs that first differ there."""
    flipped: Counter[Stage] = field(default_factory=Counter)
    """Stage → pairs with another score that first differ there."""
    examples: dict[str, list[tuple[Sample, Sample]]] = field(default_factory=dict)
    flips: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    """Docs with a higher score in the first and in the second."""
    largest_change: float = 0.0
    """Of a log-likelihood of the same continuation after the same prompt."""
    num_numbers: int = 0


def compare_items(
    results: tuple[StoredResult, StoredResult], metrics: tuple[Metric, Metric], *, show: int
) -> ItemDiff:
    """Two results, sample by sample."""

    def samples(side: int) -> Iterator[Sample]:
        run, name = results[side].run, results[side].name
        return _of_filter(run.samples(name), metrics[side][1])

    names = metrics[0][0], metrics[1][0]
    try:
        return _compared(_ordered(samples(0)), _ordered(samples(1)), names, show)
    except _UnsortedError:  # rare: files that other programs wrote
        ordered = [iter(sorted(samples(side), key=_doc_id)) for side in (0, 1)]
        return _compared(ordered[0], ordered[1], names, show)


def prompt_texts(sample: Mapping[str, Any]) -> list[str]:
    """What was sent, one text for each request: the context, and the continuation scored after it."""
    arguments = sample.get("arguments") or {}
    requests = arguments.values() if isinstance(arguments, Mapping) else arguments
    return [_request_text(request) for request in requests]


def _request_text(request: Any) -> str:
    parts: list[Any] = [request]
    if isinstance(request, Mapping | list):
        parts = list(request.values() if isinstance(request, Mapping) else request)
    context = parts[0] if parts else ""
    text = context if isinstance(context, str) else _chat_text(context)
    scored = parts[1] if len(parts) > 1 else None
    return text + scored if isinstance(scored, str) else text


def _chat_text(messages: Any) -> str:
    if not isinstance(messages, list):
        return str(messages)
    return "".join(
        f"<{message.get('role')}>\n{message.get('content')}\n"
        if isinstance(message, Mapping)
        else str(message)
        for message in messages
    )


class _UnsortedError(Exception):
    """Samples that are not in the order of their docs."""


def _doc_id(sample: Mapping[str, Any]) -> int:
    return int(sample.get("doc_id", 0))


def _of_filter(samples: Iterable[Sample], filter_name: str | None) -> Iterator[Sample]:
    """The samples under one filter; under the first of them where none is named."""
    for sample in samples:
        own = sample.get("filter", "none")
        filter_name = own if filter_name is None else filter_name
        if own == filter_name and not sample.get("missing"):
            yield sample


def _ordered(samples: Iterable[Sample]) -> Iterator[Sample]:
    last = -1
    for sample in samples:
        if _doc_id(sample) <= last:
            raise _UnsortedError
        last = _doc_id(sample)
        yield sample


def _compared(
    first: Iterator[Sample], second: Iterator[Sample], metrics: tuple[str, str], show: int
) -> ItemDiff:
    tally = _DiffTally(metrics, show)
    one, other = next(first, None), next(second, None)
    while one is not None or other is not None:
        at_a = _doc_id(one) if one is not None else None
        at_b = _doc_id(other) if other is not None else None
        if at_b is None or (at_a is not None and at_a < at_b):
            assert one is not None
            tally.alone(one, 0)
            one = next(first, None)
        elif at_a is None or at_b < at_a:
            assert other is not None
            tally.alone(other, 1)
            other = next(second, None)
        else:
            assert one is not None
            assert other is not None
            tally.pair(one, other)
            one, other = next(first, None), next(second, None)
    return tally.done()


class _DiffTally:
    """Counts pairs; of samples only the first examples are kept."""

    def __init__(self, metrics: tuple[str, str], show: int) -> None:
        self._metrics = metrics
        self._show = show
        self._found = ItemDiff()
        self._unpaired: tuple[set[str], set[str]] = (set(), set())

    def alone(self, sample: Sample, side: int) -> None:
        self._found.counts["only_a" if side == 0 else "only_b"] += 1
        self._unpaired[side].add(_content(sample))
        self._score(sample, side)

    def pair(self, one: Sample, other: Sample) -> None:
        diff = self._found
        scores = (self._score(one, 0), self._score(other, 1))
        if _content(one) != _content(other):
            diff.counts["changed"] += 1
            self._unpaired[0].add(_content(one))
            self._unpaired[1].add(_content(other))
            self._example("changed", one, other)
            return
        diff.counts["shared"] += 1
        self._count_read(one, other)
        stage = self._stage(one, other)
        if None in scores:
            diff.counts["unscored"] += 1
            return
        difference = float(scores[0] or 0) - float(scores[1] or 0)
        for side, score in enumerate(scores):
            diff.paired[side].append(float(score or 0))
        if one.get("cluster") is not None:
            diff.clusters.append(str(one["cluster"]))
        if difference:
            diff.counts["flips"] += 1
            self._example("flips", one, other)
            diff.flips[0 if difference > 0 else 1].append(_doc_id(one))
            stage = "score" if stage == "nothing" else stage
            diff.parts[stage] += difference
            diff.flipped[stage] += 1

    def done(self) -> ItemDiff:
        self._found.counts["moved"] = len(self._unpaired[0] & self._unpaired[1])
        return self._found

    def _count_read(self, one: Sample, other: Sample) -> None:
        """What is not read from text, such as choices that were scored, counts as read."""
        counts = self._found.counts
        readings = [_readings(sample) for sample in (one, other)]
        counts["with_reading"] += any(readings)
        for side, some in zip("ab", readings, strict=True):
            counts[f"reads_{side}"] += bool(some)
            counts[f"replies_{side}"] += len(some) or 1
            counts[f"read_{side}"] += sum(one.get("no_answer") is None for one in some or [{}])

    def _score(self, sample: Sample, side: int) -> float | None:
        value = sample.get(self._metrics[side])
        if not isinstance(value, bool | int | float) or not math.isfinite(value):
            return None
        self._found.scores[side].append(float(value))
        if sample.get("cluster") is not None:
            self._found.all_clusters[side].append(str(sample["cluster"]))
        return float(value)

    def _example(self, kind: str, one: Sample, other: Sample) -> None:
        kept = self._found.examples.setdefault(kind, [])
        if len(kept) < self._show:
            kept.append((one, other))

    def _differs(self, kind: str, one: Sample, other: Sample) -> None:
        self._found.counts[kind] += 1
        self._example(kind, one, other)

    def _stage(self, one: Sample, other: Sample) -> Stage:
        """Where this pair begins to differ; what is beside the way is counted too."""
        if "fewshot_docs" not in one or "fewshot_docs" not in other:
            self._found.counts["no_shots"] += 1
        elif one["fewshot_docs"] != other["fewshot_docs"]:
            self._differs("shots", one, other)
        if str(one.get("target")) != str(other.get("target")):
            self._differs("targets", one, other)
        if not prompt_texts(one) or not prompt_texts(other):
            self._found.counts["no_prompts"] += 1
        if _prompt(one) != _prompt(other):
            self._differs("prompts", one, other)
            return "prompt"
        self._found.counts["same_prompts"] += 1
        if one.get("tokens") != other.get("tokens") and one.get("tokens") and other.get("tokens"):
            self._differs("tokens", one, other)
        if one.get("resps") != other.get("resps"):
            self._differs("answers", one, other)
            self._numbers(one, other)
            return "answer"
        self._found.counts["same_answers"] += 1
        if _reading(one) != _reading(other):
            self._differs("readings", one, other)
            return "reading"
        return "nothing"

    def _numbers(self, one: Sample, other: Sample) -> None:
        """How far log-likelihoods of the same texts are apart."""
        ours, theirs = _logprobs(one), _logprobs(other)
        if ours and len(ours) == len(theirs):
            self._found.num_numbers += 1
            far = max(abs(x - y) for x, y in zip(ours, theirs, strict=True))
            self._found.largest_change = max(self._found.largest_change, far)


def _readings(sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """How each reply to a doc was read; empty where nothing was read from text."""
    readings = sample.get("readings") or [sample.get("reading")]
    return [reading for reading in readings if isinstance(reading, Mapping)]


def _content(sample: Mapping[str, Any]) -> str:
    return str(sample.get("doc_hash") or doc_hash(sample.get("doc")))


def _prompt(sample: Mapping[str, Any]) -> Any:
    """What was sent; where that is not stored, what it was made from."""
    return prompt_texts(sample) or sample.get("prompt_key")


def _reading(sample: Mapping[str, Any]) -> Any:
    """How the reply was read: our reading, or what the filters left of it."""
    reading = sample.get("reading")
    if isinstance(reading, Mapping):
        return reading.get("value"), reading.get("no_answer")
    return sample.get("filtered_resps")


def _logprobs(sample: Mapping[str, Any]) -> list[float]:
    logprobs = []
    for one in sample.get("resps") or ():
        pair = one[0] if isinstance(one, list) and one else None
        if not isinstance(pair, list):
            return []
        try:
            logprobs.append(float(pair[0]))
        except (IndexError, TypeError, ValueError):
            return []
    return logprobs


def answer_text(sample: Mapping[str, Any]) -> str:
    """The answer of a sample in one text: the reply, or the log-likelihoods."""
    numbers = _logprobs(sample)
    if numbers:
        return ", ".join(f"{value:.4g}" for value in numbers)
    return first_reply(sample) or ""
