"""Data between marks: what a passage says cannot end the passage.

In: the run's seed, query, passage and nuggets. Out: a mark that occurs nowhere in them, the texts as
they go between the marks, and the way back (``cut_out``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from nugget_eval.errors import PromptError

SHORTEST_MARK = 12
_LINE_END = re.compile("(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
_INDENT = "    "
# Marks of chat templates. A server that finds one in a message may take it for the end of the turn.
_ROLE_MARK = (
    r"\|[\w .:-]{1,40}\|>|｜[^｜<>\[\]\n]{1,60}｜>|</?SYS>>"
    r"|/?(?:s|bos|eos|pad|unk|(?:start|end)_of_turn)>"
    r"|/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
)
_OPEN_MARK = re.compile(rf"([<\[])( *)(?={_ROLE_MARK})", re.IGNORECASE)
_SPACED_MARK = re.compile(rf"([<\[]) ( *)(?={_ROLE_MARK})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Data:
    """What is judged, as it was given."""

    query: str
    passage: str
    nuggets: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.query, self.passage, *self.nuggets)


def mark_for(data: Data, seed: object, *, shortest: int = SHORTEST_MARK) -> str:
    """Hex digits that occur nowhere in the data; the same ones for the same seed and data.

    They depend on query and passage, not on the nuggets: batches of nuggets on one passage then begin
    alike, which servers remember. A mark that does occur in the data is made longer.
    """
    texts = [text.lower() for text in data.texts]
    digits = _digits(repr(seed), data.query, data.passage)
    mark = "".join(next(digits) for _ in range(shortest))
    while any(mark in text for text in texts):
        mark += next(digits)
    return mark


def _digits(*parts: str) -> Iterator[str]:
    """Hex digits without end that follow from ``parts``."""
    start = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        start.update(
            b"%d:" % len(encoded)
        )  # the length, so that no two lists of parts are one text
        start.update(encoded)
    for turn in count():
        block = start.copy()
        block.update(b"%d" % turn)
        yield from block.hexdigest()


def shielded(text: str) -> str:
    """``text`` with a space inside every mark of a chat template: ``<|im_end|>`` → ``< |im_end|>``."""
    if "<" not in text and "[" not in text:
        return text
    return _OPEN_MARK.sub(r"\1 \2", text)


def unshielded(text: str) -> str:
    """What ``shielded`` was given."""
    return _SPACED_MARK.sub(r"\1\2", text)


def as_item(nugget: str) -> str:
    """A nugget for a numbered list: its further lines are indented, so that none poses as a nugget."""
    if nugget.isprintable():  # no line end is
        return shielded(nugget)
    return _LINE_END.sub(rf"\1{_INDENT}", shielded(nugget))


def cut_out(message: str) -> Data:
    """Query, passage and nuggets of a user message, exactly as they were given."""
    opening = _OPENING.search(message)
    if opening is None:
        raise PromptError(
            "This message holds no line `BEGIN QUERY …`, so there is no data to cut out of it. Give "
            "the user's message of a prompt that build_template_prompt made."
        )
    query, passage, nuggets = (
        _between(message, name, opening[1]) for name in ("QUERY", "PASSAGE", "NUGGETS")
    )
    return Data(unshielded(query), unshielded(passage), tuple(_items(nuggets)))


_OPENING = re.compile(r"^BEGIN QUERY ([0-9a-f]+)$", re.MULTILINE)


def _between(message: str, name: str, mark: str) -> str:
    _, _, rest = message.partition(f"BEGIN {name} {mark}\n")
    section, end, _ = rest.partition(f"\nEND {name} {mark}")
    if not end:
        raise PromptError(f"The message has no line `END {name} {mark}`: it was cut or changed.")
    return section


def _items(block: str) -> Iterator[str]:
    """The nuggets of a numbered list that ``as_item`` wrote."""
    for item in _ITEM.split("\n" + block)[1:]:
        yield unshielded(_INDENTED.sub(r"\1", item))


_ITEM = re.compile(r"\n[0-9]+\. ")  # a line of a nugget itself begins with spaces
_INDENTED = re.compile(f"{_LINE_END.pattern}{_INDENT}")
