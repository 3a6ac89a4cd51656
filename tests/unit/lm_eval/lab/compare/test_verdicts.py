"""What is said of the differences: which are real, confounded or inconclusive, what could be found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lm_eval.lab.compare.statistics import compare
from lm_eval.lab.compare.words import sentences
from lm_eval.lab.stored.measurement import (
    CHOICES_HIDDEN,
    CHOICES_SCORED,
    CHOICES_SHOWN,
    Measurement,
)
from tests.support.comparison_cases import FAST, right, row


def said(rows: list[Measurement], start: str) -> str:
    """The sentence that begins with ``start``."""
    (sentence,) = [one for one in sentences(compare(rows, FAST).blocks[0]) if one.startswith(start)]
    return sentence


def test_answers_that_were_read_may_say_the_reverse() -> None:
    """b answers better where it can be read, but is read for a third of the items alone."""
    read = np.array([k % 3 == 0 for k in range(90)])
    a = row("a", [int(k % 3 != 0) for k in range(90)])
    b = replace(row("b", [int(one) for one in read]), is_read=read)
    assert (
        "but 67 % of the answers under b were not read; on the 30 items read under both, the difference "
        "is -1.00 (p < 0.001), the other way round. Unread answers count"
    ) in said([a, b], "Confounded by unread answers: a is 0.33 better than b (")


def test_what_unread_answers_of_the_better_row_hide_is_said() -> None:
    knows, also_knows = np.array([1, 1, 0, 0] * 100), np.array([1, 0, 1, 0] * 100)
    cut_off = np.array([k // 4 % 10 > 2 for k in range(400)])
    rows = [row("a", knows, read=knows == 1), row("b", also_knows * cut_off, read=cut_off)]
    assert (
        "30 % of the answers under b were not read (under a, 50 %); on the 140 items read under both, "
        "the difference is 0.50 (p < 0.001), but 0.00 if unread answers under a are wrong."
    ) in said(rows, "Confounded")


def test_a_format_that_was_never_read_has_nothing_to_say_about_the_items_read() -> None:
    rows = [row("mcqa", [1] * 20), row("cot", [0] * 20, read=[False] * 20)]
    text = said(rows, "Confounded")
    assert "but none of the answers under cot could be read. Unread answers count" in text


def test_the_rest_of_the_confounded_differences_is_counted() -> None:
    whole = [row(name, [1] * 40) for name in "ab"]
    half = np.array([k % 2 == 0 for k in range(40)])
    parts = [replace(row(name, [int(one) for one in half]), is_read=half) for name in "cd"]
    assert ". The same holds for 1 more. Unread answers" in said([*whole, *parts], "Confounded")


def test_a_real_difference_has_what_remains_of_it_beside_it() -> None:
    read = [k % 4 > 0 for k in range(200)]
    rows = [row("a", [1] * 200), row("b", [int(k % 8 == 1) for k in range(200)], read=read)]
    assert ", and 0.83 on the 150 items read under b." in said(rows, "Real difference (")


def test_where_every_difference_may_be_reading_the_format_may_matter_only_for_that() -> None:
    half = [k % 2 == 0 for k in range(80)]
    rows = [row("a", [1] * 80), *(row(name, half, read=half) for name in "bc")]
    assert said(rows, "The format matters here").endswith(
        " It may matter only for how many answers could be read."
    )


def test_what_can_be_found_is_said_of_the_pair_that_varies_most() -> None:
    """The middle one of three pairs would hide the pair that needs most items."""
    alike = right(200, 0.5, 1)
    other = [1 - score if place % 5 == 0 else score for place, score in enumerate(alike)]
    near = [1 - score if place in (3, 4, 6, 7) else score for place, score in enumerate(alike)]
    rows = [row("a", alike), row("b", near), row("c", other)]
    (block,) = compare(rows, FAST).blocks
    power = block.power(block.pairs)
    assert power is not None
    sizes = [pair.result.smallest_detectable or 0.0 for pair in block.pairs]
    assert (power.detects, power.least) == (max(sizes), min(sizes))
    assert power.hardest.result.smallest_detectable == power.detects > np.median(sizes)
    text = said(rows, "Inconclusive, may be luck")
    assert f"has to be about {power.detects:.2f} to be found" in text
    hardest, easiest = power.hardest, power.easiest
    assert (
        f"That is for {hardest.first} and {hardest.second}, the pair that varies most; for "
        f"{easiest.first} and {easiest.second}, which vary least, {power.least:.2f} is enough."
    ) in text


def test_one_pair_needs_no_name() -> None:
    rows = [row("a", right(100, 0.5, 1)), row("b", right(100, 0.52, 2))]
    assert "varies most" not in said(rows, "Inconclusive")


def with_choices(**kinds: str | None) -> list[Measurement]:
    return [
        replace(row(name, right(60, 0.5, seed)), choices=kind)
        for seed, (name, kind) in enumerate(kinds.items())
    ]


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (
            {"mcqa": CHOICES_SHOWN, "generate": CHOICES_SHOWN, "cot": CHOICES_HIDDEN},
            "mcqa and generate show the choices; cot does not show them.",
        ),
        (
            {"mcqa": CHOICES_SHOWN, "cloze": CHOICES_SCORED},
            "mcqa shows the choices; cloze scores them without showing them.",
        ),
        (
            {"cloze": CHOICES_SCORED, "them": CHOICES_HIDDEN, "cot": CHOICES_HIDDEN},
            "cloze scores the choices without showing them; them and cot do not show them.",
        ),
        (
            {**dict.fromkeys("abcde", CHOICES_SHOWN), "cot": CHOICES_HIDDEN},
            "a, b, c and 2 more show the choices; cot does not show them.",
        ),
    ],
)
def test_formats_that_show_other_information_are_said_not_to_ask_the_same(
    kinds: dict[str, str], words: str
) -> None:
    text = said(with_choices(**kinds), "Not the same question")
    assert text == (
        f"Not the same question: {words} A difference between these kinds may come from what the model "
        "was shown."
    )


def test_the_error_of_a_score_includes_the_choice_of_what_is_shown() -> None:
    kinds = {"mcqa": CHOICES_SHOWN, "cloze": CHOICES_SCORED}
    rows = [
        replace(row(name, right(60, share, 1)), choices=kind)
        for share, (name, kind) in zip((0.8, 0.3), kinds.items(), strict=True)
    ]
    text = said(rows, "Your score")
    assert "Including the choice of format and of what it shows, its typical error" in text
    alike = [replace(one, choices=CHOICES_SHOWN) for one in rows]
    assert "Including the choice of format, its typical error" in said(alike, "Your score")


@pytest.mark.parametrize("kind", [CHOICES_SHOWN, None])
def test_formats_that_show_the_same_or_nothing_known_are_compared_without_a_word(
    kind: str | None,
) -> None:
    for other in (CHOICES_SHOWN, None):
        found = compare(with_choices(a=kind, b=other), FAST)
        assert not any(one.startswith("Not the same") for one in sentences(found.blocks[0]))
