"""Readers of a choice, by its label, its text or either, and of an order of choices.

In: a reply, the labels shown and the choice texts. Out: its index, or the indices in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from lm_eval.formats.readers.claims import NONE_OF_THEM, Claims
from lm_eval.formats.readers.evidence import Evidence, at_start, stated
from lm_eval.formats.readers.marks import bold, boxes, whole
from lm_eval.formats.readers.options import AnswerOptions, options_of, token
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, last_cue, lowered, phrase_pattern, squeezed

_STRUCK = re.compile(r"~~[^~\n]{1,400}~~")
_FINAL_CUE = re.compile(r"final(?<!\wfinal)[\s*_]+answer\b[\s*_]*(?:is\b|:|=)")


@register_reader("label_after")
def label_after(
    text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = (), phrase: str
) -> Reading:
    """Read the label after the last ``phrase``; nothing if there is none.

    The last, because a model that corrects itself does so at the end.
    """
    options, cue = options_of(labels, choices), phrase_pattern(phrase)
    text, cue_span = last_cue(fold(text), cue, options, options.is_named_at)
    if cue_span is None:
        return NO_ANSWER
    claims = Claims(text, options)
    label = options.label_at(text, claims.low, cue_span[1])
    return claims.judged(label).by("label_after") if label else NO_ANSWER


@register_reader("first_label")
def first_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the label with which the reply starts: ``C``, ``(C)``, ``**C**``, ``C. Paris``.

    A reply that starts by repeating the options (``A. … B. …``) has not answered yet.
    """
    claims = Claims(fold(text), options_of(labels, choices))
    return at_start(claims).by("first_label")


@register_reader("marked_label")
def marked_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the choice in the last box (``\\boxed{C}``, ``<answer>C</answer>``), else in bold.

    Bold also stresses what is wrong. Where bold names several choices, the last one counts only if
    it is alone on its line or ends the reply.
    """
    text, options = fold(text), options_of(labels, choices)
    boxed = list(boxes(text, options))
    reading = boxed[-1][1] if boxed else bold(Claims(text, options))
    return reading.by("marked_label")


@register_reader("choice")
def choice(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    phrase: str | None = None,
) -> Reading:
    """Read the choice a reply settles on, wherever it says so; ``rule`` names what found it.

    What the reply claims last counts: behind ``phrase``, "the answer is" or their like in another
    language, in a box or a field; else "C is correct"; else what is bold, what it starts or ends with,
    or the only choice it names. Two choices claimed at once are ambiguous. A repeated instruction
    ("… is [letter]" where …), another's opinion and another case ("if it were …") claim nothing.
    """
    options = options_of(labels, choices)
    return spread(text, lambda plain: settled(plain, options, _strong_cue(phrase)), "choice:")


def spread(text: str, rule: Callable[[str], Reading], prefix: str) -> Reading:
    """``rule`` on folded text without long blanks, with the span of the answer in ``text``."""
    plain, moved_to = squeezed(fold(text))
    reading = rule(plain)
    if not reading.is_answer:
        return reading
    span = reading.span if moved_to is None or reading.span is None else moved_to(reading.span)
    return Reading(reading.value, f"{prefix}{reading.rule}", span, is_claim=reading.is_claim)


def settled(text: str, options: AnswerOptions, strong: re.Pattern[str]) -> Reading:
    """The choice that folded ``text`` settles on, with the rule that found it."""
    if not text.strip():
        return NO_ANSWER
    text = _STRUCK.sub(lambda struck: " " * len(struck.group()), text) if "~~" in text else text
    usual = _usual_reply(text, options, strong)
    if usual is not None:
        return usual
    claims = Claims(text, options)
    reading = whole(claims)
    if reading.is_settled:
        return reading.by("whole")
    reading = _before_turns(claims, strong)
    return NO_ANSWER if reading is NONE_OF_THEM else reading


_USUAL_LENGTH = 300


def _usual_reply(text: str, options: AnswerOptions, strong: re.Pattern[str]) -> Reading | None:
    """The reading of a reply of at most a phrase, a label and the text of the choice.

    Most replies are such. One pattern reads them, with the same result as all the rules.
    """
    if len(text) > _USUAL_LENGTH:
        return None
    match = _usual(options.label.pattern, strong.pattern).match(text)
    index = options.index_of(match["label"]) if match else None
    if match is None or index is None:
        return None
    own = match["own"]
    if own is not None and (index >= len(options.choices) or own != options.choices[index].strip()):
        return None
    cue = match["cue"]
    rule = "whole" if cue is None else "phrase" if strong.match(lowered(cue)) else "cue"
    return Reading(index, rule, match.span("label"))


@lru_cache(maxsize=512)
def _usual(label: str, strong: str) -> re.Pattern[str]:
    named = rf"[*_`\"'(\[]{{0,4}}(?P<label>{label})[)*_`\"'\]]{{0,4}}"
    own = r"(?:(?:[.:)]|\s-)?[*_]{0,2}\s+[*_]{0,2}(?P<own>[^\s*_][^\n*]{0,200}?))??"
    cue = rf"(?:the\s+)?(?:(?:correct|best|right)\s+)?answer\s+is\s*:?|{strong}"
    return re.compile(
        rf"\s*(?:(?P<cue>{cue})\s*:?\s*)?{named}{own}[.!]?[*_`\"']{{0,3}}\s*\Z", re.IGNORECASE
    )


def _before_turns(claims: Claims, strong: re.Pattern[str]) -> Reading:
    """The reading of the model's turn, without turns that it invents for the user."""
    text = claims.text
    if "\n" in text:
        begins = len(text) - len(text.lstrip())
        turn = claims.words.turn.search(claims.low, begins)
        if turn:
            claims = Claims(text[: turn.start()], claims.options)
        question = claims.words.question.search(claims.low, begins)
        if question:
            reading = Evidence(Claims(text[: question.start()], claims.options), strong).reading()
            if reading.is_settled or reading is NONE_OF_THEM:
                return reading
    return Evidence(claims, strong).reading()


@lru_cache(maxsize=512)
def _strong_cue(phrase: str | None) -> re.Pattern[str]:
    if not phrase or not phrase.strip():
        return _FINAL_CUE
    return re.compile(f"{phrase_pattern(phrase).pattern}|{_FINAL_CUE.pattern}")


@register_reader("choice_text")
def choice_text(text: str, *, choices: Sequence[str] = ()) -> Reading:
    """Read a choice's text: the whole reply, its last sentence, or the only one mentioned."""
    return stated(Claims(fold(text), options_of((), choices))).by("choice_text")


@register_reader("label_text")
def label_text(text: str, *, labels: Sequence[str] = (), phrase: str | None = None) -> Reading:
    """Read a class named by a word: after the last ``phrase``, else as ``choice_text`` does.

    "Category is", "Sentiment:" and their like announce the class as well.
    """
    options, cue = options_of((), labels), _strong_cue(phrase or "Label:")
    return spread(text, lambda plain: settled(plain, options, cue), "").by("label_text")


# The reader of an order: ``B > A > C``, ``["B", "A", "C"]``, numbered lines → list of indices


_AROUND = r"[\"'*_()\[\]`$]{0,4}"
_BETWEEN = (
    r"(?:\s{0,4}(?:>+|,|;|\||→|≻|-+>|=+>|/)\s{0,4}(?:(?:and|then|finally)\s{1,4})?"
    r"|\s{1,4}(?:and|then|followed\s+by)\s{1,4}|\s{0,4}\n\s{0,4}(?:[-*•]\s{1,4})?|[ \t]{1,4})"
)
_PROSE_FOLLOWS = re.compile(r"[ \t]+[a-z]")


@register_reader("ranking")
def ranking(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    phrase: str | None = None,
) -> Reading:
    """Read an order of all labels, best first, as a list of indices; the last one the reply gives.

    With ``phrase``, only what follows its last occurrence. An order that misses a label or has one
    twice is not an answer.
    """
    folded, options = fold(text), options_of(labels, choices)
    start = 0
    if phrase and phrase.strip():
        folded, cue_span = last_cue(folded, phrase_pattern(phrase))
        if cue_span is None:
            return NO_ANSWER
        start = cue_span[1]
    if len(options.by_label) != len(labels) or not labels:
        return NO_ANSWER
    cores = tuple(options.by_label)
    for candidates in (_numbered(folded, cores, start), _runs(folded, cores, start)):
        readings = [reading for order in candidates if (reading := _of_all(order, options))]
        if readings:
            return readings[-1]
    return NO_ANSWER


Order = list[re.Match[str]]


def _runs(text: str, cores: tuple[str, ...], start: int) -> Iterable[Order]:
    """Runs of labels with only separators between them."""
    label, run = _patterns(cores)
    for match in run.finditer(text, start):
        order = list(label.finditer(text, *match.span()))
        ends_as_word = order[-1][0] in ("A", "a", "I", "i")
        if not (ends_as_word and _PROSE_FOLLOWS.match(text, order[-1].end())):
            yield order


def _numbered(text: str, cores: tuple[str, ...], start: int) -> Iterable[Order]:
    """Labels behind ``1.``, ``2.``, … at the start of numbered lines."""
    order: Order = []
    for line in _numbered_line(cores).finditer(text, start):
        number = int(line["number"])
        order = [*order, line] if number == len(order) + 1 else [line] if number == 1 else []
        if len(order) == len(cores):
            yield order


def _of_all(order: Order, options: AnswerOptions) -> Reading | None:
    """The order as a reading; None where it misses a label or has one twice."""
    indices = [options.index_of(match["label"]) for match in order]
    if len(order) != len(options.by_label) or set(indices) != set(options.by_label.values()):
        return None
    return Reading(indices, "ranking", (order[0].start("label"), order[-1].end("label")))


def _one_of(cores: tuple[str, ...]) -> str:
    return "|".join(token(core) for core in sorted(cores, key=len, reverse=True))


@lru_cache(maxsize=1024)
def _patterns(cores: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    # "->" may follow a label, which as a whole token is not followed by "-x"
    label = f"(?:{_one_of(cores)})"
    run = re.compile(f"{label}(?:{_AROUND}{_BETWEEN}{_AROUND}{label})*", re.IGNORECASE)
    return re.compile(f"(?P<label>{_one_of(cores)})", re.IGNORECASE), run


@lru_cache(maxsize=1024)
def _numbered_line(cores: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        r"^[ \t]{0,8}\(?(?P<number>\d{1,4})[.):][ \t]{1,4}"
        rf"{_AROUND}(?P<label>{_one_of(cores)})",
        re.IGNORECASE | re.MULTILINE,
    )
