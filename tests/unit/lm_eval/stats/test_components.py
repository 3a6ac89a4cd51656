"""Variance components against the analysis of variance of statsmodels, by hand, and by simulation."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.formula.api import ols

from lm_eval.stats.components import components


def two_way(num_formats, num_items, *, by_format, by_item, rest, rng):
    """Scores with known variances, mean 0.5."""
    return (
        0.5
        + by_format * rng.standard_normal((num_formats, 1))
        + by_item * rng.standard_normal((1, num_items))
        + rest * rng.standard_normal((num_formats, num_items))
    )


def test_mean_squares_against_statsmodels():
    table = two_way(5, 30, by_format=0.1, by_item=0.3, rest=0.2, rng=np.random.default_rng(0))
    rows = [
        {"format": f, "item": i, "score": table[f, i]}
        for f in range(table.shape[0])
        for i in range(table.shape[1])
    ]
    fitted = ols("score ~ C(format) + C(item)", data=pd.DataFrame(rows)).fit()
    squares = sm.stats.anova_lm(fitted)["mean_sq"]
    found = components(table)
    ms_f, ms_i, ms_r = squares["C(format)"], squares["C(item)"], squares["Residual"]
    assert found.var_rest == pytest.approx(ms_r)
    assert found.var_format == pytest.approx((ms_f - ms_r) / 30)
    assert found.var_item == pytest.approx((ms_i - ms_r) / 5)
    of_mean = found.var_format / 5 + found.var_item / 30 + ms_r / 150
    of_one = found.var_format + found.var_item / 30 + ms_r / 30
    assert found.stderr_mean == pytest.approx(math.sqrt(of_mean))
    assert found.stderr_one_format == pytest.approx(math.sqrt(of_one))
    assert found.stderr_items == pytest.approx(math.sqrt(of_one - found.var_format))
    assert found.share_format == pytest.approx(found.var_format / of_one)
    assert found.mean == pytest.approx(table.mean())


def test_by_hand():
    """Two formats, two items: MS_f = 1, MS_i = 0.25, MS_r = 0."""
    found = components([[1.0, 1.5], [0.0, 0.5]])
    assert (found.mean, found.var_format, found.var_item, found.var_rest) == (0.75, 0.5, 0.125, 0)
    assert found.stderr_mean == pytest.approx(math.sqrt(0.5 / 2 + 0.125 / 2))


def test_formats_that_do_not_differ_have_no_variance():
    """Format means that are closer than noise alone: the estimate is negative and counts as 0."""
    table = np.array([[1, 0, 1, 0], [0, 1, 0, 1.0]])
    found = components(table)
    assert (found.var_format, found.var_item) == (0, 0)
    assert found.var_rest > 0
    assert found.share_format == 0


def test_unbiased_over_many_tables():
    rng = np.random.default_rng(3)
    found = [
        components(two_way(6, 40, by_format=0.2, by_item=0.3, rest=0.2, rng=rng))
        for _ in range(1500)
    ]
    assert np.mean([each.var_format for each in found]) == pytest.approx(0.04, rel=0.05)
    assert np.mean([each.var_item for each in found]) == pytest.approx(0.09, rel=0.03)
    assert np.mean([each.var_rest for each in found]) == pytest.approx(0.04, rel=0.02)
    means = [each.mean for each in found]
    assert np.mean([each.stderr_mean**2 for each in found]) == pytest.approx(np.var(means), rel=0.1)


@pytest.mark.parametrize("num_formats", [3, 8])
def test_intervals_cover_the_mean_of_all_formats(num_formats):
    rng = np.random.default_rng(17)
    over, one = [], []
    for _ in range(800):
        table = two_way(num_formats, 60, by_format=0.05, by_item=0.3, rest=0.2, rng=rng)
        found = components(table)
        whole, single = found.over_formats(), found.one_format(float(table[0].mean()))
        over.append(whole.low <= 0.5 <= whole.high)
        one.append(single.low <= 0.5 <= single.high)
    assert 0.93 <= np.mean(over) <= 0.985
    assert 0.93 <= np.mean(one) <= 0.985


# ---- clusters


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_clusters_of_one_item_are_no_clusters(seed):
    table = np.random.default_rng(seed).random((3, 7))
    plain = components(table).to_dict()
    clustered = components(table, clusters=list("gfedcba")).to_dict()
    assert clustered.pop("num_clusters") == 7
    assert plain.pop("num_clusters") is None
    assert clustered == pytest.approx(plain)


def test_clusters_widen_the_error_of_items():
    """Five copies of each item are no more than one: the errors are those of the single items."""
    table = two_way(4, 40, by_format=0.1, by_item=0.3, rest=0.2, rng=np.random.default_rng(1))
    copies = np.repeat(table, 5, axis=1)
    names = np.repeat(range(40), 5).tolist()
    single, clustered, pooled = components(table), components(copies, names), components(copies)
    for name in ("stderr_mean", "stderr_one_format", "var_format", "error_item", "error_rest"):
        assert getattr(clustered, name) == pytest.approx(getattr(single, name)), name
    assert pooled.stderr_items < clustered.stderr_items / 2


# ---- how many formats


@settings(deadline=None)
@given(st.integers(0, 1000), st.floats(0.001, 0.2))
def test_formats_needed_is_the_smallest_number_that_does(seed, wanted):
    rng = np.random.default_rng(seed)
    found = components(two_way(4, 25, by_format=0.1, by_item=0.1, rest=0.1, rng=rng))
    number = found.formats_needed(wanted)

    def error(formats: int) -> float:
        return math.sqrt(found.error_item + (found.var_format + found.error_rest) / formats)

    if number is None:
        assert math.sqrt(found.error_item) >= wanted
    else:
        assert error(number) <= wanted * (1 + 1e-6)
        assert number == 1 or error(number - 1) > wanted * (1 - 1e-6)


def test_formats_needed_at_the_own_error_is_the_own_number():
    found = components(
        two_way(7, 50, by_format=0.2, by_item=0.2, rest=0.1, rng=np.random.default_rng(5))
    )
    assert found.formats_needed(found.stderr_mean) == 7


# ---- odd input


def test_constant_scores_have_no_error_and_no_interval():
    found = components(np.full((3, 5), 0.7))
    assert (found.stderr_mean, found.stderr_one_format, found.share_format) == (0, 0, None)
    assert found.over_formats().low is None
    assert found.formats_needed(0.01) == 1
    json.dumps(found.to_dict(), allow_nan=False)
