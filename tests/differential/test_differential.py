"""The same task files and the same model give the same requests and the same scores as the peer's.

``golden/*.json`` was written by ``regenerate.py`` with EleutherAI's lm_eval 0.4.13. Requests are
compared byte for byte, per-doc scores to 1e-9, aggregates to 1e-6 (relative, for values above 1).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import not_yet
import pytest
from compare import check_equal, request_difference
from ours import run_ours
from variants import cases, golden_path, needs_parity

CASES = cases()
PER_DOC, AGGREGATE = 1e-9, 1e-6

NOT_YET: dict[str, str] = json.loads(not_yet.PATH.read_text(encoding="utf-8"))
"""``selector__variant`` → why its requests do not equal the golden ones yet."""


@cache
def golden(selector: str, variant: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden_path(selector, variant).read_text(encoding="utf-8"))
    if "error" in found:
        pytest.skip(f"the peer refuses this run: {found['error']}: {found['message']}")
    return found


@cache
def outcome(selector: str, variant: str) -> dict[str, Any] | Exception:
    try:
        return run_ours(selector, variant, parity=needs_parity(selector, variant))
    except Exception as error:
        return error


def ours(selector: str, variant: str) -> dict[str, Any]:
    found = outcome(selector, variant)
    if isinstance(found, Exception):
        raise found
    return found


def each_case() -> list[Any]:
    params = []
    for selector, variant in CASES:
        reason = NOT_YET.get(f"{selector}__{variant}")
        marks = [pytest.mark.xfail(strict=False, reason=reason)] if reason else []
        params.append(pytest.param(selector, variant, id=f"{selector}__{variant}", marks=marks))
    return params


@pytest.mark.parametrize(("selector", "variant"), each_case())
def test_requests(selector: str, variant: str) -> None:
    difference = request_difference(golden(selector, variant), ours(selector, variant))
    assert difference is None, difference


@pytest.mark.parametrize(("selector", "variant"), each_case())
def test_scores(selector: str, variant: str) -> None:
    theirs, found = golden(selector, variant), ours(selector, variant)
    for name, task in theirs["tasks"].items():
        mine = found["tasks"][name]
        if "results" not in mine:
            pytest.xfail("ours.run_ours tells no scores yet")
        assert mine["filter_order"] == task["filter_order"]
        for my_doc, doc in zip(mine["docs"], task["docs"], strict=True):
            assert my_doc["responses"] == doc["responses"]
            check_equal(my_doc["filters"], doc["filters"], PER_DOC, f"{name} doc {doc['doc_id']}")
        check_equal(mine["results"], task["results"], AGGREGATE, name)
        for key in ("higher_is_better", "version", "n_samples"):
            assert mine[key] == task[key], key


@pytest.mark.parametrize(("selector", "variant"), each_case())
def test_groups(selector: str, variant: str) -> None:
    theirs = golden(selector, variant)
    if not theirs["group_subtasks"] and not theirs["group_results"]:
        pytest.skip("no group here")
    found = ours(selector, variant)
    if "groups" not in found:
        pytest.xfail("ours.run_ours tells no group scores yet")
    for key in ("groups", "group_results"):
        check_equal(found[key], theirs[key], AGGREGATE, key)
    for key in ("group_subtasks", "group_info", "result_order"):
        assert found[key] == theirs[key], key


@pytest.mark.parametrize(("selector", "variant"), each_case())
def test_sample_lines(selector: str, variant: str) -> None:
    """What a samples file says of each doc: its target, and the hashes that compare two runs."""
    theirs, found = golden(selector, variant), ours(selector, variant)
    for name, task in theirs["tasks"].items():
        for my_doc, doc in zip(found["tasks"][name]["docs"], task["docs"], strict=True):
            if "doc_hash" not in my_doc:
                pytest.xfail("ours.run_ours tells no sample lines yet")
            for key in ("target", "doc_hash", "prompt_hash", "target_hash"):
                assert my_doc[key] == doc[key], (name, doc["doc_id"], key)


def test_every_golden_is_run() -> None:
    there = {path.name for path in golden_path("x", "y").parent.glob("*.json")}
    assert there == {golden_path(*case).name for case in CASES}
    assert len({selector for selector, _ in CASES}) >= 28
