"""``lm-eval preview``: a doc's exact prompt, what would be scored or read, and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.cli.run import check_multiturn
from lm_eval.config.arguments import parse_pairs, parse_seeds
from lm_eval.config.fields import shorten
from lm_eval.config.yaml import locate_key
from lm_eval.errors import DataError, UsageError
from lm_eval.formats.assemble import Prompt
from lm_eval.formats.checks import CONTENT_FREE
from lm_eval.formats.grammar import Grammar
from lm_eval.formats.items import Item
from lm_eval.formats.list_file import add_formats
from lm_eval.models.base import LM
from lm_eval.models.borders import Border
from lm_eval.models.loading import load_model
from lm_eval.orders.requests import build_ordered
from lm_eval.reports.samples import prompt_lines
from lm_eval.requests import DocRequests, PromptOptions, Request, generation_kwargs, shot_count
from lm_eval.requests.build import build_requests
from lm_eval.run.borders import CHECKED_DOCS, Decode, borders_of, report_borders, tokenizer_of
from lm_eval.run.plan import prompt_options
from lm_eval.support.numbers import counted
from lm_eval.support.secrets import hiding
from lm_eval.support.terminal import visible
from lm_eval.tasks.fewshot import DEFAULT_SEED
from lm_eval.tasks.keys.sample_rows import SampleUse
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.prompts import FormatPrompts
from lm_eval.tasks.task import ConfigurableTask


def preview(args: argparse.Namespace) -> int:
    """Print the prompt of one doc under each chosen format."""
    add_formats(args.format_path)
    use: SampleUse = "always" if args.sample_rows else "if_absent"
    manager = TaskManager(args.include_path, run_code=args.run_code, sample_rows=use)
    tasks = manager.load([args.task])["tasks"]
    check_multiturn(args, as_chat=args.chat)
    options = prompt_options(vars(args), as_chat=args.chat)
    seed = parse_seeds(args.seed)["fewshot_seed"]
    with _tokenizing_model(args) as model:
        for task in tasks.values():
            task.set_fewshot_seed(DEFAULT_SEED if seed is None else seed)
            task.shows_redacted = args.show_redacted
            _preview(task, args.doc, options, model)
    if not tasks:
        raise UsageError(f"{args.task!r} matches no task. List them with `lm-eval ls tasks`.")
    return 0


@contextmanager
def _tokenizing_model(args: argparse.Namespace) -> Iterator[LM | None]:
    """The model whose tokens are shown, loaded as far as needed; None if none is asked for."""
    if args.model is None and args.model_args is None:
        yield None
        return
    model_args = parse_pairs(args.model_args, flag="--model_args")
    with hiding(model_args):
        model = load_model(args.model, model_args, for_tokens=True)
        try:
            yield model
        finally:
            model.close()


def _preview(task: ConfigurableTask, doc_id: int, options: PromptOptions, model: LM | None) -> None:
    total = len(task.eval_docs)
    if not 0 <= doc_id < total:
        raise DataError(
            f"Task {task.name!r} has no doc {doc_id}; its docs are numbered 0 to {total - 1}."
        )
    for earlier in range(doc_id):  # examples come from one stream over all docs
        task.shots(earlier, shot_count(task, options))
    (doc,) = build_ordered(task, [doc_id], options)
    task.check_fitness([doc_id])
    _show(task, doc, options, model)


def _show(
    task: ConfigurableTask, doc: DocRequests, options: PromptOptions, model: LM | None
) -> None:
    shots = counted(len(doc.shots), "shot")
    print(f"{visible(task.name)}, doc {doc.doc_id} of {len(task.eval_docs)}, {shots}")
    if task.uses_sample_rows:
        print(f"(invented rows; `lm-eval fetch {visible(task.task_name)}` gets the data)")
    if task.hides_docs and not task.uses_sample_rows:
        print(
            "The task says `redact: true`: its docs are not to be published, and the prompt is hidden. "
            "--show_redacted shows it."
        )
        for label, text in _origins(task):
            print(f"{label + ':':<10} {text}")
        return
    print("\n".join(prompt_lines(doc.context)))
    tokens = _token_facts(task, doc, options, model) if model is not None else []
    for label, text in _facts(task, doc, options, tokens):
        print(f"{label + ':':<10} {text}")
    print()
    for other in doc.reordered:
        print(f"{visible(task.name)}, doc {doc.doc_id}, {_order(other)}")
        print("\n".join(prompt_lines(other.context)))
        print(f"right:     {visible(repr(other.asked.target), 80)}\n")


def _order(doc: DocRequests) -> str:
    """The order in which the choices of the data are shown, numbered from 1."""
    return f"choices in the order {' '.join(str(choice + 1) for choice in doc.order)}"


def _facts(
    task: ConfigurableTask,
    doc: DocRequests,
    options: PromptOptions,
    tokens: Sequence[tuple[str, str]],
) -> list[tuple[str, str]]:
    asked = doc.asked
    facts = []
    if asked.continuations:
        scored = [getattr(request, "continuation", "") for request in doc.requests]
        count = len(asked.continuations)
        if asked.inputs:
            fills = "  ".join(visible(repr(_end(text)), 60) for text in asked.inputs)
            facts.append(("after", f"each in turn: {fills}"))
        facts.append(("scored", "  ".join(visible(repr(text), 40) for text in scored[:count])))
        if task.scores_without_question:
            facts.append(("alone", _prior(doc.requests[count])))
        if task.scores_content_free:
            words = ", ".join(map(repr, CONTENT_FREE))
            shown = f"each again with {words} as the question, for acc_calibrated"
            facts.append(("no content", shown))
    else:
        facts.append(("generates", f"until {_generation(task, options)}"))
    facts += tokens
    if doc.reordered or doc.left_in_place:
        why = doc.left_in_place or "below"
        facts.append(("orders", f"{1 + len(doc.reordered)} ({why})"))
    if task.config.shuffle_choices is not None and asked.item is not None:
        facts.append(("shuffled", _shuffling(task, asked.item)))
    fmt = task.format
    if fmt is not None and fmt.scorer is not None:
        facts.append(("read by", visible(_one_line(fmt.scorer.as_spec()))))
    if grammar := getattr(doc.requests[0], "grammar", None):
        facts.append(("held to", visible(_held_to(grammar))))
    is_program = fmt is not None and fmt.program is not None and asked.item is not None
    right = (
        f"passes {visible(repr(asked.gold[0]), 80)}"
        if is_program
        else visible(repr(asked.target), 80)
    )
    facts.append(("right", right))
    if fmt is not None:
        facts.append(
            ("format", f"{fmt.name}, version {fmt.version}, fingerprint {fmt.fingerprint}")
        )
    if doc.shots:
        facts.append(("shots", f"few-shot docs {', '.join(map(str, doc.shots))}"))
    return [*facts, *_origins(task)]


def _held_to(grammar: Grammar) -> str:
    """What an enforced reply may be."""
    allowed = shorten(grammar.regex, 80)
    if grammar.opening is None:
        return allowed
    return f"free text, then {grammar.opening!r}, then {allowed}"


def _end(text: str) -> str:
    """The last words of a text, as texts that begin alike differ there."""
    words = text[-40:].split(" ")
    return text if len(text) <= _SHORT else f"…{' '.join(words[1:] or words)}"


_SHORT = 40


def _shuffling(task: ConfigurableTask, item: Item) -> str:
    """The number in the data of each choice shown, counted from 1."""
    seed = task.config.shuffle_choices
    assert isinstance(task.prompts, FormatPrompts), "only formats shuffle"
    numbers = " ".join(str(index + 1) for index in task.prompts.data_order(item))
    return f"choices {numbers} of the data (shuffle_choices: {seed})"


def _prior(request: Request) -> str:
    """The context in which choices are scored again without the question, for mutual information."""
    context = getattr(request, "context", None)
    shown = visible(repr(str(context))) if isinstance(context, Prompt) else "the chat alone"
    return f"each again after {shown}, for acc_mutual_info"


def _token_facts(
    task: ConfigurableTask, doc: DocRequests, options: PromptOptions, model: LM
) -> list[tuple[str, str]]:
    """How the model's tokenizer splits what is scored, and what is wrong with that."""
    if not doc.asked.continuations:
        return []
    tokenizer = tokenizer_of(model)
    if tokenizer is None:
        name = type(model).__name__
        return [("tokens", f"unknown: model backend {name} has no tokenizer that can be used here")]
    if options.as_chat and not model.capabilities.chat_template:
        return [("tokens", f"unknown: {type(model).__name__} has no chat template")]
    borders = borders_of(task, doc, tokenizer).borders
    shown = "  ".join(_shown_tokens(border, tokenizer.decode) for border in borders)
    task.set_fewshot_seed(task.seed)  # the sample begins where a run does
    sample = list(build_requests(task, range(min(CHECKED_DOCS, len(task.eval_docs))), options))
    report = report_borders(task, sample, len(sample), model)
    problems = [("warning", visible(sentence)) for sentence in report.sentences()] if report else []
    fine = f"in all {len(sample)} docs checked, every choice has tokens of its own"
    return [("tokens", shown), *(problems or [("borders", fine)])]


def _shown_tokens(border: Border, decode: Decode | None) -> str:
    """A continuation's tokens, one by one: ``' A'`` or ``' new'+' york'``."""
    if decode is None:
        return f"{visible(repr(border.continuation_text), 40)} ({len(border.scored)})"
    return visible("+".join(repr(decode([token])) for token in border.scored) or "nothing", 60)


def _origins(task: ConfigurableTask) -> list[tuple[str, str]]:
    """Which file and line each field came from."""
    raw = task.config.raw
    origins = []
    specs = (
        ("where", "rows", task.config.where),
        ("doc_to_context", "context", raw.context),
        ("doc_to_text", "question", raw.text),
        ("doc_to_choice", "choices", raw.choice),
        ("doc_to_rationale", "reasons", raw.rationale),
        ("doc_to_target", "target", raw.target),
        ("fewshot_match", "shots like", task.config.fewshot_match),
    )
    for key, label, spec in specs:
        if spec is None:
            continue
        location = locate_key(task.config.source, (key,)) if task.config.source else None
        where = f"{location[0]}, line {location[1]}" if location else "default"
        origins.append((label, f"{visible(shorten(spec, 60))} ({key}; {where})"))
    return origins


def _generation(task: ConfigurableTask, options: PromptOptions) -> str:
    kwargs = dict(generation_kwargs(task, options))
    until = kwargs.pop("until", None) or []
    stops = ", ".join(repr(stop) for stop in ([until] if isinstance(until, str) else until))
    return visible(f"{stops or 'the end'}  {_one_line(kwargs)}")


def _one_line(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {value[key]!r}" for key in value)
    if isinstance(value, list):
        return "; then ".join(_one_line(item) for item in value)
    return str(value)
