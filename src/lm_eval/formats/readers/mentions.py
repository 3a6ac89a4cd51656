"""Readers of words instead of labels: a choice's text, or the name of a class.

A text in a reply is weak evidence: it may be denied (``not Paris``) or weighed against another.
What is denied is not read, and two different texts are ambiguous.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from lm_eval.formats.readers.options import AnswerOptions, options_of
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import after_last, fold, phrase_pattern, without_echoes

_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|none|cannot|without|except|unlike|wrong|incorrect|false|isn|aren"
    r"|wasn|doesn|don|didn|can't|won't|wouldn|shouldn|couldn|instead\s+of|rather\s+than|rule[sd]?\s+out"
    r"|unlikely)\b|不是|不对|并非",
    re.IGNORECASE,
)
# The period of "D. Rome" ends no sentence.
_SENTENCE_END = re.compile(r"(?<!\A\w)(?<!\s\w)[.!?;](?=\s)|\n")
# Words this far apart are not about each other.
_REACH = 200
_CLASS_CUE = re.compile(
    r"\b(?:label|class|category|sentiment|classification|verdict|answer)\b[\s*_]*(?:is\b|:|=)"
)


@register_reader("choice_text")
def choice_text(text: str, *, choices: Sequence[str] = ()) -> Reading:
    """Read a choice's text: the whole reply, its last sentence, or the only one mentioned."""
    return stated(fold(text), options_of((), choices)).by("choice_text")


@register_reader("label_text")
def label_text(text: str, *, labels: Sequence[str] = (), phrase: str | None = None) -> Reading:
    """Read a class named by a word: behind the last ``phrase``, else as ``choice_text`` does.

    Without a ``phrase``, "Label:", "Category is" and their like announce the class.
    """
    options = options_of((), labels)
    cue = phrase_pattern(phrase) if phrase and phrase.strip() else _CLASS_CUE
    text = without_echoes(fold(text), cue, options.keys)
    end = after_last(text, cue)
    reading = NO_ANSWER if end is None else options.text_at(text, end)
    return (reading if reading.is_settled else stated(text, options)).by("label_text")


def stated(text: str, options: AnswerOptions) -> Reading:
    """The reading of ``choice_text`` for folded text."""
    whole = options.whole_text(text)
    if whole.is_settled:
        return whole
    last = _last_sentence(text, options)
    return last if last.is_settled else _only_mention(text, options)


def _last_sentence(text: str, options: AnswerOptions) -> Reading:
    """The choice that is all of the last sentence, or of the last line."""
    end = len(text.rstrip())
    start = max(0, end - options.window)
    cuts = [start + end_mark.end() for end_mark in _SENTENCE_END.finditer(text[start:end])]
    line_cuts = [cut for cut in cuts if text[cut - 1] == "\n"]
    for cut in (line_cuts[-1:] or cuts[-1:]) + cuts[-1:]:
        reading = options.whole_text(text[cut:end]).moved(cut)
        if reading.is_settled:
            return reading
    return NO_ANSWER


def _only_mention(text: str, options: AnswerOptions) -> Reading:
    mentioned = options.mentions(text)
    if len(mentioned) > 1:
        return AMBIGUOUS
    for index, spans in mentioned.items():
        if not _is_any_denied(text, spans):
            return Reading(index, span=spans[-1])
    return NO_ANSWER


def _is_any_denied(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """True if a negation shares a sentence with one of ``spans`` and is not part of it."""
    negations = [match.start() for match in _NEGATION.finditer(text)]
    cuts = [match.end() for match in _SENTENCE_END.finditer(text)] if negations else []
    return bool(negations) and any(_has_negation(span, cuts, negations) for span in spans)


def _has_negation(span: tuple[int, int], cuts: list[int], negations: list[int]) -> bool:
    following = bisect_right(cuts, span[0])
    start = cuts[following - 1] if following else 0
    end = cuts[following] if following < len(cuts) else span[1] + _REACH
    low = bisect_left(negations, max(start, span[0] - _REACH))
    high = bisect_left(negations, min(end, span[1] + _REACH))
    inside = bisect_left(negations, span[1]) - bisect_left(negations, span[0])
    return high - low > inside
