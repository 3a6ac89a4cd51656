"""A judge's reply → ``LabelReading``. Never raises, never guesses.

Thinking is cut out, every candidate answer is collected and ranked, and the best one is placed on the
nuggets. A bare, correct answer takes a short cut (``shortcuts``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lm_eval.formats.readers.reply import find_thinking, is_refusal
from lm_eval.formats.readers.text import fold
from nugget_eval.reading.candidates import (
    Candidate,
    LabelReading,
    LabelTuple,
    LabelWords,
    Slot,
    Span,
    cut_out,
)
from nugget_eval.reading.cues import correction, next_prompt, turn_end
from nugget_eval.reading.notations.brackets import bracketed
from nugget_eval.reading.notations.lists import listed
from nugget_eval.reading.notations.tags import plain_html, tagged, without_answer_tags
from nugget_eval.reading.ranking import conforms, decide, rank, unread, usable, without_menu
from nugget_eval.reading.shortcuts import quick_array, quick_labels, quick_list, quick_table
from nugget_eval.reading.spellings import STEM

LONGEST_REPLY = 8_000_000
"""Characters; a longer reply is not read."""

MOST_CANDIDATES = 5_000
"""A reply with more candidates than this counts as having no answer."""

_LONGEST_FINAL = 50_000
# Characters that do not show, the backslashes of Markdown, and entities of HTML.
_WRITTEN_OUT = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe0f\ufeff]"
    r"|\\+(?=[_*.#)\[\]\-])|&(?:[a-zA-Z]{2,6}|#\d{1,6}|#[xX][0-9a-fA-F]{1,5});"
)
_CHINESE_POINT = re.compile(r"^([ \t]{0,8}\d{1,4})、", re.MULTILINE)  # folded, it would be a comma
_PUNCTUATION = {
    **{ord("،"): ",", ord("؛"): ";", ord("۔"): ".", 0x20E3: "."},  # the last is a key-cap
    **{ord(first) + i: str(i + 1) for first in "⑴⒈❶➀➊" for i in range(9)},
    **dict.fromkeys(map(ord, "⇒⟶⟹➔➜➝➞➡➙➛⮕↦⇨"), "→"),
}
# If a list lacks labels, sentences may give them; not if it has too many.
_SAID_ELSEWHERE = ("truncation", "incomplete_index", "unknown_label", "format_error")
_STRUCK_OUT = re.compile(
    r"(?<!~)~~(?![~\s])[^~\n]{1,1000}~~(?!~)|<(?P<tag>del|s|strike)>[^<>\n]{1,1000}</(?P=tag)>"
)
_QUOTE_MARK = re.compile(r"^([ \t]*)>", re.MULTILINE)
_SLOT_LABEL = re.compile(r"(?:partial|not)_support|(?<![\w-])support(?=\W*(?:\Z|\n))")
_REASONING_FIELD = re.compile(
    r"^[ \t]*(?:\(?\d{1,4}[.):][ \t]*)?(?:[-*•][ \t]*)?[*_`]{0,2}(?:nugget|snippet|rationale|decision)"
    r"[ \t]*=[^\n]*",
    re.MULTILINE | re.IGNORECASE,
)


def read_labels(
    response: object,
    expected_count: object,
    *,
    format_type: str | None = None,
    case_sensitive: bool = False,
    plain_words: bool = False,
) -> LabelReading:
    """Read the labels that ``response`` gives to ``expected_count`` nuggets.

    ``format_type`` is the format that was asked for: of two answers that differ, the last one counts
    if it alone is in that format. ``case_sensitive`` accepts lower-case labels only; ``plain_words``
    also accepts yes, true, no, false, none and maybe, if each slot holds one word.
    """
    count = expected_count if type(expected_count) is int and expected_count > 0 else 0
    words = LabelWords(case_sensitive, plain_words)
    reading = _checked(response, count, words, format_type)
    if format_type is None or format_type == "adaptive":
        return reading
    return replace(reading, conforms=conforms(reading.format_used, format_type))


def parse_labels_multi_format(
    response: str, expected_count: int, case_sensitive: bool = False
) -> LabelTuple:
    """``(labels, count, format_used, error_type)``: the labels of a reply in any format.

    ``labels`` has one entry per nugget, or is None. A missing label is None at its position, but only
    if positions are certain: the reply numbers its labels, or lists one entry per nugget and some
    entries are not labels. ``count`` is the number of labels found. ``error_type`` is None if none is
    missing; ``ErrorType`` explains the other values. Never raises.
    """
    return read_labels(response, expected_count, case_sensitive=case_sensitive).as_tuple()


def strip_thinking_reasoning_blocks(text: str) -> str:
    """``text`` without thinking and reasoning blocks, and without white space around it.

    Blocks may be unclosed (they go to the end), nested, repeated, in any case and with attributes;
    a closing tag that nothing opened ends a block that began with the reply. Known names: think,
    thinking, thought, reasoning, scratchpad, analysis, reflection, chain_of_thought, cot,
    inner_monologue, in angle, square or triangle brackets; also the channels of gpt-oss. Text that
    is a JSON array or object stays as it is: tags in its strings are text.
    """
    if not isinstance(text, str):
        return ""
    pieces, at = [], 0
    for start, end in find_thinking(text).spans:
        pieces.append(text[at:start])
        at = end
    return "".join([*pieces, text[at:]]).strip()


# Steps


def _checked(
    response: object, count: int, words: LabelWords, format_type: str | None
) -> LabelReading:
    """The reading of any object; anything but a text of bearable length is an error with its reason."""
    if not count:
        return LabelReading((), "failed", "count_mismatch", "no nuggets to label")
    if not isinstance(response, str) or not response.strip():
        return unread(count, "empty", "empty", "the reply is empty")
    if len(response) > LONGEST_REPLY:
        return unread(count, "failed", "format_error", f"longer than {LONGEST_REPLY} characters")
    quick = None
    if not words.plain_words:
        quick = (
            quick_labels(response, count, format_type)
            or quick_list(response, count)
            or quick_array(response, count)
            or quick_table(response, count)
        )
    return quick if quick is not None else _read(response, count, words, format_type)


def _read(response: str, count: int, words: LabelWords, format_type: str | None) -> LabelReading:
    text, offsets = _visible(response)
    thinking, open_at = find_thinking(text)
    masked = plain_html(_without_reasoning_fields(cut_out(text, thinking)))
    masked = _own_words(masked)
    reading = _before_next_prompt(masked, count, words, format_type)
    if reading is None:
        reading = _of_own(masked, text, open_at, count, words, format_type)
    return _moved(reading, offsets)


def _own_words(text: str) -> str:
    """``text`` up to the end of the judge's turn, without struck-out words and outer quotation marks."""
    end = turn_end(text)
    text = text if end is None else text[:end]
    if "~~" in text or "</" in text:
        text = _STRUCK_OUT.sub(lambda struck: " " * len(struck[0]), text)
    if text.lstrip()[:1] == ">" and all(
        line.lstrip()[:1] == ">" for line in text.split("\n") if line.strip()
    ):
        text = _QUOTE_MARK.sub(r"\1 ", text)
    return text


def _before_next_prompt(
    text: str, count: int, words: LabelWords, format_type: str | None
) -> LabelReading | None:
    """The complete reading of what comes before the fields of another prompt; else None."""
    end = next_prompt(text)
    if end is None:
        return None
    reading = _of_own(text[:end], text[:end], None, count, words, format_type)
    return reading if reading.is_complete else None


def _of_own(
    masked: str,
    text: str,
    open_at: int | None,
    count: int,
    words: LabelWords,
    format_type: str | None,
) -> LabelReading:
    """The reading of the judge's own words. ``text`` is the reply with its thinking."""
    candidates = _ranked(masked, words)
    if len(candidates) > MOST_CANDIDATES:
        return unread(count, "failed", "ambiguous", f"{len(candidates)} possible answers")
    if format_type is not None:
        candidates = [without_menu(masked, candidate, format_type) for candidate in candidates]
    if open_at is not None and not usable(candidates):
        candidates = _after_unclosed(text, open_at, words, count)
    if not candidates and ('\\"' in masked or "\\n" in masked):
        candidates = _unescaped(masked, words)
    reading = decide(masked, candidates, count, format_type)
    if reading is None or reading.error_type in _SAID_ELSEWHERE:
        reading, candidates = _in_sentences(masked, words, count, reading, candidates)
    if reading is None:
        reading = _nothing(masked, candidates, count, is_unclosed=open_at is not None)
    elif reading.is_complete:
        reading = _amended(masked, reading, words)
    return replace(reading, candidates=tuple(candidates))


def _amended(text: str, reading: LabelReading, words: LabelWords) -> LabelReading:
    """The reading with the labels that a correction after it changes.

    A correction that names a label but cannot be read makes the whole answer ambiguous.
    """
    assert reading.span is not None
    start = correction(text, reading.span[1])
    if start is None or STEM.search(text, start) is None:
        return reading
    count = len(reading.labels)
    tail = " " * start + text[start:]
    lists = rank(tail, _candidates(tail, words))
    amended = decide(tail, lists, count, None)
    if amended is None or not any(amended.labels):
        amended = decide(tail, _stated(tail, words, count), count, None)
    if amended is not None and any(amended.labels):
        labels = tuple(new or old for new, old in zip(amended.labels, reading.labels, strict=True))
        return replace(
            reading, labels=labels, span=(reading.span[0], (amended.span or reading.span)[1])
        )
    if _SLOT_LABEL.search(tail):
        return unread(count, reading.format_used, "ambiguous", "a correction that is not clear")
    return reading


def _in_sentences(
    text: str,
    words: LabelWords,
    count: int,
    reading: LabelReading | None,
    candidates: list[Candidate],
) -> tuple[LabelReading | None, list[Candidate]]:
    """The reading of sentences, if lists hold no answer or only a part of the same one."""
    if STEM.search(text) is None:
        return reading, candidates
    sentences = rank(text, _stated(text, words, count))
    stated = decide(text, sentences, count, None)
    if stated is None:
        return reading, candidates
    if reading is not None and not (stated.is_complete and _agree(stated, reading)):
        return reading, candidates
    return stated, [*candidates, *sentences]


def _stated(text: str, words: LabelWords, count: int) -> list[Candidate]:
    """Candidates in sentences; imported late: few replies need them, and the patterns compile slowly."""
    from nugget_eval.reading.prose.statements import stated

    return stated(text, words, count)


def _agree(a: LabelReading, b: LabelReading) -> bool:
    """True if no nugget has two labels."""
    return all(x == y for x, y in zip(a.labels, b.labels, strict=True) if x and y)


def _visible(response: str) -> tuple[str, list[int] | None]:
    """The reply in plain, visible characters, and their old offsets if any changed."""
    offsets = None
    if not response.isascii() or "\\" in response or "&" in response:
        response, offsets = _shown(response)
    if response.isascii():
        return response, offsets
    if "、" in response:
        response = _CHINESE_POINT.sub(r"\1.", response)
    return fold(response).translate(_PUNCTUATION), offsets


def _shown(response: str) -> tuple[str, list[int] | None]:
    """The reply as a reader would see it, and the old offset of each character if any changed."""
    pieces: list[str] = []
    offsets: list[int] = []
    at = 0
    for written in _WRITTEN_OUT.finditer(response):
        shown = html.unescape(written[0]) if written[0][0] == "&" else ""
        if len(shown) > 1:
            continue
        pieces += (response[at : written.start()], shown)
        offsets += range(at, written.start())
        offsets += (written.start(),) * len(shown)
        at = written.end()
    if not pieces:
        return response, None
    return "".join(pieces) + response[at:], [*offsets, *range(at, len(response))]


def _without_reasoning_fields(text: str) -> str:
    """``text`` of equal length without ``decision="support"`` and the like, which are reasoning."""
    if "=" not in text:
        return text
    return _REASONING_FIELD.sub(lambda field: " " * len(field[0]), text)


def _candidates(text: str, words: LabelWords) -> list[Candidate]:
    """Every candidate; text in brackets or tags is not read again as lines."""
    if not words.plain_words and STEM.search(text) is None:
        return []
    candidates = tagged(text, words)
    remaining = cut_out(text, (candidate.span for candidate in candidates))
    in_brackets = bracketed(remaining, words)
    candidates += in_brackets
    remaining = cut_out(remaining, _separate(in_brackets))
    if words.plain_words or STEM.search(remaining):
        candidates += listed(without_answer_tags(remaining), words)
    return sorted(candidates, key=lambda candidate: candidate.span)


def _ranked(text: str, words: LabelWords) -> list[Candidate]:
    candidates = _candidates(text, words)
    if not candidates or len(candidates) > MOST_CANDIDATES:
        return candidates
    return rank(text, candidates)


def _separate(candidates: Sequence[Candidate]) -> Iterator[Span]:
    """The spans of candidates in order, without those inside another."""
    at = 0
    for candidate in candidates:
        if candidate.span[0] >= at:
            yield candidate.span
            at = candidate.span[1]


def _after_unclosed(text: str, open_at: int, words: LabelWords, count: int) -> list[Candidate]:
    """A complete answer that is marked final and ends a reply whose thinking never closed."""
    start = max(open_at, len(text) - _LONGEST_FINAL)
    tail = " " * start + text[start:]
    candidates = _ranked(_without_reasoning_fields(tail), words)
    last = candidates[-1] if candidates else None
    is_end = last is not None and not text[last.span[1] :].strip(" \t\r\n`.")
    if last is None or not is_end or last.rank < 3 or last.known != count:
        return [replace(candidate, excluded="reasoning") for candidate in candidates]
    final = last.repaired("thinking was not closed")
    return [*(replace(candidate, excluded="reasoning") for candidate in candidates[:-1]), final]


def _unescaped(text: str, words: LabelWords) -> list[Candidate]:
    """Candidates of a reply with escaped quotes or line breaks; their span is the whole reply."""
    plain = text.replace('\\"', '"').replace("\\n", "\n").strip().strip('"')
    candidates = [replace(candidate, span=(0, len(text))) for candidate in _ranked(plain, words)]
    return [
        replace(candidate, slots=_unplaced(candidate)).repaired("escaped")
        for candidate in candidates
    ]


def _unplaced(candidate: Candidate) -> tuple[Slot, ...]:
    return tuple(replace(slot, span=None) for slot in candidate.slots)


def _nothing(
    text: str, candidates: Sequence[Candidate], count: int, *, is_unclosed: bool
) -> LabelReading:
    """Why there is no answer."""
    if is_unclosed:
        return unread(count, "failed", "truncation", "the reply ends while the model was thinking")
    if not text.strip():
        return unread(count, "empty", "empty", "nothing but reasoning")
    why = {candidate.excluded for candidate in candidates}
    if why & {"example", "quote", "definitions", "menu"}:
        reason = f"only {', '.join(sorted(map(str, why)))}, no answer"
        return replace(unread(count, "failed", "echo", reason), found=0)
    if is_refusal(text):
        return unread(count, "failed", "refusal", "the model declined")
    if why:
        return unread(count, "failed", "format_error", f"only {', '.join(sorted(map(str, why)))}")
    return unread(count, "failed", "format_error", "no list of labels")


def _moved(reading: LabelReading, offsets: list[int] | None) -> LabelReading:
    """The reading with spans that count from the original reply."""
    if offsets is None:
        return reading

    def moved(span: Span) -> Span:
        return offsets[span[0]], offsets[span[1] - 1] + 1

    def maybe(span: Span | None) -> Span | None:
        return None if span is None else moved(span)

    def slots(candidate: Candidate) -> tuple[Slot, ...]:
        return tuple(replace(slot, span=maybe(slot.span)) for slot in candidate.slots)

    return replace(
        reading,
        span=maybe(reading.span),
        spans=tuple(map(maybe, reading.spans)),
        candidates=tuple(
            replace(candidate, span=moved(candidate.span), slots=slots(candidate))
            for candidate in reading.candidates
        ),
    )
