"""From a model's reply to a ``Reading``: thinking masked, prefix joined, readers tried in order.

A format's ``scorer`` (``choice``, ``{reader: after_last, phrase: …}``, a list of these) is bound to its
options here. What is read is fitted to the kind of answer asked for: a choice, a text, or an order.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.formats.readers.free_text.shapes import as_choice
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, Reason
from lm_eval.formats.readers.sentences import Sentences
from lm_eval.formats.readers.text import fold
from lm_eval.formats.readers.thinking import find_thinking, mask_thinking
from lm_eval.registry import READERS

_REFUSAL_REACH = 600  # a refusal comes first; later on, the words may be about the question


def read(
    text: str,
    readers: Sequence[BoundReader],
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    prefix: str | None = None,
    finish: str | None = None,
) -> Reading:
    """The answer in a reply, by the first of ``readers`` that finds one, or why there is none.

    ``prefix`` is what the model continued (a ``gen_prefix``): it is read together with the reply,
    but an answer must be in the reply, and spans count from its start. ``finish`` is why the
    model stopped (``stop``, ``length``, ``refused``).
    """
    masked, is_unclosed = _masked(text, prefix)
    reading = _read_continued(masked, readers, labels, choices, prefix)
    is_cut = is_unclosed or finish == "length"
    if reading.is_answer and (reading.is_claim or not is_cut):
        return reading
    return Reading.unread(_reason(masked, reading, is_cut=is_cut, is_refused=finish == "refused"))


def is_refusal(visible: str) -> bool:
    """True if a reply without an answer, folded and without its thinking, begins by declining."""
    start = Sentences(visible.lstrip()[:_REFUSAL_REACH])
    return start.search(start.words.refusal, 0, len(start.low)) is not None


def _masked(text: str, prefix: str | None) -> tuple[str, bool]:
    if prefix and find_thinking(prefix).spans:  # the model continues what the prompt opened
        whole = mask_thinking(prefix + text)
        return whole.text[len(prefix) :], whole.is_unclosed
    return mask_thinking(text)


def _read_continued(
    text: str,
    readers: Sequence[BoundReader],
    labels: Sequence[str],
    choices: Sequence[str],
    prefix: str | None,
) -> Reading:
    """The answer in prefix and reply as one text, else in the reply by itself.

    By itself, because some readers look at the start of a reply, which the prefix would hide.
    """
    if prefix and text.strip() and not _repeats(text, prefix):
        joined = _joined(prefix, text)
        reading = first_settled(readers, joined, labels=labels, choices=choices)
        reading = _within_reply(reading, len(joined) - len(text))
        if reading.is_settled:
            return reading
    return first_settled(readers, text, labels=labels, choices=choices)


def _repeats(text: str, prefix: str) -> bool:
    """True if the reply begins with the prefix once more, so that it is whole by itself."""
    start = text.lstrip()[: len(prefix) + 8]
    return start.lower().startswith(prefix.strip().lower())


def _joined(prefix: str, reply: str) -> str:
    needs_space = prefix[-1:].isalnum() and reply[:1].isalnum()
    return f"{prefix}{' ' if needs_space else ''}{reply}"


def _within_reply(reading: Reading, offset: int) -> Reading:
    """``reading`` with its span counted from the reply; nothing if all of it is in the prefix."""
    if not reading.is_answer or reading.span is None:
        return reading
    start, end = reading.span
    if end <= offset:
        return NO_ANSWER
    return replace(reading, span=(max(start - offset, 0), end - offset))


def _reason(masked: str, reading: Reading, *, is_cut: bool, is_refused: bool) -> Reason:
    """Why there is no answer. The server's reason and an unclosed block also explain an empty reply."""
    visible = fold(masked)
    if is_refused:
        return "refused"
    if is_cut:
        return "truncated"
    if not visible.strip():
        return "empty"
    if is_refusal(visible):
        return "refused"
    return reading.reason or "unreadable"


def fitted(
    reading: Reading,
    answers: Literal["choice", "text", "order"],
    labels: Sequence[str],
    choices: Sequence[str],
) -> Reading:
    """The reading as an answer of this kind, whichever reader it comes from.

    Where a choice is asked for, a text becomes the choice it names, or unreadable; where a text is asked
    for, the index of a choice becomes that choice's text.
    """
    if not reading.is_answer:
        return reading
    value = reading.value
    if answers == "choice":
        return reading if isinstance(value, int) else _as_choice(reading, labels, choices)
    if answers == "order":
        return reading if isinstance(value, list | tuple) else NO_ANSWER
    if isinstance(value, int):
        return Reading((choices or labels)[value], reading.rule, reading.span)
    if isinstance(value, list | tuple) and choices and all(isinstance(v, int) for v in value):
        return Reading(", ".join(choices[v] for v in value), reading.rule, reading.span)
    return reading


def _as_choice(reading: Reading, labels: Sequence[str], choices: Sequence[str]) -> Reading:
    if isinstance(reading.value, list | tuple):
        return NO_ANSWER
    return as_choice(reading, labels, choices)


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
    """The reader a scorer spec describes: a name, a dict with ``reader`` and options, or a list.

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
    _check_names(name, function, options)
    for option, value in options.items():
        _check_value(name, option, value, _hints(function).get(option))
    ordered = ((key, _frozen(options[key])) for key in _parameters(function) if key in options)
    bound = BoundReader(name, tuple(ordered))
    bound("")  # a reader says here what else is wrong with its options, such as a pattern
    return bound


def _check_names(name: str, function: Any, options: Mapping[str, Any]) -> None:
    valid = {key: p for key, p in _parameters(function).items() if key not in _GIVEN_PER_DOC}
    for option in options:
        if option not in valid:
            raise ConfigError(
                f"Reader {name!r} has no option {option!r}.{did_you_mean(option, valid)} "
                f"Its options: {listing(valid)}."
            )
    missing = [k for k, p in valid.items() if p.default is p.empty and k not in options]
    if missing:
        raise ConfigError(
            f"Reader {name!r} needs {listing(map(repr, missing))}. Write it as "
            f"{{reader: {name}, {', '.join(f'{option}: …' for option in missing)}}}."
        )


def _check_value(name: str, option: str, value: Any, hint: Any) -> None:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigError(
                f"Reader {name!r}: {option} cannot be {value!r}."
                f"{did_you_mean(str(value), get_args(hint))} Valid: {listing(get_args(hint))}."
            )
        return
    kinds = tuple(kind for kind in (get_args(hint) or (hint,)) if isinstance(kind, type))
    if kinds and (not isinstance(value, kinds) or isinstance(value, bool)):
        names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ConfigError(f"Reader {name!r}: {option} must be {names}, not {value!r}.")
    if value == "" or (option == "phrase" and isinstance(value, str) and not value.strip()):
        raise ConfigError(f"Reader {name!r}: {option} is empty. Give a text, or leave it out.")


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@lru_cache(maxsize=256)
def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """A reader's keyword parameters: the parts of the question it takes, and its options."""
    parameters = inspect.signature(function).parameters
    return {key: p for key, p in parameters.items() if p.kind is p.KEYWORD_ONLY}


@lru_cache(maxsize=256)
def _hints(function: Any) -> dict[str, Any]:
    return get_type_hints(function)
