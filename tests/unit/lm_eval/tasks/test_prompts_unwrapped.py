"""Prompts of harness files, taken apart for a format: what can be proved, and nothing else."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import FormatError, LmEvalWarning
from lm_eval.tasks.prompts import RawFields, unwrapped
from tests.support.choice_task import choice_task

DOCS = [
    {"question": f"Which is {n}?", "choices": [f"w{n}", f"x{n}", "y", "z"], "answer": n % 4}
    for n in range(6)
]
LETTERS = ["A", "B", "C", "D"]
MMLU = (
    "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\n"
    "D. {{choices[3]}}\nAnswer:"
)


def task(format_name: str | None = "mcqa", **keys: Any) -> ConfigurableTask:
    return choice_task(DOCS, format_name, **{"output_type": "multiple_choice", **keys})


RAW = task().ask(1)


@pytest.mark.parametrize(
    "text",
    [
        "Question: {{question}}\nAnswer:",
        "Question: {{ question }}",
        "{{question}}\nAnswer:",
        "Q: {{question}}\nA:",
        "Question:\n{{question}}\n\nThe correct answer: ",
        "Frage: {{question}}\nAntwort:",
        "Pregunta: {{question}}\nRespuesta:",
        "Question : {{question}}\nRéponse :",
        "Вопрос: {{question}}\nОтвет:",
        "问题：{{question}}\n答案：",
        "質問: {{question}}\n回答:",
        "질문: {{question}}\n정답:",
    ],
)
def test_words_around_one_field_are_taken_off(text: str) -> None:
    with pytest.warns(LmEvalWarning, match=r"taken off.*doc_to_text: '\{\{ question \}\}'"):
        asked = task(doc_to_text=text)
    assert asked.ask(1).turn == RAW.turn
    asked.check_fitness()


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (MMLU, LETTERS),
        (MMLU, "choices"),
        (MMLU, "{{ choices }}"),
        (MMLU, "{{ [choices[0], choices[1], choices[2], choices[3]] }}"),
        (MMLU.replace(". ", ") "), LETTERS),
        (MMLU.replace("\nAnswer:", ""), LETTERS),
        (f"Question: {MMLU}", [" A", " B", " C", " D"]),
        (MMLU.replace("\nA. ", "\nOptions:\nA. "), LETTERS),
    ],
)
def test_choices_laid_out_in_the_text_become_the_choices(text: str, choice: Any) -> None:
    with pytest.warns(LmEvalWarning, match=r"asked with doc_to_text: '\{\{ question"):
        asked = task(doc_to_text=text, doc_to_choice=choice)
    assert asked.ask(1).turn == RAW.turn
    assert asked.ask(1).gold == RAW.gold
    assert asked.ask(1).choices == RAW.choices
    asked.check_fitness()


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("question", "choices"),
        ("{{question}}", "choices"),
        ("Consider: {{question}}\nAnswer:", "choices"),
        ("Passage: {{passage}}\nQuestion: {{question}}\nAnswer:", "choices"),
        ("Question: {{question}}\nAnswer: I think", "choices"),
        ("Question: {% if a %}{{question}}{% endif %}\nAnswer:", "choices"),
        ("Question: {{question -}}\nAnswer:", "choices"),
        (MMLU, ["A", "B", "C"]),
        (MMLU, "options"),
        (MMLU.replace("choices[1]", "choices[2]"), "choices"),
        (MMLU.replace("B. ", "C. "), LETTERS),
        (MMLU.replace("\nA. ", " by heart.\nA. "), LETTERS),
        (lambda doc: doc["question"], "choices"),
        (None, None),
    ],
)
def test_what_is_not_proved_stays(text: Any, choice: Any) -> None:
    raw = RawFields(text, choice, "answer")
    assert unwrapped(raw) is raw


def test_what_is_not_proved_is_refused_as_before() -> None:
    odd = task(doc_to_text=MMLU.replace("\nA. ", " by heart.\nA. "))
    with pytest.raises(FormatError, match="already shows the choices"):
        odd.check_fitness()


def test_a_task_without_a_format_keeps_its_prompt_and_its_fingerprint() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = task(None, doc_to_text=MMLU, doc_to_choice=LETTERS)
    assert plain.ask(1).turn.user.endswith("Answer:")
    with pytest.warns(LmEvalWarning, match="taken off"):
        asked = task(doc_to_text=MMLU, doc_to_choice=LETTERS)
    assert asked.fingerprint == plain.fingerprint


def test_a_task_with_formats_of_its_own_is_taken_at_its_word() -> None:
    text = "Question: {{question}}\nAnswer:"
    assert task("cloze", doc_to_text=text, formats="mcqa").config.raw.text == text
