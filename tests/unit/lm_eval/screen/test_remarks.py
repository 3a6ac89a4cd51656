"""Which label a model prefers, and how scores are written."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.scoring.results import ChoiceTally
from lm_eval.screen.remarks import preferred_label
from lm_eval.support.numbers import number, p_equals


def tally(chosen: str, right: str) -> ChoiceTally:
    return ChoiceTally(chosen=Counter(chosen), right=Counter(right))


@pytest.mark.parametrize(
    ("chosen", "right", "label"),
    [
        ("C" * 40 + "A" * 20 + "B" * 10 + "D" * 10, "ABCD" * 20, "C"),
        ("ABCD" * 20, "ABCD" * 20, None),
        ("A" * 22 + "B" * 20 + "C" * 20 + "D" * 18, "ABCD" * 20, None),
        ("AAB", "ABB", None),  # too few to tell
        ("A" * 60 + "B" * 20, "A" * 60 + "B" * 20, None),  # as often as it is right
        ("", "ABCD" * 20, None),
        ("A" * 30, "A" * 30, None),  # one label alone is right
    ],
)
def test_preferred_label(chosen: str, right: str, label: str | None) -> None:
    assert preferred_label(tally(chosen, right)) == label


@given(st.lists(st.sampled_from("ABCD"), max_size=200))
def test_a_model_that_is_always_right_prefers_no_label(labels: list[str]) -> None:
    assert preferred_label(tally("".join(labels), "".join(labels))) is None


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.525, 3, ".525"),
        (0.0, 3, ".000"),
        (1.0, 2, "1.00"),
        (-0.034, 2, "−.03"),
        (10.24, 2, "10.2"),
        (None, 3, "–"),
    ],
)
def test_short(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0004, "p < .001"), (0.024, "p = .024"), (0.234, "p = .23"), (0.999, "p = 1")],
)
def test_short_p(p: float, text: str) -> None:
    assert p_equals(p) == text
