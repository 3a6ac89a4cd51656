"""Dataclasses as dicts ready for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lm_eval.support.encode import AsDict, plain


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Line(AsDict):
    points: tuple[Point, ...]
    tags: frozenset[str]
    by_name: Mapping[str, Point | None]

    ALSO = ("length",)

    @property
    def length(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Picture(AsDict):
    line: Line
    title: str
    secret: str = "not written"

    KEYS = ("title", ("outline", "line"))


LINE = Line((Point(1, 2), Point(3, 4)), frozenset({"b", "a"}), {"origin": None})


def test_fields_come_in_order_with_properties_behind_them() -> None:
    assert json.dumps(LINE.to_dict()) == (
        '{"points": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "tags": ["a", "b"], '
        '"by_name": {"origin": null}, "length": 2}'
    )


def test_a_class_names_its_keys() -> None:
    found = Picture(LINE, "t").to_dict()
    assert list(found) == ["title", "outline"]
    assert found["outline"] == LINE.to_dict()


def test_other_values_stay_as_they_are() -> None:
    assert plain([None, 1.5, "text", (True,)]) == [None, 1.5, "text", [True]]
