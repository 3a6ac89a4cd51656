"""Clustered standard errors against statsmodels, and their intervals by simulation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.stats.clusters import array_estimate, clustered_estimate
from lm_eval.stats.estimates import mean_estimate, share_estimate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import statsmodels.api as sm


@given(st.integers(2, 12), st.integers(0, 10_000), st.booleans())
def test_the_error_and_interval_are_those_of_a_regression_on_a_constant(
    num_clusters: int, seed: int, is_binary: bool
) -> None:
    rng = np.random.default_rng(seed)
    clusters = np.concatenate([np.arange(num_clusters), rng.integers(0, num_clusters, 20)])
    values = rng.normal(3, 1, len(clusters))
    if is_binary:
        values = (values > 3).astype(float)
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    found = clustered_estimate(values, clusters.tolist())
    assert found.value == pytest.approx(fit.params[0])
    if fit.bse[0] < 1e-9 or len(set(values.tolist())) == 1:
        return
    assert found.stderr == pytest.approx(fit.bse[0])
    low, high = fit.conf_int()[0]
    if is_binary:
        low, high = max(0.0, low), min(1.0, high)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.method == f"t over {num_clusters} clusters, few clusters"
    assert found.n == len(values)


def test_a_worked_example() -> None:
    # Means 1 and 0 with sizes 2 and 2: deviations sum to ±1; √(2/1 · 2) / 4 = 0.5.
    found = clustered_estimate([1, 1, 0, 0], ["p", "p", "q", "q"])
    assert (found.value, found.stderr) == (0.5, 0.5)
    assert (found.low, found.high) == (0.0, 1.0)


def test_enough_clusters_bring_no_warning() -> None:
    values = [float(i % 3 == 0) for i in range(90)]
    found = clustered_estimate(values, [i // 3 for i in range(90)])
    assert found.method == "none"  # each cluster has one of three right: they do not differ
    values[0] = 0.0
    assert clustered_estimate(values, [i // 3 for i in range(90)]).method == "t over 30 clusters"


@pytest.mark.parametrize("clusters", [None, [0, 0, 1, 1, 2, 2]])
@given(st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=6, max_size=6))
def test_arrays_are_estimated_as_lists_are(clusters: list[int] | None, values: list[float]) -> None:
    expected = clustered_estimate(values, clusters)
    assert array_estimate(np.array(values), clusters) == expected
    right_or_wrong = [round(value) for value in values]
    expected = clustered_estimate(right_or_wrong, clusters)
    assert array_estimate(np.array(right_or_wrong, dtype=float), clusters) == expected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_items_that_are_their_own_clusters_are_plain_items(values: list[float]) -> None:
    assert clustered_estimate(values, list(range(len(values)))) == mean_estimate(values)


@pytest.mark.parametrize("right", [0, 1])
def test_scores_that_are_all_equal_get_the_interval_of_their_clusters(right: int) -> None:
    found = clustered_estimate([right] * 40, [i // 4 for i in range(40)])
    wilson = share_estimate(10 * right, 10)
    assert (found.low, found.high, found.n) == (wilson.low, wilson.high, 40)
    assert found.method == "wilson over 10 clusters, few clusters"


def test_one_cluster_has_no_interval() -> None:
    found = clustered_estimate([0.0, 1.0, 1.0], ["a"] * 3)
    assert (found.stderr, found.low, found.high, found.method) == (None, None, None, "none")
    assert found.value == pytest.approx(2 / 3)


def test_the_interval_covers_where_one_for_single_items_does_not() -> None:
    rng = np.random.default_rng(11)
    clusters = [i // 10 for i in range(400)]
    clustered = plain = 0
    for _ in range(400):
        chance = np.repeat(rng.beta(1.4, 0.6, 40), 10)  # mean 0.7, and clusters that differ
        values = (rng.random(400) < chance).astype(float).tolist()
        found, single = clustered_estimate(values, clusters), mean_estimate(values)
        assert found.low is not None
        assert found.high is not None
        assert single.low is not None
        assert single.high is not None
        clustered += found.low <= 0.7 <= found.high
        plain += single.low <= 0.7 <= single.high
    assert 0.91 <= clustered / 400 <= 0.985
    assert plain / 400 < 0.8
