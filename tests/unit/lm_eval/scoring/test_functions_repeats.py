"""What replies vote for: answers that say the same are one vote, in every kind of answer."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.errors import ConfigError
from lm_eval.formats.readers import NO_ANSWER, Reading
from lm_eval.scoring.functions import is_repeat_metric, repeat_metrics
from lm_eval.scoring.metrics import TextOutcome


def replies(kind: Any, gold: Any, *values: Any) -> list[TextOutcome]:
    return [
        TextOutcome(
            str(value),
            NO_ANSWER if value is None else Reading(value, "whole reply", (0, len(str(value)))),
            gold,
            kind,
        )
        for value in values
    ]


def majority(outcomes: list[TextOutcome]) -> float:
    passes, votes = repeat_metrics([], len(outcomes), where="here")
    assert (passes.name, votes.name) == (f"pass@{len(outcomes)}", f"maj@{len(outcomes)}")
    assert votes.of_replies is not None
    return float(votes.of_replies(outcomes))


def test_texts_that_are_right_in_other_words_vote_together() -> None:
    assert majority(replies("text", ("42",), "42", "42 apples", "41", "41")) == 0.5
    assert majority(replies("text", ("42",), "42", "The 42.", "41", "43")) == 1.0


def test_wrong_texts_vote_together_too() -> None:
    assert majority(replies("text", ("Paris",), "Paris", "London", "london.", "Rome")) == 0.0
    assert majority(replies("text", ("7",), "7", "1,000", "1000", "$1000")) == 0.0


def test_two_right_answers_are_two() -> None:
    assert majority(replies("text", ("a", "b"), "a", "b", "c", "c")) == 0.0


def test_orders_and_choices() -> None:
    assert majority(replies("order", ((1, 0),), [1, 0], [0, 1], [1, 0])) == 1.0
    assert majority(replies("choice", (2,), 2, 2, 1, None)) == 1.0
    assert majority(replies("choice", (2,), None, None)) == 0.0


def test_names() -> None:
    assert is_repeat_metric("pass@12")
    assert not any(map(is_repeat_metric, ["pass@0", "pass@", "pass@k", "acc", "xpass@1", "maj@1x"]))
    names = [metric.name for metric in repeat_metrics(["acc", "pass@2", "maj@4"], 4, where="here")]
    assert names == ["pass@2", "maj@4", "pass@4"]
    assert repeat_metrics(["acc"], 1, where="here") == []
    with pytest.raises(
        ConfigError, match=r"here: metric 'maj@3' needs 3 replies to each doc, and there is 1"
    ):
        repeat_metrics(["maj@3"], 1, where="here")
