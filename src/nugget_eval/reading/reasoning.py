"""What a judge's reasoning says about each nugget: the fields nugget, snippet, rationale, decision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nugget_eval.reading.spellings import Label, label_of

_EVENT = re.compile(
    r"(?:^|(?<=>))[ \t]*(?:[-*•][ \t]+)?[*_`]{0,2}(?:nugget[ \t]{0,2}#?)?\(?(?P<number>\d{1,4})"
    r"[*_`]{0,2}[ \t]?[.):][*_`]{0,2}(?!\d)"
    r"|(?:^|(?<=[\s;,.]))[*_`\"]{0,2}(?P<field>nugget|snippet|rationale|decision)[*_`\"]{0,2}"
    r"[ \t]{0,2}[=:][ \t]*"
    r"|(?P<end><\s{0,4}/\s{0,4}reasoning[^<>]{0,80}>)",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`"}


@dataclass(frozen=True, slots=True)
class Reasoned:
    """What the reasoning says about one nugget; a field that is not there is None.

    ``number`` is the one in the reply. ``decision`` is None also if it is not a known label.
    """

    number: int | None
    nugget: str | None = None
    snippet: str | None = None
    rationale: str | None = None
    decision: Label | None = None

    @property
    def is_empty(self) -> bool:
        return self.nugget is self.snippet is self.rationale is self.decision is None


def read_reasoning(response: str) -> tuple[Reasoned, ...]:
    """The reasoning about each nugget, in the order written; empty if there is none.

    Reads the fields ``nugget=``, ``snippet=``, ``rationale=`` and ``decision=`` wherever they occur: a
    small model forgets the tags around them. A new number or a repeated field starts the next nugget.
    """
    if not isinstance(response, str):
        return ()
    return tuple(item for item in _items(response) if not item.is_empty)


def _items(response: str) -> Iterator[Reasoned]:
    number: int | None = None
    fields: dict[str, str] = {}
    events = list(_EVENT.finditer(response))
    for i, event in enumerate(events):
        end = events[i + 1].start() if i + 1 < len(events) else len(response)
        name = (event["field"] or "").lower()
        if not name or name in fields:
            yield _reasoned(number, fields)
            number, fields = int(event["number"]) if event["number"] else None, {}
        if name:
            fields[name] = _value(response[event.end() : end])
    yield _reasoned(number, fields)


def _reasoned(number: int | None, fields: dict[str, str]) -> Reasoned:
    nugget, snippet, rationale = map(fields.get, ("nugget", "snippet", "rationale"))
    return Reasoned(number, nugget, snippet, rationale, label_of(fields.get("decision", "")))


def _value(source: str) -> str:
    """A field's text without the quotes around it; what follows the closing quote goes as well."""
    text = source.strip()
    closing = _QUOTES.get(text[:1])
    if closing is None:
        return text.rstrip(";,").rstrip()
    end = text.rfind(closing)
    return text[1:end] if end > 0 else text[1:]
