"""Labels, choices and the gold: what a doc must hold, and what is right."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import FieldError, FormatError, GoldError, LmEvalWarning
from lm_eval.formats.items import build_item, choice_texts, joined, labels_for, letter
from tests.support.choice_task import choice_task


def task(doc: dict[str, Any], format_name: str | None = "mcqa", **keys: Any) -> ConfigurableTask:
    return choice_task([doc], format_name, **keys)


def doc(answer: Any, choices: Any = ("x", "y", "z")) -> dict[str, Any]:
    shown = list(choices) if isinstance(choices, tuple) else choices
    return {"question": "q", "choices": shown, "answer": answer}


# --- labels ---


def test_letters_go_on_after_z() -> None:
    labels = labels_for("letters", ["c"] * 60, cuts=False, format_name="f")
    assert labels[:3] == ("A", "B", "C")
    assert labels[25:29] == ("Z", "AA", "AB", "AC")
    assert labels[51:54] == ("AZ", "BA", "BB")
    assert len(set(labels)) == 60
    assert letter(26 * 27) == "AAA"
    asked = task(doc(27, [f"c{n}" for n in range(30)])).ask(0)
    assert "\nAB. c27\n" in asked.turn.user
    assert asked.continuations[27] == asked.target == "AB"


def test_numbers_have_no_end() -> None:
    labels = labels_for("numbers", ["c"] * 120, cuts=False, format_name="f")
    assert (labels[0], labels[119]) == ("1", "120")


def test_joined_labels() -> None:
    assert joined(("A",), "and") == "A"
    assert joined(("A", "B"), "or") == "A or B"
    assert joined(("A", "B", "C", "D"), "and") == "A, B, C and D"


# --- the gold ---


@pytest.mark.parametrize("labels", ["letters", "numbers", ["B", "A", "C"], ["z", "x", "y"], None])
def test_labels_of_a_format_never_decide_the_gold(labels: Any) -> None:
    for answer, place in (("B", 1), ("x", 0), (2, 2), ("0", 0)):
        asked = task(doc(answer), None, formats={"type": "mcqa", "choice_labels": labels}).ask(0)
        assert asked.gold == (place,)


def test_several_right_answers() -> None:
    asked = task(doc([2, "x"])).ask(0)
    assert asked.gold == (2, 0)
    assert asked.target == "C"
    with pytest.raises(GoldError, match="empty list"):
        task(doc([])).ask(0)


def test_order_names_every_choice_once() -> None:
    assert task(doc(["C", "x", 1]), "ranking").ask(0).gold == ((2, 0, 1),)
    for bad in ([0, 1], [0, 0, 1], 1, "A"):
        with pytest.raises(GoldError, match="not an order of the 3 choices"):
            task(doc(bad), "ranking").ask(0)


# --- choices ---


@pytest.mark.parametrize(
    "written",
    [
        '["x", "y", "z"]',
        " ['x', 'y', 'z'] ",
        '["x","y","z"]\n',
        '{"A": "x", "B": "y", "C": "z"}',
        "{'A': 'x', 'B': 'y', 'C': 'z'}",
    ],
)
def test_a_list_that_is_written_out_as_text_is_read(written: str) -> None:
    asked = task(doc("B", written)).ask(0)
    assert asked.choices == ("x", "y", "z")
    assert asked.gold == (1,)
    assert task(doc("2", '{"1": "x", "2": "y"}')).ask(0).gold == (1,)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("x;y;z", "{{ choices.split(';') }}"),
        ("x; y; z", "{{ choices.split(';') | map('trim') | list }}"),
        ("x|y", "{{ choices.split('|') }}"),
        ("x\ny", r"{{ choices.split('\n') }}"),
        ("x, y and z", "{{ choices.split(',') | map('trim') | list }}"),
        ("x / y", "{{ choices.split(' / ') }}"),
    ],
)
def test_choices_in_one_text_are_refused_with_the_line_to_write(written: str, line: str) -> None:
    with pytest.raises(FormatError) as caught:
        task(doc("x", written)).ask(0)
    assert f'`doc_to_choice: "{line}"`' in str(caught.value)
    split = task(doc("x", written), doc_to_choice=line.replace("\\n", "\n"))
    assert split.ask(0).choices[0] == "x"


def test_what_numpy_prints_is_not_a_list() -> None:
    with pytest.raises(FormatError, match="not a list"):
        task(doc("x", "['x' 'y' 'z']")).ask(0)


OPTIONS = {"question": "q", "option1": "x", "option2": "y", "option 3": "z", "answer": "y"}


@pytest.mark.parametrize("answer", ["y", "B", 1, "option2"])
def test_a_list_of_names_that_are_all_columns_means_the_columns(answer: Any) -> None:
    names = ["option1", "option2", "option 3"]
    asked = task({**OPTIONS, "answer": answer}, doc_to_choice=names).ask(0)
    assert asked.choices == ("x", "y", "z")
    assert asked.gold == (1,)


def test_columns_named_by_letters_are_labels() -> None:
    lettered = {"question": "q", "A": "x", "B": "y", "answer": "B"}
    assert task(lettered, doc_to_choice=["A", "B"]).ask(0).continuations == ("A", "B")
    assert "A. x\nB. y" in task(lettered, doc_to_choice=["A", "B"]).ask(0).turn.user


def test_a_doc_with_fewer_choices_leaves_the_last_columns_empty() -> None:
    names = ["option1", "option2", "option 3"]
    asked = task({**OPTIONS, "option 3": None}, doc_to_choice=names).ask(0)
    assert asked.choices == ("x", "y")
    with pytest.raises(FormatError, match="a choice is None"):
        task({**OPTIONS, "option2": None}, doc_to_choice=names).ask(0)


def test_names_that_are_not_columns_are_texts() -> None:
    assert task(doc("yes"), doc_to_choice=["yes", "no"]).ask(0).choices == ("yes", "no")
    with pytest.raises(
        FieldError, match=r"'option3', which is not one\. Did you mean 'option 3'\?"
    ):
        task(OPTIONS, doc_to_choice=["option1", "option2", "option3"]).ask(0)


def test_jinja_inside_a_list() -> None:
    asked = task(
        {**OPTIONS, "answer": 0}, doc_to_choice=["{{ option1 }}", "{{ option2 }}!", "none"]
    ).ask(0)
    assert asked.choices == ("x", "y!", "none")


def test_the_jinja_of_a_list_of_columns() -> None:
    config = task(OPTIONS, doc_to_choice=["option1", "option2"]).config
    stock = jinja2.Environment().from_string(str(config.doc_to_text))
    assert stock.render(OPTIONS) == config.doc_to_text(OPTIONS)
    assert "A. x\nB. y" in stock.render(OPTIONS)


def test_a_name_with_blanks() -> None:
    spaced = {"The Question": "q?", "choices": ["x", "y"], "Correct Answer": "y"}
    keys = {"doc_to_text": "The Question", "doc_to_target": "Correct Answer"}
    assert task(spaced, **keys).ask(0).gold == (1,)
    for wrong in ("Correct answer", "CorrectAnswer", " Correct Answer"):
        with pytest.raises(FieldError, match=r"Correct Answer"):
            task(spaced, **{**keys, "doc_to_target": wrong}).ask(0)
    with pytest.raises(FieldError, match=r"without braces: `Correct Answer`"):
        task(spaced, **{**keys, "doc_to_target": "{{ Correct Answer }}"}).ask(0)
    assert task(doc("x"), doc_to_text="Which one is it?").ask(0).choices  # a text is a text


def test_choices_become_texts() -> None:
    assert choice_texts([1, 2.5, True, "x"]) == ("1", "2.5", "True", "x")
    assert choice_texts(("a", "b")) == ("a", "b")


@pytest.mark.parametrize("question", [None, ["a"], {"a": 1}])
def test_question_must_be_a_text(question: Any) -> None:
    with pytest.raises(FormatError, match="doc_to_text gives"):
        build_item({}, question, ["x", "y"], 0, answers="choice")


def test_number_for_a_question() -> None:
    assert build_item({}, 42, ["x", "y"], 0, answers="choice").question == "42"


# --- templates cut the choices ---

FIVE = ["v", "w", "x", "y", "z"]


def test_template_cuts_and_warns_once_per_task() -> None:
    cutting = choice_task([doc(0, FIVE), doc(1, FIVE)], template="mcq")
    with pytest.warns(LmEvalWarning, match=r"doc 0 has 5 choices.* 4 labels") as caught:
        first, *_ = [cutting.ask(doc_id) for doc_id in (0, 1, 0)]
    assert len(caught) == 1
    assert first.continuations == ("A", "B", "C", "D")
    assert "z" not in first.turn.user


@pytest.mark.parametrize(
    "format_name", ["mcq::mmlu", "mcq::gpqa", "mcq::numbered", "cloze::with_options"]
)
def test_every_template_cuts(format_name: str) -> None:
    with pytest.warns(LmEvalWarning, match="not shown"):
        assert len(task(doc(3, FIVE), format_name).ask(0).continuations) == 4
    with pytest.raises(GoldError, match=r"doc 0.*number 5 of 5.*4 labels.*5 choice_labels"):
        task(doc(4, FIVE), format_name).ask(0)


def test_pure_cloze_cuts_nothing() -> None:
    assert task(doc(4, FIVE), "cloze::pure").ask(0).continuations == tuple(FIVE)


def test_cut_choices_warn_where_the_answer_is_generated_too() -> None:
    generating = task(doc(1, FIVE), None, template="mcq", output_type="generate_until")
    with pytest.warns(LmEvalWarning, match="not shown"):
        asked = generating.ask(0)
    assert asked.continuations == ()
    with pytest.raises(GoldError, match="number 5 of 5"):
        task(doc(4, FIVE), None, template="mcq", output_type="generate_until").ask(0)


def test_more_labels_show_all() -> None:
    more = task(
        doc(4, FIVE), None, template={"template_type": "mcq", "choice_labels": list("ABCDE")}
    )
    assert more.ask(0).target == "E"
