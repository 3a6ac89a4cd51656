"""``lm-eval ls``: a table of tasks, groups, tags, formats or models."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence

from lm_eval.errors import UsageError
from lm_eval.text.terminal import visible

MANY_ROWS = 500
LEAST_WIDTH = 20
"""A last column narrower than this goes below its row."""


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
        _print(heading, _formats("general"))
        conventions = [(row[0], row[-1]) for row in _formats("convention")]
        if conventions:
            _print(
                ("Convention", "Whose prompt it is, and for what (not part of task@*)"), conventions
            )
    else:
        _print_names(args)
    return 0


def _print_tasks(args: argparse.Namespace) -> None:
    narrowed = {"tag": args.tag, "language": args.language, "search": args.search or ()}
    if not args.names:
        from lm_eval.cli.tasks.catalog import list_tasks

        list_tasks(args.include_path, **narrowed, as_json=args.json)
        return
    if any(narrowed.values()) or args.json:
        raise UsageError("Give names, or --search, --tag, --language and --json, not both.")
    from lm_eval.cli.tasks.card import print_card

    for at, name in enumerate(args.names):
        print("\n" if at else "", end="")
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
    from lm_eval.tasks.index import TaskNames, task_roots

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
    if len(rows) > MANY_ROWS:  # laying out a table takes seconds for a library of 14,000 tasks
        _print_plainly(headings, rows)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from lm_eval.text.terminal import console

    screen = console()
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    left = screen.width - sum(widths[:-1]) - 3 * len(widths)
    if left < min(widths[-1], LEAST_WIDTH):
        _print_stacked(headings, rows, screen.width)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, heading in enumerate(headings):
        last = at == len(headings) - 1
        table.add_column(heading, overflow="fold", no_wrap=not last)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    screen.print(table)


def _print_stacked(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """For a narrow terminal: each name on a line, and what there is to say about it below."""
    inside = {"width": width, "initial_indent": "  ", "subsequent_indent": "  "}
    for name, *facts, last in rows:
        print(visible(name))
        shown = ", ".join(f"{key}: {fact}" for key, fact in zip(headings[1:], facts, strict=False))
        for text in filter(None, (shown, last)):
            print(textwrap.fill(visible(text), **inside))  # type: ignore[arg-type]  # of two kinds


def _print_plainly(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns padded to their widest cell, one row a line."""
    shown = [[visible(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(headings))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in shown)
    print("\n".join(line.rstrip() for line in lines))
