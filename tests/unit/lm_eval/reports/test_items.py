"""A run's scores item by item: from samples in any order, to JSON and back."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lm_eval.reports.items import ItemColumns, RunItems, columns_of_samples
from lm_eval.support.encode import doc_hash

VALUES = st.one_of(st.none(), st.booleans(), st.floats(0, 1))


def sample(doc_id: int, **keys: Any) -> dict[str, Any]:
    doc = {"question": f"Q{doc_id}?"}
    return {"doc_id": doc_id, "doc": doc, "doc_hash": doc_hash(doc), "metrics": ["acc"], **keys}


@given(
    values=st.lists(st.tuples(VALUES, VALUES), max_size=20),
    seed=st.integers(0, 5),
    reads=st.booleans(),
)
def test_columns_do_not_depend_on_the_order_of_samples(
    values: list[tuple[Any, Any]], seed: int, reads: bool
) -> None:
    samples = [
        sample(place, metrics=["acc", "other"], acc=acc, other=other)
        | ({"reading": {"no_answer": None if acc else "empty"}} if reads else {})
        for place, (acc, other) in enumerate(values)
    ]
    in_order = [columns.to_dict() for columns in columns_of_samples("t@x", samples)]
    random.Random(seed).shuffle(samples)
    shuffled = columns_of_samples("t@x", samples)
    assert [columns.to_dict() for columns in shuffled] == in_order
    again = [ItemColumns.from_dict(json.loads(json.dumps(one))) for one in in_order]
    assert again == shuffled
    for columns in shuffled:
        assert columns.doc_ids == list(range(len(values)))
        acc = [None if value is None else float(value) for value, _ in values]
        assert list(columns.metrics["acc"]) == acc
        read = None if columns.read is None else list(columns.read)
        assert read == ([bool(value) for value, _ in values] if reads else None)


def test_what_is_in_the_columns() -> None:
    shots = [{"question": "shot"}]
    items = RunItems()
    items.add("t@x", sample(2, acc=1.0, fewshot_docs=shots, cluster="b"))
    items.add("t@x", sample(0, acc=0.5, fewshot_docs=list(shots), cluster="a"))
    items.add("t@x", sample(1, missing="HTTP 500"))
    items.add("plain", sample(0, filter="strict", metrics=["f1"], f1=(1, 0)))
    plain, columns = items.columns()
    assert (plain.name, plain.filter, plain.metrics) == ("plain", "strict", {})
    assert (columns.doc_ids, columns.missing, len(columns)) == ([0, 2], 1, 2)
    assert columns.clusters == ["a", "b"]
    assert columns.docs == [doc_hash({"question": f"Q{doc}?"})[:16] for doc in (0, 2)]
    assert columns.shots[0] == columns.shots[1] != ""
    assert columns.to_dict()["metrics"] == {"acc": [0.5, 1]}


def test_other_examples_have_another_key() -> None:
    columns = columns_of_samples(
        "t", [sample(0, fewshot_docs=[{"a": 1}, {"a": 2}]), sample(1, fewshot_docs=[{"a": 2}])]
    )[0]
    assert columns.shots[0] != columns.shots[1]
    assert columns.to_dict()["shots"] == columns.shots


def test_results_about_the_same_docs_share_what_is_known_of_these() -> None:
    items = RunItems()
    for name, order in (
        ("t@a", (0, 1, 2)),
        ("t@b", (0, 1, 2)),
        ("t@c", (2, 0, 1)),
        ("t@d", (0, 1)),
    ):
        for doc_id in order:
            items.add(name, sample(doc_id, acc=float(doc_id)))
    first, *same, fewer = items.columns()
    assert all(columns.keys is first.keys and columns.docs is first.docs for columns in same)
    assert all(columns.metrics == first.metrics for columns in same)
    assert (fewer.keys, list(fewer.metrics["acc"])) == (first.keys[:2], [0.0, 1.0])
