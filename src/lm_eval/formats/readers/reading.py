"""Readers and their results: an answer with its rule and span, or the reason there is none.

A format's ``scorer`` (``choice``, ``{reader: after_last, phrase: …}``, a list of these) is bound to its
options by ``bind_reader``; a ``BoundReader`` turns text into a ``Reading``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, get_args, get_type_hints

from lm_eval.config.schema import Key, check
from lm_eval.errors import ConfigError, listing
from lm_eval.registry import READERS

Reason = Literal["empty", "refused", "truncated", "ambiguous", "unreadable"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer in a reply, or why there is none.

    ``value`` is the index of the choice for a reader of choices, a list of indices for a reader of
    orders, else the text. ``rule`` names the rule that found it, ``span`` is its position in the
    reply. Without an answer, ``value`` is None and ``reason`` says why. ``is_claim`` is False if the
    reply only mentions the answer, which is no evidence if the reply was cut short.
    """

    value: Any
    rule: str | None = None
    span: tuple[int, int] | None = None
    reason: Reason | None = None
    is_claim: bool = field(default=True, repr=False, compare=False)

    @property
    def is_answer(self) -> bool:
        return self.reason is None

    @property
    def is_settled(self) -> bool:
        """True if no other rule should be tried: an answer, or evidence for more than one."""
        return self.reason is None or self.reason == "ambiguous"

    @classmethod
    def unread(cls, reason: Reason) -> Reading:
        return cls(None, reason=reason)

    def with_rule(self, rule: str) -> Reading:
        """The same answer with ``rule`` as its rule; a reading without an answer is unchanged."""
        if self.reason is not None:
            return self
        return Reading(self.value, rule, self.span, None, self.is_claim)

    def moved(self, offset: int) -> Reading:
        """The same answer with its span moved ``offset`` characters to the right."""
        if self.span is None:
            return self
        return replace(self, span=(self.span[0] + offset, self.span[1] + offset))


NO_ANSWER = Reading.unread("unreadable")
AMBIGUOUS = Reading.unread("ambiguous")

register_reader = READERS.decorator


# Readers with their options


_GIVEN_PER_DOC = ("labels", "choices")


@dataclass(frozen=True, slots=True)
class BoundReader:
    """A reader with its options, or several tried in order. A value: equal specs are equal."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    alternatives: tuple[BoundReader, ...] = ()

    def __call__(
        self, text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()
    ) -> Reading:
        """The reading of ``text``: an answer, or ``unreadable``, or ``ambiguous``."""
        if self.alternatives:
            return first_settled(self.alternatives, text, labels=labels, choices=choices)
        function = READERS.get(self.name)
        per_doc = {"labels": labels, "choices": choices}
        wanted = {key: per_doc[key] for key in _parameters(function) if key in per_doc}
        reading: Reading = function(text, **wanted, **dict(self.options))
        return reading

    def as_spec(self) -> str | dict[str, Any] | list[Any]:
        """The spec as plain YAML data; binding it again gives an equal reader."""
        if self.alternatives:
            return [reader.as_spec() for reader in self.alternatives]
        return {"reader": self.name, **dict(self.options)} if self.options else self.name


def first_settled(
    readers: Sequence[BoundReader], text: str, *, labels: Sequence[str], choices: Sequence[str]
) -> Reading:
    """The first answer; a reader that finds evidence for more than one stops the chain."""
    for reader in readers:
        reading = reader(text, labels=labels, choices=choices)
        if reading.is_settled:
            return reading
    return NO_ANSWER


def bind_reader(spec: Any) -> BoundReader:
    """The reader that a scorer spec describes: a name, a dict with ``reader`` and options, or a list.

    Raises ``UnknownNameError`` for a name that is not registered and ``ConfigError`` for anything
    else, with what would be valid.
    """
    if isinstance(spec, BoundReader):
        return spec
    if isinstance(spec, str):
        return _bind(spec, {})
    if isinstance(spec, Mapping):
        return _bind_mapping(spec)
    if isinstance(spec, Sequence) and spec:
        readers = tuple(bind_reader(item) for item in spec)
        return readers[0] if len(readers) == 1 else BoundReader("first_of", alternatives=readers)
    raise ConfigError(
        f"A reader cannot be made from {spec!r}. Give a name ({listing(sorted(READERS))}), a dict "
        "such as {reader: after_last, phrase: 'The answer is'}, or a list of these."
    )


def _bind_mapping(spec: Mapping[Any, Any]) -> BoundReader:
    name = spec.get("reader")
    if not isinstance(name, str):
        raise ConfigError(
            f"The scorer {dict(spec)!r} does not say which reader to use. "
            f"Add `reader:` with one of {listing(sorted(READERS))}."
        )
    return _bind(name, {str(key): value for key, value in spec.items() if key != "reader"})


def _bind(name: str, options: dict[str, Any]) -> BoundReader:
    function = READERS.get(name)
    check(options, _schema(function), f"Reader {name!r}")
    ordered = ((key, _frozen(options[key])) for key in _parameters(function) if key in options)
    bound = BoundReader(name, tuple(ordered))
    bound("")  # raises if anything else is wrong with the options, such as a pattern
    return bound


@lru_cache(maxsize=256)
def _schema(function: Any) -> dict[str, Key]:
    """What each option of a reader may hold, by its annotation."""
    hints = get_type_hints(function)
    return {
        name: Key(
            kind := hints.get(name, Any),
            takes_null=kind is Any or type(None) in get_args(kind),
            fits=_says_something,
            is_needed=parameter.default is parameter.empty,
        )
        for name, parameter in _parameters(function).items()
        if name not in _GIVEN_PER_DOC
    }


def _says_something(value: Any) -> bool:
    return not isinstance(value, str) or bool(value.strip())


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@lru_cache(maxsize=256)
def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """A reader's keyword parameters: the parts of the question that it uses, and its options."""
    parameters = inspect.signature(function).parameters
    return {key: p for key, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
