"""``TaskConfig`` in Python: templates applied, switched at run time, fields assigned later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.api.template import gpqa_template, mmlu_template
from lm_eval.config.yaml import load_yaml
from lm_eval.errors import ConfigError, FormatError
from tests.support.choice_task import choice_config

DOC = {"question": "q", "other": "o", "choices": ["x", "y"], "answer": 1}


def config(**keys: Any) -> TaskConfig:
    return choice_config([DOC], **{"output_type": "multiple_choice", **keys})


def prompt(a_config: TaskConfig, format_name: str | None = None) -> str:
    return ConfigurableTask(a_config, format_name=format_name).ask(0).turn.user


@pytest.mark.parametrize(
    "keys", [{}, {"template": "mcq::gpqa"}, {"formats": "mcqa"}, {"formats": {"mcqa": None}}]
)
def test_document_001_runtime_switching(keys: dict[str, Any]) -> None:
    task = config(**keys)
    task.template_config = mmlu_template()
    task.doc_to_text = task.template_config.get_doc_to_text()
    task.doc_to_choice = task.template_config.get_doc_to_choice()
    assert prompt(task) == "q\nA. x\nB. y\nAnswer:"
    asked = ConfigurableTask(task).ask(0)
    assert asked.continuations == ("A", "B")
    assert asked.gold == (1,)

    cloze_template = task.template_config.to_cloze()
    task.template_config = cloze_template
    task.doc_to_text = cloze_template.get_doc_to_text()
    task.doc_to_choice = cloze_template.get_doc_to_choice()
    assert prompt(task) == "q ______\nOptions: A. x B. y"
    assert ConfigurableTask(task).format is None  # no format made this prompt
    assert prompt(task, "cloze") == "Question: q\nAnswer:"  # a format still sees the raw fields


@pytest.mark.parametrize("keys", [{}, {"formats": "mcqa"}])
def test_a_field_assigned_later_counts(keys: dict[str, Any]) -> None:
    task = config(**keys)
    task.doc_to_text = "other"
    assert prompt(task) == "o"
    assert prompt(task, "cloze") == "Question: o\nAnswer:"


def test_with_format_leaves_the_config_alone() -> None:
    task = config(formats={"mcqa": None, "cloze": None})
    before = task.doc_to_text
    prompt(task, "cloze")
    assert task.doc_to_text is before
    assert prompt(task) == "Question: q\nA. x\nB. y\nAnswer:"


def test_template_without_a_target_can_be_looked_at_only() -> None:
    task = config(template="mcq", doc_to_target=None)
    assert task.doc_to_text(DOC) == "q\nA. x\nB. y\nAnswer:"
    assert task.doc_to_choice(DOC) == ["A", "B"]
    assert task.doc_to_target is None
    with pytest.raises(FormatError, match="no doc_to_target"):
        prompt(task)


def test_template_given_as_an_object() -> None:
    assert prompt(config(template=gpqa_template())) == "q\n(A) x (B) y\nAnswer:"


def test_mappings_work_too() -> None:
    mapping = {
        "task": "t",
        "custom_dataset": lambda: {"test": [DOC]},
        "test_split": "test",
        "doc_to_target": "answer",
        "template": "cloze",
    }
    assert ConfigurableTask(mapping).ask(0).turn.user == "q ______\nOptions: A. x B. y"


@pytest.mark.parametrize("keys", [{}, {"formats": "generate"}, {"template": "mcq"}])
def test_templates_compile_once_per_task(
    keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = [{**DOC, "question": f"q{n}"} for n in range(40)]
    task = ConfigurableTask(
        config(
            custom_dataset=lambda: {"test": docs},
            doc_to_text="{{ question }} once" + str(keys),
            doc_to_choice="{{ choices }}",
            doc_to_target="{{ answer }}",
            **keys,
        )
    )
    task.ask(0)
    monkeypatch.setattr(jinja2.Environment, "compile", None)  # a second compilation would fail
    assert len({task.ask(place).turn.user for place in range(40)}) == 40


def test_to_dict_shows_what_was_set() -> None:
    shown = config(formats="mcqa").to_dict()
    assert shown["formats"] == "mcqa"
    assert "{{" in shown["doc_to_text"] or "{%" in shown["doc_to_text"]
    assert "template" not in shown


@pytest.mark.parametrize(
    "written",
    [
        "formats:\n  type: mcqa\n  instrution: x\n",
        "formats:\n  mcqa:\n    instrution: x\n",
        "template:\n  template_type: mcq\n  instrution: x\n",
    ],
)
def test_a_misspelt_field_of_a_format_is_found_in_its_file(tmp_path: Path, written: str) -> None:
    text = (
        "task: t\ndoc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n" + written
    )
    file = tmp_path / "t.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 7: .*'instrution'") as caught:
        TaskConfig.from_mapping(load_yaml(file), source=str(file))
    assert (caught.value.path, caught.value.line) == (str(file), 7)
