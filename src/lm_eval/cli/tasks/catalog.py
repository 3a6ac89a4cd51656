"""``lm-eval ls tasks``: all benchmarks by folder, and the search among them.

In: the index of task files, which has everything that a line of the list shows. Out: lines as wide as
the terminal, or one JSON object for each task. No task is loaded and no table library is used, so that a
list of a thousand tasks appears at once.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

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

_LEAST_SUMMARY = 16


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
        print("\n".join(_lines(listed, list_width(), by_folder=not search)))
        print(f"\n{_footer(listed)}")
    for problem in names.problems:
        print(f"not read: {visible(str(problem))}", file=sys.stderr if as_json else sys.stdout)


# Layout


_HEADINGS = ("Task", "Docs", "Language", "Kind", "Asked as", "Tags", "Licence", "Summary")
_DROPPED_FIRST = ("Licence", "Tags", "Kind", "Language", "Asked as")
"""Columns that are left out on a narrow terminal, in this order."""
_MOST = {"Tags": 28, "Licence": 22, "Asked as": 26}


def _cells(task: ListedTask) -> dict[str, str]:
    spoken = task.languages
    licence = task.facts.licence
    if task.facts.is_gated:
        licence = f"gated, {licence}" if licence else "gated"
    several = f"{len(spoken)} lang." if spoken else ""
    return {
        "Task": visible(task.title),
        "Docs": "" if task.docs is None else f"{task.docs:,}",
        "Language": visible(spoken[0], 12) if len(spoken) == 1 else several,
        "Kind": task.facts.kind,
        "Asked as": visible(task.asked_as, _MOST["Asked as"]),
        "Tags": visible(" ".join(task.tags), _MOST["Tags"]),
        "Licence": visible(licence, _MOST["Licence"]),
        "Summary": visible(task.facts.summary or Path(task.path).name),
    }


def list_width() -> int | None:
    """The width of the terminal; None for a file or a pipe, where no line is cut."""
    has_width = is_terminal(sys.stdout) or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if has_width else None


def _lines(listed: Sequence[ListedTask], width: int | None, *, by_folder: bool) -> Iterator[str]:
    rows = [_cells(task) for task in listed]
    columns = [head for head in _HEADINGS if any(row[head] for row in rows)]
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in columns}
    left = _fit(columns, widths, width)
    if left < 0:
        yield from _stacked(listed, rows)
        return
    yield _line(columns, widths, {head: head for head in columns})
    folder = None
    for task, row in zip(listed, rows, strict=True):
        if by_folder and task.folder != folder:
            folder = task.folder
            yield f"\n{visible(folder)}"
        yield _line(columns, widths, row)


def _fit(columns: list[str], widths: dict[str, int], width: int | None) -> int:
    """Leave out columns until a line fits; the width that remains, below 0 if none fits."""
    if width is None:
        return 0
    for head in ("", *_DROPPED_FIRST):
        if head in columns:
            columns.remove(head)
        others = sum(widths[name] + 2 for name in columns if name != "Summary")
        left = width - others - (2 if "Summary" in columns else 0)
        if "Summary" in columns and left >= min(_LEAST_SUMMARY, widths["Summary"]):
            widths["Summary"] = min(left, widths["Summary"])
            return 0
        if "Summary" not in columns and left >= 0:
            return 0
    columns[:] = [name for name in columns if name != "Summary"]
    return width - sum(widths[name] + 2 for name in columns)


def _line(columns: Sequence[str], widths: dict[str, int], row: dict[str, str]) -> str:
    cells = []
    for head in columns:
        text, most = row[head], widths[head]
        text = text if len(text) <= most else f"{text[: most - 1]}…"
        cells.append(text.rjust(most) if head == "Docs" else text.ljust(most))
    return f"  {'  '.join(cells)}".rstrip()


def _stacked(listed: Sequence[ListedTask], rows: Iterable[dict[str, str]]) -> Iterator[str]:
    """For a very narrow terminal: the facts about a task below its name."""
    for task, row in zip(listed, rows, strict=True):
        yield visible(task.title)
        facts = (f"{row['Docs']} docs" if row["Docs"] else "", row["Language"], row["Asked as"])
        yield f"  {', '.join(filter(None, facts))}"


def _footer(listed: Sequence[ListedTask]) -> str:
    tasks = sum(len(task.members) or (task.facts.kind != "suite") for task in listed)
    return (
        f"{counted(len(listed), 'name')}, {counted(tasks, 'task')}. One in full: lm-eval ls tasks NAME. "
        "Narrow the list: --search WORDS, --tag TAG, --language LANGUAGE."
    )
