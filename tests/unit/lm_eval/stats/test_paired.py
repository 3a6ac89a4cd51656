"""Paired comparisons against scipy and statsmodels, known answers, and what must not change them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as oracle_mcnemar

from lm_eval.stats.mcnemar import exact_power, mcnemar, probability_better
from lm_eval.stats.paired import (
    Paired,
    paired,
    paired_many,
    paired_share_interval,
    paired_where,
)

BINARY = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)
GRADED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25)


def table(wins: int, losses: int, ties: int) -> tuple[list[int], list[int]]:
    """Scores with so many items won, lost and tied."""
    return [1] * wins + [0] * losses + [1] * ties, [0] * wins + [1] * losses + [1] * ties


def flipped(one: Paired) -> tuple[object, ...]:
    """What of a comparison the other way round must be the same."""
    d = one.difference
    ends = None if d.low is None or d.high is None else (-d.high, -d.low)
    probability = None if one.probability is None else 1 - one.probability
    return (-d.value, ends, one.losses, one.wins, one.ties, one.p, one.p_mid, probability)


def shown(one: Paired) -> tuple[object, ...]:
    d = one.difference
    ends = None if d.low is None else (d.low, d.high)
    return (d.value, ends, one.wins, one.losses, one.ties, one.p, one.p_mid, one.probability)


def close(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return all(
        a is b is None or a == pytest.approx(b, abs=1e-9) for a, b in zip(left, right, strict=True)
    )


# Tests


def test_seven_against_one() -> None:
    assert mcnemar(7, 1) == (0.0703125, 0.0390625)
    found = paired(*table(7, 1, 12))
    assert (found.p, found.test) == (18 / 256, "exact McNemar")
    assert (found.wins, found.losses, found.ties, found.n) == (7, 1, 12, 20)
    assert found.difference.value == 0.3
    # Ten further heads in ten throws: the chance that a Beta(8, 2) lies above a half.
    assert found.probability == pytest.approx(stats.beta(8, 2).sf(0.5))
    assert found.smallest_detectable == pytest.approx(2.8016 * math.sqrt(0.4 / 20), abs=1e-4)


def test_nothing_discordant() -> None:
    found = paired([1, 0, 1], [1, 0, 1])
    assert (found.p, found.p_mid, found.probability) == (1.0, 1.0, 0.5)
    assert found.smallest_detectable is None
    assert found.difference.low is not None
    assert found.difference.low == pytest.approx(-found.difference.high)  # type: ignore[operator]
    # The score interval of no discordant item among n ends at z² / (n + z²).
    z = stats.norm.ppf(0.975)
    assert found.difference.high == pytest.approx(z**2 / (3 + z**2))


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_that_of_statsmodels_and_scipy(wins: int, losses: int) -> None:
    exact, mid = mcnemar(wins, losses)
    oracle = oracle_mcnemar([[0, wins], [losses, 0]], exact=True)
    num, fewer = wins + losses, min(wins, losses)
    assert exact == pytest.approx(oracle.pvalue if num else 1.0)
    expected = 2 * stats.binom.cdf(fewer, num, 0.5) - stats.binom.pmf(fewer, num, 0.5)
    assert mid == pytest.approx(min(1.0, expected) if num else 1.0)
    assert mid <= exact


def test_huge_counts_have_no_overflow() -> None:
    assert mcnemar(60_000, 40_000)[0] == pytest.approx(0.0, abs=1e-300)
    assert mcnemar(50_000, 50_000)[0] == 1.0
    assert probability_better(60_000, 40_000) == pytest.approx(1.0, abs=1e-12)


@given(st.integers(0, 50), st.integers(0, 50))
def test_probability_is_that_of_a_beta(wins: int, losses: int) -> None:
    assert probability_better(wins, losses) == pytest.approx(
        float(stats.beta(wins + 1, losses + 1).sf(0.5))
    )


# Intervals


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 30))
def test_the_score_interval_ends_where_a_constrained_fit_rejects(
    wins: int, losses: int, ties: int
) -> None:
    """The ends solve the score equation with shares fitted by a search, not by the formula."""
    n = wins + losses + ties
    low, high = paired_share_interval(wins, losses, n)
    assert low <= (wins - losses) / n <= high
    for end in (low, high):
        if abs(end) < 0.999:
            assert abs(score_by_search(wins, losses, n, end)) == pytest.approx(1.96, abs=2e-3)


def score_by_search(wins: int, losses: int, n: int, difference: float) -> float:
    from scipy.optimize import minimize_scalar

    def cost(loss: float) -> float:
        win = loss + difference
        rest = 1 - win - loss
        parts = [(wins, win), (losses, loss), (n - wins - losses, rest)]
        return -sum(k * math.log(max(p, 1e-300)) for k, p in parts if k)

    least, most = max(0.0, -difference), (1 - difference) / 2
    loss = minimize_scalar(cost, bounds=(least, most), options={"xatol": 1e-12}).x
    variance = n * (2 * loss + difference - difference**2)
    return (wins - losses - n * difference) / math.sqrt(variance)


@given(GRADED)
def test_other_scores_get_the_interval_of_a_paired_t_test(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T / 4
    a[0] = 0.25  # not all 0 and 1
    found = paired(a, b)
    assert found.p_mid is found.probability is None
    if np.ptp(a - b) == 0:
        assert (found.difference.low, found.difference.method) == (None, "none")
        return
    interval = stats.ttest_rel(a, b).confidence_interval()
    assert found.difference.low == pytest.approx(max(-1, interval.low))
    assert found.difference.high == pytest.approx(min(1, interval.high))
    assert found.difference.method == "t over items, small n"
    assert found.stderr_unpaired == pytest.approx(
        math.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    )


def test_scores_beyond_0_and_1_are_not_clipped() -> None:
    found = paired([30.0, 10.0, 25.0] * 2, [10.0, 12.0, 3.0] * 2)
    assert found.difference.high is not None
    assert found.difference.high > 1
    assert found.smallest_detectable is not None
    assert found.smallest_detectable > 1


def test_clusters_widen_the_interval_and_take_sign_flips() -> None:
    a = [1.0] * 20 + [0.0] * 8
    b = [0.0] * 12 + [1.0] * 16
    clusters = [i // 4 for i in range(28)]
    found, plain = paired(a, b, clusters=clusters), paired(a, b)
    assert found.difference.method == "t over 7 clusters, few clusters"
    assert found.test == "exact sign flips"
    assert found.p_mid is found.probability is None
    assert found.difference.value == plain.difference.value
    assert found.difference.stderr > plain.difference.stderr  # type: ignore[operator]
    # 3 clusters of +4 and 2 of -4 have signs: 2**5 ways, all at least |4| away from 0.
    assert found.p == 1.0


def test_the_correlation_is_pearsons() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(50), rng.random(50)
    assert paired(a, b).correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert paired([1, 1, 1], [0, 1, 0]).correlation is None


# What must hold whatever the data


@given(BINARY | GRADED, st.booleans())
def test_changing_sides_changes_signs_only(pairs: list[tuple[int, int]], in_clusters: bool) -> None:
    a, b = np.array(pairs).T / max(1, np.max(pairs))
    clusters = [i // 3 for i in range(len(a))] if in_clusters else None
    there, back = paired(a, b, clusters=clusters), paired(b, a, clusters=clusters)
    assert close(shown(back), flipped(there))
    assert close(shown(back), shown(there.reversed()))


def test_equal_scores_differ_by_0_the_other_way_round_too() -> None:
    assert f"{paired([1, 0], [0, 1]).reversed().difference.value:+.2f}" == "+0.00"


@given(BINARY | GRADED, st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(pairs: list[tuple[int, int]], rng: object) -> None:
    scores = np.array(pairs).T / max(1, np.max(pairs))
    order = list(range(len(pairs)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    clusters = [i // 3 for i in range(len(pairs))]
    for names in (None, clusters):
        mixed = None if names is None else [names[i] for i in order]
        one = paired(*scores, clusters=names)
        other = paired(*scores[:, order], clusters=mixed)
        exact = one.test != "10000 sign flips"
        left, right = shown(one), shown(other)
        if not exact:  # other draws: the same but for their noise
            assert one.p == pytest.approx(other.p, abs=0.03)
            left, right = left[:5], right[:5]
        assert close(left, right)


@settings(max_examples=40)
@given(st.integers(2, 5), st.integers(1, 30), st.integers(0, 10_000), st.booleans(), st.booleans())
def test_all_pairs_at_once_are_each_pair_alone(
    num_formats: int, n: int, seed: int, is_binary: bool, in_clusters: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 2 if is_binary else 4, (num_formats, n)) / (1 if is_binary else 3)
    clusters = [i // 3 for i in range(n)] if in_clusters else None
    found = paired_many(scores, clusters)
    assert [(i, j) for i, j, _ in found] == list(itertools.combinations(range(num_formats), 2))
    for i, j, one in found:
        alone = paired(scores[i], scores[j], clusters=clusters)
        assert close(shown(one), shown(alone))
        assert (one.test, one.difference.method) == (alone.test, alone.difference.method)


@given(BINARY | GRADED)
def test_a_comparison_is_ready_for_json(pairs: list[tuple[int, int]]) -> None:
    found = paired(*zip(*pairs, strict=True))
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["difference"]["value"] == found.difference.value
    assert again["test"] == found.test


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("a", [0, 0.5, 1])
@pytest.mark.parametrize("b", [0, 0.5, 1])
def test_constant_scores_of_few_items(n: int, a: float, b: float) -> None:
    found = paired([a] * n, [b] * n)
    assert found.difference.value == a - b
    assert found.correlation is None
    assert 0 < found.p <= 1
    if found.test == "exact McNemar":
        assert found.difference.low < found.difference.high  # type: ignore[operator]
    else:
        assert (found.difference.low, found.difference.method) == (None, "none")


def test_one_row_has_no_pairs() -> None:
    assert paired_many([[1.0, 0.0]]) == []


# Coverage, computed or simulated


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize(("win", "lose"), [(0.02, 0.05), (0.1, 0.1), (0.05, 0.2), (0.3, 0.3)])
def test_the_score_interval_covers_for_few_items(n: int, win: float, lose: float) -> None:
    """Exactly: every table of so many items, with its chance."""
    covered = 0.0
    for wins in range(n + 1):
        for losses in range(n - wins + 1):
            low, high = paired_share_interval(wins, losses, n)
            if low - 1e-9 <= win - lose <= high + 1e-9:
                counts = [wins, losses, n - wins - losses]
                covered += stats.multinomial.pmf(counts, n, [win, lose, 1 - win - lose])
    assert covered >= 0.94


@pytest.mark.parametrize("in_clusters", [False, True])
def test_the_t_interval_covers_and_the_test_holds_its_level(in_clusters: bool) -> None:
    rng = np.random.default_rng(4)
    clusters = [i // 5 for i in range(60)] if in_clusters else None
    n = 60 if in_clusters else 12
    covered = rejected = 0
    num = 400
    for _ in range(num):
        noise = np.repeat(rng.normal(0, 0.15, 12), 5) if in_clusters else 0
        a = np.clip(0.5 + noise + rng.normal(0, 0.1, n), 0, 1)
        b = np.clip(0.5 + rng.normal(0, 0.1, n), 0, 1)
        found = paired(a, b, clusters=clusters)
        covered += found.difference.low <= 0 <= found.difference.high  # type: ignore[operator]
        rejected += found.p <= 0.05
    assert 0.91 <= covered / num <= 0.985
    assert rejected / num <= 0.085


def test_selections_of_items_are_compared_as_if_alone() -> None:
    """By McNemar's test exactly; by sign flips within the noise of their draws."""
    rng = np.random.default_rng(8)
    clusters = [f"c{k // 3}" for k in range(90)]
    kept = rng.random((2, 90)) < 0.7
    pairs = [(0, 1), (2, 1)]
    for scores in ((rng.random((3, 90)) < 0.5).astype(float), rng.random((3, 90))):
        for names in (None, clusters):
            found = paired_where(scores, pairs, kept, names)
            for (i, j), mask, one in zip(pairs, kept, found, strict=True):
                some = None if names is None else [names[k] for k in np.flatnonzero(mask)]
                alone = paired(scores[i][mask], scores[j][mask], clusters=some)
                same = dataclasses.replace(one, p=alone.p, correlation=alone.correlation)
                assert same == alone
                assert one.correlation == pytest.approx(alone.correlation)
                assert one.p == pytest.approx(alone.p, abs=0.03)


@given(BINARY)
def test_counting_says_what_the_table_of_numbers_says(items: list[tuple[int, int]]) -> None:
    a, b = zip(*items, strict=True)
    ((_, _, other),) = paired_many([a, b])
    one = paired(a, b)
    assert one == other
    spread = np.std(a) * np.std(b)
    if spread:
        assert one.correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    else:
        assert one.correlation is None
    if len(items) > 1:
        gaps = np.subtract(a, b)
        assert one.difference.stderr == pytest.approx(np.std(gaps, ddof=1) / len(gaps) ** 0.5)
        errors = [np.std(row, ddof=1) / len(gaps) ** 0.5 for row in (a, b)]
        assert one.stderr_unpaired == pytest.approx(math.hypot(*errors))


def test_only_chosen_pairs_are_compared() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((5, 60))
    every = {(i, j): found for i, j, found in paired_many(scores)}
    (first, second) = paired_many(scores, chosen=[(0, 3), (3, 4)])
    assert (first[:2], second[:2]) == ((0, 3), (3, 4))
    assert [first[2], second[2]] == [every[0, 3], every[3, 4]]
    ((_, _, back),) = paired_many(scores, chosen=[(3, 0)])
    assert back.difference.value == -every[0, 3].difference.value


def test_too_few_items_or_clusters_detect_nothing() -> None:
    assert paired(*table(2, 1, 2)).smallest_detectable is None  # five items: p is 2 / 2⁵ at least
    assert paired(*table(2, 1, 3)).smallest_detectable is not None
    one, other = table(20, 10, 30)
    in_five, in_six = ([place % num for place in range(60)] for num in (5, 6))
    assert paired(one, other, clusters=in_five).smallest_detectable is None
    assert paired(one, other, clusters=in_six).smallest_detectable is not None


def test_few_discordant_items_do_not_promise_a_difference_that_they_cannot_make() -> None:
    one = paired(*table(1, 0, 9)).smallest_detectable
    assert one is not None
    # One item of ten differs; the formula says 0.28, which would take three that do.
    assert exact_power(one, 10, discordant=one) == pytest.approx(0.8, abs=1e-6)
    assert one == pytest.approx(0.67, abs=0.01)
    enough = paired(*table(8, 4, 18)).smallest_detectable
    assert enough == pytest.approx(2.8016 * math.sqrt(12) / 30, abs=1e-4)
