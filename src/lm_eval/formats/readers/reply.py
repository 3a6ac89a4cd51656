"""From a model's reply to a ``Reading``: thinking masked, prefix joined, readers tried in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lm_eval.formats.readers.bound import BoundReader, first_settled
from lm_eval.formats.readers.free_text import as_choice
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, Reason
from lm_eval.formats.readers.text import fold
from lm_eval.formats.readers.thinking import find_thinking, mask_thinking

_REFUSAL = re.compile(
    r"\bi(?:\s+am|'m)\s+(?:sorry\b|unable\s+to|not\s+able\s+to)|\bas\s+an\s+ai\b|\bi\s+must\s+decline\b"
    r"|\bi(?:\s+cannot|\s+can't|\s+can\s+not|\s+won't|\s+will\s+not|\s+refuse\s+to)\s+(?:help|assist"
    r"|answer|provide|comply|do\s+that|choose|select|continue|discuss|engage|fulfill|respond"
    r"|judge|evaluate|assign|label|complete|assess)",
    re.IGNORECASE,
)
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
    if reading.is_answer:
        return reading
    is_cut = is_unclosed or finish == "length"
    return Reading.unread(_reason(masked, reading, is_cut=is_cut, is_refused=finish == "refused"))


def is_refusal(visible: str) -> bool:
    """True if a reply without an answer, folded and without its thinking, begins by declining."""
    return _REFUSAL.search(visible.lstrip()[:_REFUSAL_REACH]) is not None


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
    if prefix and text.strip():
        joined = _joined(prefix, text)
        reading = first_settled(readers, joined, labels=labels, choices=choices)
        reading = _within_reply(reading, len(joined) - len(text))
        if reading.is_settled:
            return reading
    return first_settled(readers, text, labels=labels, choices=choices)


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
