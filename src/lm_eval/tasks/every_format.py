"""``task@*``: a task under every format that can be filled on every doc, and a word on the others.

Formats whose answers are choices share one look at the docs: which choice is right is the same under all
of them, so that a doc is only laid out again where its number of choices or its gold is new.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lm_eval.errors import (
    FormatError,
    KnownBadDocError,
    LmEvalError,
    LmEvalWarning,
    UsageError,
    listing,
)
from lm_eval.formats.items import Item
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.fitness import check_places
from lm_eval.tasks.prompts import FormatPrompts
from lm_eval.tasks.task import ConfigurableTask

_MIN_FAILURES = 10


def every_format(config: TaskConfig, *, parity: bool) -> list[ConfigurableTask]:
    """The task under its own formats, or under every built-in that its fields can fill."""
    tasks = [
        ConfigurableTask(config, format_name=name, parity=parity)
        for name in config.format_choices()
    ]
    if config.has_format_map:
        return tasks
    left_out = {**config.unfillable_formats(), **_unfit(tasks)}
    fitting = [task for task in tasks if task.format_name not in left_out]
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    reasons = "".join(f"\n  {listing(names)}: {why}" for why, names in by_reason.items())
    if not fitting:
        raise UsageError(
            f"Task {config.task!r} has no format that its fields can fill on every doc:{reasons}"
        )
    if left_out:
        warnings.warn(
            f"{config.task}@* leaves out what cannot be filled on every doc:{reasons}",
            LmEvalWarning,
            stacklevel=2,
        )
    return fitting


@dataclass(frozen=True)
class _Scan:
    """What one format, or all that ask for a choice, find in the docs of a task."""

    failures: dict[int, LmEvalError] = field(default_factory=dict)
    shapes: dict[Any, tuple[int, Item]] = field(default_factory=dict)
    """Number of choices and gold → the first doc that has them."""
    is_hopeless: bool = False
    """Whether so many docs failed that the others were not looked at."""


def _unfit(tasks: Sequence[ConfigurableTask]) -> dict[str, str]:
    """Format → why it cannot be filled on some doc. Docs that no format can ask are excused."""
    scans: dict[str, _Scan] = {}
    misplaced: dict[str, str] = {}
    of_choices: _Scan | None = None
    for task in tasks:
        prompts = task.prompts
        assert isinstance(prompts, FormatPrompts), "it was asked for with @"
        if prompts.format.answers != "choice":
            scan = _scanned(prompts, task)
        else:
            of_choices = of_choices or _scanned(prompts, task)
            scan = _laid_out(of_choices, prompts)
        scans[str(task.format_name)] = scan
        try:
            check_places(prompts.format, prompts.items(task.good_docs()))
        except FormatError as error:
            misplaced[str(task.format_name)] = str(error)
    failed = [set(scan.failures) for scan in scans.values() if not scan.is_hopeless]
    excused = set.intersection(*failed) if failed else set()
    reasons = {name: _reason(scan, excused) for name, scan in scans.items()}
    return {**misplaced, **{name: reason for name, reason in reasons.items() if reason}}


def _scanned(prompts: FormatPrompts, task: ConfigurableTask) -> _Scan:
    """Every doc of a task, until too many of them fail."""
    scan = _Scan()
    most = max(_MIN_FAILURES, len(task.eval_docs) // 20)
    for doc_id, doc in enumerate(task.eval_docs):
        try:
            task.check_not_bad(doc_id)
            item = prompts.item(doc)
            if prompts.format.answers == "choice":
                scan.shapes.setdefault((len(item.choices), item.gold), (doc_id, item))
            else:
                prompts.format.shot_turn(item)
        except KnownBadDocError:
            continue
        except LmEvalError as error:
            scan.failures[doc_id] = error
            if len(scan.failures) > most:
                return replace(scan, is_hopeless=True)
    return replace(scan, is_hopeless=len(scan.failures) == len(task.eval_docs))


def _laid_out(scan: _Scan, prompts: FormatPrompts) -> _Scan:
    """The scan of all choices as one format finds it, which may have too few labels."""
    failures = dict(scan.failures)
    for doc_id, item in scan.shapes.values():
        try:
            prompts.format.shot_turn(item)
        except LmEvalError as error:
            failures[doc_id] = error
    return replace(scan, failures=failures)


def _reason(scan: _Scan, excused: set[int]) -> str:
    """The first failure that counts; empty where there is none."""
    for doc_id, error in sorted(scan.failures.items()):
        if scan.is_hopeless or doc_id not in excused:
            return f"doc {doc_id}: {error}"
    return ""
