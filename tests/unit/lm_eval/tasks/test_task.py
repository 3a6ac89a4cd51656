"""What a task says of its own prompts."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import ConfigError, FieldError, FormatError, LmEvalWarning
from lm_eval.formats.compile import compile_format, get_format
from lm_eval.run.plan import RunOptions
from lm_eval.run.prepare import prepare
from tests.support.choice_task import choice_task

DOCS = [
    {"question": f"What is 1{n} + 1?", "choices": [f"{n}", f"1{n + 1}", "ten"], "answer": 1}
    for n in range(1, 8)
]


def task(format_name: str | None = None, docs: Any = DOCS, **keys: Any) -> ConfigurableTask:
    plain = {} if format_name else {"output_type": "multiple_choice"}
    return choice_task(docs, format_name, **{**plain, **keys})


def shows_choices(asked: ConfigurableTask) -> bool | None:
    return prepare(asked, RunOptions()).shows_choices


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
    assert shows_choices(task(name)) is shows


def test_a_format_that_drops_choices_beyond_its_labels_shows_the_others() -> None:
    docs = [{"question": "Which?", "choices": list("vwxyz"), "answer": 1}]
    with pytest.warns(LmEvalWarning, match="has 4 labels"):
        assert shows_choices(task("mcq::mmlu", docs)) is True


def test_a_question_may_name_its_choices_itself() -> None:
    docs = [
        {"question": f"Is {n} odd or even?", "choices": ["odd", "even"], "answer": 0} for n in "135"
    ]
    assert shows_choices(task("cot", docs)) is True
    assert shows_choices(task("cot", [*docs, {**docs[0], "question": "Is 7 odd?"}])) is False


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
    assert shows_choices(task(doc_to_text=text)) is shows


def test_a_task_without_choices_has_none_to_show() -> None:
    docs = [{"question": "2 + 2?", "answer": "4"}]
    assert shows_choices(task("cot", docs, doc_to_choice=None)) is None


PASSAGES = [
    {"passage": "Bees make honey.", "question": "Who?", "choices": ["bees", "ants"], "answer": 0},
    {"passage": "", "question": "When?", "choices": ["now", "then"], "answer": 1},
    {"passage": None, "question": "Why?", "choices": ["so", "thus"], "answer": 1},
]


def test_a_passage_is_before_the_question_where_a_doc_has_one() -> None:
    asked = task("mcqa", PASSAGES, doc_to_context="passage")
    assert asked.ask(0).turn.user == "Bees make honey.\nQuestion: Who?\nA. bees\nB. ants\nAnswer:"
    assert asked.ask(1).turn.user == "Question: When?\nA. now\nB. then\nAnswer:"
    assert asked.ask(2).turn.user == "Question: Why?\nA. so\nB. thus\nAnswer:"
    assert [asked.ask(doc).item.context for doc in range(3)] == ["Bees make honey.", "", ""]  # type: ignore[union-attr]  # asked under a format


def test_a_format_says_what_is_around_the_passage() -> None:
    fields = {"type": "cloze", "context_prefix": "Passage: ", "context_delimiter": "\n\n"}
    asked = task("mine", PASSAGES, doc_to_context="passage", formats={"mine": fields})
    assert asked.ask(0).turn.user == "Passage: Bees make honey.\n\nQuestion: Who?\nAnswer:"
    assert asked.ask(1).turn.user == "Question: When?\nAnswer:"


def test_the_jinja_source_of_a_prompt_has_the_passage() -> None:
    fields = {"type": "mcqa", "context_prefix": "Passage: "}
    asked = task(None, PASSAGES, doc_to_context="passage", formats={"mine": fields})
    template = jinja2.Template(asked.config.doc_to_text, keep_trailing_newline=True)
    for place, doc in enumerate(PASSAGES):
        assert template.render(doc) == asked.ask(place).turn.user


def test_a_question_without_content_has_a_passage_without_content() -> None:
    asked = task("mcqa", PASSAGES, doc_to_context="passage")
    fmt, item = asked.format, asked.ask(0).item
    assert fmt is not None
    assert item is not None
    assert fmt.content_free_turn(item, "N/A").user.startswith("N/A\nQuestion: N/A\nA. N/A")


def test_examples_may_have_their_passage_elsewhere() -> None:
    samples = [{"text": "Ants dig.", "question": "Who?", "choices": ["bees", "ants"], "answer": 1}]
    config = {"sampler": "first_n", "samples": samples, "doc_to_context": "text"}
    asked = task("cloze", PASSAGES, doc_to_context="passage", fewshot_config=config)
    assert asked.shot_text(0) == "Ants dig.\nQuestion: Who?\nAnswer: ants\n\n"


def test_a_passage_that_no_format_shows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"doc_to_context.*prompts would lack the passage"):
        task(None, PASSAGES, doc_to_context="passage").ask(0)


def test_a_passage_that_is_not_a_text_is_refused() -> None:
    docs = [{**PASSAGES[0], "passage": ["One.", "Two."]}]
    with pytest.raises(FormatError, match=r"doc 0.*doc_to_context gives \['One.*join\("):
        task("mcqa", docs, doc_to_context="passage").ask(0)
    with pytest.raises(FieldError, match=r"doc_to_context.*Did you mean 'passage'"):
        task("mcqa", PASSAGES, doc_to_context="pasage").ask(0)


def test_fingerprints_change_with_a_passage_only() -> None:
    plain = task("mcqa", PASSAGES)
    assert plain.fingerprint == task("mcqa").fingerprint
    assert plain.fingerprint != task("mcqa", PASSAGES, doc_to_context="passage").fingerprint
    same = compile_format({"type": "mcqa", "context_prefix": "", "context_delimiter": "\n"})
    assert same.fingerprint == get_format("mcqa").fingerprint
    named = compile_format({"type": "mcqa", "context_prefix": "Passage: "})
    assert named.fingerprint != same.fingerprint


BLANKS = [{"The Question": "q?", "Option 1": "x", "Option 2": "y", "Correct Answer": "y"}]


def test_columns_whose_names_have_blanks() -> None:
    asked = task(
        "mcqa",
        BLANKS,
        doc_to_text="{{ doc['The Question'] }}",
        doc_to_choice="{{ [doc['Option 1'], doc['Option 2']] }}",
        doc_to_target="{{ doc['Correct Answer'] }}",
    )
    assert asked.ask(0).turn.user == "Question: q?\nA. x\nB. y\nAnswer:"
    assert asked.ask(0).gold == (1,)
    with pytest.raises(FieldError, match=r"no attribute 'Corect Answer'. Did you mean 'Correct An"):
        task(
            "cloze", BLANKS, doc_to_text="{{ doc['Corect Answer'] }}", doc_to_choice=["x", "y"]
        ).ask(0)


def test_a_column_called_doc_is_itself() -> None:
    docs = [{"doc": "A text.", "choices": ["x", "y"], "answer": 0}]
    assert (
        task("cloze", docs, doc_to_text="{{ doc }}")
        .ask(0)
        .turn.user.startswith("Question: A text.")
    )
