"""``lm-eval preview``: a doc's exact prompt, what would be scored or read, and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from lm_eval.cli.arguments import parse_seeds
from lm_eval.cli.run import prompt_options
from lm_eval.config.fields import shorten
from lm_eval.config.yaml import locate_key
from lm_eval.errors import DataError, UsageError
from lm_eval.reports.prompts import prompt_lines
from lm_eval.reports.terminal import visible
from lm_eval.requests import DocRequests, build_requests, generation_kwargs, shot_count
from lm_eval.runs import add_formats
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


def preview(args: argparse.Namespace) -> int:
    """Print the prompt of one doc under each chosen format."""
    add_formats(args.format_path)
    manager = TaskManager(args.include_path, run_code=args.run_code)
    tasks = manager.load([args.task])["tasks"]
    options = prompt_options(args, as_chat=args.chat)
    seed = parse_seeds(args.seed)["fewshot_seed"]
    for task in tasks.values():
        task.set_fewshot_seed(1234 if seed is None else seed)
        total = len(task.eval_docs)
        if not 0 <= args.doc < total:
            raise DataError(
                f"Task {task.name!r} has no doc {args.doc}; its docs are numbered 0 to {total - 1}."
            )
        for earlier in range(args.doc):  # examples come from one stream over all docs
            task.shots(earlier, shot_count(task, options))
        (doc,) = build_requests(task, [args.doc], options)
        task.check_fitness([args.doc])
        _show(task, doc, options)
    if not tasks:
        raise UsageError(f"{args.task!r} names no task.")
    return 0


def _show(task: ConfigurableTask, doc: DocRequests, options: Any) -> None:
    shots = f"{len(doc.shots)} {'shot' if len(doc.shots) == 1 else 'shots'}"
    print(f"{visible(task.name)}, doc {doc.doc_id} of {len(task.eval_docs)}, {shots}")
    print("\n".join(prompt_lines(doc.context)))
    for label, text in _facts(task, doc, options):
        print(f"{label + ':':<10} {text}")
    print()


def _facts(task: ConfigurableTask, doc: DocRequests, options: Any) -> list[tuple[str, str]]:
    asked = doc.asked
    facts = []
    if asked.continuations:
        scored = [getattr(request, "continuation", "") for request in doc.requests]
        facts.append(("scored", "  ".join(visible(repr(text), 40) for text in scored)))
    else:
        facts.append(("generates", f"until {_generation(task, options)}"))
    fmt = task.format
    if fmt is not None and fmt.scorer is not None:
        facts.append(("read by", visible(_one_line(fmt.scorer.as_spec()))))
    facts.append(("right", visible(repr(asked.target), 80)))
    if fmt is not None:
        facts.append(
            ("format", f"{fmt.name}, version {fmt.version}, fingerprint {fmt.fingerprint}")
        )
    if doc.shots:
        facts.append(("shots", f"few-shot docs {', '.join(map(str, doc.shots))}"))
    return [*facts, *_origins(task)]


def _origins(task: ConfigurableTask) -> list[tuple[str, str]]:
    """Which file and line each field came from."""
    raw = task.config.raw
    found = []
    specs = (
        ("doc_to_text", "question", raw.text),
        ("doc_to_choice", "choices", raw.choice),
        ("doc_to_target", "target", raw.target),
    )
    for key, label, spec in specs:
        if spec is None:
            continue
        place = locate_key(task.config.source, (key,)) if task.config.source else None
        where = f"{place[0]}, line {place[1]}" if place else "default"
        found.append((label, f"{visible(shorten(spec, 60))} ({key}; {where})"))
    return found


def _generation(task: ConfigurableTask, options: Any) -> str:
    given = dict(generation_kwargs(task, options))
    until = given.pop("until", None) or []
    stops = ", ".join(repr(stop) for stop in ([until] if isinstance(until, str) else until))
    return visible(f"{stops or 'the end'}  {_one_line(given)}")


def _one_line(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {value[key]!r}" for key in value)
    if isinstance(value, list):
        return "; then ".join(_one_line(one) for one in value)
    return str(value)
