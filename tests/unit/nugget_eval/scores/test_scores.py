"""Scores of topics and runs against numbers worked by hand, and tests between runs against scipy."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import DataError, UsageError
from nugget_eval.data.records import Nugget, Topic
from nugget_eval.scores.bootstrap import Resampling
from nugget_eval.scores.compare import compare_runs, rank_runs
from nugget_eval.scores.measures import MEASURES, TREC_MEASURES
from nugget_eval.scores.scores import score_run, score_runs, score_topic
from tests.support.nuggets.labelled import nuggets, run

LABEL_LETTERS = st.text("SPN.", max_size=6)


def values(vital: str, okay: str = "", unstated: str = "", **options: bool) -> list[float | None]:
    found = score_topic("1", nuggets(vital, okay, unstated), **options)
    return [found.scores[measure].value for measure in MEASURES]


@pytest.mark.parametrize(
    ("vital", "okay", "expected"),
    [
        # strict vital, strict all, vital, all, strict weighted, weighted
        ("SPN", "SN", [1 / 3, 0.4, 0.5, 0.5, 0.375, 0.5]),
        ("SSS", "SS", [1, 1, 1, 1, 1, 1]),
        ("NNN", "NN", [0, 0, 0, 0, 0, 0]),
        ("S", "", [1, 1, 1, 1, 1, 1]),
        ("SP.", "SN", [1 / 2, 2 / 4, 3 / 4, 2.5 / 4, 1.5 / 3, 2 / 3]),
        ("", "SP", [None, 1 / 2, None, 3 / 4, 1 / 2, 3 / 4]),
        ("..", "S", [None, 1, None, 1, 1, 1]),
        ("..", "", [None] * 6),
        ("", "", [None] * 6),
    ],
)
def test_scores_of_a_topic(vital: str, okay: str, expected: list[float | None]) -> None:
    assert values(vital, okay) == pytest.approx(expected, nan_ok=False)


def test_undefined_scores_say_why() -> None:
    def reason(*letters: str) -> tuple[str, str, str]:
        found = score_topic("1", nuggets(*letters)).scores
        return (
            found["vital_score"].reason,
            found["all_score"].reason,
            found["weighted_score"].reason,
        )

    assert reason("SP", "N") == ("", "", "")
    assert reason("", "N") == ("no vital nuggets", "", "")
    assert reason("", "") == ("no vital nuggets", "no nuggets", "no nuggets")
    assert reason(".", "N") == ("no label could be read", "", "")
    assert reason("S", "", "S") == ("", "", "a nugget without importance")


def nuggetizer(vital: str, okay: str) -> list[float]:
    """The four scores as its paper and files have them: failures are 0 and stay in the divisor."""

    def mean(letters: str, partial: float) -> float:
        gain = {"S": 1.0, "P": partial}
        return sum(gain.get(letter, 0.0) for letter in letters) / len(letters) if letters else 0.0

    every = vital + okay
    return [mean(vital, 0.0), mean(every, 0.0), mean(vital, 0.5), mean(every, 0.5)]


@given(LABEL_LETTERS, LABEL_LETTERS)
def test_trec_compat_scores_as_nuggetizer_does(vital: str, okay: str) -> None:
    assert values(vital, okay, trec_compat=True)[:4] == pytest.approx(nuggetizer(vital, okay))


@given(LABEL_LETTERS, LABEL_LETTERS, st.text("SPN", min_size=12, max_size=12))
def test_whatever_the_missing_labels_are_the_bounds_hold(vital: str, okay: str, truth: str) -> None:
    filled = "".join(
        true if letter == "." else letter for letter, true in zip(vital + okay, truth, strict=False)
    )
    partial = score_topic("1", nuggets(vital, okay)).scores
    whole = score_topic("1", nuggets(filled[: len(vital)], filled[len(vital) :])).scores
    for measure in MEASURES:
        score, true = partial[measure], whole[measure].value
        assert (score.low is None) == (true is None)
        if true is not None:
            assert score.low is not None
            assert score.high is not None
            assert score.low - 1e-12 <= true <= score.high + 1e-12
            if score.value is not None:
                assert score.low - 1e-12 <= score.value <= score.high + 1e-12
            if score.labelled == score.total:
                assert score.low == score.value == score.high


def test_coverage_stands_beside_every_score() -> None:
    scores = score_topic("1", nuggets("S..", "N")).scores
    vital, every = scores["vital_score"], scores["all_score"]
    assert (vital.labelled, vital.total, vital.coverage) == (1, 3, 1 / 3)
    assert (every.labelled, every.total, every.coverage) == (2, 4, 0.5)
    assert (vital.low, vital.value, vital.high) == (1 / 3, 1, 1)
    assert score_topic("1", nuggets("")).scores["vital_score"].coverage is None


TOPICS = {"a": "SPN SN", "b": "SS N", "c": " S", "d": ".. .", "e": "N. P"}


def test_means_of_a_run() -> None:
    found = score_run(run(TOPICS))
    vital = found.means["vital_score"]
    assert vital.mean.value == pytest.approx((0.5 + 1 + 0) / 3)  # a, b, e
    assert vital.num_topics == 3
    assert vital.undefined == {"no vital nuggets": 1, "no label could be read": 1}
    assert (vital.labelled, vital.total) == (3 + 2 + 1, 3 + 2 + 2 + 2)
    # Bounds are over the four topics with vital nuggets, the one without labels among them.
    assert vital.low == pytest.approx((0.5 + 1 + 0 + 0) / 4)
    assert vital.high == pytest.approx((0.5 + 1 + 1 + 0.5) / 4)
    compat = score_run(run(TOPICS), trec_compat=True).means["vital_score"]
    assert compat.mean.value == pytest.approx((0.5 + 1 + 0 + 0 + 0) / 5)
    assert compat.num_topics == 5


def test_the_interval_reaches_over_missing_labels() -> None:
    full = {str(i): "SSPN" if i % 2 else "PNNN" for i in range(40)}
    cut = {
        qid: letters[:3] + ("." if qid in "0123456789" else letters[3])
        for qid, letters in full.items()
    }
    complete = score_run(run(full)).means["all_score"].mean.estimate
    missing = score_run(run(cut)).means["all_score"].mean.estimate
    assert complete is not None
    assert missing is not None
    assert complete.method == "bootstrap over topics"
    assert missing.method == "bootstrap over topics, missing labels at worst"
    assert complete.low is not None
    assert complete.high is not None
    assert missing.low is not None
    assert missing.high is not None
    assert missing.high - missing.low > complete.high - complete.low
    assert missing.low <= complete.low  # the true labels were N, so the worst case is the truth
    assert missing.high > complete.high


def test_the_interval_is_that_of_the_mean() -> None:
    """With many topics the percentile interval is close to the normal one of the mean."""
    rng = random.Random(5)
    topics = {str(i): "".join(rng.choices("SPN", k=8)) for i in range(400)}
    found = score_run(run(topics), how=Resampling(iters=4000)).means["all_score"].mean.estimate
    assert found is not None
    scores = [
        score_topic("", nuggets(letters)).scores["all_score"].value for letters in topics.values()
    ]
    stderr = float(np.std(np.array(scores, dtype=float), ddof=1) / 20)
    assert found.stderr == pytest.approx(stderr, rel=0.05)
    assert found.low == pytest.approx(found.value - 1.96 * stderr, abs=0.15 * stderr)
    assert found.high == pytest.approx(found.value + 1.96 * stderr, abs=0.15 * stderr)


def test_the_same_seed_gives_the_same_interval() -> None:
    def interval(seed: int) -> object:
        return score_run(run(TOPICS), how=Resampling(seed=seed)).means["all_score"].mean

    assert interval(1) == interval(1)
    assert interval(1) != interval(2)


def test_degenerate_runs() -> None:
    one = score_run(run({"a": "SP. N"})).means["vital_score"]
    assert one.mean.value == 0.75
    assert one.mean.estimate is not None
    assert one.mean.estimate.low is None
    assert "two topics" in one.mean.reason
    assert (one.low, one.high) == pytest.approx((0.5, 5 / 6))
    nothing = score_run(run({"a": "..", "b": "."})).means["vital_score"]
    assert nothing.mean.value is None
    assert nothing.mean.reason == "no topic has this score: no label could be read"
    assert (nothing.low, nothing.high, nothing.coverage) == (0, 1, 0)
    same = score_run(run({"a": "SN", "b": "NS"})).means["all_score"].mean
    assert same.value == 0.5
    assert same.reason == "all topics agree: no spread to resample"
    with pytest.raises(DataError, match="without any topic"):
        score_run([])


def test_a_topic_the_judge_never_answered_lowers_the_coverage() -> None:
    topics = [Topic(qid, "q", nuggets("..", ".")) for qid in "ab"]
    found = score_run(run({"a": "SN S"}), topics=topics)
    assert [topic.qid for topic in found.topics] == ["a", "b"]
    assert found.means["all_score"].mean.value == pytest.approx(2 / 3)
    assert found.means["all_score"].coverage == 0.5
    assert found.means["all_score"].low == pytest.approx(1 / 3)
    assert found.means["all_score"].undefined == {"no label could be read": 1}
    partly = score_run(run({"a": "S", "b": "N"}), topics=topics)
    assert partly.means["all_score"].coverage == 2 / 6


def test_labels_that_do_not_fit_the_nuggets_are_an_error() -> None:
    topics = [Topic("2024-1", "q", nuggets(".", ""))]
    with pytest.raises(DataError, match=r"does not have \(1\): 2024-1x\. Did you mean '2024-1'"):
        score_run(run({"2024-1x": "S"}), topics=topics)
    with pytest.raises(DataError, match=r"Topic '2024-1': .*\(1\), such as 'vital 1'"):
        score_run(run({"2024-1": "SS"}), topics=topics)
    with pytest.raises(DataError, match="Topic 'a' has labels twice"):
        score_run([*run({"a": "S"}), *run({"a": "S"})])
    with pytest.raises(DataError, match="Labels of several runs: r, s"):
        score_run([*run({"a": "S"}), *run({"b": "S"}, "s")])


def test_equal_nuggets_are_scored_each() -> None:
    twice = (Nugget("same", "vital", "support"), Nugget("same", "vital", "not_support"))
    assert score_topic("1", twice).scores["vital_score"].value == 0.5
    topic = Topic("1", "q", tuple(Nugget("same") for _ in range(3)))
    item = run({"1": ""})[0]
    found = score_run([type(item)("q", "1", "a", 1, "r", twice)], topics=[topic])
    assert (found.means["all_score"].labelled, found.means["all_score"].total) == (2, 3)
    assert found.means["all_score"].mean.value == 0.5


def test_metrics_lines_are_those_of_nuggetizer() -> None:
    lines = score_run(run(TOPICS), trec_compat=True).to_metrics()
    assert [line["qid"] for line in lines] == [*TOPICS, "all"]
    assert [list(line) for line in lines] == [["qid", *TREC_MEASURES]] * 6
    expected = [nuggetizer(*letters.split(" ")) for letters in TOPICS.values()]
    for line, numbers in zip(lines, expected, strict=False):
        assert [*line.values()][1:] == pytest.approx(numbers)
    means = [float(np.mean(column)) for column in zip(*expected, strict=True)]
    assert [*lines[-1].values()][1:] == pytest.approx(means)
    undefined = score_run(run(TOPICS)).to_metrics()[2]
    assert json.dumps(undefined).startswith('{"qid": "c", "strict_vital_score": null,')


def test_two_runs() -> None:
    first = score_run(run({"a": "SS", "b": "SN", "c": "SP", "x": "S"}, "one"))
    second = score_run(run({"c": "SP", "b": "NN", "a": "SN", "y": "S"}, "two"))
    found = compare_runs(first, second, "vital_score")
    assert found.difference.value == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert (found.wins, found.losses, found.ties, found.num_topics) == (2, 0, 1, 3)
    assert (found.only_first, found.only_second) == (("x",), ("y",))
    assert found.p.value == 0.5  # two differences: 2 of 4 ways are as far from 0
    assert found.low == found.high == pytest.approx(found.difference.value)
    back = compare_runs(second, first, "vital_score")
    assert back.difference.value == pytest.approx(-1 / 3)
    assert back.p == found.p


def test_missing_labels_bound_the_difference() -> None:
    first = score_run(run({"a": "S.", "b": "S"}))
    second = score_run(run({"a": "SN", "b": "N"}))
    found = compare_runs(first, second, "vital_score")
    assert (found.low, found.difference.value, found.high) == (0.5, 0.75, 0.75)


def test_runs_without_a_common_topic() -> None:
    first, second = score_run(run({"a": "S"})), score_run(run({"b": "S", "a": "."}, "s"))
    with pytest.raises(DataError, match=r"No topic has vital_score for every run \(r: a; s: b"):
        compare_runs(first, second, "vital_score")
    with pytest.raises(DataError, match="No topic"):
        rank_runs([first, second], "vital_score")
    with pytest.raises(UsageError, match="Did you mean 'vital_score'"):
        compare_runs(first, second, "vital_scor")
    with pytest.raises(DataError, match="different names"):
        rank_runs([first, first], "vital_score")


def ranked(*runs_: str) -> list[tuple[int, str]]:
    """Ranks of runs given as one label for each topic."""
    every = [
        item
        for name, letters in zip("ABCDEF", runs_, strict=False)
        for item in run({str(i): letter for i, letter in enumerate(letters)}, name)
    ]
    return [(row.rank, row.run_id) for row in rank_runs(score_runs(every), "all_score").rows]


def test_runs_that_do_not_differ_share_a_rank() -> None:
    good, middling, bad = "S" * 30, "S" * 26 + "N" * 4, "N" * 30
    assert ranked(bad, good, good) == [(1, "B"), (1, "C"), (3, "A")]
    assert ranked(good, middling, bad) == [(1, "A"), (1, "B"), (3, "C")]
    assert ranked(good, "P" * 30, bad) == [(1, "A"), (2, "B"), (3, "C")]
    assert ranked(good) == [(1, "A")]


def test_no_two_runs_of_a_rank_differ() -> None:
    rng = random.Random(2)
    every = []
    for place in range(8):
        weights = [place + 1, 3, 8 - place]
        for topic in range(60):
            letters = "".join(rng.choices("SPN", weights, k=6))
            every += run({str(topic): letters}, f"run{place}")
    found = rank_runs(score_runs(every), "all_score")
    rank = {row.run_id: row.rank for row in found.rows}
    assert len(set(rank.values())) > 2
    for pair in found.pairs:
        assert pair.p_adjusted is not None
        if rank[pair.first] == rank[pair.second]:
            assert pair.p_adjusted > found.alpha
        assert rank[pair.first] <= rank[pair.second]
    means = [row.mean for row in found.rows]
    assert means == sorted(means, reverse=True)


def test_topics_that_a_run_lacks_are_left_out_of_the_ranking() -> None:
    runs_ = [score_run(run({"a": "S", "b": "S"}, "x")), score_run(run({"a": "N", "c": "."}, "y"))]
    found = rank_runs(runs_, "all_score")
    assert (found.num_topics, found.left_out) == (1, 2)
