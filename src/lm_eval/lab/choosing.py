"""Stored runs → the measurements to compare: by task, format and model, each once, the newest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.lab.grouped import comparable, groups_in, tasks_below
from lm_eval.lab.measured import Measurement, measurement, with_items
from lm_eval.lab.stored import PLAIN, StoredRun
from lm_eval.request_keys import SPEED_ONLY_ARGUMENTS

MANY_MODELS = 4
"""Of more than these, results that are there twice are counted, not named."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which results of the runs are wanted; empty: all of them."""

    tasks: Sequence[str] = ()
    """Names of tasks or groups, or ``task@format``."""
    formats: Sequence[str] = ()
    models: Sequence[str] = ()
    metrics: Sequence[str] = ()
    """The first of these that a result has; empty: the metric that it shows as its score."""


@dataclass(frozen=True)
class _Result:
    """One result of one run, not read yet."""

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
        """When the run was made; where that is not known, its file's name decides."""
        date = self.run.results.get("date")
        return (float(date) if isinstance(date, int | float) else 0.0), self.run.path.name

    def measured(self, metrics: Sequence[str]) -> Measurement:
        """What it measured, in the first of these metrics that it has."""
        run = self.run
        return measurement(run.results, run.items, self.name, str(run.path), self.model, metrics)


def chosen(
    runs: Sequence[StoredRun], choice: Choice | None = None
) -> tuple[list[Measurement], list[str]]:
    """The measurements that are wanted, in the order of the runs, and notes on what was left out.

    Groups come first, where they can be compared as one. A group that is named stands for itself alone.
    Of several results of the same model, task and format the newest counts. A model that was asked the
    same with other arguments is another one, and called after them. Only what is wanted is read.
    """
    choice = choice or Choice()
    results, notes = _told_apart(
        [_Result(run, name, run.model) for run in runs for name in run.names]
    )
    wanted = [
        one
        for one in results
        if (_is_among(choice.tasks, one.task, one.name) or _is_in_group(choice.tasks, one))
        and _is_among(choice.formats, one.format)
        and _is_among(choice.models, one.model, one.run.model)
    ]
    named = [name for one in results for name in (one.task, one.name)]
    _check(choice.tasks, "--tasks", [*named, *(name for run in runs for name in _groups(run))])
    _check(choice.formats, "--formats", [one.format for one in results])
    _check(
        choice.models, "--models", [name for one in results for name in (one.run.model, one.model)]
    )
    kept, older = _newest(wanted)
    found, without = with_items(partial(one.measured, choice.metrics) for one in kept)
    return _with_groups(found, runs, choice.tasks), [*notes, *older, *without]


def _with_groups(
    found: Sequence[Measurement], runs: Sequence[StoredRun], wanted: Sequence[str]
) -> list[Measurement]:
    """The groups that are wanted and can be compared, and the tasks that are wanted themselves."""
    of_runs = [(run, [one for one in found if one.run == str(run.path)]) for run in runs]
    groups = [
        group
        for run, same in of_runs
        for group in groups_in(run.results, same)
        if _is_among(wanted, group.task, group.name)
    ]
    groups = comparable(groups)
    return [*groups, *(one for one in found if not groups or _is_among(wanted, one.task, one.name))]


def _groups(run: StoredRun) -> list[str]:
    """What the groups with a score may be called: ``group`` and ``group@format``."""
    names = run.results.get("groups", {})
    return [called for name in names for called in (name.partition("@")[0], name)]


def _is_in_group(wanted: Sequence[str], one: _Result) -> bool:
    """Whether a result belongs to a group that is wanted."""
    groups = one.run.results.get("groups", {})
    return any(
        one.name in tasks_below(one.run.results, name)
        for name in groups
        if name in wanted or name.partition("@")[0] in wanted
    )


def _told_apart(results: Sequence[_Result]) -> tuple[list[_Result], list[str]]:
    """The results, with models that were asked the same with different arguments as several models."""
    asked: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for one in results:
        asked.setdefault(one.key, []).append(_arguments(one))
    several = {key[0] for key, given in asked.items() if any(one != given[0] for one in given)}
    labels = {model: _labels([one for one in results if one.model == model]) for model in several}
    notes = [
        f"{model} was asked with different --model_args. These count as different models: "
        f"{listing(list(dict.fromkeys(labels[model].values())))}."
        for model in labels
    ]
    told = [
        replace(one, model=labels[one.model][one.run.path]) if one.model in several else one
        for one in results
    ]
    return told, notes


def _arguments(one: _Result) -> dict[str, str]:
    """What the model was opened with, without the arguments that change its speed only."""
    arguments = one.run.arguments
    return {name: arguments[name] for name in arguments if name not in SPEED_ONLY_ARGUMENTS}


def _labels(results: Sequence[_Result]) -> dict[Path, str]:
    """What a model is called in each of its runs: with the arguments in which these differ."""
    given = {one.run.path: _arguments(one) for one in results}
    names = dict.fromkeys(name for one in given.values() for name in one)
    differ = [name for name in names if len({one.get(name) for one in given.values()}) > 1]
    told = {
        path: ", ".join(f"{name}={one[name]}" for name in differ if name in one)
        for path, one in given.items()
    }
    model = results[0].model
    return {path: f"{model} ({text})" if text else model for path, text in told.items()}


def _newest(results: Iterable[_Result]) -> tuple[list[_Result], list[str]]:
    kept: dict[tuple[str, str, str], _Result] = {}
    older: dict[tuple[str, str, str], int] = {}
    for one in results:
        known = kept.get(one.key)
        if known is None:
            kept[one.key] = one
            continue
        older[one.key] = older.get(one.key, 0) + 1
        if one.time >= known.time:
            kept[one.key] = one  # at the place of the first, so that the order stays
    if len({key[0] for key in older}) > MANY_MODELS:
        return list(kept.values()), [
            f"{len(older)} results of {len({key[0] for key in older})} models are there more than once. "
            "The newest of each counts; give results files to take others."
        ]
    alike: dict[tuple[str, int, Path], list[str]] = {}
    for key, count in older.items():
        one = kept[key]
        alike.setdefault((one.model, count + 1, one.run.path), []).append(one.name)
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
