"""Results as Markdown tables, with the columns that EleutherAI's harness prints.

Programs print ``make_table(results)``, and scripts read its columns back; ``lm-eval run --table
markdown`` prints the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.text.markdown import markdown_table

HIGHER_IS_BETTER_SYMBOLS = {True: "↑", False: "↓"}
HEADINGS = ("Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr")
_ABOUT_TASK = ("alias", "name", "sample_len", "sample_count")
_NOT_AVAILABLE = "   N/A"


def make_table(
    result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False
) -> str:
    """What ``simple_evaluate`` returns as a Markdown table, a row for each metric.

    ``column="groups"`` shows the groups alone. Members stand below their group, indented;
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
    """``(metric, filter, value, standard error)`` by name; None where there is no standard error."""
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
