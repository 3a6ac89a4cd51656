"""Which stored results to compare: the newest of each task, format and model; groups count as tasks.

In: ``StoredRun``s and a ``Choice``. Out: ``Measurement``s, with notes on what was left out; the names of
results for ``reread`` and ``diff``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lm_eval.answers.keys import SPEED_ONLY_ARGUMENTS
from lm_eval.errors import ComparisonError, UsageError, did_you_mean, few_names, listing
from lm_eval.lab.stored.measurement import (
    Measurement,
    all_read,
    measurement,
    shares_read,
    with_items,
)
from lm_eval.lab.stored.run import PLAIN, StoredResult, StoredRun, open_runs
from lm_eval.stats.numeric import np

MANY_MODELS = 4
"""Of more models than this, results that occur more than once are counted, not named."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which results of the runs to use; an empty field means all."""

    tasks: Sequence[str] = ()
    """Names of tasks or groups, or ``task@format``."""
    formats: Sequence[str] = ()
    models: Sequence[str] = ()
    metrics: Sequence[str] = ()
    """The first of these that a result has is used; empty: the metric shown as its score."""


@dataclass(frozen=True)
class SelectedResult(StoredResult):
    """One result of one run, under the name that its model goes by."""

    model: str

    @property
    def key(self) -> tuple[str, str, str, Any]:
        """What identifies it: of several results with the same key, one is used."""
        return self.model, self.task, self.format, self.fact("n-shot")

    @property
    def time(self) -> tuple[float, str]:
        """When the run was made; if the date is unknown, the file name decides."""
        date = self.run.results.get("date")
        return (float(date) if isinstance(date, int | float) else 0.0), self.run.path.name

    def measured(self, metrics: Sequence[str]) -> Measurement:
        """The measurement of this result, in the first of ``metrics`` that it has."""
        run = self.run
        return measurement(run.results, run.items, self.name, str(run.path), self.model, metrics)


def chosen(
    runs: Sequence[StoredRun], choice: Choice | None = None
) -> tuple[list[Measurement], list[str]]:
    """The selected measurements, in the order of the runs, and notes on what was left out.

    Groups come first, if they can be compared as a whole; a group that is named replaces its tasks. Only
    what is selected is read from disk.
    """
    choice = choice or Choice()
    kept, notes = selected(runs, choice)
    measurements, without = with_items(partial(result.measured, choice.metrics) for result in kept)
    return _with_groups(measurements, runs, choice.tasks), [*notes, *without]


def selected(runs: Sequence[StoredRun], choice: Choice) -> tuple[list[SelectedResult], list[str]]:
    """The selected results, in the order of the runs, and notes on what was left out.

    Of several results of the same model, task, format and number of shots the newest counts. A model
    asked the same with different arguments counts as several models, named after those arguments.
    """
    results, notes = _told_apart(
        [SelectedResult(run, name, run.model) for run in runs for name in run.names]
    )
    wanted = [
        result
        for result in results
        if (is_among(choice.tasks, result.task, result.name) or _is_in_group(choice.tasks, result))
        and is_among(choice.formats, result.format)
        and is_among(choice.models, result.model, result.run.model)
    ]
    named = [name for result in results for name in (result.task, result.name)]
    _check(choice.tasks, "--tasks", [*named, *(name for run in runs for name in _groups(run))])
    _check(choice.formats, "--formats", [result.format for result in results])
    _check(
        choice.models,
        "--models",
        [name for result in results for name in (result.run.model, result.model)],
    )
    kept, older = _newest(wanted)
    return kept, [*notes, *older]


def _with_groups(
    measurements: Sequence[Measurement], runs: Sequence[StoredRun], wanted: Sequence[str]
) -> list[Measurement]:
    """The selected groups that can be compared, then the tasks that were selected themselves."""
    of_runs = [
        (run, [measurement for measurement in measurements if measurement.run == str(run.path)])
        for run in runs
    ]
    groups = [
        group
        for run, same in of_runs
        for group in groups_in(run.results, same)
        if is_among(wanted, group.task, group.name)
    ]
    groups = comparable(groups)
    return [
        *groups,
        *(
            measurement
            for measurement in measurements
            if not groups or is_among(wanted, measurement.task, measurement.name)
        ),
    ]


def _groups(run: StoredRun) -> list[str]:
    """The names of the groups with a score: ``group`` and ``group@format``."""
    names = run.results.get("groups", {})
    return [called for name in names for called in (name.partition("@")[0], name)]


def _is_in_group(wanted: Sequence[str], result: SelectedResult) -> bool:
    """True if the result belongs to a selected group."""
    groups = result.run.results.get("groups", {})
    return any(
        result.name in tasks_below(result.run.results, name)
        for name in groups
        if name in wanted or name.partition("@")[0] in wanted
    )


def model_names(runs: Sequence[StoredRun]) -> dict[Path, str]:
    """Results file → what its model is called beside the others: ``dummy``, ``dummy (seed=7)``."""
    results = [SelectedResult(run, name, run.model) for run in runs for name in run.names]
    return {result.run.path: result.model for result in _told_apart(results)[0]}


def _told_apart(results: Sequence[SelectedResult]) -> tuple[list[SelectedResult], list[str]]:
    """The results, and notes; a model asked the same with different arguments becomes several models."""
    asked: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for result in results:
        asked.setdefault(result.key[:3], []).append(_arguments(result))
    several = {
        key[0]
        for key, arguments in asked.items()
        if any(other != arguments[0] for other in arguments)
    }
    labels = {
        model: _labels([result for result in results if result.model == model]) for model in several
    }
    notes = [
        f"{model} was asked with different --model_args. These count as different models: "
        f"{listing(list(dict.fromkeys(labels[model].values())))}."
        for model in labels
    ]
    told_apart = [
        replace(result, model=labels[result.model][result.run.path])
        if result.model in several
        else result
        for result in results
    ]
    return told_apart, notes


def _arguments(result: SelectedResult) -> dict[str, str]:
    """The model's arguments, without those that only change its speed."""
    arguments = result.run.arguments
    return {name: arguments[name] for name in arguments if name not in SPEED_ONLY_ARGUMENTS}


def _labels(results: Sequence[SelectedResult]) -> dict[Path, str]:
    """The model's name in each of its runs, with the arguments in which the runs differ."""
    by_run = {result.run.path: _arguments(result) for result in results}
    names = dict.fromkeys(name for arguments in by_run.values() for name in arguments)
    differ = [name for name in names if len({args.get(name) for args in by_run.values()}) > 1]
    differences = {
        path: ", ".join(f"{name}={args[name]}" for name in differ if name in args)
        for path, args in by_run.items()
    }
    model = results[0].model
    return {path: f"{model} ({text})" if text else model for path, text in differences.items()}


def _newest(results: Iterable[SelectedResult]) -> tuple[list[SelectedResult], list[str]]:
    kept: dict[tuple[str, str, str, Any], SelectedResult] = {}
    older: dict[tuple[str, str, str, Any], int] = {}
    for result in results:
        known = kept.get(result.key)
        if known is None:
            kept[result.key] = result
            continue
        older[result.key] = older.get(result.key, 0) + 1
        if result.time >= known.time:
            kept[result.key] = result  # in the position of the first, so that the order stays
    if len({key[0] for key in older}) > MANY_MODELS:
        return list(kept.values()), [
            f"{len(older)} results of {len({key[0] for key in older})} models are there more than once. "
            "The newest of each counts; give results files to take others."
        ]
    alike: dict[tuple[str, int, Path], list[str]] = {}
    for key, count in older.items():
        result = kept[key]
        alike.setdefault((result.model, count + 1, result.run.path), []).append(result.name)
    notes = [
        f"{listing(names, 4)} ({model}) {'is' if len(names) == 1 else 'are'} there {times} times. The "
        f"newest counts, {path}; give the results file of another to take that, or two of them to "
        "`lm-eval diff`."
        for (model, times, path), names in alike.items()
    ]
    return list(kept.values()), notes


def is_among(names: Sequence[str], *known: str) -> bool:
    return not names or any(name in names for name in known)


def _check(names: Sequence[str], flag: str, known: Iterable[str]) -> None:
    there = list(dict.fromkeys(known))
    for name in names:
        if name not in there:
            raise UsageError(
                f"{flag} {name!r} is in none of these runs.{did_you_mean(name, there)} They have: "
                f"{few_names(name, there)}."
            )


def one_run(path: str) -> StoredRun:
    """The run at this path; a folder that holds several is an error that names them."""
    runs = open_runs([path])
    if len(runs) > 1:
        files = [str(run.path) for run in sorted(runs, key=lambda run: run.path.name)]
        raise ComparisonError(
            f"{path!r} holds {len(runs)} runs. Give the results file of one of them, the newest last:\n"
            + "\n".join(f"  {file}" for file in files[-8:])
        )
    return runs[0]


def chosen_names(run: StoredRun, names: Sequence[str], formats: Sequence[str]) -> list[str]:
    """The results that ``--tasks`` (tasks or ``task@format``) and ``--format`` select, or all."""
    results = [StoredResult(run, name) for name in run.names]
    _check(names, "--tasks", [name for each in results for name in (each.task, each.name)])
    _check(formats, "--format", [result.format for result in results])
    return [
        result.name
        for result in results
        if is_among(names, result.task, result.name) and is_among(formats, result.format)
    ]


def groups_in(results: Mapping[str, Any], tasks: Sequence[Measurement]) -> Iterator[Measurement]:
    """Each group of a run that has a score, if ``tasks`` include all of its tasks."""
    by_name = {measured.name: measured for measured in tasks}
    for name, scores in results.get("groups", {}).items():
        leaves = tasks_below(results, name)
        members = [by_name[leaf] for leaf in leaves if leaf in by_name]
        names = {member.task for member in members}  # a task under two formats asks its items twice
        if len(names) == len(leaves) > 1 and _is_mean_of_items(scores, members):
            yield _joined(name, members)


def comparable(groups: Sequence[Measurement]) -> list[Measurement]:
    """The groups that were asked under several formats, or of several models."""
    by_model = Counter((group.task, group.model) for group in groups)
    by_format = Counter((group.task, group.format) for group in groups)
    return [
        group
        for group in groups
        if by_model[group.task, group.model] > 1 or by_format[group.task, group.format] > 1
    ]


def tasks_below(results: Mapping[str, Any], group: str) -> list[str]:
    """The results of tasks in a group, and in the groups in it."""
    below = results.get("group_subtasks", {})
    names = [group]
    for name in names:  # the list grows while it is walked
        names += [member for member in below.get(name, ()) if member not in names]
    return [name for name in names if not below.get(name)]


def _is_mean_of_items(scores: Mapping[str, Any], members: Sequence[Measurement]) -> bool:
    """Whether all tasks have one metric, and the group's score in it is the mean over their items."""
    metric = members[0].metric
    if any(member.metric != metric for member in members):
        return False
    total = math.fsum(float(member.scores.sum()) for member in members)
    mean = total / sum(len(member.items) for member in members)
    values = [value for key, value in scores.items() if key.partition(",")[0] == metric]
    return any(isinstance(v, float | int) and math.isclose(v, mean, abs_tol=1e-9) for v in values)


def _joined(name: str, members: Sequence[Measurement]) -> Measurement:
    first = members[0]
    task, _, format_name = name.partition("@")
    shots = {member.num_fewshot for member in members}
    choices = {member.choices for member in members}
    return Measurement(
        run=first.run,
        model=first.model,
        task=task,
        format=format_name or PLAIN,
        name=name,
        metric=first.metric,
        higher_is_better=first.higher_is_better,
        items=_chained(members, lambda member: [f"{member.task}/{item}" for item in member.items]),
        scores=np.concatenate([member.scores for member in members]),
        is_read=None
        if all(member.is_read is None for member in members)
        else np.concatenate([all_read(member) for member in members]),
        shares_read=None
        if all(member.shares_read is None for member in members)
        else np.concatenate([shares_read(member) for member in members]),
        clusters=_clusters(members),
        shots=_chained(members, lambda member: member.shots or [""] * len(member.items)),
        num_fewshot=shots.pop() if len(shots) == 1 else None,
        missing=sum(member.missing for member in members),
        choices=choices.pop() if len(choices) == 1 else None,
        usage=_summed([member.usage or {} for member in members]),
        members=tuple(member.task for member in members),
    )


def _chained(
    members: Sequence[Measurement], values: Callable[[Measurement], Sequence[str]]
) -> tuple[str, ...]:
    return tuple(value for member in members for value in values(member))


def _clusters(members: Sequence[Measurement]) -> tuple[str, ...] | None:
    """Clusters of different tasks are different; an item without a cluster is a cluster by itself."""
    if all(member.clusters is None for member in members):
        return None

    def named(member: Measurement) -> list[str]:
        return [f"{member.task}/{unit}" for unit in member.clusters or member.items]

    return _chained(members, named)


def _summed(parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}
