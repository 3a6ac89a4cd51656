"""A metric is one function wherever it is used: in plain tasks, under formats, from a helper file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lm_eval
from lm_eval.api.registry import register_aggregation, register_metric
from lm_eval.cli import main
from lm_eval.errors import ConfigError
from lm_eval.models.base import LM
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest
from lm_eval.tasks import TaskManager
from tests.support.choice_task import CHOICE_TASK as TASK

pytestmark = pytest.mark.usefixtures("own_registries", "folder")
DOCS = [
    {"question": "Italy?", "choices": ["Paris France", "Rome Italy"], "answer": 1},
    {"question": "France?", "choices": ["Paris France", "Rome France"], "answer": 0},
]
REPLIES = ["The final answer is Rome Italy", "The final answer is Rome France"]
HELPERS = """\
from lm_eval.api.registry import register_metric


def overlap(references, predictions, scale=1):
    words, said = set(references[0].split()), set(predictions[0].split())
    return scale * len(words & said) / len(words)


def widest(values):
    return max(values)


@register_metric(metric="registered_by_helper", aggregation="mean", higher_is_better=True)
def registered(references, predictions):
    return {"registered_by_helper": overlap(references, predictions)}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in DOCS))
    Path("helpers.py").write_text(HELPERS)


class LastLM(LM):
    """Picks the last choice, and gives ``REPLIES`` in order."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        return [(float(request.index) - 9, False) for request in requests]

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        return [REPLIES[request.doc_id] for request in requests]


def scores(task: str, selector: str = "capitals") -> dict[str, Any]:
    """The scores of a task file under a selector."""
    Path("capitals.yaml").write_text(task)
    manager = TaskManager(include_path=".", include_defaults=False)
    found = lm_eval.simple_evaluate(LastLM(), tasks=[selector], task_manager=manager)
    assert found is not None
    return {name.partition(",")[0]: value for name, value in found["results"][selector].items()}


def register_overlap(**facts: Any) -> None:
    @register_metric(
        metric="test_overlap", output_type=["multiple_choice", "generate_until"], **facts
    )
    def overlap(references: list[str], predictions: list[str], scale: float = 1) -> float:
        words, said = set(references[0].split()), set(predictions[0].split())
        return scale * len(words & said) / len(words)


@pytest.mark.parametrize(
    "selector", ["capitals@mcqa", "capitals@cloze", "capitals@cot", "capitals"]
)
def test_one_function_scores_every_kind_of_task(selector: str) -> None:
    """Right is the first doc; in the second, one word of two is."""
    register_overlap(aggregation="mean", higher_is_better=True)
    listed = "metric_list: [{metric: test_overlap, scale: 100}]\noutput_type: multiple_choice\n"
    assert scores(f"{TASK}{listed}", selector)["test_overlap"] == 75.0


def test_a_format_names_it_beside_its_own_metrics() -> None:
    register_overlap(aggregation="mean", higher_is_better=True)
    named = "formats: {type: generate, metrics: [acc, test_overlap]}\n"
    found = scores(f"{TASK}{named}")
    assert found["test_overlap"] == 0.75
    assert found["acc"] == 0.5


def test_a_plain_task_that_generates() -> None:
    register_overlap(aggregation="mean", higher_is_better=True)
    task = f"{TASK}output_type: generate_until\nmetric_list: [{{metric: test_overlap}}]\n"
    assert scores(task)["test_overlap"] == 0.75


@pytest.mark.parametrize("selector", ["capitals@mcqa", "capitals@cot", "capitals"])
def test_a_function_of_a_helper_file_needs_no_name(selector: str) -> None:
    listed = (
        "metric_list:\n  - metric: !function helpers.overlap\n    scale: 2\n"
        "    aggregation: !function helpers.widest\n    higher_is_better: true\n"
        "output_type: multiple_choice\n"
    )
    assert scores(f"{TASK}{listed}", selector)["overlap"] == 2.0


def test_a_helper_may_register_it() -> None:
    listed = "metric_list: [{metric: registered_by_helper}]\nprocess_docs: !function helpers.all\n"
    Path("helpers.py").write_text(f"{HELPERS}\n\ndef all(docs):\n    return docs\n")
    assert scores(f"{TASK}{listed}", "capitals@cot")["registered_by_helper"] == 0.75


def test_other_aggregations_have_a_bootstrap_interval() -> None:
    register_aggregation("test_span")(lambda values: max(values) - min(values))
    register_overlap(aggregation="test_span")
    found = scores(f"{TASK}metric_list: [{{metric: test_overlap}}]\n", "capitals@mcqa")
    assert found["test_overlap"] == 0.5
    assert found["test_overlap_stderr"] > 0


def test_corpus_scores_are_metrics_of_generated_text_under_formats() -> None:
    pytest.importorskip("sacrebleu")
    found = scores(f"{TASK}metric_list: [{{metric: chrf}}]\n", "capitals@cot")
    assert 0 < found["chrf"] < 100


def test_options_of_exact_match_count_under_formats() -> None:
    task = f"{TASK}doc_to_target: wanted\n".replace("doc_to_target: answer\n", "")
    rows = [{**doc, "wanted": "rome italy"} for doc in DOCS]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = task.replace("doc_to_choice: choices\n", "")
    assert scores(task, "capitals@cot")["exact_match"] == 0.0
    listed = "metric_list: [{metric: exact_match, ignore_case: true}]\n"
    assert scores(f"{task}{listed}", "capitals@cot")["exact_match"] == 0.5


# Wrong input


def test_a_function_that_fails_says_on_what() -> None:
    register_metric(metric="test_broken")(lambda references, predictions: 1 / 0)
    with pytest.raises(
        ConfigError, match=r"capitals@cot.*doc 0: metric 'test_broken' of .*ZeroDiv"
    ):
        scores(f"{TASK}metric_list: [{{metric: test_broken}}]\n", "capitals@cot")


@pytest.mark.parametrize("value", [None, float("nan"), "much", {"other": 1.0}])
def test_a_value_that_is_not_a_number_is_an_error(value: Any) -> None:
    register_metric(metric="test_odd")(lambda references, predictions: value)
    with pytest.raises(ConfigError, match=r"metric 'test_odd' of .* Give a finite number"):
        scores(f"{TASK}metric_list: [{{metric: test_odd}}]\n", "capitals@cot")


def test_a_metric_that_does_not_fit_a_format_is_an_error() -> None:
    register_metric(metric="test_text_only", output_type="generate_until")(lambda **_: 1.0)
    named = "formats: {type: mcqa, metrics: [test_text_only]}\n"
    with pytest.raises(
        ConfigError, match=r"'test_text_only' cannot be computed from scored choices"
    ):
        scores(f"{TASK}{named}")


def test_an_unknown_name_in_a_format_says_how_to_register_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("capitals.yaml").write_text(f"{TASK}formats: {{type: mcqa, metrics: [acc, overlp]}}\n")
    assert main(["run", "--model", "dummy", "--tasks", "capitals.yaml"]) == 1
    assert "unknown metric 'overlp'" in capsys.readouterr().err


def test_the_name_of_a_metric_of_formats_is_taken() -> None:
    with pytest.raises(ConfigError, match=r"'kendall_tau' is registered twice"):
        register_metric(metric="kendall_tau")(lambda **_: 1.0)
