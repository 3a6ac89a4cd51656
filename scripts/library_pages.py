"""Write the pages of the library: what each benchmark asks, of which data, and its prompts.

    python scripts/library_pages.py            docs/benchmarks/*.md, and the README of the library
    python scripts/library_pages.py --check    change nothing; 1 if a page is out of date

Everything comes from the task files and their invented rows; nothing is fetched.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from lm_eval.cli.tasks.ls import Card, card_of
from lm_eval.errors import LmEvalError, LmEvalWarning
from lm_eval.orders.requests import build_ordered
from lm_eval.requests import PromptOptions
from lm_eval.tasks.index import TaskNames, task_roots
from lm_eval.tasks.listed import ListedTask, listed_tasks
from lm_eval.tasks.loader import TaskManager

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "benchmarks"
LIBRARY = ROOT / "src" / "lm_eval" / "tasks" / "library"
HUB = "https://huggingface.co/datasets"
NOT_ON_PAGES = ("demo",)
LONGEST_LINE = 220
"""Characters of a line of a prompt: passages are cut."""
_LEFT_OUT = ("file", "also fits", "version")


def pages() -> dict[Path, str]:
    """Page → its text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        manager = TaskManager(run_code=False, sample_rows="always")
        (root,) = task_roots(None)
        by_area: dict[str, list[ListedTask]] = {}
        for one in listed_tasks(TaskNames([root]), root):
            by_area.setdefault(one.folder, []).append(one)
        written = {
            PAGES / f"{area}.md": _page(area, listed, manager)
            for area, listed in by_area.items()
            if area not in NOT_ON_PAGES
        }
    return {**written, LIBRARY / "README.md": _index(by_area)}


def _page(area: str, listed: list[ListedTask], manager: TaskManager) -> str:
    title = "GLUE" if area == "glue" else area.capitalize()
    parts = [
        f"# {title}\n\nMade by `scripts/library_pages.py` from the files in "
        f"`src/lm_eval/tasks/library/{area}`. Prompts show invented rows, without examples; ⟨ ⟩ marks "
        "the right answer. [All benchmarks](../library.md).\n"
    ]
    for one in listed:
        parts.append("\n".join(_section(one.name, card_of(one.name, manager, None), manager)))
    return "\n".join(parts)


def _section(name: str, card: Card, manager: TaskManager) -> Iterator[str]:
    yield f"## {name}\n"
    if card.summary:
        yield f"{card.summary}.\n"
    yield "| | |\n| --- | --- |"
    for label, text in card.facts:
        if label not in _LEFT_OUT and not (label == "homepage" and text.startswith(HUB)):
            yield f"| {label} | {_linked(label, text)} |"
    yield ""
    if card.first is not None and not card.is_suite:
        yield from _prompts(str(card.first.task), manager)


def _linked(label: str, text: str) -> str:
    text = text.replace("|", "\\|")
    if label == "paper" and text.startswith("https://"):
        return f"[{text.rpartition('/')[2]}]({text})"
    name = re.match(r"[\w.-]+/[\w.-]+(?=[, (]|$)", text) if label == "data" else None
    return f"[{name[0]}]({HUB}/{name[0]}){text[name.end() :]}" if name else text


def _prompts(task: str, manager: TaskManager) -> Iterator[str]:
    """The prompt of the first row in each format that fits; formats with one prompt together."""
    default = manager.load([task])["tasks"][task]
    names = [default.format.name if default.format else "", *_fitting(task, manager)]
    by_prompt: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        asked_as = task if name == names[0] else f"{task}@{name}"
        try:
            by_prompt.setdefault(_prompt(asked_as, manager), []).append(name)
        except LmEvalError:
            continue  # it fits some docs, and not this one
    first, *others = by_prompt.items()
    yield f"{_named(first[1])}\n\n```text\n{first[0]}\n```\n"
    if others:
        yield "<details><summary>In other formats</summary>\n"
        for prompt, formats in others:
            yield f"{_named(formats)}\n\n```text\n{prompt}\n```\n"
        yield "</details>\n"


def _named(formats: list[str]) -> str:
    return ", ".join(f"`{name}`" if name else "Its own prompt" for name in formats) + ":"


def _fitting(task: str, manager: TaskManager) -> list[str]:
    try:
        return [str(one.format_name) for one in manager.load([f"{task}@*"])["tasks"].values()]
    except LmEvalError:
        return []


def _prompt(name: str, manager: TaskManager) -> str:
    (task,) = manager.load([name])["tasks"].values()
    (doc,) = build_ordered(task, [0], PromptOptions(num_fewshot=0))
    lines = str(doc.context).split("\n")
    shown = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} […]" for line in lines]
    right = str(doc.asked.target)
    return "\n".join(shown) + (f" ⟨{right}⟩" if right else "")


def _index(by_area: dict[str, list[ListedTask]]) -> str:
    parts = [
        "# The benchmark library\n\nOne YAML file for each benchmark: raw fields, no code, no rows of "
        "others. `rows/` has a few invented rows in the schema of each data set. Made by "
        "`scripts/library_pages.py`.\n"
    ]
    for area, listed in by_area.items():
        tasks = sum(len(one.members) or 1 for one in listed)
        parts.append(f"## {area}\n\n{len(listed)} names, {tasks:,} tasks.\n")
        for one in listed:
            members = f" ({len(one.members)})" if one.members else ""
            file = f"{area}/{Path(one.path).name}"
            summary = f": {one.facts.summary}" if one.facts.summary else ""
            parts.append(f"- [`{one.name}`]({file}){members}{summary}")
        parts.append("")
    return "\n".join(parts)


def out_of_date() -> dict[Path, str]:
    """Page → what it should hold, for every page that holds something else; ``""``: it should go."""
    wanted = pages()
    held = {page: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
    gone = dict.fromkeys(held.keys() - wanted.keys(), "")
    return gone | {
        page: text
        for page, text in wanted.items()
        if not page.is_file() or page.read_text(encoding="utf-8") != text
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if out of date")
    options = parser.parse_args(arguments)
    stale = out_of_date()
    PAGES.mkdir(exist_ok=True)
    for page, text in stale.items():
        print(f"{'out of date' if options.check else 'written'}: {page.relative_to(ROOT)}")
        if not options.check and text:
            page.write_text(text, encoding="utf-8")
        elif not options.check:
            page.unlink()
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
