"""Which choice a target names: one, or an error that shows the line to write."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import AmbiguousGoldError, GoldError, LmEvalWarning
from lm_eval.formats.compile import get_format
from lm_eval.formats.gold import TARGET_TYPES, GoldColumn, readings_of, resolve_gold
from lm_eval.formats.items import reordered
from tests.support.choice_task import choice_task

XYZ = ["x", "y", "z"]


def task(
    docs: list[dict[str, Any]], format_name: str | None = "mcqa", **keys: Any
) -> ConfigurableTask:
    return choice_task(docs, format_name, **keys)


def docs(*answers: Any, choices: Any = None) -> list[dict[str, Any]]:
    return [{"question": "q", "choices": choices or XYZ, "answer": answer} for answer in answers]


def golds(of: list[dict[str, Any]], **keys: Any) -> list[Any]:
    asked = task(of, **keys)
    return [asked.ask(doc_id).gold[0] for doc_id in range(len(of))]


# --- what names one choice ---


@pytest.mark.parametrize(
    ("target", "choices", "place"),
    [
        (2, XYZ, 2),
        (2.0, XYZ, 2),
        ("y", XYZ, 1),
        (" y ", XYZ, 1),
        ("Y", XYZ, 1),
        ("B", XYZ, 1),
        ("(B)", XYZ, 1),
        ("B.", XYZ, 1),
        ("B)", XYZ, 1),
        ("[B]:", XYZ, 1),
        ("0", XYZ, 0),
        ("PARIS", ["Rome", "Paris"], 1),
        ("new  york", ["New York", "Paris"], 0),
        ("B", ["A", "B"], 1),  # text and letter agree
        ("a", ["b", "a"], 1),  # lower case: a text
        (1, ["1", "0"], 1),  # a number is an index
        (7, ["7", "8"], 0),
        (12, ["11", "12", "13"], 1),
        (True, ["True", "False"], 0),
        (False, ["true", "false"], 1),
        ("Zürich", ["Bern", "zürich"], 1),
    ],
)
def test_a_target_that_names_one_choice(target: Any, choices: list[str], place: int) -> None:
    assert resolve_gold(target, choices) == place


@pytest.mark.parametrize("target", [3, -1, "D", "w", "3", 1.5, "-1", "²", "AA", "ß", "٣"])
def test_a_target_that_names_none(target: Any) -> None:
    with pytest.raises(GoldError, match="matches none of the 3 choices") as caught:
        resolve_gold(target, XYZ)
    assert caught.value.skip_reason


@pytest.mark.parametrize("target", [None, float("nan"), "", "  "])
def test_a_doc_without_a_gold(target: Any) -> None:
    with pytest.raises(GoldError, match="no gold answer") as caught:
        resolve_gold(target, XYZ)
    assert caught.value.skip_reason == "no gold answer"


# --- what could mean two ---


@pytest.mark.parametrize(
    ("target", "choices", "line"),
    [
        ("1", XYZ, "target_type: one_based"),
        ("2", XYZ, "target_type: index"),
        ("(2)", XYZ, "target_type: index"),
        ("1", ["1", "0"], "target_type: text"),
        ("B", ["B", "A"], "target_type: label"),
        ("A", ["AB", "A", "B", "O"], "target_type: text"),
        ("b", XYZ, "target_type: label"),
        ("(b)", XYZ, "target_type: label"),
        (True, ["yes", "no"], "target_type: index"),
    ],
)
def test_a_target_that_may_mean_two_choices(target: Any, choices: list[str], line: str) -> None:
    with pytest.raises(AmbiguousGoldError) as caught:
        resolve_gold(target, choices)
    assert f"`{line}`" in str(caught.value)
    assert caught.value.skip_reason is None


TARGETS = st.one_of(
    st.integers(-1, 6),
    st.sampled_from("ABCDEabcde012345"),
    st.sampled_from(["(A)", "B.", "(1)", "x", "10"]),
    st.text("AB12x ", max_size=3),
)
CHOICES = st.lists(st.text("ABab012x ", min_size=1, max_size=2), min_size=2, max_size=5)


@given(target=TARGETS, choices=CHOICES)
def test_never_two_readings_without_an_error(target: Any, choices: list[str]) -> None:
    """Whatever resolves names a choice that every other reading names too; numbers are indices."""
    try:
        place = resolve_gold(target, choices)
    except GoldError:
        return
    readings = readings_of(target, choices)
    assert place in readings.values()
    if isinstance(target, int):
        assert place == readings.get("index", place)
    else:
        assert set(readings.values()) == {place}


@given(st.lists(st.text(max_size=6), min_size=2, max_size=8, unique_by=str.strip), st.data())
def test_index_and_text_never_name_different_choices(
    choices: list[str], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(choices) - 1))
    assert resolve_gold(place, choices) == place
    bare = choices[place].strip("()[]{}<>.:, \t\n")
    if len(bare) > 1 and not bare.isdigit():  # neither a letter nor a number
        assert resolve_gold(choices[place], choices) == place


@given(target=TARGETS, choices=CHOICES, target_type=st.sampled_from(list(TARGET_TYPES)))
def test_a_target_type_leaves_one_reading(
    target: Any, choices: list[str], target_type: str
) -> None:
    column = GoldColumn(target_type)
    readings = readings_of(target, choices)
    if target_type in readings:
        assert resolve_gold(target, choices, column=column) == readings[target_type]


# --- the whole column ---


def test_digits_with_a_zero_among_them_are_indices() -> None:
    assert golds(docs("2", "1", "0")) == [2, 1, 0]


def test_digits_that_count_from_one_show_the_line_to_write() -> None:
    with pytest.raises(AmbiguousGoldError) as caught:
        golds(docs("1", "2", "3"))
    assert "Task 't@mcqa', doc 0: target '1' may mean more than one choice." in str(caught.value)
    assert "No 'answer' of this task is 0" in str(caught.value)
    assert "seem to count from 1: `target_type: one_based`" in str(caught.value)
    assert golds(docs("1", "2", "3"), target_type="one_based") == [0, 1, 2]
    assert golds(docs("1", "2"), target_type="index") == [1, 2]


def test_numbers_that_count_from_one_are_refused_before_a_doc_shows_it() -> None:
    """A run of the first docs alone would otherwise score them wrong."""
    counted = docs(1, 2, 1, 3)
    with pytest.raises(AmbiguousGoldError, match="target_type: one_based"):
        task(counted).ask(0)
    assert golds(counted, target_type="one_based") == [0, 1, 0, 2]
    assert golds(docs(1, 2, 1, 0)) == [1, 2, 1, 0]


def test_numbers_that_a_task_computes_are_indices() -> None:
    of = [{"question": "q", "choices": ["2", "1", "3"], "answer": answer} for answer in ("1", "2")]
    assert golds(of, doc_to_target="{{ choices.index(answer) }}") == [1, 0]


def test_numbers_that_are_texts_in_every_doc_are_texts() -> None:
    of = [
        {"question": "q", "choices": [10, 20, 30], "answer": 20},
        {"question": "q", "choices": [1, 2, 3], "answer": 2},
    ]
    assert golds(of) == [1, 1]
    with pytest.raises(
        AmbiguousGoldError, match=r"`target_type: text`.*'2'.*`target_type: index`.*'3'"
    ):
        golds(of[1:])


def test_one_odd_doc_does_not_change_what_the_others_mean() -> None:
    of = docs(0, 2, -1)
    assert [task(of).ask(doc_id).gold[0] for doc_id in (0, 1)] == [0, 2]
    with pytest.raises(GoldError, match="matches none"):
        task(of).ask(2)


def test_indices_among_numeric_choices() -> None:
    """As in a benchmark of sums: an index may be the text of another choice."""
    of = [
        {"question": "q", "choices": ["4", "2", "1", "0"], "answer": 1},
        {"question": "q", "choices": ["w", "x", "y", "z"], "answer": 0},
    ]
    assert golds(of) == [1, 0]


def test_a_column_is_read_once_and_no_further_than_needed() -> None:
    read: list[Any] = []

    def rows() -> Any:
        for answer in ("1", "0", *"2" * 1000):
            read.append(answer)
            yield answer, XYZ, ()

    column = GoldColumn(rows=rows, is_data=True)
    assert [resolve_gold("1", XYZ, column=column) for _ in range(50)] == [1] * 50
    assert read == ["1", "0"]


@pytest.mark.parametrize(("answers", "is_said"), [([1, 2] * 10, True), ([1, 2] * 3, False)])
def test_numbers_that_are_never_zero_are_remarked_on(answers: list[int], is_said: bool) -> None:
    column = GoldColumn(rows=lambda: [(answer, XYZ, ()) for answer in answers], is_data=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [resolve_gold(answer, XYZ, column=column) for answer in answers] == answers
    assert [f"None of the {len(answers)} targets" in str(one.message) for one in caught] == (
        [True] * is_said
    )


# --- labels of the data ---


@pytest.mark.parametrize(
    ("choices", "answer", "place"),
    [
        ({"A": "x", "B": "y"}, "B", 1),
        ({"a": "x", "b": "y"}, "b", 1),
        ({"1": "x", "2": "y"}, "1", 0),
        ({"1": "x", "2": "y"}, "2", 1),
        ({"0": "x", "1": "y"}, "1", 1),
        ({"E": "x", "F": "y"}, "F", 1),
        ({"opa": "x", "opb": "y"}, "B", 1),
        ({"opa": "x", "opb": "y"}, "opb", 1),
    ],
)
def test_the_keys_of_a_mapping_are_labels(choices: Any, answer: str, place: int) -> None:
    assert golds(docs(answer, choices=choices)) == [place]


def test_labels_beside_the_texts() -> None:
    def parted(labels: Sequence[str], answer: str) -> dict[str, Any]:
        choices = {"text": ["x", "y", "z"], "label": list(labels)}
        return {"question": "q", "choices": choices, "answer": answer}

    mixed = [parted("ABC", "B"), parted("123", "2"), parted("abc", "c")]
    assert golds(mixed, doc_to_choice="{{ choices.text }}") == [1, 1, 2]


def test_a_label_of_the_data_that_is_another_choice_s_text() -> None:
    with pytest.raises(AmbiguousGoldError, match="target_type: label"):
        golds(docs("1", choices={"1": "2", "2": "1"}))
    assert golds(docs("1", choices={"1": "2", "2": "1"}), target_type="label") == [0]
    assert golds(docs("1", choices={"1": "2", "2": "1"}), target_type="text") == [1]


# --- target_type ---


def test_a_target_that_is_not_what_the_task_says() -> None:
    with pytest.raises(
        GoldError, match=r"doc 0: target 'y' is not the choice's number, counted from 1"
    ):
        golds(docs("y"), target_type="one_based")
    with pytest.raises(GoldError, match=r"target 'B' is not the choice's own text"):
        golds(docs("B"), target_type="text")
    assert golds(docs("b"), target_type="label") == [1]


def test_target_type_without_a_format_says_that_it_has_no_effect() -> None:
    plain = task(docs("y"), None, target_type="text", output_type="multiple_choice")
    with pytest.warns(LmEvalWarning, match="no effect without a format"):
        plain.ask(0)


def test_fingerprints_change_only_where_target_type_is_given() -> None:
    same = [task(docs("y"), **keys).fingerprint for keys in ({}, {}, {"target_type": "text"})]
    assert same[0] == same[1] != same[2]


# --- choices with the same text ---

PARIS = ["Paris", "London", "Paris "]


@pytest.mark.parametrize("target", [0, 2, "A", "C"])
def test_an_index_or_letter_is_right_though_its_text_occurs_twice(target: Any) -> None:
    place = {0: 0, 2: 2, "A": 0, "C": 2}[target]
    assert golds(docs(target, choices=PARIS)) == [place]


@pytest.mark.parametrize("target", ["Paris", " Paris", "paris"])
def test_a_text_that_two_choices_have_does_not_say_which(target: str) -> None:
    with pytest.raises(GoldError) as caught:
        golds(docs(target, choices=PARIS))
    assert caught.value.skip_reason


def test_both_are_right_where_texts_are_scored_and_one_where_labels_are() -> None:
    of = docs(2, 1, choices=PARIS)
    assert task(of, "cloze").ask(0).gold == (2, 0)
    assert task(of, "cloze").ask(1).gold == (1,)
    assert task(of, "mcqa").ask(0).gold == (2,)


@pytest.mark.parametrize(
    ("format_name", "reply", "place"),
    [
        ("generate", " Paris", 2),
        ("generate", " C", 2),
        ("generate", " A", 0),
        ("generate", " London", 1),
        ("generate", " B", 1),
        ("classification", " Paris", 2),
        ("classification", " London", 1),
    ],
)
def test_a_text_that_two_choices_have_is_read_as_the_right_one(
    format_name: str, reply: str, place: int
) -> None:
    asked = task(docs(2, choices=PARIS), format_name)
    item = asked.ask(0).item
    assert asked.format is not None
    assert item is not None
    assert asked.format.read(reply, item).value == place


def test_a_wrong_text_that_two_choices_have_is_read_and_wrong() -> None:
    asked = task(docs(1, choices=PARIS), "generate")
    item = asked.ask(0).item
    assert asked.format is not None
    assert item is not None
    assert asked.format.read(" Paris", item).value == 0


def test_other_orders_keep_both_right() -> None:
    item = task(docs(2, choices=PARIS), "cloze").ask(0).item
    assert item is not None
    fmt = get_format("cloze")
    assert fmt.right_answers(reordered(item, (1, 2, 0))) == (1, 2)


def test_cot_takes_the_text_and_ranking_the_labels() -> None:
    assert task(docs(2, choices=PARIS), "cot").ask(0).gold == ("Paris ",)
    assert task(docs([2, 1, 0], choices=PARIS), "ranking").ask(0).gold == ((2, 1, 0),)
