"""From a model's reply to a ``Reading``: thinking masked, prefix joined, readers tried in order.

The result is fitted to the kind of answer that was asked for: a choice, a text, or an order. Some parts
of a reply are not its answer (thinking blocks, reasoning channels, text after the model's turn):
``find_thinking`` gives their spans, and ``mask_thinking`` replaces them with spaces, so that other spans
stay valid. Formats and the nugget judge share this rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from lm_eval.formats.readers.free_text import as_choice
from lm_eval.formats.readers.language import vocabulary
from lm_eval.formats.readers.reading import NO_ANSWER, BoundReader, Reading, Reason, first_settled
from lm_eval.formats.readers.text import blanked, fold, lowered

_REFUSAL_REACH = 600  # characters: a refusal comes first; later words may be about the question


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


_MIN_COPY = 20  # characters: a shorter line may be in a reply by chance


def without_copies(reply: str, shown: str) -> str:
    """``reply`` with blanks for the lines of ``shown`` that it repeats word for word.

    A question may hold what looks like an answer; a reply that quotes it has not given one.
    """
    for line in map(str.strip, shown.splitlines()):
        if len(line) >= _MIN_COPY and line in reply:
            reply = reply.replace(line, " " * len(line))
    return reply


def is_refusal(visible: str) -> bool:
    """True if a reply without an answer, folded and without thinking, begins with a refusal."""
    start = lowered(visible.lstrip()[:_REFUSAL_REACH])
    return vocabulary().refusal.search(start) is not None


def _masked(text: str, prefix: str | None) -> tuple[str, bool]:
    if prefix and find_thinking(prefix).spans:  # the model continues what the prompt opened
        masked = mask_thinking(prefix + text)
        return masked.text[len(prefix) :], masked.is_unclosed
    return mask_thinking(text)


def _read_continued(
    text: str,
    readers: Sequence[BoundReader],
    labels: Sequence[str],
    choices: Sequence[str],
    prefix: str | None,
) -> Reading:
    """The answer in prefix and reply as one text, else in the reply alone.

    Alone, because some readers look at the start of a reply, which the prefix would hide.
    """
    if prefix and text.strip() and not _repeats(text, prefix):
        joined = f"{prefix}{' ' if prefix[-1:].isalnum() else ''}{text}"
        reading = first_settled(readers, joined, labels=labels, choices=choices)
        reading = _within_reply(reading, len(joined) - len(text))
        if reading.is_settled:
            return reading
    return first_settled(readers, text, labels=labels, choices=choices)


def _repeats(text: str, prefix: str) -> bool:
    """True if the reply repeats the prefix at its start, so that it is complete without it."""
    start = text.lstrip()[: len(prefix) + 8]
    return start.lower().startswith(prefix.strip().lower())


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

    For a choice, a text becomes the choice that it names, or unreadable; for a text, the index of a
    choice becomes that choice's text.
    """
    value = reading.value
    is_list = isinstance(value, list | tuple)
    if not reading.is_answer or (answers == "order" and is_list):
        return reading
    if answers == "order" or (answers == "choice" and is_list):
        return NO_ANSWER
    if answers == "choice":
        return reading if isinstance(value, int) else as_choice(reading, labels, choices)
    if isinstance(value, int):
        return Reading((choices or labels)[value], reading.rule, reading.span)
    if is_list and choices and all(isinstance(v, int) for v in value):
        return Reading(", ".join(choices[v] for v in value), reading.rule, reading.span)
    return reading


# What is not the answer


Span = tuple[int, int]

_NAMES = (
    "think|thinking|thoughts?|reasoning|scratch_?pad|analysis|reflection|chain[_-]of[_-]thought"
    "|inner[_-]monologue|cot(?=>|]|▷)"  # cot x is a cotangent
)
_TAG = re.compile(  # in backticks a tag is text
    rf"(?<!`)(?:<\s{{0,8}}(?P<slash>/)?\s{{0,4}}(?:[\w.-]{{1,20}}:)?(?P<name>{_NAMES})(?![\w-])"
    rf"[^<>]{{0,300}}(?<!/)>|(?P<mark>\[|◁)(?P<close>/)?(?P<word>{_NAMES})(?(mark)[\]▷])(?!\()"
    r"|<\|(?P<edge>begin|end)_of_thought\|>)",
    re.IGNORECASE,
)
_MARK = re.compile(  # of a chat template
    r"(?<!`)<(?:\|(?P<channel>channel)\|>|(?P<turn_end>\|(?:im_end|eot_id|endoftext|end|return"
    r"|end_of_text|end_of_solution)\|>|end_of_turn>|/s>)|\|\w{1,30}\|>)"
)
_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}(\w{1,20})[^<]{0,100}<\|message\|>")
# Channels as they read where the server leaves special tokens out.
_BARE_CHANNELS = re.compile(r"\A\s{0,100}analysis(?=[A-Z\s])")
_BARE_FINAL = "assistantfinal"


class Thinking(NamedTuple):
    """The parts of a reply that are not its answer.

    ``spans`` are in order and do not overlap. ``open_at`` is where a block that is never closed begins;
    None if every block is closed.
    """

    spans: list[Span]
    open_at: int | None = None


class Masked(NamedTuple):
    """A reply of unchanged length, blank where the model was thinking."""

    text: str
    is_unclosed: bool


def mask_thinking(text: str) -> Masked:
    """``text`` with spaces in place of everything that ``find_thinking`` finds."""
    spans, open_at = find_thinking(text)
    return Masked(blanked(text, spans) if spans else text, is_unclosed=open_at is not None)


def find_thinking(text: str) -> Thinking:
    """The spans of ``text`` that are thinking, marks of a chat template, or behind the model's turn.

    A block is named think, thinking, thought, reasoning, scratchpad, analysis, reflection,
    chain_of_thought, cot or inner_monologue, in angle, square or triangle brackets. Blocks may nest and
    repeat, in any case and with attributes. A block that is never closed extends to the end; a closing
    tag without an opening one ends a block that began with the reply. Of the channels of gpt-oss, only
    the last final one is the answer. Time is linear in the length of ``text``.
    """
    text = fold(text)
    marks = list(_MARK.finditer(text))
    if any(mark["channel"] for mark in marks):
        return Thinking(_outside_final_channel(text, marks))
    if _BARE_CHANNELS.match(text) and _BARE_FINAL in text:
        return Thinking([(0, text.rindex(_BARE_FINAL) + len(_BARE_FINAL))])
    blocks, open_at = _blocks(text)
    return Thinking(_with_turn_ends(text, blocks, marks), open_at)


def _outside_final_channel(text: str, marks: list[re.Match[str]]) -> list[Span]:
    finals = [mark for mark in _CHANNEL.finditer(text) if mark[1].lower() == "final"]
    if not finals:
        return [(0, len(text))]
    start = finals[-1].end()
    end = next((m.start() for m in marks if m["turn_end"] and m.start() >= start), len(text))
    return [(0, start), (end, len(text))]


def _blocks(text: str) -> tuple[list[Span], int | None]:
    """Closed blocks in order, then an unclosed one up to the end, and where that one begins."""
    blocks: list[Span] = []
    start, family, depth = 0, "", 0
    for tag in _TAG.finditer(text):
        edge, name = tag["edge"], lowered(tag["name"] or tag["word"] or "thought")[:5]
        is_closing = bool(tag["slash"] or tag["close"] or (edge and edge.lower() == "end"))
        if depth and name == family:  # </thinking> closes <think>
            depth += -1 if is_closing else 1
            blocks += [] if depth else [(start, tag.end())]
        elif not depth and is_closing:
            blocks = [(0, tag.end())]
        elif not depth:
            start, family, depth = tag.start(), name, 1
    return ([*blocks, (start, len(text))], start) if depth else (blocks, None)


def _with_turn_ends(text: str, blocks: list[Span], marks: list[re.Match[str]]) -> list[Span]:
    """``blocks``, the marks of a chat template, and all that follows the end of the model's turn."""
    seen = blocks[-1][1] if blocks else 0
    spans = list(blocks)
    has_text = bool(blocks) and bool(text[: blocks[0][0]].strip())
    for mark in (mark for mark in marks if mark.start() >= seen):
        if mark[0] == "</s>" and "<s>" in text[max(seen, 1) : mark.start()]:
            continue  # struck through: "not <s>London</s>"
        has_text = has_text or bool(text[seen : mark.start()].strip())
        if has_text and mark["turn_end"]:
            return [*spans, (mark.start(), len(text))]
        spans.append(mark.span())
        seen = mark.end()
    return spans
