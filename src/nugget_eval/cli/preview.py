"""``nugget-eval preview`` and ``formats``: the exact prompt of an item, and the list of prompts."""

from __future__ import annotations

import argparse

from lm_eval.errors import UsageError
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.terminal import console, visible
from nugget_eval.cli.commands import config_of
from nugget_eval.config import Config
from nugget_eval.data.items import NuggetItem, item_of, load_items
from nugget_eval.data.records import Assignment, Nugget
from nugget_eval.judge.calls import JudgeCaller
from nugget_eval.prompts.catalogue import domain_names, language_names, prompt_type_names
from nugget_eval.prompts.formats import nugget_format, prompt_info
from nugget_eval.reading.outcome import FORMAT_TYPES
from nugget_eval.reading.spellings import LABELS

_EXAMPLE = Assignment(
    "why is the sky blue",
    "example",
    "Air scatters blue light more strongly than red light. At sunset, light goes a longer way.",
    None,
    "",
    (
        Nugget("Air scatters blue light more than red light", "vital"),
        Nugget("Sunsets are red because blue light has been scattered away", "okay"),
    ),
)


def preview(args: argparse.Namespace) -> int:
    """Print the messages of each call that an item needs first."""
    config = config_of(args, ["model", "data", "evaluation"])
    items = _items(config)
    if not 0 <= args.item < len(items):
        numbers = f"items are numbered 0 to {len(items) - 1}"
        numbers = numbers if len(items) > 1 else "there is only one item, number 0"
        raise UsageError(f"--item {args.item}: {numbers}.")
    item = items[args.item]
    if not item.nuggets:
        raise UsageError(f"Item {args.item} ({item.name}) has no nuggets, so there is no prompt.")
    caller = JudgeCaller(config, [item])
    calls = caller.first()
    info = caller.format(item).info
    name = f"{info.name} × {config.model.format_type}"
    print(f"{name}, version {info.version}, fingerprint {info.fingerprint}")
    print(f"Item {visible(item.name)}: {len(item.nuggets)} nuggets in {len(calls)} calls")
    for number, call in enumerate(calls, 1):
        for message in caller.prompt(call).as_dicts():
            print(f"── call {number}, {message['role']}")
            print(visible(message["content"], keep="\n\t"))
    return 0


def _items(config: Config) -> list[NuggetItem]:
    data = config.data
    if data.items or data.nuggets or data.answers:
        return load_items(data).items
    return [item_of(_EXAMPLE)]


def formats(_: argparse.Namespace) -> int:
    """Print prompt types with their versions, output formats by example, domains and languages."""
    out = console()
    rows = []
    for name in prompt_type_names():
        info = prompt_info(name)
        reasons = "yes" if info.reasons else "no"
        rows.append(
            Cells(
                name=visible(name),
                version=info.version,
                reasons=reasons,
                fingerprint=info.fingerprint,
                about=visible(f"{info.summary} Best for: {info.best_for}".strip()),
            )
        )
    columns = (
        Column("name", "Prompt type", stays=True),
        Column("version", "Version", stays=True),
        Column("reasons", "Reasons", stays=True),
        Column("fingerprint", "With json"),
        Column("about", "About", wraps=True),
    )
    out.print(FittingTable(columns, [rows]))
    out.print()
    examples = [
        Cells(name=name, about=nugget_format("no_reasoning", name).output.write(LABELS))
        for name in FORMAT_TYPES
    ]
    shown = (Column("name", "Format type", stays=True), Column("about", "Reply", wraps=True))
    out.print(FittingTable(shown, [examples]))
    out.print()
    out.print(f"Domains: {', '.join(domain_names())}")
    out.print(f"Languages: {', '.join(language_names())} (labels stay English)")
    return 0
