"""``shuffle_choices``: an order of the choices for each doc, and golds that are all at one place."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import ConfigError, FormatError, LmEvalWarning
from lm_eval.formats.compile import format_names
from lm_eval.formats.items import Item
from lm_eval.tasks.loader import every_format
from lm_eval.tasks.prompts import shuffled, shuffled_order
from tests.support.choice_task import choice_task

ROWS = [
    {"question": f"q{n} is _, or not", "options": [f"{sign}{n}" for sign in ("right ", *"xyz")]}
    for n in range(200)
]


def task(format_name: str | None = "mcqa", rows: Any = ROWS, **keys: Any) -> ConfigurableTask:
    own = {"doc_to_choice": "options", "doc_to_target": 0, "shuffle_choices": 1}
    return choice_task(rows, format_name, **{**own, **keys})


@given(choices=st.lists(st.text(max_size=3), min_size=2, max_size=8), question=st.text(max_size=5))
def test_the_texts_alone_decide(choices: list[str], question: str) -> None:
    order = shuffled_order(7, question, choices)
    assert sorted(order) == list(range(len(choices)))
    shown = [choices[place] for place in order]
    other = sorted(choices)
    assert [other[place] for place in shuffled_order(7, question, other)] == shown


@given(gold=st.integers(0, 3), seed=st.one_of(st.integers(), st.text(max_size=4)))
def test_the_gold_moves_with_its_choice(gold: int, seed: Any) -> None:
    item = Item({}, "q", ("a", "b", "c", "d"), (gold,))
    moved = shuffled(item, seed)
    assert moved.choices[moved.gold[0]] == "abcd"[gold]
    ranked = shuffled(Item({}, "q", ("a", "b", "c", "d"), ((2, 0, 1, 3),)), seed)
    assert "".join(ranked.choices[place] for place in ranked.gold[0]) == "cabd"
    assert shuffled(Item({}, "q", ("a", "b"), ("b",)), seed).gold == ("b",)
    assert shuffled(Item({}, "q", (), ("b",)), seed).gold == ("b",)


def test_right_answers_are_everywhere() -> None:
    asked = task()
    places = Counter(asked.ask(doc_id).gold[0] for doc_id in range(200))
    assert sorted(places) == [0, 1, 2, 3]
    assert min(places.values()) > 30
    assert places != Counter(task(shuffle_choices=2).ask(doc_id).gold[0] for doc_id in range(200))


def test_the_order_is_the_same_under_every_format_and_in_examples() -> None:
    for name in format_names():
        if name == "ranking":
            continue
        asked = task(name)
        for doc_id in range(5):
            assert asked.ask(doc_id).choices == task().ask(doc_id).choices
    config = {"sampler": "first_n", "samples": ROWS[:1]}
    asked = task(fewshot_config=config)
    assert asked.ask(0).turn.user == asked.shot_turn(0).user
    assert asked.shot_turn(0).answer == asked.ask(0).target


def test_what_the_fields_of_the_task_give() -> None:
    asked = task()
    doc = ROWS[3]
    assert asked.doc_to_text(doc) == asked.ask(3).turn.user
    assert asked.doc_to_target(doc) == asked.ask(3).gold[0]


@pytest.mark.parametrize("name", ["mcqa", "generate", "mcq::numbered", "cloze::with_options"])
def test_labels_are_refused_where_golds_are_at_one_place(name: str) -> None:
    with pytest.raises(
        FormatError, match=r"choice 1 is the right one in each of the first 200 docs"
    ):
        task(name, shuffle_choices=None).check_fitness()
    task(name).check_fitness()


@pytest.mark.parametrize("name", ["cloze", "cot", "classification"])
def test_texts_are_not(name: str) -> None:
    task(name, shuffle_choices=None).check_fitness()


def test_few_docs_and_classes_are_not() -> None:
    task(rows=ROWS[:19], shuffle_choices=None).check_fitness()
    sorted_classes = [{**row, "options": ["negative", "positive"]} for row in ROWS]
    task(rows=sorted_classes, shuffle_choices=None).check_fitness()
    one_other = [{**row, "answer": int(n == 190)} for n, row in enumerate(ROWS)]
    task(rows=one_other, shuffle_choices=None, doc_to_target="answer").check_fitness()


def test_every_format_leaves_labels_out() -> None:
    config = task(shuffle_choices=None).config
    with pytest.warns(
        LmEvalWarning, match=r"mcqa, generate, .*: choice 1 is the right one in each"
    ):
        names = {made.format_name for made in every_format(config, parity=False)}
    assert {"cloze", "cot"} <= names
    assert not {"mcqa", "generate"} & names


def test_seeds() -> None:
    for wrong in (True, 1.5, [1]):
        with pytest.raises(ConfigError, match=r"shuffle_choices must be a seed"):
            task(shuffle_choices=wrong)
    assert task().fingerprint != task(shuffle_choices=2).fingerprint
    with pytest.warns(LmEvalWarning, match=r"`shuffle_choices`, which has no effect"):
        task(None, output_type="multiple_choice").ask(0)
