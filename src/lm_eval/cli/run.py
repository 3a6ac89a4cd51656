"""``lm-eval run``: load tasks and model, evaluate, print the table, write the files."""

from __future__ import annotations

import argparse
import inspect
import json
import random
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lm_eval.cli.arguments import (
    parse_batch_size,
    parse_pairs,
    parse_samples,
    parse_seeds,
    split_list,
)
from lm_eval.errors import LmEvalError, LmEvalWarning, UsageError
from lm_eval.evaluator import (
    Prepared,
    RunOptions,
    adapt,
    check_groups,
    group_results,
    prepare_all,
    run_all,
)
from lm_eval.formats.compile import register_format_folder
from lm_eval.models.base import LM
from lm_eval.registry import MODELS
from lm_eval.reports.files import ResultWriter, RunInfo, results_dict
from lm_eval.reports.redact import HIDDEN, is_secret_name, redacted
from lm_eval.reports.terminal import visible
from lm_eval.requests import PromptOptions, check_limit
from lm_eval.tasks.loader import TaskManager

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show what came out."""
    if not split_list(args.tasks):
        raise UsageError(
            "No tasks. Name some: `lm-eval run --tasks demo_mcq@*`; `lm-eval ls tasks` lists them."
        )
    check_output(args)
    seeds = parse_seeds(args.seed)
    options = run_options(args, seeds)
    model_args = backend_arguments(args)
    with hiding(secrets_in(model_args)):
        return _run(args, seeds, options, model_args)


def _run(
    args: argparse.Namespace,
    seeds: Mapping[str, int | None],
    options: RunOptions,
    model_args: Mapping[str, Any],
) -> int:
    from lm_eval.reports.table import print_results
    from lm_eval.reports.terminal import console

    started = time.time()
    model_name = name_of(args.model, model_args)
    random.seed(seeds["random_seed"])
    add_formats(args.format_path)
    # Everything that can be wrong with tasks is found before a model is loaded.
    loaded = TaskManager(args.include_path).load(split_list(args.tasks))
    groups = [] if args.predict_only else list(loaded["groups"].values())
    prepared = prepare_all(list(loaded["tasks"].values()), options)
    check_groups(groups)
    with opened_writer(args.output_path, model_name) as writer:
        model = load_model(args.model, model_args)
        try:
            prepared, options = adapt(prepared, model, options)
            if args.write_out:
                write_out(prepared)
            sink = writer.add_sample if writer else None
            results = run_all(prepared, model, options, on_sample=sink)
            facts = model.describe()
        finally:
            model.close()
        scored_groups = group_results(groups, results)
        info = run_info(args, model_args, model_name, seeds, options, facts, started)
        path = None
        if (
            writer is not None
        ):  # before anything is printed: a closed pipe must not cost the results
            hashes = writer.task_hashes()
            content = results_dict(results, run=info, groups=scored_groups, task_hashes=hashes)
            path = writer.finish(content)
    if not args.predict_only:
        print_results(results, console(), groups=scored_groups)
    if path is not None:
        console().print(f"Written: {path}", markup=False, highlight=False, soft_wrap=True)
    return 0


def secrets_in(value: Any, *, is_secret: bool = False) -> list[str]:
    """The values below a field whose name says that it holds a secret, longest first."""
    if isinstance(value, Mapping):
        found = [
            one
            for key, item in value.items()
            for one in secrets_in(item, is_secret=is_secret or is_secret_name(str(key)))
        ]
    elif isinstance(value, list | tuple):
        found = [one for item in value for one in secrets_in(item, is_secret=is_secret)]
    else:
        found = [str(value)] if is_secret and str(value) else []
    return sorted(set(found), key=len, reverse=True)


def hidden(text: str, secrets: Sequence[str]) -> str:
    """The text without these secrets, however they were quoted."""
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1]):
            text = text.replace(form, HIDDEN)
    return text


@contextmanager
def hiding(secrets: Sequence[str]) -> Iterator[None]:
    """Keep secrets out of errors, whoever raises them."""
    try:
        yield
    except LmEvalError as error:
        shown = hidden(str(error), secrets)
        if shown == str(error):
            raise
        raise UsageError(shown) from None


def check_output(args: argparse.Namespace) -> None:
    """Refuse flags that are about files where no files are written, and a model that is unknown."""
    if args.output_path is not None and not args.output_path.strip():
        raise UsageError("--output_path is empty. Name a folder.")
    if args.predict_only and not args.output_path:
        raise UsageError("--predict_only saves answers and so needs --output_path.")
    if args.log_samples and not args.output_path:
        raise UsageError("--log_samples writes files and so needs --output_path.")
    if args.model is not None and args.model not in MODELS:
        raise MODELS.unknown(args.model)


@contextmanager
def opened_writer(output_path: str | None, model_name: str) -> Iterator[ResultWriter | None]:
    """The writer of a run's files, or None; a run that fails at once leaves no empty folder."""
    if output_path is None:
        yield None
        return
    path = Path(output_path).expanduser()
    existing = {folder for folder in (path, *path.parents) if folder.exists()}
    with ResultWriter(path, model_name) as writer:
        try:
            yield writer
        except BaseException:
            with suppress(OSError):  # a folder with files in it stays
                for folder in (writer.folder, *writer.folder.parents):
                    if folder not in existing:
                        folder.rmdir()
            raise


def add_formats(paths: Sequence[str] | None) -> list[str]:
    """Make the formats of each ``--format_path`` known; their names."""
    return [name for path in paths or () for name in register_format_folder(path)]


def backend_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """``--model_args``, with ``--batch_size`` and ``--device`` where the backend takes them."""
    model_args = parse_pairs(args.model_args, flag="--model_args")
    given = {"batch_size": parse_batch_size(args.batch_size), "device": args.device}
    for name, value in given.items():
        if value is None or name in model_args:
            continue
        taken = model_parameters(args.model)
        if taken is None or name in taken:
            model_args[name] = value
        else:
            warnings.warn(
                f"Model {args.model or 'gguf'!r} takes no {name}, so --{name} has no effect.",
                LmEvalWarning,
                stacklevel=2,
            )
    return model_args


def model_class(name: str | None) -> type[LM]:
    """The backend's class; the embedded model's where none is named."""
    backend = name or "gguf"
    found = MODELS.get(backend)
    if not (isinstance(found, type) and issubclass(found, LM)):
        raise UsageError(f"Model {backend!r} is registered but is no LM subclass.")
    return found


def model_parameters(name: str | None) -> list[str] | None:
    """The arguments a backend takes; None where it takes any."""
    parameters = inspect.signature(model_class(name).__init__).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return None if takes_any else list(parameters)


def load_model(name: str | None, model_args: Mapping[str, Any]) -> LM:
    """The backend, ready to answer."""
    backend = name or "gguf"
    try:
        return model_class(name).from_args(model_args, name=backend)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{k}={v!r}" for k, v in redacted(model_args).items()) or "none"
        raise UsageError(
            f"Model {backend!r} cannot be made from these arguments ({given}): "
            f"{type(error).__name__}: {error}. Check --model_args."
        ) from error


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
    if args.limit is not None:
        check_limit(args.limit)
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
        raise UsageError(f"--num_fewshot {args.num_fewshot} is below zero. Give 0 or more.")
    multiturn = args.fewshot_as_multiturn
    wants_multiturn = multiturn == "true"
    if multiturn is not None and wants_multiturn and not as_chat:
        raise UsageError("--fewshot_as_multiturn needs --apply_chat_template.")
    return PromptOptions(
        num_fewshot=args.num_fewshot,
        as_chat=as_chat,
        multiturn=wants_multiturn if multiturn is not None else True,
        system_instruction=args.system_instruction,
        gen_kwargs=parse_pairs(getattr(args, "gen_kwargs", None), flag="--gen_kwargs"),
    )


def write_out(prepared: Sequence[Prepared]) -> None:
    """Print the first prompt of each task."""
    from lm_eval.cli.preview import prompt_lines

    for one in prepared:
        doc = one.docs[0]
        print(f"── {visible(one.task.name)}, doc {doc.doc_id}")
        print("\n".join(prompt_lines(doc.context)))


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
        command=[hidden(part, secrets_in(model_args)) for part in args.command_line],
        random_seed=seeds["random_seed"],
        numpy_seed=seeds["numpy_seed"],
        torch_seed=seeds["torch_seed"],
        fewshot_seed=seeds["fewshot_seed"],
    )
