"""Agreement against scikit-learn, statsmodels and scipy, and numbers worked by hand."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import (
    cohen_kappa_score,
    confusion_matrix,
    precision_recall_fscore_support,
)
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from lm_eval.errors import DataError
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import share_estimate
from lm_eval.stats.ranks import tau_b
from nugget_eval.data.files import align_labels
from nugget_eval.data.records import Gold, Nugget
from nugget_eval.reading import LABELS
from nugget_eval.scores.agreement import (
    Agreement,
    agreement,
    rater_agreement,
)
from nugget_eval.scores.bootstrap import Resampling
from nugget_eval.scores.compare import run_agreement, tau_ap
from nugget_eval.scores.scores import score_runs
from tests.support.nuggets.labelled import labels, nuggets, run

H, J, K = "SSSSPPPNNNNN", "SSPSPNPNNNPN", "SPSSPPNNNNNS"
CODES = {"N": 0, "P": 1, "S": 2}
PAIRS = st.lists(st.tuples(st.sampled_from("SPN"), st.sampled_from("SPN")), min_size=1, max_size=30)
QUICK = Resampling(iters=2)


def pair(first: str, second: str, **options: Any) -> Agreement:
    return agreement(labels(first), labels(second), **options)


def value(found: Any, name: str) -> float | None:
    measure = found.measures[name]
    assert (measure.value is None) <= bool(measure.reason)
    return measure.value  # type: ignore[no-any-return]


def test_worked_numbers() -> None:
    found = pair(H, J)
    expected = {
        "accuracy": 0.75,
        "kappa": 0.62105,
        "kappa_linear": 0.72308,
        "kappa_quadratic": 0.82,
    }
    for name, number in expected.items():
        assert value(found, name) == pytest.approx(number, abs=5e-6)
    raters = {"h": labels(H), "j": labels(J), "k": labels(K)}
    three = rater_agreement(raters)
    assert value(three, "fleiss") == pytest.approx(0.49176, abs=5e-6)
    assert value(three, "alpha_nominal") == pytest.approx(0.50588, abs=5e-6)
    assert value(three, "alpha_ordinal") == pytest.approx(0.65292, abs=5e-6)
    raters["k"][4] = raters["k"][10] = None
    some = rater_agreement(raters)
    assert value(some, "alpha_nominal") == pytest.approx(0.47757, abs=5e-6)
    assert value(some, "alpha_ordinal") == pytest.approx(0.64249, abs=5e-6)
    assert (some.items, some.paired, some.complete) == (12, 12, 10)
    first, second = [0.61, 0.58, 0.58, 0.44, 0.40, 0.31], [0.66, 0.52, 0.57, 0.45, 0.45, 0.20]
    assert tau_b(np.array([first]), np.array([second]))[0] == pytest.approx(0.92857, abs=5e-6)


@given(PAIRS)
def test_pairs_against_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, judged = ("".join(side) for side in zip(*pairs, strict=True))
    found = pair(gold, judged, how=QUICK)
    known = [labels(gold), labels(judged)]
    table = confusion_matrix(*known, labels=list(LABELS))
    assert [[found.confusion[a][b] for b in LABELS] for a in LABELS] == table.tolist()
    codes = [[CODES[letter] for letter in side] for side in (gold, judged)]
    for name, weights in (
        ("kappa", None),
        ("kappa_linear", "linear"),
        ("kappa_quadratic", "quadratic"),
    ):
        if len(set(gold) | set(judged)) == 1:
            assert found.measures[name].estimate is None
            assert found.measures[name].reason == "undefined: only one label occurs"
        else:
            oracle = cohen_kappa_score(*codes, weights=weights, labels=[0, 1, 2])
            assert value(found, name) == pytest.approx(oracle)
    scores = precision_recall_fscore_support(*known, labels=list(LABELS), zero_division=math.nan)
    for name, column in zip(("precision", "recall", "f1"), scores, strict=False):
        for label, oracle in zip(LABELS, column, strict=True):
            ours = value(found, f"{name}[{label}]")
            assert ours == (None if math.isnan(oracle) else pytest.approx(oracle))
    for label, size in zip(LABELS, scores[3], strict=True):
        recall = found.measures[f"recall[{label}]"].estimate
        assert (recall.n if recall else 0) == size
    occurring = [label for label, n in zip(LABELS, table.sum(0) + table.sum(1), strict=True) if n]
    macro = precision_recall_fscore_support(
        *known, labels=occurring, average="macro", zero_division=0.0
    )[2]
    assert value(found, "macro_f1") == pytest.approx(macro)
    gaps = (np.array(codes[1]) - np.array(codes[0])) / 2
    assert value(found, "mae") == pytest.approx(np.abs(gaps).mean())
    assert value(found, "bias") == pytest.approx(gaps.mean())


@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(st.text("SPN", min_size=k, max_size=k), min_size=1)
    )
)
def test_fleiss_against_statsmodels(items: list[str]) -> None:
    raters = {str(i): labels("".join(column)) for i, column in enumerate(zip(*items, strict=True))}
    ours = value(rater_agreement(raters, how=QUICK), "fleiss")
    if len(set("".join(items))) == 1:
        assert ours is None
        return
    counts, _ = aggregate_raters([[CODES[letter] for letter in item] for item in items])
    assert ours == pytest.approx(fleiss_kappa(counts))


def alpha(items: Sequence[str], *, is_ordinal: bool) -> float | None:
    """Krippendorff's alpha from its definition: all pairs within items against all pairs at all."""
    units = [[letter for letter in item if letter != "."] for item in items]
    units = [unit for unit in units if len(unit) > 1]
    pooled = [CODES[letter] for unit in units for letter in unit]

    def distance(a: int, b: int) -> float:
        if not is_ordinal:
            return float(a != b)
        low, high = min(a, b), max(a, b)
        between = sum(low <= value <= high for value in pooled)
        return float(between - (pooled.count(a) + pooled.count(b)) / 2) ** 2 if a != b else 0.0

    expected = sum(distance(a, b) for a, b in itertools.permutations(pooled, 2))
    if not expected:
        return None
    seen = sum(
        distance(CODES[a], CODES[b]) / (len(unit) - 1)
        for unit in units
        for a, b in itertools.permutations(unit, 2)
    )
    n = len(pooled)
    return 1 - (seen / n) / (expected / (n * (n - 1)))


@given(st.lists(st.text("SPN.", min_size=3, max_size=3), min_size=1, max_size=10))
def test_alpha_against_its_definition(items: list[str]) -> None:
    raters = {str(i): labels("".join(column)) for i, column in enumerate(zip(*items, strict=True))}
    found = rater_agreement(raters, how=QUICK)
    for is_ordinal, name in ((False, "alpha_nominal"), (True, "alpha_ordinal")):
        oracle = alpha(items, is_ordinal=is_ordinal)
        assert value(found, name) == (None if oracle is None else pytest.approx(oracle))


@given(PAIRS)
def test_alpha_of_two_is_the_same_by_both_ways(pairs: list[tuple[str, str]]) -> None:
    gold, judged = ("".join(side) for side in zip(*pairs, strict=True))
    both = rater_agreement({"g": labels(gold), "j": labels(judged)}, how=QUICK)
    one = pair(gold, judged, how=QUICK)
    for name in ("alpha_nominal", "alpha_ordinal"):
        assert value(one, name) == (
            None if value(both, name) is None else pytest.approx(value(both, name))
        )


SCORES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6)


@given(SCORES)
def test_tau_b_against_scipy(scores: list[tuple[int, int]]) -> None:
    first, second = (np.array([side]) / 4 for side in zip(*scores, strict=True))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # scipy warns where tau is undefined
        oracle = kendalltau(first[0], second[0]).statistic
        assert tau_b(first, second)[0] == pytest.approx(oracle, nan_ok=True)


def plain_tau_ap(gold: Sequence[float], order: Sequence[int]) -> float:
    """From its definition: walking down the judged order, the share above that is rightly above."""
    shares = [
        sum((gold[y] > gold[x]) + 0.5 * (gold[y] == gold[x]) for y in order[:place]) / place
        for place, x in enumerate(order)
        if place
    ]
    return 2 * sum(shares) / len(shares) - 1


@given(SCORES)
def test_tau_ap_is_the_mean_over_all_orders_of_ties(scores: list[tuple[int, int]]) -> None:
    gold, judged = zip(*scores, strict=True)
    assume(len(set(gold)) > 1 and len(set(judged)) > 1)
    orders = [
        order
        for order in itertools.permutations(range(len(gold)))
        if all(judged[a] >= judged[b] for a, b in itertools.pairwise(order))
    ]
    expected = np.mean([plain_tau_ap(gold, order) for order in orders])
    found = tau_ap(np.array([gold]) / 4, np.array([judged]) / 4)[0]
    assert found == pytest.approx(expected)


def test_tau_ap_weighs_the_top() -> None:
    gold = np.array([[5.0, 4, 3, 2, 1]])
    top, bottom = np.array([[4.0, 5, 3, 2, 1]]), np.array([[5.0, 4, 3, 1, 2]])
    assert tau_ap(gold, gold)[0] == pytest.approx(1)
    assert tau_ap(gold, -gold)[0] == pytest.approx(-1)
    assert tau_ap(gold, top)[0] == pytest.approx(0.5)  # 2/4 · (0 + 1 + 1 + 1) − 1
    assert tau_ap(gold, bottom)[0] == pytest.approx(0.875)  # 2/4 · (1 + 1 + 1 + 3/4) − 1
    assert tau_b(gold, top)[0] == tau_b(gold, bottom)[0]


def test_missing_labels_are_counted_and_not_compared() -> None:
    found = pair("SSPN.N", "SN.N.P")
    assert (found.compared, found.total) == (4, 5)
    assert found.coverage == 0.8
    assert found.confusion["partial_support"]["missing"] == 1
    assert value(found, "accuracy") == 0.5
    nothing = pair("SP", "..")
    assert nothing.coverage == 0
    assert {measure.value for measure in nothing.measures.values()} == {None}
    assert nothing.measures["kappa"].reason == "undefined: no item has two labels"
    none = pair("", "")
    assert none.coverage is None
    several = rater_agreement({"a": labels("S."), "b": labels(".S")})
    assert several.measures["fleiss"].reason == "undefined: no item has a label of every rater"
    assert several.measures["alpha_ordinal"].reason == "undefined: no item has two labels"


def test_one_label_gives_no_kappa_but_an_accuracy() -> None:
    found = pair("SSSS", "SSSS", topics=list("aabb"))
    assert found.measures["kappa"].to_dict()["reason"] == "undefined: only one label occurs"
    assert found.measures["alpha_ordinal"].value is None
    assert (
        found.measures["recall[not_support]"].reason
        == "undefined: not_support never occurs in gold"
    )
    accuracy = found.measures["accuracy"].estimate
    assert accuracy is not None
    assert (accuracy.value, accuracy.n, accuracy.method) == (1.0, 4, "wilson over 2 topics")
    assert accuracy.low == pytest.approx(0.3424, abs=1e-4)  # 2 of 2: a topic's labels go together
    alone = pair("SSSS", "SSSS").measures["accuracy"].estimate
    assert alone is not None
    assert (alone.n, alone.method) == (4, "wilson")
    assert alone.low == pytest.approx(0.5101, abs=1e-4)  # 4 of 4


def test_a_judge_that_is_always_right_is_as_sure_as_in_the_format_lab() -> None:
    topics = list("aaabbcd")
    found = pair("SPNSPNS", "SPNSPNS", topics=topics).measures
    clustered = clustered_estimate([1.0] * 7, topics)
    for name, low in (("accuracy", clustered.low), ("recall[support]", wilson_low(3))):
        estimate = found[name].estimate
        assert estimate is not None
        assert estimate.low == pytest.approx(low), name


def wilson_low(num_units: int) -> float | None:
    return share_estimate(num_units, num_units).low


def test_intervals_resample_topics() -> None:
    """Items of one topic that fail together must widen the interval."""
    gold, judged = "S" * 200, "S" * 100 + "N" * 100
    mixed = [str(i % 20) for i in range(200)]
    blocks = [str(i // 10) for i in range(200)]
    spread, together, items = (
        pair(gold, judged, topics=topics).measures["accuracy"].estimate
        for topics in (mixed, blocks, None)
    )
    assert spread is not None
    assert together is not None
    assert items is not None
    assert spread.method == "none"  # every topic has 5 of 10
    assert items.method == "bootstrap over items"
    assert together.method == "bootstrap over topics, small n"
    assert items.stderr == pytest.approx((0.25 / 200) ** 0.5, rel=0.1)
    assert together.stderr == pytest.approx((0.25 / 20) ** 0.5, rel=0.1)
    assert together.low is not None
    assert together.high is not None
    assert together.low < 0.5 < together.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    letters = np.array(["not_support", "partial_support", "support"])
    truth = np.array([[0.3, 0.05, 0.05], [0.05, 0.15, 0.05], [0.05, 0.05, 0.25]])
    seen, chance = np.trace(truth), float(truth.sum(0) @ truth.sum(1))
    kappa = (seen - chance) / (1 - chance)
    hits = 0
    for trial in range(200):
        cells = rng.choice(9, size=150, p=truth.ravel())
        found = agreement(
            list(letters[cells // 3]),
            list(letters[cells % 3]),
            how=Resampling(iters=300, seed=trial),
        )
        estimate = found.measures["kappa"].estimate
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= kappa <= estimate.high
    assert 0.89 <= hits / 200 <= 0.99


def test_files_are_put_side_by_side() -> None:
    gold = [Gold("1", nuggets("SP", "N")), Gold("2", nuggets("S"))]
    judged = [Gold("1", nuggets("SN")[::-1]), Gold("3", nuggets("S"))]
    found = align_labels(gold, judged)
    assert found.gold == ("support", "partial_support", "not_support", "support")
    assert found.judged == ("support", "not_support", None, None)
    assert found.topics == ("1", "1", "1", "2")
    assert (found.not_judged, found.not_in_gold) == (2, 1)
    whole = agreement(found.gold, found.judged, topics=found.topics)
    assert whole.coverage == 0.5  # a nugget that was never judged does not vanish
    with pytest.raises(DataError, match=r"no nugget in common\. Gold has 2; the other has 3"):
        align_labels(gold[1:], judged[1:])
    with pytest.raises(DataError, match="topic '2' occurs twice in gold"):
        align_labels([gold[1], gold[1]], judged)
    same = [Gold("1", (Nugget("a", None, "support"), Nugget("a", None, "not_support")))]
    assert align_labels(same, same).gold == ("support", "not_support")


def test_runs_are_put_side_by_side_by_their_names() -> None:
    gold = [*run({"1": "S"}, "x"), *run({"1": "N"}, "y")]
    found = align_labels(gold, gold[::-1])
    assert found.judged == found.gold == ("support", "not_support")


def test_wrong_lists() -> None:
    with pytest.raises(DataError, match="to the same items; got 1 and 2"):
        pair("S", "SS")
    with pytest.raises(DataError, match="at least two raters; got a"):
        rater_agreement({"a": labels("S")})
    with pytest.raises(DataError, match="Unknown label 'Support'"):
        agreement(["Support"], ["support"])  # type: ignore[list-item]


def judges(*rows: str) -> Any:
    """Scores of runs A, B, … given as one label for each topic."""
    every = [
        item
        for name, letters in zip("ABCDEF", rows, strict=False)
        for item in run({str(i): letter for i, letter in enumerate(letters)}, name)
    ]
    return score_runs(every)


def test_rankings_of_runs() -> None:
    gold = judges("SSSP", "SSPN", "SPNN", "NNNN")
    other = judges("SSSS", "SPPN", "SSPN", "NNNP")
    found = run_agreement(gold, other, "all_score")
    means = [[run_.means["all_score"].mean.value for run_ in side] for side in (gold, other)]
    assert value(found, "tau_b") == pytest.approx(kendalltau(*means).statistic)
    assert value(found, "tau_ap") == pytest.approx(plain_tau_ap(means[0], [0, 2, 1, 3]))
    by_topic = [
        kendalltau(
            [s.topics[i].scores["all_score"].value for s in gold],
            [s.topics[i].scores["all_score"].value for s in other],
        ).statistic
        for i in range(4)
    ]
    assert value(found, "tau_b_by_topic") == pytest.approx(np.mean(by_topic))
    assert found.measures["tau_b"].estimate is not None
    assert found.measures["tau_b"].estimate.low is not None
    assert (found.runs, found.num_topics) == (("A", "B", "C", "D"), 4)


def test_runs_that_change_places_by_noise_alone_may_have_one_order() -> None:
    rng = np.random.default_rng(5)

    def side() -> Any:
        chances = np.linspace(0.35, 0.55, 6)[:, None]
        return judges(*("".join(row) for row in np.where(rng.random((6, 40)) < chances, "S", "N")))

    found = run_agreement(side(), side(), "all_score")
    tau = found.measures["tau_b"].estimate
    assert tau is not None
    assert tau.low is not None
    assert tau.high is not None
    assert tau.low < tau.value < 0.9, "noise makes the two sides differ"
    assert tau.high == pytest.approx(1.0, abs=0.02)
    assert tau.method == "shrunk bootstrap over topics"


def test_rankings_that_say_nothing() -> None:
    tied = judges("SS", "SS")
    found = run_agreement(tied, judges("SS", "NN"), "all_score")
    assert {measure.reason for measure in found.measures.values()} == {
        "undefined: one side ties all runs"
    }
    single = run_agreement(judges("S", "N"), judges("S", "N"), "all_score")
    assert value(single, "tau_b") == pytest.approx(1)
    assert single.measures["tau_b"].estimate is not None
    assert single.measures["tau_b"].estimate.low is None
    with pytest.raises(DataError, match=r"at least two runs .* there are 1"):
        run_agreement(tied, judges("SS"), "all_score")
    with pytest.raises(DataError, match="No topic has all_score for every run"):
        run_agreement(judges("S.", "S."), judges(".S", ".S"), "all_score")


def test_many_items_are_resampled_by_their_kinds() -> None:
    """A hundred thousand items are at most 9 kinds of pairs; the spread is that of a share."""
    found = pair("S" * 100_000, "S" * 70_000 + "N" * 30_000)
    accuracy = found.measures["accuracy"].estimate
    assert accuracy is not None
    assert accuracy.stderr == pytest.approx((0.7 * 0.3 / 100_000) ** 0.5, rel=0.1)
