"""Results → the content of a results file, as a dict ready for JSON.

The shape is that of EleutherAI's files; our additions have separate keys: ``intervals``,
``share_read,…``, ``unread``, ``formats``, ``primary_metrics``, ``notes``, …. Scripts for those files
read every ``metric,filter`` of a task as a number with a ``metric_stderr,filter`` beside it, so every
such key here is one; intervals, which are pairs, are elsewhere. Only times and ``accounting`` may differ
between two runs of one command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lm_eval
from lm_eval.formats.enforced import SUFFIX
from lm_eval.reports.environment import environment, git_hash, package_version, pretty_environment
from lm_eval.scoring.results import ChoiceTally, GroupResult, TaskResult
from lm_eval.stats.estimates import Estimate
from lm_eval.support.encode import text_hash
from lm_eval.support.files import safe_model_name
from lm_eval.support.secrets import redacted

if TYPE_CHECKING:
    from lm_eval.answers.prices import Prices

NOT_AVAILABLE = "N/A"
"""Written for a standard error that does not exist, and for a group without a version, as readers of
these files expect."""
UNVERSIONED = "Yaml"
"""Written as the version of a task whose YAML gives none."""

_OPTIONAL = ("groups", "chance", "chosen", "data", "score_by", "suites", "choice_order")
"""Sections that are left out if they are empty."""
COUNTS = ("truncated_requests", "truncated_tokens", "empty_continuations", "servers")
"""Counters among the facts that ``LM.describe()`` gives."""


class ScoreDict(dict[str, Any]):
    """The scores of one task, which also gives its intervals: ``scores["acc_ci95,none"]``.

    Intervals are not among its keys, so scripts that walk through all keys find numbers only.
    """

    def __init__(self, scores: Mapping[str, Any], intervals: Mapping[str, Any]) -> None:
        super().__init__(scores)
        self.intervals = {key.replace(",", "_ci95,", 1): ends for key, ends in intervals.items()}

    def __missing__(self, key: str) -> Any:
        return self.intervals[key]

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, self.intervals.get(key, default))


@dataclass(kw_only=True)
class RunInfo:
    """What a results file says about the run as a whole. Secrets are removed when it is written."""

    model: str
    """The backend, such as ``gguf``."""
    model_name: str = ""
    """The model itself, such as ``gpt2``; the backend's name if nothing better is known."""
    model_args: Mapping[str, Any] | str | None = field(default_factory=dict)
    model_facts: Mapping[str, Any] = field(default_factory=dict)
    """What ``LM.describe()`` says."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the run, under the names that ``config`` has for them."""
    system_instruction: str | None = None
    chat_template: str | None = None
    fewshot_as_multiturn: bool | None = None
    start_time: float = 0.0
    """Seconds since 1970, as ``time.time()`` gives them."""
    end_time: float = 0.0
    prices: Prices | None = None
    """The model's prices, if they were given."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """How many there are (``total``) and how many were reused (``reused``); empty if answers are not
    kept."""


def results_dict(
    results: Sequence[TaskResult],
    *,
    run: RunInfo,
    groups: Sequence[GroupResult] = (),
    task_hashes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Everything the results file holds, ready for JSON.

    Results of one name under several filters share one entry. ``task_hashes`` are the hashes of the
    samples, which are in other files.
    """
    from lm_eval.reports.costs import accounting

    costs = accounting(results, run.prices) | _counts(run.model_facts)
    costs |= {"answers": dict(run.answers)} if run.answers else {}
    return {
        **scores_dict(results, groups),
        "task_hashes": dict(task_hashes or {}),
        **_run(run),
        **({"accounting": costs} if costs else {}),
    }


def scores_dict(
    results: Sequence[TaskResult], groups: Sequence[GroupResult] = ()
) -> dict[str, Any]:
    """What the results file holds about tasks and groups, without the run and its costs."""
    tasks = {result.name: result for result in results}
    groups = _inner_first(groups)
    all_entries: list[TaskResult | GroupResult] = [*results, *groups]
    intervals = _by_name(all_entries, _intervals)
    scores = _by_name(results, _scores) | _by_name(groups, _group_scores)
    scores = {name: ScoreDict(each, intervals[name]) for name, each in scores.items()}
    tallies = _known(tasks, "tally")
    sections = {
        "results": scores,
        "groups": {group.name: scores[group.name] for group in groups if group.metrics},
        "group_subtasks": {group.name: list(group.members) for group in groups},
        "configs": {name: _task_config(result.config()) for name, result in tasks.items()},
        "versions": {entry.name: _version(entry) for entry in all_entries},
        "n-shot": {e.name: e.num_fewshot for e in all_entries if e.num_fewshot is not None},
        "higher_is_better": _by_name(
            [*results, *(group for group in groups if group.higher_is_better)],
            lambda entry: dict(entry.higher_is_better),
        ),
        "n-samples": {
            name: {
                "original": result.num_docs_total,
                "effective": result.num_docs,
                **({} if result.rows_total is None else {"rows": result.rows_total}),
            }
            for name, result in tasks.items()
        },
        "formats": {name: _format(r) for name, r in tasks.items() if r.format is not None},
        "shows_choices": _known(tasks, "shows_choices"),
        "chance": {name: tally.chance for name, tally in tallies.items()},
        "chosen": {name: _chosen(tally) for name, tally in tallies.items() if tally.right},
        "primary_metrics": _by_name(results, _primary),
        "fingerprints": {name: dict(result.fingerprints) for name, result in tasks.items()},
        "data": _known(tasks, "data"),
        "intervals": intervals,
        "interval_methods": _by_name(all_entries, _methods),
        "notes": {name: list(result.notes) for name, result in tasks.items() if result.notes},
        "score_by": _by_name([result for result in results if result.parts], _parts),
        "suites": {group.name: dict(group.suite) for group in groups if group.suite},
        "choice_order": {n: o.to_dict() for n, o in _known(tasks, "choice_order").items()},
    }
    return {name: part for name, part in sections.items() if part or name not in _OPTIONAL}


def _known(tasks: Mapping[str, TaskResult], attribute: str) -> dict[str, Any]:
    """Name → the attribute of its result, for the results in which that is not None."""
    values = {name: getattr(result, attribute) for name, result in tasks.items()}
    return {name: value for name, value in values.items() if value is not None}


def metric_key(metric: str, filter_name: str, suffix: str = "") -> str:
    """``acc,none``: the name of a metric in a results file; ``exact_match,strict-match`` has its own
    filter."""
    name, _, own = metric.partition(",")
    return f"{name}{suffix},{own or filter_name}"


def _by_name(
    entries: Iterable[Any], describe: Callable[[Any], Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Name → description; entries of one name (several filters) are merged."""
    merged: dict[str, dict[str, Any]] = {}
    for entry in entries:
        known = merged.setdefault(entry.name, {})
        for key, value in describe(entry).items():
            is_merged = isinstance(value, dict) and key in known  # such as counts for each filter
            known[key] = {**known[key], **value} if is_merged else value
    return merged


def _scores(result: TaskResult) -> dict[str, Any]:
    scores = {"name": result.name, "alias": result.alias, "sample_len": result.num_docs}
    scores |= _metrics(result.metrics, result.filter)
    if result.missing:
        scores["missing"] = result.missing
    if result.skipped:
        scores["skipped"] = dict(result.skipped)
    if result.readings is not None:
        readings = result.readings
        scores[metric_key("share_read", result.filter)] = readings.share_read
        scores[metric_key("share_read_stderr", result.filter)] = NOT_AVAILABLE
        scores["unread"] = dict(sorted(readings.unread.items()))
        scores["replies"] = {"total": readings.total, "read": readings.read}
        scores["cut_off"] = readings.cut_off
    return scores


def _metrics(metrics: Mapping[str, Estimate], filter_name: str) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for metric, estimate in metrics.items():
        stderr = NOT_AVAILABLE if estimate.stderr is None else estimate.stderr
        scores[metric_key(metric, filter_name)] = estimate.value
        scores[metric_key(metric, filter_name, "_stderr")] = stderr
    return scores


def _intervals(entry: TaskResult | GroupResult) -> dict[str, list[float | None] | None]:
    """Score → the ends of its 95 % interval; None if there is none."""
    return _ends(entry.metrics, entry.filter)


def _ends(
    metrics: Mapping[str, Estimate], filter_name: str, suffix: str = ""
) -> dict[str, list[float | None] | None]:
    return {
        metric_key(metric, filter_name, suffix): None if e.low is None else [e.low, e.high]
        for metric, e in metrics.items()
    }


def _methods(entry: TaskResult | GroupResult) -> dict[str, str]:
    return {metric_key(m, entry.filter): e.method for m, e in entry.metrics.items()}


def _primary(result: TaskResult) -> dict[str, Any]:
    """The score shown → how choices were compared for it; None if no choices were scored."""
    if result.primary not in result.metrics:
        return {}
    normalisation = result.normalisation
    return {
        metric_key(result.primary, result.filter): normalisation.name if normalisation else None
    }


def _version(entry: TaskResult | GroupResult) -> Any:
    if isinstance(entry, GroupResult):
        return NOT_AVAILABLE if entry.version is None else str(entry.version)
    return UNVERSIONED if entry.version is None else entry.version


def _inner_first(groups: Sequence[GroupResult]) -> list[GroupResult]:
    """Every group after the groups in it, as readers of these files expect."""
    by_name: dict[str, list[GroupResult]] = {}
    for group in groups:
        by_name.setdefault(group.name, []).append(group)
    ordered: dict[str, list[GroupResult]] = {}

    def visit(name: str) -> None:
        if name in ordered or name not in by_name:
            return
        for member in by_name[name][0].members:
            visit(member)
        ordered[name] = by_name[name]

    for name in by_name:
        visit(name)
    return [group for same_name in ordered.values() for group in same_name]


def _group_scores(group: GroupResult) -> dict[str, Any]:
    scores: dict[str, Any] = {"name": group.name, "alias": group.alias}
    if not group.metrics:
        return scores
    counts = {metric_key(metric, group.filter): e.n for metric, e in group.metrics.items()}
    metrics = _metrics(group.metrics, group.filter)
    return {**scores, "sample_len": group.num_docs, **metrics, "sample_count": counts}


def _format(result: TaskResult) -> dict[str, Any]:
    return {
        "format": result.format,
        "fingerprint": result.fingerprints.get("format"),
        "version": result.format_version,
        "yaml": result.format_yaml,
        **({"enforced": True} if str(result.format).endswith(SUFFIX) else {}),
    }


def _chosen(tally: ChoiceTally) -> dict[str, Any]:
    """Label → how often it was chosen, and how often it is right."""
    return {
        label: {"chosen": tally.chosen[label], "right": tally.right[label]}
        for label in sorted(tally.chosen.keys() | tally.right.keys())
    }


def _parts(result: TaskResult) -> dict[str, Any]:
    """The scores of parts of the docs: field → value → n and metrics."""
    return {
        name: {
            part: {
                "n": max((estimate.n for estimate in metrics.values()), default=0),
                **_metrics(metrics, result.filter),
                **_ends(metrics, result.filter, "_ci95"),
            }
            for part, metrics in parts.items()
        }
        for name, parts in result.parts.items()
    }


def _run(run: RunInfo) -> dict[str, Any]:
    facts = environment()
    name = redacted(run.model_name or run.model)
    return {
        "config": _run_config(run),
        "git_hash": git_hash(),
        "date": run.start_time,
        "pretty_env_info": pretty_environment(facts),
        "environment": facts,
        "transformers_version": package_version("transformers"),
        "lm_eval_version": lm_eval.VERSION,
        "upper_git_hash": None,
        **_tokenizer(run.model_facts),
        "model_source": run.model,
        "model_name": name,
        "model_name_sanitized": safe_model_name(name),
        "system_instruction": run.system_instruction,
        "system_instruction_sha": _sha(run.system_instruction),
        "fewshot_as_multiturn": run.fewshot_as_multiturn,
        "chat_template": run.chat_template,
        "chat_template_sha": _sha(run.chat_template),
        "start_time": run.start_time,
        "end_time": run.end_time,
        "total_evaluation_time_seconds": str(run.end_time - run.start_time),
    }


def _run_config(run: RunInfo) -> dict[str, Any]:
    return {
        "model": run.model,
        "model_args": redacted(run.model_args),
        **redacted({f"model_{k}": v for k, v in run.model_facts.items() if _is_fact(k)}),
        **redacted(run.options),
    }


def _counts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the model counted; listed with the costs, because a resumed run counts less."""
    counts = {name: facts[name] for name in COUNTS if name in facts}
    return {"model": counts} if counts else {}


def _is_fact(name: str) -> bool:
    return not _is_tokenizer(name) and name not in COUNTS


def _task_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A task's config; values that may hold a secret are redacted, prompts stay as they are."""
    open_ended = ("dataset_path", "dataset_kwargs", "generation_kwargs", "metadata")
    return {k: redacted(v, k) if k in open_ended else v for k, v in config.items()}


def _is_tokenizer(name: str) -> bool:
    return name.startswith("tokenizer_") or name in ("eot_token_id", "max_length")


def _tokenizer(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts that readers look for at the top of the file."""
    return {name: value for name, value in facts.items() if _is_tokenizer(name)}


def _sha(text: str | None) -> str | None:
    return None if text is None else text_hash(text)
