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
from nugget_eval.reading.copies import is_copied, without_copies
from nugget_eval.reading.lines import read_lines
from nugget_eval.reading.outcome import LabelReading, LabelTuple, Span
from nugget_eval.reading.prose import read_prose
from nugget_eval.reading.spellings import SPELLING, label_of
from nugget_eval.reading.words import alternatives

LONGEST_REPLY = 8_000_000
"""Characters; a longer reply is not read."""

_STRUCK_OUT = re.compile(
    r"(?<!~)~~(?![~\s])[^~\n]{1,1000}~~(?!~)|<(?P<tag>del|s|strike)>[^<>\n]{1,1000}</(?P=tag)>"
)
_REASONING_FIELD = re.compile(
    r"^[ \t]*(?:\(?\d{1,4}[.):][ \t]*)?(?:[-*•][ \t]*)?[*_`]{0,2}(?:nugget|snippet|rationale|decision)"
    r"[ \t]*=[^\n]*",
    re.MULTILINE | re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\s,;|\[\]{}\"'()*`<>:.]+")
_STEM = re.compile(r"upport|artial", re.IGNORECASE)


def read_labels(
    response: object,
    expected_count: object,
    *,
    format_type: str | None = None,
    case_sensitive: bool = False,
    plain_words: bool = False,
    data: Sequence[str] = (),
) -> LabelReading:
    """Read the labels that ``response`` gives to ``expected_count`` nuggets.

    ``format_type`` is the format that was asked for: of two answers that differ, the last one counts
    if it alone is in that format. ``case_sensitive`` accepts lower-case labels only; ``plain_words``
    also accepts yes, true, no, false, none and maybe, if each slot holds one word. ``data`` is what the
    judge was shown (query, passage, nuggets): copies of it in the reply are not its answer.
    """
    count = expected_count if type(expected_count) is int and expected_count > 0 else 0
    if not count:
        reading = LabelReading((), "failed", "count_mismatch", "no nuggets to label")
    elif not isinstance(response, str) or not response.strip():
        reading = unread(count, "empty", "empty", "the reply is empty")
    elif len(response) > LONGEST_REPLY:
        reading = unread(count, "failed", "format_error", f"longer than {LONGEST_REPLY} characters")
    else:
        text = _plain_marks(fold(_CIRCLED.sub(_number_of, response)))
        if plain_words:
            text = _spelled_out(text)
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

_MARKS = {
    **dict.fromkeys(map(ord, "・●▪‣◦➤■▶►○□∙·◆◇★☆※⁃➢✦🔹🔸👉"), "•"),
    **dict.fromkeys(map(ord, "⇒⟶⟹➔➜➝➞➡➙➛⮕↦⇨"), "→"),
}
_LATEX = re.compile(r"\\(?:boxed|text\w{0,2}|math\w{0,2})\s?(?=\{)|\\(?=[\[\]*-])")
_MEMBER = re.compile(
    r"\b\w{0,20}?label\w{0,10}?(?:\.|::|_|\(?[\"']?(?<=[(\"']))(?=(?:not|partial|un)?_?support|partial)",
    re.IGNORECASE,
)


_CIRCLED = re.compile("(\\d)\ufe0f?\u20e3|([①-⑨❶-❾➀-➈➊-➒⑴-⑼⒈-⒐])\\s?")


def _number_of(match: re.Match[str]) -> str:
    """A digit in a circle or on a key, as ``1.``."""
    digit = match[1] or str(next(ord(match[2]) - ord(c) for c in "➊➀❶⒈⑴①" if match[2] >= c) + 1)
    return f"{digit}.".ljust(len(match[0]))[: len(match[0])]


def _plain_marks(text: str) -> str:
    """``text`` of equal length with one kind of bullet and arrow, without ``Label.`` and escapes."""
    if not text.isascii():
        text = text.translate(_MARKS)
    if '\\"' in text and text.count('"') == text.count('\\"'):
        text = text.replace('\\"', ' "').replace("\\n", " \n")
    if "\\" in text:
        text = _LATEX.sub(lambda name: " " * len(name[0]), text)
    return _MEMBER.sub(lambda name: " " * len(name[0]), text)


def _read(text: str, count: int, format_type: str | None, data: Sequence[str]) -> LabelReading:
    thinking, open_at = find_thinking(text)
    shown = blank(text, thinking)
    shown, has_copies = without_copies(shown, data)
    shown = _own_words(shown)
    listed, found = _collect(shown, format_type)
    answers = judged(listed, found)
    answers = [_unless_copied(shown, answer, answers, data, has_copies) for answer in answers]
    reading = decide(listed, answers, count, format_type)
    own = blank(shown, _apart(answer.span for answer in answers if answer.excluded), "x")
    if reading is None or not reading.is_complete:
        reading = _said(own, reading, count)
    else:
        reading = _amended(own, reading, count)
    if reading is None:
        return _nothing(shown, answers, count, is_unclosed=open_at is not None)
    return reading


def _widened(text: str, span: Span | None) -> Span | None:
    """The span of an answer with the quotes and brackets around it."""
    if span is None:
        return None
    start, end = span
    while start > 0 and text[start - 1] in "\"'[({":
        start -= 1
    while end < len(text) and text[end] in "\"'])}":
        end += 1
    return start, end


def blank(text: str, spans: Iterable[Span], by: str = "") -> str:
    """``text`` of equal length with white space for ``spans``, which are in order, or with ``by``."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        size = end - start
        pieces += (text[at:start], by * size or ("\n" + " " * (size - 2) + "\n")[:size])
        at = end
    return "".join(pieces) + text[at:] if pieces else text


def _spelled_out(text: str) -> str:
    """``text`` with plain words as labels, if it holds nothing but these and numbers."""
    tokens = _TOKEN.findall(text)
    if not all(
        label_of(token, plain_words=True) or re.fullmatch(r"[-+•#]?\d*", token) for token in tokens
    ):
        return text
    return _TOKEN.sub(lambda token: label_of(token[0], plain_words=True) or token[0], text)


@cache
def _turn_pattern() -> re.Pattern[str]:
    names = f"{alternatives('turn')}|{alternatives('prompt')}"
    return re.compile(
        rf"\n[ \t]*[#*_]{{0,4}}[ \t]*(?:(?:{names})[*_]{{0,4}}[ \t]*:|(?:user|human|assistant)[ \t]*\n)"
    )


def _own_words(text: str) -> str:
    """``text`` up to where someone else speaks, without struck-out words and reasoning fields."""
    if "\n" in text:
        label = _STEM.search(text)
        turn = _turn_pattern().search(text.lower(), label.start()) if label else None
        text = text[: turn.start()] if turn else text
    if "~~" in text or "</" in text:
        text = _STRUCK_OUT.sub(lambda struck: " " * len(struck[0]), text)
    if "=" in text:
        text = _REASONING_FIELD.sub(lambda field: " " * len(field[0]), text)
    if text.lstrip()[:1] == ">" and all(
        line.lstrip()[:1] == ">" for line in text.split("\n") if line.strip()
    ):
        text = re.sub(r"^([ \t]*)>", r"\1 ", text, flags=re.MULTILINE)
    return text


def _collect(text: str, format_type: str | None) -> tuple[str, list[LabelList]]:
    """``text`` with tags and brackets as lines, and every possible answer in it."""
    if _STEM.search(text) is None:
        return text, []
    flat, marked, is_open = tags.as_lines(text) if "<" in text else (text, [], False)
    listed, regions = brackets.as_lines(flat) if re.search(r"[\[{(]", flat) else (flat, [])
    answers = read_lines(listed, regions)
    for i, answer in enumerate(answers):
        start, stop = answer.span
        is_final = any(first <= start and stop <= last + 1 for first, last in marked[:50])
        is_xml = (
            flat is not text
            and answer.rule == "list"
            and re.search(r"</?\w", text[start - 1 : stop])
        )
        is_menu = text[start:stop].strip(" \t\"'`") == _MENU and format_type not in (
            None,
            "pipe",
            "adaptive",
        )
        answers[i] = replace(
            answer,
            format="xml" if is_xml else answer.format,
            is_cut=answer.is_cut or bool(is_xml and is_open and stop >= len(text.rstrip())),
            is_final=is_final,
            excluded="menu" if is_menu else answer.excluded,
        )
    return listed, answers


_MENU = "support|partial_support|not_support"


def _unless_copied(
    text: str,
    answer: LabelList,
    answers: Sequence[LabelList],
    data: Sequence[str],
    has_copies: bool,
) -> LabelList:
    """The answer, set aside if the data holds the same list and the reply has others or copies more."""
    if answer.excluded or not data or not is_copied(text[slice(*answer.span)], data):
        return answer
    others = [each for each in answers if not each.excluded and each is not answer]
    return answer.without("copy") if others or has_copies else answer


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


def _amended(text: str, reading: LabelReading, count: int) -> LabelReading:
    """The reading with the labels that a sentence after it corrects; ambiguous if that is not clear."""
    assert reading.span is not None
    found = _correction().search(text.lower(), reading.span[1])
    if found is None:
        return reading
    tail = text[found.end() :]
    if not re.search(r"(?:partial|not)_support", tail):
        return reading
    said = decide(tail, judged(tail, read_lines(tail)), count, None)
    if said is None or not any(said.labels):
        said = read_prose(tail, count)
    if said is not None and any(said.labels):
        labels = tuple(new or old for new, old in zip(said.labels, reading.labels, strict=True))
        return replace(reading, labels=labels)
    return unread(count, reading.format_used, "ambiguous", "a correction that is not clear")


def _said(text: str, reading: LabelReading | None, count: int) -> LabelReading | None:
    """The reading of sentences, if lists hold no answer or only a part of the same one."""
    said = read_prose(text, count)
    if said is None or (
        reading is not None and (reading.error_type in ("ambiguous", "count_mismatch"))
    ):
        return reading
    if reading is None:
        return said
    agrees = all(a == b for a, b in zip(said.labels, reading.labels, strict=True) if a and b)
    return said if said.is_complete and agrees else reading


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
