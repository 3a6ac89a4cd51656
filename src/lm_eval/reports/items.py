"""A run's scores item by item, in columns: the part of its samples that comparisons need.

In: samples as they are scored. Out: the content of ``items_<time>.json``, which is written beside the
samples files and is far smaller. For runs without that file, columns are made from their samples.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from lm_eval.scoring.results import order_of
from lm_eval.support.encode import doc_hash, text_hash

T = TypeVar("T")
N = TypeVar("N", int, float)

KEY_DIGITS = 16
"""Hex digits of a hash that tell docs apart."""
_SHOTS_KNOWN = 10_000


@dataclass
class ItemColumns:
    """The items of one result, in the order of their docs: an index is the same item in every column."""

    name: str
    """``task@format``, or the plain task name."""
    filter: str = "none"
    doc_ids: list[int] = field(default_factory=list)
    docs: list[str] = field(default_factory=list)
    """Digits of each doc's hash."""
    shots: list[str] = field(default_factory=list)
    """Digits of the hash of each doc's few-shot examples, empty if it has none."""
    metrics: dict[str, Sequence[float | None]] = field(default_factory=dict)
    """Metric → value of each item; None if it has none. Metrics that are not numbers are left out.
    An array if every item has a value, otherwise a list."""
    read: Sequence[float] | None = None
    """The share of each item's replies in which an answer could be read, 0 or 1 if it has one reply;
    None if nothing is read from text."""
    clusters: list[str] | None = None
    """The cluster of each item, if the task names clusters."""
    parts: dict[str, list[str]] = field(default_factory=dict)
    """Field of ``score_by`` → the part that each item is in."""
    missing: int = 0
    """Docs that got no answer; the columns do not include them."""

    def __len__(self) -> int:
        return len(self.doc_ids)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A key of each item, from its number and its content: docs may be equal, or be moved."""
        return tuple([f"{at}:{doc}" for at, doc in zip(self.doc_ids, self.docs, strict=True)])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        shots = sorted(set(self.shots))
        return {
            "name": self.name,
            "filter": self.filter,
            "doc_id": self.doc_ids,
            "doc": "".join(self.docs),
            "shots": shots[0] if len(shots) == 1 else self.shots,
            "metrics": {
                name: [shortest(value) for value in values] for name, values in self.metrics.items()
            },
            "read": None if self.read is None else [shortest(share) for share in self.read],
            "cluster": self.clusters,
            "missing": self.missing,
            **({"parts": {n: _coded(c) for n, c in self.parts.items()}} if self.parts else {}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ItemColumns:
        """The reverse of ``to_dict``; ``ValueError`` if the columns do not belong together."""
        doc_ids, digits, shots = list(values["doc_id"]), values["doc"], values["shots"]
        read = values.get("read")
        items = cls(
            name=values["name"],
            filter=values["filter"],
            doc_ids=doc_ids,
            docs=_split(digits),
            shots=[shots] * len(doc_ids) if isinstance(shots, str) else list(shots),
            metrics={name: _metric_column(column) for name, column in values["metrics"].items()},
            read=None if read is None else array("d", read),
            clusters=values.get("cluster"),
            parts={name: _decoded(c) for name, c in (values.get("parts") or {}).items()},
            missing=int(values.get("missing", 0)),
        )
        columns = (
            *(items.docs, items.shots, items.read, items.clusters),
            *items.metrics.values(),
            *items.parts.values(),
        )
        if any(column is not None and len(column) != len(doc_ids) for column in columns):
            raise ValueError("columns of different lengths")
        return items


def _coded(column: Sequence[str]) -> dict[str, Any]:
    """A column of few texts: the texts, and which of them each item has."""
    names = sorted(set(column))
    code_of = {name: code for code, name in enumerate(names)}
    return {"names": names, "codes": [code_of[name] for name in column]}


def _decoded(column: Mapping[str, Any]) -> list[str]:
    try:
        return [str(column["names"][code]) for code in column["codes"]]
    except (KeyError, IndexError, TypeError):
        raise ValueError("a column of parts without names for its codes") from None


class RunItems:
    """Collects the columns of a run from its samples, which may come in any order."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], _GrowingColumns] = {}
        self._shots = _ShotKeys()

    def add(self, name: str, sample: Mapping[str, Any]) -> None:
        """Add one sample of the result ``name``."""
        key = (name, str(sample.get("filter", "none")))
        if key not in self._tables:
            self._tables[key] = _GrowingColumns(*key)
        self._tables[key].add(sample, self._shots.key(sample.get("fewshot_docs") or ()))

    def columns(self) -> list[ItemColumns]:
        """The columns of every result so far, by name; those of the same docs share their keys."""
        return list(self._by_name())

    def to_dict(self) -> dict[str, Any]:
        """What the items file holds."""
        return {"items": [columns.to_dict() for columns in self._by_name()]}

    def _by_name(self) -> Iterator[ItemColumns]:
        docs = _OrderedDocs()
        for key in sorted(self._tables):
            yield self._tables[key].columns(docs)


def columns_of_samples(name: str, samples: Iterable[Mapping[str, Any]]) -> list[ItemColumns]:
    """The columns of one result from its samples; one for each filter."""
    items = RunItems()
    for sample in samples:
        items.add(name, sample)
    return items.columns()


class _GrowingColumns:
    """Columns under construction: a few numbers per item instead of objects."""

    def __init__(self, name: str, filter_name: str) -> None:
        self._name = name
        self._filter = filter_name
        self._doc_ids = array("q")
        self._docs = array("Q")
        self._shots: list[str] = []
        self._metrics: dict[str, array[float]] = {}
        self._read: array[float] | None = None
        self._clusters: list[str] | None = None
        self._parts: dict[str, list[str]] = {}
        self._missing = 0

    def add(self, sample: Mapping[str, Any], shots: str) -> None:
        if sample.get("missing"):
            self._missing += 1
            return
        row = len(self._doc_ids)
        self._doc_ids.append(int(sample.get("doc_id", row)))
        digest = str(sample.get("doc_hash") or doc_hash(sample.get("doc")))
        self._docs.append(int(digest[:KEY_DIGITS], 16))
        self._shots.append(shots)
        for metric, value in _numbers(sample):
            column = self._metrics.setdefault(metric, array("d"))
            column.extend([math.nan] * (row - len(column)))
            column.append(value)
        reading = sample.get("reading")
        if isinstance(reading, Mapping):
            replies = sample.get("readings") or [reading]
            self._read = self._read or array("d", [0.0] * row)
            self._read.append(
                sum(reply.get("no_answer") is None for reply in replies) / len(replies)
            )
        if "cluster" in sample:
            self._clusters = self._clusters or [""] * row
            self._clusters.append(str(sample["cluster"]))
        for name, part in (sample.get("parts") or {}).items():
            self._parts.setdefault(name, [""] * row).append(str(part))

    def _fill(self) -> None:
        """Give every metric a value for each row."""
        num_rows = len(self._doc_ids)
        for column in self._metrics.values():
            column.extend([math.nan] * (num_rows - len(column)))

    def columns(self, docs: _OrderedDocs) -> ItemColumns:
        """The columns; those about docs come from ``docs``, which may have them already."""
        self._fill()
        docs.sort(self._doc_ids, self._docs)
        order = docs.order
        columns = ItemColumns(
            name=self._name,
            filter=self._filter,
            doc_ids=docs.doc_ids,
            docs=docs.digits,
            shots=_taken(self._shots, order),
            metrics={
                name: _metric_column(_in_order(column, order))
                for name, column in self._metrics.items()
            },
            read=None if self._read is None else _in_order(self._read, order),
            clusters=None if self._clusters is None else _taken(self._clusters, order),
            parts={name: _taken(column, order) for name, column in self._parts.items()},
            missing=self._missing,
        )
        docs.share_keys(columns)
        return columns


class _OrderedDocs:
    """The docs of one table after another, sorted; tables about the same docs share the columns."""

    def __init__(self) -> None:
        self.order: Sequence[int] = ()
        self.doc_ids: list[int] = []
        self.digits: list[str] = []
        self._unsorted = self._sorted = (array("q"), array("Q"))
        self._first: ItemColumns | None = None

    def sort(self, doc_ids: array[int], hashes: array[int]) -> None:
        """Take the docs of the next table, in the order in which they came."""
        if (doc_ids, hashes) == self._unsorted:
            return
        self.order = order_of(doc_ids)
        self._unsorted = doc_ids, hashes
        in_order = _in_order(doc_ids, self.order), _in_order(hashes, self.order)
        if in_order != self._sorted:
            self._sorted, self._first = in_order, None
            self.doc_ids, self.digits = list(in_order[0]), _split(_digits(in_order[1]))

    def share_keys(self, columns: ItemColumns) -> None:
        """Give the columns the keys of the first ones about the same docs."""
        if self._first is None:
            self._first = columns
        else:
            columns.keys = self._first.keys


class _ShotKeys:
    """Few-shot examples → a few digits; a doc that comes again is not hashed again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}
        self._keys: dict[str, str] = {}

    def key(self, shots: Sequence[Any]) -> str:
        if not shots:
            return ""
        digits = text_hash("".join(self._of(shot) for shot in shots))[:KEY_DIGITS]
        return self._keys.setdefault(digits, digits)

    def _of(self, shot: Any) -> str:
        known = self._known.get(id(shot))
        if known is not None and known[0] is shot:
            return known[1]
        digest = doc_hash(dict(shot) if isinstance(shot, Mapping) else shot)
        if len(self._known) < _SHOTS_KNOWN:
            self._known[id(shot)] = (shot, digest)  # held, so that no other gets its id
        return digest


def _numbers(sample: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for metric in sample.get("metrics", ()):
        value = sample.get(metric)
        if value is None or isinstance(value, bool | int | float):
            yield metric, math.nan if value is None else float(value)


def _split(digits: str) -> list[str]:
    return [digits[at : at + KEY_DIGITS] for at in range(0, len(digits), KEY_DIGITS)]


def _digits(hashes: array[int]) -> str:
    """The digits of all docs' hashes, one after the other."""
    hashes = hashes[:]
    if sys.byteorder == "little":
        hashes.byteswap()
    return hashes.tobytes().hex()


def _taken(column: Sequence[T], order: Sequence[int]) -> list[T]:
    return list(column) if isinstance(order, range) else [column[at] for at in order]


def _in_order(column: array[N], order: Sequence[int]) -> array[N]:
    """A copy of a column of numbers in the order of docs."""
    if isinstance(order, range):
        return column[:]
    return array(column.typecode, (column[at] for at in order))


def _metric_column(values: Sequence[float | None]) -> Sequence[float | None]:
    """The values with None for each that is not finite; an array, which is small, if all are."""
    if isinstance(values, array) or None not in values:
        column = array("d", values)
        if math.isfinite(sum(column)):
            return column
    return [_finite(value) for value in values]


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def shortest(value: float | None) -> float | int | None:
    """A value as JSON writes it in the fewest digits."""
    return int(value) if value is not None and value.is_integer() else value
