"""Formats chosen on some items and compared on others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from lm_eval.stats.reselection import reselected, split_half_spread
from lm_eval.stats.spread import spread


def test_the_difference_is_measured_on_the_other_items():
    choose = np.array([[1, 1, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0]])
    report = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]])
    found = reselected(choose, report)
    assert (found.best, found.worst, found.chosen) == (0, 1, 0.5)
    gaps = report[0] - report[1]
    oracle = scipy_stats.ttest_1samp(gaps, 0).confidence_interval()
    assert found.reported.value == pytest.approx(0.4)
    assert (found.reported.low, found.reported.high) == pytest.approx((oracle.low, oracle.high))
    assert found.reported.n == 5


def test_clusters_to_report_on_count_as_one_each():
    choose = np.array([[1, 1], [0, 0]])
    report = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 0, 0]])
    single = reselected(choose, report)
    names = np.repeat(range(5), 3).tolist()
    copied = reselected(choose, np.repeat(report, 3, axis=1), clusters=names)
    assert copied.reported.stderr == pytest.approx(single.reported.stderr)
    assert copied.reported.low == pytest.approx(single.reported.low)
    assert copied.reported.method == "t over 5 clusters, few clusters"


def test_formats_that_tie_are_still_two():
    found = reselected(np.ones((3, 4)), np.zeros((3, 4)))
    assert (found.best, found.worst) == (0, 1)
    assert (found.reported.value, found.reported.low, found.reported.method) == (0, None, "none")


def test_one_fresh_item_has_no_interval():
    assert reselected([[1, 1], [0, 0]], [[1], [0]]).reported.stderr is None


def test_both_tables_need_the_same_formats():
    with pytest.raises(ValueError, match="same two formats or more; got 2 and 3"):
        reselected(np.ones((2, 4)), np.ones((3, 4)))


def test_without_an_effect_the_other_half_shows_none():
    """Ten formats that do not differ seem to spread over 8 points, and on fresh items over none."""
    rng = np.random.default_rng(0)
    values, chosen, raw = [], [], []
    for _ in range(150):
        table = (rng.random((10, 200)) < rng.random(200)).astype(float)
        found = split_half_spread(table, splits=20)
        values.append(found.value)
        chosen.append(found.chosen)
        raw.append(np.ptp(table.mean(axis=1)))
    assert np.mean(values) == pytest.approx(0, abs=3 * np.std(values) / math.sqrt(150))
    assert np.mean(chosen) > np.mean(raw) > 0.07


def test_a_clear_effect_is_kept():
    rng = np.random.default_rng(1)
    table = (rng.random((5, 400)) < np.array([[0.7], [0.5], [0.5], [0.5], [0.3]])).astype(float)
    found = split_half_spread(table)
    assert found.value == pytest.approx(spread(table, resamples=10).value, abs=0.01)
    assert found.splits == 100


def test_the_seed_decides_the_splits():
    table = (np.random.default_rng(2).random((5, 60)) < 0.5).astype(float)
    assert split_half_spread(table, seed=7) == split_half_spread(table, seed=7)
    assert split_half_spread(table, seed=7) != split_half_spread(table)


def test_clusters_stay_whole():
    """Copies of an item on both sides would choose and report on the same scores."""
    rng = np.random.default_rng(3)
    table = (rng.random((6, 30)) < 0.5).astype(float)
    copies = np.repeat(table, 4, axis=1)
    names = np.repeat(range(30), 4).tolist()
    clustered = split_half_spread(copies, clusters=names, splits=400)
    assert clustered.value == pytest.approx(split_half_spread(table, splits=400).value, abs=0.02)
    assert split_half_spread(copies, splits=400).value > clustered.value + 0.05


@pytest.mark.parametrize("shape", [(1, 5), (3, 1)])
def test_too_little_to_split(shape):
    with pytest.raises(ValueError, match="two formats and two items"):
        split_half_spread(np.zeros(shape))
