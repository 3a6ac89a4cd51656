"""``repeats`` under a format: several replies to each doc, averaged, with pass@k and maj@k."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from lm_eval.lab.stored.run import open_runs
from lm_eval.scoring.functions import majority_score, pass_chance
from lm_eval.stats.estimates import mean_estimate
from tests.support.command_line import Workplace


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def ran(work: Workplace, *argv: str, **keys: Any) -> dict[str, Any]:
    keys = {"formats": "generate", "repeats": 5} | keys
    work.run("--tasks", work.task(**keys), *argv).ok()
    return work.results()


def right(sample: dict[str, Any]) -> list[bool]:
    """Which replies are right, from what was read of each and the doc."""
    return [one["value"] == sample["doc"]["answer"] for one in sample["readings"]]


def test_replies_are_averaged_for_each_doc(work: Workplace) -> None:
    found = ran(work, metric_list=[{"metric": "pass@2"}, {"metric": "maj@3"}])
    samples = work.samples("t")
    result = found["results"]["t"]
    counts = [sum(right(sample)) for sample in samples]
    assert [sample["acc"] for sample in samples] == [count / 5 for count in counts]
    expected = mean_estimate([count / 5 for count in counts])
    assert result["acc,none"] == pytest.approx(expected.value)
    assert result["acc_stderr,none"] == pytest.approx(expected.stderr)
    intervals = found["intervals"]["t"]
    assert intervals["acc,none"] == pytest.approx([expected.low, expected.high])
    assert result["sample_len"] == 20  # docs, not replies
    for k in (2, 5):
        passed = mean_estimate([pass_chance(count, 5, k) for count in counts])
        assert result[f"pass@{k},none"] == pytest.approx(passed.value)
        assert intervals[f"pass@{k},none"] == pytest.approx([passed.low, passed.high])
    votes = [
        [
            (one["value"], float(ok))
            for one, ok in zip(sample["readings"], right(sample), strict=True)
        ]
        for sample in samples
    ]
    for k in (3, 5):
        voted = mean_estimate([majority_score(replies, k) for replies in votes])
        assert result[f"maj@{k},none"] == pytest.approx(voted.value)
        assert result[f"maj@{k}_stderr,none"] == pytest.approx(voted.stderr)
    assert found["primary_metrics"]["t"] == {"acc,none": None}


def test_acc_read_is_over_the_replies_of_a_doc_that_were_read(work: Workplace) -> None:
    result = ran(work)["results"]["t"]
    values = []
    for sample in work.samples("t"):
        read = [
            ok
            for one, ok in zip(sample["readings"], right(sample), strict=True)
            if one["no_answer"] is None
        ]
        if read:
            values.append(mean(read))
    assert result["acc_read,none"] == pytest.approx(mean(values))


def test_every_reply_counts_as_read_or_not(work: Workplace) -> None:
    result = ran(work)["results"]["t"]
    readings = [one for sample in work.samples("t") for one in sample["readings"]]
    unread = [one for one in readings if one["no_answer"] is not None]
    assert result["replies"] == {"total": 100, "read": 100 - len(unread)}
    assert sum(result["unread"].values()) == len(unread) > 0
    assert result["share_read,none"] == pytest.approx(1 - len(unread) / 100)


def test_samples_hold_all_replies(work: Workplace) -> None:
    ran(work)
    sample = work.samples("t")[0]
    assert [len(given) for given in sample["resps"]] == [5]
    assert len(sample["readings"]) == 5
    assert len(sample["arguments"]) == 1
    shared = {key: sample["readings"][0][key] for key in sample["reading"]}
    assert shared == sample["reading"]
    assert [one["right"] for one in sample["readings"]] == right(sample)


def test_an_item_is_read_to_the_share_of_its_replies_that_are(work: Workplace) -> None:
    ran(work)
    (run,) = open_runs([work.output])
    expected = [
        sum(one["no_answer"] is None for one in sample["readings"]) / 5
        for sample in work.samples("t")
    ]
    assert list(run.items("t").read or ()) == expected


def test_replies_that_are_all_the_same_are_told(work: Workplace) -> None:
    found = ran(work, "--model_args", "reply=The best answer is B.")
    notes = found["notes"]["t"]
    assert notes[0].startswith("5 replies to each doc")
    assert "are the same for every doc" in notes[1]
    result = found["results"]["t"]
    assert result["acc,none"] == result["pass@5,none"] == result["maj@5,none"] == 0.25
    assert "the same" not in "".join(ran(work)["notes"]["t"])


def test_other_aggregations_are_of_the_first_reply(work: Workplace) -> None:
    found = ran(work, metric_list=[{"metric": "f1_macro"}])
    assert "f1_macro is that of the first reply to each doc" in found["notes"]["t"]
    once = ran(work, metric_list=[{"metric": "f1_macro"}], repeats=1)
    key = "f1_macro,none"
    assert found["results"]["t"][key] == once["results"]["t"][key]


def test_clusters_and_repeats_go_together(work: Workplace) -> None:
    work.rows()
    found = ran(work, cluster="{{ question[1] }}")
    methods = found["interval_methods"]["t"]
    assert methods["acc,none"] == methods["maj@5,none"] == "t over 10 clusters, few clusters"


def test_scored_choices_are_asked_once(work: Workplace) -> None:
    found = ran(work, formats="mcqa", metric_list=[{"metric": "pass@2"}])
    assert "pass@5,none" not in found["results"]["t"]
    assert "readings" not in work.samples("t")[0]


def test_one_reply_is_as_before(work: Workplace) -> None:
    found = ran(work, repeats=1, metric_list=[{"metric": "pass@1"}])
    result = found["results"]["t"]
    assert result["pass@1,none"] == result["acc,none"]
    assert "t" not in found["notes"]
    assert "readings" not in work.samples("t")[0]


@pytest.mark.parametrize("metric", ["pass@6", "maj@9"])
def test_more_replies_than_there_are_is_an_error(work: Workplace, metric: str) -> None:
    task = work.task(formats="generate", repeats=5, metric_list=[{"metric": metric}])
    for command in (("run", "--model", "dummy"), ("validate",)):
        done = work.cli(*command, "--tasks", task)
        assert done.code == 1
        said = done.err + done.out
        assert f"metric {metric!r} needs {metric[-1]} replies to each doc" in said
        assert f"repeats: {metric[-1]}" in said


def test_the_table_shows_them(work: Workplace) -> None:
    done = work.run("--tasks", work.task(formats="generate", repeats=2))
    assert "pass@2" in done.out
    assert "maj@2" in done.out
    assert "2 replies to each doc" in done.out.replace("\n", " ")
