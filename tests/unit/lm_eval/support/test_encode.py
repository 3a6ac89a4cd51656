"""Any value becomes strict JSON on one line, and comes back."""

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.support.encode import (
    doc_hash,
    prompt_hash,
    source_text,
    target_hash,
    task_hash,
    to_json,
)

TEXT = st.text(st.characters(codec=None), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def strict(text):
    def refuse(word):
        raise AssertionError(f"not JSON: {word}")

    return json.loads(text, parse_constant=refuse)


@given(VALUES.filter(lambda value: "inf" not in repr(value)))
def test_round_trip_of_anything(value):
    line = to_json(value)
    assert line.splitlines() == [line]
    assert strict(line.encode("utf-8").decode("utf-8")) == value


@given(st.recursive(st.floats() | TEXT, lambda i: st.lists(i) | st.dictionaries(TEXT, i)))
def test_what_is_not_finite_is_still_json(value):
    strict(to_json({"value": value}))


def test_a_lone_surrogate_is_escaped_and_other_text_is_not():
    assert to_json({"a": "é漢"}) == '{"a": "é漢"}'
    assert to_json({"a": "é\ud800"}) == '{"a": "\\u00e9\\ud800"}'
    assert strict(to_json("\ud800")) == "\ud800"


def test_nan_becomes_null_and_is_noted_with_its_place():
    text = to_json({"acc": math.nan, "a": {"b": [1.0, -math.inf]}, "c": (math.inf,)})
    assert strict(text) == {
        "acc": None,
        "a": {"b": [1.0, None]},
        "c": [None],
        "nonfinite": {"acc": "NaN", "a.b[1]": "-Infinity", "c[0]": "Infinity"},
    }


@dataclass
class Point:
    x: int
    path: Path


class Colour(Enum):
    RED = "red"


class Scalar:
    """Stands for a numpy scalar, which has ``tolist`` too."""

    def tolist(self):
        return math.nan


def plus_one(x):
    return x + 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (Path("a/b"), str(Path("a/b"))),
        (datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
        (Point(1, Path("p")), {"x": 1, "path": "p"}),
        (Colour.RED, "red"),
        (b"a\xff", "a\\xff"),
        (plus_one, "def plus_one(x):\n    return x + 1\n"),
        (functools.partial(plus_one, 1), "def plus_one(x):\n    return x + 1\n"),
        (len, "!function builtins.len"),
        (Scalar(), None),
        ({(1, 2): "a", None: "b", 3: "c"}, {"(1, 2)": "a", "null": "b", "3": "c"}),
    ],
)
def test_objects_json_does_not_know(value, expected):
    assert strict(to_json([value]))[0] == expected


def test_objects_without_a_text_of_their_own_are_the_same_in_every_run():
    assert "0x" not in to_json(object())


def test_numpy_values():
    numpy = pytest.importorskip("numpy")
    value = {"i": numpy.int64(3), "f": numpy.float32(0.5), "a": numpy.array([[1, 2]])}
    assert strict(to_json(value)) == {"i": 3, "f": 0.5, "a": [[1, 2]]}


def test_the_source_of_a_lambda_is_found():
    assert "x * 2" in source_text(lambda x: x * 2)


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_hashes_are_those_of_the_harness():
    doc = {"question": "Où?", "choices": ["a", "b"], "answer": 1}
    assert doc_hash(doc) == sha(json.dumps(doc, indent=2, ensure_ascii=False))
    assert prompt_hash("Q:") == sha("Q:")
    assert target_hash(3) == sha("3")
    samples = [{"doc_hash": "a", "prompt_hash": "b", "target_hash": "c"}, {"doc_hash": "d"}]
    assert task_hash(samples) == sha("abcd")


def test_hashes_take_any_text():
    assert len(doc_hash({"x": "\ud800", "y": {1}, "z": math.nan})) == 64
    assert prompt_hash("\ud800") != prompt_hash("")
    assert prompt_hash([{"role": "user", "content": "Q"}]) != prompt_hash("Q")


@given(VALUES | st.dictionaries(st.integers() | TEXT, st.tuples(st.floats() | VALUES)))
def test_docs_are_hashed_as_the_json_that_the_harness_writes(doc):
    written = json.dumps(doc, indent=2, ensure_ascii=False)
    assert doc_hash(doc) == hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
