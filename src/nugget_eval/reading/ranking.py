"""Which candidate is the answer: not an example, a quotation or a draft; marked final before others.

In: the candidates and the text around them. Out: the same candidates, each with ``excluded`` or a
``rank``: 3 marked as final or in an answer element, 2 on lines of its own, 1 inside a sentence.
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
    r"|\bperhaps\b|\b(?:might|could)\s+be\b|\binstead\s+of\b|\brather\s+than\b|\bnot\s*:?\s*\Z|\bwrong\b|\bif\b"
    r"|\balternative(?:ly)?\b|\boption\s+\w\b",
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
# An ellipsis replaces labels; the position of what follows it is uncertain.
_ELISION = re.compile(r"(?:^|[\s,;|\[>\"'])(?:\.{3}|…)(?=[\s,;|\]<\"']|\Z)", re.MULTILINE)
_REVISION = re.compile(
    r"\b(?:wait|actually|however|correction|corrected|on\s+second\s+thought|let\s+me|re-?(?:check|evaluat|consider"
    r"|view|vis|think)\w*|mistake|sorry|oops|instead|changed?|therefore|thus|so)\b",
    re.IGNORECASE,
)


def rank(text: str, candidates: Sequence[Candidate], answers: Sequence[Span]) -> list[Candidate]:
    """``candidates``, in order, with why each is excluded, or its rank."""
    starts = [start for start, _ in answers]
    ranked: list[Candidate] = []
    for candidate in candidates:
        last = ranked[-1] if ranked else None
        # inside an answer element, or that element itself
        at = bisect_right(starts, candidate.span[1]) - 1
        is_answer = at >= 0 and candidate.span[0] < answers[at][1]
        ranked.append(_ranked(text, candidate, last, is_answer=is_answer))
    return ranked


def is_revised(text: str, earlier: Candidate, later: Candidate) -> bool:
    """True if the words between two answers say that the second replaces the first."""
    between = text[earlier.span[1] : later.span[0]][-4000:]
    return _REVISION.search(between) is not None


def _ranked(
    text: str, candidate: Candidate, last: Candidate | None, *, is_answer: bool
) -> Candidate:
    if candidate.excluded:
        return candidate
    # Words before the previous candidate are about that one, unless both are in one enumeration.
    floor = last.span[1] if last is not None else 0
    lead = _lead(text, candidate.span[0], _line_end(text, floor, candidate.span[0]) if last else 0)
    excluded = None if is_answer else _exclusion(text, candidate, lead)
    if last is not None and last.excluded and _is_enumerated(text[floor : candidate.span[0]]):
        excluded = last.excluded
    if excluded is not None:
        return replace(candidate, excluded=excluded)
    if is_answer or _FINAL.search(lead):
        return replace(candidate, rank=3)
    shares_line = last is not None and "\n" not in text[floor : candidate.span[0]]
    return replace(
        candidate, rank=2 if _stands_alone(text, candidate.span) and not shares_line else 1
    )


def _line_end(text: str, start: int, stop: int) -> int:
    """Where the line of ``start`` ends; ``start`` itself if that is behind ``stop``."""
    end = text.find("\n", start, stop)
    return end if end >= 0 else start


def _is_enumerated(between: str) -> bool:
    return len(between) < 12 and "\n" not in between and ":" not in between


def _exclusion(text: str, candidate: Candidate, lead: str) -> str | None:
    """Why a candidate cannot be the answer, by the words before it, then by itself and what follows."""
    if _EXAMPLE.search(lead):
        return "example"
    if _DRAFT.search(lead):
        return "draft"
    if not lead.endswith((".", "!", "?")) and _QUOTE.search(lead):
        return "quote"
    start, end = candidate.span
    line = text.rfind("\n", max(0, start - _REACH), start) + 1
    if text[line:start].lstrip()[:1] == ">":
        return "quote"
    is_elided = not candidate.is_numbered and _ELISION.search(text, start, min(end, start + 20_000))
    if is_elided or _AFTER.match(text, end):
        return "example"
    return "definitions" if is_definitions(text, candidate) else None


_DEFINING = (
    "explicitly and sufficiently",
    "directly relevant but",
    "is absent",
    "external knowledge",
)


def is_definitions(text: str, candidate: Candidate) -> bool:
    """The three labels once each, every one with words behind it: the prompt's own definitions.

    Where they are numbered, the words must be those of the prompt.
    """
    labels = [slot.label for slot in candidate.slots]
    if len(labels) != len(LABELS) or set(labels) != set(LABELS):
        return False
    if not all(slot.explained for slot in candidate.slots):
        return False
    source = text[slice(*candidate.span)].lower() if candidate.is_numbered else ""
    return not candidate.is_numbered or sum(words in source for words in _DEFINING) > 1


def _lead(text: str, start: int, floor: int) -> str:
    """What leads up to a candidate: the rest of its line before it, else the line before that."""
    before = text[max(floor, start - 3 * _REACH) : start]
    line = before.rpartition("\n")[2]
    if line.strip(_LEAD_END + "-+•0123456789.:="):
        return _last_sentence(line)
    above = before.rstrip().split("\n")
    while above and (not above[-1].strip(_LEAD_END) or above[-1].lstrip()[:3] in ("```", "~~~")):
        above.pop()
    return _last_sentence(above[-1].strip()) if above else ""


def _last_sentence(line: str) -> str:
    line = line.rstrip()[-_REACH:]
    cuts = [cut.end() for cut in re.finditer(r"[.!?](?=\s+[A-Z\"'“])", line)]
    return line[cuts[-1] :] if cuts else line


def _stands_alone(text: str, span: Span) -> bool:
    """True if a candidate shares its lines with nothing but punctuation, or follows a colon."""
    before = text[max(0, span[0] - _REACH) : span[0]].rpartition("\n")[2].rstrip(" \t\"'`*")
    after = text[span[1] : span[1] + _REACH].partition("\n")[0].strip(" \t\"'`*.,;")
    is_led = not before.strip(_LEAD_END) or before.endswith((":", "=", "→", ">"))
    return is_led and not after.strip(_LEAD_END)
