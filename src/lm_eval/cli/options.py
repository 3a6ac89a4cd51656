"""Options that several commands share: which tasks, how they are asked, of which model.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse

from lm_eval.cli.program import add_options, log_level, whole

NUM_FEWSHOT = {"--num_fewshot -f N": "number of examples before each question"}
MAX_SKIPPED = {
    "--max_skipped N": "how many docs of a task may be left out because they cannot be asked (fewer "
    "than two choices, no gold answer), as a number or a share (default: 1%%)",
}
TASKS = {
    "--tasks -t TASK …": "tasks, groups, tags, globs, .yaml files or folders, separated by commas "
    "or spaces; task@format selects a format, task@* every format of the task",
}
_PATHS = {
    "--include_path DIR": "a folder with more task files; can be repeated",
    "--format_path DIR": "a folder (or file) with more formats, one YAML file each; can be repeated",
}
DATA_PATH = {
    "--data_path DIR": "take data sets of the hub from this folder, which `lm-eval fetch --to DIR` has "
    "filled, and use no network",
}
_PROMPTING = NUM_FEWSHOT | {
    "--system_instruction TEXT": "text at the very start of every prompt",
    "--fewshot_as_multiturn [true|false]": "in chat, send each example as separate turns (default: "
    "true)",
    "--permute MODE": "also ask each doc with its choices in other orders, and report a score "
    "corrected for position bias beside the plain one: cyclic (as many orders as choices), full "
    "(all orders), pride (all cyclic orders for 5%% of the docs; pride=0.1 for another share), or "
    "none",
    "--seed N[,N,N,N]": "seeds for python, numpy, torch and few-shot sampling (default: "
    "0,1234,1234,1234)",
}
_ASKING = {
    "--limit -L N": "only the first N docs of each task; below 1, that fraction of them",
    "--samples -E JSON": "only these docs: '{\"my_task\": [0, 3]}' or a file with such JSON",
    "--batch_size -b N": "batch size of the backend",
    "--max_batch_size N": "largest batch that --batch_size auto tries",
    "--device NAME": "device of the backend, such as cuda:0",
    "--gen_kwargs K=V …": "generation arguments, such as max_gen_toks=64,temperature=0.7",
    "--apply_chat_template [true|false]": "apply the model's chat template to every prompt; the "
    "default for the embedded model, except for tasks without a format",
    "--output_path -o DIR": "folder for the results",
    "--use_cache -c FILE": "take answers from this file and add new ones to it, across runs; "
    "without it, an interrupted run resumes when the same command is given again",
    "--max_failed N": "how many requests may fail for good, as a number or a share such as 1%%; "
    "their docs are left out of every score (default: 0, the first failure stops the run)",
    **MAX_SKIPPED,
    "--prices FILE": "a YAML file with model prices per million tokens; adds costs to the output",
    "--dry_run": "print what the run would ask and cost; sends nothing, writes no file",
    "--config -C FILE": "a YAML file with any of these options",
}
_LOADING = {
    "--parity": "undo the deliberate differences from EleutherAI's harness, for comparisons with it",
    "--metadata K=V …": "added to the metadata of every task (passed to custom_dataset), k=v,k=v "
    "or JSON",
    "--confirm_run_unsafe_code": "run tasks marked unsafe_code, which execute code that the model "
    "writes",
    "--trust_remote_code": "let the backend run code that comes with a model, if it supports that",
    "--verbosity -v LEVEL": "log level: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING)",
}


def add_paths(parser: argparse.ArgumentParser) -> None:
    several = {"action": "append"}
    add_options(parser, _PATHS, include_path=several, format_path=several)


def add_prompting(parser: argparse.ArgumentParser) -> None:
    seed = {"default": "0,1234,1234,1234"}
    add_options(parser, _PROMPTING, num_fewshot=whole(), seed=seed)


def add_model(parser: argparse.ArgumentParser, about: str) -> None:
    arguments = "arguments for the backend, k=v,k=v"
    add_options(parser, {"--model -M NAME": about, "--model_args -a K=V …": arguments})


def add_asking(parser: argparse.ArgumentParser) -> None:
    """What is asked of which model, and where the answers go."""
    add_options(parser, TASKS)
    add_paths(parser)
    add_options(parser, DATA_PATH)
    default = "the embedded SmolLM2-135M-Instruct"
    add_model(parser, f"model backend (default: {default}); see `lm-eval ls models`")
    add_prompting(parser)
    add_options(
        parser,
        _ASKING,
        limit={"type": _number},
        max_batch_size=whole(),
        apply_chat_template={"const": True, "type": _no_template_name},
        max_failed={"default": "0"},
        max_skipped={"default": "1%"},
    )


def add_loading(parser: argparse.ArgumentParser) -> None:
    """How tasks and models are loaded, and what is said about it."""
    add_options(parser, _LOADING, verbosity={"type": log_level})


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number. Give a whole number from 1 up, or a share between 0 and 1"
        ) from None


def _no_template_name(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise argparse.ArgumentTypeError(
        f"a template cannot be chosen by name ({text!r}). Give true or false, or the flag alone to use "
        "the model's own template"
    )
