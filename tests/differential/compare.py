"""How two runs are compared: texts byte for byte, numbers up to rounding."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

PER_DOC, AGGREGATE = 1e-9, 1e-6
"""How far scores may be apart: of one doc, and of a task or group (relative, for values above 1)."""

OF_TASKS = ("n_shot", "filter_order", "higher_is_better", "version", "n_samples")
OF_LINES = ("doc_hash", "prompt_hash", "target_hash")
OF_GROUPS = ("group_subtasks", "group_info", "result_order")


def first_difference(theirs: dict[str, Any], mine: dict[str, Any]) -> str | None:
    """The first difference between a golden run and one of ours, in words; None where there is none."""
    for compare in (request_differences, sample_differences, score_differences, group_differences):
        for difference in compare(theirs, mine):
            return difference
    return None


def request_differences(theirs: dict[str, Any], mine: dict[str, Any]) -> Iterator[str]:
    """Which docs are asked, and what exactly."""
    if mine["task_order"] != theirs["task_order"]:
        yield f"task order: ours {mine['task_order']}, peer {theirs['task_order']}"
        return
    for name, task in theirs["tasks"].items():
        docs, my_docs = task["docs"], mine["tasks"][name]["docs"]
        my_ids, ids = ([doc["doc_id"] for doc in some] for some in (my_docs, docs))
        if my_ids != ids:
            yield f"{name}: ours asks docs {my_ids}, peer {ids}"
            continue
        for my_doc, doc in zip(my_docs, docs, strict=True):
            my_requests, requests = unpacked(my_doc["requests"]), unpacked(doc["requests"])
            for difference in _request_differences(my_requests, requests):
                yield f"{name}, doc {doc['doc_id']}, {difference}"


def sample_differences(theirs: dict[str, Any], mine: dict[str, Any]) -> Iterator[str]:
    """What the lines of a samples file say of each doc: responses, what filters left, scores, hashes."""
    for name, task in theirs["tasks"].items():
        for my_doc, doc in zip(mine["tasks"][name]["docs"], task["docs"], strict=True):
            where = f"{name}, doc {doc['doc_id']}"
            for key in OF_LINES:
                yield from unequal(my_doc[key], doc[key], where=f"{where}, {key}")
            yield from unequal(my_doc["target"], _target_text(doc), where=f"{where}, target")
            yield from unequal(my_doc["responses"], as_texts(doc["responses"]), where=where)
            filters = {
                name: {**filtered, "answers": as_texts(filtered["answers"])}
                for name, filtered in doc["filters"].items()
            }
            yield from unequal(my_doc["filters"], filters, PER_DOC, where)


def score_differences(theirs: dict[str, Any], mine: dict[str, Any]) -> Iterator[str]:
    """What a results file says of each task."""
    for name, task in theirs["tasks"].items():
        my_task = mine["tasks"][name]
        yield from unequal(my_task["results"], task["results"], AGGREGATE, name)
        for key in OF_TASKS:
            yield from unequal(my_task[key], task[key], where=f"{name}, {key}")


def group_differences(theirs: dict[str, Any], mine: dict[str, Any]) -> Iterator[str]:
    """What a results file says of groups."""
    for key in ("groups", "group_results"):
        yield from unequal(mine[key], theirs[key], AGGREGATE, key)
    for key in OF_GROUPS:
        yield from unequal(mine[key], theirs[key], where=key)


def unpacked(requests: list[list[Any]]) -> list[list[Any]]:
    """Requests in full: ``null`` stands for the context of the one before."""
    whole: list[list[Any]] = []
    for request in requests:
        whole.append([whole[-1][0], *request[1:]] if request[0] is None else request)
    return whole


def as_texts(value: Any) -> Any:
    """Responses as a samples file holds them: every scalar a text."""
    return [as_texts(item) for item in value] if isinstance(value, list) else str(value)


def _target_text(doc: dict[str, Any]) -> str:
    """A target as a samples file holds it. The golden file has made lists of tuples."""
    target = doc["target"]
    texts = [str(target)]
    if isinstance(target, list) and all(isinstance(item, list) for item in target):
        texts.append(str([tuple(item) for item in target]))
    return next((t for t in texts if _sha256(t) == doc["target_hash"]), texts[0])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def unequal(mine: Any, wanted: Any, tolerance: float = 0.0, where: str = "") -> Iterator[str]:
    """Every place where two values differ in shape or text, or in numbers by more than ``tolerance``."""
    if isinstance(wanted, dict) and isinstance(mine, dict):
        if mine.keys() != wanted.keys():
            yield f"{where}: ours has {sorted(mine)}, peer {sorted(wanted)}"
            return
        for key in wanted:
            yield from unequal(mine[key], wanted[key], tolerance, f"{where}, {key}")
    elif isinstance(wanted, list) and isinstance(mine, list):
        if len(mine) != len(wanted):
            yield f"{where}: ours {mine}, peer {wanted}"
            return
        for index, (one, other) in enumerate(zip(mine, wanted, strict=True)):
            yield from unequal(one, other, tolerance, f"{where}[{index}]")
    elif not _same(mine, wanted, tolerance):
        yield f"{where}: ours {mine!r}, peer {wanted!r}"


def _same(mine: Any, wanted: Any, tolerance: float) -> bool:
    if tolerance and isinstance(wanted, float) and isinstance(mine, int | float):
        return math.isclose(mine, wanted, rel_tol=tolerance, abs_tol=tolerance)
    return bool(mine == wanted)


def _request_differences(mine: list[list[Any]], wanted: list[list[Any]]) -> Iterator[str]:
    if [len(request) for request in mine] != [len(request) for request in wanted]:
        yield f"requests: ours {len(mine)}, peer {len(wanted)}"
        return
    for index, (one, other) in enumerate(zip(mine, wanted, strict=True)):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            if _exact(left) != _exact(right):
                where = f"request {index}, argument {place}"
                yield f"{where}: {_where_they_part(left, right)}\nours {left!r}\npeer {right!r}"


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
