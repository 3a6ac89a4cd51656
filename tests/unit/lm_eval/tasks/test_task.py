"""What a task says of its own prompts."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask, TaskConfig

DOCS = [
    {"question": f"What is 1{n} + 1?", "choices": [f"{n}", f"1{n + 1}", "ten"], "answer": 1}
    for n in range(1, 8)
]


def task(format_name: str | None = None, docs: Any = DOCS, **keys: Any) -> ConfigurableTask:
    fields: dict[str, Any] = {
        "task": "t",
        "custom_dataset": lambda: {"test": docs},
        "test_split": "test",
        "doc_to_text": "question",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
    }
    fields |= {} if format_name else {"output_type": "multiple_choice"}
    return ConfigurableTask(TaskConfig(**{**fields, **keys}), format_name=format_name)


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("mcqa", True),
        ("generate", True),
        ("mcq::numbered", True),
        ("cloze::with_options", True),
        ("classification", True),
        ("cloze", False),
        ("cloze::pure", False),
        ("cot", False),
    ],
)
def test_whether_a_format_shows_the_choices(name: str, shows: bool) -> None:
    """Not by its name: `classification` names them in a sentence, and `cloze` exists in both kinds."""
    assert task(name).shows_choices is shows


def test_a_format_that_drops_choices_beyond_its_labels_shows_the_others() -> None:
    docs = [{"question": "Which?", "choices": list("vwxyz"), "answer": 1}]
    assert task("mcq::mmlu", docs).shows_choices is True


def test_a_question_may_name_its_choices_itself() -> None:
    docs = [
        {"question": f"Is {n} odd or even?", "choices": ["odd", "even"], "answer": 0} for n in "135"
    ]
    assert task("cot", docs).shows_choices is True
    assert task("cot", [*docs, {**docs[0], "question": "Is 7 odd?"}]).shows_choices is False


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("Q: {{question}}\nA:", False),
        ("{{question}}\nOptions: {{choices | join(', ')}}\nAnswer:", True),
        (lambda doc: doc["question"], False),
        (lambda doc: f"{doc['question']} {'; '.join(doc['choices'])}", True),
    ],
)
def test_a_plain_task_shows_what_its_doc_to_text_writes(text: Any, shows: bool) -> None:
    assert task(doc_to_text=text).shows_choices is shows


def test_a_task_without_choices_has_none_to_show() -> None:
    docs = [{"question": "2 + 2?", "answer": "4"}]
    assert task("cot", docs, doc_to_choice=None).shows_choices is None
