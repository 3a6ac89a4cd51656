"""What a format asks and scores beyond its fields one by one: blanks to fill, texts beside labels."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.errors import ConfigError, FormatError
from lm_eval.formats.compile import compile_format
from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests

ROWS = [
    {
        "sentence": "The drum is louder than the flute, so _ is muted. ",
        "options": ["drum", "flute"],
    },
    {"sentence": "Kim thanked Lou because _ had helped, _ said.", "options": ["Kim", "Lou"]},
    {"sentence": "_ broke first.", "options": ["The rope", "The chain"]},
]


def blanks(rows: list[dict[str, Any]] = ROWS, **keys: Any) -> ConfigurableTask:
    """The rows under ``fill``; the second choice is right."""
    config = TaskConfig(
        task="blanks",
        custom_dataset=lambda: {"test": rows},
        test_split="test",
        doc_to_text="sentence",
        doc_to_choice="options",
        doc_to_target=1,
        fewshot_config={"sampler": "first_n"},
        **keys,
    )
    return ConfigurableTask(config, format_name="fill")


def scored(task: ConfigurableTask, doc_id: int, **options: Any) -> list[tuple[str, str]]:
    (doc,) = build_requests(task, [doc_id], PromptOptions(**options))
    requests = [one for one in doc.requests if isinstance(one, LoglikelihoodRequest)]
    return [(str(one.context), one.continuation) for one in requests]


def test_each_choice_fills_the_first_blank_and_the_rest_is_scored() -> None:
    assert scored(blanks(), 0) == [
        ("The drum is louder than the flute, so drum", " is muted."),
        ("The drum is louder than the flute, so flute", " is muted."),
    ]
    assert scored(blanks(), 1)[0] == ("Kim thanked Lou because Kim", " had helped, _ said.")


def test_examples_are_whole_sentences_with_the_right_choice() -> None:
    shot = "The drum is louder than the flute, so flute is muted.\n\n"
    assert scored(blanks(), 2, num_fewshot=1) == [
        (f"{shot}The rope", " broke first."),
        (f"{shot}The chain", " broke first."),
    ]


@pytest.mark.parametrize(
    ("sentence", "problem"), [("No blank here.", "no blank"), ("It was _ ", "nothing behind")]
)
def test_a_question_without_a_blank_is_an_error_that_names_other_formats(
    sentence: str, problem: str
) -> None:
    task = blanks([{"sentence": sentence, "options": ["a", "b"]}])
    with pytest.raises(FormatError, match=rf"doc 0: .*{problem}.*such as bare or mcqa") as caught:
        task.ask(0)
    assert caught.value.skip_reason


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": "generate", "scored": "labels"}, "generates text"),
        ({"type": "cloze", "scored": "labels"}, "needs labels"),
        ({"type": "mcqa", "scored": "texts"}, "target_format with {answer}"),
        ({"type": "bare", "scored": "rest"}, "give blank_marker"),
        ({"type": "fill", "answer_prompt": "Answer:"}, "answer_prompt has no place"),
        ({"type": "fill", "choice_labels": "letters"}, "choice_labels has no place"),
        ({"type": "fill", "normalization": "pmi"}, "leave normalization out"),
        ({"type": "mcqa", "scored": "text"}, "one of labels, texts, rest"),
    ],
)
def test_what_cannot_be_scored_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        compile_format(fields)


def test_labels_are_shown_and_texts_are_scored() -> None:
    fields = {"type": "mcqa", "scored": "texts", "target_format": "{answer}"}
    config = TaskConfig(
        task="blanks",
        custom_dataset=lambda: {"test": ROWS},
        test_split="test",
        doc_to_text="sentence",
        doc_to_choice="options",
        doc_to_target=1,
        fewshot_config={"sampler": "first_n"},
        formats=fields,
    )
    task = ConfigurableTask(config)
    context = "Question: _ broke first.\nA. The rope\nB. The chain\nAnswer:"
    assert scored(task, 2) == [(context, " The rope"), (context, " The chain")]
    shown, _ = scored(task, 2, num_fewshot=1)[0]
    assert shown.endswith(f"\nB. flute\nAnswer: flute\n\n{context}")
    assert task.config.doc_to_choice(ROWS[2]) == ["The rope", "The chain"]
