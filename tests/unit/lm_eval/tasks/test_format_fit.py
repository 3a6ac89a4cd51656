"""A format wants raw fields: what is refused, and what draws a warning that shows the prompt."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from lm_eval.errors import FormatError, LmEvalWarning
from tests.support.choice_task import choice_task

DOCS = [
    {"question": f"{n} + {n}?", "choices": [f"{n}", f"{2 * n}", "ten"], "answer": 1}
    for n in range(1, 7)
]
SHOWN = "{{question}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nAnswer:"


def check(format_name: str = "mcqa", docs: Any = DOCS, **keys: Any) -> None:
    choice_task(docs, format_name, **keys).check_fitness()


def test_raw_fields_are_fine() -> None:
    for name in ("mcqa", "cloze", "generate", "cot", "mcq::mmlu"):
        check(name)
        check(name, doc_to_text="{{ question.strip() }}")
        check(name, doc_to_text=lambda doc: doc["question"])


@pytest.mark.parametrize(
    "text",
    [
        f"Think. {SHOWN}",
        "{{question}} (A) {{choices[0]}} (B) {{choices[1]}} (C) {{choices[2] ~ ''}}",
        "{{question}}{% for choice in choices %}\n{{ loop.index }}) {{ choice }}{% endfor %}",
        "{{question}} [b] {{choices[0]}} [c] {{choices[1]}} [d] {{choices[2]}}",
    ],
)
@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "cot"])
def test_choices_rendered_in_doc_to_text(text: str, name: str) -> None:
    with pytest.raises(FormatError, match="already shows the choices") as caught:
        check(name, doc_to_text=text)
    message = str(caught.value)
    assert f"'t@{name}'" in message
    assert "`doc_to_text: question`" in message
    assert "`doc_to_choice`" in message


@pytest.mark.parametrize(
    "labels", [["A", "B", "C"], ["(A)", "(B)", "(C)"], ["A.", "B.", "C."], [" A", " B", " C"]]
)
def test_choices_that_are_bare_labels(labels: list[str]) -> None:
    with pytest.raises(FormatError, match="bare labels") as caught:
        check(doc_to_choice=labels)
    assert "doc_to_choice" in str(caught.value)


def test_numbers_that_are_labels() -> None:
    with pytest.raises(FormatError, match="bare labels"):
        check(doc_to_choice=["1", "2", "3"])
    with pytest.raises(FormatError, match="bare labels"):
        check(doc_to_choice=["0", "1", "2"])


def test_numbers_that_are_answers() -> None:
    docs = [{"question": "q", "choices": ["1", "2", "3"], "answer": 0}, *DOCS]
    check(docs=docs)
    check(doc_to_choice=["yes", "no", "maybe"])


@pytest.mark.parametrize("text", ["Consider: {{question}}", "{{question}}\nBe brief."])
def test_literal_text_draws_a_warning_with_the_prompt(text: str) -> None:
    with pytest.warns(LmEvalWarning, match="carries text of its own") as caught:
        check(doc_to_text=text)
    asked = text.replace("{{question}}", "1 + 1?")
    assert f"Question: {asked}\nA. 1\nB. 2\nC. ten\nAnswer:" in str(caught[0].message)


@pytest.mark.parametrize(
    "text", ["{{question}} ", "{{question}}\n", "- {{question}}", "{{a}}{{question}}"]
)
def test_punctuation_and_white_space_are_no_text(text: str) -> None:
    docs = [{**doc, "a": ""} for doc in DOCS]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(doc_to_text=text, docs=docs)


def test_the_tasks_own_rules_are_left_alone() -> None:
    """Document 000: a task without template or format works as before."""
    own = {"doc_to_text": SHOWN, "doc_to_choice": ["A", "B", "C"]}
    task = choice_task(DOCS, **own, output_type="multiple_choice")
    task.check_fitness()
    asked = task.ask(0)
    assert asked.turn.user == "1 + 1?\nA. 1\nB. 2\nC. ten\nAnswer:"
    assert asked.continuations == ("A", "B", "C")
    assert asked.gold == (1,)
