"""Two results item by item: where each pair of samples begins to differ, with the first examples.

Samples are read side by side in the order of their docs, one of each at a time. The first of these
stages in which a pair differs explains its difference in score: the prompt, the answer to the same
prompt, how the same answer was read, the score of the same reading.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lm_eval.lab.stored.run import StoredResult
from lm_eval.lab.stored.view import first_reply, log_likelihoods, readings, requests
from lm_eval.support.encode import doc_hash

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
"""``changed``: same doc id, other content; ``moved``: the reverse; ``no_…``: not stored."""


@dataclass
class ItemDiff:
    """What two results have in common, item by item, and where they differ."""

    scores: tuple[array[float], array[float]] = field(
        default_factory=lambda: (array("d"), array("d"))
    )
    """The scores of each result, for all items that have a number."""
    paired: tuple[array[float], array[float]] = field(
        default_factory=lambda: (array("d"), array("d"))
    )
    """The scores of the items that both have with the same content."""
    all_clusters: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    """The cluster of each of ``scores``, if that is known."""
    clusters: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """By the names in ``COUNTED``: how many items are shared, and how many pairs differ in what."""
    parts: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Stage → sum of score differences of the pairs that first differ there."""
    flipped: Counter[Stage] = field(default_factory=Counter)
    """Stage → pairs with different scores that first differ there."""
    examples: dict[str, list[tuple[Sample, Sample]]] = field(default_factory=dict)
    flips: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    """Docs with a higher score in the first and in the second."""
    largest_change: float = 0.0
    """The largest change of a log-likelihood of the same continuation after the same prompt."""
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
    return [_request_text(request) for request in requests(sample)]


def _request_text(request: Sequence[Any]) -> str:
    context, scored = (*request, None, None)[:2]
    text = context if isinstance(context, str) else _chat_text(context)
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
    """The samples under one filter; if none is named, under the first filter."""
    for sample in samples:
        of_sample = sample.get("filter", "none")
        filter_name = of_sample if filter_name is None else filter_name
        if of_sample == filter_name and not sample.get("missing"):
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
    a, b = next(first, None), next(second, None)
    while a is not None or b is not None:
        if b is None or (a is not None and _doc_id(a) < _doc_id(b)):
            assert a is not None
            tally.alone(a, 0)
            a = next(first, None)
        elif a is None or _doc_id(b) < _doc_id(a):
            tally.alone(b, 1)
            b = next(second, None)
        else:
            tally.pair(a, b)
            a, b = next(first, None), next(second, None)
    return tally.done()


class _DiffTally:
    """Counts pairs, and keeps the first examples of each kind."""

    def __init__(self, metrics: tuple[str, str], show: int) -> None:
        self._metrics = metrics
        self._show = show
        self._diff = ItemDiff()
        self._unpaired: tuple[set[str], set[str]] = (set(), set())

    def alone(self, sample: Sample, side: int) -> None:
        self._diff.counts["only_a" if side == 0 else "only_b"] += 1
        self._unpaired[side].add(_content(sample))
        self._score(sample, side)

    def pair(self, a: Sample, b: Sample) -> None:
        diff = self._diff
        scores = (self._score(a, 0), self._score(b, 1))
        if _content(a) != _content(b):
            diff.counts["changed"] += 1
            self._unpaired[0].add(_content(a))
            self._unpaired[1].add(_content(b))
            self._example("changed", a, b)
            return
        diff.counts["shared"] += 1
        self._count_read(a, b)
        stage = self._stage(a, b)
        if None in scores:
            diff.counts["unscored"] += 1
            return
        difference = float(scores[0] or 0) - float(scores[1] or 0)
        for side, score in enumerate(scores):
            diff.paired[side].append(float(score or 0))
        if a.get("cluster") is not None:
            diff.clusters.append(str(a["cluster"]))
        if difference:
            diff.counts["flips"] += 1
            self._example("flips", a, b)
            diff.flips[0 if difference > 0 else 1].append(_doc_id(a))
            stage = "score" if stage == "nothing" else stage
            diff.parts[stage] += difference
            diff.flipped[stage] += 1

    def done(self) -> ItemDiff:
        self._diff.counts["moved"] = len(self._unpaired[0] & self._unpaired[1])
        return self._diff

    def _count_read(self, a: Sample, b: Sample) -> None:
        """Count answers that were read; what is not read from text, such as scored choices, is too."""
        counts = self._diff.counts
        of_each = [readings(sample) for sample in (a, b)]
        counts["with_reading"] += any(of_each)
        for side, of_side in zip("ab", of_each, strict=True):
            counts[f"reads_{side}"] += bool(of_side)
            counts[f"replies_{side}"] += len(of_side) or 1
            answers = [reading for reading in of_side or [{}] if reading.get("no_answer") is None]
            counts[f"read_{side}"] += len(answers)

    def _score(self, sample: Sample, side: int) -> float | None:
        value = sample.get(self._metrics[side])
        if not isinstance(value, bool | int | float) or not math.isfinite(value):
            return None
        self._diff.scores[side].append(float(value))
        if sample.get("cluster") is not None:
            self._diff.all_clusters[side].append(str(sample["cluster"]))
        return float(value)

    def _example(self, kind: str, a: Sample, b: Sample) -> None:
        kept = self._diff.examples.setdefault(kind, [])
        if len(kept) < self._show:
            kept.append((a, b))

    def _differs(self, kind: str, a: Sample, b: Sample) -> None:
        self._diff.counts[kind] += 1
        self._example(kind, a, b)

    def _stage(self, a: Sample, b: Sample) -> Stage:
        """Where this pair begins to differ; examples, targets and tokens are counted on the way."""
        if "fewshot_docs" not in a or "fewshot_docs" not in b:
            self._diff.counts["no_shots"] += 1
        elif a["fewshot_docs"] != b["fewshot_docs"]:
            self._differs("shots", a, b)
        if str(a.get("target")) != str(b.get("target")):
            self._differs("targets", a, b)
        if not prompt_texts(a) or not prompt_texts(b):
            self._diff.counts["no_prompts"] += 1
        if _prompt(a) != _prompt(b):
            self._differs("prompts", a, b)
            return "prompt"
        self._diff.counts["same_prompts"] += 1
        if a.get("tokens") != b.get("tokens") and a.get("tokens") and b.get("tokens"):
            self._differs("tokens", a, b)
        if a.get("resps") != b.get("resps"):
            self._differs("answers", a, b)
            self._numbers(a, b)
            return "answer"
        self._diff.counts["same_answers"] += 1
        if _reading(a) != _reading(b):
            self._differs("readings", a, b)
            return "reading"
        return "nothing"

    def _numbers(self, a: Sample, b: Sample) -> None:
        """Note how far log-likelihoods of the same texts are apart."""
        ours, theirs = log_likelihoods(a), log_likelihoods(b)
        if ours and len(ours) == len(theirs):
            self._diff.num_numbers += 1
            far = max(abs(x - y) for (x, _), (y, _) in zip(ours, theirs, strict=True))
            self._diff.largest_change = max(self._diff.largest_change, far)


def _content(sample: Mapping[str, Any]) -> str:
    return str(sample.get("doc_hash") or doc_hash(sample.get("doc")))


def _prompt(sample: Mapping[str, Any]) -> Any:
    """What was sent; if that is not stored, what it was made from."""
    return prompt_texts(sample) or sample.get("prompt_key")


def _reading(sample: Mapping[str, Any]) -> Any:
    """How the reply was read: our reading, or what the harness's filters kept of it."""
    reading = sample.get("reading")
    if isinstance(reading, Mapping):
        return reading.get("value"), reading.get("no_answer")
    return sample.get("filtered_resps")


def answer_text(sample: Mapping[str, Any]) -> str:
    """The answer of a sample in one text: the reply, or the log-likelihoods."""
    numbers = log_likelihoods(sample)
    if numbers:
        return ", ".join(f"{value:.4g}" for value, _ in numbers)
    return first_reply(sample) or ""
