"""``lm-eval ls``: a table of tasks, groups, tags, formats or models, or all about one benchmark.

The list of tasks comes from the index of task files: no task is loaded. The prompt below a benchmark is
made from its invented rows, or from its own files: nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.errors import (
    FormatError,
    LmEvalError,
    LmEvalWarning,
    UnknownTaskError,
    UsageError,
    listing,
)
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import counted, number
from lm_eval.support.secrets import redacted_text
from lm_eval.support.terminal import PIPED_WIDTH, is_terminal, visible
from lm_eval.tasks.index import Entry, TaskNames, task_roots
from lm_eval.tasks.listed import (
    ListedTask,
    found,
    in_language,
    known_word,
    listed_tasks,
    tagged,
    words_of,
)

if TYPE_CHECKING:
    from lm_eval.tasks.config import TaskConfig
    from lm_eval.tasks.loader import TaskManager


def ls(args: argparse.Namespace) -> int:
    """Print one table of names."""
    if args.what == "tasks":
        _print_tasks(args)
        return 0
    for flag in ("names", "search", "tag", "language", "json"):
        if getattr(args, flag):
            raise UsageError(
                f"`lm-eval ls {args.what}` takes no {'names' if flag == 'names' else f'--{flag}'}: that "
                "is for `lm-eval ls tasks`."
            )
    if args.what == "models":
        _print(("Model", "Where"), _models())
    elif args.what == "formats":
        from lm_eval.formats.list_file import add_formats

        add_formats(args.format_path)
        heading = ("Format", "Output", "Labels", "Needs choices", "What it does")
        _print(heading, [*_formats("general"), *_formats("special")])
        conventions = [(row[0], row[-1]) for row in _formats("convention")]
        if conventions:
            print()
            _print(
                ("Convention", "Whose prompt it is, and for what (not part of task@*)"), conventions
            )
    else:
        _print_names(args)
    return 0


def _print_tasks(args: argparse.Namespace) -> None:
    narrowed = {"tag": args.tag, "language": args.language, "search": args.search or ()}
    if not args.names:
        list_tasks(args.include_path, **narrowed, as_json=args.json)
        return
    if any(narrowed.values()) or args.json:
        raise UsageError("Give names, or --search, --tag, --language and --json, not both.")
    for index, name in enumerate(args.names):
        print("\n" if index else "", end="")
        print_card(name, args.include_path)


def _models() -> list[tuple[str, ...]]:
    from lm_eval.registry import MODELS

    return [(name, MODELS.place(name)) for name in sorted(MODELS)]


def _formats(kind: str) -> list[tuple[str, ...]]:
    from lm_eval.formats.compile import format_names, get_format

    rows: list[tuple[str, ...]] = []
    for name in format_names():
        fmt = get_format(name)
        if fmt.kind != kind:
            continue
        labels = fmt.choice_labels
        shown = (
            "none" if labels is None else labels if isinstance(labels, str) else " ".join(labels)
        )
        needs = "yes" if fmt.needs_choices else "no"
        rows.append((name, fmt.output_type, shown, needs, fmt.summary))
    return rows


def _print_names(args: argparse.Namespace) -> None:
    names = TaskNames(task_roots(args.include_path))
    kind = {"subtasks": "task", "groups": "group", "tags": "tag"}[args.what]
    rows = []
    for name in names.of_kind(kind):  # type: ignore[arg-type]  # one of the three kinds
        entry = names.entries[name]
        path = entry.path or ", ".join(entry.members)
        is_family = entry.family == name
        rows.append((name, f"{path} ({len(entry.members)} tasks)" if is_family else path))
    heading = (kind.capitalize(), "File" if kind != "tag" else "Tasks")
    _print(heading, rows)
    for problem in names.problems:
        print(f"not read: {visible(str(problem))}")


def _print(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    first, *others = headings
    columns = [Column("name", first), *(Column(name, name) for name in others[:-1])]
    columns.append(Column(others[-1], others[-1], wraps=True))
    fields = [column.field for column in columns]
    cells = [dict(zip(fields, map(visible, row), strict=True)) for row in rows]
    print("\n".join(FittingTable(columns, [[Cells(**row) for row in cells]]).lines(list_width())))


# The list of tasks


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
    names = TaskNames(roots)
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
    for left_out in range(len(_DROPPED_FIRST) + 1):
        columns = [column for column in _COLUMNS if column.field not in _DROPPED_FIRST[:left_out]]
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


# All about one benchmark: what it asks, of which data, by whose convention


_LABEL = 12
_SHOWN_TASKS = 12
_SHOWN_KEYS = (
    *("summary", "n", "total", "language", "licence", "license", "gated", "paper", "baseline"),
    *("splits", "homepage"),
)
"""Metadata that other lines of the card show."""


@dataclass(frozen=True)
class Card:
    """What is known about a task, family, group or tag."""

    summary: str
    facts: Sequence[tuple[str, str]]
    """Labels and texts."""
    first: TaskConfig | None
    """The first task; None for one that is a Python class."""
    is_suite: bool


def card_of(name: str, manager: TaskManager, include_path: Sequence[str] | None) -> Card:
    """The card of a name; an unknown name is an error that suggests similar ones."""
    entry = manager.index.get(name)
    if entry is None:
        manager.read(name)  # an error that suggests similar names
        raise UnknownTaskError(f"{name!r} is registered by code, so no file describes it.")
    listed = listed_tasks(manager.known, task_roots(include_path)[0])
    line = next((task for task in listed if name == task.name or name in task.members), None)
    if line is not None and name in line.members:
        line = line.member(name)
    inside = _inside(entry, manager)
    config = _first_config(inside, manager)
    summary = line.facts.summary if line is not None else ""
    if not summary and config is not None and entry.kind == "task":
        summary = str((config.metadata or {}).get("summary") or "")
    facts = [*_facts(entry, line, config, inside, manager)]
    return Card(summary, facts, config, entry.kind == "group" and entry.family is None)


def print_card(name: str, include_path: Sequence[str] | None) -> None:
    """Print what is known about a task, family, group or tag."""
    from lm_eval.tasks.loader import TaskManager

    manager = TaskManager(include_path, run_code=False, sample_rows="always")
    card = card_of(name, manager, include_path)
    width = list_width() or PIPED_WIDTH
    print(visible(f"{name}: {card.summary}" if card.summary else name))
    for label, text in card.facts:
        indent = " " * (_LABEL + 2)
        filled = textwrap.fill(
            text, max(width, 40), initial_indent=indent, subsequent_indent=indent
        )
        print(f"  {label:<{_LABEL}}{filled[len(indent) :]}")
    first = str(card.first.task) if card.first else name
    if card.first is not None:
        _print_prompt(name if card.is_suite else first, manager)
    print(f"\nTry:  lm-eval preview {visible(first)}@FORMAT")
    print(f"      lm-eval run --tasks {visible(name)} --limit 20")


def _inside(entry: Entry, manager: TaskManager) -> list[str]:
    """The tasks behind a name, in the order of their file."""
    if entry.kind == "task":
        return [entry.name]
    if entry.members:
        members = (manager.index[name] for name in entry.members)
        return [task for member in members for task in _inside(member, manager)]
    return list(manager.load([entry.name])["tasks"])


def _first_config(inside: Sequence[str], manager: TaskManager) -> TaskConfig | None:
    """The config of the first task; None for one that is a Python class."""
    from lm_eval.tasks.config import TaskConfig

    name = inside[0].partition("@")[0] if inside else ""
    if manager.index.get(name) is None:
        return None
    try:
        read = manager.read(name)
    except LmEvalError:
        return None
    return read if isinstance(read, TaskConfig) else None


def _facts(
    entry: Entry,
    line: ListedTask | None,
    config: TaskConfig | None,
    inside: Sequence[str],
    manager: TaskManager,
) -> Iterator[tuple[str, str]]:
    if line is not None:
        spoken = line.languages
        sizes = [f"{len(inside):,} tasks"] if len(inside) > 1 else []
        sizes += [] if line.docs is None else [f"{line.docs:,} docs"]
        if sizes:
            yield "size", ", ".join(sizes)
        if spoken:
            yield "language", visible(listing(spoken, 20))
    is_alike = entry.kind == "task" or entry.family is not None
    if config is not None and is_alike:
        yield "data", _data(config, is_family=len(inside) > 1)
        yield from _homepage(config)
        yield "asked as", _asked_as(config, line)
        yield "also fits", _fitting(config, manager)
        is_part = entry.family not in (None, entry.name)  # its file counts the whole family
        stated = {k: v for k, v in (config.metadata or {}).items() if k != "splits" or not is_part}
        yield from _stated(stated, line)
    elif entry.kind == "group":
        from lm_eval.tasks.groups import Group

        group = manager.read(entry.name)
        yield from _stated(group.metadata or {} if isinstance(group, Group) else {}, line)
    if line is not None and line.tags:
        yield "tags", visible(", ".join(line.tags))
    areas = [
        f"{name} ({len(area.members)})"
        for name, area in manager.index.items()
        if area.family == entry.name and area.kind == "group" and name != entry.name
    ]
    if areas:
        yield "areas", visible(listing(areas, 40))
    if len(inside) > 1:
        yield "tasks", visible(listing(inside, _SHOWN_TASKS))
    if entry.path is not None:
        yield "file", visible(os.path.relpath(entry.path) if _is_below(entry.path) else entry.path)


def _is_below(path: str) -> bool:
    return not os.path.relpath(path).startswith("..")


def _data(config: TaskConfig, *, is_family: bool) -> str:
    path = config.dataset_path or ("custom_dataset" if config.custom_dataset else "none")
    name = f" ({config.dataset_name})" if config.dataset_name and not is_family else ""
    asked = config.test_split or config.validation_split
    settings = config.fewshot_config or {}
    pool = settings.get("split") or config.fewshot_split or config.training_split
    text = f"{path}{name}" + (f", split {asked}" if asked else "")
    if settings.get("samples") is not None:
        text += ", examples of its own"
    elif pool:
        text += f", examples from {pool}"
    if config.dataset_revision:
        text += f", revision {config.dataset_revision[:12]}"
    return visible(redacted_text(text))


def _homepage(config: TaskConfig) -> Iterator[tuple[str, str]]:
    """Where people read about the data: the page that the file names, or that of the hub."""
    page = (config.metadata or {}).get("homepage")
    if not page and re.fullmatch(r"[\w.-]+/[\w.-]+", config.dataset_path or ""):
        page = f"https://huggingface.co/datasets/{config.dataset_path}"
    if page:
        yield "homepage", visible(str(page))


def _asked_as(config: TaskConfig, line: ListedTask | None) -> str:
    shots = counted(config.num_fewshot or 0, "shot")
    kind = "" if line is None else f" ({line.facts.kind})"
    named = (line.facts.format if line is not None else "") or "a prompt of its own"
    return visible(f"{named}, {shots}{kind}")


def _fitting(config: TaskConfig, manager: TaskManager) -> str:
    """The other formats that the task can be asked in, tried on its rows if it has any."""
    own = str(config.formats) if isinstance(config.formats, str) else ""
    if config.has_format_map:
        own = next(iter(config.own_formats), "")
    names = config.format_choices()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        try:
            tasks = manager.load([f"{config.task}@*"])["tasks"].values()
            names = [str(task.format_name) for task in tasks]
        except (FormatError, UsageError):
            names = []
        except LmEvalError:
            pass  # no rows: what its fields allow
    return listing([name for name in names if name != own], 40)


def _stated(metadata: Mapping[str, Any], line: ListedTask | None) -> Iterator[tuple[str, str]]:
    """What the file says besides its settings."""
    if isinstance(metadata.get("baseline"), int | float):
        yield "chance", number(metadata["baseline"])
    if line is not None and line.facts.licence:
        yield "licence", visible(line.facts.licence)
    if metadata.get("gated"):
        yield "gated", "accept its owners' conditions on the hub, and set HF_TOKEN"
    paper = metadata.get("paper")
    if isinstance(paper, str) and paper:
        is_arxiv = paper.replace(".", "").isdecimal() and len(paper) > 8
        yield "paper", visible(f"https://arxiv.org/abs/{paper}" if is_arxiv else paper)
    splits = metadata.get("splits")
    if isinstance(splits, Mapping) and all(isinstance(docs, int) for docs in splits.values()):
        yield "splits", visible(", ".join(f"{name} {docs:,}" for name, docs in splits.items()))
    for key, value in metadata.items():
        if key not in _SHOWN_KEYS and isinstance(value, str | int | float):
            yield visible(str(key), _LABEL - 1), visible(str(value))


def _print_prompt(name: str, manager: TaskManager) -> None:
    """The prompt of the first doc of a task, or of a suite's first task as the suite asks it."""
    from lm_eval.orders.requests import build_ordered
    from lm_eval.reports.samples import prompt_lines
    from lm_eval.requests import PromptOptions

    try:
        task = next(iter(manager.load([name])["tasks"].values()))
        (doc,) = build_ordered(task, [0], PromptOptions())
    except LmEvalError as error:
        print(f"\nNo prompt can be shown: {visible(redacted_text(str(error)))}")
        return
    rows = " (invented rows)" if task.uses_sample_rows else ""
    print(f"\nThe first prompt of {visible(task.name)}{rows}:")
    print("\n".join(prompt_lines(doc.context)))
    asked = doc.asked
    if asked.continuations:
        print(f"scored:   {'  '.join(visible(repr(text), 40) for text in asked.continuations)}")
    print(f"right:    {visible(repr(asked.target), 80)}")
