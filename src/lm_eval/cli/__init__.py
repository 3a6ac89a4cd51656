"""The command line of ``lm-eval``: its commands and options, and which module runs a command.

Imports nothing heavy, so that ``--help`` is instant.

Read in this order: program, run_options, tasks, gates, run, preview, lab.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lm_eval.cli.program import (
    Parser,
    add_options,
    check_repeated,
    count_option,
    examples,
    expand_abbreviations,
    int_option,
    logging_from,
    one_of,
    parsed,
    run_program,
)
from lm_eval.cli.run_options import PATHS, PROMPTING, add_run_options
from lm_eval.errors import UsageError, did_you_mean, listing

NAME = "lm-eval"
COMMANDS = {
    "run": "run",
    "compare": "lab.compare",
    "table": "lab.table",
    "sweep": "lab.sweep",
    "ls": "tasks.ls",
    "validate": "tasks.validate",
    "preview": "preview",
    "power": "lab.power",
    "reread": "lab.reread",
    "diff": "lab.diff",
    "view": "lab.view",
    "fetch": "tasks.fetch",
}
"""Command → its module in this package, which has a function of the command's name."""
LISTINGS = {
    "list": "tasks",
    "list_tasks": "tasks",
    "list_subtasks": "subtasks",
    "list_groups": "groups",
    "list_tags": "tags",
}
"""What ``run --tasks`` accepts in place of tasks, as in the harness → what ``ls`` calls it."""
IN_THE_LAB = ("compare", "sweep")
"""Commands whose modules import numpy; the others can do some of their work without it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``lm-eval`` and return its exit code; an expected error is one message, with code 1."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_program(NAME, lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    args = _as_listing(parse(arguments))
    with logging_from(getattr(args, "verbosity", None), NAME, "lm_eval"), _data_from(args):
        return int(_handler(args.command)(args))


def _as_listing(args: argparse.Namespace) -> argparse.Namespace:
    """``ls tasks`` for ``run --tasks list``; any other command as it is."""
    tasks: Sequence[str] = (args.tasks or ()) if args.command == "run" else ()
    if len(tasks) != 1 or tasks[0] not in LISTINGS:
        return args
    ls = parse(["ls", LISTINGS[tasks[0]]])
    for name in vars(ls).keys() & vars(args).keys() - {"command"}:
        setattr(ls, name, getattr(args, name))
    return ls


def _data_from(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Where data sets of the hub are read from while the command runs."""
    if args.command == "fetch":
        from lm_eval.data.hub.settings import fetching_to

        return fetching_to(args.to)
    folder = getattr(args, "data_path", None)
    is_hub_in_use = "lm_eval.data.hub.settings" in sys.modules  # by an earlier command
    if folder is None and not is_hub_in_use:
        return nullcontext()
    from lm_eval.data.hub.settings import reading_from

    return reading_from(folder)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as a namespace, options of a ``--config`` file filled in.

    Without a command, options belong to ``run``; nothing at all, or ``ls`` alone, asks for help.
    """
    words = list(arguments) or ["--help"]
    if words == ["ls"]:
        words.append("--help")
    if words[0].startswith("-") and words[0] not in ("-h", "--help", "--version"):
        words.insert(0, "run")
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        raise UsageError(
            f"Unknown command {words[0]!r}.{did_you_mean(words[0], COMMANDS)} Commands: "
            f"{listing(COMMANDS)}. To run a task: `lm-eval run --tasks NAME`."
        )
    parser = build_parser(words[0] if words[0] in COMMANDS else None)
    if words[0] == "run":
        words = expand_abbreviations(parser, words)
    args = parsed(parser, words)
    check_repeated(parser, args.command, words)
    path = getattr(args, "config", None)
    if path is not None:
        from lm_eval.config.arguments import option_file_tokens

        tokens = option_file_tokens(path, vars(parsed(parser, [args.command])), REFUSED)
        try:
            args = parsed(parser, [args.command, *tokens, *words[1:]])
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    args.command_line = ["lm-eval", *words]
    return args


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, or that of one command alone."""
    import lm_eval

    parser = Parser(
        prog="lm-eval",
        description="Evaluate language models: score = task × format × model.",
        epilog=examples(
            ("lm-eval run --tasks 'demo_mcq@*' --limit 20", "one row per format"),
            ("lm-eval compare DIR", "which differences are real"),
            ("lm-eval view DIR", "runs, prompts and replies in a browser"),
            ("lm-eval preview demo_mcq@generate", "the exact prompt, no model"),
            ("lm-eval ls formats", "the formats for @format"),
        ),
    )
    parser.add_argument("--version", action="version", version=f"lm-eval {lm_eval.VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS if command is None else (command,):
        _options_of(name)(commands)
    return parser


def _options_of(command: str) -> Callable[[Any], None]:
    """The function that adds a command and its options; those of the lab are imported when needed."""
    adders = {"run": _add_run, "ls": _add_ls, "validate": _add_validate, "preview": _add_preview}
    adders["fetch"] = _add_fetch
    if command in adders:
        return adders[command]
    from lm_eval.cli.lab import options

    add: Callable[[Any], None] = getattr(options, f"add_{command}")
    return add


def _handler(command: str) -> Any:
    """The function that runs a command."""
    if command in IN_THE_LAB:
        from lm_eval.stats.numeric import LAB_PACKAGES, require

        require(*LAB_PACKAGES)
    return getattr(importlib.import_module(f"lm_eval.cli.{COMMANDS[command]}"), command)


# Arguments, command by command


REFUSED = {
    "--wandb_args": "Log to Weights & Biases from the files that --output_path writes.",
    "--wandb_config_args": "Log to Weights & Biases from the files that --output_path writes.",
    "--trackio_args": "Log to Trackio from the files that --output_path writes.",
    "--hf_hub_log_args": "Upload the folder that --output_path writes: `hf upload REPO FOLDER`.",
}
"""Flags of EleutherAI's harness that are not supported, and what to do instead."""


class _Refused(argparse.Action):
    """A flag that is known and not supported: using it is an error that says what to do."""

    def __call__(
        self, _parser: Any, _namespace: Any, _values: Any, flag: str | None = None
    ) -> None:
        name = max(self.option_strings, key=len)
        raise UsageError(f"{flag or name} is not supported. {REFUSED[name]}")


_VALIDATE = {
    "--all": "check every task and group of the library and --include_path; fetches no docs from a "
    "hub",
    "--run_code": "also run the tasks' own Python functions",
    "--sample_rows": "render the invented rows of tasks that have some (sample_rows) instead of docs; "
    "needs no network",
    "--verbose": "list every task with a problem, and repeat a shared problem for each",
    "--output_path -o FILE": "write the findings, one JSON object per line",
}


_LS = {
    "--search WORD …": "with tasks: those that have all these words in their name, tags or summary",
    "--tag TAG": "with tasks: those with this tag",
    "--language LANGUAGE": "with tasks: those in this language, such as de, deu or German",
    "--json": "with tasks: one JSON object per line",
}


def _add_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="evaluate a model",
        description="Evaluate a model on tasks, each under one or more formats.",
    )
    add_run_options(parser)
    refused = {"nargs": "*", "action": _Refused, "default": argparse.SUPPRESS}
    for flag in REFUSED:
        parser.add_argument(flag, help=argparse.SUPPRESS, **refused)


def _add_ls(commands: Any) -> None:
    parser = commands.add_parser(
        "ls",
        help="list tasks, formats, models, groups or tags",
        description="List the names that the commands know.",
    )
    kinds = ("tasks", "formats", "models", "groups", "subtasks", "tags")
    parser.add_argument("what", type=one_of(*kinds), metavar="|".join(kinds))
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="with tasks: all about these tasks or groups"
    )
    add_options(parser, _LS)
    add_run_options(parser, PATHS)


def _add_validate(commands: Any) -> None:
    parser = commands.add_parser(
        "validate",
        help="check tasks without a model",
        description="Check every field of tasks and render real docs. Needs no model.",
    )
    add_run_options(parser, ("tasks", *PATHS, "data_path"))
    add_options(parser, _VALIDATE)
    add_run_options(parser, ("num_fewshot", "max_skipped"))


def _add_fetch(commands: Any) -> None:
    parser = commands.add_parser(
        "fetch",
        help="download the data of tasks",
        description="Download the data sets of tasks from the hub: only the splits that they need.",
        epilog=examples(
            ("lm-eval fetch arc_easy --to data", "into a folder, for a machine without a network"),
            ("lm-eval run --tasks arc_easy --data_path data", "there"),
        ),
    )
    parser.add_argument(
        "tasks",
        nargs="+",
        metavar="TASK",
        help="tasks, groups, tags, globs, .yaml files or folders",
    )
    which = {
        "--to DIR": "put everything into this folder, as plain files (default: the hub's cache)",
        "--num_fewshot -f N": "0: leave out the splits of few-shot examples",
        "--dry_run": "only list what would be downloaded, and how large it is",
    }
    add_options(parser, which, num_fewshot=count_option())
    add_run_options(parser, PATHS)


def _add_preview(commands: Any) -> None:
    parser = commands.add_parser(
        "preview",
        help="show the exact prompt of a doc",
        description="Show a doc's prompt, what would be scored or read, and where it came from.",
    )
    parser.add_argument(
        "task", metavar="TASK[@FORMAT]", help="a task, group or .yaml file; @* for every format"
    )
    which = {
        "--doc N": "which doc to show (default: 0)",
        "--chat": "show the prompt as chat messages",
    }
    add_options(parser, which, doc=int_option(default=0))
    tokens = "also show the tokens of this model backend's tokenizer; see `lm-eval ls models`"
    add_run_options(parser, ("show_redacted", "model", "model_args"), model=tokens)
    code_and_rows = {
        "--run_code": "run the task's own Python functions",
        "--sample_rows": "use the task's invented rows even if its data is on this machine",
    }
    add_options(parser, code_and_rows)
    add_run_options(parser, (*PATHS, "data_path", *PROMPTING))
