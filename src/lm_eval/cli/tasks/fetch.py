"""``lm-eval fetch``: downloads the data of tasks, to the cache or to a folder for an offline machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lm_eval.config.arguments import split_list
from lm_eval.data.hub.load import HubData
from lm_eval.data.hub.repository import HubRepo, RepoFile, megabytes
from lm_eval.errors import DataError, LmEvalError, UsageError, listing
from lm_eval.support.numbers import counted
from lm_eval.support.progress import Progress
from lm_eval.support.secrets import known_secrets
from lm_eval.support.terminal import visible
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


@dataclass
class DataPlan:
    """What one configuration of a data set needs."""

    data: HubData
    splits: dict[str, list[RepoFile]] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[RepoFile]:
        return list({file.path: file for files in self.splits.values() for file in files}.values())

    @property
    def missing(self) -> list[RepoFile]:
        return [file for file in self.files if not self.data.repo.is_here(file)]


@dataclass
class FetchPlan:
    """What all tasks need, and why some data cannot be fetched."""

    by_data: dict[tuple[HubRepo, str], DataPlan] = field(default_factory=dict)
    local: list[str] = field(default_factory=list)
    """Tasks whose data is not on the hub."""
    problems: list[str] = field(default_factory=list)

    def add(self, task: ConfigurableTask, *, with_shots: bool) -> None:
        """Plan one task's splits."""
        if task.data_from != "hub":
            self.local.append(task.name)
            return
        splits = task.splits
        if splits.origin is None:
            raise DataError(
                f"Task {task.name!r} is read by the `datasets` library, which downloads it itself. Run "
                "the task once on a machine with a network, and copy its HF_HOME."
            )
        data = splits.origin
        key = (data.repo, repr(sorted(data.config.splits.items())))
        plan = self.by_data.setdefault(key, DataPlan(data))
        for name in task.split_names(with_shots=with_shots):
            split = splits.name_in_origin(name)
            plan.splits[split] = data.files_of(split)
        plan.tasks.append(task.name)

    @property
    def missing_size(self) -> int:
        return sum(_size(plan.missing) for plan in self.by_data.values())


def fetch(args: argparse.Namespace) -> int:
    """Fetch and print what the tasks need; exit code 1 if something cannot be fetched."""
    selectors = split_list(args.tasks)
    if not selectors:
        raise UsageError(
            "No tasks. Name some: `lm-eval fetch TASK …`; `lm-eval ls tasks` lists them."
        )
    plan = _planned(selectors, TaskManager(args.include_path, run_code=False), args.num_fewshot)
    for line in _lines(plan, show_all=args.dry_run):
        print(line)
    if plan.local:
        print(
            f"Nothing to fetch for {listing(map(visible, plan.local), 5)}: the data is not on the hub."
        )
    if not args.dry_run:
        with Progress("fetch", plan.missing_size or None, unit="bytes") as bar:
            for entry in plan.by_data.values():
                _fetch(entry, plan, bar)
    if plan.by_data:
        print(_summary(plan, args))
    for problem in plan.problems:
        print(f"error    {visible(known_secrets().hide(problem), keep=chr(10))}")
    return 1 if plan.problems else 0


def _planned(selectors: Iterable[str], manager: TaskManager, num_fewshot: int | None) -> FetchPlan:
    plan = FetchPlan()
    tasks: list[ConfigurableTask] = []
    for selector in selectors:
        try:
            tasks += manager.load([selector])["tasks"].values()
        except LmEvalError as error:
            plan.problems.append(str(error))
    with Progress("look up", len(tasks)) as progress:
        for task in tasks:
            try:
                plan.add(task, with_shots=num_fewshot != 0)
            except LmEvalError as error:
                is_located = str(error).startswith("Task ")
                plan.problems.append(str(error) if is_located else f"Task {task.name!r}: {error}")
            progress.advance()
    plan.problems = list(dict.fromkeys(plan.problems))
    return plan


def _fetch(entry: DataPlan, plan: FetchPlan, bar: Progress) -> None:
    for split, files in entry.splits.items():
        try:
            entry.data.repo.fetch(files, split, bar)
        except LmEvalError as error:
            plan.problems.append(str(error))
            return


MAX_LINES = 5
"""More configurations of one data set than this share one line."""


def _lines(plan: FetchPlan, *, show_all: bool) -> Iterator[str]:
    """A line for each configuration that is fetched, or one for many of the same data set."""
    by_repo: dict[HubRepo, list[DataPlan]] = {}
    for entry in plan.by_data.values():
        by_repo.setdefault(entry.data.repo, []).append(entry)
    for entries in by_repo.values():
        folded = len(entries) > MAX_LINES and not show_all
        yield from [_line(entries)] if folded else [_line([entry]) for entry in entries]


def _line(entries: Sequence[DataPlan]) -> str:
    """``cais/mmlu anatomy: test, dev; 2 files, 46 KB, here already; commit 801fcd15e0dc``."""
    repo, name = entries[0].data.repo, entries[0].data.config.name
    config = "" if name == "default" else f" {name}"
    config = f", {len(entries)} configurations" if len(entries) > 1 else config
    splits = dict.fromkeys(split for entry in entries for split in entry.splits)
    files = [file for entry in entries for file in entry.files]
    missing = [file for entry in entries for file in entry.missing]
    state = f"{megabytes(_size(missing))} to fetch" if missing else "here already"
    branch = "" if repo.revision == "main" else f" ({repo.revision})"
    return visible(
        f"{repo.id}{config}: {', '.join(splits)}; {counted(len(files), 'file')}, "
        f"{megabytes(_size(files))}, {state}; commit {repo.commit[:12]}{branch}"
    )


def _summary(plan: FetchPlan, args: argparse.Namespace) -> str:
    repos = {entry.data.repo.id for entry in plan.by_data.values()}
    files = [file for entry in plan.by_data.values() for file in entry.files]
    counts = f"{counted(len(repos), 'data set')}, {counted(len(files), 'file')}"
    total = f"{counts}, {megabytes(_size(files))}"
    if args.dry_run:
        return f"{total}; {megabytes(plan.missing_size)} to fetch. Nothing was fetched."
    if plan.problems or args.to is None or not files:
        return f"{total}."
    return (
        f"{total}, in {visible(args.to)}. There or wherever you copy it: `lm-eval run --tasks "
        f"{visible(','.join(split_list(args.tasks)))} --data_path {visible(args.to)}`."
    )


def _size(files: Iterable[RepoFile]) -> int:
    return sum(file.size or 0 for file in files)
