"""Which subcommand, with which arguments. Imports nothing heavy, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from lm_eval.errors import LmEvalError, LmEvalWarning

COMMANDS = ("run", "ls", "validate", "preview")


def run_command(argv: Sequence[str] | None = None) -> int:
    """Parse and run; every expected error is printed as one message, with exit code 1."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser()
    if (
        arguments
        and arguments[0].startswith("-")
        and arguments[0] not in ("-h", "--help", "--version")
    ):
        arguments.insert(0, "run")
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("always", LmEvalWarning)
        warnings.showwarning = _print_warning
        return _run_safely(args)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    import lm_eval

    parser = argparse.ArgumentParser(
        prog="lm-eval",
        description="Evaluate language models: score = task × format × model.",
        epilog=(
            "Try:  lm-eval run --tasks 'demo_mcq@*' --limit 20   one row per format\n"
            "      lm-eval preview demo_mcq@generate             the exact prompt, no model\n"
            "      lm-eval ls formats                            what @format can be"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lm-eval {lm_eval.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(commands)
    _add_ls(commands)
    _add_validate(commands)
    _add_preview(commands)
    return parser


def _run_safely(args: argparse.Namespace) -> int:
    try:
        return int(_handler(args.command)(args))
    except LmEvalError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("Stopped by Ctrl-C.", code=130)
    except BrokenPipeError:  # `lm-eval ls tasks | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("Out of memory. Use a smaller --limit, --batch_size or model.")


def _handler(command: str) -> Any:
    if command == "run":
        from lm_eval.cli.run import run

        return run
    if command == "ls":
        from lm_eval.cli.ls import ls

        return ls
    if command == "validate":
        from lm_eval.cli.validate import validate

        return validate
    from lm_eval.cli.preview import preview

    return preview


def _fail(message: str, *, code: int = 1) -> int:
    from lm_eval.reports.redact import redacted_text
    from lm_eval.reports.terminal import visible

    print(f"lm-eval: error: {visible(redacted_text(message), keep=chr(10))}", file=sys.stderr)
    return code


_SEEN: set[str] = set()


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    from lm_eval.reports.terminal import visible

    text = str(message)
    if text in _SEEN:
        return
    _SEEN.add(text)
    print(f"lm-eval: warning: {visible(text, keep=chr(10))}", file=sys.stderr)


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
        "--num_fewshot", "-f", type=int, metavar="N", help="examples before each question"
    )
    parser.add_argument(
        "--system_instruction", metavar="TEXT", help="text at the very start of every prompt"
    )
    parser.add_argument(
        "--fewshot_as_multiturn",
        nargs="?",
        const="true",
        choices=("true", "false"),
        metavar="true|false",
        help="in chat, give each example as turns of its own (default: true)",
    )
    parser.add_argument(
        "--seed",
        default="0,1234,1234,1234",
        metavar="N[,N,N,N]",
        help="seeds for python, numpy, torch and few-shot sampling (default: 0,1234,1234,1234)",
    )


def _add_run(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="evaluate a model",
        description="Evaluate a model on tasks, each under one or more formats.",
    )
    _add_tasks(parser)
    parser.add_argument(
        "--model",
        "-M",
        metavar="NAME",
        help="model backend (default: the embedded SmolLM2-135M-Instruct); see `lm-eval ls models`",
    )
    parser.add_argument(
        "--model_args", "-a", nargs="+", metavar="K=V", help="arguments of the backend, k=v,k=v"
    )
    _add_prompting(parser)
    parser.add_argument(
        "--limit",
        "-L",
        type=float,
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
    parser.add_argument("--device", metavar="NAME", help="device of the backend, such as cuda:0")
    parser.add_argument(
        "--gen_kwargs",
        nargs="+",
        metavar="K=V",
        help="generation arguments, such as max_gen_toks=64,temperature=0.7",
    )
    parser.add_argument(
        "--apply_chat_template",
        action="store_true",
        help="put every prompt through the model's chat template",
    )
    parser.add_argument("--output_path", "-o", metavar="DIR", help="where results are written")
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
    parser.add_argument(
        "--config", "-C", metavar="FILE", help="a YAML file with any of these options"
    )


def _add_ls(commands: Any) -> None:
    parser = commands.add_parser(
        "ls", help="list tasks, formats, models, groups or tags", description="List what there is."
    )
    parser.add_argument("what", choices=("tasks", "formats", "models", "groups", "tags"))
    _add_paths(parser)


def _add_validate(commands: Any) -> None:
    parser = commands.add_parser(
        "validate",
        help="check tasks without a model",
        description="Check every field of tasks and render real docs. Needs no model.",
    )
    _add_tasks(parser)
    parser.add_argument(
        "--all", action="store_true", help="every task of the library and --include_path"
    )
    parser.add_argument(
        "--run_code", action="store_true", help="also run the Python functions that tasks bring"
    )
    parser.add_argument(
        "--num_fewshot", "-f", type=int, metavar="N", help="examples before each question"
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
    parser.add_argument("--doc", type=int, default=0, metavar="N", help="which doc (default: 0)")
    parser.add_argument("--chat", action="store_true", help="as chat messages")
    parser.add_argument(
        "--run_code", action="store_true", help="run the Python functions that the task brings"
    )
    _add_paths(parser)
    _add_prompting(parser)
