"""pass@k and maj@k against every choice of k replies, and their intervals by simulation."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.scoring.functions import majority_score, pass_chance
from lm_eval.stats.estimates import mean_estimate

RIGHT = "b"
ANSWERS = st.lists(st.sampled_from(["a", RIGHT, "c", None]), min_size=1, max_size=7)


def replies(answers: list[str | None]) -> list[tuple[str | None, float]]:
    return [(answer, float(answer == RIGHT)) for answer in answers]


def majority_by_hand(answers: tuple[str | None, ...]) -> float:
    votes = Counter(answer for answer in answers if answer is not None)
    best = [answer for answer, count in votes.items() if count == max(votes.values())]
    return best.count(RIGHT) / len(best) if best else 0.0


@given(ANSWERS, st.data())
def test_majority_is_the_mean_over_every_choice(answers: list[str | None], data: object) -> None:
    k = data.draw(st.integers(1, len(answers)))  # type: ignore[attr-defined]
    choices = list(itertools.combinations(answers, k))
    expected = sum(map(majority_by_hand, choices)) / len(choices)
    assert majority_score(replies(answers), k) == pytest.approx(expected)


@given(ANSWERS, st.data())
def test_pass_is_the_mean_over_every_choice(answers: list[str | None], data: object) -> None:
    k = data.draw(st.integers(1, len(answers)))  # type: ignore[attr-defined]
    choices = list(itertools.combinations(answers, k))
    expected = sum(RIGHT in choice for choice in choices) / len(choices)
    assert pass_chance(answers.count(RIGHT), len(answers), k) == pytest.approx(expected)


def test_known_answers() -> None:
    assert pass_chance(1, 4, 2) == 0.5
    assert pass_chance(3, 10, 5) == pytest.approx(1 - 21 / 252)
    assert majority_score(replies(["a", "b"]), 2) == 0.5  # a tie: half
    assert majority_score(replies(["a", "a", "b", "b", "c", "c"]), 6) == pytest.approx(1 / 3)
    assert majority_score(replies([None, None, "b"]), 3) == 1.0  # who is silent has no vote
    assert majority_score(replies([None, None]), 2) == 0.0
    assert majority_score(replies(["a", "b", "b"]), 1) == pytest.approx(2 / 3)


def test_an_answer_that_is_partly_right_counts_as_such() -> None:
    assert majority_score([("x", 0.25), ("x", 0.25), ("y", 1.0)], 3) == 0.25


def test_many_replies_take_no_long_time() -> None:
    many = [(str(i % 20), float(i % 20 == 3)) for i in range(64)]
    assert 0.03 < majority_score(many, 16) < 0.1


@pytest.mark.parametrize("k", [1, 3])
def test_the_interval_over_items_covers(k: int) -> None:
    rng = np.random.default_rng(21)
    chances = rng.beta(1, 1, (400, 80))
    truth = 1 - 1 / (k + 1)  # the mean of 1 − (1 − p)^k over uniform p
    covered = 0
    for counts in rng.binomial(5, chances).tolist():
        found = mean_estimate([pass_chance(count, 5, k) for count in counts])
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert 0.91 <= covered / 400 <= 0.98
