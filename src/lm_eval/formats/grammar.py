"""The replies that an enforced format allows: one grammar per doc, to match the format's reader.

A ``Grammar`` is a sequence of parts: fixed words, and holes, each of which is one of several texts or a
pattern. It is derived from ``target_format``, so that it allows what the format shows in its examples.
If a format asks for reasons first, ``opening`` is the phrase that ends them: the text before it is free,
and the text after it must match the parts.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

from lm_eval.errors import FormatError

MOST_ORDERED = 6
"""How many choices an enforced order may have: the grammar lists every order."""
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,9})?"
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


@dataclass(frozen=True)
class Hole:
    """Where an answer goes: one of ``choices``, else what a regular expression allows.

    ``name`` is the kind of pattern (``number``, ``line``); empty for a pattern from a format's file.
    """

    choices: tuple[str, ...] = ()
    pattern: str = ""
    name: str = ""
    without: str = ""
    """For a line: the characters that end it, besides a line break."""

    @property
    def regex(self) -> str:
        return "|".join(map(escaped, self.choices)) if self.choices else self.pattern

    @property
    def is_open(self) -> bool:
        """Whether an answer has no fixed end, so that the model must say when it stops."""
        return not self.choices

    @property
    def ending(self) -> str:
        """A regular expression for what may follow an answer that is the beginning of another.

        A model that may only write what a grammar allows could end such an answer only with its
        end-of-text token, which it rarely writes there: numbers would grow, and `New` would become
        `New York`.
        """
        if self.choices:
            longer = [
                text[len(start)]
                for start in self.choices
                for text in self.choices
                if len(text) > len(start) and text.startswith(start)
            ]
            signs = re.sub(r"([\\\]\[^-])", r"\\\1", "".join(dict.fromkeys(longer)))
            return rf"(?:[^{signs}][^\r\n]{{0,15}})?" if longer else ""
        return r"(?:[^0-9.][^0-9\r\n]{0,15})?" if self.name == "number" else r"[\r\n]{0,2}"

    @property
    def gbnf(self) -> str | None:
        """The hole in the notation of llama.cpp; None for a pattern that cannot be written in it."""
        if self.choices:
            return "(" + " | ".join(map(_quoted, self.choices)) + ")"
        if self.name == "number":
            return '("-"? ("0" | [1-9] [0-9]{0,17}) ("." [0-9]{1,9})?)'
        if self.name == "line":
            ends = re.sub(r"([\\\]\[^-])", r"\\\1", self.without)
            return rf"([^ \t\r\n{ends}] [^\r\n{ends}]*)"
        return None

    @property
    def schema(self) -> dict[str, Any]:
        """The hole as a value of JSON."""
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"}


Part = str | Hole
NUMBER = Hole(pattern=_NUMBER, name="number")


def line(without: str = "") -> Hole:
    """Text to the end of its line, or to one of the characters ``without``."""
    ends = "".join(escaped(sign) if sign in _SPECIAL else sign for sign in without)
    pattern = rf"[^ \t\r\n{ends}][^\r\n{ends}]*"
    return Hole(pattern=pattern, name="line", without=without)


@dataclass(frozen=True)
class Grammar:
    """What a reply may be: ``parts`` in sequence, after free text up to ``opening`` if there is one."""

    parts: tuple[Part, ...]
    opening: str | None = None
    may_lead: bool = True
    """Whether a space may come first if there is no opening: tokens often begin with one."""

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(part for part in self.parts if isinstance(part, Hole))

    @property
    def is_two_phase(self) -> bool:
        """Whether the model writes freely first."""
        return self.opening is not None

    @property
    def is_open(self) -> bool:
        """Whether an answer has no end of its own."""
        return any(hole.is_open for hole in self.holes)

    @property
    def lead(self) -> str:
        """What may come before the parts: a space, or nothing."""
        return " " if self.may_lead and not self.is_two_phase else ""

    @cached_property
    def regex(self) -> str:
        """The parts as one regular expression that all engines understand."""
        return self._joined("(?:")

    def _joined(self, group: str) -> str:
        """The parts as a regular expression, with ``group`` to open the group around each hole."""
        inner = [
            f"{group}{part.regex})" if isinstance(part, Hole) else escaped(part)
            for part in self.parts
        ]
        return (" ?" if self.lead else "") + "".join(inner)

    @cached_property
    def texts(self) -> tuple[str, ...] | None:
        """Every text that the parts allow, without the space; None if there is no end to them."""
        if len(self.holes) != 1 or self.is_open:
            return None
        (hole,) = self.holes
        return tuple(
            "".join([choice if part is hole else str(part) for part in self.parts])
            for choice in hole.choices
        )

    @cached_property
    def gbnf(self) -> str | None:
        """The grammar in the notation of llama.cpp's server; None if it cannot be written in it."""
        words = ['" "?'] if self.lead else []
        for part in self.parts:
            word = part.gbnf if isinstance(part, Hole) else _quoted(part)
            if word is None:
                return None
            words.append(word)
        return "root ::= " + " ".join(words)

    def structured_outputs(self, *, may_lead: bool = True) -> dict[str, Any]:
        """The grammar as vLLM takes it: a list of texts, else a regular expression.

        Replies may go on after an answer without a fixed end: see ``held``. ``may_lead``: whether a
        space may come first.
        """
        if self.texts is None or self.ends_open:
            return {"regex": f"{self.regex}{self._ending}"}
        blanks = [f"{self.lead}{text}" for text in self.texts] if may_lead else []
        return {"choice": list(dict.fromkeys([*blanks, *self.texts]))}

    def held(self, reply: str) -> str | None:
        """The beginning of a reply to ``structured_outputs`` that the parts allow; None without one."""
        if self.allows(reply):
            return reply
        pattern = f"({self.regex}){self._ending}"
        match = re.fullmatch(pattern, reply) or re.fullmatch(pattern, reply.rstrip())
        return None if match is None else match[1]

    @property
    def ends_open(self) -> bool:
        """Whether a longer reply may begin with one that the parts allow."""
        return bool(self._ending)

    @cached_property
    def _ending(self) -> str:
        return self.parts[-1].ending if isinstance(self.parts[-1], Hole) else ""

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The holes as an object of JSON, for servers that hold replies to a schema."""
        names = self._hole_names()
        holes = {name: hole.schema for name, hole in zip(names, self.holes, strict=True)}
        return {
            "type": "object",
            "properties": holes,
            "required": list(names),
            "additionalProperties": False,
        }

    def from_object(self, text: str) -> str | None:
        """The answer text in an object of ``schema``; None for any other text."""
        try:
            value = json.loads(text)
        except ValueError:
            return None
        names = self._hole_names()
        if not isinstance(value, Mapping) or set(value) != set(names):
            return None
        filled = iter([str(value[name]) for name in names])
        answer = "".join([next(filled) if isinstance(part, Hole) else part for part in self.parts])
        return answer if self.allows(answer) else None

    def _hole_names(self) -> tuple[str, ...]:
        count = len(self.holes)
        return ("answer",) if count == 1 else tuple(map(str, range(1, count + 1)))

    def allows(self, text: str) -> bool:
        """Whether the parts allow this text."""
        return self._compiled.fullmatch(text) is not None

    def may_become(self, text: str) -> bool:
        """Whether a text that was cut off may be the beginning of an allowed one."""
        begun = text.lstrip()
        if self.texts is not None:
            return any(allowed.lstrip().startswith(begun) for allowed in self.texts)
        first = self.parts[0]
        if isinstance(first, Hole):
            return True
        return begun.startswith(first.lstrip()) or first.lstrip().startswith(begun)

    def split(self, reply: str) -> tuple[str, str]:
        """A reply as its free text and its answer, without the ``opening`` between them."""
        if self.opening is None:
            return "", reply
        free, opening, answer = reply.rpartition(self.opening)
        return (free, answer) if opening else (reply, "")

    def answers(self, reply: str) -> tuple[tuple[str, tuple[int, int]], ...] | None:
        """What fills each hole of a reply, with its span; None if the reply is not allowed."""
        answer = self.split(reply)[1]
        match = self._compiled.fullmatch(answer) or self._compiled.fullmatch(answer.rstrip())
        if match is None or (self.opening is not None and self.opening not in reply):
            return None
        start = len(reply) - len(answer)
        return tuple(
            (match[group], (start + match.start(group), start + match.end(group)))
            for group in range(1, len(self.holes) + 1)
        )

    def before_answer(self, free: str) -> str:
        """The free text with the opening at its end, as the prompt for the answer."""
        assert self.opening is not None
        seam = "" if not free.strip() or free[-1].isspace() else "\n"
        return f"{free}{seam}{self.opening}"

    def behind_opening(self) -> tuple[str, Grammar]:
        """The white space between opening and answer, and the grammar of the answer alone."""
        first = self.parts[0]
        if isinstance(first, str) and first.isspace():
            return first, Grammar(self.parts[1:])
        return "", Grammar(self.parts)

    @cached_property
    def longest(self) -> int:
        """The most bytes that opening and answer take; an answer without a fixed end counts as 512."""
        size = len((self.opening or "").encode()) + len(self.lead)
        for part in self.parts:
            texts = (part,) if isinstance(part, str) else part.choices
            size += max((len(text.encode()) for text in texts), default=_OPEN_BYTES)
        return size

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._joined("("))

    def as_data(self) -> dict[str, Any]:
        """The grammar as plain data, for samples and keys."""
        data: dict[str, Any] = {"regex": self.regex}
        return data if self.opening is None else {"opening": self.opening, **data}


_OPEN_BYTES = 512


def escaped(text: str) -> str:
    """Text as a regular expression that every engine understands alike."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in text)


def _quoted(text: str) -> str:
    """Text as a literal of GBNF, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False)


# -- the `grammar` of a format ------------------------------------------------------------------

KINDS = ("choices", "number", "line")


def is_usable(grammar: str | Mapping[str, str]) -> bool:
    """Whether a format's ``grammar`` is a kind, or a pattern that takes no groups out of an answer."""
    if isinstance(grammar, str):
        return grammar in KINDS
    try:
        compiled = re.compile(grammar.get("regex", ""))
    except re.error:
        return False
    return not compiled.groups and compiled.fullmatch("") is None


def text_hole(declared: Any, choices: Sequence[str], after: str) -> Hole:
    """The hole of an answer in words: as the format declares, else one of the choices, else one line."""
    if isinstance(declared, Mapping):
        return Hole(pattern=str(declared["regex"]))
    if declared == "number":
        return NUMBER
    if declared == "line" or (declared is None and not choices):
        return line(after[:1])
    if not choices:
        raise FormatError(
            "the format's grammar is `choices`, and the doc has none. Give the task a doc_to_choice, "
            "or the format another grammar, such as `line`."
        )
    return one_of(choices)


def one_of(texts: Sequence[str]) -> Hole:
    """Each text once, without white space around it."""
    choices = tuple(dict.fromkeys(text.strip() for text in texts))
    if not all(choices):
        raise FormatError(
            "a choice has no text, and an answer that is nothing cannot be enforced. Ask the task under "
            "a format with labels, such as generate."
        )
    return Hole(choices=choices)


def order_of(labels: Sequence[str]) -> Hole:
    """Every order of the labels."""
    if len(labels) > MOST_ORDERED:
        raise FormatError(
            f"an order of {len(labels)} choices cannot be enforced, only one of up to {MOST_ORDERED}: "
            "every order is a text of its own in the grammar. Ask it without +enforced."
        )
    return Hole(choices=tuple(", ".join(order) for order in permutations(labels)))


def grammar_of(target_format: str, hole: Callable[[str], Hole], *, reasons_first: bool) -> Grammar:
    """The grammar of replies that look like ``target_format``.

    ``hole`` gives what the answer may be, by what follows it. Everything before the answer announces it:
    if the model gives reasons first, that is the opening.
    """
    before, after, is_behind, is_reasoned = "", "", False, reasons_first
    for text, name, *_ in string.Formatter().parse(target_format):
        if is_behind:
            after += text
        else:
            before += text
        if name == "rationale":
            before, is_reasoned = "", True
        elif name is not None:
            is_behind = True
    opening = before.strip() if is_reasoned else ""
    if not opening:
        before = before.lstrip()
        parts = (before, hole(after), after)
        return Grammar(tuple(part for part in parts if part))
    gap = before[len(before.rstrip()) :]
    return Grammar(tuple(part for part in (gap, hole(after), after) if part), opening)
