"""A stored reply as two readers read it, with both verdicts; and the reader that a command names.

``ReadAgain`` and ``Rereading`` are shared by everything that reads answers again, the runs of other
packages included. ``given_reader`` turns ``--scorer`` and ``--as`` into a reader, ``reader_words`` a
reader into words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import yaml

from lm_eval.config.fields import shorten
from lm_eval.errors import (
    ComparisonError,
    ConfigError,
    LmEvalError,
    UnknownNameError,
    UsageError,
    did_you_mean,
    listing,
)
from lm_eval.formats.compile import compile_format, format_names, get_format
from lm_eval.formats.items import AnswerKind
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.readers import BoundReader, bind_reader
from lm_eval.lab.stored.run import StoredRun
from lm_eval.lab.stored.view import first_reply
from lm_eval.registry import READERS
from lm_eval.support.encode import AsDict


@dataclass(frozen=True)
class Verdict(AsDict):
    """How one reader read a reply, and the score of that reading."""

    score: float
    answer: str | None
    """The answer in words; None if there is none."""
    rule: str | None = None
    span: tuple[int, int] | None = None
    reason: str | None = None
    """Why no answer was read."""

    KEYS = ("score", "answer", "rule", "span", ("no_answer", "reason"))

    @property
    def is_read(self) -> bool:
        return self.reason is None


@dataclass(frozen=True)
class ReadAgain(AsDict):
    """One item whose reply was read twice."""

    item: str
    """What it is called: ``doc 3``."""
    doc_id: int
    reply: str
    right: str
    """The right answer in words."""
    before: Verdict
    after: Verdict
    cluster: str | None = None
    is_part: bool = False
    """Whether it is one of several replies to its doc, which count together."""

    KEYS = ("item", "doc_id", "reply", "right", "before", "after")


@dataclass
class Rereading:
    """The items of one result as they are read again, and what should be known about it."""

    metric: str
    items: Iterable[ReadAgain]
    before: str = "as stored"
    """How the replies were read the first time, in words."""
    notes: list[str] = field(default_factory=list)
    """Filled while the items are read."""
    part: str = ""
    """Which part of the answers this is, where a result has several."""


@runtime_checkable
class RereadsItself(Protocol):
    """A run of another package, which knows how to read its replies again."""

    def reread(self, name: str, reader: BoundReader) -> Rereading:
        """The items of a result, read with ``reader``."""
        ...


def in_words(value: Any, answers: AnswerKind, choices: Sequence[str]) -> str:
    """An answer as people read it: the text of a choice, or what was written."""
    if value is None:
        return ""
    if answers == "choice" and isinstance(value, int) and value < len(choices):
        return choices[value]
    if answers == "order" and isinstance(value, list | tuple):
        return ", ".join(in_words(index, "choice", choices) for index in value)
    return str(value)


def answered_samples(
    run: StoredRun, name: str, filter_name: str | None
) -> Iterator[dict[str, Any]]:
    """The samples with an answer, under one filter."""
    for sample in run.samples(name):
        if sample.get("missing") or first_reply(sample) is None:
            continue
        if sample.get("redacted"):
            raise ComparisonError(
                f"The samples of {name!r} do not hold its docs, as the task says `redact: true`, so its "
                "replies cannot be read again. Run it with --show_redacted for that."
            )
        if filter_name is None or sample.get("filter", "none") == filter_name:
            yield sample


_WHOLE_NUMBER_OPTIONS = ("group",)


def given_reader(scorers: Sequence[str], like: str | None = None) -> BoundReader:
    """The reader that ``--scorer`` (several are tried in order) or ``--as`` names."""
    if bool(scorers) == (like is not None):
        raise UsageError(
            "Name one way of reading: --scorer with a reader (`--scorer choice`, `--scorer "
            "'after_last,phrase=The answer is'`), or --as with a format whose reader is used "
            f"(`--as cot`). Readers: {listing(sorted(READERS), 40)}."
        )
    if like is not None:
        return reader_of_format(like)
    try:
        return bind_reader([_spec(text) for text in scorers])
    except (ConfigError, UnknownNameError) as error:
        raise UsageError(f"--scorer: {error}") from None


def reader_of_format(name: str) -> BoundReader:
    """The reader of a format; a format that reads no text is an error."""
    reader = get_format(name).scorer
    if reader is None:
        known = [other for other in format_names() if get_format(other).scorer is not None]
        raise UsageError(
            f"--as: format {name!r} scores choices and reads no text. Formats that read text: "
            f"{listing(known, 40)}."
        )
    return reader


def runs_programs(facts: Mapping[str, Any]) -> bool:
    """Whether answers under a result's format are programs that were run."""
    made = _stored_format(facts)
    return made is not None and made.program is not None


def _stored_format(facts: Mapping[str, Any]) -> PromptFormat | None:
    """A result's format, from the facts that a results file has about it; None if it cannot be made."""
    try:
        return compile_format(yaml.safe_load(str(facts.get("yaml"))), name=str(facts["format"]))
    except (LmEvalError, yaml.YAMLError, TypeError, ValueError):
        return None


def stored_reader(facts: Mapping[str, Any]) -> str:
    """The reader of a result's format in words, from the facts that a results file has about it.

    ``as stored`` for a format that cannot be made again, or that is not the same now.
    """
    made = _stored_format(facts)
    if made is None:
        return "as stored"
    is_same = str(facts.get("fingerprint")).startswith(made.fingerprint)
    return reader_words(made.scorer) if is_same and made.scorer is not None else "as stored"


def reader_words(reader: BoundReader) -> str:
    """A reader in one line: ``after_last (phrase: 'The answer is')``."""
    if reader.alternatives:
        return ", then ".join(map(reader_words, reader.alternatives))
    options = ", ".join(f"{key}: {value!r}" for key, value in reader.options)
    return f"{reader.name} ({options})" if options else reader.name


def _spec(text: str) -> Any:
    """One ``--scorer`` as the data of a format's ``scorer:``."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            problem = str(getattr(error, "problem", None) or error)
            raise UsageError(
                f"--scorer: {shorten(text)} is not YAML: {problem}. Write it as in "
                "`--scorer '{reader: after_last, phrase: \"The answer is\"}'`."
            ) from None
    before, _, options = text.partition(",")
    name = before.strip()
    return {"reader": name, **_options(name, options)} if options else name


def _options(name: str, text: str) -> Mapping[str, Any]:
    """``phrase=The answer is,which=last``: a comma separates only if an option's name follows."""
    options: dict[str, Any] = {}
    for piece in re.split(r",(?=\s*\w+=)", text):
        key, equals, value = piece.partition("=")
        if not equals:
            raise UsageError(
                f"--scorer: {shorten(piece)} after {name!r} has no '='. Write options as in "
                "`--scorer 'after_last,phrase=The answer is'`."
                f"{did_you_mean(piece.strip(), sorted(READERS))}"
            )
        is_number = key.strip() in _WHOLE_NUMBER_OPTIONS and value.strip().isdigit()
        options[key.strip()] = int(value) if is_number else value
    return options
