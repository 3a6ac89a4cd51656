"""What people see of scores and agreement, at any width, and what goes into JSON."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from nugget_eval.output import tables
from nugget_eval.scores.agreement import agreement, rater_agreement
from nugget_eval.scores.compare import compare_runs, rank_runs, run_agreement
from nugget_eval.scores.scores import score_run, score_runs
from tests.support.nuggets.labelled import labels, run

HOSTILE = "[bold]run[/bold] \x1b[31m\u202eevil\nline | <b>"
FIRST = {"a": "SPN SN", "b": "SS N", "c": " S", "d": ".. ."}
SECOND = {"a": "SSN SN", "b": "SN N", "c": " P", "d": "SS N"}
RUNS = score_runs([*run(FIRST, "one"), *run(SECOND, "two")])


def printed(table: Any, width: int = 120) -> str:
    stream = StringIO()
    Console(file=stream, width=width, markup=False, emoji=False, highlight=False).print(table)
    return stream.getvalue()


def test_summary_has_one_row_for_each_run() -> None:
    text = printed(tables.summary_table(RUNS, ["vital_score", "all_score"]), width=100)
    heading, _, one, two, *notes = text.splitlines()
    assert heading.split() == ["Run", "vital", "all", "Worst–best", "Labelled", "Topics"]
    assert one.split()[:2] == ["one", ".750"]  # of a 0.5 and b 1
    assert ".50–.83" in one  # over a, b and d
    assert "75 %" in one  # of all its nuggets
    assert two.split()[0] == "two"
    assert "100 %" in two
    assert "\n".join(notes).count("1 × no vital nuggets; 1 × no label could be read") == 1


def test_summary_keeps_every_measure_in_a_narrow_terminal() -> None:
    text = printed(tables.summary_table(RUNS), width=60)
    for measure in ("strict_vital", "strict_all", "vital", "all", "strict_weighted", "weighted"):
        assert measure in text
    assert max(map(len, text.splitlines())) <= 60


def test_topics() -> None:
    text = printed(tables.topic_table(RUNS[0]))
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    assert lines["a"][1:4] == [".500", ".500", "5/5"]
    assert lines["c"][1:] == ["–", "1.000", "1/1", "no", "vital", "nuggets"]
    assert lines["d"][1:4] == ["–", "–", "0/3"]
    partly = printed(tables.topic_table(score_run(run({"x": "S."}))))
    assert "1.000 (.50–1.00)" in partly


def test_ranking_and_comparison() -> None:
    ranking = rank_runs(RUNS, "all_score")
    text = printed(tables.ranking_table(ranking))
    assert [line.split()[:2] for line in text.splitlines()[2:]] == [["1", "one"], ["1", "two"]]
    text = printed(tables.comparison_table([compare_runs(*RUNS, "all_score"), *ranking.pairs]))
    assert "one − two" in text
    assert "2–0–1" in text
    assert "exact sign flips, Holm" in text


def test_agreement_shows_reasons() -> None:
    found = agreement(labels("SSSS"), labels("SSS."))
    text = printed(tables.agreement_table(found))
    (kappa,) = (line for line in text.splitlines() if line.startswith("kappa "))
    assert kappa.split()[1:3] == ["–", "0"]
    notes = tables.agreement_notes(found)
    kappas = "kappa, kappa_linear, kappa_quadratic, alpha_nominal, alpha_ordinal"
    assert f"{kappas}: undefined: only one label occurs" in notes  # each reason once
    assert "f1[not_support]: undefined: not_support never occurs" in notes
    text = printed(tables.confusion_table(found))
    assert text.splitlines()[2].split() == ["support", "3", "0", "0", "1"]
    three = rater_agreement({"a": labels("SPN"), "b": labels("SPP"), "c": labels("NPN")})
    assert "alpha_ordinal" in printed(tables.agreement_table(three))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_are_data(width: int) -> None:
    hostile = score_runs([*run({HOSTILE: "S", "b": "N"}, HOSTILE), *run(SECOND, "two")])
    every = [
        tables.summary_table(hostile),
        tables.topic_table(hostile[0]),
        tables.ranking_table(rank_runs(hostile, "all_score")),
        tables.comparison_table([compare_runs(*hostile, "all_score")]),
    ]
    for table in every:
        text = printed(table, width)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert all(len(line) <= width for line in text.splitlines())
        assert r"[bold]run" in text.replace("\n", "").replace(" ", "") or width == 40
        assert all(
            line.count("|") == table.markdown()[0].count("|") + line.count(r"\|")
            for line in table.markdown()
        )


def test_dicts_are_strict_json() -> None:
    ranking = rank_runs(RUNS, "all_score")
    every = [
        RUNS[0].to_dict(),
        ranking.to_dict(),
        compare_runs(*RUNS, "all_score").to_dict(),
        agreement(labels("SS"), labels("SS")).to_dict(),
        rater_agreement({"a": labels("S"), "b": labels("S")}).to_dict(),
        run_agreement(RUNS, RUNS, "all_score").to_dict(),
    ]
    for value in every:
        assert json.loads(json.dumps(value, allow_nan=False)) == value
    means = every[0]["means"]["vital_score"]
    assert means["value"] == 0.75
    assert means["worst_case"] == 0.5
    assert means["coverage"] == pytest.approx(5 / 7)
    assert means["undefined"] == {"no vital nuggets": 1, "no label could be read": 1}
    assert every[0]["topics"][2]["scores"]["vital_score"]["reason"] == "no vital nuggets"
    assert every[3]["measures"]["kappa"]["reason"] == "undefined: only one label occurs"
