"""Which candidate is the answer: not an example, a quotation or a draft; marked final before others.

In: the candidates and the text around them. Out: the same candidates, each with ``excluded`` or a
``rank``: 3 marked as final or in an answer element, 2 stands by itself, 1 inside a sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from nugget_eval.reading.candidates import Candidate, Span
from nugget_eval.reading.spellings import LABELS

_REACH = 200
_LEAD_END = " \t\r\n`~<>()[]{}*_#\"'“”"
_EXAMPLE = re.compile(
    r"\be\.\s?g\b|\beg[.:,]|\bi\.\s?e\.|\bfor\s+instance\b|(?<!this )(?<!given )\bexamples?\b"
    r"|\bsuch\s+as\b"
    r"|\bsamples?\s*(?:answer|output|response|:)|\b(?:looks?|written|formatted)\s+like\b"
    r"|\blike\s+(?:this|so)\b"
    r"|\bone\s+of\b|\b(?:valid|allowed|possible|available|permitted|following|three)\s+(?:labels?|values?"
    r"|options?|choices|categories)\s*(?:are|is|:)|\b(?:options|choices|categories)\s*(?:are|:)"
    r"|\bchoose\s+(?:from|between|one)\b|\bassign\s+one\b|\beither\b"
    r"|\bformat\s+(?:is|should|must|would)\b|\bplaceholder\b|\btemplate\b|\bschema\b",
    re.IGNORECASE,
)
_DRAFT = re.compile(
    r"\bdrafts?\b|\binitial(?:ly)?\b|\bpreliminary\b|\btentative(?:ly)?\b|\bprovisional(?:ly)?\b"
    r"|\bfirst\s+(?:pass|attempt|guess|thought|impression|try|version|draft)\b|\bat\s+first\b"
    r"|\b(?:previous(?:ly)?|earlier)\b|\bI\s+(?:first\s+)?(?:thought|considered|was\s+going)\b|\bmaybe\b"
    r"|\bperhaps\b|\b(?:might|could)\s+be\b|\binstead\s+of\b|\brather\s+than\b|\bnot\s*:?\s*\Z|\bwrong\b",
    re.IGNORECASE,
)
_QUOTE = re.compile(
    r"\b(?:passage|document|text|article|page|snippet|nugget|query|user|instructions?|prompt|it|source)\b"
    r"[^.\n]{0,60}\b(?:says?|said|states?|reads?|contains?|includes?|claims?|asks?|tells?|instructs?|demands?"
    r"|writes?|quotes?|wants?)\b",
    re.IGNORECASE,
)
_FINAL = re.compile(
    r"(?<!not )(?<!non-)(?<!before the )\b(?:final(?:ly)?|corrected|correction|revised|revision|updated"
    r"|amended|conclusion|in\s+summary|endgültig\w*|respuesta\s+final|最终)\b|最终",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[\s`*_)\]}.,:;\"'-]{0,6}(?:\(|#|//|<--?|←)?\s{0,3}(?:(?:this|that|which)\s+)?"
    r"(?:is|was|as|would\s+be|are)?\s{0,2}"
    r"(?:just|only|merely)?\s{0,2}(?:an?|the|my)?\s{0,2}(?:first|initial|rough|possible)?\s{0,2}"
    r"(?:example|draft|placeholder|format\b|wrong|incorrect"
    r"|not\s+(?:correct|right|(?:the|my)\s+(?:final\s+)?answer))",
    re.IGNORECASE,
)
_REVISION = re.compile(
    r"\b(?:wait|actually|however|correction|corrected|on\s+second\s+thought|let\s+me|re-?(?:check|evaluat|consider"
    r"|view|vis|think)\w*|mistake|sorry|oops|instead|changed?|therefore|thus|so)\b",
    re.IGNORECASE,
)


def rank(text: str, candidates: Sequence[Candidate], answers: Sequence[Span]) -> list[Candidate]:
    """``candidates`` with why each is excluded, or its rank."""
    starts = [start for start, _ in answers]
    return [_ranked(text, one, starts, answers) for one in candidates]


def is_revised(text: str, earlier: Candidate, later: Candidate) -> bool:
    """True if the words between two answers say that the second replaces the first."""
    between = text[earlier.span[1] : later.span[0]][-4000:]
    return _REVISION.search(between) is not None


def _ranked(text: str, one: Candidate, starts: Sequence[int], answers: Sequence[Span]) -> Candidate:
    if one.excluded:
        return one
    at = bisect_right(starts, one.span[0]) - 1
    is_answer = at >= 0 and one.span[0] < answers[at][1]
    lead = _lead(text, one.span[0])
    excluded = None if is_answer else _exclusion(text, one, lead)
    if excluded is not None:
        return replace(one, excluded=excluded)
    if is_answer or _FINAL.search(lead):
        return replace(one, rank=3)
    return replace(one, rank=2 if _stands_alone(text, one.span) else 1)


def _exclusion(text: str, one: Candidate, lead: str) -> str | None:
    for pattern, why in ((_EXAMPLE, "example"), (_DRAFT, "draft"), (_QUOTE, "quote")):
        if pattern.search(lead):
            return why
    if _AFTER.match(text, one.span[1]):
        return "example"
    if is_definitions(one):
        return "definitions"
    return None


def is_definitions(one: Candidate) -> bool:
    """The three labels once each, every one with words behind it: the prompt's own definitions."""
    labels = [slot.label for slot in one.slots]
    return (
        len(labels) == len(LABELS)
        and set(labels) == set(LABELS)
        and all(slot.explained and slot.index is None for slot in one.slots)
    )


def _lead(text: str, start: int) -> str:
    """What leads up to a candidate: the rest of its line before it, else the line before that."""
    before = text[max(0, start - 3 * _REACH) : start]
    line = before.rpartition("\n")[2]
    if line.strip(_LEAD_END + "-+•0123456789.:="):
        return _last_sentence(line)
    above = before.rstrip().split("\n")
    while above and not above[-1].strip(_LEAD_END):
        above.pop()
    lead = above[-1].strip() if above else ""
    if lead.startswith(("```", "~~~")):
        lead = above[-2].strip() if len(above) > 1 else ""
    return _last_sentence(lead)


def _last_sentence(line: str) -> str:
    line = line.rstrip()[-_REACH:]
    cuts = [cut.end() for cut in re.finditer(r"[.!?](?=\s+[A-Z\"'“])", line)]
    return line[cuts[-1] :] if cuts else line


def _stands_alone(text: str, span: Span) -> bool:
    """True if nothing but marks stands on the lines of a candidate, or it follows a colon."""
    before = text[max(0, span[0] - _REACH) : span[0]].rpartition("\n")[2].rstrip(" \t\"'`*")
    after = text[span[1] : span[1] + _REACH].partition("\n")[0].strip(" \t\"'`*.,;")
    is_led = not before.strip(_LEAD_END) or before.endswith((":", "=", "→", ">"))
    return is_led and not after.strip(_LEAD_END)
