"""How two runs are compared: requests byte for byte, numbers up to rounding."""

from __future__ import annotations

import json
import math
from typing import Any


def request_difference(theirs: dict[str, Any], mine: dict[str, Any]) -> str | None:
    """The first difference between two runs' requests, in words; None where there is none."""
    if mine["task_order"] != theirs["task_order"]:
        return f"task order: ours {mine['task_order']}, peer {theirs['task_order']}"
    for name, task in theirs["tasks"].items():
        my_task = mine["tasks"][name]
        if my_task["n_shot"] != task["n_shot"]:
            return f"{name}: ours has {my_task['n_shot']} shots, peer {task['n_shot']}"
        my_ids, ids = ([doc["doc_id"] for doc in run["docs"]] for run in (my_task, task))
        if my_ids != ids:
            return f"{name}: ours asks docs {my_ids}, peer {ids}"
        for my_doc, doc in zip(my_task["docs"], task["docs"], strict=True):
            difference = _first_difference(my_doc["requests"], unpacked(doc["requests"]))
            if difference:
                return f"{name}, doc {doc['doc_id']}, {difference}"
    return None


def unpacked(requests: list[list[Any]]) -> list[list[Any]]:
    """Requests in full: ``null`` stands for the context of the one before."""
    whole: list[list[Any]] = []
    for request in requests:
        whole.append([whole[-1][0], *request[1:]] if request[0] is None else request)
    return whole


def _first_difference(mine: list[list[Any]], wanted: list[list[Any]]) -> str | None:
    if len(mine) != len(wanted):
        return f"requests: ours {len(mine)}, peer {len(wanted)}"
    for index, (one, other) in enumerate(zip(mine, wanted, strict=True)):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            if _exact(left) != _exact(right):
                where = f"request {index}, argument {place}"
                return f"{where}: {_where_they_part(left, right)}\nours {left!r}\npeer {right!r}"
    return None


def _where_they_part(left: Any, right: Any) -> str:
    if not isinstance(left, str) or not isinstance(right, str):
        return f"ours {left!r}, peer {right!r}"
    pairs = zip(left, right, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    begin = max(same - 20, 0)
    return f"ours …{left[begin : same + 25]!r}, peer …{right[begin : same + 25]!r}"


def _exact(value: Any) -> str:
    """A value as text, so that ``1``, ``1.0`` and ``True`` differ."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def check_equal(mine: Any, wanted: Any, tolerance: float, where: str) -> None:
    """Equal in shape and text, and in numbers up to ``tolerance``."""
    if isinstance(wanted, dict):
        assert isinstance(mine, dict), where
        assert mine.keys() == wanted.keys(), where
        for key in wanted:
            check_equal(mine[key], wanted[key], tolerance, f"{where}, {key}")
    elif isinstance(wanted, list):
        assert isinstance(mine, list | tuple), where
        assert len(mine) == len(wanted), where
        for index, (one, other) in enumerate(zip(mine, wanted, strict=True)):
            check_equal(one, other, tolerance, f"{where}[{index}]")
    elif isinstance(wanted, float):
        assert math.isclose(mine, wanted, rel_tol=tolerance, abs_tol=tolerance), where
    elif wanted == "NaN":
        assert mine == "NaN" or math.isnan(mine), where
    else:
        assert mine == wanted, where
