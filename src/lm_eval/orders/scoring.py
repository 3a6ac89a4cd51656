"""Answers to a doc in several orders of its choices → its debiased answer, and the bias of positions.

In: docs with their requests and answers in every order. Out: for each doc, what was picked in each
order and the answer without position bias; for a task, a ``ChoiceOrder``. A *place* is the index of a
choice in the data, a *position* is where a prompt shows it. ``OrderedDocs`` does all this for one task.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.orders.permutation import Order, Permutation
from lm_eval.orders.requests import NOT_SHOWN
from lm_eval.orders.results import ACC_DEBIASED, ACC_OVER_ORDERS, ChoiceOrder, Shares
from lm_eval.registry import Metric
from lm_eval.requests import Answer, DocRequests
from lm_eval.scoring.metrics import ChoiceOutcome, Outcome, TextOutcome
from lm_eval.scoring.score import ScoredDoc, outcome_of
from lm_eval.stats.estimates import Estimate, mean_estimate, share_estimate
from lm_eval.stats.positions import (
    best,
    content,
    mean_prior,
    most_voted,
    position_prior,
    without_prior,
)
from lm_eval.tasks.task import ConfigurableTask

DEBIASED = Metric(ACC_DEBIASED, "acc without the bias of positions")
OVER_ORDERS = Metric(ACC_OVER_ORDERS, "acc in the mean of all orders of the choices")


@dataclass(frozen=True, slots=True)
class DocInOrder:
    """A doc in one order of its choices with its answers: one, or as many as requests are repeated."""

    doc: DocRequests
    answers: Sequence[Answer]
    order: Order
    outcomes: tuple[Outcome, ...]

    @property
    def gold(self) -> tuple[int, ...]:
        """The positions that are right."""
        return self.doc.asked.gold

    @property
    def positions(self) -> list[int | None]:
        """The position picked by each answer; None if none could be read."""
        return [_position(outcome) for outcome in self.outcomes]

    @property
    def position(self) -> int | None:
        """The position that the first answer picks."""
        return _position(self.outcomes[0])

    @property
    def places(self) -> list[int]:
        """The choices picked by the answers that were read."""
        return [self.order[position] for position in self.positions if position is not None]

    @property
    def place(self) -> int | None:
        return None if self.position is None else self.order[self.position]

    @property
    def is_right(self) -> bool:
        return self.position in self.gold

    @property
    def logprobs(self) -> tuple[float, ...] | None:
        outcome = self.outcomes[0]
        return outcome.logprobs if isinstance(outcome, ChoiceOutcome) else None


def in_orders(
    task: ConfigurableTask, doc: DocRequests, answers: Sequence[Answer], *, is_prefilled: bool
) -> list[DocInOrder]:
    """The doc in each of its orders with the answers to it, that of the data first."""
    views, start = [], 0
    for view in (doc.own, *doc.reordered):
        to_view = answers[start : start + len(view.requests)]
        start += len(to_view)
        rounds: list[Sequence[Answer]] = [to_view]
        if not view.asked.continuations:  # text: every repeat is a separate answer
            rounds = [[answer] for answer in to_view]
        outcomes = tuple(outcome_of(task, view, each, is_prefilled=is_prefilled) for each in rounds)
        order = view.order or tuple(range(len(view.asked.continuations or view.asked.choices)))
        views.append(DocInOrder(view, to_view, order, outcomes))
    return views


def _position(outcome: Outcome) -> int | None:
    if isinstance(outcome, TextOutcome):
        value = outcome.reading.value
        return value if outcome.reading.is_answer and isinstance(value, int) else None
    return outcome.picked()


@dataclass(frozen=True, slots=True)
class Debiased:
    """A doc's answer without position bias: a choice, several that tie, or none."""

    places: tuple[int, ...]
    probabilities: tuple[float, ...] | None = None
    """Of each choice; None if answers are votes."""

    def value(self, gold: Sequence[int]) -> float:
        """How much of the answer is right: all, nothing, or the part of a tie."""
        return sum(place in gold for place in self.places) / max(len(self.places), 1)


def debiased(views: Sequence[DocInOrder]) -> Debiased:
    """The answer over all orders: by the mean of log-probabilities, or by a vote of what was read."""
    rows = [(view.order, view.logprobs) for view in views if view.logprobs is not None]
    if not rows:
        return Debiased(most_voted(place for view in views for place in view.places))
    if len(rows) == 1:  # there is no mean: the answer as it is, the first choice in a tie
        place = views[0].place
        return Debiased(() if place is None else (place,))
    shares = content(rows)
    return Debiased(best(shares), shares)


def debiased_by(view: DocInOrder, prior: Sequence[float]) -> Debiased:
    """The answer in one order, corrected for the prior of its positions."""
    assert view.logprobs is not None, "pride is for scored labels"
    shares = without_prior(view.logprobs, prior)
    return Debiased(best(shares), shares)


def prior_of(views: Sequence[DocInOrder]) -> tuple[float, ...] | None:
    """How likely each position is, whichever choice is there; None for one order, or for text."""
    rows = [view.logprobs for view in views if view.logprobs is not None]
    return position_prior(rows) if len(rows) > 1 else None


class Priors:
    """The priors of docs, by their number of choices."""

    def __init__(self) -> None:
        self._by_count: defaultdict[int, list[tuple[float, ...]]] = defaultdict(list)

    def add(self, views: Sequence[DocInOrder]) -> None:
        """Learn from a doc that was asked in all orders; one that was not tells nothing."""
        prior = prior_of(views)
        if prior is not None:
            self._by_count[len(prior)].append(prior)

    def mean(self) -> dict[int, tuple[float, ...]]:
        """Number of choices → the mean prior."""
        return {count: mean_prior(priors) for count, priors in sorted(self._by_count.items())}


class OrderTally:
    """Counts the effects of the order, doc by doc; docs may come in any order."""

    def __init__(self, permutation: Permutation) -> None:
        self._permutation = permutation
        self._docs: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._is_vote = False
        self._labels: tuple[str, ...] = ()
        self._recall = _ByPosition()
        self._recall_debiased = _ByPosition()
        self._picked = _Picks()
        self._picked_over_orders = _Picks()
        self._moved = _ByPosition()

    def add(
        self, views: Sequence[DocInOrder], answer: Debiased | None, labels: Sequence[str]
    ) -> None:
        """Count a doc; ``answer`` is None if its bias is not known."""
        first = views[0]
        self._count(views, answer)
        self._is_vote |= first.logprobs is None
        if first.doc.left_in_place == NOT_SHOWN:  # its choices have no positions
            return
        if len(labels) > len(self._labels):
            self._labels = tuple(labels)
        self._picked.add([first], len(labels))
        if len(first.gold) == 1:
            self._recall.add(first.gold[0], float(first.is_right))
            if answer is not None:
                gold = [first.order[position] for position in first.gold]
                self._recall_debiased.add(first.gold[0], answer.value(gold))
        if len(views) > 1:
            self._picked_over_orders.add(views, len(labels))
            self._move(views)

    def result(self, priors: Mapping[int, tuple[float, ...]]) -> ChoiceOrder:
        count, docs = len(self._labels), self._docs
        permuted = docs["permuted"]
        return ChoiceOrder(
            mode=str(self._permutation),
            permuted=permuted,
            asked_once=docs["asked once"],
            left_in_place=dict(sorted(self._left.items())),
            asked=docs["asked"],
            is_vote=self._is_vote,
            labels=self._labels,
            recall=self._recall.shares(count),
            recall_debiased=self._recall_debiased.shares(count),
            picked=self._picked.shares(count),
            picked_over_orders=self._picked_over_orders.shares(count) if permuted else (),
            moved=self._moved.estimates(count) if permuted else (),
            changed=share_estimate(docs["changed"], permuted) if permuted else None,
            priors=priors,
            ties=docs["ties"],
            unanswered=docs["unanswered"],
        )

    def _count(self, views: Sequence[DocInOrder], answer: Debiased | None) -> None:
        self._docs["asked"] += len(views)
        if len(views) > 1:
            self._docs["permuted"] += 1
            self._docs["changed"] += len({view.place for view in views} - {None}) > 1
        elif views[0].doc.left_in_place:
            self._left[views[0].doc.left_in_place] += 1
        else:
            self._docs["asked once"] += 1
        self._docs["ties"] += answer is not None and len(answer.places) > 1
        self._docs["unanswered"] += answer is None or not answer.places

    def _move(self, views: Iterable[DocInOrder]) -> None:
        """Count each position's share of right answers while this doc's gold is there."""
        right = _ByPosition()
        for view in views:
            if len(view.gold) == 1:
                right.add(view.gold[0], float(view.is_right))
        for position, share in right.means():
            self._moved.add(position, share)


class _ByPosition:
    """Numbers by position."""

    def __init__(self) -> None:
        self._values: defaultdict[int, list[float]] = defaultdict(list)

    def add(self, position: int, value: float) -> None:
        self._values[position].append(value)

    def means(self) -> Iterator[tuple[int, float]]:
        for position, values in self._values.items():
            yield position, sum(values) / len(values)

    def shares(self, count: int) -> Shares:
        return tuple(None if mean is None else mean.value for mean in self.estimates(count))

    def estimates(self, count: int) -> tuple[Estimate | None, ...]:
        columns = [self._values.get(position) for position in range(count)]
        return tuple(mean_estimate(values) if values else None for values in columns)


class _Picks:
    """How often each position was picked, of the answers that could have picked it."""

    def __init__(self) -> None:
        self._picked: Counter[int] = Counter()
        self._could: Counter[int] = Counter()

    def add(self, views: Iterable[DocInOrder], count: int) -> None:
        for view in views:
            if view.position is not None:
                self._picked[view.position] += 1
                self._could.update(range(count))

    def shares(self, count: int) -> Shares:
        return tuple(
            self._picked[position] / self._could[position] if self._could[position] else None
            for position in range(count)
        )


class OrderedDocs:
    """The docs of one task that are asked in several orders, as they are scored.

    A doc that was asked once waits until the prior of the positions is learnt from the others.
    """

    def __init__(
        self, task: ConfigurableTask, permutation: Permutation, *, is_scored: bool
    ) -> None:
        self._task = task
        self._permutation = permutation
        self._is_scored = is_scored
        self._tally = OrderTally(permutation)
        self._priors = Priors()
        self._waiting: list[tuple[int, ScoredDoc]] = []

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that the orders add."""
        return order_metrics(self._permutation) if self._is_scored else []

    def views(
        self, doc: DocRequests, answers: Sequence[Answer], *, is_prefilled: bool
    ) -> list[DocInOrder]:
        """The doc in each of its orders with the answers to it."""
        return in_orders(self._task, doc, answers, is_prefilled=is_prefilled)

    def take(self, place: int, scored: ScoredDoc) -> Iterator[tuple[int, ScoredDoc]]:
        """The doc with its debiased answer, unless it has to wait."""
        views = scored.orders
        self._priors.add(views)
        if self._permutation.mode == "pride" and len(views) == 1:
            self._waiting.append((place, scored))
        else:
            yield place, self._with_answer(scored, debiased(views))

    def waiting(self) -> Iterator[tuple[int, ScoredDoc]]:
        """The docs that waited, once all others have come."""
        priors = self._priors.mean()
        for place, scored in self._waiting:
            view = scored.orders[0]
            prior = priors.get(len(view.order))
            answer = None if prior is None else debiased_by(view, prior)
            yield place, self._with_answer(scored, answer)
        self._waiting = []

    def result(self) -> ChoiceOrder:
        return self._tally.result(self._priors.mean())

    def _with_answer(self, scored: ScoredDoc, answer: Debiased | None) -> ScoredDoc:
        views = scored.orders
        self._tally.add(views, answer, self._labels(scored.requests))
        values = order_values(views, answer, self._permutation) if self._is_scored else {}
        return replace(scored, values={**scored.values, **values}, answer=answer)

    def _labels(self, doc: DocRequests) -> Sequence[str]:
        """The labels of the positions of a doc's choices; numbers if choices have no labels."""
        fmt, item = self._task.format, doc.asked.item
        if fmt is None or item is None or fmt.choice_labels in (None, "choices"):
            return [str(number) for number in range(1, len(doc.asked.choices) + 1)]
        return fmt.labels(item)


def order_values(
    views: Sequence[DocInOrder], answer: Debiased | None, permutation: Permutation
) -> dict[str, Any]:
    """The metrics of a doc over its orders: debiased, and the mean over orders."""
    first = views[0]
    gold = [first.order[position] for position in first.gold]
    value = None if answer is None else answer.value(gold)
    if permutation.mode == "pride":  # most docs are asked once, so there is no mean over orders
        return {DEBIASED.name: value}
    right = [position in view.gold for view in views for position in view.positions]
    mean = sum(right) / len(right)
    return {DEBIASED.name: mean if len(views) == 1 else value, OVER_ORDERS.name: mean}


def order_metrics(permutation: Permutation) -> list[Metric]:
    """The metrics that ``order_values`` has values for."""
    return [DEBIASED] if permutation.mode == "pride" else [DEBIASED, OVER_ORDERS]
