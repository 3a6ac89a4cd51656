"""Sample sizes: known answers, statsmodels, and a simulation that finds what it was planned for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import NormalIndPower

from lm_eval.stats.paired import paired_many
from lm_eval.stats.power import (
    detectable,
    factor,
    items_needed,
    power_of,
    repeats_needed,
    total_variance,
    variance_of_difference,
)

NINTH, SIXTH = 1 / 9, 1 / 6


def test_known_answers() -> None:
    assert factor() == pytest.approx(2.8016, abs=5e-5)
    assert items_needed(0.03, variance=NINTH) == pytest.approx(968.997, abs=5e-4)
    noisy, ten = (total_variance(NINTH, SIXTH, repeats) for repeats in (1, 10))
    assert items_needed(0.03, variance=noisy) == pytest.approx(3875.99, abs=5e-3)
    assert items_needed(0.03, variance=ten) == pytest.approx(1259.70, abs=5e-3)
    assert detectable(198, variance=noisy) == pytest.approx(0.1327, abs=5e-5)
    assert detectable(198, variance=ten) == pytest.approx(0.0757, abs=5e-5)


@given(st.floats(0.01, 0.5), st.floats(0.01, 1), st.floats(0.001, 0.2), st.floats(0.3, 0.99))
def test_statsmodels_agrees(delta: float, variance: float, alpha: float, power: float) -> None:
    found = items_needed(delta, variance=variance, alpha=alpha, power=power)
    # One sample, as a pair has one difference: ratio 0 leaves the second sample out.
    chance = NormalIndPower(ddof=0).power
    effect = delta / math.sqrt(variance)
    # The formula leaves out that the wrong direction may turn up as significant.
    assert chance(effect, found, alpha / 2, ratio=0, alternative="larger") == pytest.approx(power)
    both_ways = chance(effect, found, alpha, ratio=0)
    assert power_of(delta, found, variance=variance, alpha=alpha) == pytest.approx(both_ways)


@given(st.floats(0.01, 0.5), st.floats(0.01, 1), st.floats(0, 1), st.integers(1, 20))
def test_items_and_differences_are_each_others_inverse(
    delta: float, variance: float, within: float, repeats: int
) -> None:
    total = total_variance(variance, within, repeats)
    n = items_needed(delta, variance=total)
    if n >= 1:
        assert detectable(n, variance=total) == pytest.approx(delta)
    assert items_needed(-delta, variance=total) == n


def test_repeats() -> None:
    noisy = {"variance": NINTH, "within": SIXTH}
    found = repeats_needed(0.03, 1259.70, **noisy)
    assert found == pytest.approx(10, abs=1e-3)
    assert repeats_needed(0.03, 968, **noisy) is None  # the items alone take 969
    assert repeats_needed(0.03, 100_000, **noisy) == 1.0
    assert repeats_needed(0.03, 969, variance=NINTH, within=0) == 1.0
    assert repeats_needed(0.03, 960, variance=NINTH, within=0) is None


def test_planned_items_find_the_difference_in_four_of_five_runs() -> None:
    rng = np.random.default_rng(9)
    win, lose = 0.20, 0.08
    n = math.ceil(items_needed(win - lose, variance=win + lose))
    draws = rng.random((400, n))
    found = 0
    for draw in draws:
        scores = np.stack([(draw < win), (draw >= win) & (draw < win + lose)]).astype(float)
        ((_, _, pair),) = paired_many(scores)
        assert pair.p_mid is not None
        found += pair.p_mid <= 0.05
    assert 0.74 <= found / 400 <= 0.88


def test_the_variance_of_a_difference() -> None:
    assert variance_of_difference(0.7, 0.5) == pytest.approx(0.21)
    rng = np.random.default_rng(1)
    both = rng.random(200_000)
    a, b = both < 0.7, np.where(rng.random(200_000) < 0.5, both, rng.random(200_000)) < 0.7
    assert np.var(a * 1.0 - b) == pytest.approx(variance_of_difference(0.7, 0.5), abs=0.003)
