"""Orders of choices, items in them, and choices that must not be moved."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import FormatError, UsageError
from lm_eval.formats.items import Item, reordered
from lm_eval.orders.permutation import (
    Permutation,
    names_others,
    orders,
    parse_permutation,
)


def test_the_words_of_the_flag() -> None:
    assert parse_permutation(None) is None
    assert parse_permutation("none") is None
    assert parse_permutation("cyclic") == Permutation("cyclic")
    assert parse_permutation("full") == Permutation("full")
    assert parse_permutation("pride") == Permutation("pride", 0.05)
    assert parse_permutation("pride=0.1") == Permutation("pride", 0.1)
    assert str(parse_permutation("pride=0.10")) == "pride=0.1"
    assert str(parse_permutation("full")) == "full"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cycle", "Did you mean 'cyclic'?"),
        ("", "Give none, cyclic"),
        ("random", "is not a way to order choices"),
        ("cyclic=3", "takes no share; only pride does"),
        ("pride=0", "not a share of the docs"),
        ("pride=5%", "such as pride=0.1"),
        ("pride=1.5", "above 0 and up to 1"),
        ("pride=nan", "not a share"),
    ],
)
def test_other_words_are_explained(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_permutation(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("mode", ["cyclic", "full", "pride"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_choice_stands_everywhere_equally_often(mode: str, count: int) -> None:
    found = orders(count, mode)  # type: ignore[arg-type]
    assert found[0] == tuple(range(count))
    assert len(set(found)) == len(found) == (math.factorial(count) if mode == "full" else count)
    seen = Counter((at, choice) for order in found for at, choice in enumerate(order))
    assert set(seen.values()) == {len(found) // count}
    assert len(seen) == count * count


def test_too_many_orders_are_refused() -> None:
    with pytest.raises(FormatError, match=r"5 choices have 120 orders.*--permute cyclic, .* 5"):
        orders(5, "full")
    assert len(orders(5, "cyclic")) == 5


@given(st.integers(2, 6), st.data())
def test_gold_moves_with_its_choice(count: int, data: st.DataObject) -> None:
    texts = tuple(f"choice {place}" for place in range(count + 1))
    gold = tuple(data.draw(st.lists(st.integers(0, count), min_size=1, unique=True)))
    order = data.draw(st.permutations(range(count)))
    item = Item({"a": 1}, "Q?", texts, gold)
    moved = reordered(item, order)
    assert [moved.choices[at] for at in moved.gold] == [texts[place] for place in gold]
    assert moved.choices[count] == texts[count]  # beyond the order: not shown, not moved
    assert sorted(moved.choices) == sorted(texts)
    assert (moved.question, moved.doc) == (item.question, item.doc)


NAMING = [
    *("None of the above", "All of the above.", "none of these", "All of these", "Both of these"),
    *("None of the above is correct", "all of the above are true", "NONE OF THE ABOVE"),
    *("None of the other answers", "None of the others", "Any of the above", "All the above"),
    *("Two of the above", "More than one of the above", "A combination of the above"),
    *("All of the above statements", "none of the above options", "None of the answer choices"),
    *("All answers are correct", "both options are correct", "Neither of these", "Both", "Neither"),
    *("A and B", "A & C", "A or B", "A, B and C", "A, B, and D", "(A) and (B)", "a and b"),
    *("Both A and B", "both (a) and (b)", "Either A or C", "Neither A nor B", "A and B only"),
    *("Only A and C", "A and C are correct", "options A and B", "Answers B and C", "A/B", "B,C"),
    *("All of A, B and C", "none of A, B or C", "All except C", "All of the above except A"),
    *("A and B, but not C", "B but not C", "Choices 1 and 3", "Both options 1 and 2", "Same as B"),
    *("A B and C", "a combination of these three processes", "All of these options."),
    *("either (a) or (b)", "both b and c."),
    *("Keine der genannten", "Alle oben genannten", "Ninguna de las anteriores"),
    *("Toutes les réponses ci-dessus", "Todas as anteriores", "以上都不是", "以上皆非"),
]
WORLDLY = [
    *("both symmetric and anti-symmetric", "Both 35Cl and 37Cl have I = 0.", "Some other reason"),
    *("Band A", "Vitamin A and B12", "Vitamins A and D", "A", "B", "a", "A band and a choir"),
    *("None", "All", "Nothing above the line", "above", "All of the time", "None of his business"),
    *(
        "I and II",
        "I, II and III",
        "I only",
        "1 and 2",
        "2 or 3",
        "Both parents",
        "both sides agree",
    ),
    *("Neither here nor there", "Either way", "Two options", "One choice", "A and E", "X and Y"),
    *("Type A and type B", "Plan A", "A is larger than B", "All of Europe", "none of the Greeks"),
    *("All of the above-ground parts", "Both the king and the queen", "These", "A to B"),
    *(
        "Each other",
        "Some other reason",
        "Hepatitis A and B",
        "A B",
        "A and B cells",
        "Some of the time",
        "Most of the planets",
        "",
    ),
]


@pytest.mark.parametrize("text", NAMING)
def test_choices_that_name_others_are_seen(text: str) -> None:
    assert names_others(["one", text, "three", "four"])


@pytest.mark.parametrize("text", WORLDLY)
def test_choices_about_the_world_are_not(text: str) -> None:
    assert not names_others(["one", text, "three", "four"])


def test_letters_count_as_far_as_there_are_choices() -> None:
    assert not names_others(["x", "C and D"])
    assert names_others(["x", "y", "z", "C and D"])


def test_both_of_two_choices_by_their_texts() -> None:
    assert names_others(["cats", "dogs", "Both cats and dogs", "Neither cats nor dogs"])
    assert not names_others(["cats", "mice", "both cats and dogs"])


def test_long_lists_take_no_time() -> None:
    assert not names_others(["A, B, " * 15 + "x", "B and " * 19 + "x", "none of " * 14])
    assert not names_others(["both A and B, " * 50_000, "x"])


@given(st.lists(st.text(max_size=30), min_size=2, max_size=6))
def test_any_text_is_taken(texts: list[str]) -> None:
    assert names_others(texts) in (True, False)
