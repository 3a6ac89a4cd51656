"""``lm-eval ls tasks``: all benchmarks by folder, and the search among them.

In: the index of task files, which has everything that a line of the list shows. Out: lines as wide as
the terminal, or one JSON object for each task. No task is loaded.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import counted
from lm_eval.support.terminal import is_terminal, visible
from lm_eval.tasks.index import TaskNames, task_roots
from lm_eval.tasks.listed import (
    ListedTask,
    found,
    in_language,
    known_word,
    listed_tasks,
    tagged,
    words_of,
)


def list_tasks(
    include_path: Sequence[str] | None,
    *,
    tag: str | None = None,
    language: str | None = None,
    search: Sequence[str] = (),
    as_json: bool = False,
) -> None:
    """Print the list, narrowed to what was asked for."""
    roots = task_roots(include_path)
    names = TaskNames(roots, with_facts=True)
    listed = listed_tasks(names, roots[0])
    if tag is not None:
        listed = tagged(listed, tag)
    if language is not None:
        listed = in_language(listed, language)
    if search:
        words = words_of(search)
        meant = [known_word(word, listed) for word in words]
        for word, known in zip(words, meant, strict=True):
            if known != word:
                print(f"Nothing has {word!r}; searching for {known!r}.", file=sys.stderr)
        listed = found(listed, meant)
    if as_json:
        print("\n".join(json.dumps(task.as_dict(), ensure_ascii=False) for task in listed))
    else:
        width = list_width()
        print("\n".join(_table(listed, width, by_folder=not search).lines(width)))
        print(f"\n{_footer(listed)}")
    for problem in names.problems:
        print(f"not read: {visible(str(problem))}", file=sys.stderr if as_json else sys.stdout)


_COLUMNS = (
    Column("name", "Task", stays=True),
    Column("docs", "Docs", is_number=True),
    *(Column(name.lower(), name) for name in ("Language", "Kind")),
    *(Column(name.lower(), name, is_cut=True) for name in ("Asked as", "Tags", "Licence")),
    Column("summary", "Summary", is_cut=True),
)
_DROPPED_FIRST = ("licence", "tags", "kind", "language", "asked as")
"""Columns that are left out on a narrow terminal, in this order."""


def _table(listed: Sequence[ListedTask], width: int | None, *, by_folder: bool) -> FittingTable:
    sections: dict[str, list[Cells]] = {}
    for task in listed:
        folder = visible(task.folder) if by_folder else ""
        sections.setdefault(folder, [Cells(name=folder)] if folder else []).append(
            _cells(task, "  " if folder else "")
        )
    for number in range(len(_DROPPED_FIRST) + 1):
        columns = [column for column in _COLUMNS if column.field not in _DROPPED_FIRST[:number]]
        table = FittingTable(columns, list(sections.values()))
        if width is None or table.fits(width):
            break
    return table


def _cells(task: ListedTask, indent: str) -> Cells:
    spoken = task.languages
    licence = task.facts.licence
    if task.facts.is_gated:
        licence = f"gated, {licence}" if licence else "gated"
    several = f"{len(spoken)} lang." if spoken else ""
    return Cells(
        name=indent + visible(task.title),
        docs="" if task.docs is None else f"{task.docs:,}",
        language=visible(spoken[0], 12) if len(spoken) == 1 else several,
        kind=task.facts.kind,
        tags=visible(" ".join(task.tags), 28),
        licence=visible(licence, 22),
        summary=visible(task.facts.summary or Path(task.path).name),
        **{"asked as": visible(task.asked_as, 26)},
    )


def list_width() -> int | None:
    """The width of the terminal; None for a file or a pipe, where no line is cut."""
    has_width = is_terminal(sys.stdout) or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if has_width else None


def _footer(listed: Sequence[ListedTask]) -> str:
    tasks = sum(len(task.members) or (task.facts.kind != "suite") for task in listed)
    return (
        f"{counted(len(listed), 'name')}, {counted(tasks, 'task')}. One in full: lm-eval ls tasks NAME. "
        "Narrow the list: --search WORDS, --tag TAG, --language LANGUAGE."
    )
