"""What the exact test finds: against every outcome that there can be, and against scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lm_eval.stats.mcnemar import (
    Tail,
    at_most,
    exact_detectable,
    exact_items,
    exact_power,
    exactly,
    mcnemar,
)
from lm_eval.stats.power import items_needed

SHARES = st.sampled_from([0.02, 0.1, 0.37, 0.5, 0.8, 1.0])


def by_every_outcome(difference: float, n: int, discordant: float, alpha: float) -> float:
    """The chance of a p below ``alpha``, added up over all numbers of wins and losses."""
    win, lose = (discordant + difference) / 2, (discordant - difference) / 2
    outcomes = stats.multinomial(n, [win, lose, 1 - discordant])
    return math.fsum(
        outcomes.pmf([wins, losses, n - wins - losses])
        for wins in range(n + 1)
        for losses in range(n + 1 - wins)
        if mcnemar(wins, losses)[0] < alpha
    )


@settings(max_examples=25)
@given(st.integers(1, 24), SHARES, st.floats(0, 1), st.sampled_from([0.01, 0.05, 0.2]))
def test_power_is_the_sum_over_all_outcomes(
    n: int, discordant: float, part: float, alpha: float
) -> None:
    found = exact_power(part * discordant, n, discordant=discordant, alpha=alpha)
    assert found == pytest.approx(
        by_every_outcome(part * discordant, n, discordant, alpha), abs=1e-9
    )


@given(st.integers(0, 3000), st.floats(0.001, 0.999), st.floats(0, 1))
def test_binomials_are_those_of_scipy(n: int, p: float, part: float) -> None:
    k = int(part * n)
    assert at_most(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-9, abs=1e-60)
    assert exactly(k, n, p) == pytest.approx(stats.binom.pmf(k, n, p), rel=1e-9, abs=1e-60)


@given(st.integers(1, 300), st.integers(0, 40), st.floats(0.05, 0.95))
def test_a_tail_that_is_moved_on_is_that_of_the_place_it_comes_to(n: int, k: int, p: float) -> None:
    tail = Tail(min(k, n), n, p)
    for _ in range(20):
        tail.add_trial()
        expected = tail.value_of_next
        tail.add_success()
        assert tail.value == expected == pytest.approx(at_most(tail.k, tail.n, p), abs=1e-9)


@pytest.mark.parametrize(
    ("difference", "discordant"), [(0.03, 0.2), (0.12, 0.28), (0.02, 0.02), (0.3, 1.0)]
)
def test_items_are_the_fewest_from_which_on_the_test_finds_it(
    difference: float, discordant: float
) -> None:
    n = exact_items(difference, discordant=discordant)
    assert n is not None
    powers = [exact_power(difference, n + more, discordant=discordant) for more in range(-1, 12)]
    assert powers[0] is not None
    assert powers[0] < 0.8 <= min(one for one in powers[1:] if one is not None)
    # The formula plans with fewer, on which the test finds a little less than was asked for.
    planned = math.ceil(items_needed(difference, variance=discordant))
    found = exact_power(difference, planned, discordant=discordant)
    assert planned <= n <= 1.2 * planned
    assert found is not None
    assert 0.75 < found <= powers[1]  # type: ignore[operator]


def test_known_answers() -> None:
    assert exact_power(0.03, 1745, discordant=0.2) == pytest.approx(0.78729, abs=1e-5)
    assert exact_items(0.03, discordant=0.2) == 1800
    # Six of six on one side are the least that has a p below 0.05.
    assert exact_power(1.0, 6, discordant=1.0) == pytest.approx(1.0)
    assert exact_power(1.0, 5, discordant=1.0) == 0.0


def test_the_smallest_difference_is_found_as_often_as_asked() -> None:
    smallest = exact_detectable(200, discordant=0.2)
    assert smallest is not None
    assert exact_power(smallest, 200, discordant=0.2) == pytest.approx(0.8, abs=1e-9)
    assert exact_detectable(5, discordant=0.2) is None


def test_very_many_items_are_left_to_the_formula() -> None:
    assert exact_power(0.001, 3_000_000, discordant=0.1) is None
    assert exact_items(0.0001, discordant=0.1) is None
    assert exact_detectable(3_000_000, discordant=0.1) is None
