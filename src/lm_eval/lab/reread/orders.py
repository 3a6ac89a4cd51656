"""The replies to a doc in every order of its choices, as ``--permute`` asked for them, read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from lm_eval.formats.readers import Reading
from lm_eval.lab.reread.formats import (
    FALLBACK_METRIC,
    ReplyRead,
    StoredQuestion,
    UnderFormat,
    damaged_sample,
    stored_reading,
)
from lm_eval.lab.reread.items import ReadAgain, Rereading, answered_samples
from lm_eval.lab.stored.run import StoredRun
from lm_eval.orders.results import ACC_DEBIASED, ACC_OVER_ORDERS
from lm_eval.registry import METRICS
from lm_eval.reports.table import number
from lm_eval.stats.positions import most_voted

Order = tuple[int, ...]


def has_orders(run: StoredRun, name: str) -> bool:
    """Whether docs of this result were asked in several orders."""
    facts = run.results.get("choice_order")
    found = facts.get(name) if isinstance(facts, Mapping) else None
    docs = found.get("docs") if isinstance(found, Mapping) else None
    return isinstance(docs, Mapping) and bool(docs.get("permuted"))


class InAllOrders(UnderFormat):
    """The replies of a task under a format in every order; a doc's score is the mean over them."""

    def rereading(self) -> Rereading:
        self._metric = METRICS.get(FALLBACK_METRIC)
        found = super().rereading()
        found.metric, found.part = ACC_OVER_ORDERS, "in all orders of the choices"
        return found

    def _items(self, notes: list[str]) -> Iterator[ReadAgain]:
        debiased: list[tuple[float, float]] = []
        lost = 0
        for sample in answered_samples(self._run, self._name, None):
            asked, orders = self._orders(sample)
            answers = [
                (order, item, (reply.reading, after))
                for at, (order, replies) in enumerate(orders, start=1)
                for reply, after, item in self._in_order(sample, asked, order, replies, at)
            ]
            yield from (item for _, item, _ in answers)
            lost += sum(not replies for _, replies in orders)
            if len(orders) == 1:
                scores = [(item.before.score, item.after.score) for _, item, _ in answers]
                debiased.append((fmean(one for one, _ in scores), fmean(one for _, one in scores)))
                continue
            votes = [(_vote(pair[0], order), _vote(pair[1], order)) for order, _, pair in answers]
            before, after = (_value([one[side] for one in votes], asked) for side in (0, 1))
            debiased.append((before, after))
        notes += self._said(debiased, lost)

    def _in_order(
        self,
        sample: Mapping[str, Any],
        asked: StoredQuestion,
        order: Order,
        replies: Sequence[ReplyRead],
        at: int,
    ) -> Iterator[tuple[ReplyRead, Reading, ReadAgain]]:
        """Each reply in one order, how it is read now, and the item that it is."""
        shown = _reordered(asked, order)
        for place, reply in enumerate(replies, start=1):
            after = self._again(shown, reply)
            part = f"order {at}" + (f", reply {place}" if len(replies) > 1 else "")
            yield reply, after, self._item(sample, shown, reply, after, part, None)

    def _said(self, debiased: Sequence[tuple[float, float]], lost: int) -> Iterator[str]:
        if debiased:
            before, after = (number(fmean(some)) for some in zip(*debiased, strict=True))
            yield (
                f"{ACC_DEBIASED}, by which choice most orders name: {before} before, {after} after"
            )
        if lost:
            yield f"in {lost} orders no reply is stored; these are left out"

    def _orders(
        self, sample: Mapping[str, Any]
    ) -> tuple[StoredQuestion, list[tuple[Order, list[ReplyRead]]]]:
        """The doc, and each of its orders with the replies to it."""
        own, asked = self._known(sample)
        width = len(asked.labels) or len(asked.choices)
        try:
            stored = (sample.get("choice_order") or {}).get("orders") or [{"order": range(width)}]
            if not all(place in range(len(asked.choices)) for place in asked.gold):
                raise ValueError(asked.gold)
            others = [(_order(one, asked), _replies(one, sample)) for one in stored[1:]]
            return asked, [(_order(stored[0], asked), own), *others]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise damaged_sample(sample, "holds no orders that can be understood") from None


def _order(stored: Mapping[str, Any], asked: StoredQuestion) -> Order:
    """Position → choice; ValueError if that is not an order of the doc's choices."""
    order = tuple(int(place) for place in stored["order"])
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
        place = None if picked is None else order.index(picked)
        rule = "as stored" if reason is None else None
        return [ReplyRead(text, None, Reading(place, rule, None, reason)) for text in texts[:1]]
    return [
        ReplyRead(text, one.get("finish"), stored_reading(one, sample))
        for text, one in zip(texts, readings, strict=True)
    ]


def _reordered(asked: StoredQuestion, order: Order) -> StoredQuestion:
    """What a reader needs to know of the doc with its choices in this order."""
    whole = (*order, *range(len(order), len(asked.choices)))  # what the format cuts off stays
    return replace(
        asked,
        choices=tuple(asked.choices[place] for place in whole),
        gold=tuple(whole.index(place) for place in asked.gold),
    )


def _vote(reading: Reading, order: Order) -> int | None:
    """The choice that a reading names, by its place in the data; None where it names none."""
    value = reading.value
    if not reading.is_answer or not isinstance(value, int) or not 0 <= value < len(order):
        return None
    return order[value]


def _value(votes: Sequence[int | None], asked: StoredQuestion) -> float:
    """What the choices with the most votes score: of those that tie, the share that is right."""
    places = most_voted(vote for vote in votes if vote is not None)
    return sum(place in asked.gold for place in places) / len(places) if places else 0.0
