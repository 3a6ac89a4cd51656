"""Readers of a choice: from the label, from the choice's text, or from whichever the model wrote.

In: a reply, the labels shown and the choice texts. Out: the place of the choice.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from lm_eval.formats.readers.options import AnswerOptions, is_blank, only, options_of, token
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, last_cue, lowered, phrase_pattern

# Both are cues: for lower case, and each way to begin starts with a letter, which is quick to find.
_FINAL_CUE = re.compile(r"final(?<!\wfinal)[\s*_]+answer\b[\s*_]*(?:is\b|:|=)")
_WEAK_CUE = re.compile(
    r"(?:answer(?<!\wanswer)|option(?<!\woption)|choice(?<!\wchoice))\b[\s*_]{0,4}"
    r"(?:(?:to|for|among|from|of|here|option|choice)\b[^.:\n]{0,80}?)?"
    r"(?:\bis\b|\b(?:would|must|should|has\s+to|can\s+only)\s+be\b|:|=)"
    r"|i(?<!\wi)(?:'d|'ll|\s+would|\s+will)?\s+(?:choose|select|pick|go\s+with)\b"
    r"|i(?<!\wi)(?:'d|\s+would)?\s+(?:say|think|believe|guess)\b(?:\s+that\b)?(?:\s+it(?:'s|\s+is)\b)?"
    r"|答案\s?(?:是|为|選|:)|选项\s?(?:是|为|選|:)"
    r"|(?:respuesta(?<!\wrespuesta)|réponse(?<!\wréponse)|antwort(?<!\wantwort)"
    r"|risposta(?<!\wrisposta)|resposta(?<!\wresposta))[\s*_]{0,4}:"
)
# A text without any of these holds no weak cue.
_WEAK_WORDS = (
    *("answer", "option", "choice", "choose", "select", "pick", "go", "say", "think", "believe"),
    *("guess", "答案", "选项", "respuesta", "réponse", "antwort", "risposta", "resposta"),
)
# What follows the label in "C is the correct answer"; it begins with letters, quick to find.
_VERDICT = re.compile(
    r"is(?<=\sis)\s{1,4}(?:(?:the|clearly|definitely|indeed|most|only)\s{1,4}){0,2}"
    r"(?:correct|right|best)\b"
)
_BRACED = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}\}){0,300}\}){0,2000})\}"
_BOXED = re.compile(rf"\\f?box(?:ed)?\s{{0,4}}{_BRACED}|<answer>([^<]{{0,2000}})</answer>", re.I)
_TEXT_BOX = re.compile(rf"\\(?:text|mathrm|mathbf)(?:bf|it|rm)?\s{{0,4}}{_BRACED}")
_BOLD = re.compile(
    r"\*\*([^*\n]{1,400})\*\*|__([^_\n]{1,400})__|<(?:b|strong)>([^<\n]{1,400})</(?:b|strong)>",
    re.I,
)
# Enough to see whether marks disagree, without reading a book in bold.
_MARKS_READ = 50


@register_reader("label_after")
def label_after(
    text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = (), phrase: str
) -> Reading:
    """Read the label behind the last ``phrase``; nothing if there is none.

    The last, because a model that corrects itself does so at the end.
    """
    options, cue = options_of(labels, choices), phrase_pattern(phrase)
    text, cue_span = last_cue(fold(text), cue, options.any_case)
    return options.label_at(text, cue_span[1]).by("label_after") if cue_span else NO_ANSWER


@register_reader("first_label")
def first_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the label with which the reply starts: ``C``, ``(C)``, ``**C**``, ``C. Paris``.

    A reply that starts by repeating the options (``A. … B. …``) has not answered yet.
    """
    text, options = fold(text), options_of(labels, choices)
    reading = options.label_at(text, 0, is_start=True)
    if reading.is_answer and _is_enumeration(text, reading, labels):
        return NO_ANSWER
    return reading.by("first_label")


@register_reader("marked_label")
def marked_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the choice in the last box (``\\boxed{C}``, ``<answer>C</answer>``), else in bold.

    Bold also stresses what is wrong. Where bold names several choices, the last one counts only if
    it is alone on its line or ends the reply.
    """
    text, options = fold(text), options_of(labels, choices)
    for pattern in (_BOXED, _TEXT_BOX):
        marks = _marks(text, pattern, options) if "\\" in text or "<" in text else []
        if marks:
            return marks[-1].by("marked_label")
    return _agreed(text, _marks(text, _BOLD, options)).by("marked_label")


@register_reader("choice")
def choice(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    phrase: str | None = None,
) -> Reading:
    """Read the choice a reply settles on, wherever it says so; ``rule`` names what found it.

    Tried in this order: the whole reply; behind the last ``phrase`` or "final answer"; behind
    "answer is" and its like; "C is correct"; boxed or bold; the first line; the last line; the text
    of exactly one choice. A repeated instruction ("… is [letter]" where …) says nothing.
    """
    options = options_of(labels, choices)
    text, cue_span = last_cue(fold(text), _strong_cue(phrase), options.any_case)
    rules: tuple[tuple[str, Callable[[], Reading]], ...] = (
        ("whole", lambda: options.whole(text)),
        ("phrase", lambda: options.at(text, cue_span[1]) if cue_span else NO_ANSWER),
        ("cue", lambda: _after_weak_cue(text, options, cue_span[1] if cue_span else 0)),
        ("verdict", lambda: _label_with_verdict(text, options)),
        ("marked", lambda: marked_label(text, labels=labels, choices=choices)),
        ("first_label", lambda: first_label(text, labels=labels, choices=choices)),
        ("last_line", lambda: _last_line(text, options)),
        ("choice_text", lambda: stated(fold(text), options)),
    )
    for name, rule in rules:
        reading = rule()
        if reading.is_settled:
            return reading.by(f"choice:{name}")
    return NO_ANSWER


# --------------------------------------------------------------------------------------- cues


@lru_cache(maxsize=512)
def _strong_cue(phrase: str | None) -> re.Pattern[str]:
    if not phrase or not phrase.strip():
        return _FINAL_CUE
    return re.compile(f"{phrase_pattern(phrase).pattern}|{_FINAL_CUE.pattern}")


def _after_weak_cue(text: str, options: AnswerOptions, start: int) -> Reading:
    """The choice behind the last "answer is" that names one, from ``start`` on.

    Only what comes after the last phrase counts, so that an answer the phrase has replaced does not
    come back. "This answer is based on" names nothing, hence the look at earlier ones.
    """
    low = lowered(text)
    if not any(word in low for word in _WEAK_WORDS):
        return NO_ANSWER
    ends = [cue.end() for cue in _WEAK_CUE.finditer(low, start)]
    for end in reversed(ends[-_MARKS_READ:]):
        reading = options.at(text, end)
        if reading.is_settled:
            return reading
        if _DENIAL.match(text, end):
            return NO_ANSWER
    return NO_ANSWER


_DENIAL = re.compile(
    r"[\s:*_]{0,8}(?:not|none|neither|never|unclear|unknown|wrong)\b", re.IGNORECASE
)


def _label_with_verdict(text: str, options: AnswerOptions) -> Reading:
    """The label in ``(C) is the correct answer``; ambiguous if several are called correct."""
    if not options.places or not _VERDICT.search(text):
        return NO_ANSWER
    verdicts = list(_verdict_pattern(tuple(options.places)).finditer(text))
    if not verdicts:
        return NO_ANSWER
    places = [options.places[" ".join(match["label"].split())] for match in verdicts]
    return only(places, verdicts[-1].span("label"))


@lru_cache(maxsize=1024)
def _verdict_pattern(cores: tuple[str, ...]) -> re.Pattern[str]:
    label = "|".join(map(token, cores))
    return re.compile(rf"(?P<label>{label})[)\]*_\"'.]{{0,4}}\s{{1,4}}{_VERDICT.pattern}")


# --------------------------------------------------------------------------------------- marks


def _marks(text: str, pattern: re.Pattern[str], options: AnswerOptions) -> list[Reading]:
    """Readings of the last marked pieces of ``text`` that are a choice."""
    matches = list(pattern.finditer(text))[-_MARKS_READ:]
    pieces = ((match[match.lastindex or 0], match.start(match.lastindex or 0)) for match in matches)
    readings = (options.whole(piece).moved(start) for piece, start in pieces)
    return [reading for reading in readings if reading.is_settled]


def _agreed(text: str, marks: Sequence[Reading]) -> Reading:
    if not marks:
        return NO_ANSWER
    last = marks[-1]
    if len({mark.value for mark in marks}) == 1 or last.span is None:
        return last
    return last if _is_alone(text, last.span) else AMBIGUOUS


def _is_alone(text: str, span: tuple[int, int]) -> bool:
    """True if nothing but markup shares the line with ``span``, or it ends the text."""
    line_start = text.rfind("\n", 0, span[0]) + 1
    line_end = text.find("\n", span[1])
    rest = text[span[1] :] if line_end < 0 else text[span[1] : line_end]
    is_alone = not text[line_start : span[0]].strip(" \t*_(<>bstrong") and is_blank(rest)
    return is_alone or is_blank(text[span[1] :])


# --------------------------------------------------------------------------------------- lines


def _last_line(text: str, options: AnswerOptions) -> Reading:
    """The choice that is all of the last line, unless that line ends a list of the options."""
    lines = list(_lines(text))
    if len(lines) < 2:
        return NO_ANSWER
    (start, line), (_, previous) = lines[-1], lines[-2]
    reading = options.whole(line).moved(start)
    before = options.label_at(previous, 0, is_start=True)
    if reading.is_answer and before.is_answer and before.value == reading.value - 1:
        return NO_ANSWER
    return reading


def _is_enumeration(text: str, first: Reading, labels: Sequence[str]) -> bool:
    """True if a later line starts with the label that comes after ``first``, as in a list."""
    if first.value + 1 >= len(labels):
        return False
    following = re.escape(fold(str(labels[first.value + 1])).strip("()[].: "))
    return bool(re.search(rf"\n[ \t*_(\[-]{{0,8}}{following}[*_]{{0,3}}[.):\]]", text))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with where they start."""
    return ((line.start(), line.group()) for line in re.finditer(r"[^\s][^\n]*", text))


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
    text, cue_span = last_cue(fold(text), cue, options.keys)
    reading = options.text_at(text, cue_span[1]) if cue_span else NO_ANSWER
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
