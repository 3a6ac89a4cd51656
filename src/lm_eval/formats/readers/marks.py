"""Answers set apart from the text: in a box, a tag, a field of JSON, a call, or in bold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lm_eval.formats.readers.claims import Claims
from lm_eval.formats.readers.language import vocabulary_of
from lm_eval.formats.readers.options import AnswerOptions, Span, opened
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading
from lm_eval.formats.readers.sentences import is_blank
from lm_eval.formats.readers.text import blanked, key_of, lowered

_BRACED = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}\}){0,300}\}){0,2000})\}"
_BOXED = re.compile(
    rf"\\f?box(?:ed)?\s{{0,4}}{_BRACED}"
    r"|<([a-z_ ]{0,16}(?:answer|choice|option|letter|selection)[a-z_ ]{0,12})>([^<]{0,2000})</\2>",
    re.IGNORECASE,
)
_TEXT_BOX = re.compile(rf"\\(?:text|mathrm|mathbf)(?:bf|it|rm)?\s{{0,4}}{_BRACED}")
_BOLD = re.compile(
    r"\*\*([^*\n]{1,400})\*\*|__([^_\n]{1,400})__|<(?:b|strong|mark|u)>([^<\n]{1,400})</(?:b|strong|mark|u)>",
    re.IGNORECASE,
)
_FIELD = re.compile(r"(?P<quote>[\"'])(?P<key>[^\"'\n:{}]{1,40})(?P=quote)\s{0,4}:\s{0,4}")
_STRING = re.compile(
    r"\"(?:[^\"\\]|\\.){0,20000}(?:\"|\Z)|'(?:[^'\\\n]|\\.){0,2000}(?:'|\Z)", re.DOTALL
)
_CALL = re.compile(
    r"(?:answer|choice|choose|select|submit|pick)\w{0,20}\(\s{0,4}(?:\w{1,20}\s?=\s?)?(?=[\"'(\w])"
)
_JOINED = re.compile(r"[\s,;/&+|()\[\]{}\"'*_.$-]")
_COMMAND = re.compile(r"\\[a-z]{1,8}")
_MARKS_READ = 50  # enough to see whether marks disagree, without reading a book in bold


def whole(claims: Claims) -> Reading:
    """The choice that is the whole reply: a label, a text, or a label with its text."""
    text, options = claims.text, claims.options
    label = options.label_here(text, opened(text, 0))
    if label is None and len(text) <= _LONGEST_LEAD and _may_end_with_label(claims):
        label = options.label_at(text, claims.low, 0)
    if label is not None and claims.is_last(label):
        return NO_ANSWER if claims.is_price(label) else Reading(label.choice, span=label.span)
    if len(text) > options.window or not claims.may_name_texts:
        return NO_ANSWER
    reading = options.whole_text(text)
    if reading.is_settled or label is None:
        return reading
    rest = text[label.end :]
    if label.choice < len(options.choices) and key_of(rest) == options.keys[label.choice] != "":
        return Reading(label.choice, span=label.span)
    return NO_ANSWER


_LONGEST_LEAD = 120  # characters of a reply that consists of filler words and a label


def _may_end_with_label(claims: Claims) -> bool:
    """False if a text ends with a letter that no label ends with, and names no choice."""
    last = claims.low.rstrip(" \t\r\n.!*_\"')")[-1:]
    return not last.isalpha() or last in claims.options.last_letters or claims.may_name_texts


def piece(text: str, options: AnswerOptions) -> Reading:
    """The choice that a marked piece of text names; ambiguous if it lists several labels."""
    reading = whole(Claims(text, options))
    if reading.is_settled:
        return reading
    return AMBIGUOUS if lists_labels(text, options) else NO_ANSWER


def lists_labels(text: str, options: AnswerOptions) -> bool:
    """True for ``A, C``, ``A and C`` and ``AC``: nothing but several labels."""
    stripped = text.strip(" \t\n()[]{}\"'*_.$")
    if len(stripped) > 200 or not options.by_label:
        return False
    if 1 < len(stripped) <= len(options.by_label) and set(stripped) <= set(options.by_label):
        return len(set(stripped)) == len(stripped)
    matches = list(options.label.finditer(stripped))
    indices = {options.index_of(match.group()) for match in matches} - {None}
    if len(indices) < 2:
        return False
    rest = lowered(blanked(stripped, [match.span() for match in matches]))
    return not _JOINED.sub("", vocabulary_of(rest).and_or.sub("", _COMMAND.sub(" ", rest)))


def listed_at(text: str, pos: int, options: AnswerOptions) -> bool:
    """True if a quoted list of labels begins at ``pos``: ``"A, C"``."""
    string = _STRING.match(text, pos)
    return string is not None and lists_labels(string.group(), options)


def boxes(text: str, options: AnswerOptions) -> Iterator[tuple[Span, Reading]]:
    """The last boxes and answer tags that hold a choice, in order."""
    if "\\" not in text and "<" not in text:
        return
    for pattern in (_TEXT_BOX, _BOXED):
        for match in list(pattern.finditer(text))[-_MARKS_READ:]:
            group = match.lastindex or 1
            reading = piece(match[group], options)
            if reading.is_settled:
                yield match.span(), reading.moved(match.start(group))


def fields(text: str, low: str) -> tuple[str, list[Span]]:
    """``text`` without the other strings of an object with an answer, and the names of its answers.

    ``{"answer": "C", "why": "A is colder"}``: what is said beside the answer is not one.
    """
    if ":" not in text or ('"' not in text and "'" not in text):
        return text, []
    keys = list(_FIELD.finditer(low))
    name = vocabulary_of(low).field_name
    is_answer = [bool(name.search(match["key"].replace("_", " "))) for match in keys]
    if not any(is_answer):
        return text, []
    others = [
        (match.end(), string.end())
        for match, answers in zip(keys, is_answer, strict=True)
        if not answers
        and (string := _STRING.match(text, match.end()))
        and "{" in text[: match.start()]
    ]
    clear: list[Span] = []
    for start, end in others:
        if not clear or start >= clear[-1][1]:
            clear.append((start, end))
    return blanked(text, clear), [
        match.span() for match, answers in zip(keys, is_answer, strict=True) if answers
    ]


def calls(low: str) -> Iterator[Span]:
    """Calls that hand over an answer, as in ``submit(answer="C")``: up to where the answer begins."""
    if "(" in low:
        for match in _CALL.finditer(low):
            yield match.span()


def bold(claims: Claims) -> Reading:
    """The choice in bold. Bold also stresses wrong choices: if it names several, the last one counts
    only if it is alone on its line or ends the reply."""
    text = claims.text
    if "**" not in text and "__" not in text and "<" not in text:
        return NO_ANSWER
    readings = []
    for match in list(_BOLD.finditer(text))[-_MARKS_READ:]:
        group = match.lastindex or 0
        reading = piece(match[group], claims.options).moved(match.start(group))
        if reading.is_settled and not _is_denied(claims, match):
            readings.append(reading)
    if not readings:
        return NO_ANSWER
    last = readings[-1]
    if len({reading.value for reading in readings}) == 1 or last.span is None:
        return last
    return last if _is_alone(text, last.span) else AMBIGUOUS


def _is_denied(claims: Claims, match: re.Match[str]) -> bool:
    """True for "not **A**" and "**A** is wrong"."""
    start, end = match.span()
    verdict = claims.words.verdict.match(claims.low, end)
    if verdict and (verdict["wrong"] or verdict["not"]):
        return True
    return claims.is_denied(max(claims.sentence(start)[0], start - 12), start)


def _is_alone(text: str, span: Span) -> bool:
    """True if nothing but markup shares the line with ``span``, or it ends the text."""
    line_start = text.rfind("\n", 0, span[0]) + 1
    line_end = text.find("\n", span[1])
    rest = text[span[1] :] if line_end < 0 else text[span[1] : line_end]
    before = lowered(text[line_start : span[0]])
    is_alone = not before.strip(" \t*_(<>bstrong") and is_blank(rest)
    return is_alone or is_blank(text[span[1] :])
