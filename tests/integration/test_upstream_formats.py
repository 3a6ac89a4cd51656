"""Formats report, stop and select as in EleutherAI's own preview of formats, release 0.5.0.dev1."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lm_eval
from lm_eval.cli import main
from lm_eval.errors import LmEvalWarning
from lm_eval.models.base import LM, Capabilities
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest
from lm_eval.tasks import TaskManager
from lm_eval.tasks.config import TaskConfig
from tests.support.choice_task import CHOICE_TASK as TASK

REPLIES = [" B", " (b).\n", " B. Rome", "Rome", " A", ""]
GROUP = """\
group: europe
task:
  - capitals
  - task: rivers
    include: capitals.yaml
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of six docs whose answer is B, and a group that names it."""
    monkeypatch.chdir(tmp_path)
    doc = {"question": "Capital of Italy?", "choices": ["Paris", "Rome"], "answer": 1}
    Path("rows.jsonl").write_text(f"{json.dumps(doc)}\n" * len(REPLIES))
    Path("capitals.yaml").write_text(TASK)
    Path("group.yaml").write_text(GROUP)


class AnsweringLM(LM):
    """Gives its replies in order, and keeps what it was asked."""

    def __init__(self, replies: Sequence[str] = REPLIES) -> None:
        self.replies = replies
        self.asked: list[GenerateRequest] = []

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        return [(-1.0 - request.index, False) for request in requests]

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        self.asked += requests
        return [self.replies[request.doc_id] for request in requests]


class ChatLM(AnsweringLM):
    """As a chat server: it cannot continue a started answer."""

    capabilities = Capabilities(loglikelihood=False, chat_only=True, prefill=False)


def evaluate(*tasks: str, model: AnsweringLM, **options: Any) -> dict[str, Any]:
    """The results of these tasks."""
    manager = TaskManager(include_path=".", include_defaults=False)
    found = lm_eval.simple_evaluate(model, tasks=list(tasks), task_manager=manager, **options)
    assert found is not None
    results: dict[str, Any] = found["results"]
    return results


def stops_of(selector: str, **options: Any) -> list[str]:
    """The stop strings that the model gets."""
    model = AnsweringLM()
    evaluate(selector, model=model, limit=1, **options)
    stops: list[str] = model.asked[0].gen_kwargs["until"]
    return stops


def test_mcqa_also_reports_acc_norm() -> None:
    scores = evaluate("capitals@mcqa", model=AnsweringLM())["capitals@mcqa"]
    assert (scores["acc,none"], scores["acc_norm,none"]) == (0.0, 0.0)


def test_generate_also_reports_exact_match() -> None:
    """Right is what names the choice, exact what is its label and nothing else."""
    scores = evaluate("capitals@generate", model=AnsweringLM())["capitals@generate"]
    assert scores["acc,none"] == pytest.approx(4 / 6)
    assert scores["exact_match,none"] == pytest.approx(2 / 6)


def test_a_model_that_wrote_gen_prefix_itself_is_exact() -> None:
    model = ChatLM(["The best answer is B"] * 5 + ["It is B. The best answer is B"])
    scores = evaluate("capitals@generate", model=model, apply_chat_template=True)
    assert scores["capitals@generate"]["exact_match,none"] == pytest.approx(5 / 6)


@pytest.mark.parametrize("until", ['"###"', '["###", "\\n\\n", "\\nQuestion:"]'])
def test_stop_strings_of_a_task_join_those_of_the_format(until: str) -> None:
    Path("capitals.yaml").write_text(f"{TASK}generation_kwargs: {{until: {until}}}\n")
    of_task = json.loads(until)
    of_task = [of_task] if isinstance(of_task, str) else of_task[:2]
    of_format = ["\nQuestion:", "\nGiven the following question"]
    assert stops_of("capitals@generate") == [*of_format, *of_task]


def test_stop_strings_of_the_run_replace_all() -> None:
    Path("capitals.yaml").write_text(f"{TASK}generation_kwargs: {{until: ['###']}}\n")
    assert stops_of("capitals@generate", gen_kwargs={"until": ["."]}) == ["."]


def test_a_stop_string_that_cuts_reasons_off_draws_a_warning() -> None:
    Path("capitals.yaml").write_text(f'{TASK}generation_kwargs: {{until: ["\\n", "</s>", "Q:"]}}\n')
    with pytest.warns(
        LmEvalWarning, match=r"Task 'capitals': '\\n' of its generation_kwargs.until"
    ):
        assert stops_of("capitals@cot")[-3:] == ["\n", "</s>", "Q:"]


def test_a_member_of_a_group_is_selected(capsys: pytest.CaptureFixture[str]) -> None:
    results = evaluate("europe::rivers@mcqa", model=AnsweringLM())
    assert list(results) == ["europe::rivers@mcqa"]
    assert main(["preview", "europe::river@mcqa", "--include_path", "."]) != 0
    assert "'europe' has no member 'river'. Did you mean 'rivers'?" in capsys.readouterr().err


# Prompts of release 0.5.0.dev1, made by its own code

QUESTION = "Question: Capital of Italy?\nA. Paris\nB. Rome\n"


@pytest.mark.parametrize(
    ("fmt", "prompt", "target"),
    [
        ("mcqa", f"{QUESTION}Answer:", 1),
        ("cloze", "Question: Capital of Italy?\nAnswer:", 1),
        (
            "generate",
            "Given the following question and 2 candidate answers (A and B), choose the best answer.\n"
            f'{QUESTION}Your response should end with "The best answer is [answer_letter]" where the '
            "[answer_letter] is one of A or B.",
            "B",
        ),
        (
            {"type": "cot", "target_format": "{answer}"},
            "Given the following problem, reason step by step to find the final answer.\n"
            'Problem: Capital of Italy?\nYour response should end with "The final answer is [answer]" '
            "where [answer] is the response to the problem.",
            "Rome",
        ),
        (
            {"type": "mcqa", "answer_instruction": "Think step by step.\n"},
            f"{QUESTION}Think step by step.\nAnswer:",
            1,
        ),
        ({"type": "mcqa", "answer_prompt": "Think.Answer:"}, f"{QUESTION}Think.Answer:", 1),
        (
            {"type": "mcqa", "section_separator": "\n\n", "choice_delimiter": " | "},
            "Question: Capital of Italy?\n\nA. Paris | B. Rome\n\nAnswer:",
            1,
        ),
    ],
)
def test_prompts_and_targets_are_those_of_the_preview(
    fmt: Any, prompt: str, target: int | str
) -> None:
    fields = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    config: Any = TaskConfig(task="capitals", formats=fmt, **fields)
    doc = {"question": "Capital of Italy?", "choices": ["Paris", "Rome"], "answer": 1}
    assert config.doc_to_text(doc) == prompt
    assert config.doc_to_target(doc) == target


def test_an_answer_instruction_without_a_newline_is_a_line_of_its_own() -> None:
    config: Any = TaskConfig(
        task="capitals",
        formats={"type": "mcqa", "answer_instruction": "Think step by step."},
        doc_to_text="question",
        doc_to_choice="choices",
        doc_to_target="answer",
    )
    doc = {"question": "Capital of Italy?", "choices": ["Paris", "Rome"], "answer": 1}
    assert config.doc_to_text(doc) == f"{QUESTION}Think step by step.\nAnswer:"
