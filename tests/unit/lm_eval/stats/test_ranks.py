"""Rank stability against scipy, by hand, and on scores whose order is known."""

from __future__ import annotations

import json
import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from lm_eval.stats.ranks import rank_stability, tau_b


def items_with(means, num_items: int = 100) -> np.ndarray:
    """Scores whose means over the items are exactly ``means`` (models × formats, hundredths)."""
    counts = np.rint(np.array(means) * num_items).astype(int)
    return (np.arange(num_items)[None, None, :] < counts[:, :, None]).astype(float)


def tables(min_models=3, max_models=6):
    shapes = st.tuples(st.integers(min_models, max_models), st.integers(2, 5))
    return shapes.flatmap(
        lambda shape: st.lists(
            st.lists(st.integers(0, 5), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        )
    )


@settings(deadline=None)
@given(tables())
def test_w_is_friedmans_statistic(table):
    scores = np.array(table, dtype=float)
    num_models, num_formats = scores.shape
    found = rank_stability(scores[:, :, None], resamples=0).w.value
    if (scores == scores[:1]).all():
        assert found is None
        return
    # Friedman's blocks are the formats, its treatments the models. It wants three treatments.
    statistic = scipy_stats.friedmanchisquare(*scores).statistic
    assert found == pytest.approx(statistic / (num_formats * (num_models - 1)))


@settings(deadline=None)
@given(tables(min_models=2))
def test_taus_against_scipy(table):
    means = np.array(table, dtype=float)
    found = rank_stability(means[:, :, None], resamples=0)
    oracle = {
        pair: scipy_stats.kendalltau(means[:, pair[0]], means[:, pair[1]]).statistic
        for pair in combinations(range(means.shape[1]), 2)
    }
    for (first, second), value in oracle.items():
        expected = None if math.isnan(value) else pytest.approx(value)
        assert found.taus[first][second] == expected
        assert found.taus[second][first] == expected
    known = [value for value in oracle.values() if not math.isnan(value)]
    assert found.tau.value == (pytest.approx(np.mean(known)) if known else None)
    for place, each in enumerate(found.tau_by_format):
        others = np.delete(means, place, axis=1).mean(axis=1).round(9)
        value = scipy_stats.kendalltau(means[:, place], others).statistic
        assert each.value == (None if math.isnan(value) else pytest.approx(value))


@settings(deadline=None)
@given(tables(min_models=2), st.sampled_from([0.0, 1.0, 2.0]))
def test_flips_and_reversals_by_counting(table, margin):
    means = np.array(table, dtype=float)
    num_models, num_formats = means.shape
    found = rank_stability(means[:, :, None], resamples=0, margin=margin)
    flips = [
        (means[a, f] - means[b, f]) * (means[a, g] - means[b, g]) < 0
        for a, b in combinations(range(num_models), 2)
        for f, g in combinations(range(num_formats), 2)
    ]
    assert found.flip_rate.value == pytest.approx(np.mean(flips))
    reversed_ = [
        means[b, g] - means[a, g] >= margin and means[b, g] > means[a, g]
        for a, b in permutations(range(num_models), 2)
        for f, g in permutations(range(num_formats), 2)
        if means[a, f] - means[b, f] >= margin and means[a, f] > means[b, f]
    ]
    assert found.reversal.value == (pytest.approx(np.mean(reversed_)) if reversed_ else None)


def test_a_known_table():
    """Three models under three formats; the third format turns the order round."""
    scores = items_with([[0.6, 0.7, 0.45], [0.5, 0.6, 0.5], [0.4, 0.5, 0.55]])
    found = rank_stability(scores, resamples=50)
    assert found.w.value == pytest.approx(1 / 9)  # rank sums 7, 6, 5: 12 · 2 / (9 · 24)
    assert found.tau.value == pytest.approx(-1 / 3)
    assert found.flip_rate.value == pytest.approx(6 / 9)
    assert found.reversal.value == pytest.approx(2 / 3)
    assert found.taus[0] == (1, 1, -1)
    assert found.most_typical == 0
    assert found.tau_by_format[2].value == -1


def test_the_margin_counts_differences_as_large_as_itself():
    """0.62 − 0.60 is 0.020000000000000018, and 0.60 − 0.62 no less: both are 2 points."""
    scores = items_with([[0.62, 0.60], [0.60, 0.62]])
    assert rank_stability(scores, resamples=0).reversal.value == 1
    assert rank_stability(scores, resamples=0, margin=0.021).reversal.value is None


def test_stable_models_stay_in_order():
    scores = items_with([[0.9, 0.8], [0.5, 0.4], [0.2, 0.1]], 200)
    found = rank_stability(scores, resamples=200)
    assert found.w.value == pytest.approx(1)
    assert found.tau.value == pytest.approx(1)
    assert (found.flip_rate.value, found.reversal.value) == (0, 0)
    assert found.flip_rate.estimate.stderr == 0
    assert (found.flip_rate.estimate.low, found.flip_rate.estimate.high) == (0, 0)
    assert found.halves.same_tau == pytest.approx(1)
    assert found.halves.across_w == pytest.approx(1)


def test_noise_alone_is_seen_in_the_halves():
    """Models that do not differ: formats rank them at random, and so does one format twice."""
    rng = np.random.default_rng(2)
    scores = (rng.random((4, 6, 400)) < 0.5).astype(float)
    halves = rank_stability(scores, resamples=0).halves
    assert halves.same_tau == pytest.approx(halves.across_tau, abs=0.15)
    assert abs(halves.across_tau) < 0.15
    assert halves.same_w == pytest.approx(0.5, abs=0.1)


def test_formats_that_change_the_order_are_seen_in_the_halves():
    rng = np.random.default_rng(2)
    chances = np.array([[0.8, 0.4], [0.6, 0.6], [0.4, 0.8]])
    scores = (rng.random((3, 2, 600)) < chances[:, :, None]).astype(float)
    halves = rank_stability(scores, resamples=0).halves
    assert halves.same_tau > 0.95
    assert halves.across_tau < -0.95


def test_intervals_come_from_resampled_items():
    rng = np.random.default_rng(4)
    chances = np.linspace(0.4, 0.7, 4)[:, None, None]
    scores = (rng.random((4, 3, 150)) < chances).astype(float)
    found = rank_stability(scores, resamples=400)
    for each in (found.w, found.tau, *found.tau_by_format, found.flip_rate, found.reversal):
        assert each.estimate.method == "shrunk bootstrap over items"
        assert each.estimate.low <= each.estimate.high
        assert each.estimate.low >= -1
        assert each.estimate.high <= 1
    assert rank_stability(scores, resamples=400) == found
    assert rank_stability(scores, resamples=400, seed=9) != found


def test_flips_by_noise_alone_are_within_the_interval_of_none():
    """Close models, formats without an effect: orders change, and the interval still holds W = 1."""
    rng = np.random.default_rng(8)
    items = rng.normal(0, 1.5, 150)
    held, instable = 0, 0
    for _ in range(60):
        chances = 1 / (1 + np.exp(-(items + np.array([0.0, 0.3, 0.6, 0.9])[:, None, None])))
        found = rank_stability((rng.random((4, 6, 150)) < chances).astype(float), resamples=200)
        held += found.w.estimate.high > 0.999 and found.flip_rate.estimate.low == 0
        instable += found.w.value < 0.97
    assert instable >= 45
    assert held >= 54


def test_real_changes_of_order_are_outside_the_interval_of_none():
    rng = np.random.default_rng(8)
    chances = np.array([[0.8, 0.4, 0.5], [0.6, 0.6, 0.6], [0.4, 0.8, 0.7]])[:, :, None]
    found = rank_stability((rng.random((3, 3, 300)) < chances).astype(float), resamples=200)
    assert found.w.estimate.high < 0.5
    assert found.flip_rate.estimate.low > 0.2


def test_clusters_are_drawn_as_wholes():
    rng = np.random.default_rng(4)
    scores = (rng.random((3, 3, 40)) < 0.5).astype(float)
    copies = np.repeat(scores, 6, axis=2)
    names = np.repeat(range(40), 6).tolist()
    single = rank_stability(scores, resamples=600)
    clustered = rank_stability(copies, clusters=names, resamples=600)
    assert clustered.num_clusters == 40
    assert clustered.w.estimate.method == "shrunk bootstrap over clusters"
    assert clustered.w.estimate.stderr == pytest.approx(single.w.estimate.stderr, rel=0.15)


# ---- odd input


def test_two_models_have_no_w():
    found = rank_stability(items_with([[0.6, 0.5], [0.4, 0.7]]), resamples=20)
    assert found.w.value is None
    assert found.w.reason == "Kendall's W needs three models or more"
    assert found.tau.value == -1
    assert found.flip_rate.value == 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_models_that_all_tie_have_no_order():
    found = rank_stability(np.ones((3, 2, 10)), resamples=20)
    assert (found.w.value, found.tau.value, found.most_typical) == (None, None, None)
    assert found.w.reason == "undefined: a format ties all models"
    assert found.flip_rate.value == 0
    assert found.reversal.reason == "no two models lie 0.02 apart anywhere"
    assert found.halves.same_tau is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_one_item_has_no_interval_and_no_halves():
    found = rank_stability(np.array([[[1.0], [0.0]], [[0.0], [1.0]], [[0.5], [0.5]]]))
    assert found.halves is None
    assert found.tau.estimate.low is None
    assert "two items" in found.tau.reason


def test_nan_is_named():
    scores = np.zeros((2, 2, 3))
    scores[1, 0, 2] = math.nan
    with pytest.raises(ValueError, match="model 1, format 0, item 2 is nan"):
        rank_stability(scores)


def test_tau_b_of_many_draws_at_once():
    first = np.array([[1, 2, 3], [3, 2, 1.0]])
    assert tau_b(first, first[::-1]) == pytest.approx([-1, -1])


@pytest.mark.parametrize(
    "scores",
    [
        [["10101", "01111", "00100"], ["10001", "00100", "00110"]],
        [["1100011", "0011101", "0011011"], ["0100000", "0100100", "1100100"]],
    ],
)
def test_the_mean_tau_of_three_formats_does_not_reach_minus_one(scores):
    """Of three orders of two models, two are the same, even where a draw ties the models under one."""
    table = np.array([[[int(each) for each in row] for row in model] for model in scores])
    found = rank_stability(table, resamples=200, seed=1)
    for measured, least, most in (
        (found.tau, -1 / 3, 1.0),
        (found.flip_rate, 0.0, 2 / 3),
        (found.reversal, 0.0, 2 / 3),
    ):
        estimate = measured.estimate
        assert estimate is not None
        assert least - 1e-9 <= estimate.low <= estimate.value <= estimate.high <= most + 1e-9


def test_ends_of_an_interval_are_values_that_an_order_can_have():
    """Of two models, a format's agreement with the others is 1 or −1, and nothing in between."""
    rng = np.random.default_rng(5)
    for seed in range(30):
        scores = (rng.random((2, 4, 40)) < 0.55).astype(float)
        for measured in rank_stability(scores, resamples=100, seed=seed).tau_by_format:
            estimate = measured.estimate
            if estimate is not None and estimate.low is not None:
                assert {estimate.low, estimate.high} <= {-1.0, 1.0}


def test_rank_sums_that_cannot_be_equal_keep_w_above_zero():
    """Four models under three formats: the sums of ranks cannot all be 7.5."""
    means = [[0.4, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.1, 0.4], [0.1, 0.2, 0.1]]
    noise = np.random.default_rng(6).random((4, 3, 12)) < np.array(means)[:, :, None]
    estimate = rank_stability(noise.astype(float), resamples=500).w.estimate
    assert estimate is not None
    assert estimate.low >= min(estimate.value, 3 / (9 * 15)) - 1e-12
