"""Labels of the same items under several prompts, compared over topics."""

from __future__ import annotations

import pytest

from lm_eval.errors import DataError
from nugget_eval.data.items import NuggetItem, item_of
from nugget_eval.data.records import Assignment, Nugget
from nugget_eval.reading.spellings import Label
from nugget_eval.scores.bootstrap import Resampling
from nugget_eval.scores.compare import contrasts

S: Label = "support"
P: Label = "partial_support"
N: Label = "not_support"
HOW = Resampling(iters=100)


def item(qid: str, *gold: Label | None) -> NuggetItem:
    labels = gold or (None, None)
    nuggets = tuple(
        Nugget(text, assignment=label) for text, label in zip("ab", labels, strict=True)
    )
    return item_of(Assignment("", qid, "", None, "run", nuggets))


def test_with_gold_it_is_accuracy_over_what_both_labelled() -> None:
    items = [item("1", S, N), item("2", P, S)]
    labels = {"x": [[S, N], [P, None]], "y": [[S, S], [N, S]]}
    (pair,) = contrasts(labels, items, HOW)
    assert (pair.first, pair.second, pair.measure) == ("x", "y", "accuracy")
    assert pair.difference.value == pytest.approx((0.5 + 1) / 2)
    assert pair.num_topics == 2


def test_without_gold_of_the_texts_it_is_the_mean_label() -> None:
    labels = {"x": [[S, N]], "y": [[P, N]]}
    (pair,) = contrasts(labels, [item("1")], HOW)
    assert pair.measure == "mean label"
    assert pair.difference.value == pytest.approx(0.25)


def test_pairs_are_adjusted_together() -> None:
    labels = {name: [[S, N]] for name in "xyz"}
    assert [(pair.first, pair.second) for pair in contrasts(labels, [item("1")], HOW)] == [
        ("x", "y"),
        ("x", "z"),
        ("y", "z"),
    ]


def test_nothing_that_both_labelled_is_an_error() -> None:
    with pytest.raises(DataError, match="x and y have no nugget that both labelled"):
        contrasts({"x": [[S, None]], "y": [[None, S]]}, [item("1")], HOW)
