"""Which run and which of its results a command is about, as its arguments name them."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.errors import ComparisonError, did_you_mean, listing
from lm_eval.lab.stored.run import PLAIN, StoredRun, open_runs


def one_run(path: str) -> StoredRun:
    """The run at this place; a folder that holds several is an error that names them."""
    runs = open_runs([path])
    if len(runs) > 1:
        files = [str(run.path) for run in sorted(runs, key=lambda run: run.path.name)]
        raise ComparisonError(
            f"{path!r} holds {len(runs)} runs. Give the results file of one of them, the newest last:\n"
            + "\n".join(f"  {file}" for file in files[-8:])
        )
    return runs[0]


def format_name(run: StoredRun, name: str) -> str:
    """The format of a result, ``plain`` where it has none."""
    return run.format_of(name) or PLAIN


def check_names(run: StoredRun, names: Sequence[str], formats: Sequence[str]) -> None:
    """Refuse names of results, tasks or formats that the run does not have."""
    tasks = {run.task_of(name) for name in run.names}
    for wanted in names:
        if wanted not in run.names and wanted not in tasks:
            raise ComparisonError(
                f"{run.path} has no result {wanted!r}.{did_you_mean(wanted, run.names)} Results: "
                f"{listing(run.names)}."
            )
    known = {format_name(run, name) for name in run.names}
    for wanted in formats:
        if wanted not in known:
            raise ComparisonError(
                f"{run.path} has no result under format {wanted!r}.{did_you_mean(wanted, known)} "
                f"Formats: {listing(sorted(known))}."
            )


def chosen_names(run: StoredRun, names: Sequence[str], formats: Sequence[str]) -> list[str]:
    """The results that ``--tasks`` (tasks or ``task@format``) and ``--format`` leave; all without."""
    check_names(run, names, formats)
    return [
        name
        for name in run.names
        if (not names or name in names or run.task_of(name) in names)
        and (not formats or format_name(run, name) in formats)
    ]
