"""Checks the fields of a format: each by itself, then how they fit together.

In: a field's value as YAML gives it. Out: the value that ``PromptFormat`` holds, or an error that
says where it is from and what is expected.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, get_args

from msgspec import Meta

from lm_eval.config.fields import compile_field, fields_read, is_jinja, shorten
from lm_eval.config.schema import Key, check, one_of
from lm_eval.errors import (
    ConfigError,
    FieldError,
    LmEvalWarning,
    UnknownNameError,
)
from lm_eval.formats.enforced import check_enforced
from lm_eval.formats.grammar import checked_grammar
from lm_eval.formats.items import LABEL_STYLES, AnswerKind, label_variables
from lm_eval.formats.prompt_format import JINJA_FIELDS, FormatKind, OutputType, PromptFormat
from lm_eval.formats.readers import BoundReader, bind_reader

# The ways to compare scored choices: by sum, by length, or against a prior


@dataclass(frozen=True, slots=True)
class Normalisation:
    """One way to compare choices: its name, its metric, and how a table says it."""

    name: str
    metric: str
    words: str


NORMALISATIONS = {
    normalisation.name: normalisation
    for normalisation in (
        Normalisation("none", "acc", "sum"),
        Normalisation("character", "acc_norm", "per character"),
        Normalisation("byte", "acc_bytes", "per byte"),
        Normalisation("token", "acc_tokens", "per token"),
        Normalisation("pmi", "acc_mutual_info", "mutual information"),
        Normalisation("calibrated", "acc_calibrated", "calibrated"),
    )
}
_BY_METRIC = {normalisation.metric: normalisation for normalisation in NORMALISATIONS.values()}
MUTUAL_INFORMATION = NORMALISATIONS["pmi"].metric
CALIBRATED = NORMALISATIONS["calibrated"].metric
CONTENT_FREE = ("N/A", "", "[MASK]")
"""Texts that replace the question, to see what is likely without one; their mean counts."""


def normalisation_of(metric: str) -> Normalisation | None:
    """The normalisation behind a metric; None for a metric that compares no choices."""
    return _BY_METRIC.get(metric)


def leading(metrics: Iterable[str], normalization: str | None) -> tuple[str, ...]:
    """The metrics, with the metric of the normalisation first if there is one."""
    if normalization is None:
        return tuple(metrics)
    first = NORMALISATIONS[normalization].metric
    return (first, *(name for name in metrics if name != first))


FORMAT_FIELDS = tuple(f.name for f in fields(PromptFormat))
OF_ONE_TEXT = ("acc", "perplexity", "bits_per_byte")
_TEXT = Key(str, "a text")


def _always(key: Key) -> Key:
    return replace(key, takes_null=False)


def _are_labels(value: Any) -> bool:
    if isinstance(value, str):
        return value in LABEL_STYLES
    labels = [str(label) for label in value]
    return len(set(labels)) == len(labels) > 0 and all(label.strip() for label in labels)


SCHEMA: dict[str, Key] = {
    **dict.fromkeys(FORMAT_FIELDS, _TEXT),
    **dict.fromkeys(
        (
            *("name", "context_prefix", "context_delimiter"),
            *("choice_format", "choice_delimiter", "section_separator"),
            *("target_format", "rationale_format", "target_delimiter", "fewshot_delimiter"),
        ),
        _always(_TEXT),
    ),
    **dict.fromkeys(
        ("show_question", "strip_question", "show_choices", "cut_choices", "enforced"),
        _always(Key(bool, "true or false")),
    ),
    "version": _always(Key(int, "a whole number")),
    "output_type": _always(one_of(get_args(OutputType))),
    "num_fewshot": Key(Annotated[int, Meta(ge=0)] | None, "a whole number from 0 up"),
    "kind": _always(one_of(get_args(FormatKind))),
    "answers": _always(one_of(get_args(AnswerKind))),
    "blank_position": _always(one_of(("end", "inline"))),
    "scored": one_of(("labels", "texts", "rest")),
    "normalization": one_of(NORMALISATIONS),
    "choice_labels": Key(
        str | list,
        "letters, numbers, choices (the choice texts themselves), a list of labels that differ and are "
        "not blank, or null",
        fits=_are_labels,
        names=LABEL_STYLES,
    ),
    "metrics": _always(
        Key(
            str | Annotated[list[str], Meta(min_length=1)],
            "a list of metric names, such as [acc, acc_norm]",
        )
    ),
    "generation_kwargs": Key(dict, "a mapping"),
    "filters": Key(
        dict[str, dict[str, Any]],
        "names of filters with their options, such as {strict-match: {regex_pattern: '#### (.+)'}}",
    ),
    "words": Key(
        dict[str, dict[str, str]],
        "a table of texts for each language, such as {de: {question: Frage}}",
    ),
    **dict.fromkeys(("scorer", "grammar"), Key(Any, "", takes_code=True)),
}
"""What each field of a format may hold."""


def checked_field(key: Any, value: Any, where: str) -> Any:
    """A field's value in the type that ``PromptFormat`` holds; anything else is an error."""
    check({key: value}, SCHEMA, where)
    if key == "scorer":
        return _scorer(value, where)
    if key == "grammar":
        return checked_grammar(value, where)
    if key in ("choice_labels", "metrics") and value is not None:
        is_text = isinstance(value, str)
        if key == "choice_labels":
            return value if is_text else tuple(map(str, value))
        return (value,) if is_text else tuple(value)
    return (value or {}) if key in ("generation_kwargs", "words", "filters") else value


def _scorer(value: Any, where: str) -> BoundReader | None:
    if value is None or isinstance(value, BoundReader):
        return value
    try:
        return bind_reader(value)
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError(f"{where}, scorer: {error}") from None


def check_format(fmt: PromptFormat, changes: Mapping[str, Any], where: str) -> None:
    """Check how the fields fit together: readers, placeholders, the end of the instruction."""
    if fmt.reads_text and fmt.scorer is None:
        raise ConfigError(
            f"{where}: a format that generates text needs a `scorer` that reads the answer, such as "
            '`scorer: {reader: after_last, phrase: "The answer is"}`.'
        )
    if fmt.reads_text and fmt.normalization is not None:
        raise ConfigError(
            f"{where}: normalization compares choices that are scored, but this format generates "
            "text. Remove it, or start from a format such as `type: cloze`.",
            key="normalization",
        )
    for key in JINJA_FIELDS:
        source = getattr(fmt, key)
        if key in changes and source is not None and is_jinja(source):
            try:
                compile_field(source)
            except FieldError as error:
                raise ConfigError(f"{where}: {key}: {error}") from None
    if fmt.program is not None:
        _check_program(fmt, where)
    if fmt.enforced or fmt.grammar is not None:
        check_enforced(fmt, where)
    if fmt.scored is not None or fmt.scored_format is not None:
        _check_scored(fmt, where)
    if fmt.scores_target:
        _check_target_alone(fmt, where)
    if fmt.preamble is not None and is_jinja(fmt.preamble) and "preamble" in changes:
        _check_preamble(fmt.preamble, where)
    _check_placeholders(fmt.choice_format, ("label", "choice"), f"{where}: choice_format")
    names = ("label", "answer", "rationale")
    _check_placeholders(fmt.target_format, names, f"{where}: target_format")
    if fmt.rationale_format:
        _check_placeholders(fmt.rationale_format, ("rationale",), f"{where}: rationale_format")
    instruction = changes.get("instruction")
    if instruction and not instruction[-1].isspace() and fmt.show_question:
        warnings.warn(
            f"{where}: instruction {shorten(instruction, 60)} ends without white space and runs "
            "straight into the question. End it with a newline (\\n in double quotes).",
            LmEvalWarning,
            stacklevel=2,
        )


def _check_scored(fmt: PromptFormat, where: str) -> None:
    """Refuse a ``scored`` that contradicts the other fields."""
    problem, key = "", "scored" if fmt.scored is not None else "scored_format"
    if fmt.output_type != "multiple_choice":
        does = "generates text" if fmt.reads_text else "scores the target alone"
        problem = f"is for formats that score choices, but this one {does}: leave it out"
    elif fmt.scored_format is not None and fmt.scored is not None:
        problem = "says what is scored, and so does scored_format: leave one of them out"
    elif fmt.scored_format is not None:
        if not fields_read(fmt.scored_format) & {"_choice", "_label"}:
            problem = (
                "has no {{ _choice }}, so that the same would be scored for every choice: add it"
            )
    elif fmt.scored == "labels" and fmt.choice_labels is None:
        problem = "needs labels: give choice_labels, such as letters"
    elif fmt.scored == "texts" and "{answer}" not in fmt.target_format:
        problem = "needs a target_format with {answer}: examples must show what is scored"
    elif fmt.fills_blank:
        behind = ("choice_labels", "answer_instruction", "answer_prompt", "gen_prefix")
        filled = [name for name in behind if getattr(fmt, name) is not None]
        if fmt.blank_marker is None:
            problem = 'needs the blank that choices are put into: give blank_marker, such as "_"'
        elif filled:
            problem = (
                f"scores what follows the question's blank, so that {filled[0]} has no place: set it to "
                "null"
            )
        elif fmt.normalization is not None:
            problem = "scores the same text for every choice: leave normalization out"
    if problem:
        value = shorten(getattr(fmt, key), 60) if key == "scored_format" else fmt.scored
        raise ConfigError(f"{where}: {key}: {value} {problem}.", key=key)


def _check_program(fmt: PromptFormat, where: str) -> None:
    """Refuse a program that could not depend on the answer."""
    problem = ""
    if not fmt.reads_text or fmt.answers != "text":
        problem = "runs what the model writes: set output_type: generate_until and answers: text"
    elif not (fmt.program and is_jinja(fmt.program) and "_answer" in fields_read(fmt.program)):
        problem = "has no {{ _answer }}, so that every answer would be right or wrong: add it"
    if problem:
        raise ConfigError(f"{where}: program {problem}.", key="program")


def _check_target_alone(fmt: PromptFormat, where: str) -> None:
    """Refuse choices and their metrics if only the target is scored."""
    others = [name for name in fmt.metrics if name not in OF_ONE_TEXT]
    problem, key = "", "output_type"
    if fmt.answers != "text" or fmt.choice_labels is not None:
        problem = "scores one text, the target: set answers: text and choice_labels: null"
    elif others:
        problem, key = f"has the metrics {', '.join(OF_ONE_TEXT)}, not {others[0]}", "metrics"
    elif fmt.normalization is not None:
        problem, key = "compares no choices: leave normalization out", "normalization"
    if problem:
        raise ConfigError(f"{where}: output_type: loglikelihood {problem}.", key=key)


def _check_preamble(source: str, where: str) -> None:
    """Refuse a preamble about the choices of one doc: it comes before examples with other choices."""
    read = sorted(fields_read(source) & label_variables(()).keys())
    if read:
        raise ConfigError(
            f"{where}: preamble reads {read[0]}, but it comes once, before examples that may have other "
            "choices. Say it in `instruction`, which belongs to each question.",
            key="preamble",
        )


def _check_placeholders(text: str, names: tuple[str, ...], where: str) -> None:
    """Refuse placeholders other than a plain ``{name}`` of ``names``, such as those with attributes."""
    wanted = " and ".join(f"{{{name}}}" for name in names)
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ConfigError(
            f"{where} {shorten(text)}: {error}. Double a brace to print it."
        ) from None
    for _, name, spec, conversion in parts:
        if name is not None and (name not in names or spec or conversion):
            raise ConfigError(f"{where} {shorten(text)} may hold {wanted} only, not {{{name}}}.")
    if all(name is None for _, name, *_ in parts):
        raise ConfigError(
            f"{where} {shorten(text)} holds none of {wanted}, so that it would always say the same."
        )
