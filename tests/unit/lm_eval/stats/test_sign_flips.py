"""Sign flips against scipy's permutation test, and all pairs at once against one after the other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from lm_eval.stats.sign_flips import pair_sign_flip_p_values, sign_flip_p_values

DIFFERENCES = st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=1, max_size=9)


@given(DIFFERENCES)
def test_exact_sign_flips_are_those_of_scipy(differences: list[float]) -> None:
    column = np.array(differences)
    ours = sign_flip_p_values(column[:, None], seed=1)[0]
    assert ours.method == "exact sign flips"
    if len(differences) > 1:
        oracle = permutation_test(
            (column,),
            lambda x, axis: np.mean(x, axis=axis),
            permutation_type="samples",
            n_resamples=np.inf,
        )
        assert ours.value == pytest.approx(min(1.0, oracle.pvalue))


def test_sign_flips_of_single_items_are_the_exact_test_of_mcnemar() -> None:
    column = np.array([1.0] * 7 + [-1.0] + [0.0] * 100)  # 7 against 1, and 100 that tie
    assert sign_flip_p_values(column[:, None], seed=1)[0].value == 18 / 256


def test_drawn_sign_flips_are_close_to_the_exact_ones() -> None:
    rng = np.random.default_rng(3)
    column = np.round(rng.normal(0.12, 0.4, 16), 2)
    signs = np.array(list(itertools.product((-1, 1), repeat=16)))
    exact = np.mean(np.abs(signs @ column) >= abs(column.sum()) - 1e-9)
    (drawn,) = sign_flip_p_values(column[:, None], seed=1)
    assert drawn.method == "10000 sign flips"
    assert drawn.value == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 10_000) ** 0.5)


def test_pairs_at_once_are_the_differences_one_by_one() -> None:
    scores = np.random.default_rng(2).random((40, 4))
    pairs = list(itertools.combinations(range(4), 2))
    together = pair_sign_flip_p_values(scores, pairs, seed=7)
    alone = [
        sign_flip_p_values((scores[:, i] - scores[:, j])[:, None], seed=7)[0] for i, j in pairs
    ]
    assert together == alone
    assert {p.method for p in together} == {"10000 sign flips"}


def test_the_same_seed_gives_the_same_draws_and_another_does_not() -> None:
    column = np.random.default_rng(5).normal(0.1, 1, (60, 1))
    one, again, other = (sign_flip_p_values(column, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_a_drawn_p_value_is_never_0() -> None:
    (found,) = sign_flip_p_values(np.ones((500, 1)), seed=1)
    assert found.value == 1 / 10_001
