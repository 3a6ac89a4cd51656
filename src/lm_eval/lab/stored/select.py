"""Selects the measurements to compare from stored runs: the newest of each task, format and model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lm_eval.answers.keys import SPEED_ONLY_ARGUMENTS
from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.lab.stored.groups import comparable, groups_in, tasks_below
from lm_eval.lab.stored.measurement import Measurement, measurement, with_items
from lm_eval.lab.stored.run import PLAIN, StoredRun

MANY_MODELS = 4
"""Of more models than this, results that occur more than once are counted, not named."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which results of the runs to take; an empty field takes all of them."""

    tasks: Sequence[str] = ()
    """Names of tasks or groups, or ``task@format``."""
    formats: Sequence[str] = ()
    models: Sequence[str] = ()
    metrics: Sequence[str] = ()
    """The first of these that a result has counts; empty: the metric it shows as its score."""


@dataclass(frozen=True)
class _Result:
    """One result of one run; its items are not read yet."""

    run: StoredRun
    name: str
    model: str

    @property
    def task(self) -> str:
        return self.run.task_of(self.name)

    @property
    def format(self) -> str:
        return self.run.format_of(self.name) or PLAIN

    @property
    def key(self) -> tuple[str, str, str]:
        return self.model, self.task, self.format

    @property
    def time(self) -> tuple[float, str]:
        """When the run was made; where the date is unknown, the file name decides."""
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

    Groups come first, where they can be compared as one; a group that is named replaces its tasks. Of
    several results of the same model, task and format the newest counts. A model asked the same with
    different arguments counts as several models, named after those arguments. Only what is selected is
    read from disk.
    """
    choice = choice or Choice()
    results, notes = _told_apart(
        [_Result(run, name, run.model) for run in runs for name in run.names]
    )
    wanted = [
        result
        for result in results
        if (_is_among(choice.tasks, result.task, result.name) or _is_in_group(choice.tasks, result))
        and _is_among(choice.formats, result.format)
        and _is_among(choice.models, result.model, result.run.model)
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
    measurements, without = with_items(partial(result.measured, choice.metrics) for result in kept)
    return _with_groups(measurements, runs, choice.tasks), [*notes, *older, *without]


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
        if _is_among(wanted, group.task, group.name)
    ]
    groups = comparable(groups)
    return [
        *groups,
        *(
            measurement
            for measurement in measurements
            if not groups or _is_among(wanted, measurement.task, measurement.name)
        ),
    ]


def _groups(run: StoredRun) -> list[str]:
    """The names of the groups with a score: ``group`` and ``group@format``."""
    names = run.results.get("groups", {})
    return [called for name in names for called in (name.partition("@")[0], name)]


def _is_in_group(wanted: Sequence[str], result: _Result) -> bool:
    """True if the result belongs to a selected group."""
    groups = result.run.results.get("groups", {})
    return any(
        result.name in tasks_below(result.run.results, name)
        for name in groups
        if name in wanted or name.partition("@")[0] in wanted
    )


def _told_apart(results: Sequence[_Result]) -> tuple[list[_Result], list[str]]:
    """The results, and notes; a model asked the same with different arguments becomes several models."""
    asked: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for result in results:
        asked.setdefault(result.key, []).append(_arguments(result))
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


def _arguments(result: _Result) -> dict[str, str]:
    """What the model was opened with, without the arguments that change its speed only."""
    arguments = result.run.arguments
    return {name: arguments[name] for name in arguments if name not in SPEED_ONLY_ARGUMENTS}


def _labels(results: Sequence[_Result]) -> dict[Path, str]:
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


def _newest(results: Iterable[_Result]) -> tuple[list[_Result], list[str]]:
    kept: dict[tuple[str, str, str], _Result] = {}
    older: dict[tuple[str, str, str], int] = {}
    for result in results:
        known = kept.get(result.key)
        if known is None:
            kept[result.key] = result
            continue
        older[result.key] = older.get(result.key, 0) + 1
        if result.time >= known.time:
            kept[result.key] = result  # at the place of the first, so that the order stays
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


def _is_among(names: Sequence[str], *known: str) -> bool:
    return not names or any(name in names for name in known)


def _check(names: Sequence[str], flag: str, known: Iterable[str]) -> None:
    there = list(dict.fromkeys(known))
    for name in names:
        if name not in there:
            raise UsageError(
                f"{flag} {name!r} is in none of these runs.{did_you_mean(name, there)} There: "
                f"{listing(there)}."
            )
