"""What a format asks and scores beyond its fields one by one: blanks to fill, texts beside labels."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import ConfigError, FieldError, FormatError
from lm_eval.formats.compile import compile_format
from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests
from lm_eval.scoring.score import score_doc, task_metrics
from tests.support.choice_task import choice_task

ROWS = [
    {
        "sentence": "The drum is louder than the flute, so _ is muted. ",
        "options": ["drum", "flute"],
    },
    {"sentence": "Kim thanked Lou because _ had helped, _ said.", "options": ["Kim", "Lou"]},
    {"sentence": "_ broke first.", "options": ["The rope", "The chain"]},
]


def blanks(
    rows: list[dict[str, Any]] = ROWS, format_name: str | None = "fill", **keys: Any
) -> ConfigurableTask:
    """The rows under ``fill``; the second choice is right."""
    own = {"doc_to_text": "sentence", "doc_to_choice": "options", "doc_to_target": 1}
    shots = {"sampler": "first_n"}
    return choice_task(rows, format_name, **own, fewshot_config=shots, **keys)


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


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"type": "generate", "scored": "labels"}, "scored is for output_type multiple_choice"),
    ({"type": "cloze", "scored": "labels"}, "give choice_labels, such as letters"),
    ({"type": "mcqa", "scored": "texts"}, "{answer} in target_format"),
    ({"type": "bare", "scored": "rest"}, "give blank_marker"),
    ({"type": "fill", "answer_prompt": "Answer:"}, "answer_prompt has no place"),
    ({"type": "fill", "choice_labels": "letters"}, "choice_labels has no place"),
    ({"type": "fill", "normalization": "pmi"}, "normalization compares texts"),
    ({"type": "cot", "normalization": "pmi"}, "normalization compares texts"),
    ({"type": "mcqa", "scored": "text"}, "one of labels, texts, rest"),
    ({"type": "cloze", "scored_format": "{{ question }}"}, "has no {{ _choice }}"),
    ({"type": "generate", "scored_format": "{{ _choice }}"}, "scored_format is for output_type"),
    ({"type": "fill", "scored_format": "{{ _choice }}"}, "leave one of them out"),
    ({"type": "continuation", "metrics": ["acc", "acc_norm"]}, "not acc_norm"),
    ({"type": "continuation", "answers": "choice"}, "set answers: text"),
    ({"type": "mcqa", "preamble": "One of {{ _choice_list_or }}.\n"}, "Say it in `instruction`"),
    ({"type": "mcqa", "preamble": "{{ subject"}, "preamble: '{{ subject' is not valid Jinja"),
    ({"type": "mcqa", "kind": "odd"}, "one of general, convention"),
    ({"output_type": "generate_until"}, "scorer must say how the answer is read"),
    ({"type": "generate", "enforced": True}, "select the format as mine+enforced"),
    ({"type": "mcqa", "enforced": True}, "enforced needs a format that reads text"),
    ({"type": "generate", "grammar": "number"}, "grammar says what a text that is read may be"),
    ({"type": "mcqa", "grammar": "number"}, "grammar says what a text that is read may be"),
    ({"type": "cot", "grammar": "numbers"}, "Did you mean 'number'"),
]


def test_fields_that_contradict_others_are_refused() -> None:
    wrong = []
    for given, problem in CONTRADICTIONS:
        with pytest.raises(ConfigError) as caught:
            compile_format(given, name="mine")
        if problem not in str(caught.value):
            wrong.append((given, str(caught.value)))
    assert wrong == []


def test_labels_are_shown_and_texts_are_scored() -> None:
    fields = {"type": "mcqa", "scored": "texts", "target_format": "{answer}"}
    task = blanks(format_name=None, formats=fields)
    context = "Question: _ broke first.\nA. The rope\nB. The chain\nAnswer:"
    assert scored(task, 2) == [(context, " The rope"), (context, " The chain")]
    shown, _ = scored(task, 2, num_fewshot=1)[0]
    assert shown.endswith(f"\nB. flute\nAnswer: flute\n\n{context}")
    assert task.config.doc_to_choice(ROWS[2]) == ["The rope", "The chain"]


def task_of(fmt: dict[str, Any] | str, rows: list[dict[str, Any]], **keys: Any) -> ConfigurableTask:
    """Rows with ``q``, ``c`` and ``t`` under a format, with the first rows as examples."""
    fields = {"doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": "t", **keys}
    return choice_task(rows, fewshot_config={"sampler": "first_n"}, formats=fmt, **fields)


WEATHER = [
    {"q": "it is wet", "c": ["Yes", "No"], "t": 0, "p": "It rains", "subject": "rain"},
    {"q": "it is dry", "c": ["Yes", "No"], "t": 1, "p": "It snows", "subject": "snow"},
]


def test_a_whole_sentence_is_scored_with_each_choice_in_it() -> None:
    fields = {
        "type": "bare",
        "show_question": False,
        "scored_format": "{{ _context }}, {{ subject }}? {{ _choice }}, {{ _question }}",
    }
    task = task_of(fields, WEATHER, doc_to_context="p")
    assert scored(task, 1) == [
        ("", " It snows, snow? Yes, it is dry"),
        ("", " It snows, snow? No, it is dry"),
    ]
    (shot, _), _ = scored(task, 1, num_fewshot=1)
    assert shot == " It rains, rain? Yes, it is wet\n\n"
    assert task.config.doc_to_choice(WEATHER[1]) == [
        "It snows, snow? Yes, it is dry",
        "It snows, snow? No, it is dry",
    ]


def test_a_preamble_comes_once_after_the_description() -> None:
    fields = {"type": "bare", "preamble": "About {{ subject }}.\n\n"}
    task = task_of(fields, WEATHER, description="Weather.\n\n")
    (context, _), _ = scored(task, 1, num_fewshot=1)
    assert context == "Weather.\n\nAbout snow.\n\nit is wet Yes\n\nit is dry"
    fields = {"type": "bare", "preamble": "{{ nothing }}"}
    with pytest.raises(FieldError, match="preamble of format bare"):
        task_of(fields, WEATHER).description(0)


def test_the_target_alone_is_scored() -> None:
    rows = [{"q": "the sea and the", "t": "boat"}, {"q": "the end of the", "t": " year"}]
    task = task_of("continuation", rows, doc_to_choice=None)
    assert scored(task, 0) == [("the sea and the", " boat")]
    assert scored(task, 1) == [("the end of the", " year")]
    assert scored(task, 1, num_fewshot=1)[0][0] == "the sea and the boat\n\nthe end of the"


def test_greedy_accuracy_and_perplexity_of_the_target() -> None:
    rows = [{"q": "a", "t": "b"}, {"q": "c", "t": "d"}]
    task = task_of("continuation", rows, doc_to_choice=None)
    metrics = task_metrics(task)
    assert [metric.name for metric in metrics] == ["acc", "perplexity"]
    docs = list(build_requests(task, [0, 1], PromptOptions()))
    answers = [[(-1.0, True)], [(-3.0, False)]]
    values = [
        score_doc(task, doc, given, metrics, is_prefilled=True).values
        for doc, given in zip(docs, answers, strict=True)
    ]
    assert values == [{"acc": 1.0, "perplexity": -1.0}, {"acc": 0.0, "perplexity": -3.0}]
    estimate = metrics[1].aggregate([-1.0, -3.0])
    assert estimate.value == pytest.approx(math.exp(2.0))
    assert estimate.low < estimate.value < estimate.high


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("mcq_cot", "The best answer is A"),
        ("cot", "The final answer is Yes"),
        ("boxed", r"\boxed{Yes}"),
        ("gsm8k", "#### Yes"),
    ],
)
def test_worked_reasoning_is_shown_before_the_answer(name: str, answer: str) -> None:
    task = task_of(name, WEATHER, doc_to_rationale="{{ p }} and {{ subject }} is wet.")
    assert task.shot_turn(0).answer == f"It rains and rain is wet.\n{answer}"
    assert task_of(name, WEATHER).shot_turn(0).answer == answer


MARKS = ["100 % of %s", "{label} \0", "%(choice)s"]


@pytest.mark.parametrize(
    ("keys", "instruction"),
    [
        (
            {"instruction": "Give 100 %s, {{ _choice_list_or }}: \0\n"},
            "Give 100 %s, A, B or C: \0\n",
        ),
        ({"instruction": "Of {{ doc['n'] }} %d\n"}, "Of 7 %d\n"),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("context", [None, "%s of {{ n }}"])
def test_marks_of_templates_in_texts_and_docs_are_shown_as_they_are(
    keys: dict[str, str], instruction: str, context: str | None
) -> None:
    """Docs whose prompts differ in question and choices alone share the rest: it is made once."""
    rows = [
        {"question": "%s \0 %%?", "choices": MARKS, "n": 7},
        {"question": "{choice}", "choices": MARKS[::-1], "n": 7},
    ]
    marked = {"type": "mcqa", "question_prefix": None, "answer_prompt": "% A:", **keys}
    asked = {"doc_to_context": context, "doc_to_target": 1, "formats": {"marked": marked}}
    task = choice_task(rows, "marked", **asked)
    passage = "" if context is None else "%s of 7\n"
    for doc_id, row in enumerate(rows * 2):
        lines = [f"{label}. {text}" for label, text in zip("ABC", row["choices"], strict=True)]
        expected = "\n".join([f"{instruction}{passage}{row['question']}", *lines, "% A:"])
        assert scored(task, doc_id % 2)[0][0] == expected
