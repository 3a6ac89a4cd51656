"""Options → a run: one reading of them for the command line, run files and ``simple_evaluate``.

An option has one name everywhere, and its value is the text that people type or the Python value that
it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lm_eval.answers.ask import allowed_failures
from lm_eval.config.arguments import parse_batch_size, parse_pairs, parse_samples, parse_seeds
from lm_eval.errors import UsageError
from lm_eval.models.base import LM
from lm_eval.requests import PromptOptions, allowed_count, check_limit, sample_seed
from lm_eval.requests.options import MAX_SKIPPED
from lm_eval.run.plan import BATCH_LOOK_S, SEEDS, Run, RunOptions
from lm_eval.tasks.fewshot import DEFAULT_SEED


def run_of(given: Mapping[str, Any]) -> Run:
    """The run that options ask for; one that is not given has its default."""
    seeds = parse_seeds(given.get("seed", SEEDS))
    model = given.get("model")
    arguments = parse_pairs(given.get("model_args"), flag="--model_args")
    run = Run(
        model=model,
        model_args={} if isinstance(model, LM) else arguments,
        batch_size=parse_batch_size(given.get("batch_size")),
        max_batch_size=given.get("max_batch_size"),
        device=given.get("device"),
        trust_remote_code=given.get("trust_remote_code", False),
        options=_run_options(given, seeds),
        seeds=seeds,
        parity=given.get("parity", False),
        output_path=given.get("output_path"),
        use_cache=given.get("use_cache"),
        command=given.get("command_line", ()),
        batch_api=_batch_seconds(given.get("batch_api")),
    )
    return run.with_prices(given.get("prices"))


def _run_options(given: Mapping[str, Any], seeds: Mapping[str, int | None]) -> RunOptions:
    seed = seeds["fewshot_seed"]
    limit, samples = given.get("limit"), given.get("samples")
    if limit is not None and samples is not None:
        raise UsageError("--limit and --samples both choose docs. Give one of them.")
    if limit is not None:
        check_limit(limit)
    max_failed, max_skipped = given.get("max_failed", 0), given.get("max_skipped", MAX_SKIPPED)
    allowed_failures(max_failed, 0)
    allowed_count(max_skipped, 0, flag="--max_skipped", what="docs")
    return RunOptions(
        prompt=prompt_options(given, as_chat=given.get("apply_chat_template")),
        limit=limit,
        sample_seed=sample_seed(given.get("sample", "first"), limit, seeds["random_seed"]),
        samples=parse_samples(samples),
        fewshot_seed=DEFAULT_SEED if seed is None else seed,
        predict_only=given.get("predict_only", False),
        bootstrap_iters=given.get("bootstrap_iters", RunOptions.bootstrap_iters),
        runs_unsafe_code=given.get("confirm_run_unsafe_code", False),
        max_failed=max_failed,
        max_skipped=max_skipped,
        show_redacted=given.get("show_redacted", False),
    )


def prompt_options(given: Mapping[str, Any], *, as_chat: bool | None) -> PromptOptions:
    """How questions are asked."""
    if isinstance(as_chat, str):
        raise UsageError(
            f"apply_chat_template={as_chat!r}: models here have one template. Give True."
        )
    multiturn, permute = given.get("fewshot_as_multiturn"), given.get("permute")
    if permute is not None:
        from lm_eval.orders.permutation import parse_permutation

        permute = parse_permutation(permute)
    return PromptOptions(
        num_fewshot=given.get("num_fewshot"),
        as_chat=as_chat,
        multiturn=True if multiturn is None else multiturn,
        system_instruction=given.get("system_instruction"),
        gen_kwargs=parse_pairs(given.get("gen_kwargs"), flag="--gen_kwargs"),
        permute=permute,
    )


def _batch_seconds(value: str | float | None) -> float | None:
    """The seconds between two looks at batches; None: requests are sent one by one."""
    if value in (None, "false", False):
        return None
    try:
        seconds = BATCH_LOOK_S if value in ("true", True) else float(str(value))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--batch_api {value}: give a number of seconds above 0, or none.")
    return seconds
