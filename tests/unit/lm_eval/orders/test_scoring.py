"""What must hold between the numbers about choice order, whatever was picked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.formats.assemble import Prompt, Turn
from lm_eval.formats.readers import NO_ANSWER, Reading
from lm_eval.orders.permutation import Permutation, orders
from lm_eval.orders.results import ChoiceOrder
from lm_eval.orders.scoring import (
    DEBIASED,
    OVER_ORDERS,
    DocInOrder,
    OrderTally,
    debiased,
    order_values,
)
from lm_eval.requests import DocRequests
from lm_eval.scoring.metrics import ChoiceOutcome, Outcome, TextOutcome
from lm_eval.tasks.prompts import DocPrompt

CYCLIC = Permutation("cyclic")
LABELS = ("A", "B", "C")
ORDERS = orders(3, "cyclic")

Views = list[DocInOrder]


def view(order: tuple[int, ...], gold: int, outcome: Outcome) -> DocInOrder:
    asked = DocPrompt(Turn("Q?"), (), LABELS, (order.index(gold),), "")
    doc = DocRequests(0, asked, (), Prompt(()), ())
    return DocInOrder(doc, [], order, (outcome,))


def read(position: int | None) -> TextOutcome:
    reading = NO_ANSWER if position is None else Reading(position, "rule", (0, 1))
    return TextOutcome("", reading, (), "choice", LABELS)


def scored(logprobs: tuple[float, ...]) -> ChoiceOutcome:
    return ChoiceOutcome(logprobs, (False,) * 3, LABELS, ())


golds = st.integers(0, 2)
positions = st.none() | st.integers(0, 2)
numbers = st.tuples(*[st.integers(-20, 0).map(float)] * 3)


@st.composite
def voting(draw: st.DrawFn) -> Views:
    gold = draw(golds)
    return [view(order, gold, read(draw(positions))) for order in ORDERS]


@st.composite
def scoring(draw: st.DrawFn) -> Views:
    gold = draw(golds)
    return [view(order, gold, scored(draw(numbers))) for order in ORDERS]


def tallied(docs: list[Views]) -> ChoiceOrder:
    tally = OrderTally(CYCLIC)
    for views in docs:
        tally.add(views, debiased(views), LABELS)
    return tally.result({})


some_docs = st.lists(voting(), min_size=1, max_size=12) | st.lists(
    scoring(), min_size=1, max_size=12
)


@given(some_docs)
def test_scores_by_position_average_to_the_mean_over_orders(docs: list[Views]) -> None:
    over = [order_values(views, debiased(views), CYCLIC)[OVER_ORDERS.name] for views in docs]
    moved = [one.value for one in tallied(docs).moved if one is not None]
    assert len(moved) == 3  # every gold stands everywhere once
    assert math.fsum(moved) / 3 == pytest.approx(math.fsum(over) / len(over))


@given(some_docs, st.randoms())
def test_docs_may_come_in_any_order(docs: list[Views], rng: object) -> None:
    shuffled = list(docs)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert tallied(shuffled).to_dict() == tallied(docs).to_dict()


@given(some_docs)
def test_shares_are_shares(docs: list[Views]) -> None:
    found = tallied(docs)
    is_answered = any(view.position is not None for views in docs for view in views)
    assert sum(one or 0 for one in found.picked_over_orders) == pytest.approx(float(is_answered))
    assert found.permuted == len(docs)
    assert found.cost == 3
    assert found.changed is not None
    picked = [{one.place for one in views} - {None} for views in docs]
    assert round(found.changed.value * len(docs)) == sum(len(places) > 1 for places in picked)


@given(voting())
def test_the_vote_is_that_of_what_was_read(views: Views) -> None:
    answer = debiased(views)
    votes = [one.place for one in views if one.place is not None]
    assert set(answer.places) == {
        p for p in votes if votes.count(p) == max(map(votes.count, votes))
    }
    gold = views[0].order[views[0].gold[0]]
    value = order_values(views, answer, CYCLIC)[DEBIASED.name]
    assert value == ((gold in answer.places) / len(answer.places) if answer.places else 0.0)


@given(golds, numbers)
def test_orders_that_agree_on_choices_are_right_or_wrong_together(
    gold: int, beliefs: tuple[float, ...]
) -> None:
    views = [view(o, gold, scored(tuple(beliefs[place] for place in o))) for o in ORDERS]
    answer = debiased(views)
    assert set(answer.places) == {at for at, one in enumerate(beliefs) if one == max(beliefs)}
