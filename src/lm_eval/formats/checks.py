"""Checks the fields of a format: each by itself, then how they fit together.

In: a field's value as YAML gives it. Out: the value that ``PromptFormat`` holds, or an error that
says where it is from and what is expected.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from msgspec import Meta

from lm_eval.config.fields import compile_field, fields_read, is_jinja, shorten
from lm_eval.config.schema import ANYTHING, Key, check, keys_of
from lm_eval.errors import (
    ConfigError,
    FieldError,
    LmEvalWarning,
    UnknownNameError,
)
from lm_eval.formats.enforced import SUFFIX, check_reads_itself
from lm_eval.formats.grammar import KINDS, is_usable
from lm_eval.formats.items import LABEL_STYLES, label_variables
from lm_eval.formats.prompt_format import JINJA_FIELDS, PromptFormat
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


def _are_labels(value: Any) -> bool:
    if isinstance(value, str):
        return value in LABEL_STYLES
    labels = [str(label) for label in value]
    return len(set(labels)) == len(labels) > 0 and all(label.strip() for label in labels)


SCHEMA = keys_of(
    PromptFormat,
    summary=Key(str),
    choices_prefix=Key(str),
    num_fewshot=Key(Annotated[int, Meta(ge=0)], "a whole number from 0 up"),
    normalization=Key(Literal[tuple(NORMALISATIONS)]),
    choice_labels=Key(
        str | list,
        "letters, numbers, choices (the choice texts themselves), a list of labels that differ and are "
        "not blank, or null",
        fits=_are_labels,
        names=LABEL_STYLES,
    ),
    metrics=Key(
        str | Annotated[list[str], Meta(min_length=1)],
        "a list of metric names, such as [acc, acc_norm]",
        takes_null=False,
    ),
    filters=Key(
        dict[str, dict[str, Any]],
        "names of filters with their options, such as {strict-match: {regex_pattern: '#### (.+)'}}",
    ),
    generation_kwargs=Key(dict),
    words=Key(
        dict[str, dict[str, str]],
        "a table of texts for each language, such as {de: {question: Frage}}",
    ),
    scorer=ANYTHING,
    grammar=Key(
        str | dict[Literal["regex"], str],
        f"one of {', '.join(KINDS)}, or {{regex: …}} with a pattern that captures nothing, write (?:…) "
        "for (…), and allows no empty answer",
        fits=is_usable,
        names=KINDS,
    ),
)
"""What each field of a format may hold."""


def checked_field(key: Any, value: Any, where: str) -> Any:
    """A field's value in the type that ``PromptFormat`` holds; anything else is an error."""
    check({key: value}, SCHEMA, where)
    if key == "scorer":
        return _scorer(value, where)
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
    for key in JINJA_FIELDS:
        source = getattr(fmt, key)
        if key in changes and source is not None and is_jinja(source):
            try:
                compile_field(source)
            except FieldError as error:
                raise ConfigError(f"{where}: {key}: {error}") from None
    for key, problem in _contradictions(fmt):
        raise ConfigError(f"{where}: {key} {problem}.", key=key)
    if fmt.enforced:
        check_reads_itself(fmt, where)
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


def _contradictions(fmt: PromptFormat) -> Iterator[tuple[str, str]]:
    """The fields that contradict others, and how; the first is told."""
    if fmt.reads_text and fmt.scorer is None:
        example = '`scorer: {reader: after_last, phrase: "The answer is"}`'
        yield "scorer", f"must say how the answer is read from generated text, such as {example}"
    if fmt.normalization is not None and (fmt.output_type != "multiple_choice" or fmt.fills_blank):
        yield "normalization", "compares texts of choices that are scored: leave it out"
    yield from _scored_in_vain(fmt, fmt.scored, fmt.scored_format)
    if fmt.scores_target and (fmt.answers != "text" or fmt.choice_labels is not None):
        yield (
            "output_type",
            "loglikelihood scores one text: set answers: text and choice_labels: null",
        )
    for name in set(fmt.metrics).difference(OF_ONE_TEXT) if fmt.scores_target else ():
        yield "metrics", f"under output_type loglikelihood are {', '.join(OF_ONE_TEXT)}, not {name}"
    for name in sorted(fields_read(fmt.preamble or "") & label_variables(()).keys()):
        yield (
            "preamble",
            f"reads {name}, but it comes once, before examples that may have other choices. Say it in "
            "`instruction`, which belongs to each question",
        )
    if fmt.grammar is not None and (fmt.answers != "text" or not fmt.reads_text):
        yield (
            "grammar",
            "says what a text that is read may be, and this format reads none: leave it out",
        )
    if fmt.program is not None:
        yield from _useless_program(fmt, fmt.program)
    if fmt.enforced and not fmt.reads_text:
        yield "enforced", "needs a format that reads text"
    if fmt.enforced and not fmt.name.endswith(SUFFIX):
        yield "enforced", f"is left out: select the format as {fmt.name}{SUFFIX}"


def _useless_program(fmt: PromptFormat, program: str) -> Iterator[tuple[str, str]]:
    if not fmt.reads_text or fmt.answers != "text":
        does = "runs what the model writes"
        yield "program", f"{does}: set output_type: generate_until and answers: text"
    if "_answer" not in fields_read(program):
        yield (
            "program",
            "has no {{ _answer }}, so that every answer would be right or wrong: add it",
        )


def _scored_in_vain(
    fmt: PromptFormat, scored: str | None, sentence: str | None
) -> Iterator[tuple[str, str]]:
    """What contradicts ``scored`` or ``scored_format``."""
    if scored is not None and sentence is not None:
        yield "scored", "says what is scored, and so does scored_format: leave one of them out"
    if fmt.output_type != "multiple_choice" and (scored is not None or sentence is not None):
        key = "scored" if sentence is None else "scored_format"
        yield key, f"is for output_type multiple_choice, not {fmt.output_type}: leave it out"
    if sentence is not None and not fields_read(sentence) & {"_choice", "_label"}:
        yield "scored_format", "has no {{ _choice }}, so that every choice would be scored alike"
    if scored == "labels" and fmt.choice_labels is None:
        yield "scored", "is labels, and there are none: give choice_labels, such as letters"
    if scored == "texts" and "{answer}" not in fmt.target_format:
        yield "scored", "is texts: examples must show them, with {answer} in target_format"
    if fmt.fills_blank and fmt.blank_marker is None:
        yield "scored", 'is rest, of a question with a blank: give blank_marker, such as "_"'
    for name in ("choice_labels", "answer_instruction", "answer_prompt", "gen_prefix"):
        if fmt.fills_blank and getattr(fmt, name) is not None:
            yield "scored", f"is rest of the question, so that {name} has no place: set it to null"


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
