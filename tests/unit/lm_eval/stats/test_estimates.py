"""Estimates against numbers from statsmodels, scikit-learn and simulation."""

import json
import math
import random
import statistics
from collections import Counter
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lm_eval.stats.estimates import (
    Estimate,
    cells_estimate,
    macro_f1,
    macro_f1_estimate,
    mean_estimate,
    pooled_estimate,
    resampled_tail,
    share_estimate,
    t_quantile,
)

_ROWS = json.loads((Path(__file__).parent / "wilson.json").read_text())["rows"]
WILSON = [(k, n, low, high) for k, n, confidence, low, high in _ROWS if confidence == 0.95]
PAIRS = list(zip("AABBCCDDAABC", "ABBBCADDAADC", strict=True))


def test_wilson_equals_statsmodels():
    for k, n, low, high in WILSON:
        estimate = share_estimate(k, n)
        assert (estimate.value, estimate.method) == (k / n, "wilson")
        assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-12), (k, n)


def test_wilson_is_exact_at_the_ends():
    assert share_estimate(0, 10).low == 0.0
    assert share_estimate(10, 10).high == 1.0


@given(st.lists(st.sampled_from([0, 1, True, False, 0.0, 1.0]), min_size=2, max_size=50))
def test_binary_mean_is_the_share_with_the_sample_stderr(values):
    estimate = mean_estimate(values)
    assert estimate == share_estimate(sum(map(int, values)), len(values))
    expected = statistics.stdev(map(float, values)) / math.sqrt(len(values))
    assert estimate.stderr == pytest.approx(expected, abs=1e-12)
    assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0


def test_graded_scores_have_the_interval_of_student_s_t():
    values = [0.1, 0.25, 0.5, 0.75, 0.8, 0.3, 0.9, 0.45, 0.6, 0.2]
    estimate = mean_estimate(values)
    assert estimate.value == pytest.approx(0.485)
    assert estimate.stderr == pytest.approx(0.08661857640124186)
    assert (estimate.low, estimate.high) == pytest.approx(ends(estimate, T_OF_9), rel=1e-12)
    assert estimate.method == "t over items, small n"
    many = mean_estimate(values * 50)
    assert (many.low, many.high) == pytest.approx(ends(many, T_OF_499), rel=1e-12)
    assert many.method == "t over items"


# The 97.5 % points of Student's t from 30 digits; older releases of scipy have ten of them.
T_OF_9, T_OF_499 = 2.26215716279820554, 1.96472939098768907


def ends(estimate, reach):
    return estimate.value - reach * estimate.stderr, estimate.value + reach * estimate.stderr


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_student_s_t_equals_scipy(confidence):
    for df in (1, 2, 3, 4, 7, 30, 199, 200, 201, 500, 100_000):
        wanted = stats.t.ppf(0.5 + confidence / 2, df)
        assert t_quantile(confidence, df) == pytest.approx(wanted, rel=1e-9)


def test_the_interval_is_not_clipped_outside_the_unit_interval():
    estimate = mean_estimate([-3.5, 2.25, 10.0, 4.125, -0.5] * 8)
    assert estimate.stderr == pytest.approx(0.7301211701333711)
    assert (estimate.low, estimate.high) == pytest.approx(ends(estimate, stats.t.ppf(0.975, 39)))
    assert estimate.method == "t over items"


def test_the_interval_is_clipped_where_all_scores_lie_in_the_unit_interval():
    assert mean_estimate([0.99, 1.0, 0.5, 1.0]).high == 1.0
    assert mean_estimate([0.99, 1.01, 0.5, 1.0]).high > 1.0


def test_one_item_has_no_stderr():
    assert mean_estimate([0.5]) == Estimate(0.5, None, None, None, 1, "none")
    assert mean_estimate([1]).stderr is None
    assert mean_estimate([1]).method == "wilson"


def test_items_that_do_not_differ_have_no_interval():
    assert mean_estimate([0.1] * 40) == Estimate(0.1, 0.0, None, None, 40, "none")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_named_with_its_place(bad):
    with pytest.raises(ValueError, match="value 2 is"):
        mean_estimate([0.0, 1.0, bad])


def bootstrap_of_mean(values, *args):
    """The mean of numbers by ``cells_estimate``: each number is a kind of cell."""

    def mean(cells):
        return sum(value * count for (value, _), count in cells.items()) / sum(cells.values())

    return cells_estimate([(value, None) for value in values], mean, *args)


def test_bootstrap_is_deterministic_and_near_student_s_interval():
    rng = random.Random(7)
    values = [rng.random() for _ in range(300)]
    first = bootstrap_of_mean(values, 2000, 1)
    assert first == bootstrap_of_mean(values, 2000, 1)
    assert first != bootstrap_of_mean(values, 2000, 2)
    wanted = mean_estimate(values)
    assert first.value == pytest.approx(wanted.value)
    assert first.stderr == pytest.approx(wanted.stderr, rel=0.08)
    assert (first.low, first.high) == pytest.approx((wanted.low, wanted.high), abs=0.005)
    assert first.method == "bootstrap"


@pytest.mark.parametrize("num", [2, 5, 12, 100, 10**6])
def test_few_units_leave_out_fewer_draws(num):
    reach = stats.t.ppf(0.975, num - 1) * math.sqrt(num / (num - 1))
    assert resampled_tail(0.95, num) == pytest.approx(stats.norm.cdf(-reach), rel=1e-6, abs=1e-12)


def test_a_bootstrap_of_few_items_reaches_as_far_as_student_s_t():
    values = [0.31, 0.58, 0.44, 0.72, 0.5, 0.63, 0.38, 0.49]
    found, wanted = bootstrap_of_mean(values, 4000), mean_estimate(values)
    assert found.high - found.low == pytest.approx(wanted.high - wanted.low, rel=0.08)
    assert found.high - found.low > 1.15 * 2 * 1.96 * found.stderr


def test_bootstrap_without_draws_has_no_interval():
    assert bootstrap_of_mean([1.0, 2.0], 0).method == "none"
    assert bootstrap_of_mean([1.0]).stderr is None
    assert macro_f1_estimate(PAIRS, iters=0).low is None


def test_a_statistic_that_fails_on_a_resample_is_named():
    def fragile(cells):
        return math.nan if len(cells) == 1 else 1.0

    with pytest.raises(ValueError, match="statistic of resample"):
        cells_estimate([("A", "A"), ("B", "B")], fragile)


def test_macro_f1_equals_scikit_learn():
    assert macro_f1(Counter(PAIRS)) == pytest.approx(0.7541666666666667)  # f1_score(macro)


def test_macro_f1_counts_an_unread_answer_against_its_gold_only():
    cells = {("A", "A"): 3, ("A", None): 1, ("B", "B"): 4}
    assert macro_f1(cells) == pytest.approx((2 * 3 / 7 + 1) / 2)


@pytest.mark.parametrize("repeat", [1, 400])
def test_cells_give_the_interval_of_the_item_bootstrap(repeat):
    pairs = PAIRS * repeat
    fast = cells_estimate(pairs, macro_f1, iters=1500, seed=3)
    rng = random.Random(4)
    drawn = [macro_f1(Counter(rng.choices(pairs, k=len(pairs)))) for _ in range(300)]
    tail = resampled_tail(0.95, len(pairs))
    assert fast == cells_estimate(pairs, macro_f1, iters=1500, seed=3)
    assert fast.value == macro_f1(Counter(pairs))
    assert fast.stderr == pytest.approx(statistics.stdev(drawn), rel=0.2)
    assert (fast.low, fast.high) == pytest.approx(
        numpy.quantile(drawn, [tail, 1 - tail]).tolist(), abs=4 * statistics.stdev(drawn) / 5
    )


def test_groups_follow_the_harness():
    members = [share_estimate(30, 60), share_estimate(90, 100)]
    group = pooled_estimate(members)
    assert group.value == pytest.approx(120 / 160)
    spread = sum((m.n - 1) * m.stderr**2 * m.n for m in members)
    assert group.stderr == pytest.approx(math.sqrt(spread / (160 - 2) / 160))
    plain = pooled_estimate(members, weight_by_size=False)
    assert plain.value == pytest.approx(0.7)
    assert plain.stderr == pytest.approx(math.hypot(*(m.stderr for m in members)) / 2)
    assert plain.n == group.n == 160


def test_groups_of_few_graded_scores_have_intervals_of_student_s_t():
    first, second = [0.1, 0.4, 0.3, 0.9], [0.5, 0.2, 0.7, 0.6, 0.1, 0.3]
    members = [mean_estimate(first), mean_estimate(second)]
    group = pooled_estimate(members)
    ends = stats.t.interval(0.95, 4 + 6 - 2, group.value, group.stderr)
    assert (group.low, group.high) == pytest.approx(ends, rel=1e-12)
    # The plain mean of two means is half the difference of one and the negative of the other.
    alike = [score + 0.25 for score in first]
    plain = pooled_estimate([mean_estimate(first), mean_estimate(alike)], weight_by_size=False)
    welch = stats.ttest_ind(first, [-score for score in alike], equal_var=False)
    low, high = welch.confidence_interval()
    assert (plain.low, plain.high) == pytest.approx((low / 2, high / 2), rel=1e-12)


def test_a_group_with_a_member_without_stderr_has_none():
    assert pooled_estimate([share_estimate(1, 1), share_estimate(3, 4)]).stderr is None


def test_a_group_of_right_and_wrong_is_one_share_of_all_items():
    group = pooled_estimate([share_estimate(99, 100), share_estimate(3, 3)])
    whole = share_estimate(102, 103)
    assert (group.low, group.high) == (whole.low, whole.high)
    nothing = pooled_estimate([share_estimate(0, 3)])
    assert nothing.high > 0.5, "three wrong answers do not prove a score of 0"


def test_an_unweighted_group_stays_in_the_unit_interval():
    members = [share_estimate(99, 100), share_estimate(3, 3)]
    assert pooled_estimate(members, weight_by_size=False).high == 1.0
    flat = pooled_estimate([share_estimate(3, 3)] * 2, weight_by_size=False)
    assert (flat.low, flat.high, flat.method) == (None, None, "none")
