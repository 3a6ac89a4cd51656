"""The options of a run, each declared once: how it is written, what it does, its type and its default.

``run`` has all of them, and other commands those that they name. A key of a ``--config`` file and an
argument of ``simple_evaluate`` have the name of the option; ``lm_eval.run.plan`` makes a run of them.
Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from lm_eval.cli.program import add_options, count_option, int_option, log_level, true_or_false


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number. Give a whole number from 1 up, or a share between 0 and 1"
        ) from None


def _no_template_name(text: str) -> bool:
    if text.lower() in ("true", "false", "default"):
        return text.lower() != "false"
    raise argparse.ArgumentTypeError(
        f"a template cannot be chosen by name ({text!r}). Give true or false, or the flag alone to use "
        "the model's own template"
    )


OPTIONS = {
    # What is asked of which model, and where the answers go
    "--tasks -t TASK …": "tasks, groups, tags, globs, .yaml files or folders, separated by commas "
    "or spaces; task@format selects a format, task@* every format of the task",
    "--include_path DIR": "a folder with more task files; can be repeated",
    "--format_path DIR": "a folder (or file) with more formats, one YAML file each; can be "
    "repeated",
    "--data_path DIR": "use the data sets in this folder, downloaded by `lm-eval fetch --to DIR`, "
    "and no network",
    "--model -M NAME": "model backend (default: the embedded SmolLM2-135M-Instruct); see `lm-eval "
    "ls models`",
    "--model_args -a K=V …": "arguments for the backend, k=v,k=v",
    "--num_fewshot -f N": "number of examples before each question",
    "--system_instruction TEXT": "text at the very start of every prompt",
    "--fewshot_as_multiturn [true|false]": "in chat, send each example as separate turns "
    "(default: true)",
    "--permute MODE": "also ask each doc with its choices in other orders, and report a score "
    "corrected for position bias as well as the plain one: cyclic (as many orders as choices), "
    "full (all orders), pride (all cyclic orders for 5%% of the docs; pride=0.1 for another "
    "share), or none",
    "--seed N[,N,N,N]": "seeds for python, numpy, torch and few-shot sampling (default: "
    "0,1234,1234,1234)",
    "--limit -L N": "only N docs of each task; below 1, that fraction of them",
    "--sample MODE": "which docs --limit takes: first (default), or random: drawn with the first "
    "number of --seed, in proportion from each part that the task's score_by names",
    "--samples -E JSON": "only these docs: '{\"my_task\": [0, 3]}' or a file with such JSON",
    "--repeats K": "K replies to each doc of tasks that generate text: their mean, pass@K and maj@K, "
    "with intervals over docs; the model must sample, as with --gen_kwargs temperature=0.7",
    "--batch_size -b N": "batch size of the backend",
    "--max_batch_size N": "largest batch that --batch_size auto tries",
    "--device NAME": "device of the backend, such as cuda:0",
    "--gen_kwargs K=V …": "generation arguments, such as max_gen_toks=64,temperature=0.7",
    "--apply_chat_template [true|false]": "apply the model's chat template to every prompt; the "
    "default for the embedded model, except for tasks without a format",
    "--output_path -o DIR": "folder for the results, or the .json file to write them to",
    "--use_cache -c FILE": "take answers from this file and add new ones to it, across runs; "
    "without it, an interrupted run resumes when the same command is given again",
    "--batch_api [SECONDS]": "submit requests as batches to OpenAI or Anthropic, answered within "
    "a day at half the price, and check every SECONDS (default: 60); a run that died collects its "
    "batches",
    "--max_failed N": "how many requests may fail for good, as a number or a share such as 1%%; "
    "their docs are left out of every score (default: 0, the first failure stops the run)",
    "--max_skipped N": "how many docs of a task may be left out because they cannot be asked "
    "(fewer than two choices, no gold answer), as a number or a share (default: 1%%)",
    "--show_redacted": "show the docs of tasks that say `redact: true`, in samples files and "
    "previews",
    "--prices FILE": "a YAML file with model prices per million tokens; adds costs to the output",
    "--dry_run": "print what the run would ask and cost; sends nothing, writes no file",
    "--config -C FILE": "a YAML file with any of these options",
    # What `run` shows and writes
    "--log_samples -s": "also write every prompt and answer (needs --output_path, which turns it "
    "on)",
    "--predict_only -x": "only save the answers, do not score them (needs --output_path)",
    "--table screen|full|markdown": "how scores are shown: on one screen with what they mean, the "
    "same with every metric and remark, or as EleutherAI's harness prints them (default: screen)",
    "--write_out -w": "print the first prompt of each task",
    "--require CONDITION …": "scores that the run must reach, such as 'mmlu@mcqa:acc>=0.6', "
    "'mmlu@mcqa:acc.low>=0.55' (the lower end of its interval) or 'gsm8k@cot:read>=0.95'; the "
    "exit code is 3 if one does not hold",
    "--junit FILE": "write the conditions of --require as a JUnit file",
    "--summary FILE": "write the scores and conditions as Markdown, for the summary of a pull "
    "request",
    # How tasks and models are loaded, and what is logged
    "--parity": "undo the deliberate differences from EleutherAI's harness, for comparisons with "
    "it",
    "--metadata K=V …": "added to the metadata of every task (passed to custom_dataset), k=v,k=v "
    "or JSON",
    "--confirm_run_unsafe_code": "run tasks marked unsafe_code, which execute code that the model "
    "writes",
    "--trust_remote_code": "let the backend run code that comes with a model, if it supports that",
    "--verbosity -v LEVEL": "log level: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: WARNING)",
    # What scripts for EleutherAI's harness give, and the comparison at the end
    "--cache_requests [true|refresh|delete|false]": "accepted; requests are rebuilt each time, "
    "which is faster than reading them from a cache",
    "--check_integrity": "accepted; every run checks its tasks before the model is loaded",
    "--show_config": "print the full config of each task",
    "--compare [true|false]": "if a task is asked under several formats, end with what their "
    "differences mean (default: true); see `lm-eval compare`",
}
"""Usage → help, in the order of the help."""
_SETTINGS: dict[str, dict[str, Any]] = {
    "include_path": {"action": "append"},
    "format_path": {"action": "append"},
    "num_fewshot": count_option(),
    "fewshot_as_multiturn": {"const": True, "type": true_or_false},
    "seed": {"default": "0,1234,1234,1234"},
    "limit": {"type": _number},
    "sample": {"default": "first"},
    "max_batch_size": int_option(),
    "repeats": int_option(),
    "apply_chat_template": {"const": True, "type": _no_template_name},
    "max_failed": {"default": "0"},
    "max_skipped": {"default": "1%"},
    "table": {"default": "screen"},
    "verbosity": {"type": log_level},
    "compare": {"default": "true"},
}
"""Types and defaults of those that are more than a text or a switch."""
_USAGES = {usage.split()[0].removeprefix("--"): usage for usage in OPTIONS}
_NAMES = tuple(_USAGES)


def _span(first: str, last: str) -> tuple[str, ...]:
    return _NAMES[_NAMES.index(first) : _NAMES.index(last) + 1]


PATHS = _span("include_path", "format_path")
PROMPTING = _span("num_fewshot", "seed")
OF_SWEEP = (*_span("tasks", "config"), *_span("parity", "verbosity"))
"""What a sweep has in common with a run."""


def add_run_options(
    parser: argparse.ArgumentParser, names: Iterable[str] = _NAMES, **about: str
) -> None:
    """Add options of a run; ``about`` has another help for some of them."""
    for name in names:
        usage = _USAGES[name]
        text = about.get(name, OPTIONS[usage])
        add_options(parser, {usage: text}, **{name: _SETTINGS.get(name, {})})
