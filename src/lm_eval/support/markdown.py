"""Markdown tables in the layout that EleutherAI's harness prints, and results with its columns.

A column of numbers is aligned to the right and has as many decimals as its longest number needs.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIN_WIDTH = 3
_FLOATS = {"real", "inf", "nan", "null"}


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table, every column as wide as its widest cell."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    laid_out = [_column(*column) for column in zip(headings, columns, strict=True)]
    return "".join(f"|{'|'.join(line)}|\n" for line in zip(*laid_out, strict=True))


@dataclass(frozen=True)
class _Cell:
    """A cell by what it is: ``int``, ``real``, ``nan``, ``inf``, ``bool``, ``text``, or nothing.

    White space alone is ``null``, None is ``none``.
    """

    kind: str
    value: Any

    @property
    def is_number(self) -> bool:
        return self.kind in ("int", "real")

    @property
    def places(self) -> int:
        """The decimals that it is written with."""
        return len(repr(abs(self.value)).partition(".")[2]) if self.kind == "real" else 0

    def text(self, places: int, *, as_real: bool) -> str:
        if self.kind == "real" or (self.kind == "int" and as_real):
            return f"{self.value:.{places}f}"
        return {"nan": "NaN", "inf": "Infinity", "none": ""}.get(self.kind, str(self.value))


def _column(heading: str, values: Sequence[Any]) -> list[str]:
    """The heading, the line below it and the cells of a column, all of one width."""
    cells = _cells(values)
    kinds = {cell.kind for cell in cells} - {"none"}
    is_text = bool(kinds & {"text", "bool"})
    is_numeric = not is_text and bool(kinds & {"int", "real"} or len(kinds & _FLOATS) > 1)
    places = max((cell.places for cell in cells), default=0)
    is_real = is_numeric and kinds - {"null"} != {"int"}
    texts = [cell.text(places, as_real=is_real) for cell in cells]
    width = max([MIN_WIDTH, _width(heading), *map(_width, texts)])
    rule = "-" * (width - 1) + ":" if is_numeric else "-" * width
    padded = [
        _padded(text, width, to_right=is_numeric or cell.is_number)
        for cell, text in zip(cells, texts, strict=True)
    ]
    return [f"{heading:^{width}}", rule, *padded]


def _cells(values: Sequence[Any]) -> list[_Cell]:
    """The cells of a column, from the top. Below more texts than numbers, "0.5" is a text too."""
    cells: list[_Cell] = []
    kinds: Counter[str] = Counter()
    for value in values:
        mostly_text = bool(kinds) and kinds.most_common(1)[0][0] == "text"
        is_text = mostly_text and isinstance(value, str) and bool(value.strip())
        cells.append(_Cell("text", value) if is_text else _cell(value))
        kinds[cells[-1].kind] += 1
    return cells


def _cell(value: Any) -> _Cell:
    """A value by what it is; a text that is written as a number is that number."""
    if value is None or isinstance(value, bool):
        return _Cell("none" if value is None else "bool", value)
    if isinstance(value, str) and not value.strip():
        return _Cell("null", value)
    try:
        return _number(float(value))
    except (TypeError, ValueError):
        return _Cell("text", value)


def _number(number: float) -> _Cell:
    if math.isfinite(number):
        return _Cell("int", int(number)) if number.is_integer() else _Cell("real", number)
    return _Cell("nan" if math.isnan(number) else "inf", number)


def _width(text: str) -> int:
    """The columns of a terminal that a text takes: full-width characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _padded(text: str, width: int, *, to_right: bool) -> str:
    padding = " " * (width - _width(text))
    return (padding + text if to_right else text + padding).replace("|", "\\|")


HIGHER_IS_BETTER_SYMBOLS = {True: "↑", False: "↓"}
HEADINGS = ("Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr")
_ABOUT_TASK = ("alias", "name", "sample_len", "sample_count")
_NOT_AVAILABLE = "   N/A"


def make_table(
    result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False
) -> str:
    """What ``simple_evaluate`` returns as a Markdown table, a row for each metric.

    ``column="groups"`` shows the groups alone. Members are listed below their group, indented;
    ``sort_results`` orders by name instead.
    """
    rows = list(_result_rows(result_dict, column, sort_results))
    return markdown_table(("Groups" if column == "groups" else "Tasks", *HEADINGS), rows)


def _result_rows(
    results: Mapping[str, Any], column: str, sort_results: bool
) -> Iterator[tuple[Any, ...]]:
    entries = results[column]
    depths, ordered = _hierarchy(results.get("group_subtasks", {}), set(entries))
    for name in sorted(entries) if sort_results else ordered:
        scores = dict(entries[name])
        depth = depths.get(name, 0)
        shown = " " * depth + "- " * bool(depth) + str(scores.get("alias", name))
        version = results["versions"].get(name, "    N/A")
        shots = str(results.get("n-shot", {}).get(name, " "))
        better = results.get("higher_is_better", {}).get(name, {})
        for metric, filter_name, value, error in _metrics(scores):
            symbol = HIGHER_IS_BETTER_SYMBOLS.get(better.get(metric), "")
            sign = "" if error is None else "±"
            yield (shown, version, filter_name, shots, metric, symbol, value, sign, error or "")
            shown = version = ""


def _metrics(scores: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str | None]]:
    """``(metric, filter, value, standard error)`` by name; None if there is no standard error."""
    for key in sorted(name for name in scores if name not in _ABOUT_TASK):
        metric, comma, filter_name = key.partition(",")
        is_score = comma and not isinstance(scores[key], list | dict)  # an interval has two ends
        if metric.endswith("_stderr") or not is_score:
            continue
        value, error = scores[key], scores.get(f"{metric}_stderr,{filter_name}")
        if error is not None:
            error = _NOT_AVAILABLE if error == "N/A" else f"{error:.4f}"
        yield metric, filter_name, f"{value:.4f}" if isinstance(value, float) else value, error


def _hierarchy(
    groups: Mapping[str, Sequence[str]], names: set[str]
) -> tuple[dict[str, int], list[str]]:
    """How deep each name is below its groups, and the names in order, each group before its members."""
    depths: dict[str, int] = {}
    ordered: list[str] = []

    def visit(name: str, depth: int) -> None:
        depths[name] = depth
        if name in names:
            ordered.append(name)
        for member in sorted(groups.get(name, ())):
            visit(member, depth + 1)

    members = {member for of_group in groups.values() for member in of_group}
    for name in sorted(groups):
        if name not in members:
            visit(name, 0)
    return depths, [*ordered, *sorted(names - depths.keys())]
