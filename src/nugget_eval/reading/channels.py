"""Which part of a reply is the answer: thinking and reasoning are found and taken out.

In: the reply. Out: the same text without them (``strip_thinking_reasoning_blocks``), or of equal
length and blank where the model was thinking (``answer_channel``), so that places stay true.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from lm_eval.formats.readers.text import lowered
from nugget_eval.reading.candidates import Span, cut_out

_NAMES = (
    "think|thinking|thoughts?|reasoning|scratch_?pad|analysis|reflection|chain[_-]of[_-]thought|cot"
    "|inner[_-]monologue"
)
# For lower case: such a pattern is found many times faster than one that ignores case.
_TAG = re.compile(
    rf"[<\[◁⟨]\s{{0,4}}(/?)\s{{0,4}}(?:[\w.-]{{1,20}}:)?({_NAMES})(?![\w-])[^<>\[\]◁▷⟨⟩]{{0,300}}[>\]▷⟩]"
    r"|<\|(?:begin|end)_of_thought\|>"
)
_BRACKETS = ("<>", "[]", "◁▷", "⟨⟩")
_MAY_HOLD_TAG = re.compile(r"<\s{0,4}[\w/|]|\[/?[A-Za-z]|[◁⟨]")
_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}(\w{1,20})[^<]{0,100}<\|message\|>")
_BARE_CHANNELS = re.compile(r"\A\s{0,100}analysis(?=[A-Z\s])")
_BARE_FINAL = "assistantfinal"
_TURN_END = re.compile(
    r"<\|(?:im_end|eot_id|endoftext|end|return|end_of_text|end_of_solution)\|>|<end_of_turn>|</s>"
)
_MARK = re.compile(rf"{_TURN_END.pattern}|<\|\w{{1,30}}\|>")


@dataclass(frozen=True, slots=True)
class Channel:
    """A reply of unchanged length, blank where it is not the answer.

    ``is_unclosed``: a thinking block was still open at the end; it began at ``open_at``.
    ``is_masked``: something was blanked out.
    """

    text: str
    is_unclosed: bool = False
    open_at: int = 0
    is_masked: bool = False


def strip_thinking_reasoning_blocks(text: str) -> str:
    """``text`` without thinking and reasoning blocks, and without white space around it.

    Blocks may be unclosed (they go to the end), nested, repeated, in any case and with attributes;
    a closing tag that nothing opened ends a block that began with the reply. Known names: think,
    thinking, thought, reasoning, scratchpad, analysis, reflection, chain_of_thought, cot,
    inner_monologue, in angle, square or triangle brackets; also the channels of gpt-oss. Text that
    is valid JSON as a whole stays as it is: tags in its strings are text.
    """
    if not isinstance(text, str):
        return ""
    if is_json(text):
        return text.strip()
    spans, _ = _hidden(text)
    pieces, at = [], 0
    for start, end in spans:
        pieces.append(text[at:start])
        at = end
    pieces.append(text[at:])
    return "".join(pieces).strip()


def answer_channel(text: str) -> Channel:
    """``text`` with everything blank that is not the answer."""
    spans, open_at = _hidden(text)
    if not spans:
        return Channel(text)
    return Channel(cut_out(text, spans), open_at is not None, open_at or 0, True)


def is_json(text: str) -> bool:
    """True if the whole of ``text`` is one JSON array, object or string."""
    stripped = text.strip()
    if stripped[:1] not in ("[", "{", '"') or stripped[-1:] not in ("]", "}", '"'):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _hidden(text: str) -> tuple[list[Span], int | None]:
    """Spans that are not the answer, in order; where a block opened that was never closed."""
    if "<|channel|>" in text:
        return _outside_final_channel(text), None
    if _BARE_FINAL in text and _BARE_CHANNELS.match(text):
        return [(0, text.rindex(_BARE_FINAL) + len(_BARE_FINAL))], None
    if not _MAY_HOLD_TAG.search(text):
        return [], None
    blocks, open_at = _blocks(text)
    return _with_turn_ends(text, blocks), open_at


def _outside_final_channel(text: str) -> list[Span]:
    marks = list(_CHANNEL.finditer(text))
    finals = [mark for mark in marks if mark[1].lower() == "final"]
    if not finals:
        return [(0, len(text))]
    start = finals[-1].end()
    end = _TURN_END.search(text, start)
    stop = end.start() if end else len(text)
    return [(0, start), (stop, len(text))] if stop < len(text) else [(0, start)]


def _blocks(text: str) -> tuple[list[Span], int | None]:
    """Closed blocks in order, an unclosed one to the end, and where that one opened."""
    blocks: list[Span] = []
    opened: list[str] = []
    counts: dict[str, int] = {}  # of ``opened``, so that a look-up does not walk the list
    start = 0
    for tag in _TAG.finditer(lowered(text)):
        if _is_no_tag(text, tag):
            continue
        closes, family = _kind(tag)
        if not closes:
            start = start if opened else tag.start()
            opened.append(family)
            counts[family] = counts.get(family, 0) + 1
        elif not opened:
            blocks = [(0, tag.end())]
        elif counts.get(family):
            _close(opened, counts, family)
            blocks += [] if opened else [(start, tag.end())]
    if opened:
        blocks.append((start, len(text)))
    return blocks, start if opened else None


def _kind(tag: re.Match[str]) -> tuple[bool, str]:
    """Whether a tag closes a block, and which: ``</thinking>`` closes ``<think>``."""
    slash, name = tag.groups()
    return (bool(slash), name[:5]) if name else (tag[0][2] == "e", "thoug")


def _is_no_tag(text: str, tag: re.Match[str]) -> bool:
    """True for ``<think>`` in quotes or backticks, for ``<think/>``, and for ``[analysis of …]``."""
    start, end = tag.span()
    if start and text[start - 1] in "\"'`" and text[start - 1] == text[end : end + 1]:
        return True
    opening, closing, before = text[start], text[end - 1], text[end - 2]
    if opening == "<":
        return closing != ">" or before == "/"
    return opening + closing not in _BRACKETS or not (before.isalpha() and " " not in tag[0])


def _close(opened: list[str], counts: dict[str, int], family: str) -> None:
    """Close the innermost block of ``family`` and all that opened inside it."""
    closed = ""
    while closed != family:
        closed = opened.pop()
        counts[closed] -= 1


def _with_turn_ends(text: str, blocks: list[Span]) -> list[Span]:
    """``blocks`` and the marks of a chat template; what follows the end of a turn is not the answer."""
    if "<|" not in text and "</s>" not in text and "<end_of_turn>" not in text:
        return blocks
    spans = list(blocks)
    seen = at = blocks[-1][1] if blocks else 0
    has_text = bool(blocks) and bool(text[: blocks[0][0]].strip())
    for mark in _MARK.finditer(text, at):
        has_text = has_text or bool(text[seen : mark.start()].strip())
        if has_text and _TURN_END.match(mark[0]):
            return [*spans, (mark.start(), len(text))]
        spans.append(mark.span())
        seen = mark.end()
    return spans
