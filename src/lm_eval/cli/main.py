"""Which subcommand, with which arguments. Imports nothing heavy, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from lm_eval.cli.program import (
    Parser,
    log_level,
    logging_from,
    one_of,
    parsed,
    real_number,
    run_program,
    whole_number,
)
from lm_eval.errors import UsageError, did_you_mean, listing

NAME = "lm-eval"
COMMANDS = ("run", "compare", "sweep", "ls", "validate", "preview", "power", "reread", "diff")


def run_command(argv: Sequence[str] | None = None) -> int:
    """Parse and run; every expected error is printed as one message, with exit code 1."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_program(NAME, lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    with logging_from(getattr(args, "verbosity", None), NAME, "lm_eval"):
        return int(_handler(args.command)(args))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as a namespace, options of a ``--config`` file filled in.

    Without a command, options belong to ``run``; nothing at all asks for help.
    """
    parser = build_parser()
    given = list(arguments) or ["--help"]
    if given[0].startswith("-") and given[0] not in ("-h", "--help", "--version"):
        given.insert(0, "run")
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        raise UsageError(
            f"Unknown command {given[0]!r}.{did_you_mean(given[0], COMMANDS)} Commands: "
            f"{listing(COMMANDS)}. To run a task: `lm-eval run --tasks NAME`."
        )
    args = parsed(parser, given)
    path = getattr(args, "config", None)
    if path is not None:
        from lm_eval.cli.arguments import option_file_tokens

        tokens = option_file_tokens(path, vars(parsed(parser, [args.command])), REFUSED)
        try:
            args = parsed(parser, [args.command, *tokens, *given[1:]])
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    args.command_line = ["lm-eval", *given]
    return args


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    import lm_eval

    parser = Parser(
        prog="lm-eval",
        description="Evaluate language models: score = task × format × model.",
        epilog=(
            "Try:  lm-eval run --tasks 'demo_mcq@*' --limit 20   one row per format\n"
            "      lm-eval compare DIR                           which differences are real\n"
            "      lm-eval preview demo_mcq@generate             the exact prompt, no model\n"
            "      lm-eval ls formats                            what @format can be"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lm-eval {lm_eval.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    _add_compare(commands)
    _add_sweep(commands)
    _add_ls(commands)
    _add_validate(commands)
    _add_preview(commands)
    _add_power(commands)
    _add_reread(commands)
    _add_diff(commands)
    return parser


def _handler(command: str) -> Any:
    """The function that runs a command: it has its name, in the module of its name."""
    return getattr(importlib.import_module(f"lm_eval.cli.{command}"), command)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number. Give a whole number from 1 up, or a share between 0 and 1"
        ) from None


# Arguments, command by command


def _add_tasks(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument(
        "--tasks",
        "-t",
        nargs="+",
        metavar="TASK",
        required=required,
        help="tasks, groups, tags, globs, .yaml files or folders; with commas or spaces between; "
        "task@format chooses a format, task@* takes every format of the task",
    )
    _add_paths(parser)


def _add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--include_path",
        action="append",
        metavar="DIR",
        help="a folder with more task files; may be given several times",
    )
    parser.add_argument(
        "--format_path",
        action="append",
        metavar="DIR",
        help="a folder (or file) with more formats, one YAML file each; may be given several times",
    )


def _add_prompting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num_fewshot", "-f", type=whole_number, metavar="N", help="examples before each question"
    )
    parser.add_argument(
        "--system_instruction", metavar="TEXT", help="text at the very start of every prompt"
    )
    parser.add_argument(
        "--fewshot_as_multiturn",
        nargs="?",
        const="true",
        type=one_of("true", "false"),
        metavar="true|false",
        help="in chat, give each example as turns of its own (default: true)",
    )
    parser.add_argument(
        "--permute",
        metavar="MODE",
        help="also ask each doc with its choices in other orders, and show the score without the bias "
        "of positions beside the plain one: cyclic (as many orders as choices), full (all orders), "
        "pride (all cyclic orders for 5%% of the docs; pride=0.1 for another share), or none",
    )
    parser.add_argument(
        "--seed",
        default="0,1234,1234,1234",
        metavar="N[,N,N,N]",
        help="seeds for python, numpy, torch and few-shot sampling (default: 0,1234,1234,1234)",
    )


REFUSED = {
    "--wandb_args": "Log to Weights & Biases from the files that --output_path writes.",
    "--wandb_config_args": "Log to Weights & Biases from the files that --output_path writes.",
    "--trackio_args": "Log to Trackio from the files that --output_path writes.",
    "--hf_hub_log_args": "Upload the folder that --output_path writes: `hf upload REPO FOLDER`.",
    "--cache_requests": "Requests are built anew each time, which takes less than reading them.",
}
"""Flags of EleutherAI's harness that are not here, and what to do instead."""


class _Refused(argparse.Action):
    """A flag that is known and not supported: using it is an error that says what to do."""

    def __call__(
        self, _parser: Any, _namespace: Any, _values: Any, flag: str | None = None
    ) -> None:
        name = max(self.option_strings, key=len)
        raise UsageError(f"{flag or name} is not supported. {REFUSED[name]}")


def _no_template_name(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise argparse.ArgumentTypeError(
        f"a template cannot be chosen by name ({text!r}). Give the flag alone: the model's own "
        "template is used"
    )


def _add_harness_flags(parser: argparse.ArgumentParser) -> None:
    """The rest of what EleutherAI's harness takes."""
    _add_loading(parser)
    parser.add_argument(
        "--check_integrity",
        action="store_true",
        help="accepted; every run checks its tasks before the model is loaded",
    )
    parser.add_argument(
        "--show_config", action="store_true", help="print the whole config of each task"
    )
    for flag in REFUSED:
        parser.add_argument(
            flag,
            nargs="*",
            action=_Refused,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )


def _add_loading(parser: argparse.ArgumentParser) -> None:
    """How tasks and models are loaded, and what is said about it."""
    parser.add_argument(
        "--parity",
        action="store_true",
        help="undo the deliberate differences from EleutherAI's harness, to compare with it",
    )
    parser.add_argument(
        "--metadata",
        nargs="+",
        metavar="K=V",
        help="added to the metadata of every task (a custom_dataset gets it), k=v,k=v or JSON",
    )
    parser.add_argument(
        "--confirm_run_unsafe_code",
        action="store_true",
        help="run tasks marked unsafe_code, which execute what the model writes",
    )
    parser.add_argument(
        "--trust_remote_code",
        action="store_true",
        help="let the backend run code that comes with a model, where it can",
    )
    parser.add_argument(
        "--verbosity",
        "-v",
        type=log_level,
        metavar="LEVEL",
        help="what is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING)",
    )


def _add_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="evaluate a model",
        description="Evaluate a model on tasks, each under one or more formats.",
    )
    _add_asking(parser)
    parser.add_argument(
        "--log_samples",
        "-s",
        action="store_true",
        help="also write every prompt and answer (needs --output_path; on by default with it)",
    )
    parser.add_argument(
        "--predict_only",
        "-x",
        action="store_true",
        help="only save the answers, without scoring (needs --output_path)",
    )
    parser.add_argument(
        "--write_out", "-w", action="store_true", help="print the first prompt of each task"
    )
    _add_harness_flags(parser)
    parser.add_argument(
        "--compare",
        nargs="?",
        const="true",
        type=one_of("true", "false"),
        default="true",
        metavar="true|false",
        help="where a task is asked under several formats, end with what their differences mean "
        "(default: true); see `lm-eval compare`",
    )


def _add_asking(parser: argparse.ArgumentParser) -> None:
    """What is asked of which model, and where the answers go."""
    _add_tasks(parser)
    _add_model(
        parser,
        "model backend (default: the embedded SmolLM2-135M-Instruct); see `lm-eval ls models`",
    )
    _add_prompting(parser)
    parser.add_argument(
        "--limit",
        "-L",
        type=_number,
        metavar="N",
        help="only the first N docs of each task; below 1, that share of them",
    )
    parser.add_argument(
        "--samples",
        "-E",
        metavar="JSON",
        help="only these docs: '{\"my_task\": [0, 3]}' or a file that holds it",
    )
    parser.add_argument("--batch_size", "-b", metavar="N", help="batch size of the backend")
    parser.add_argument(
        "--max_batch_size",
        type=whole_number,
        metavar="N",
        help="largest batch that --batch_size auto tries",
    )
    parser.add_argument("--device", metavar="NAME", help="device of the backend, such as cuda:0")
    parser.add_argument(
        "--gen_kwargs",
        nargs="+",
        metavar="K=V",
        help="generation arguments, such as max_gen_toks=64,temperature=0.7",
    )
    parser.add_argument(
        "--apply_chat_template",
        nargs="?",
        const=True,
        default=False,
        type=_no_template_name,
        metavar="true|false",
        help="put every prompt through the model's chat template",
    )
    parser.add_argument("--output_path", "-o", metavar="DIR", help="where results are written")
    parser.add_argument(
        "--use_cache",
        "-c",
        metavar="FILE",
        help="keep answers in this file and take them from it, in this run and in others; without it, "
        "a run that died goes on when the same command is given again",
    )
    parser.add_argument(
        "--max_failed",
        default="0",
        metavar="N",
        help="requests that may fail for good, as a number or a share such as 1%%; their docs are "
        "missing from every score (default: 0, the first stops the run)",
    )
    parser.add_argument(
        "--prices",
        metavar="FILE",
        help="a YAML file with what models charge per million tokens; costs stand in the table",
    )
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="print what the run would ask and cost; nothing is sent, no file is written",
    )
    parser.add_argument(
        "--config", "-C", metavar="FILE", help="a YAML file with any of these options"
    )


def _add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="ask a task under many formats: how much of a score is the format",
        description="Ask tasks under many formats of a grammar, on the same items, and say how much "
        "of the score is the format.",
    )
    parser.add_argument(
        "--formats",
        metavar="N|FILE",
        help="how many formats to sample, the base format included, or a list saved by an earlier sweep",
    )
    parser.add_argument(
        "--base",
        metavar="FORMAT",
        help="the format to vary (default: that of the task, or task@format)",
    )
    parser.add_argument(
        "--axis",
        type=one_of("layout", "wording", "shots", "reasoning"),
        metavar="AXIS",
        help="what varies: layout (default), wording, shots or reasoning; one at a time",
    )
    parser.add_argument(
        "--budget",
        metavar="CELLS",
        help="ask only so many (format, item) cells and estimate the rest: a number, a multiple of the "
        "number of items such as 2n, or full (default)",
    )
    parser.add_argument(
        "--search",
        type=one_of("best", "worst", "both"),
        metavar="best|worst|both",
        help="find the extremes with few cells (--budget; by default 4 items for each format in the "
        "first of several rounds), then score them on fresh items",
    )
    parser.add_argument("--plots", metavar="DIR", help="a folder for plots, as SVG and PNG")
    _add_asking(parser)
    _add_loading(parser)
    parser.set_defaults(predict_only=False, log_samples=False)


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="say which differences between formats or models are real",
        description="Compare stored runs item by item: the formats of a model, or models under a "
        "format. Needs no model.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="results files, or folders that --output_path named; all results in them are used",
    )
    parser.add_argument(
        "--tasks", "-t", nargs="+", metavar="NAME", help="only these tasks (or task@format)"
    )
    parser.add_argument("--formats", nargs="+", metavar="NAME", help="only these formats")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="compare this metric; of several, as in acc_norm,acc, the first that a result has "
        "(default: the one shown as the score)",
    )
    parser.add_argument(
        "--default",
        metavar="FORMAT",
        help="set each format against this one alone (default: every two up to 6 formats, beyond "
        "that each against the first)",
    )
    parser.add_argument(
        "--intersect",
        action="store_true",
        help="where runs are not about the same items, compare on those that all have",
    )
    parser.add_argument(
        "--method",
        type=one_of("holm", "bh", "by"),
        default="holm",
        metavar="holm|bh|by",
        help="how p-values are adjusted for being several (default: holm; bh suits large sweeps)",
    )
    parser.add_argument(
        "--flips",
        nargs="?",
        const=10,
        type=whole_number,
        metavar="N",
        help="list the docs that are right under one and wrong under the other (default: 10 each)",
    )
    parser.add_argument(
        "--resamples",
        type=whole_number,
        default=10_000,
        metavar="N",
        help="permutations and draws of the items (default: 10000)",
    )
    parser.add_argument(
        "--seed", type=whole_number, default=1234, metavar="N", help="of these (default: 1234)"
    )
    parser.add_argument("--plots", metavar="DIR", help="a folder for plots, as SVG and PNG")
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write the comparison, as .json or .md"
    )


def _add_ls(commands: Any) -> None:
    parser = commands.add_parser(
        "ls", help="list tasks, formats, models, groups or tags", description="List what there is."
    )
    kinds = ("tasks", "formats", "models", "groups", "subtasks", "tags")
    parser.add_argument("what", type=one_of(*kinds), metavar="|".join(kinds))
    _add_paths(parser)


def _add_validate(commands: Any) -> None:
    parser = commands.add_parser(
        "validate",
        help="check tasks without a model",
        description="Check every field of tasks and render real docs. Needs no model.",
    )
    _add_tasks(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="every task and group of the library and --include_path; docs on a hub are not "
        "fetched",
    )
    parser.add_argument(
        "--run_code", action="store_true", help="also run the Python functions that tasks bring"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="with --all, name every task that has a problem"
    )
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write what was found, one JSON object a line"
    )
    parser.add_argument(
        "--num_fewshot", "-f", type=whole_number, metavar="N", help="examples before each question"
    )


def _add_model(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--model", "-M", metavar="NAME", help=about)
    parser.add_argument(
        "--model_args", "-a", nargs="+", metavar="K=V", help="arguments of the backend, k=v,k=v"
    )


def _add_preview(commands: Any) -> None:
    parser = commands.add_parser(
        "preview",
        help="show the exact prompt of a doc",
        description="Show a doc's prompt, what would be scored or read, and where it came from.",
    )
    parser.add_argument(
        "task", metavar="TASK[@FORMAT]", help="a task, group or .yaml file; @* for every format"
    )
    parser.add_argument(
        "--doc", type=whole_number, default=0, metavar="N", help="which doc (default: 0)"
    )
    parser.add_argument("--chat", action="store_true", help="as chat messages")
    _add_model(
        parser, "also show the tokens of this model backend's tokenizer; see `lm-eval ls models`"
    )
    parser.add_argument(
        "--run_code", action="store_true", help="run the Python functions that the task brings"
    )
    _add_paths(parser)
    _add_prompting(parser)


def _add_power(commands: Any) -> None:
    parser = commands.add_parser(
        "power",
        help="items or repeats needed for a difference",
        description="How many items or repeats a difference between two formats or models needs, or, "
        "with --items, how small a difference can be found. From stored runs, or from assumptions.",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="a results file or folder: every two formats of a model in it, and every two models",
    )
    parser.add_argument(
        "--tasks", "-t", nargs="+", metavar="TASK", help="only these tasks of the runs"
    )
    numbers = (
        ("difference", "D", "the true difference to find, such as 0.03"),
        ("variance", "V", "variance of the difference of an item's two scores"),
        ("discordant", "SHARE", "share of items that one has right and the other wrong"),
        ("accuracy", "SHARE", "accuracy of both, with --correlation"),
        ("correlation", "R", "correlation of the two scores over items, with --accuracy"),
        ("within", "V", "variance of the replies to one item, where they vary"),
    )
    for name, metavar, about in numbers:
        parser.add_argument(f"--{name}", type=real_number, metavar=metavar, help=about)
    parser.add_argument(
        "--items", type=whole_number, metavar="N", help="items at hand: how small a difference?"
    )
    parser.add_argument(
        "--repeats", type=whole_number, metavar="K", help="replies to each item, with --within"
    )
    parser.add_argument(
        "--alpha", type=real_number, default=0.05, metavar="P", help="level (default: 0.05)"
    )
    parser.add_argument(
        "--power",
        type=real_number,
        default=0.8,
        metavar="P",
        help="how often the difference is to be found (default: 0.8)",
    )
    parser.add_argument("--output_path", "-o", metavar="FILE", help="also write it as JSON")


def _add_chosen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks",
        "-t",
        nargs="+",
        metavar="TASK",
        help="only these tasks, or results such as task@cot",
    )


def _add_reread(commands: Any) -> None:
    parser = commands.add_parser(
        "reread",
        help="read stored answers again with another reader",
        description="Read the stored answers of a run again, without a model: what another reader makes "
        "of them, which verdicts flip, with the text.",
    )
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="a results file, or the folder that --output_path named",
    )
    _add_chosen(parser)
    parser.add_argument(
        "--format", nargs="+", metavar="FORMAT", help="only the results under these formats"
    )
    parser.add_argument(
        "--scorer",
        action="append",
        metavar="READER",
        help="a reader with its options, such as choice or 'after_last,phrase=The answer is', or YAML "
        "as in a format's scorer; given several times, they are tried in order",
    )
    parser.add_argument(
        "--as", dest="like", metavar="FORMAT", help="the reader of this format, instead of --scorer"
    )
    parser.add_argument(
        "--corpus",
        action="store_true",
        help="read the project's collection of odd answers instead of a run",
    )
    parser.add_argument(
        "--show",
        type=whole_number,
        default=5,
        metavar="N",
        help="flips shown with text (default: 5)",
    )
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write every reading, one JSON object a line"
    )
    _add_paths(parser)


def _add_diff(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="why two runs have different scores",
        description="Compare two stored runs: settings, versions, prompts, answers, readings and "
        "scores, and what of the difference comes from which.",
    )
    parser.add_argument("run_a", metavar="RUN_A", help="a results file or its folder")
    parser.add_argument("run_b", metavar="RUN_B", help="another one")
    _add_chosen(parser)
    parser.add_argument(
        "--formats",
        metavar="A,B",
        help="compare format A of the first run with format B of the second",
    )
    parser.add_argument(
        "--show",
        type=whole_number,
        default=1,
        metavar="N",
        help="examples of each kind (default: 1)",
    )
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write everything found as JSON"
    )
