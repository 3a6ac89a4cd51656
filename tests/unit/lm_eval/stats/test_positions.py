"""Debiasing, where the bias is known because the test put it there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.orders.permutation import orders
from lm_eval.stats.positions import (
    best,
    content,
    log_normalised,
    mean_prior,
    most_voted,
    position_prior,
    probabilities,
    recall_spread,
    without_prior,
)

PRIOR = (0.5, 0.2, 0.2, 0.1)
CONTENT = (0.28, 0.36, 0.20, 0.16)


def answered(prior: Sequence[float], beliefs: Sequence[float], order: Sequence[int]) -> list[float]:
    """The log-probabilities of positions: prior of the position × belief in what stands there."""
    return log_normalised(
        [math.log(prior[at] * beliefs[choice]) for at, choice in enumerate(order)]
    )


def shares(count: int) -> st.SearchStrategy[tuple[float, ...]]:
    weights = st.lists(st.floats(0.01, 1), min_size=count, max_size=count)
    return weights.map(lambda some: tuple(one / sum(some) for one in some))


@pytest.mark.parametrize("mode", ["cyclic", "full"])
def test_prior_and_content_are_recovered_exactly(mode: str) -> None:
    rows = [(order, answered(PRIOR, CONTENT, order)) for order in orders(4, mode)]  # type: ignore[arg-type]
    raw = rows[0][1]
    assert raw.index(max(raw)) == 0
    assert best(content(rows)) == (1,)
    assert content(rows) == pytest.approx(CONTENT, abs=1e-12)
    assert position_prior([row for _, row in rows]) == pytest.approx(PRIOR, abs=1e-12)
    assert best(without_prior(raw, PRIOR)) == (1,)
    assert without_prior(raw, PRIOR) == pytest.approx(CONTENT, abs=1e-12)


@given(st.data(), st.integers(2, 6))
def test_any_prior_times_any_content_is_taken_apart(data: st.DataObject, count: int) -> None:
    prior, beliefs = data.draw(shares(count)), data.draw(shares(count))
    rows = [(order, answered(prior, beliefs, order)) for order in orders(count, "cyclic")]
    assert content(rows) == pytest.approx(beliefs, abs=1e-9)
    learnt = position_prior([row for _, row in rows])
    assert learnt == pytest.approx(prior, abs=1e-9)
    assert without_prior(rows[0][1], learnt) == pytest.approx(beliefs, abs=1e-9)


@given(st.data(), st.integers(2, 5))
def test_a_constant_added_to_an_order_changes_nothing(data: st.DataObject, count: int) -> None:
    """Scores need not be normalised: only what is between the positions of one order counts."""
    some = orders(count, "cyclic")
    numbers = st.lists(st.floats(-50, 0), min_size=count, max_size=count)
    rows = [(order, data.draw(numbers)) for order in some]
    shifts = data.draw(st.lists(st.floats(-100, 100), min_size=count, max_size=count))
    moved = [
        (order, [one + shift for one in row])
        for (order, row), shift in zip(rows, shifts, strict=True)
    ]
    assert content(moved) == pytest.approx(content(rows), abs=1e-9)
    assert math.fsum(content(rows)) == pytest.approx(1)


def test_a_model_that_only_sees_positions_prefers_nothing() -> None:
    uniform = (0.25,) * 4
    rows = [(order, answered(PRIOR, uniform, order)) for order in orders(4, "cyclic")]
    assert best(content(rows)) == (0, 1, 2, 3)
    assert best(without_prior(rows[0][1], PRIOR)) == (0, 1, 2, 3)


def test_impossible_choices_stay_impossible_and_nothing_is_nan() -> None:
    nothing = -math.inf
    assert probabilities([nothing, nothing]) == pytest.approx((0.5, 0.5))
    assert content([((0, 1), [nothing, -1.0]), ((1, 0), [-2.0, -1.0])]) == (0.0, 1.0)
    assert without_prior([-1.0, nothing], (0.5, 0.5)) == (1.0, 0.0)
    assert without_prior([-1.0, -1.0], (1.0, 0.0)) == (1.0, 0.0)


def test_ties_are_all_named() -> None:
    assert best((0.4, 0.4 * (1 + 1e-13), 0.2)) == (0, 1)
    assert best((0.4, 0.4001, 0.2)) == (1,)
    assert most_voted([2, 1, 2, 0]) == (2,)
    assert most_voted([2, 1, 2, 1, 0]) == (1, 2)
    assert most_voted([]) == ()


def test_priors_are_averaged_plainly() -> None:
    assert mean_prior([(0.6, 0.4), (0.2, 0.8)]) == pytest.approx((0.4, 0.6))


def test_rstd_is_the_standard_deviation_of_the_population_in_points() -> None:
    assert recall_spread([0.5, 0.7]) == pytest.approx(10)
    assert recall_spread([0.5, None, 0.7]) == pytest.approx(10)
    assert recall_spread([0.682, 0.531, 0.5, 0.412]) == pytest.approx(
        100 * statistics.pstdev([0.682, 0.531, 0.5, 0.412])
    )
    assert recall_spread([0.5, None]) is None
    assert recall_spread([]) is None
