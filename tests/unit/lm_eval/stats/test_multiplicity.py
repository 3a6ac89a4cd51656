"""Adjusted p-values and tests over all formats, against statsmodels and scipy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.multitest import multipletests

from lm_eval.stats.multiplicity import (
    benjamini_hochberg,
    benjamini_yekutieli,
    cochran_q,
    holm,
)

METHODS = {"holm": holm, "fdr_bh": benjamini_hochberg, "fdr_by": benjamini_yekutieli}
P_VALUES = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.05]), min_size=1, max_size=12)


@pytest.mark.parametrize("name", METHODS)
@given(p_values=P_VALUES)
def test_adjusted_values_are_those_of_statsmodels(name: str, p_values: list[float]) -> None:
    oracle = multipletests(p_values, method=name)[1]
    assert METHODS[name](p_values) == pytest.approx(list(oracle), abs=1e-12)


@pytest.mark.parametrize("adjust", METHODS.values())
def test_no_tests_need_no_adjusting_and_one_stays_as_it_is(adjust: object) -> None:
    assert callable(adjust)
    assert adjust([]) == []
    assert adjust([0.03]) == [0.03]


@given(st.integers(2, 6), st.integers(1, 40), st.integers(0, 10_000))
def test_cochran_q_is_that_of_statsmodels(num_formats: int, num_items: int, seed: int) -> None:
    scores = (np.random.default_rng(seed).random((num_formats, num_items)) < 0.6).astype(float)
    found = cochran_q(scores)
    assert (found.test, found.df) == ("Cochran Q", num_formats - 1)
    if all(len(set(item)) == 1 for item in scores.T):  # statsmodels divides by zero
        assert (found.statistic, found.p) == (0.0, 1.0)
        return
    oracle = cochrans_q(scores.T)
    assert found.statistic == pytest.approx(oracle.statistic)
    assert found.p == pytest.approx(oracle.pvalue)


@given(st.integers(3, 6), st.integers(2, 30), st.integers(0, 10_000))
def test_other_scores_take_friedmans_test(num_formats: int, num_items: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 5, (num_formats, num_items)) / 4
    scores[0, 0], scores[1, 0] = 0.5, 0.25  # not all 0 and 1, and not all equal
    found = cochran_q(scores)
    oracle = friedmanchisquare(*scores)
    assert found.test == "Friedman"
    assert found.statistic == pytest.approx(oracle.statistic)
    assert found.p == pytest.approx(oracle.pvalue)
    assert json.loads(json.dumps(found.to_dict()))["df"] == num_formats - 1
