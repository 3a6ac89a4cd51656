"""The command line of ``nugget-eval``: its commands, a flag for each value of the config, and the config
that the flags give. Imports no judge, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from importlib import import_module
from typing import Any

from lm_eval.cli.program import (
    Parser,
    add_options,
    check_repeated,
    int_option,
    parsed,
    run_program,
)
from lm_eval.config.arguments import parse_pairs
from lm_eval.errors import UsageError, did_you_mean, listing
from nugget_eval.config import SECTIONS, Config
from nugget_eval.errors import ConfigurationError

NAME = "nugget-eval"
COMMANDS = {
    "run": "run",
    "score": "score",
    "agree": "score",
    "compare": "run",
    "preview": "preview",
    "formats": "preview",
}
"""Command → the module that runs it."""


def run_command(argv: Sequence[str] | None = None) -> int:
    """Parse and run; every expected error is printed as one message, with exit code 1."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_program(NAME, lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    module = import_module(f"nugget_eval.cli.{COMMANDS[args.command]}")
    return int(getattr(module, args.command)(args))  # the function has the command's name


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as a namespace; nothing at all asks for help."""
    words = list(arguments) or ["--help"]
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        raise UsageError(
            f"Unknown command {words[0]!r}.{did_you_mean(words[0], COMMANDS)} Commands: "
            f"{listing(COMMANDS)}."
        )
    parser = build_parser()
    args = parsed(parser, words)
    check_repeated(parser, args.command, words)
    args.command_line = [NAME, *words]
    return args


# Commands and their options


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    import lm_eval

    parser = Parser(
        prog=NAME,
        description="Judge which nuggets of information a text supports. A label that cannot be read "
        "is missing, and is counted.",
        epilog=(
            "Try:  nugget-eval run --nuggets nuggets.jsonl --answers run.jsonl --output_path out\n"
            "      nugget-eval score out/assignments.jsonl\n"
            "      nugget-eval preview --prompt_type optimized --format_type xml"
        ),
    )
    parser.add_argument("--version", action="version", version=f"{NAME} {lm_eval.VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (about, description, add) in _PARSERS.items():
        add(commands.add_parser(name, help=about, description=description))
    return parser


_CONFIG = {"--config -C FILE": "a YAML file with these values under their sections"}
_DRY_RUN = {"--dry_run": "print calls, tokens and costs; nothing is sent, no file is written"}
_PER_TOPIC = {"--per_topic": "also print a table of topics"}
_SEED = {"--seed N": "seed of the intervals (default: 1234)"}


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_config(parser, SECTIONS)
    add_options(parser, {**_CONFIG, **_DRY_RUN, **_PER_TOPIC})


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="JSONL with labels, one file or more"
    )
    options = {
        "--nuggets FILE": "score every topic of this file",
        **_PER_TOPIC,
        "--rank MEASURE": "rank the runs by a measure, such as all_score, and test their differences",
        **_SEED,
        "--output_path -o DIR": "write metrics and a summary",
    }
    add_options(parser, options, seed=int_option(default=1234))
    _add_config(parser, ["metrics"])


def _add_agree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "gold", metavar="GOLD", help="JSONL with human labels, or with those of the first judge"
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="JSONL with labels to compare with them"
    )
    options = {
        "--measure MEASURE": "also compare how both rank the runs by a measure, such as all_score",
        **_SEED,
        "--json FILE": "write the statistics to this file",
    }
    add_options(parser, options, seed=int_option(default=1234))
    _add_config(parser, ["metrics"], without=["trec_compat"])


def _add_compare(parser: argparse.ArgumentParser) -> None:
    options = {
        "--prompt_types A,B": "prompt types, separated by commas",
        "--format_types A,B": "output formats (default: json)",
    }
    add_options(parser, options, prompt_types={"required": True}, format_types={"default": "json"})
    _add_config(parser, SECTIONS, without=["prompt_type", "format_type"])
    add_options(parser, {**_CONFIG, **_DRY_RUN})


def _add_preview(parser: argparse.ArgumentParser) -> None:
    _add_config(parser, ["model", "data", "evaluation"])
    add_options(
        parser, {**_CONFIG, "--item N": "which item (default: 0)"}, item=int_option(default=0)
    )


_PARSERS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "run": (
        "judge answers or passages",
        "Judge which nuggets each text supports, and score the runs.",
        _add_run,
    ),
    "score": (
        "score files of labels",
        "Score labels: strict and lenient measures over vital nuggets, all nuggets, and weighted.",
        _add_score,
    ),
    "agree": (
        "compare labels with gold, or judges with each other",
        "Measure how well labels agree with those of the first file, with intervals.",
        _add_agree,
    ),
    "compare": (
        "A/B test of prompt types and output formats",
        "Judge the same items under several prompts, and compare what comes out.",
        _add_compare,
    ),
    "preview": (
        "show a prompt",
        "Show the exact prompt of an item, or of an example if no file is given. Needs no model.",
        _add_preview,
    ),
    "formats": (
        "list prompt types, output formats, domains and languages",
        "List prompt types with their versions, output formats by example, domains and languages.",
        lambda _: None,
    ),
}
"""Command → its line in ``--help``, its description, and what adds its options."""


# Values of the config as flags


def _add_config(
    parser: argparse.ArgumentParser, sections: Iterable[str], without: Iterable[str] = ()
) -> None:
    """A flag for each value of these sections of the config."""
    left_out = set(without)
    for section in sections:
        group = parser.add_argument_group(section)
        for name, setting in _settings(section).items():
            if name not in left_out:
                _add_flag(group, name, setting)


def _settings(section: str) -> dict[str, Field[Any]]:
    """The values of a section of the config by the names of their flags."""
    return {
        setting.metadata["flag"] or setting.name: setting
        for setting in fields(getattr(Config(), section))
    }


def _add_flag(group: Any, name: str, setting: Field[Any]) -> None:
    how = setting.metadata
    options: dict[str, Any] = {"metavar": how["metavar"] or _metavar(str(setting.type))}
    if setting.type == "bool":
        options = {"nargs": "?", "const": "true", "metavar": "true|false"}
    elif setting.default is MISSING:  # a list or a mapping
        options["nargs"] = "+"
    flags = filter(None, (f"--{name}", how["short"]))
    group.add_argument(*flags, help=how["about"] + _default(setting), **options)


def _default(setting: Field[Any]) -> str:
    """The default as ``--help`` shows it; nothing for what is off or empty."""
    value = setting.default
    if value is MISSING or value is None:
        return ""
    shown = str(value).lower() if isinstance(value, bool) else value
    return f" (default: {shown:g})" if isinstance(value, float) else f" (default: {shown})"


def _metavar(kind: str) -> str:
    if kind.startswith("dict"):
        return "K=V"
    return "N" if "int" in kind or "float" in kind else "NAME"


def config_of(args: argparse.Namespace, sections: Sequence[str] = SECTIONS) -> Config:
    """The config that ``--config`` and the flags make, flags last."""
    path = getattr(args, "config", None)
    config = Config.from_yaml(path) if path is not None else Config()
    for section in sections:
        for name, setting in _settings(section).items():
            value = getattr(args, name, None)
            if value is not None:
                _set(getattr(config, section), setting, name, value)
    return config


def _set(part: Any, setting: Field[Any], flag: str, value: Any) -> None:
    try:
        setattr(part, setting.name, _value(str(setting.type), flag, value))
    except ConfigurationError as error:
        problem = str(error).partition(f".{setting.name} ")[2] or str(error)
        raise UsageError(f"--{flag} {problem}") from None


def _value(kind: str, flag: str, text: Any) -> Any:
    """The value that a flag's text means; its rule reads numbers."""
    if kind.startswith("dict"):
        return parse_pairs(text, flag=f"--{flag}")
    if kind == "bool":
        return {"true": True, "false": False}.get(str(text).lower(), text)
    return text
