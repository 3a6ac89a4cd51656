"""``lm-eval run``: load tasks and model, evaluate, print the table, write the files."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_eval.cli.arguments import (
    merge_config_file,
    parse_pairs,
    parse_samples,
    parse_seeds,
    split_list,
)
from lm_eval.errors import UsageError
from lm_eval.evaluator import RunOptions, evaluate, group_results, prepare
from lm_eval.formats.compile import register_format_folder
from lm_eval.models.base import LM
from lm_eval.registry import MODELS
from lm_eval.reports.files import ResultWriter, RunInfo, results_dict
from lm_eval.requests import PromptOptions
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show what came out."""
    from lm_eval.reports.table import print_results
    from lm_eval.reports.terminal import console

    started = time.time()
    merge_config_file(args, RUN_DEFAULTS)
    selectors = split_list(args.tasks)
    if not selectors:
        raise UsageError(
            "No tasks. Name some: `lm-eval run --tasks demo_mcq@*`; `lm-eval ls tasks` lists them."
        )
    if args.predict_only and not args.output_path:
        raise UsageError("--predict_only saves answers and so needs --output_path.")
    if args.log_samples and not args.output_path:
        raise UsageError("--log_samples writes files and so needs --output_path.")
    seeds = parse_seeds(args.seed)
    random.seed(seeds["random_seed"])
    model_args = backend_arguments(args)
    model_name = name_of(args.model, model_args)
    add_formats(args.format_path)
    loaded = TaskManager(args.include_path).load(selectors)
    tasks = list(loaded["tasks"].values())
    options = run_options(args, seeds)
    for task in tasks:  # everything that can be wrong with tasks is found before a model is loaded
        task.eval_docs  # noqa: B018
    with (
        ResultWriter(args.output_path, model_name) if args.output_path else nullcontext() as writer
    ):
        model = load_model(args.model, model_args)
        options = with_capabilities(options, model)
        if args.write_out:
            write_out(tasks, options)
        try:
            results = evaluate(
                tasks, model, options, on_sample=writer.add_sample if writer else None
            )
            facts = model.describe()
        finally:
            model.close()
        groups = (
            [] if args.predict_only else group_results(list(loaded["groups"].values()), results)
        )
        info = run_info(args, model_args, model_name, seeds, options, facts, started)
        if not args.predict_only:
            print_results(results, console(), groups=groups)
        if writer is not None:
            hashes = writer.task_hashes()
            path = writer.finish(results_dict(results, run=info, groups=groups, task_hashes=hashes))
            console().print(f"Written: {path}", markup=False, highlight=False, soft_wrap=True)
    return 0


def add_formats(paths: Sequence[str] | None) -> list[str]:
    """Make the formats of each ``--format_path`` known; their names."""
    return [name for path in paths or () for name in register_format_folder(path)]


def backend_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """``--model_args``, with ``--batch_size`` and ``--device`` where they are given."""
    model_args = parse_pairs(args.model_args, flag="--model_args")
    for name in ("batch_size", "device"):
        value = getattr(args, name)
        if value is not None and name not in model_args:
            model_args[name] = int(value) if str(value).isdigit() else value
    return model_args


def load_model(name: str | None, model_args: Mapping[str, Any]) -> LM:
    """The backend, ready to answer; the embedded model where none is named."""
    backend = name or "gguf"
    model_class = MODELS.get(backend)
    if not (isinstance(model_class, type) and issubclass(model_class, LM)):
        raise UsageError(f"Model {backend!r} is registered but is no LM subclass.")
    return model_class.from_args(model_args, name=backend)


def name_of(backend: str | None, model_args: Mapping[str, Any]) -> str:
    """What the model is called in file names and results."""
    for key in ("pretrained", "model", "path", "engine"):
        if model_args.get(key):
            value = str(model_args[key])
            return Path(value).stem if key == "path" else value
    return EMBEDDED_MODEL if backend in (None, "gguf") else str(backend)


def run_options(args: argparse.Namespace, seeds: Mapping[str, int | None]) -> RunOptions:
    """The options that tasks see."""
    if args.limit is not None and args.samples is not None:
        raise UsageError("--limit and --samples both choose docs. Give one of them.")
    if args.limit is not None and not float(args.limit) > 0:
        raise UsageError(
            f"--limit {args.limit:g} asks for no docs. Give a number from 1 up, or a share between "
            "0 and 1."
        )
    prompt = prompt_options(args, as_chat=bool(args.apply_chat_template))
    seed = seeds["fewshot_seed"]
    return RunOptions(
        prompt=prompt,
        limit=args.limit,
        samples=parse_samples(args.samples),
        fewshot_seed=1234 if seed is None else seed,
        predict_only=args.predict_only,
    )


def prompt_options(args: argparse.Namespace, *, as_chat: bool) -> PromptOptions:
    """How questions are put, from the flags that ``run`` and ``preview`` share."""
    if args.num_fewshot is not None and args.num_fewshot < 0:
        raise UsageError(f"--num_fewshot {args.num_fewshot} is below zero.")
    multiturn = args.fewshot_as_multiturn
    wants_multiturn = str(multiturn).lower() == "true"
    if multiturn is not None and wants_multiturn and not as_chat:
        raise UsageError("--fewshot_as_multiturn needs --apply_chat_template.")
    return PromptOptions(
        num_fewshot=args.num_fewshot,
        as_chat=as_chat,
        multiturn=wants_multiturn if multiturn is not None else True,
        system_instruction=args.system_instruction,
        gen_kwargs=parse_pairs(getattr(args, "gen_kwargs", None), flag="--gen_kwargs"),
    )


def with_capabilities(options: RunOptions, model: LM) -> RunOptions:
    """The options, as far as the model can follow them."""
    if model.capabilities.prefill or not options.prompt.as_chat:
        return options
    return replace(options, prompt=replace(options.prompt, can_prefill=False))


def write_out(tasks: Sequence[ConfigurableTask], options: RunOptions) -> None:
    """Print the first prompt of each task."""
    from lm_eval.cli.preview import prompt_lines

    for task in tasks:
        first = replace(options, limit=1, samples=None)
        doc = prepare(task, None, first).docs[0]
        print(f"── {task.name}, doc {doc.doc_id}")
        print("\n".join(prompt_lines(doc.context)))
        task.set_fewshot_seed(options.fewshot_seed)


def run_info(
    args: argparse.Namespace,
    model_args: Mapping[str, Any],
    model_name: str,
    seeds: Mapping[str, int | None],
    options: RunOptions,
    facts: Mapping[str, Any],
    started: float,
) -> RunInfo:
    return RunInfo(
        model=args.model or "gguf",
        model_name=model_name,
        model_args=dict(model_args),
        model_facts=dict(facts),
        batch_size=args.batch_size,
        device=args.device,
        limit=args.limit,
        gen_kwargs=dict(options.prompt.gen_kwargs) or None,
        system_instruction=args.system_instruction,
        chat_template=facts.get("chat_template") if args.apply_chat_template else None,
        fewshot_as_multiturn=options.prompt.multiturn if options.prompt.as_chat else None,
        start_time=started,
        end_time=time.time(),
        command=sys.argv,
        random_seed=seeds["random_seed"],
        numpy_seed=seeds["numpy_seed"],
        torch_seed=seeds["torch_seed"],
        fewshot_seed=seeds["fewshot_seed"],
    )


RUN_DEFAULTS: dict[str, Any] = {
    "seed": "0,1234,1234,1234",
    "log_samples": False,
    "predict_only": False,
    "write_out": False,
    "apply_chat_template": False,
}
