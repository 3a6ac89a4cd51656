"""``f1`` and ``em`` by SQuAD's and DROP's rules, against other implementations of these rules."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.formats.items import Spans
from lm_eval.scoring.metrics import ChoiceOutcome
from lm_eval.scoring.overlap import (
    CHOICE_F1,
    best_pairing,
    contains,
    drop_em,
    drop_f1,
    drop_form,
    leave_one_out,
    mlqa_words,
    squad_em,
    squad_f1,
    squad_form,
)
from tests.support.paths import ROOT

STORED = json.loads((ROOT / "tests/data/metrics/word_overlap.json").read_text(encoding="utf-8"))
"""Answer, golds, EM and F1 by the functions of transformers 4.46 (squad) and lm_eval 0.4.13 (drop)."""
TEXTS = st.text(st.sampled_from("aAtheTHEn 5.-,'é\n"), max_size=20)


def as_gold(spans):
    return Spans(spans) if len(spans) > 1 else spans[0]


class TestSquad:
    @pytest.mark.parametrize(("answer", "golds", "em", "f1"), STORED["squad"])
    def test_stored_scores(self, answer, golds, em, f1):
        assert squad_em(answer, golds) == em
        assert squad_f1(answer, golds) == pytest.approx(f1, abs=1e-12)

    @given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
    def test_the_published_rules(self, answer, golds):
        def words(text):
            kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
            return re.sub(r"\b(a|an|the)\b", " ", kept).split()

        def f1(gold):
            if not words(gold) or not words(answer):
                return float(words(gold) == words(answer))
            same = sum((Counter(words(gold)) & Counter(words(answer))).values())
            if not same:
                return 0.0
            precision, recall = same / len(words(answer)), same / len(words(gold))
            return 2 * precision * recall / (precision + recall)

        kept = [gold for gold in golds if words(gold)] or [""]
        assert squad_em(answer, golds) == float(words(answer) in map(words, kept))
        assert squad_f1(answer, golds) == pytest.approx(max(map(f1, kept)), abs=1e-12)

    def test_one_long_form(self):
        assert squad_form("  The U.S.'s  answer, a: 5.0 ") == "uss answer 50"

    @given(TEXTS)
    def test_a_gold_is_right(self, gold):
        assert squad_em(gold, [gold]) == squad_f1(gold, [gold]) == 1.0


class TestDrop:
    @pytest.mark.parametrize(("answer", "golds", "em", "f1"), STORED["drop"])
    def test_stored_scores(self, answer, golds, em, f1):
        golds = [as_gold(gold) for gold in golds]
        assert drop_em(answer, golds) == em
        assert drop_f1(answer, golds) == pytest.approx(f1, abs=1e-12)

    @pytest.mark.parametrize(
        ("answer", "gold", "em", "f1"),
        [
            ("Manning, Brady", ["Brady", "Manning"], 1, 1),
            ("Brady and Manning", ["Brady", "Manning"], 1, 1),
            ("Brady, Manning and the Colts", ["Brady", "Manning"], 0, 0.67),
            ("1. Brady\n2. Manning", ["Brady", "Manning"], 1, 1),
            ("- Brady\n- Manning", ["Brady", "Manning"], 1, 1),
            ("Brady", ["Brady", "Manning"], 0, 0.5),
            ("1,000", ["1000"], 1, 1),
            ("1000 yards", ["1000"], 0, 0.67),
            ("17 yards", ["27 yards"], 0, 0),  # numbers differ: the shared word does not count
            ("twenty-five", ["twenty five"], 1, 1),
            ("5", ["5.0"], 1, 1),
            ("June 5, 1990", ["June 5, 1990"], 1, 1),
            ("June 5, 1990; 3", ["3", "June 5, 1990"], 1, 1),
            ("", ["x"], 0, 0),
        ],
    )
    def test_spans(self, answer, gold, em, f1):
        assert drop_em(answer, [as_gold(gold)]) == em
        assert drop_f1(answer, [as_gold(gold)]) == f1

    def test_one_span_is_never_split(self):
        assert drop_f1("Paris, France", ["Paris"]) == 0.67

    def test_the_best_gold_counts(self):
        assert drop_em("4", ["3", Spans(["4", "5"]), "4"]) == 1

    def test_numbers_have_one_form(self):
        assert drop_form("The 1,000-yard run of 3.50") == "1000.0 yard run of 3.5"

    @given(st.data())
    def test_the_best_pairing_is_that_of_all(self, data):
        rows = data.draw(st.integers(1, 4))
        columns = data.draw(st.integers(1, 5))
        cell = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
        scores = [[data.draw(cell) for _ in range(columns)] for _ in range(rows)]
        tall = scores if rows <= columns else list(zip(*scores, strict=True))
        every = permutations(range(len(tall[0])), len(tall))
        best = max(sum(tall[at][column] for at, column in enumerate(way)) for way in every)
        assert best_pairing(scores) == pytest.approx(best, abs=1e-9)

    @given(TEXTS, st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=1, max_size=3))
    def test_scores_are_shares(self, answer, golds):
        golds = [as_gold(gold) for gold in golds]
        assert 0 <= drop_f1(answer, golds) <= 1
        if drop_em(answer, golds):
            assert drop_f1(answer, golds) == 1

    def test_a_long_list_takes_little_time(self):
        names = ", ".join(f"name{at}" for at in range(3000))
        assert drop_f1(names, [Spans(["name7", "name9"])]) == 0.0


@pytest.mark.parametrize(
    ("answer", "golds", "score"),
    [
        ("It was the Mercury, I think.", ["Mercury"], 1.0),
        ("mercurial", ["Mercury"], 0.0),
        ("Lima or Quito", ["Bogotá", "quito"], 1.0),
        ("in 1871.", ["1871"], 1.0),
        ("in 18711", ["1871"], 0.0),
        ("New  York", ["the New York"], 1.0),
        ("York", ["New York"], 0.0),
        ("anything", ["the"], 0.0),
        ("", ["a b"], 0.0),
    ],
)
def test_contains(answer, golds, score):
    assert contains(answer, golds) == score


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_what_is_a_gold_contains_it(answer, golds):
    if squad_form(answer) and squad_em(answer, golds):
        assert contains(answer, golds) == 1.0


class TestLeaveOneOut:
    @pytest.mark.parametrize(
        ("answer", "golds", "em", "f1"),
        [
            ("two", ["two"], 1.0, 1.0),
            ("two", ["two", "2"], 0.5, 0.5),
            ("two", ["two", "2", "two"], 1.0, 1.0),
            ("two goats", ["goats", "two goats", "2"], 2 / 3, (1 + 1 + 2 / 3) / 3),
            ("none", ["two", "2"], 0.0, 0.0),
        ],
    )
    def test_each_gold_in_turn(self, answer, golds, em, f1):
        assert leave_one_out(squad_em)(answer, golds) == pytest.approx(em)
        assert leave_one_out(squad_f1)(answer, golds) == pytest.approx(f1)

    @given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
    def test_never_more_than_with_all_golds(self, answer, golds):
        if all(map(squad_form, golds)):
            assert leave_one_out(squad_f1)(answer, golds) <= squad_f1(answer, golds) + 1e-12


def test_f1_of_the_likeliest_choice():
    def value(logprobs, gold):
        texts = ("Ada Riis", "Riis", "Kolm")
        return CHOICE_F1.value(ChoiceOutcome(logprobs, (False,) * 3, texts, gold))

    assert value((-1.0, -2.0, -3.0), (0,)) == 1.0
    assert value((-2.0, -1.0, -3.0), (0,)) == pytest.approx(2 / 3)
    assert value((-2.0, -3.0, -1.0), (0, 1)) == 0.0


def test_mlqa_knows_the_articles_of_each_language() -> None:
    cases = {
        ("The old, red house", "en"): ["old", "red", "house"],
        ("La casa «roja»", "es"): ["casa", "roja"],
        ("Das Haus des Müllers", "de"): ["haus", "müllers"],
        ("the house", "de"): ["the", "house"],
        ("البيت القديم", "ar"): ["بيت", "قديم"],
        ("在1911年。", "zh"): ["在", "1911", "年"],
    }
    found = {case: mlqa_words(*case) for case in cases}
    assert found == cases
