"""A judge's reply → ``LabelReading``. Never raises, never guesses.

Thinking, later turns and verbatim copies of the data are blanked; every possible answer is collected, in
brackets, tags and lines, else in sentences; the one that counts is placed on the nuggets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from lm_eval.formats.readers.reply import find_thinking, is_refusal
from lm_eval.formats.readers.text import fold
from nugget_eval.reading import brackets, tags
from nugget_eval.reading.answers import LabelList, conforms, decide, judged, unread
from nugget_eval.reading.copies import without_copies
from nugget_eval.reading.lines import read_lines
from nugget_eval.reading.outcome import LabelReading, LabelTuple, Span
from nugget_eval.reading.prose import read_prose
from nugget_eval.reading.spellings import SPELLING
from nugget_eval.reading.words import alternatives

LONGEST_REPLY = 8_000_000
"""Characters; a longer reply is not read."""

_MARKS = {
    **dict.fromkeys(map(ord, "・●▪‣◦➤■▶►○□∙·◆◇★☆※⁃➢✦🔹🔸👉"), "•"),
    **dict.fromkeys(map(ord, "⇒⟶⟹➔➜➝➞➡➙➛⮕↦⇨"), "→"),
}
_CIRCLED = re.compile("(\\d)\ufe0f?\u20e3|([①-⑨❶-❾➀-➈➊-➒⑴-⑼⒈-⒐])\\s?")
_LATEX = re.compile(r"\\(?:boxed|text\w{0,2}|math\w{0,2})\s?(?=\{)|\\(?=[\[\]*-])")
_MEMBER = re.compile(
    r"\b\w{0,20}?label\w{0,10}?(?:\.|::|_|\(?[\"']?(?<=[(\"']))(?=(?:not|partial|un)?_?support|partial)",
    re.IGNORECASE,
)
_REASONING_FIELD = re.compile(
    r"^[ \t]*(?:\(?\d{1,4}[.):][ \t]*)?(?:[-*•][ \t]*)?[*_`]{0,2}(?:nugget|snippet|rationale|decision)"
    r"[ \t]*=[^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
_STEM = re.compile(r"upport|artial", re.IGNORECASE)


def read_labels(
    response: object,
    expected_count: object,
    *,
    format_type: str | None = None,
    case_sensitive: bool = False,
    data: Sequence[str] = (),
) -> LabelReading:
    """Read the labels that ``response`` gives to ``expected_count`` nuggets.

    ``format_type`` is the format that was asked for: of two answers that differ, the last one counts
    if it alone is in that format. ``case_sensitive`` accepts lower-case labels only. ``data`` is what
    the judge was shown (query, passage, nuggets): copies of it in the reply are not its answer.
    """
    count = expected_count if type(expected_count) is int and expected_count > 0 else 0
    if not count:
        reading = LabelReading((), "failed", "count_mismatch", "no nuggets to label")
    elif not isinstance(response, str) or not response.strip():
        reading = unread(count, "empty", "empty", "the reply is empty")
    elif len(response) > LONGEST_REPLY:
        reading = unread(count, "failed", "format_error", f"longer than {LONGEST_REPLY} characters")
    else:
        text = fold(_CIRCLED.sub(_number_of, response)).translate(_MARKS)
        for names in (_LATEX, _MEMBER):
            text = names.sub(lambda name: " " * len(name[0]), text)
        if case_sensitive:
            text = SPELLING.sub(lambda m: m[0] if m[0].islower() else "x" * len(m[0]), text)
        reading = _read(text, count, format_type, data)
        reading = replace(reading, span=_widened(response, reading.span))
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


def _number_of(match: re.Match[str]) -> str:
    """A digit in a circle or on a key, as ``1.``."""
    digit = match[1] or str(next(ord(match[2]) - ord(c) for c in "➊➀❶⒈⑴①" if match[2] >= c) + 1)
    return f"{digit}.".ljust(len(match[0]))[: len(match[0])]


def _read(text: str, count: int, format_type: str | None, data: Sequence[str]) -> LabelReading:
    thinking, open_at = find_thinking(text)
    shown = _own_words(without_copies(blank(text, thinking), data))
    listed, found = _collect(shown)
    answers = judged(listed, found)
    reading = decide(listed, answers, count, format_type)
    own = blank(shown, _apart(answer.span for answer in answers if answer.excluded), "x")
    if reading is not None and reading.is_complete:
        return _unless_corrected(own, reading, count)
    said = read_prose(own, count)
    if reading is None:
        return said or _nothing(shown, answers, count, is_unclosed=open_at is not None)
    is_ambiguous = reading.error_type in ("ambiguous", "count_mismatch")
    if is_ambiguous or said is None or not said.is_complete:
        return reading
    pairs = zip(said.labels, reading.labels, strict=True)
    return said if all(a == b for a, b in pairs if b) else reading


def _widened(text: str, span: Span | None) -> Span | None:
    """The span of an answer with the quotes and brackets around it."""
    if span is None:
        return None
    start, end = span
    return (
        len(text[:start].rstrip("\"'[({")),
        len(text) - len(text[end:].lstrip("\"'])}")),
    )


def blank(text: str, spans: Iterable[Span], by: str = "") -> str:
    """``text`` of equal length with white space for ``spans``, which are in order, or with ``by``."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        size = end - start
        pieces += (text[at:start], by * size or ("\n" + " " * (size - 2) + "\n")[:size])
        at = end
    return "".join(pieces) + text[at:]


@cache
def _turn_pattern() -> re.Pattern[str]:
    names = f"{alternatives('turn')}|{alternatives('prompt')}"
    return re.compile(
        rf"\n[ \t]*[#*_]{{0,4}}[ \t]*(?:(?:{names})[*_]{{0,4}}[ \t]*:|(?:user|human|assistant)[ \t]*\n)"
    )


def _own_words(text: str) -> str:
    """``text`` up to where someone else speaks, without reasoning fields."""
    label = _STEM.search(text)
    turn = _turn_pattern().search(text.lower(), label.start()) if label else None
    text = text[: turn.start()] if turn else text
    return _REASONING_FIELD.sub(lambda field: " " * len(field[0]), text)


def _collect(text: str) -> tuple[str, list[LabelList]]:
    """``text`` with tags and brackets as lines, and every possible answer in it."""
    if _STEM.search(text) is None:
        return text, []
    flat = tags.as_lines(text) if "<" in text else text
    listed, regions = brackets.as_lines(flat) if re.search(r"[\[{]", flat) else (flat, [])
    answers = read_lines(listed, regions)
    for i, answer in enumerate(answers):
        start, stop = answer.span
        if (
            flat is not text
            and answer.rule == "list"
            and re.search(r"</?\w", text[start - 1 : stop])
        ):
            answers[i] = replace(answer, format="xml")
    return listed, answers


def _apart(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans in order, without those that begin inside another."""
    at = 0
    for start, end in sorted(spans):
        if start >= at:
            yield start, end
            at = end


@cache
def _correction() -> re.Pattern[str]:
    words = alternatives("revision")
    return re.compile(
        rf"(?:^|[.!?…:]\s|\n)[\s*_#>-]{{0,6}}(?:{words})(?![^\W\d_])[^\S\n]*[:,;.—–-]*"
    )


def _unless_corrected(text: str, reading: LabelReading, count: int) -> LabelReading:
    """The reading, or ambiguous if a sentence after it corrects a label."""
    found = _correction().search(text.lower(), reading.span[1] if reading.span else 0)
    if found is None or not re.search(r"(?:partial|not)_support", text[found.end() :]):
        return reading
    return unread(count, reading.format_used, "ambiguous", "a label is corrected after the list")


def _nothing(
    text: str, answers: Sequence[LabelList], count: int, *, is_unclosed: bool
) -> LabelReading:
    """Why there is no answer."""
    if is_unclosed:
        return unread(count, "failed", "truncation", "the reply ends while the model was thinking")
    if not text.strip():
        return unread(count, "empty", "empty", "nothing but reasoning")
    why = {answer.excluded for answer in answers if answer.excluded}
    if why - {"draft"}:
        return unread(count, "failed", "echo", f"only {', '.join(sorted(why))}, no answer")
    if is_refusal(text):
        return unread(count, "failed", "refusal", "the model declined")
    if why:
        return unread(count, "failed", "format_error", "only a draft")
    return unread(count, "failed", "format_error", "no list of labels")
