"""Whether a task can be asked: its keys fit together, and its fields are raw enough for a format.

A format lays out question and choices itself. If ``doc_to_text`` already shows the choices, or the
choices are bare labels, the prompt would show them twice or not at all, so that is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from lm_eval.config.fields import compile_field, compile_template, is_jinja, shorten
from lm_eval.errors import (
    ConfigError,
    FieldError,
    FormatError,
    KnownBadDocError,
    LmEvalError,
    LmEvalWarning,
    UnsupportedError,
    UsageError,
    listing,
)
from lm_eval.formats.items import Item, counted_labels
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.tasks.checks import score_fields
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.fewshot import check_sampler
from lm_eval.tasks.prompts import DocPrompt, FormatPrompts

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask


CHECKED_DOCS = 5
LOOKED_AT = 200
FEWEST = 20
"""With this many docs, golds that are all at one position cannot be chance."""
_LABEL = r"(?:^|[\s(\[])\(?[A-Za-z0-9]{1,2}[.):\]]\)?\s*"


def check_fitness(
    prompts: FormatPrompts, config: TaskConfig, docs: Sequence[Mapping[str, Any]]
) -> None:
    """Raise ``FormatError`` if the fields are not raw.

    Warn about literal text in the question, about a ``process_results`` that will not run, and about
    stop strings of the task that cut off what the format asks for.
    """
    items = list(_first_items(prompts, docs))
    if not items:
        return
    fmt = prompts.format
    if fmt.needs_choices and _are_bare_labels(items, config):
        raise FormatError(
            f"the choices are bare labels ({', '.join(items[0].choices[:6])}), so format "
            f"{fmt.name!r} has no choice texts to show or score. Give the texts: `doc_to_choice: "
            "<the field that holds them>`, and the bare question in `doc_to_text`."
        )
    if any(_shows_choices(item) for item in items):
        raise FormatError(
            f"doc_to_text already shows the choices ({shorten(items[0].question, 60)}), and format "
            f"{fmt.name!r} would show them again. Give raw fields: the bare question in "
            "`doc_to_text` (for example `doc_to_text: question`) and the choices in `doc_to_choice`."
        )
    if config.process_results is not None:
        warnings.warn(
            f"Task {config.task!r} scores with a process_results of its own, which format "
            f"{fmt.name!r} does not run: only what doc_to_target gives counts as right. Check that "
            "it names every right answer.",
            LmEvalWarning,
            stacklevel=4,
        )
    cutting = _stops_that_cut(fmt, config)
    if cutting:
        warnings.warn(
            f"Task {config.task!r}: {', '.join(map(repr, cutting))} of its generation_kwargs.until ends "
            f"a reply before the answer that format {fmt.name!r} asks for at its end. Take it out of "
            """the task, or give all stop strings with --gen_kwargs '{"until": [...]}'.""",
            LmEvalWarning,
            stacklevel=4,
        )
    literal = compile_field(config.raw.text).literal_text.strip()
    if re.search(r"[^\W\d_]", literal):
        warnings.warn(
            f"Task {config.task!r}: doc_to_text carries text of its own ({shorten(literal, 40)}), "
            f"which is inside the question of format {fmt.name!r}. The prompt becomes:\n"
            f"{fmt.question_turn(items[0]).user}",
            LmEvalWarning,
            stacklevel=4,
        )


def _stops_that_cut(fmt: PromptFormat, config: TaskConfig) -> list[str]:
    """The task's stop strings that end lines or sentences, if the answer comes after reasons."""
    phrase = dict(fmt.scorer.options).get("phrase") if fmt.scorer else None
    asked_last = (fmt.answer_prompt or "").rstrip()
    if phrase is None or fmt.gen_prefix is not None or asked_last.endswith(phrase):
        return []
    return [stop for stop in config.own_stops if not re.search(r"[^\W_]|<", str(stop))]


def _first_items(prompts: FormatPrompts, docs: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    """The first docs that can be asked at all; their golds do not matter here."""
    for doc in docs[:CHECKED_DOCS]:
        try:
            yield prompts.unanswered(doc)
        except LmEvalError as error:
            if error.skip_reason is None:
                raise


def _are_bare_labels(items: Sequence[Item], config: TaskConfig) -> bool:
    """Whether every doc's choices are just A, B, C …, or the same 1, 2, 3 … for every doc."""
    stripped = [tuple(choice.strip("().: ") for choice in item.choices) for item in items]
    if all(labels == counted_labels("letters", len(labels)) for labels in stripped):
        return True
    is_fixed = isinstance(config.raw.choice, list) or (len(items) > 2 and len(set(stripped)) == 1)
    numbered = all(
        labels in (counted_labels("numbers", len(labels)), tuple(map(str, range(len(labels)))))
        for labels in stripped
    )
    return is_fixed and numbered


def _shows_choices(item: Item) -> bool:
    """Whether the question holds every choice behind a label, in order."""
    if not item.choices:
        return False
    at = 0
    for choice in item.choices:
        match = re.compile(_LABEL + re.escape(choice.strip()), re.MULTILINE).search(
            item.question, at
        )
        if match is None:
            return False
        at = match.end()
    return True


def lacks_rationale(config: TaskConfig) -> bool:
    """Whether examples show only answers, though the format asks for reasons first."""
    fmt, settings = config.prompt_format, config.fewshot_config or {}
    rationale = settings.get("doc_to_rationale", config.raw.rationale)
    return fmt is not None and fmt.reasons_first and rationale is None


def show_choices(first: Iterable[DocPrompt]) -> bool | None:
    """Whether prompts show the texts of the choices; None for docs without choices.

    The prompts themselves decide, since a question may name its choices without the format's help.
    A format that drops choices beyond its labels shows most of them.
    """
    shown = [
        2 * sum(_names(asked.turn.user, choice.strip()) for choice in asked.choices)
        > len(asked.choices)
        for asked in first
        if len(asked.choices) > 1 and not asked.inputs
    ]
    return all(shown) if shown else None


def _names(text: str, choice: str) -> bool:
    """Whether a text contains a choice, not as part of a longer word or number."""
    return re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", text) is not None


def check_supported(config: TaskConfig, *, task: str) -> None:
    """Refuse keys that would change the prompt and are not supported."""
    if config.use_prompt is not None:
        raise UnsupportedError(
            f"Task {task!r} sets `use_prompt`, and prompts of the promptsource library are not "
            "supported in this release. Remove the key to ask about the text alone, or leave the "
            "task out.",
            key="use_prompt",
            path=config.source,
        )


def check_needs_format(config: TaskConfig) -> None:
    """Refuse, or warn about, keys that only formats use, on a task that is asked without one."""
    if config.doc_to_context is not None:
        raise ConfigError(
            "doc_to_context is shown by formats only, and this task is asked without one: its "
            f"prompts would lack the passage. Ask it as `{config.task}@mcqa` or with another format, "
            "or write `formats: mcqa` in its file."
        )
    without_effect = {
        "target_type": "targets are then read by the rules of EleutherAI's harness",
        "doc_to_rationale": "examples then show `doc_to_target`",
        "shuffle_choices": "choices are then in the order of the data",
    }
    for key, instead in without_effect.items():
        if getattr(config, key) is not None:
            warnings.warn(
                f"Task {config.task!r} sets `{key}`, which has no effect without a format: {instead}.",
                LmEvalWarning,
                stacklevel=5,
            )


def check_fields(config: TaskConfig, *, task: str) -> None:
    """Refuse an unknown sampler, and Jinja that does not compile; a format compiles its own fields."""
    settings = config.fewshot_config or {}
    check_sampler(settings.get("sampler"), task=task)
    specs = {"cluster": config.cluster, **score_fields(config.score_by)}
    if config.prompt_format is None:
        specs |= {f"doc_to_{name}": spec for name, spec in vars(config.raw).items()}
        specs |= {"gen_prefix": config.gen_prefix, "description": config.description}
        specs |= {f"fewshot_config.{key}": value for key, value in settings.items()}
    for name, spec in specs.items():
        if isinstance(spec, str) and is_jinja(spec):
            try:
                compile_template(spec)
            except FieldError as error:
                raise error.located(field=name) from None


def check_gold_positions(fmt: PromptFormat, items: Iterable[Item]) -> None:
    """Refuse a format with labels if the right choice has the same label in all of the first docs.

    Choices that are the same for all docs, such as yes and no, are classes: their docs may be sorted.
    """
    if fmt.answers != "choice" or fmt.choice_labels in (None, "choices"):
        return
    positions: set[Any] = set()
    lists: set[tuple[str, ...]] = set()
    count = 0
    for item in islice(items, LOOKED_AT):
        positions.update(item.gold[:1])
        lists.add(item.choices)
        count += 1
        if len(positions) > 1:
            return
    if count < FEWEST or len(lists) < 2:
        return
    position = positions.pop()
    raise FormatError(
        f"choice {position + 1} is the right one in each of the first {count} docs, so a model that "
        "always gives the same label would be right. Write `shuffle_choices: 1` in the task, which "
        "orders the choices of each doc by a hash, or use a format that scores texts, such as cloze."
    )


# ``task@*``: every format that can be filled on every doc, and a warning about the others
#
# Formats whose answers are choices share one scan of the docs: the right choice is the same under all of
# them, so a doc is only laid out again if its number of choices or its gold is new.


def fitting(config: TaskConfig, tasks: Sequence[ConfigurableTask]) -> list[ConfigurableTask]:
    """The tasks whose format the fields can fill; a warning names the others."""
    is_enforced = all(task.format is not None and task.format.enforced for task in tasks)
    left_out = {**({} if is_enforced else config.unfillable_formats()), **_unfit(tasks)}
    filled = [task for task in tasks if task.format_name not in left_out]
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    reasons = "".join(f"\n  {listing(names)}: {why}" for why, names in by_reason.items())
    if not filled:
        raise UsageError(
            f"Task {config.task!r} has no format that its fields can fill on every doc:{reasons}"
        )
    if left_out:
        warnings.warn(
            f"{config.task}@*{'+enforced' if is_enforced else ''} leaves out what cannot be filled on "
            f"every doc:{reasons}",
            LmEvalWarning,
            stacklevel=2,
        )
    return filled


def _unfit(tasks: Sequence[ConfigurableTask]) -> dict[str, str]:
    """Format → why it cannot be filled on some doc. Docs that no format can ask are excused."""
    failures: dict[str, dict[int, LmEvalError]] = {}
    reasons: dict[str, str] = {}
    of_choices: _Scan | None = None
    for task in tasks:
        prompts, name = task.prompts, str(task.format_name)
        assert isinstance(prompts, FormatPrompts), "it was asked for with @"
        is_choice = prompts.format.answers == "choice"
        scan = of_choices if of_choices and is_choice else _scanned(prompts, task)
        of_choices = scan if is_choice else of_choices
        failures[name] = {**scan[0], **_not_laid_out(prompts.format, scan[1])}
        try:
            check_gold_positions(prompts.format, prompts.items(task.good_docs()))
        except FormatError as error:
            reasons[name] = str(error)
    total = len(tasks[0].eval_docs) if tasks else 0
    failed = [set(errors) for errors in failures.values() if len(errors) < total]
    excused = set.intersection(*failed) if failed else set()
    for name, errors in failures.items():
        wrong = [doc_id for doc_id in sorted(errors) if doc_id not in excused]
        if wrong and name not in reasons:
            reasons[name] = f"doc {wrong[0]}: {errors[wrong[0]]}"
    return reasons


_Scan = tuple[dict[int, LmEvalError], dict[Any, tuple[int, Item]]]
"""The docs that are no items, and the items that differ: the same for all formats with choices."""


def _scanned(prompts: FormatPrompts, task: ConfigurableTask) -> _Scan:
    failures: dict[int, LmEvalError] = {}
    items: dict[Any, tuple[int, Item]] = {}
    is_choice = prompts.format.answers == "choice"
    for doc_id, doc in enumerate(task.eval_docs):
        try:
            task.check_not_bad(doc_id)
            item = prompts.item(doc)
        except KnownBadDocError:
            continue
        except LmEvalError as error:
            failures[doc_id] = error
        else:
            shape = (len(item.choices), item.gold) if is_choice else doc_id
            items.setdefault(shape, (doc_id, item))
    return failures, items


def _not_laid_out(
    fmt: PromptFormat, items: Mapping[Any, tuple[int, Item]]
) -> dict[int, LmEvalError]:
    """The docs that the format cannot show as examples, or cannot enforce the answer of."""
    failures: dict[int, LmEvalError] = {}
    for doc_id, item in items.values():
        try:
            fmt.shot_turn(item)
            fmt.grammar_for(item)
        except LmEvalError as error:
            failures[doc_id] = error
    return failures
