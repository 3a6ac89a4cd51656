"""Options that several commands share: which tasks, how they are asked, of which model.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse

from lm_eval.cli.program import log_level, one_of, whole_number


def add_tasks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks",
        "-t",
        nargs="+",
        metavar="TASK",
        help="tasks, groups, tags, globs, .yaml files or folders; with commas or spaces between; "
        "task@format chooses a format, task@* takes every format of the task",
    )
    add_paths(parser)


def add_paths(parser: argparse.ArgumentParser) -> None:
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


def add_num_fewshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num_fewshot", "-f", type=whole_number, metavar="N", help="examples before each question"
    )


def add_prompting(parser: argparse.ArgumentParser) -> None:
    add_num_fewshot(parser)
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


def add_model(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--model", "-M", metavar="NAME", help=about)
    parser.add_argument(
        "--model_args", "-a", nargs="+", metavar="K=V", help="arguments of the backend, k=v,k=v"
    )


def add_asking(parser: argparse.ArgumentParser) -> None:
    """What is asked of which model, and where the answers go."""
    add_tasks(parser)
    add_model(
        parser,
        "model backend (default: the embedded SmolLM2-135M-Instruct); see `lm-eval ls models`",
    )
    add_prompting(parser)
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
        help="a YAML file with what models charge per million tokens; costs are shown in the table",
    )
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="print what the run would ask and cost; nothing is sent, no file is written",
    )
    parser.add_argument(
        "--config", "-C", metavar="FILE", help="a YAML file with any of these options"
    )


def add_loading(parser: argparse.ArgumentParser) -> None:
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


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number. Give a whole number from 1 up, or a share between 0 and 1"
        ) from None


def _no_template_name(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise argparse.ArgumentTypeError(
        f"a template cannot be chosen by name ({text!r}). Give the flag alone: the model's own "
        "template is used"
    )
