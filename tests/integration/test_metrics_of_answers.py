"""Built-in metrics of free answers and of probabilities, from the command line to the results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lm_eval
from lm_eval.cli import main
from lm_eval.errors import ConfigError, LmEvalWarning
from lm_eval.models.base import LM
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest

TASK = {
    "task": "quiz",
    "dataset_path": "rows.jsonl",
    "test_split": "test",
    "doc_to_text": "question",
    "doc_to_choice": "choices",
    "doc_to_target": "golds",
}
DOCS = [
    {"question": "1?", "choices": ["the Red Fox", "a Cat"], "golds": ["a Cat", "the Red Fox"]},
    {"question": "2?", "choices": ["17 yards", "3"], "golds": ["3", "3"]},
]


class FixedLM(LM):
    """Gives choice 0 three quarters of the probability, and one reply to every prompt."""

    reply = "The final answer is red fox."

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        return [(math.log(0.3 if request.index == 0 else 0.1), False) for request in requests]

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        return [self.reply for _ in requests]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in DOCS))


def scores(**changes: Any) -> dict[str, Any]:
    task = {key: value for key, value in {**TASK, **changes}.items() if value is not None}
    results = lm_eval.simple_evaluate(model=FixedLM(), tasks=[task])
    primary = next(iter(results["primary_metrics"]["quiz"])).removesuffix(",none")
    intervals = results["intervals"]["quiz"]
    return {**results["results"]["quiz"], "primary": primary, "intervals": intervals}


def text_task(**changes: Any) -> dict[str, Any]:
    return {"doc_to_choice": None, "formats": "cot", **changes}


def test_the_best_of_several_golds_counts() -> None:
    listed = [{"metric": name} for name in ("f1", "em", "f1_drop", "em_drop")]
    got = scores(**text_task(metric_list=listed))
    assert [got[f"{name},none"] for name in ("f1", "em", "f1_drop", "em_drop")] == [0.5] * 4
    assert got["primary"] == "acc"


def test_primary_metric_is_the_score_where_it_fits() -> None:
    assert scores(**text_task(primary_metric="f1"))["primary"] == "f1"
    assert scores(formats="mcqa", primary_metric=["f1", "prob_mass"])["primary"] == "prob_mass"
    assert scores(formats="mcqa", primary_metric=["f1"])["primary"] == "acc"


def test_a_list_within_the_golds_has_several_spans() -> None:
    spans = "{{ [['fox', 'red'], 'x'] }}"
    got = scores(**text_task(doc_to_target=spans, primary_metric="em_drop"))
    assert got["em_drop,none"] == 0.0
    FixedLM.reply = "The final answer is red, fox"
    try:
        got = scores(**text_task(doc_to_target=spans, primary_metric="em_drop"))
    finally:
        FixedLM.reply = "The final answer is red fox."
    assert got["em_drop,none"] == 1.0


def test_an_unread_reply_scores_nothing_even_without_a_gold() -> None:
    FixedLM.reply = "Hm."
    try:
        got = scores(**text_task(doc_to_target="{{ ['the'] }}", primary_metric="em"))
    finally:
        FixedLM.reply = "The final answer is red fox."
    assert got["em,none"] == 0.0


def test_probability_mass_of_several_golds() -> None:
    got = scores(formats="mcqa", primary_metric="prob_mass")
    assert got["prob_mass,none"] == pytest.approx((1.0 + 0.25) / 2)
    low, high = got["intervals"]["prob_mass,none"]
    assert 0 <= low < high <= 1


@pytest.mark.parametrize(("metric", "wanted"), [("em", 0.5), ("em_drop", 0.5), ("f1_drop", 0.5)])
def test_plain_tasks_take_the_best_gold(metric: str, wanted: float) -> None:
    got = scores(
        doc_to_choice=None,
        output_type="generate_until",
        doc_to_target="{{ [golds[0], 'the final answer is ' ~ golds[1]] }}",
        primary_metric=metric,
    )
    assert got["primary"] == metric
    assert got[f"{metric},none"] == wanted


def test_plain_tasks_have_probability_mass() -> None:
    got = scores(output_type="multiple_choice", metric_list=[{"metric": "prob_mass"}])
    assert got["prob_mass,none"] == pytest.approx((1.0 + 0.25) / 2)


def test_texts_are_not_compared_where_answers_are_choices() -> None:
    with pytest.warns(LmEvalWarning, match="it compares texts, and under this format answers are"):
        got = scores(formats="generate", metric_list=[{"metric": "f1"}])
    assert "f1,none" not in got
    with pytest.raises(ConfigError, match="metric 'f1' cannot be computed from choices read from"):
        scores(formats={"type": "generate", "metrics": ["f1"]})


def test_mathematical_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_verify")
    target = "{{ ['\\\\frac{1}{2}', 'none'] }}"
    monkeypatch.setattr(FixedLM, "reply", r"The final answer is \(\sin^2 x + \cos^2 x - 0.5\)")
    scored = scores(**text_task(doc_to_target=target, primary_metric="math_equal"))
    assert (scored["math_equal,none"], scored["primary"]) == (1.0, "math_equal")


def test_a_lenient_reading_stands_below_the_strict_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FixedLM, "reply", "That is 2 * 347.\n#### $694")
    task = text_task(doc_to_target="{{ '694' }}", formats="gsm8k")
    scored = scores(**task)
    assert (scored["acc,none"], scored["acc_lenient,none"], scored["primary"]) == (0, 1, "acc")
    Path("quiz.yaml").write_text(json.dumps({**TASK, **task}))
    assert main(["run", "--tasks", "quiz.yaml", "--model", "dummy"]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert ["gsm8k", "acc"] in rows
    assert ["gsm8k", "acc_lenient"] in rows


@pytest.mark.parametrize(
    ("reply", "is_told"),
    [("Here's how:", True), ("**Steps:**", True), ("So:\n1.", True), ("At 12:30", False)],
)
def test_a_stop_string_before_the_answer_is_remarked(
    reply: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FixedLM, "reply", reply)
    results = lm_eval.simple_evaluate(model=FixedLM(), tasks=[{**TASK, **text_task(formats="qa")}])
    notes = [note for task in results["notes"].values() for note in task]
    assert any("2 of 2 replies end at a stop string" in note for note in notes) is is_told


def test_majorities_go_by_the_metric_that_is_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [r"\frac12", "0.5", "3", "3", "1/2"]

    def answered(self: FixedLM, requests: Sequence[GenerateRequest]) -> list[str]:
        return [f"The final answer is {replies[at % 5]}" for at, _ in enumerate(requests)]

    monkeypatch.setattr(FixedLM, "generate_until", answered)
    task = text_task(doc_to_target="{{ ['x', '\\\\sqrt{1/4}'] }}", repeats=5)
    plain, by_value = scores(**task), scores(**task, primary_metric="math_equal")
    assert (plain["maj@5,none"], by_value["maj@5,none"]) == (0.0, 1.0)
    assert by_value["math_equal,none"] == pytest.approx(3 / 5)
    assert by_value["pass@5,none"] == 1.0


def test_the_option_of_math_equal_that_went_is_named() -> None:
    listed = [{"metric": "math_equal", "sympy": True}]
    with pytest.raises(ConfigError, match=r"no option 'sympy': math-verify decides"):
        scores(**text_task(metric_list=listed))


@pytest.mark.parametrize("key", [5, [], ["f1", 2]])
def test_primary_metric_is_a_name(key: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"primary_metric must be .* such as `primary_metric: f1`"
    ):
        scores(**text_task(primary_metric=key))


def test_an_unknown_primary_metric_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("quiz.yaml").write_text(
        json.dumps({**TASK, "formats": "mcqa", "primary_metric": "prob_mas"})
    )
    assert main(["run", "--tasks", "quiz.yaml", "--model", "dummy"]) != 0
    assert "unknown metric, 'prob_mas'. Did you mean 'prob_mass'?" in capsys.readouterr().err


def test_repeats_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", "dummy", "--limit", "5", "--repeats"]
    assert main([*words, "3", "--tasks", "demo_short@cot,demo_mcq@cloze"]) == 0
    printed = capsys.readouterr().out
    assert "pass@3" in printed
    assert "maj@3" in printed
    for value, tasks, said in (
        ("3", "demo_mcq@cloze", "--repeats 3: no task of this run generates text"),
        ("0", "demo_mcq@generate", "--repeats 0: give the number of replies to each doc"),
    ):
        assert main([*words, value, "--tasks", tasks]) == 1
        assert said in capsys.readouterr().err
