"""Where a reply is not its answer: thinking blocks, reasoning channels, what follows the model's turn.

In: a reply. Out: the spans to leave out (``find_thinking``), or the reply of equal length with these
blank (``mask_thinking``), so that spans stay valid. Formats and the nugget judge share this rule.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from lm_eval.formats.readers.text import blanked, fold, lowered

Span = tuple[int, int]

_NAMES = (
    "think|thinking|thoughts?|reasoning|scratch_?pad|analysis|reflection|chain[_-]of[_-]thought"
    r"|inner[_-]monologue|cot(?=[>\]▷⟩])"  # cot x is a cotangent
)
# Every name holds one of these; a plain string is found many times faster than a pattern.
_STEMS = ("think", "thought", "reasoning", "scratch", "analysis", "reflection", "monologue", "cot")
_STEM_REACH = 40  # characters between the bracket of a tag and the stem in its name, at most
# These are matched in lower case.
_TAG = re.compile(
    r"[<\[◁⟨]\s{0,4}(?P<slash>/?)\s{0,4}(?:[\w.-]{1,20}:)?"
    rf"(?P<name>{_NAMES})(?![\w-])[^<>\[\]◁▷⟨⟩]{{0,300}}[>\]▷⟩]"
    r"|<\|(?P<edge>begin|end)_of_thought\|>"
)
_HEADING = re.compile(
    r"\[(?:final[ _-]?)?(?:answer|output|response|result|solution|conclusion|verdict|labels?)\]"
)
_BRACKETS = ("<>", "[]", "◁▷", "⟨⟩")
_LINE_START = re.compile(r"(?:\A|\n)[ \t*_#]{0,8}\Z")
_CHANNEL_MARK = re.compile(r"<\|channel\|>")
_CHANNEL = re.compile(r"<\|channel\|>\s{0,4}(\w{1,20})[^<]{0,100}<\|message\|>")
# Channels as they read where the server leaves special tokens out.
_BARE_CHANNELS = re.compile(r"\A\s{0,100}analysis(?=[A-Z\s])")
_BARE_FINAL = "assistantfinal"
_TURN_END = re.compile(
    r"<\|(?:im_end|eot_id|endoftext|end|return|end_of_text|end_of_solution)\|>|<end_of_turn>|</s>"
)
_MARK = re.compile(rf"{_TURN_END.pattern}|<\|\w{{1,30}}\|>")


class Thinking(NamedTuple):
    """The parts of a reply that are not its answer.

    ``spans`` are in order and do not overlap. ``open_at`` is where a block opened that was never
    closed; None where every block was.
    """

    spans: list[Span]
    open_at: int | None = None


class Masked(NamedTuple):
    """A reply of unchanged length, blank where the model was thinking."""

    text: str
    is_unclosed: bool


def mask_thinking(text: str) -> Masked:
    """``text`` with everything blank that ``find_thinking`` finds."""
    spans, open_at = find_thinking(text)
    return Masked(blanked(text, spans), is_unclosed=open_at is not None)


def find_thinking(text: str) -> Thinking:
    """The spans of ``text`` that are thinking, marks of a chat template, or behind the model's turn.

    A block is named think, thinking, thought, reasoning, scratchpad, analysis, reflection,
    chain_of_thought, cot or inner_monologue, in angle, square or triangle brackets. Blocks may nest and
    repeat, in any case and with attributes. One that is never closed goes to the end; a closing tag
    that nothing opened ends a block that began with the reply. Of the channels of gpt-oss, only the last
    final one is the answer. A reply that is a JSON array or object has no thinking: tags in its strings
    are text. Time is linear in the length of ``text``.
    """
    if "<" not in text and text.isascii() and "[" not in text and _BARE_FINAL not in text:
        return Thinking([])
    thinking = _find(fold(text))
    return Thinking([]) if thinking.spans and _is_json(text) else thinking


def _find(text: str) -> Thinking:
    if "<|channel|>" in text and _names_channel(text):
        return Thinking(_outside_final_channel(text))
    if _BARE_FINAL in text and _BARE_CHANNELS.match(text):
        return Thinking([(0, text.rindex(_BARE_FINAL) + len(_BARE_FINAL))])
    blocks, open_at = _blocks(text)
    return Thinking(_with_turn_ends(text, blocks), open_at)


def _is_json(text: str) -> bool:
    """True if the whole of ``text`` is one JSON array or object."""
    stripped = text.strip()
    if not stripped.startswith(("[", "{")) or not stripped.endswith(("]", "}")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    """True if quotes or backticks enclose exactly ``mark``: the reply is about it."""
    start, end = mark.span()
    return start > 0 and text[start - 1] in "\"'`" and text[start - 1] == text[end : end + 1]


# ------------------------------------------------------------------------------------- channels


def _names_channel(text: str) -> bool:
    """True unless every mark of a channel is quoted."""
    return any(not _is_quoted(text, mark) for mark in _CHANNEL_MARK.finditer(text))


def _outside_final_channel(text: str) -> list[Span]:
    finals = [mark for mark in _CHANNEL.finditer(text) if mark[1].lower() == "final"]
    if not finals:
        return [(0, len(text))]
    start = finals[-1].end()
    end = _TURN_END.search(text, start)
    return [(0, start), (end.start(), len(text))] if end else [(0, start)]


# --------------------------------------------------------------------------------------- blocks


class _OpenBlocks:
    """The blocks that are open at some place of a reply, innermost last."""

    def __init__(self) -> None:
        self.start = 0
        """Where the outermost block opened."""
        self._families: list[str] = []
        self._counts: Counter[str] = Counter()  # so that a look-up does not walk the list

    def __bool__(self) -> bool:
        return bool(self._families)

    def __contains__(self, family: str) -> bool:
        return self._counts[family] > 0

    def open(self, family: str, start: int) -> None:
        if not self._families:
            self.start = start
        self._families.append(family)
        self._counts[family] += 1

    def close(self, family: str) -> None:
        """Close the innermost block of ``family`` and all that opened inside it."""
        closed = ""
        while closed != family:
            closed = self._families.pop()
            self._counts[closed] -= 1

    def close_all(self) -> None:
        self._families.clear()
        self._counts.clear()


def _blocks(text: str) -> tuple[list[Span], int | None]:
    """Closed blocks in order, an unclosed one to the end, and where that one opened."""
    blocks: list[Span] = []
    opened = _OpenBlocks()
    for tag in _tags(text):
        if tag.re is _HEADING:
            if opened and text[opened.start] == "[":
                opened.close_all()
                blocks.append((opened.start, tag.end()))
            continue
        is_closing, family = _kind(tag)
        if not is_closing:
            opened.open(family, tag.start())
        elif not opened:
            blocks = [(0, tag.end())]
        elif family in opened:
            opened.close(family)
            blocks += [] if opened else [(opened.start, tag.end())]
    if not opened:
        return blocks, None
    return [*blocks, (opened.start, len(text))], opened.start


def _tags(text: str) -> list[re.Match[str]]:
    """The tags of ``text`` in order, and the headings that may end a block in square brackets."""
    low = lowered(text)
    stems = [stem for stem in _STEMS if stem in low]
    if not stems:
        return []
    starts = {start for stem in stems for start in _brackets_before(low, stem)}
    matches = (_TAG.match(low, start) for start in sorted(starts))
    tags = [tag for tag in matches if tag is not None and _is_tag(text, tag)]
    if not any(text[tag.start()] == "[" for tag in tags):
        return tags
    headings = (heading for heading in _HEADING.finditer(low) if _starts_line(low, heading))
    return sorted((*tags, *headings), key=re.Match.start)


def _brackets_before(low: str, stem: str) -> Iterator[int]:
    """Where the last opening bracket before each ``stem`` is."""
    brackets = "<[" if low.isascii() else "<[◁⟨"
    at = low.find(stem)
    while at >= 0:
        start = max(low.rfind(bracket, max(0, at - _STEM_REACH), at) for bracket in brackets)
        if start >= 0:
            yield start
        at = low.find(stem, at + 1)


def _kind(tag: re.Match[str]) -> tuple[bool, str]:
    """Whether a tag closes a block, and of which family: ``</thinking>`` closes ``<think>``."""
    if tag["edge"]:
        return tag["edge"] == "end", "thoug"
    return bool(tag["slash"]), tag["name"][:5]


def _is_tag(text: str, tag: re.Match[str]) -> bool:
    """False for a tag in quotes, ``<think/>``, ``[analysis of …]`` and the link ``[analysis](…)``."""
    start, end = tag.span()
    if _is_quoted(text, tag):
        return False
    opening, closing, last = text[start], text[end - 1], text[end - 2]
    if opening == "<":
        return closing == ">" and last != "/"
    if opening + closing not in _BRACKETS or not last.isalpha() or " " in tag[0]:
        return False
    return opening != "[" or text[end : end + 1] != "("


def _starts_line(text: str, heading: re.Match[str]) -> bool:
    """True for ``[answer]`` on a line of its own; ``The answer is [answer]`` repeats the instruction.

    Models that write ``[reasoning]`` as a heading do not close it: the next heading does.
    """
    return _LINE_START.search(text, max(0, heading.start() - 9), heading.start()) is not None


# ---------------------------------------------------------------------------------------- turns


def _with_turn_ends(text: str, blocks: list[Span]) -> list[Span]:
    """``blocks``, the marks of a chat template, and all that follows the end of the model's turn."""
    if "<|" not in text and "</s>" not in text and "<end_of_turn>" not in text:
        return blocks
    spans = list(blocks)
    seen = blocks[-1][1] if blocks else 0
    has_text = bool(blocks) and bool(text[: blocks[0][0]].strip())
    behind_start = len(text) - len(text.lstrip()) + 1  # an <s> that begins a reply strikes nothing
    behind_mark = seen
    for mark in _MARK.finditer(text, seen):
        since = max(behind_mark, behind_start)
        behind_mark = mark.end()
        if _is_quoted(text, mark) or _strikes_through(text, since, mark):
            continue
        has_text = has_text or bool(text[seen : mark.start()].strip())
        if has_text and _TURN_END.match(mark[0]):
            return [*spans, (mark.start(), len(text))]
        spans.append(mark.span())
        seen = mark.end()
    return spans


def _strikes_through(text: str, since: int, mark: re.Match[str]) -> bool:
    """True for the ``</s>`` of ``not <s>London</s>``, if its ``<s>`` comes after ``since``."""
    return mark[0] == "</s>" and text.find("<s>", since, mark.start()) >= 0
