"""Which slot of a format the differences between formats go with."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.stats.components import slot_effects


def test_known_answer() -> None:
    (found,) = slot_effects([0.2, 0.4, 0.6, 0.8], {"case": ["low", "low", "up", "up"]})
    assert found.means == pytest.approx({"up": 0.7, "low": 0.3})
    assert list(found.means) == ["up", "low"]
    assert found.counts == {"up": 2, "low": 2}
    assert found.explained == pytest.approx(0.16 / 0.2)
    # Two of the six ways to split four scores in pairs are as far apart.
    assert found.p == pytest.approx(2 / 6, abs=0.03)
    assert found.by_chance == pytest.approx(1 / 3, abs=0.03), "(values - 1) / (formats - 1)"


def test_the_planted_slot_comes_first() -> None:
    rng = random.Random(3)
    slots = {name: [rng.choice("abc") for _ in range(60)] for name in ("one", "two", "three")}
    effect = {"a": 0.1, "b": 0.0, "c": -0.1}
    scores = [0.5 + effect[value] + rng.gauss(0, 0.05) for value in slots["two"]]
    found = slot_effects(scores, slots)
    assert found[0].slot == "two"
    assert found[0].adjusted < 0.01
    assert list(found[0].means) == ["a", "b", "c"]
    assert all(one.adjusted > 0.05 for one in found[1:])
    assert all(one.adjusted >= one.p for one in found)


def test_slots_that_cannot_be_tested_are_left_out() -> None:
    slots = {"same": ["x"] * 4, "all": list("abcd"), "two": list("aabb")}
    assert [one.slot for one in slot_effects([0.1, 0.2, 0.3, 0.4], slots)] == ["two"]


def test_equal_scores_explain_nothing() -> None:
    (found,) = slot_effects([0.5] * 6, {"case": list("aabbcc")})
    assert (found.explained, found.by_chance, found.p) == (0.0, 0.0, 1.0)


@given(st.permutations(range(8)), st.integers(0, 10))
def test_the_order_of_formats_makes_no_difference(order: list[int], seed: int) -> None:
    scores = np.random.default_rng(seed).random(8)
    values = list("aaabbbcc")
    (found,) = slot_effects(scores.tolist(), {"s": values}, permutations=20)
    (moved,) = slot_effects(
        scores[order].tolist(), {"s": [values[place] for place in order]}, permutations=20
    )
    assert moved.explained == pytest.approx(found.explained)
    assert moved.means == pytest.approx(found.means)


def test_without_an_effect_one_in_twenty_is_below_the_level() -> None:
    rng = np.random.default_rng(5)
    below = 0
    for _ in range(400):
        values = rng.choice(["a", "b", "c"], 20).tolist()
        found = slot_effects(rng.random(20).tolist(), {"s": values}, permutations=199)
        below += bool(found and found[0].p <= 0.05)
    assert 8 <= below <= 33, "20 are expected, with a standard error of 4.4"
