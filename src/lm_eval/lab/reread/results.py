"""A stored run read with another reader: scores before and after, and which verdicts flip.

In: a run and a reader. Out: a ``Reread`` for each result, and one more over all orders of the choices
if docs were asked in several. Samples are read one after the other; only a few numbers of each are
kept, and the texts of the first flips.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from lm_eval.errors import ComparisonError, listing
from lm_eval.formats.readers import BoundReader, Reading
from lm_eval.lab.reread.formats import (
    FALLBACK_METRIC,
    Plain,
    ReplyRead,
    StoredQuestion,
    UnderFormat,
    damaged_sample,
    replies_read,
)
from lm_eval.lab.reread.items import ReadAgain, Rereading, RereadsItself, Verdict, answered_samples
from lm_eval.lab.stored.run import StoredRun
from lm_eval.lab.stored.select import chosen_names
from lm_eval.orders.results import ACC_DEBIASED, ACC_OVER_ORDERS
from lm_eval.registry import METRICS
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.numeric import Bools, np
from lm_eval.stats.paired import Paired, paired
from lm_eval.stats.positions import most_voted
from lm_eval.support.encode import AsDict
from lm_eval.support.numbers import number

NOT_PARSED = "not parsed: "
"""The prefix of a reason among rules."""


@dataclass(frozen=True)
class Side(AsDict):
    """One reader's account of all answers."""

    reader: str
    score: Estimate
    read: int
    score_read: float | None
    """The mean score of the answers that were read, first within each doc; None if there are none."""
    rules: dict[str, int]
    """Rule, or ``not parsed: reason`` → answers, the most frequent first."""


@dataclass(frozen=True)
class Reread(AsDict):
    """One result, read with two readers."""

    name: str
    model: str
    metric: str
    total: int
    """Answers; the score of a doc with several is their mean."""
    before: Side
    after: Side
    paired: Paired
    """After against before."""
    read_by_both: int
    same_answer: int
    """Answers that both readers read in the same way."""
    scores_of_both: tuple[float, float] | None
    """The mean score before and after, of the answers that both read; None if there are none."""
    flips: tuple[ReadAgain, ...]
    """The first items whose score differs."""
    num_flips: int
    notes: tuple[str, ...] = ()
    part: str = ""
    """Which of its answers these are, if it has others as well."""

    KEYS = (
        *("name", "part", "model", "metric", "total", "before", "after", "paired"),
        *("read_by_both", "same_answer", "scores_of_both", "num_flips", "flips", "notes"),
    )


def reads_text(run: StoredRun, name: str) -> bool:
    """Whether answers of this result are texts; if not, choices were scored."""
    config = run.results["configs"].get(name) or {}
    return str(config.get("output_type")) == "generate_until"


def rereadable(run: StoredRun, names: Sequence[str], formats: Sequence[str]) -> list[str]:
    """The chosen results that read text; if there are none, an error says which do."""
    chosen = chosen_names(run, names, formats)
    readable = [name for name in chosen if reads_text(run, name)]
    if readable:
        return readable
    others = [name for name in run.names if reads_text(run, name)]
    raise ComparisonError(
        f"{run.path}: {listing(chosen) or 'What was asked for'} read no text; choices were scored by "
        f"their likelihood, so there is nothing to read again. Results that read text: "
        f"{listing(others)}. Formats such as generate and cot let the model write."
    )


def rereadings(
    run: StoredRun, name: str, reader: BoundReader, include_path: Sequence[str] | None = None
) -> list[Rereading]:
    """Every answer of one result, read with ``reader`` as well.

    If docs were asked in several orders: the answers in the order of the data, then those in all orders.
    """
    if isinstance(run, RereadsItself):
        return [run.reread(name, reader)]
    if run.format_of(name) is None:
        return [Plain(run, name, reader, include_path).rereading()]
    first = UnderFormat(run, name, reader, include_path).rereading()
    if not has_orders(run, name):
        return [first]
    first.part = "in the order of the data"
    return [first, InAllOrders(run, name, reader, include_path).rereading()]


def rereads(
    run: StoredRun,
    name: str,
    reader: BoundReader,
    reader_words: str,
    *,
    show: int,
    include_path: Sequence[str] | None = None,
    on_item: Callable[[str, ReadAgain], None] | None = None,
) -> list[Reread]:
    """One result with everything that is reported about it; ``on_item`` sees each answer once.

    If docs were asked in several orders: first the order of the data alone, then all.
    """
    sources = rereadings(run, name, reader, include_path)
    *others, last = sources  # the last has all answers
    tallies = [_tallied(source, show, lambda _: None) for source in others]
    tallies.append(_tallied(last, show, lambda item: on_item(name, item) if on_item else None))
    if not tallies[0].total:
        raise ComparisonError(
            f"{run.path}: {name!r} holds no answer at all, so there is nothing to read again."
        )
    return [
        tally.result(name, run.model, source, reader_words)
        for tally, source in zip(tallies, sources, strict=True)
    ]


def reread(
    run: StoredRun,
    name: str,
    reader: BoundReader,
    reader_words: str,
    *,
    show: int,
    include_path: Sequence[str] | None = None,
) -> Reread:
    """One result, with the choices of its docs in the order of the data."""
    return rereads(run, name, reader, reader_words, show=show, include_path=include_path)[0]


def _tallied(source: Rereading, show: int, on_item: Callable[[ReadAgain], None]) -> _RereadTally:
    tally = _RereadTally(show)
    for item in source.items:
        tally.add(item)
        on_item(item)
    return tally


class _RereadTally:
    """Counts answers as they come in."""

    def __init__(self, show: int) -> None:
        self._show = show
        self._docs = array("l")
        """Of each answer, the number of its doc; answers to one doc follow each other."""
        self._scores = (array("d"), array("d"))
        self._is_read = (array("b"), array("b"))
        self._rules: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._clusters: dict[int, str] = {}
        self._doc: int | None = None
        self._same = 0
        self._flips: list[ReadAgain] = []
        self._num_flips = 0

    @property
    def total(self) -> int:
        return len(self._docs)

    def add(self, item: ReadAgain) -> None:
        last = self._docs[-1] if self._docs else -1
        self._docs.append(last + (not item.is_part or item.doc_id != self._doc))
        self._doc = item.doc_id
        if item.cluster is not None:
            self._clusters[self._docs[-1]] = item.cluster
        for side, verdict in enumerate((item.before, item.after)):
            self._rules[side][_rule(verdict)] += 1
            self._scores[side].append(verdict.score)
            self._is_read[side].append(verdict.is_read)
        if item.before.is_read and item.after.is_read:
            self._same += item.before.answer == item.after.answer
        if item.before.score != item.after.score:
            self._num_flips += 1
            if len(self._flips) < self._show:
                self._flips.append(item)

    def result(self, name: str, model: str, source: Rereading, words: str) -> Reread:
        every = np.ones(self.total, dtype=bool)
        read = [np.array(column, dtype=bool) for column in self._is_read]
        both = read[0] & read[1]
        before, after = (self._by_doc(side, every) for side in (0, 1))
        clusters = list(self._clusters.values()) if len(self._clusters) == len(before) else None
        first, second = (np.array(column) for column in self._scores)
        return Reread(
            name,
            model,
            source.metric,
            self.total,
            self._side(0, source.before, before, read[0], clusters),
            self._side(1, words, after, read[1], clusters),
            paired(after, before, clusters=clusters),
            int(both.sum()),
            self._same,
            (float(first[both].mean()), float(second[both].mean())) if both.any() else None,
            tuple(self._flips),
            self._num_flips,
            tuple(source.notes),
            source.part,
        )

    def _by_doc(self, side: int, kept: Bools) -> list[float]:
        """The mean score of each doc, over the answers that are kept."""
        docs, scores = np.array(self._docs)[kept], np.array(self._scores[side])[kept]
        counts = np.bincount(docs)
        means: list[float] = (np.bincount(docs, scores)[counts > 0] / counts[counts > 0]).tolist()
        return means

    def _side(
        self,
        side: int,
        reader: str,
        scores: Sequence[float],
        is_read: Bools,
        clusters: Sequence[str] | None,
    ) -> Side:
        ordered = sorted(self._rules[side].items(), key=lambda item: (-item[1], item[0]))
        means = self._by_doc(side, is_read)
        return Side(
            reader,
            clustered_estimate(scores, clusters),
            int(is_read.sum()),
            fmean(means) if means else None,
            dict(ordered),
        )


def _rule(verdict: Verdict) -> str:
    return verdict.rule or "unnamed" if verdict.is_read else f"{NOT_PARSED}{verdict.reason}"


Order = tuple[int, ...]


def has_orders(run: StoredRun, name: str) -> bool:
    """Whether docs of this result were asked in several orders."""
    facts = run.results.get("choice_order")
    entry = facts.get(name) if isinstance(facts, Mapping) else None
    docs = entry.get("docs") if isinstance(entry, Mapping) else None
    return isinstance(docs, Mapping) and bool(docs.get("permuted"))


class InAllOrders(UnderFormat):
    """The replies of a task under a format in every order; a doc's score is the mean over them."""

    def rereading(self) -> Rereading:
        self._metric = METRICS.get(FALLBACK_METRIC)
        rereading = super().rereading()
        rereading.metric, rereading.part = ACC_OVER_ORDERS, "in all orders of the choices"
        return rereading

    def _items(self, notes: list[str]) -> Iterator[ReadAgain]:
        debiased: list[tuple[float, float]] = []
        lost = 0
        for sample in answered_samples(self.run, self.name, None):
            asked, orders = self._orders(sample)
            answers = [
                (order, item, (reply.reading, after))
                for nth, (order, replies) in enumerate(orders, start=1)
                for reply, after, item in self._in_order(sample, asked, order, replies, nth)
            ]
            yield from (item for _, item, _ in answers)
            lost += sum(not replies for _, replies in orders)
            if len(orders) == 1:
                scores = [(item.before.score, item.after.score) for _, item, _ in answers]
                before, after = map(fmean, zip(*scores, strict=True))
                debiased.append((before, after))
                continue
            votes = [(_vote(pair[0], order), _vote(pair[1], order)) for order, _, pair in answers]
            before, after = (_value([vote[side] for vote in votes], asked) for side in (0, 1))
            debiased.append((before, after))
        notes += self._notes(debiased, lost)

    def _in_order(
        self,
        sample: Mapping[str, Any],
        asked: StoredQuestion,
        order: Order,
        replies: Sequence[ReplyRead],
        nth: int,
    ) -> Iterator[tuple[ReplyRead, Reading, ReadAgain]]:
        """Each reply in one order, how it is read now, and its item."""
        shown = _reordered(asked, order)
        for reply_number, reply in enumerate(replies, start=1):
            after = self._again(shown, reply)
            part = f"order {nth}" + (f", reply {reply_number}" if len(replies) > 1 else "")
            yield reply, after, self._item(sample, shown, reply, after, part, None)

    def _notes(self, debiased: Sequence[tuple[float, float]], lost: int) -> Iterator[str]:
        if debiased:
            before, after = (number(fmean(scores)) for scores in zip(*debiased, strict=True))
            yield (
                f"{ACC_DEBIASED}, by which choice most orders name: {before} before, {after} after"
            )
        if lost:
            yield f"in {lost} orders no reply is stored; these are left out"

    def _orders(
        self, sample: Mapping[str, Any]
    ) -> tuple[StoredQuestion, list[tuple[Order, list[ReplyRead]]]]:
        """The doc, and each of its orders with the replies to it."""
        in_data_order, asked = self._known(sample)
        width = len(asked.labels) or len(asked.choices)
        try:
            stored = (sample.get("choice_order") or {}).get("orders") or [{"order": range(width)}]
            if not all(gold in range(len(asked.choices)) for gold in asked.gold):
                raise ValueError(asked.gold)
            others = [(_order(entry, asked), _replies(entry, sample)) for entry in stored[1:]]
            return asked, [(_order(stored[0], asked), in_data_order), *others]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise damaged_sample(sample, "holds no orders that can be understood") from None


def _order(stored: Mapping[str, Any], asked: StoredQuestion) -> Order:
    """Position → choice; ValueError if that is not an order of the doc's choices."""
    order = tuple(int(choice) for choice in stored["order"])
    if sorted(order) != list(range(len(order))) or len(order) > len(asked.choices):
        raise ValueError(order)
    return order


def _replies(stored: Mapping[str, Any], sample: Mapping[str, Any]) -> list[ReplyRead]:
    """The replies in one order, as far as it is known how they were read."""
    texts = [str(text) for text in stored["resps"][0]]
    readings = stored.get("readings")
    if readings is None:  # written before readings were stored: the first reply's is known
        picked, order = stored.get("picked"), list(stored["order"])
        reason = stored.get("no_answer")
        position = None if picked is None else order.index(picked)
        rule = "as stored" if reason is None else None
        return [ReplyRead(text, None, Reading(position, rule, None, reason)) for text in texts[:1]]
    return replies_read(texts, readings, sample)


def _reordered(asked: StoredQuestion, order: Order) -> StoredQuestion:
    """What a reader needs to know about the doc with its choices in this order."""
    complete = (*order, *range(len(order), len(asked.choices)))  # what the format cuts off stays
    return replace(
        asked,
        choices=tuple(asked.choices[choice] for choice in complete),
        gold=tuple(complete.index(gold) for gold in asked.gold),
    )


def _vote(reading: Reading, order: Order) -> int | None:
    """The choice that a reading names, by its index in the data; None if it names none."""
    value = reading.value
    if not reading.is_answer or not isinstance(value, int) or not 0 <= value < len(order):
        return None
    return order[value]


def _value(votes: Sequence[int | None], asked: StoredQuestion) -> float:
    """What the choices with the most votes score: of those that tie, the share that is right."""
    winners = most_voted(vote for vote in votes if vote is not None)
    return sum(choice in asked.gold for choice in winners) / len(winners) if winners else 0.0
