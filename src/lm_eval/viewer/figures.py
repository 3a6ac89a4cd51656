"""The figures on the pages: a card for each run, the table of its results, and what differences mean.

In: a ``StoredRun``, or several. Out: plain values for JSON. Scores and intervals come from the results
file, tests and verdicts from ``lab.compare``, their wording from ``lab.compare.findings``: the browser
computes none of them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import lm_eval
from lm_eval.errors import ComparisonError, LmEvalError, MissingExtraError
from lm_eval.lab.stored.run import PLAIN, StoredResult, StoredRun
from lm_eval.lab.stored.scores import StoredScore, group_scores, scores_by, scores_of
from lm_eval.lab.stored.view import finite, mapping
from lm_eval.viewer.catalogue import AnyRun, UnfinishedRun, ViewedRun, result_key

_SHOWN_CONFIG = (
    *("model", "model_args", "batch_size", "device", "limit", "sample", "gen_kwargs", "use_cache"),
    *("random_seed", "numpy_seed", "torch_seed", "fewshot_seed", "command"),
)


# Runs


def card(run: AnyRun, root: str) -> dict[str, Any]:
    """What the list of runs shows of one."""
    if isinstance(run, UnfinishedRun):
        return _unfinished_card(run, root)
    stored = run.stored
    results = stored.results
    rows = [result_row(run, name) for name in run.names]
    return {
        "id": run.id,
        "kind": "judge" if run.is_foreign else "run",
        "model": run.model,
        "path": str(run.path),
        "place": os.path.relpath(run.path.parent, root),
        "date": _date(stored),
        "seconds": finite(results.get("total_evaluation_time_seconds")),
        "cost": _cost(results),
        "version": _version(results),
        "harness": _is_harness(results),
        "results": rows,
        "groups": _group_rows(stored),
        "shots": sorted({row["shots"] for row in rows if row["shots"] is not None}),
    }


def _unfinished_card(run: UnfinishedRun, root: str) -> dict[str, Any]:
    return {
        "id": run.id,
        "kind": "live",
        "running": run.is_running,
        "model": run.model,
        "path": str(run.path),
        "place": os.path.relpath(run.path, root),
        "date": max(run.source(name).changed_at() for name in run.names),
        "results": [
            {"name": name, "key": result_key(name), "task": task, "format": form or PLAIN}
            for name in run.names
            for task, _, form in [name.partition("@")]
        ],
        "groups": [],
        "shots": [],
    }


def _date(run: StoredRun) -> float | None:
    known = run.results.get("date")
    if isinstance(known, int | float):
        return float(known)
    try:
        return run.path.stat().st_mtime
    except OSError:
        return None


def _cost(results: Mapping[str, Any]) -> dict[str, Any] | None:
    total = _section(_section(results, "accounting"), "total")
    if not total:
        return None
    keys = ("requests", "retries", "tokens_in", "tokens_out", "tokens_cached", "wall_s", "cost")
    figures = {key: value for key in keys if (value := finite(total.get(key))) is not None}
    currency = total.get("currency")
    return {**figures, "currency": currency if isinstance(currency, str) else None}


def _version(results: Mapping[str, Any]) -> dict[str, Any]:
    """The version that wrote the run, and whether it is newer than this one."""
    known = results.get("lm_eval_version")
    is_newer = False
    if isinstance(known, str) and not _is_harness(results):
        is_newer = _numbers(known) > _numbers(lm_eval.VERSION)
    return {"wrote": known if isinstance(known, str) else None, "newer": is_newer}


def _numbers(version: str) -> list[int]:
    parts = version.partition("+")[0].split(".")
    return [int(part) if part.isdigit() else 0 for part in parts]


def _is_harness(results: Mapping[str, Any]) -> bool:
    """Whether EleutherAI's harness wrote the file: ours has a section that says what formats are."""
    return "formats" not in results


# Results


def result_row(run: ViewedRun, name: str) -> dict[str, Any]:
    """One row of a run's table: a score with its interval, what was parsed, what it cost."""
    stored = run.stored
    results, scores = stored.results, stored.results["results"][name]
    every = _scores(stored, name)
    shown = every[0] if every else None
    row: dict[str, Any] = {
        "name": name,
        "key": result_key(name),
        "task": stored.task_of(name),
        "format": stored.format_of(name) or PLAIN,
        "shots": _shots(results, name),
        "n": _size(results, name),
        "chance": finite(_section(results, "chance").get(name)),
        **(_shown_score(shown) if shown else _NO_SCORE),
        "higher": shown.higher_is_better if shown else True,
        "others": [_shown_score(score) for score in every[1:]],
        "share_read": finite(scores.get("share_read,none")),
        "unread": _counts(scores.get("unread")),
        "missing": finite(scores.get("missing")) or 0,
        "skipped": _counts(scores.get("skipped")),
        "choices": _section(results, "shows_choices").get(name),
        "chosen": _section(results, "chosen").get(name),
        "usage": _usage(results, name),
        "notes": [str(note) for note in _section(results, "notes").get(name) or ()],
        "yaml": _section(results, "formats").get(name, {}).get("yaml"),
        "of": finite(_section(_section(results, "n-samples"), name).get("original")),
    }
    row["if_read"] = finite(scores.get(f"{shown.metric}_read,none")) if shown else None
    return row


def _shown_score(score: StoredScore) -> dict[str, Any]:
    """A score with its interval."""
    suffix = "" if score.filter == "none" else f" ({score.filter})"
    estimate = score.estimate
    return {
        "metric": f"{score.metric}{suffix}",
        "value": finite(estimate.value),
        "low": estimate.low,
        "high": estimate.high,
        "by": "" if estimate.method == "none" else estimate.method,
    }


_NO_SCORE = {"metric": "", "value": None, "low": None, "high": None, "by": ""}


def _scores(run: StoredRun, name: str) -> list[StoredScore]:
    """Every score of a result, beginning with the one that is shown; empty if it has none."""
    try:
        return scores_of(StoredResult(run, name), run.model)
    except LmEvalError:
        return []


def _group_rows(run: StoredRun) -> list[dict[str, Any]]:
    """The first score of each group."""
    first: dict[str, StoredScore] = {}
    for score in group_scores(run, run.model):
        first.setdefault(score.name, score)
    tasks = run.results.get("group_subtasks", {})
    return [
        {"name": name, **_shown_score(score), "tasks": list(tasks.get(name, ()))}
        for name, score in first.items()
    ]


def _shots(results: Mapping[str, Any], name: str) -> int | None:
    known = _section(results, "n-shot").get(name)
    return known if isinstance(known, int) else None


def _size(results: Mapping[str, Any], name: str) -> int | None:
    known = finite(_section(_section(results, "n-samples"), name).get("effective"))
    known = known if known is not None else finite(results["results"][name].get("sample_len"))
    return None if known is None else int(known)


def _usage(results: Mapping[str, Any], name: str) -> dict[str, float]:
    usage = _section(_section(_section(results, "accounting"), "tasks"), name)
    return {key: number for key, value in usage.items() if (number := finite(value)) is not None}


def _counts(value: Any) -> dict[str, int]:
    return {str(key): int(count) for key, count in mapping(value).items() if isinstance(count, int)}


def run_page(run: ViewedRun, root: str) -> dict[str, Any]:
    """Everything about a run but its items."""
    results = run.stored.results
    config = _section(results, "config")
    return {
        **card(run, root),
        "config": [
            [key, _words(config[key])]
            for key in _SHOWN_CONFIG
            if config.get(key) not in (None, {}, "")
        ],
        "parts": _parts(run.stored),
        "answers": (results.get("accounting") or {}).get("answers"),
        "chat": bool(results.get("chat_template")),
        "git": results.get("git_hash"),
    }


def _parts(run: StoredRun) -> list[dict[str, Any]]:
    """Scores by part: a table for each result and field, in the metric shown as the score."""
    tables = []
    for name, fields in _section(run.results, "score_by").items():
        scores = _scores(run, name) if name in run.names and isinstance(fields, Mapping) else []
        for field in fields if scores else ():
            rows = [
                {"part": score.part, "n": score.estimate.n, **_shown_score(score)}
                for score in scores_by(StoredResult(run, name), scores[0], field)
            ]
            tables.append({"name": name, "field": field, "rows": rows})
    return tables


def _words(value: Any) -> str:
    if isinstance(value, list):
        return shlex.join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return "" if value is None else str(value)


# Differences


def comparisons(runs: Sequence[ViewedRun]) -> dict[str, Any]:
    """What can be compared among these runs, task by task; for what cannot, a sentence says why."""
    from lm_eval.stats.numeric import LAB_PACKAGES, require

    try:
        require(*LAB_PACKAGES)
    except MissingExtraError as error:
        missing = f"{error.what} Install it: {error.install}."
        return {"blocks": [], "notes": [], "problem": missing}
    from lm_eval.lab.stored.select import chosen

    try:
        measurements, notes = chosen([run.stored for run in runs])
    except LmEvalError as error:
        return {"blocks": [], "notes": [], "problem": str(error)}
    blocks: list[dict[str, Any]] = []
    for task in dict.fromkeys(measurement.task for measurement in measurements):
        try:
            blocks += _compared([each for each in measurements if each.task == task])
        except ComparisonError as error:
            notes.append(f"{task}: {error}")
    return {"blocks": blocks, "notes": notes, "problem": None}


def _compared(measurements: Sequence[Any]) -> list[dict[str, Any]]:
    """The comparisons of one task; on the items that all have, if their items differ."""
    from lm_eval.lab.compare.statistics import Options, compare

    if len(measurements) < 2:
        return []
    try:
        report = compare(measurements, Options(flips=False))
    except ComparisonError as error:
        try:
            report = compare(measurements, Options(intersect=True))
        except ComparisonError:
            raise error from None
    return [_block(comparison) for comparison in report.blocks]


def _block(comparison: Any) -> dict[str, Any]:
    """One comparison with its sentences."""
    from lm_eval.lab.compare.findings import findings, title
    from lm_eval.lab.words import sentences

    found: list[dict[str, Any]] = []
    for label, text in findings(comparison):
        if label != "":
            found.append({"label": label or "", "lines": []})
        found[-1]["lines"].append(text)
    return {
        **comparison.to_dict(),
        "title": title(comparison),
        "findings": found,
        "sentences": sentences(comparison),
    }


def _section(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return mapping(results.get(name))
