"""The figures of the pages: a card for each run, the table of its results, and what differences mean.

In: a ``StoredRun``, or several. Out: plain values for JSON. Scores and intervals come from the results
file, tests and verdicts from ``lab.compare``, their wording from ``screen.findings``: the browser
computes none of them.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import lm_eval
from lm_eval.errors import ComparisonError, LmEvalError, MissingExtraError
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import PLAIN, StoredRun
from lm_eval.text.encode import plain
from lm_eval.text.numbers import duration
from lm_eval.viewer.catalogue import AnyRun, UnfinishedRun, ViewedRun, result_key

NORMAL_Z = 1.959964
_SHOWN_CONFIG = (
    *("model", "model_args", "batch_size", "device", "limit", "gen_kwargs", "use_cache"),
    *("random_seed", "numpy_seed", "torch_seed", "fewshot_seed", "command"),
)


# Runs


def card(run: AnyRun, root: str) -> dict[str, Any]:
    """What the list of runs shows of one."""
    if isinstance(run, UnfinishedRun):
        return _unfinished_card(run)
    stored = run.stored
    results = stored.results
    rows = [result_row(run, name) for name in run.names]
    return {
        "id": run.id,
        "kind": "judge" if run.is_foreign else "run",
        "model": run.model,
        "path": str(run.path),
        "place": _place(run, root),
        "date": _date(stored),
        "seconds": _seconds(results),
        "cost": _cost(results),
        "version": _version(results),
        "harness": _is_harness(results),
        "results": rows,
        "groups": [_group_row(stored, name) for name in results.get("groups", {})],
        "shots": sorted({row["shots"] for row in rows if row["shots"] is not None}),
    }


def _unfinished_card(run: UnfinishedRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "kind": "live",
        "running": run.is_running,
        "model": run.model,
        "path": str(run.path),
        "place": str(run.path),
        "date": max(file.stat().st_mtime for file in run.files.values()),
        "results": [
            {"name": name, "key": result_key(name), "task": task, "format": form or PLAIN}
            for name in run.names
            for task, _, form in [name.partition("@")]
        ],
        "groups": [],
        "shots": [],
    }


def _place(run: ViewedRun, root: str) -> str:
    return os.path.relpath(run.path.parent, root)


def _date(run: StoredRun) -> float | None:
    known = run.results.get("date")
    if isinstance(known, int | float):
        return float(known)
    try:
        return run.path.stat().st_mtime
    except OSError:
        return None


def _seconds(results: Mapping[str, Any]) -> float | None:
    return _finite(results.get("total_evaluation_time_seconds"))


def _cost(results: Mapping[str, Any]) -> dict[str, Any] | None:
    total = (results.get("accounting") or {}).get("total")
    if not isinstance(total, Mapping):
        return None
    keys = ("requests", "retries", "tokens_in", "tokens_out", "tokens_cached", "wall_s", "cost")
    found = {key: value for key in keys if (value := _finite(total.get(key))) is not None}
    currency = total.get("currency")
    return {**found, "currency": currency if isinstance(currency, str) else None}


def _version(results: Mapping[str, Any]) -> dict[str, Any]:
    """The version that wrote the run, and whether it is newer than this one."""
    known = results.get("lm_eval_version")
    is_newer = False
    if isinstance(known, str) and not _is_harness(results):
        is_newer = _numbers(known) > _numbers(lm_eval.__version__)
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
    row: dict[str, Any] = {
        "name": name,
        "key": result_key(name),
        "task": stored.task_of(name),
        "format": stored.format_of(name) or PLAIN,
        "shots": _shots(results, name),
        "n": _size(results, name),
        "chance": _finite(_section(results, "chance").get(name)),
        **_score(stored, name),
        "others": _other_scores(stored, name),
        "share_read": _finite(scores.get("share_read,none")),
        "unread": _counts(scores.get("unread")),
        "cut_off": _finite(scores.get("cut_off")),
        "missing": _finite(scores.get("missing")) or 0,
        "skipped": _counts(scores.get("skipped")),
        "choices": _section(results, "shows_choices").get(name),
        "chosen": _section(results, "chosen").get(name),
        "usage": _usage(results, name),
        "notes": [str(note) for note in _section(results, "notes").get(name) or ()],
        "yaml": _section(results, "formats").get(name, {}).get("yaml"),
        "fingerprint": _section(results, "formats").get(name, {}).get("fingerprint"),
        "of": _finite(_section(_section(results, "n-samples"), name).get("original")),
    }
    row["if_read"] = _finite(scores.get(f"{row['metric']}_read,none"))
    return row


def _score(run: StoredRun, name: str) -> dict[str, Any]:
    """The primary metric with its interval; of a file that has none, from the standard error."""
    try:
        metric, filter_name = primary_metric(run.results, name, str(run.path))
    except LmEvalError:
        return {"metric": "", "value": None, "low": None, "high": None, "higher": True, "by": ""}
    return {
        "metric": metric,
        **_estimate(run.results, name, run.results["results"][name], f"{metric},{filter_name}"),
        "higher": bool(_section(run.results, "higher_is_better").get(name, {}).get(metric, True)),
    }


def _estimate(
    results: Mapping[str, Any], name: str, scores: Mapping[str, Any], key: str
) -> dict[str, Any]:
    value = _finite(scores.get(key))
    metric, _, filter_name = key.partition(",")
    ends = _section(results, "intervals").get(name, {}).get(key)
    ends = ends if ends is not None else scores.get(f"{metric}_ci95,{filter_name}")
    if isinstance(ends, list) and len(ends) == 2:
        how = _section(results, "interval_methods").get(name, {}).get(key, "")
        return {"value": value, "low": _finite(ends[0]), "high": _finite(ends[1]), "by": str(how)}
    error = _finite(scores.get(f"{metric}_stderr,{filter_name}"))
    if value is None or error is None:
        return {"value": value, "low": None, "high": None, "by": ""}
    low, high = value - NORMAL_Z * error, value + NORMAL_Z * error
    return {"value": value, "low": low, "high": high, "by": "normal"}


def _other_scores(run: StoredRun, name: str) -> list[dict[str, Any]]:
    """The metrics besides the one that is shown as the score."""
    scores = run.results["results"][name]
    primary = _score(run, name)["metric"]
    shown = []
    for key, value in scores.items():
        metric, comma, _ = key.partition(",")
        is_error = metric.endswith(("_stderr", "_ci95")) or metric == "share_read"
        if comma and not is_error and metric != primary and _finite(value) is not None:
            shown.append(
                {"metric": key.removesuffix(",none"), **_estimate(run.results, name, scores, key)}
            )
    return shown


def _group_row(run: StoredRun, name: str) -> dict[str, Any]:
    scores = run.results["groups"][name]
    keys = [key for key in scores if "," in key and not key.partition(",")[0].endswith("_stderr")]
    primary = next((key for key in keys if _finite(scores[key]) is not None), "")
    return {
        "name": name,
        "metric": primary.removesuffix(",none"),
        **_estimate(run.results, name, scores, primary),
        "tasks": list(run.results.get("group_subtasks", {}).get(name, ())),
    }


def _shots(results: Mapping[str, Any], name: str) -> int | None:
    known = _section(results, "n-shot").get(name)
    return known if isinstance(known, int) else None


def _size(results: Mapping[str, Any], name: str) -> int | None:
    known = _finite(_section(_section(results, "n-samples"), name).get("effective"))
    known = known if known is not None else _finite(results["results"][name].get("sample_len"))
    return None if known is None else int(known)


def _usage(results: Mapping[str, Any], name: str) -> dict[str, float]:
    tasks = (results.get("accounting") or {}).get("tasks")
    found = tasks.get(name) if isinstance(tasks, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {key: number for key, value in found.items() if (number := _finite(value)) is not None}


def _counts(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): int(count) for key, count in value.items() if isinstance(count, int)}


def run_page(run: ViewedRun, root: str) -> dict[str, Any]:
    """Everything about a run but its items."""
    results = run.stored.results
    config = results.get("config") if isinstance(results.get("config"), Mapping) else {}
    assert isinstance(config, Mapping)
    return {
        **card(run, root),
        "config": [
            [key, _words(config[key])]
            for key in _SHOWN_CONFIG
            if config.get(key) not in (None, {}, "")
        ],
        "parts": _parts(run.stored),
        "answers": (results.get("accounting") or {}).get("answers"),
        "took": duration(seconds) if (seconds := _seconds(results)) is not None else None,
        "system": _words(results.get("system_instruction")),
        "chat": bool(results.get("chat_template")),
        "git": results.get("git_hash"),
    }


def _parts(run: StoredRun) -> list[dict[str, Any]]:
    """Scores by part: a table for each result and field, in the metric shown as the score."""
    tables = []
    for name, fields in _section(run.results, "score_by").items():
        if not isinstance(fields, Mapping) or name not in run.names:
            continue
        metric, filter_name = primary_metric(run.results, name, str(run.path))
        for field_name, values in fields.items():
            rows = [
                {
                    "part": str(value),
                    "n": _finite(scores.get("n")),
                    **_estimate({}, name, scores, f"{metric},{filter_name}"),
                }
                for value, scores in values.items()
            ]
            tables.append({"name": name, "field": field_name, "rows": rows})
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
        return {"blocks": [], "rankings": [], "notes": [], "problem": missing}
    from lm_eval.lab.stored.select import chosen

    try:
        measurements, notes = chosen([run.stored for run in runs])
    except LmEvalError as error:
        return {"blocks": [], "rankings": [], "notes": [], "problem": str(error)}
    blocks: list[dict[str, Any]] = []
    rankings: list[dict[str, Any]] = []
    for task in dict.fromkeys(one.task for one in measurements):
        found = _compared([one for one in measurements if one.task == task])
        if isinstance(found, str):
            notes.append(f"{task}: {found}")
            continue
        blocks += found[0]
        rankings += found[1]
    return {"blocks": blocks, "rankings": rankings, "notes": notes, "problem": None}


def _compared(
    measurements: Sequence[Any],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | str:
    """The comparisons of one task, where items differ on those that all have; or why there is none."""
    from lm_eval.lab.compare.statistics import Options, compare

    if len(measurements) < 2:
        return ([], [])
    try:
        report = compare(measurements, Options(flips=False))
    except ComparisonError as error:
        if "not about the same items" not in str(error):
            return str(error)
        try:
            report = compare(measurements, Options(intersect=True))
        except ComparisonError as second:
            return str(second)
    blocks = [_block(one) for one in report.blocks]
    return blocks, [plain(one) for one in report.rankings]


def _block(comparison: Any) -> dict[str, Any]:
    """One comparison with its sentences."""
    from lm_eval.lab.compare.words import sentences, title
    from lm_eval.screen.findings import findings

    values = comparison.to_dict()
    return {
        **values,
        "title": title(comparison),
        "findings": [
            {"label": one.label, "lines": list(one.lines)} for one in findings(comparison)
        ],
        "sentences": sentences(comparison),
        "best": comparison.best.label,
        "worst": comparison.worst.label,
    }


def _section(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = results.get(name)
    return found if isinstance(found, Mapping) else {}


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
