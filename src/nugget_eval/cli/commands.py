"""Which subcommand, with which arguments. Imports no judge, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from lm_eval.cli.program import Parser, check_repeated, parsed, run_program, whole_number
from lm_eval.errors import UsageError, did_you_mean, listing
from nugget_eval.cli.options import NAME, add_config
from nugget_eval.config import SECTIONS

COMMANDS = {
    "run": "run",
    "score": "score",
    "agree": "score",
    "compare": "compare",
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
    return int(_handler(args.command)(args))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as a namespace; nothing at all asks for help."""
    given = list(arguments) or ["--help"]
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        raise UsageError(
            f"Unknown command {given[0]!r}.{did_you_mean(given[0], COMMANDS)} Commands: "
            f"{listing(COMMANDS)}."
        )
    parser = build_parser()
    args = parsed(parser, given)
    check_repeated(parser, args.command, given)
    args.command_line = [NAME, *given]
    return args


def _handler(command: str) -> Any:
    """The function that runs a command; it has the command's name."""
    return getattr(import_module(f"nugget_eval.cli.{COMMANDS[command]}"), command)


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
    parser.add_argument("--version", action="version", version=f"{NAME} {lm_eval.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    _add_score(commands)
    _add_agree(commands)
    _add_compare(commands)
    _add_preview(commands)
    commands.add_parser(
        "formats",
        help="list prompt types, output formats, domains and languages",
        description="List what a prompt can be made of, with versions and changes.",
    )
    return parser


# Arguments, command by command

_SEED = "seed of the intervals (default: 1234)"


def _add_config_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", "-C", metavar="FILE", help="a YAML file with these values under their sections"
    )


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="print calls, tokens and costs; nothing is sent, no file is written",
    )


def _add_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="judge answers or passages",
        description="Judge which nuggets each text supports, and score the runs.",
    )
    add_config(parser, SECTIONS)
    _add_config_file(parser)
    _add_dry_run(parser)
    parser.add_argument("--per_topic", action="store_true", help="also print a table of topics")


def _add_score(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="score files of labels",
        description="Score assignments: strict and lenient, vital and all, weighted; with coverage.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="assignments, one file or more")
    parser.add_argument("--nuggets", metavar="FILE", help="score every topic of this file")
    parser.add_argument("--per_topic", action="store_true", help="also print a table of topics")
    parser.add_argument("--rank", metavar="MEASURE", help="rank the runs by a measure, with tests")
    parser.add_argument("--seed", type=whole_number, default=1234, metavar="N", help=_SEED)
    parser.add_argument("--output_path", "-o", metavar="DIR", help="write metrics and a summary")
    add_config(parser, ["metrics"])


def _add_agree(commands: Any) -> None:
    parser = commands.add_parser(
        "agree",
        help="compare labels with gold, or judges with each other",
        description="Agreement of labels, with intervals: the first file is gold.",
    )
    parser.add_argument("gold", metavar="GOLD", help="labels by people, or by the first judge")
    parser.add_argument("files", nargs="+", metavar="FILE", help="labels to compare with them")
    parser.add_argument(
        "--measure", metavar="NAME", help="also compare the rankings of runs by this measure"
    )
    parser.add_argument("--seed", type=whole_number, default=1234, metavar="N", help=_SEED)
    parser.add_argument("--json", metavar="FILE", help="write the statistics to this file")
    add_config(parser, ["metrics"], without=["trec_compat"])


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="A/B test of prompt types and output formats",
        description="Judge the same items under several prompts, and compare what comes out.",
    )
    parser.add_argument(
        "--prompt_types", required=True, metavar="A,B", help="prompt types, separated by commas"
    )
    parser.add_argument(
        "--format_types", default="json", metavar="A,B", help="output formats (default: json)"
    )
    add_config(parser, SECTIONS, without=["prompt_type", "format_type"])
    _add_config_file(parser)
    _add_dry_run(parser)


def _add_preview(commands: Any) -> None:
    parser = commands.add_parser(
        "preview",
        help="show a prompt",
        description="Show the exact prompt of an item, or of an example where no file is given. Needs "
        "no model.",
    )
    add_config(parser, ["model", "data", "evaluation"])
    _add_config_file(parser)
    parser.add_argument(
        "--item", type=whole_number, default=0, metavar="N", help="which item (default: 0)"
    )
