"""What the viewer shows of a judged run: labels by judge, golds, and quotations found in the text."""

from __future__ import annotations

import json
from pathlib import Path

from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract
from nugget_eval.lab.judgements import judgements
from nugget_eval.lab.nuggets import JudgedFolder
from tests.support.nuggets.workplace import TOPICS, Workplace
from tests.support.paths import ROOT

JUDGED = ROOT / "tests/fixtures/before_the_house/judged/run"
REASONED = """<reasoning>
1. nugget="Air"; snippet="air scatters BLUE light"; rationale="It says so."; decision=support
2. nugget="Sunsets look red"; snippet="Sunsets … red"; rationale="Said."; decision=support
3. nugget="Snow is white"; snippet="snow is white"; rationale="Not there."; decision=support
4. nugget="Light has no weight"; snippet="none"; rationale="Nothing."; decision=not_support
</reasoning>
["support", "support", "support", "not_support"]"""


def test_labels_golds_and_texts() -> None:
    shown = judgements(JudgedFolder(JUDGED))
    rows = [json.loads(line) for line in (JUDGED / "assignments.jsonl").read_text().splitlines()]
    assert [unit["qid"] for unit in shown["units"]] == [row["qid"] for row in rows]
    for unit, row in zip(shown["units"], rows, strict=True):
        assert unit["passage"] == row["answer_text"]
        labels = [nugget["assignment"] for nugget in row["nuggets"]]
        assert [nugget["label"] for nugget in unit["nuggets"]] == labels
        assert [nugget["votes"] for nugget in unit["nuggets"]] == [{"toy": one} for one in labels]
    assert shown["units"][0]["nuggets"][0]["gold"] == "support"
    numbers = [nugget["doc"] for unit in shown["units"] for nugget in unit["nuggets"]]
    assert numbers == list(range(9))


def test_quotations_are_marked_where_they_are(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.topics({"t1": TOPICS["t1"]})
    data = ["--nuggets", "nuggets.jsonl", "--answers", "answers.jsonl", "--output_path", "out"]
    asked = ["--prompt_type", "short_cot", "--format_type", "json"]
    model = ["--model", "dummy", "--model_args", json.dumps({"reply": REASONED})]
    place.cli("run", *data, *asked, *model).ok()
    (unit,) = judgements(JudgedFolder(tmp_path / "out"))["units"]
    passage = unit["passage"]
    quoted = [[passage[start:end] for start, end in one["spans"]] for one in unit["nuggets"]]
    assert quoted == [["Air scatters blue light"], ["Sunsets", "red"], [], []]
    assert [one["verdict"] for one in unit["nuggets"]][:3] == ["found", "found", "not_found"]
    assert unit["nuggets"][0]["rationale"] == "It says so."


def test_the_viewer_gets_it_through_the_run() -> None:
    contract = Contract(Catalogue([JUDGED]))
    (run,) = contract.answer("runs")["runs"]
    assert run["kind"] == "judge"
    shown = contract.answer(f"judge/{run['id']}/{run['results'][0]['key']}")
    assert shown["judges"] == ["toy"]
    assert len(shown["units"]) == 3
