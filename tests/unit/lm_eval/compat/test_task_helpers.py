"""Helpers of task folders, under the addresses that programs import."""

from __future__ import annotations

import pytest

from lm_eval.data.table import Table


def test_hellaswag() -> None:
    from lm_eval.tasks.hellaswag.utils import preprocess, process_docs

    row = {
        "activity_label": "Cooking",
        "ctx_a": "[x] A [title] B",
        "ctx_b": "the egg",
        "label": "1",
    }
    (doc,) = process_docs(Table.from_list([{**row, "endings": [" is [x] hot", "is cold "]}]))
    assert doc["query"] == "Cooking: A. B The egg"
    assert (doc["choices"], doc["gold"]) == (["is hot", "is cold"], 1)
    assert preprocess(" a [title] b") == "a. b"


def test_boxes() -> None:
    from lm_eval.tasks.minerva_math.utils import (
        last_boxed_only_string,
        remove_boxed,
    )

    rows = {
        r"so \boxed{1} or \boxed{\frac{2}{3}}.": r"\boxed{\frac{2}{3}}",
        r"$\boxed 7$ holds": r"\boxed 7",
        r"\fbox{a} only": r"\fbox{a}",
        r"open \boxed{{1}": None,
        "none": None,
    }
    assert {text: last_boxed_only_string(text) for text in rows} == rows
    assert (remove_boxed(r"\boxed{a}"), remove_boxed(r"\boxed 7")) == ("a", "7")


def test_what_is_not_here_is_not_denied_to_exist() -> None:
    with pytest.raises(ImportError, match="where the Python of its tasks lives; of that, "):
        import lm_eval.tasks.ifeval  # noqa: F401
