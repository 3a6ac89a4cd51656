"""``simple_evaluate`` and ``lm-eval run`` take the same options, with the same defaults.

A ``--config`` file needs no check of its own: its keys are the options of the command line. The
signature is written out, so that editors and type checkers see it; an option that is added in one place
only fails here.
"""

from __future__ import annotations

import inspect

from lm_eval import simple_evaluate
from lm_eval.cli import build_parser
from lm_eval.config.arguments import parse_seeds

SEEDS = {
    "random_seed": "random_seed",
    "numpy_random_seed": "numpy_seed",
    "torch_random_seed": "torch_seed",
    "fewshot_random_seed": "fewshot_seed",
}
"""Argument of ``simple_evaluate`` → its part of ``--seed``."""
ONLY_IN_PYTHON = {
    "bootstrap_iters",
    "evaluation_tracker",  # objects
    "task_manager",
    "rewrite_requests_cache",  # values of --cache_requests
    "delete_requests_cache",
}
ONLY_IN_A_SHELL = {
    "include_path",  # of the TaskManager
    "format_path",
    "data_path",
    "output_path",  # what is written and printed: Python gets it back
    "table",
    "require",  # Python compares the scores itself
    "junit",
    "summary",
    "batch_api",  # batches outlive a process: the same command collects them
    "compare",
    "show_config",
    "dry_run",
    "max_failed",
    "trust_remote_code",  # among model_args
    "config",
    "command",
    "seed",
}
OTHER_DEFAULTS = {
    "model": (inspect.Parameter.empty, None),  # a shell has the embedded model
    "apply_chat_template": (False, None),  # as the embedded model needs it
    "fewshot_as_multiturn": (True, None),  # true; said without a chat, it is an error in a shell
    "cache_requests": (False, None),
    "log_samples": (True, False),  # --output_path turns it on
}
"""Option → its defaults in Python and in a shell, where they are not the same."""


def python_defaults() -> dict[str, object]:
    parameters = inspect.signature(simple_evaluate).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def shell_defaults() -> dict[str, object]:
    return vars(build_parser("run").parse_args(["run"]))


def test_the_same_options() -> None:
    ours, theirs = set(python_defaults()), set(shell_defaults())
    assert ours - theirs - set(SEEDS) == ONLY_IN_PYTHON
    assert theirs - ours == ONLY_IN_A_SHELL


def test_the_same_defaults() -> None:
    ours, theirs = python_defaults(), shell_defaults()
    differing = {
        name: (ours[name], theirs[name])
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    }
    assert differing == OTHER_DEFAULTS
    seeds = parse_seeds(str(theirs["seed"]))
    assert {name: ours[name] for name in SEEDS} == {n: seeds[part] for n, part in SEEDS.items()}
