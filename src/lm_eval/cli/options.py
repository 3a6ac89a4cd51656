"""Options that several commands share: which tasks, how they are asked, of which model.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse

from lm_eval.cli.program import add_options, log_level, whole

NUM_FEWSHOT = {"--num_fewshot -f N": "examples before each question"}
TASKS = {
    "--tasks -t TASK …": "tasks, groups, tags, globs, .yaml files or folders; with commas or spaces "
    "between; task@format chooses a format, task@* takes every format of the task",
}
_PATHS = {
    "--include_path DIR": "a folder with more task files; may be given several times",
    "--format_path DIR": "a folder (or file) with more formats, one YAML file each; may be given "
    "several times",
}
_PROMPTING = NUM_FEWSHOT | {
    "--system_instruction TEXT": "text at the very start of every prompt",
    "--fewshot_as_multiturn [true|false]": "in chat, give each example as turns of its own (default: "
    "true)",
    "--permute MODE": "also ask each doc with its choices in other orders, and show the score without "
    "the bias of positions beside the plain one: cyclic (as many orders as choices), full (all orders), "
    "pride (all cyclic orders for 5%% of the docs; pride=0.1 for another share), or none",
    "--seed N[,N,N,N]": "seeds for python, numpy, torch and few-shot sampling (default: "
    "0,1234,1234,1234)",
}
_ASKING = {
    "--limit -L N": "only the first N docs of each task; below 1, that share of them",
    "--samples -E JSON": "only these docs: '{\"my_task\": [0, 3]}' or a file that holds it",
    "--batch_size -b N": "batch size of the backend",
    "--max_batch_size N": "largest batch that --batch_size auto tries",
    "--device NAME": "device of the backend, such as cuda:0",
    "--gen_kwargs K=V …": "generation arguments, such as max_gen_toks=64,temperature=0.7",
    "--apply_chat_template [true|false]": "put every prompt through the model's chat template",
    "--output_path -o DIR": "where results are written",
    "--use_cache -c FILE": "keep answers in this file and take them from it, in this run and in others; "
    "without it, a run that died goes on when the same command is given again",
    "--max_failed N": "requests that may fail for good, as a number or a share such as 1%%; their docs "
    "are missing from every score (default: 0, the first stops the run)",
    "--prices FILE": "a YAML file with what models charge per million tokens; costs are shown in the "
    "table",
    "--dry_run": "print what the run would ask and cost; nothing is sent, no file is written",
    "--config -C FILE": "a YAML file with any of these options",
}
_LOADING = {
    "--parity": "undo the deliberate differences from EleutherAI's harness, to compare with it",
    "--metadata K=V …": "added to the metadata of every task (a custom_dataset gets it), k=v,k=v or "
    "JSON",
    "--confirm_run_unsafe_code": "run tasks marked unsafe_code, which execute what the model writes",
    "--trust_remote_code": "let the backend run code that comes with a model, where it can",
    "--verbosity -v LEVEL": "what is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING)",
}


def add_paths(parser: argparse.ArgumentParser) -> None:
    several = {"action": "append"}
    add_options(parser, _PATHS, include_path=several, format_path=several)


def add_prompting(parser: argparse.ArgumentParser) -> None:
    seed = {"default": "0,1234,1234,1234"}
    add_options(parser, _PROMPTING, num_fewshot=whole(), seed=seed)


def add_model(parser: argparse.ArgumentParser, about: str) -> None:
    arguments = "arguments of the backend, k=v,k=v"
    add_options(parser, {"--model -M NAME": about, "--model_args -a K=V …": arguments})


def add_asking(parser: argparse.ArgumentParser) -> None:
    """What is asked of which model, and where the answers go."""
    add_options(parser, TASKS)
    add_paths(parser)
    default = "the embedded SmolLM2-135M-Instruct"
    add_model(parser, f"model backend (default: {default}); see `lm-eval ls models`")
    add_prompting(parser)
    add_options(
        parser,
        _ASKING,
        limit={"type": _number},
        max_batch_size=whole(),
        apply_chat_template={"const": True, "default": False, "type": _no_template_name},
        max_failed={"default": "0"},
    )


def add_loading(parser: argparse.ArgumentParser) -> None:
    """How tasks and models are loaded, and what is said about it."""
    add_options(parser, _LOADING, verbosity={"type": log_level})


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
