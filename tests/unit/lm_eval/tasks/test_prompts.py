"""Docs under a format: the worked reasoning of examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask
from lm_eval.cli import main
from lm_eval.errors import ConfigError, FormatError, GoldError, LmEvalWarning
from lm_eval.formats.compile import compile_format, get_format
from lm_eval.requests import PromptOptions, build_requests
from lm_eval.tasks.format_fit import lacks_rationale
from tests.support.choice_task import choice_task
from tests.support.command_line import run_inside

DOCS = [
    {
        "question": "2 + 2 + 2?",
        "why": "2 + 2 = 4, and 4 + 2 = 6.",
        "choices": ["6", "8"],
        "answer": "6",
    },
    {"question": "3 + 3 + 3?", "why": "", "choices": ["6", "9"], "answer": "9"},
    {"question": "4 + 4 + 4?", "why": None, "choices": ["9", "12"], "answer": "12"},
]


def task(format_name: str | None, docs: Any = DOCS, **keys: Any) -> ConfigurableTask:
    return choice_task(docs, format_name, **{"doc_to_rationale": "why", **keys})


def shot(asked: ConfigurableTask, place: int = 0) -> str:
    return asked.shot_turn(place).answer or ""


def test_an_example_gives_its_reasons_before_the_answer() -> None:
    asked = task("cot")
    assert shot(asked) == "2 + 2 = 4, and 4 + 2 = 6.\nThe final answer is 6"
    assert shot(asked, 1) == "The final answer is 9"
    assert shot(asked, 2) == "The final answer is 12"
    assert asked.ask(0).target == "The final answer is 6"  # what is asked is not shown its reasons


@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "classification"])
def test_formats_that_ask_for_the_answer_alone_show_it_alone(name: str) -> None:
    assert shot(task(name)) == shot(task(name, doc_to_rationale=None))


def test_a_format_says_where_reasons_are() -> None:
    own = {"type": "cot", "target_format": "{rationale} So it is {answer}."}
    assert shot(task("mine", formats={"mine": own})) == "2 + 2 = 4, and 4 + 2 = 6. So it is 6."
    spaced = {"type": "cot", "rationale_format": "<<{rationale}>>\n\n"}
    assert shot(task("mine", formats={"mine": spaced})).startswith(
        "<<2 + 2 = 4, and 4 + 2 = 6.>>\n\nThe"
    )
    hidden = {"type": "cot", "rationale_format": ""}
    assert shot(task("mine", formats={"mine": hidden})) == "The final answer is 6"


def test_reasons_that_a_format_needs_and_an_example_lacks() -> None:
    """The next example that has them is shown instead; a pool without any is an error."""
    own = {"formats": {"mine": {"type": "cot", "target_format": "{rationale}"}}}
    asked = task("mine", **own)
    assert asked.shots(1, 1) == (0,)
    assert asked.ask(1).turn  # the docs that are asked need none
    with pytest.raises(GoldError, match=r"few-shot doc 1.*no worked reasoning.*doc_to_rationale"):
        asked.shot_turn(1)


def test_examples_may_have_their_reasons_elsewhere() -> None:
    samples = [{**DOCS[0], "steps": "Count."}]
    config = {"sampler": "first_n", "samples": samples, "doc_to_rationale": "steps"}
    asked = task("cot", doc_to_rationale=None, fewshot_config=config)
    assert shot(asked) == "Count.\nThe final answer is 6"
    assert not lacks_rationale(asked.config)


def test_what_is_refused() -> None:
    with pytest.raises(FormatError, match=r"few-shot doc 0.*doc_to_rationale gives \['a'\]"):
        task("cot", [{**DOCS[0], "why": ["a"]}]).shot_turn(0)
    with pytest.raises(ConfigError, match=r"rationale_format 'Why\?' holds none"):
        compile_format({"type": "cot", "rationale_format": "Why?"})
    with pytest.warns(
        LmEvalWarning, match=r"`doc_to_rationale`, which has no effect without a format"
    ):
        task(None, output_type="multiple_choice").ask(0)


def test_fingerprints() -> None:
    assert task("cot").fingerprint != task("cot", doc_to_rationale=None).fingerprint
    same = compile_format({"type": "cot", "rationale_format": "{rationale}\n"})
    assert same.fingerprint == get_format("cot").fingerprint
    other = compile_format({"type": "cot", "rationale_format": "{rationale} "})
    assert other.fingerprint != same.fingerprint


def test_in_a_chat_reasons_are_the_assistants() -> None:
    config = {"sampler": "first_n", "samples": DOCS[:1]}
    options = PromptOptions(num_fewshot=1, as_chat=True)
    (doc,) = build_requests(task("cot", fewshot_config=config), [1], options)
    roles = [(message.role, message.content) for message in doc.context.messages]  # type: ignore[union-attr]  # a chat was asked for
    assert roles[1] == ("assistant", "2 + 2 = 4, and 4 + 2 = 6.\nThe final answer is 6")


def test_answers_without_reasons_draw_one_note(write: Callable[..., Path], tmp_path: Path) -> None:
    write("docs.jsonl", DOCS)
    keys = (
        "dataset_path: docs.jsonl\ntest_split: test\ndoc_to_text: question\ndoc_to_target: answer\n"
        "formats: cot\n"
    )
    write("bare.yaml", f"task: bare\n{keys}")
    write("reasoned.yaml", f"task: reasoned\ndoc_to_rationale: why\n{keys}")
    for shots, noted in ((0, {}), (1, {"bare"})):
        tasks = ["--tasks", "bare.yaml,reasoned.yaml", "--num_fewshot", str(shots)]
        argv = ["run", *tasks, "--model", "dummy", "--output_path", f"out{shots}"]
        run_inside(tmp_path, main, argv).ok()
        (file,) = (tmp_path / f"out{shots}").rglob("results_*.json")
        notes = json.loads(file.read_text(encoding="utf-8"))["notes"]
        assert {name for name in notes if "without the reasons" in str(notes[name])} == set(noted)
