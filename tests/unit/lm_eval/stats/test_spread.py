"""The spread of formats: exact answers, oracles, and how often the test rejects without an effect."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from lm_eval.stats import spread as spread_null
from lm_eval.stats.clusters import unit_sums
from lm_eval.stats.resampling import kinds, resampled_sums
from lm_eval.stats.spread import resampled_means, spread

RNG = np.random.default_rng(7)


def no_effect(num_formats: int, num_items: int, rng: np.random.Generator) -> np.ndarray:
    """Right or wrong by the item's own chance, whatever the format."""
    return (rng.random((num_formats, num_items)) < rng.random(num_items)).astype(float)


def binary_tables(min_formats=2, max_formats=5, max_items=12):
    shapes = st.tuples(st.integers(min_formats, max_formats), st.integers(1, max_items))
    return shapes.flatmap(
        lambda shape: st.lists(
            st.lists(st.integers(0, 1), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        )
    )


# ---- two formats


@given(binary_tables(max_formats=2, max_items=60))
def test_two_formats_are_mcnemars_exact_test(table):
    scores = np.array(table)
    found = spread(scores, resamples=50)
    wins = int((scores[0] > scores[1]).sum())
    losses = int((scores[0] < scores[1]).sum())
    expected = scipy_stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert found.p == pytest.approx(expected)
    assert found.null_method == ("exact binomial" if wins + losses else "none")
    assert found.null_permutations == 0


def test_seven_to_one():
    scores = np.array([[1] * 7 + [0] + [1] * 4, [0] * 7 + [1] + [1] * 4])
    found = spread(scores, resamples=50)
    assert found.p == 0.0703125
    assert found.value == pytest.approx(0.5)
    chances = [Fraction(math.comb(8, k), 2**8) for k in range(9)]
    mean = sum(chance * abs(2 * k - 8) for k, chance in enumerate(chances)) / 12
    assert found.null_mean == pytest.approx(float(mean))
    assert found.null_95 == pytest.approx(6 / 12)  # P(|2X − 8| ≤ 4) = 238/256, and ≤ 6: 254/256


def test_without_draws_everything_but_intervals_is_the_same():
    scores = np.random.default_rng(3).integers(0, 2, (3, 60))
    full, quick = spread(scores), spread(scores, draws=False)
    drawn = ("low", "high", "safe_low", "safe_high", "bootstrap_mean", "p_best", "p_worst")
    nothing = dict.fromkeys(drawn[:5]) | {"p_best": (), "p_worst": ()}
    assert quick == dataclasses.replace(full, **nothing)


def test_two_formats_with_many_items_stay_exact():
    scores = np.zeros((2, 14_000))
    scores[0, :3_000] = 1
    scores[1, 2_000:4_800] = 1
    found = spread(scores, resamples=50)
    assert found.null_method == "exact binomial"
    assert found.p == pytest.approx(scipy_stats.binomtest(2000, 3800).pvalue)
    assert found.null_95 * 14_000 == pytest.approx(1.96 * math.sqrt(3800), abs=2)


def test_two_formats_with_equal_steps_of_any_size_are_exact():
    """Grades of 0 and 0.5, or clusters of two that always move together."""
    halves = spread(np.array([[0.5, 0.5, 0.5, 0, 1], [0, 0, 0, 0.5, 1]]), resamples=50)
    assert (halves.null_method, halves.p) == ("exact binomial", 0.625)
    doubled = np.repeat([[1, 1, 1, 0, 1], [0, 0, 0, 1, 1]], 2, axis=1)
    clustered = spread(doubled, clusters=np.repeat(range(5), 2).tolist(), resamples=50)
    assert (clustered.null_method, clustered.p) == ("exact binomial", 0.625)


# ---- the noise floor against all orders


def all_orders(scores: np.ndarray) -> list[float]:
    """The spread of every arrangement of the formats within the items."""
    columns = [list(permutations(column)) for column in scores.T]
    return [float(np.ptp(np.sum(order, axis=0))) / scores.shape[1] for order in product(*columns)]


@pytest.mark.parametrize(
    "scores",
    [
        [[1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]],
        [[0.5, 1.0, 0.25, 0.0], [0.0, 1.0, 0.5, 0.0], [0.75, 0.0, 0.5, 1.0]],
    ],
    ids=["binary", "graded"],
)
def test_permutations_agree_with_all_orders(scores):
    table = np.array(scores)
    every = np.array(all_orders(table))
    found = spread(table, resamples=20_000)
    assert found.null_method == "permutations"
    assert found.null_permutations == 20_000
    exact = float((every >= found.value - 1e-12).mean())
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000) + 1e-4)
    assert found.null_mean == pytest.approx(every.mean(), abs=4 * every.std() / math.sqrt(20_000))
    assert found.excess == pytest.approx(found.value - found.null_mean)


def test_clusters_are_permuted_as_wholes():
    """Three items of one cluster are one observation: the test must not count them three times."""
    table = np.repeat([[1, 1, 1, 1, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]], 3, axis=1)
    names = np.repeat(list("abcde"), 3).tolist()
    every = np.array(all_orders(table[:, ::3]))
    found = spread(table, clusters=names, resamples=20_000)
    exact = float((every >= found.value - 1e-12).mean())
    assert found.p == pytest.approx(exact, abs=0.01)
    assert found.num_clusters == 5
    assert spread(table, resamples=2000).p < exact / 5


def test_the_quick_draw_of_subsets_has_the_exact_covariance():
    """Binary units are drawn by classes; each total's variance and covariance is known exactly."""
    units = no_effect(6, 400, np.random.default_rng(3)).T
    totals = np.concatenate(
        list(spread_null._subset_totals(units, 40_000, np.random.default_rng(1)))
    )
    shares = units.mean(axis=1)
    variance = float((shares * (1 - shares)).sum())
    expected = variance * 6 / 5 * (np.eye(6) - 1 / 6)
    assert np.cov(totals, rowvar=False) == pytest.approx(expected, abs=0.04 * variance)
    assert (totals.sum(axis=1) == units.sum()).all()
    assert totals.mean(axis=0) == pytest.approx(units.sum() / 6, abs=5 * math.sqrt(variance / 4e4))


# ---- the normal limit


@pytest.mark.parametrize("size", [2, 3, 10, 50])
def test_range_of_normals_against_scipy(size):
    mean, point = spread_null.normal_range(size)
    oracle = scipy_stats.studentized_range
    assert point == pytest.approx(float(oracle.ppf(0.95, size, np.inf)), abs=1e-6)
    assert spread_null.range_tail(2.5, size) == pytest.approx(float(oracle.sf(2.5, size, np.inf)))
    draws = np.ptp(np.random.default_rng(0).standard_normal((20_000, size)), axis=1)
    assert mean == pytest.approx(draws.mean(), abs=0.03)


def test_tail_of_the_range_stays_positive_and_falls():
    tails = [spread_null.range_tail(gap, 20) for gap in np.linspace(0, 30, 121)]
    assert tails[0] == pytest.approx(1)
    assert all(later < earlier for earlier, later in pairwise(tails[8:]))
    assert tails[-1] > 0


@pytest.mark.parametrize("effect", [0.0, 0.03, 0.06])
@pytest.mark.parametrize("is_graded", [False, True])
def test_normal_limit_agrees_with_permutations(effect, is_graded):
    rng = np.random.default_rng(11)
    table = no_effect(8, 500, rng)
    table[0, rng.random(500) < effect] = 1
    if is_graded:
        table = table * rng.choice([0.3, 0.7, 1.0], 500)
    units = table.T
    observed = float(np.ptp(units.sum(axis=0)))
    limit = spread_null.normal_limit(units, observed)
    drawn = spread_null.permuted(units, observed, 10_000, rng)
    assert limit.method == "normal limit"
    assert limit.p == pytest.approx(drawn.p, abs=0.015)
    assert limit.mean == pytest.approx(drawn.mean, rel=0.02)
    assert limit.point_95 == pytest.approx(drawn.point_95, rel=0.04)


def test_beyond_a_hundred_million_cells_the_normal_limit_is_named():
    rng = np.random.default_rng(5)
    table = no_effect(20, 700, rng)
    found = spread(table)
    assert (found.null_method, found.null_permutations) == ("normal limit", 0)
    assert spread(table, resamples=500).null_method == "permutations"


def test_items_on_which_all_formats_agree_are_not_permuted():
    table = np.zeros((20, 14_000))
    table[3, :12] = 1
    found = spread(table)
    assert found.null_method == "permutations"
    assert found.p == pytest.approx(1 / 10_001)


def test_too_few_items_for_the_limit_get_fewer_permutations():
    units = np.random.default_rng(2).random((20, 30))
    found = spread_null.noise_floor(units, 10_000, RNG, most_cells=1_000_000)
    assert (found.method, found.permutations) == ("permutations", 1_000_000 // 600)
    fewest = spread_null.noise_floor(units, 10_000, RNG, most_cells=1_000)
    assert (fewest.method, fewest.permutations) == ("permutations", 999)


@given(binary_tables(max_formats=6))
def test_right_or_wrong_units_are_ordered_as_others_are(table):
    units = np.array(table, dtype=float).T
    doubled = spread_null._canonical(2 * units)
    assert spread_null._canonical(units).tolist() == (doubled / 2).tolist()


# ---- how often the test rejects


def test_without_an_effect_one_in_twenty_is_rejected():
    """2,000 tables of 4 formats × 300 items, 999 permutations each: 5 % ± 1.5 %."""
    rng = np.random.default_rng(2024)
    rejected = 0
    for _ in range(2000):
        units = no_effect(4, 300, rng).T
        rejected += spread_null.noise_floor(units, 999, rng).p <= 0.05
    assert rejected / 2000 == pytest.approx(0.05, abs=0.015)


def test_an_effect_is_found():
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(40):
        table = no_effect(4, 300, rng)
        table[2, rng.random(300) < 0.25] = 0
        found += spread(table, resamples=199).p <= 0.05
    assert found >= 36


@pytest.mark.parametrize(
    ("num_formats", "num_items", "mean", "point"), [(10, 150, 0.11, 0.16), (4, 60, 0.11, 0.20)]
)
def test_size_of_the_noise_floor(num_formats, num_items, mean, point):
    """A 15-point spread of ten formats on 150 items is nothing."""
    rng = np.random.default_rng(4)
    tables = [
        (rng.random((num_formats, num_items)) < 0.05 + 0.9 * rng.random(num_items)).astype(float)
        for _ in range(40)
    ]
    found = [spread(table, resamples=500) for table in tables]
    assert np.mean([each.null_mean for each in found]) == pytest.approx(mean, abs=0.006)
    assert np.mean([each.null_95 for each in found]) == pytest.approx(point, abs=0.01)


# ---- the bootstrap


def test_resampled_means_have_the_moments_of_the_items():
    rng = np.random.default_rng(6)
    for num_items in (300, 5000):  # drawn one by one, and as weights
        for table in (no_effect(3, num_items, rng), rng.random((3, num_items))):
            drawn = resampled_means(*unit_sums(table, None), 8000, np.random.default_rng([1, 1]))
            covariance = np.cov(table, ddof=0) / num_items
            assert np.cov(drawn, rowvar=False) == pytest.approx(
                covariance, abs=0.08 * covariance.max()
            )
            assert drawn.mean(axis=0) == pytest.approx(
                table.mean(axis=1), abs=5 * math.sqrt(covariance.max() / 8000)
            )


def test_weights_and_kinds_and_single_draws_agree():
    """The same items in a form that takes each of the three ways of drawing."""
    rng = np.random.default_rng(1)
    few = (rng.random((3000, 3)) < 0.4).astype(float)
    many = np.column_stack([few, rng.random(3000)])
    kinds_way = resampled_sums(few, 6000, np.random.default_rng(0))
    weights_way = resampled_sums(many, 6000, np.random.default_rng(0))[:, :3]
    for column in range(3):
        p = scipy_stats.ks_2samp(kinds_way[:, column], weights_way[:, column]).pvalue
        assert p > 1e-4


@given(
    st.integers(1, 70).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([0.0, 1.0, 1 / 3, -2.0]), min_size=width, max_size=width),
            min_size=1,
            max_size=30,
        )
    )
)
def test_kinds_are_the_different_rows_in_order(rows):
    """70 columns of four values have more different rows than a whole number has bits for."""
    table = np.array(rows)
    found, counts = kinds(table)
    expected, expected_counts = np.unique(table, axis=0, return_counts=True)
    assert found.tolist() == expected.tolist()
    assert counts.tolist() == expected_counts.tolist()


def test_weights_always_add_up_to_the_number_of_items():
    rows = np.column_stack([np.ones(2500), np.arange(2500)])
    sums = resampled_sums(rows, 400, np.random.default_rng(0))
    assert (sums[:, 0] == 2500).all()


def test_intervals_and_chances_of_being_best():
    rng = np.random.default_rng(12)
    table = no_effect(4, 400, rng)
    table[1, :120] = 1
    table[3, :120] = 0
    found = spread(table, resamples=4000)
    assert (found.best, found.worst) == (1, 3)
    assert found.p_best[1] > 0.99
    assert found.p_worst[3] > 0.99
    assert sum(found.p_best) == pytest.approx(1)
    assert found.safe_low < found.low < found.value < found.high
    assert found.value < found.safe_high
    assert found.bootstrap_mean == pytest.approx(found.value, abs=0.02)
    pair = table[1] - table[3]
    reach = 1.96 * pair.std(ddof=1) / math.sqrt(400)
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.1)


@pytest.mark.parametrize("size", [1, 7])
def test_few_items_or_clusters_widen_the_safe_interval_as_student_s_t(size):
    rng = np.random.default_rng(3)
    first = np.repeat(rng.normal(0.9, 0.2, 8), size)
    second = np.repeat(rng.normal(0.1, 0.2, 8), size)
    names = np.repeat(np.arange(8), size).tolist()
    found = spread(np.stack([first, second]), clusters=names, resamples=20_000)
    wanted = scipy_stats.ttest_rel(first[::size], second[::size]).confidence_interval()
    assert found.safe_high == pytest.approx(wanted.high, rel=0.02)
    assert found.safe_low <= wanted.low + 0.01


def test_ties_for_the_best_are_split_evenly():
    row = no_effect(1, 50, np.random.default_rng(0))[0]
    table = np.stack([row, row, np.zeros(50)])
    found = spread(table, resamples=500)
    assert found.p_best == pytest.approx((0.5, 0.5, 0))
    assert found.p_worst == pytest.approx((0, 0, 1))
    assert (found.best, found.worst) == (0, 2)


def test_clusters_widen_the_interval():
    table = np.repeat(no_effect(3, 40, np.random.default_rng(9)), 5, axis=1)
    names = np.repeat(range(40), 5).tolist()
    plain, clustered = spread(table, resamples=2000), spread(table, clusters=names, resamples=2000)
    assert clustered.high - clustered.low > 1.5 * (plain.high - plain.low)
    assert clustered.p > plain.p


def test_clusters_of_different_sizes_weigh_by_their_items():
    table = np.array([[1, 1, 1, 1, 0.0, 1], [0, 0, 0, 1, 1, 1]])
    units = unit_sums(table, ["a", "a", "a", "b", "c", "d"])
    drawn = resampled_means(*units, 4000, np.random.default_rng([3, 1]))
    only_a = np.isclose(drawn[:, 0] - drawn[:, 1], 1)  # every draw was cluster a
    assert only_a.mean() == pytest.approx(4**-4, abs=0.004)
    assert ((drawn >= 0) & (drawn <= 1)).all()


# ---- properties


@settings(deadline=None, max_examples=40)
@given(binary_tables(), st.randoms(use_true_random=False))
def test_the_order_of_items_changes_nothing(table, chance):
    scores = np.array(table)
    order = list(range(scores.shape[1]))
    chance.shuffle(order)
    assert spread(scores[:, order], resamples=200) == spread(scores, resamples=200)


@settings(deadline=None, max_examples=40)
@given(binary_tables(min_formats=3), st.randoms(use_true_random=False))
def test_the_order_of_formats_changes_nothing_in_the_test(table, chance):
    scores = np.array(table)
    order = list(range(len(scores)))
    chance.shuffle(order)
    plain, moved = spread(scores, resamples=200), spread(scores[order], resamples=200)
    for name in ("value", "p", "null_mean", "null_95", "null_method"):
        assert getattr(moved, name) == getattr(plain, name), name
    means = scores.mean(axis=1)
    assert means[order[moved.best]] == means[plain.best]
    assert means[order[moved.worst]] == means[plain.worst]


def test_the_order_of_formats_changes_no_interval():
    scores = no_effect(6, 90, np.random.default_rng(21))
    order = [4, 2, 0, 5, 1, 3]
    plain, moved = spread(scores, resamples=300), spread(scores[order], resamples=300)
    assert (moved.low, moved.high, moved.bootstrap_mean) == pytest.approx(
        (plain.low, plain.high, plain.bootstrap_mean), abs=1e-12
    )
    assert moved.p_best == pytest.approx([plain.p_best[k] for k in order])
    assert moved.split_half == pytest.approx(plain.split_half, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(binary_tables())
def test_clusters_of_one_item_are_no_clusters(table):
    scores = np.array(table)
    names = [f"item {k}" for k in range(scores.shape[1])]
    plain, clustered = spread(scores, resamples=200), spread(scores, clusters=names, resamples=200)
    assert clustered.num_clusters == scores.shape[1]
    for name in ("value", "p", "null_mean", "null_95", "low", "high", "safe_low", "safe_high"):
        assert getattr(clustered, name) == getattr(plain, name), name


@settings(deadline=None, max_examples=60)
@given(binary_tables())
def test_every_table_gives_an_honest_answer(table):
    found = spread(np.array(table), resamples=100)
    assert 0 <= found.value <= 1
    assert 0 < found.p <= 1
    assert 0 <= found.null_mean <= 1
    assert sum(found.p_best) == pytest.approx(1)
    assert sum(found.p_worst) == pytest.approx(1)
    if found.low is not None:
        assert 0 <= found.low <= found.high <= 1
        assert 0 <= found.safe_low <= found.safe_high <= 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_seed_decides():
    table = no_effect(5, 80, np.random.default_rng(0))
    assert spread(table, resamples=300, seed=1) == spread(table, resamples=300, seed=1)
    assert spread(table, resamples=300, seed=1) != spread(table, resamples=300, seed=2)


# ---- odd input


@pytest.mark.parametrize("value", [0.0, 1.0, 0.25])
@pytest.mark.parametrize("num_items", [1, 2, 3, 50])
def test_constant_scores_show_no_difference(value, num_items):
    found = spread(np.full((3, num_items), value), resamples=100)
    assert (found.value, found.p, found.null_mean, found.null_method) == (0, 1, 0, "none")
    assert (found.low, found.high, found.safe_low, found.bootstrap_mean) == (None,) * 4
    assert found.p_best == pytest.approx((1 / 3,) * 3)


@pytest.mark.parametrize("num_items", [1, 2, 3])
def test_few_items_prove_nothing(num_items):
    table = np.zeros((3, num_items))
    table[0] = 1
    found = spread(table, resamples=2000)
    assert found.value == 1
    assert found.p == pytest.approx(3.0 ** (1 - num_items), abs=0.05)


def test_one_item_has_no_interval():
    found = spread(np.array([[1], [0], [0]]), resamples=100)
    assert (found.p, found.low) == (1, None)
