"""Readers of a choice, by its label, its text or either, and of an order of choices.

In: a reply, the labels shown and the choice texts. Out: its index, or the indices in order. ``RULES``
are tried in order, and the first that finds an answer, or evidence for more than one, decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from lm_eval.formats.readers.claims import REACH, Claim, ReplyText, own_parts
from lm_eval.formats.readers.language import vocabulary
from lm_eval.formats.readers.options import (
    SEVERAL,
    AnswerOptions,
    Span,
    labels_in,
    opened,
    options_of,
    token,
)
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import (
    PLACEHOLDER,
    fold,
    key_of,
    lowered,
    phrase_pattern,
    squeezed,
)

_SHORT = 300
"""Characters; in a longer reply, a mere mention of a choice is no answer."""


@register_reader("choice")
def choice(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    phrase: str | None = None,
) -> Reading:
    """Read the choice a reply commits to; ``rule`` names what found it.

    A commitment is the whole reply, an announcement (``phrase``, "the answer is", a box, "I choose"), a
    verdict ("C is correct"), or the label that a reply starts with. Two different ones are ambiguous,
    unless the reply says that it corrects itself. A mere mention counts only in a short reply.
    """
    options = options_of(labels, choices)
    return _spread(text, lambda plain: _read(plain, options, _pattern(phrase)), "choice:")


def _spread(text: str, rule: Callable[[str], Reading], prefix: str) -> Reading:
    """``rule`` on folded text without long blanks, with the span of the answer in ``text``."""
    plain, moved_to = squeezed(fold(text))
    start = len(plain) - len(plain.lstrip())
    reading = rule(plain[start:]).moved(start)
    if not reading.is_answer:
        return reading
    span = moved_to(reading.span) if reading.span else None
    return Reading(reading.value, f"{prefix}{reading.rule}", span, is_claim=reading.is_claim)


@lru_cache(maxsize=512)
def _pattern(phrase: str | None) -> re.Pattern[str] | None:
    return phrase_pattern(phrase) if phrase and phrase.strip() else None


def _read(text: str, options: AnswerOptions, phrase: re.Pattern[str] | None) -> Reading:
    """The choice that folded ``text`` commits to; turns that the model invents are left out."""
    for part in own_parts(text):
        reading = _by_rules(ReplyText(part, options), phrase)
        if reading.is_settled:
            return reading
    return NO_ANSWER


def _by_rules(reply: ReplyText, phrase: re.Pattern[str] | None) -> Reading:
    for rule in RULES:
        reading = rule(reply, phrase)
        if reading.is_settled:
            reading = reading if reading.rule else reading.with_rule(rule.__name__)
            return replace(reading, is_claim=False) if rule in WEAK else reading
    return NO_ANSWER


# ---------------------------------------------------------------------------------------- rules


def whole(reply: ReplyText, _phrase: re.Pattern[str] | None = None) -> Reading:
    """The reply is a label, a choice's text, or a label with its text."""
    text, options = reply.text, reply.options
    if len(text) > options.window:
        return NO_ANSWER
    name = options.label_at(text, opened(text, 0)) or reply.name_at(0)
    if name is not None and not name.is_text:
        rest = key_of(text[name.end if name.choice < 0 else name.span[1] :])
        own = options.keys[name.choice] if 0 <= name.choice < len(options.keys) else ""
        if not rest or rest == own:
            return _reading(name.choice, name.span)
    return options.whole_text(text)


def conclusion(reply: ReplyText, phrase: re.Pattern[str] | None) -> Reading:
    """The choice that the reply announces; of several the corrected one, else ambiguous."""
    ordered = sorted(
        [*reply.conclusions(phrase), *_boxes(reply)], key=lambda claim: (claim.span, claim.start)
    )
    claims = list({claim.span: claim for claim in reversed(ordered)}.values())[::-1]
    claims = claims[:1] + [claim for claim in claims[1:] if not _listed(reply, claim)]
    return _settled(reply, claims) if claims else NO_ANSWER


def verdict(reply: ReplyText, _phrase: re.Pattern[str] | None) -> Reading:
    """The one choice that is called right in a short reply."""
    rights = reply.called_right() if len(reply.text) <= _SHORT else {}
    if len(rights) != 1:
        return AMBIGUOUS if rights else NO_ANSWER
    ((index, span),) = rights.items()
    return _checked(reply, Claim(index, span, *span, "verdict"))


def opening(reply: ReplyText, _phrase: re.Pattern[str] | None = None) -> Reading:
    """The label that the reply starts with, its text or a reason behind it; not a list of options."""
    claim = reply.claim_at(0, 0, "opening", is_start=True)
    if claim is None:
        return NO_ANSWER
    if claim.choice == SEVERAL and reply.is_denied(claim.end, reply.sentence_end(claim.end)):
        return NO_ANSWER  # "A and B are not it"
    return _checked(reply, claim)


def closing(reply: ReplyText, _phrase: re.Pattern[str] | None) -> Reading:
    """The choice that the last sentence or line of a finished reply comes to: "so it is C"."""
    if reply.is_cut:
        return NO_ANSWER
    end = len(reply.text.rstrip())
    start = reply.sentence(max(0, end - 1))[0]
    line = reply.text.rfind("\n", 0, end) + 1
    for at in dict.fromkeys((line, start)):
        piece = _piece(reply.text[at:end], reply.options).moved(at)
        if piece.is_answer and not _ends_list(reply, at, piece.value):
            return piece
    for match in reversed([*reply.words.it_is.finditer(reply.low, max(start, end - REACH), end)]):
        claim = reply.claim_at(match.start(), match.end(), "closing")
        if claim is not None and claim.choice >= 0:
            return Reading(claim.choice, span=claim.span)
    named = _bracketed(reply, start)
    return Reading(*named[0]) if len(named) == 1 and not reply.is_denied(start, end) else NO_ANSWER


def bold(reply: ReplyText, _phrase: re.Pattern[str] | None = None) -> Reading:
    """The choice in bold in a short reply, if it is the only one in bold."""
    if len(reply.text) > 2 * _SHORT:
        return NO_ANSWER
    marked = [(match, match.lastindex or 0) for match in _BOLD.finditer(reply.text)]
    readings = [_piece(match[i], reply.options).moved(match.start(i)) for match, i in marked]
    readings = [reading for reading in readings if reading.is_settled]
    if len({reading.value for reading in readings}) > 1:
        return AMBIGUOUS
    return readings[-1] if readings else NO_ANSWER


def mention(reply: ReplyText, _phrase: re.Pattern[str] | None = None) -> Reading:
    """The only choice whose text a short reply names."""
    spans = reply.options.text_mentions(reply.text) if len(reply.text) <= _SHORT else {}
    if len(spans) != 1:
        return AMBIGUOUS if spans else NO_ANSWER
    ((index, found),) = spans.items()
    is_denied = reply.is_denied(*reply.sentence(found[-1][0]))
    return NO_ANSWER if is_denied else Reading(index, span=found[-1])


def _bracketed(reply: ReplyText, start: int) -> list[tuple[int, str | None, Span]]:
    """The labels in brackets from ``start`` on: ``(C)``."""
    return [
        (name.choice, None, name.span)
        for name in labels_in(reply.options, reply.text, start, len(reply.text))
        if reply.text[name.span[0] - 1 : name.span[0]] == "("
        and reply.text[name.span[1] :][:1] == ")"
    ]


WEAK = (bold, closing, mention)
RULES = (whole, conclusion, verdict, opening, *WEAK)
"""Tried in order; ``docs/readers.md`` shows what each of them decides on real replies."""


# ------------------------------------------------------------------------------------- deciding


def _settled(reply: ReplyText, claims: list[Claim]) -> Reading:
    """What a reply's announcements come to."""
    last = claims[0]
    for claim in claims[1:]:
        is_narrower = last.choice < 0 and claim.start >= last.end  # "A or B … so the answer is B"
        if (
            claim.choice != last.choice
            and not is_narrower
            and not reply.is_corrected(last.end, claim.span[0])
        ):
            return AMBIGUOUS
        last = claim
    return _checked(reply, last)


def _checked(reply: ReplyText, claim: Claim) -> Reading:
    """The claim as a reading, unless what follows calls another choice right."""
    others = set(reply.called_right(claim.end)) - {claim.choice}
    return AMBIGUOUS if others else _reading(claim.choice, claim.span).with_rule(claim.rule)


def _reading(index: int, span: Span) -> Reading:
    return AMBIGUOUS if index < 0 else Reading(index, span=span)


_NUMBERED = re.compile(r"(?:\A|\n)[ \t]*\(?\d{1,3}[.):][ \t]*[^.\n]{0,40}\Z")


def _listed(reply: ReplyText, claim: Claim) -> bool:
    """True if the claim is an entry of a numbered list: answers to more questions than one."""
    return bool(_NUMBERED.search(reply.text, max(0, claim.start - 60), claim.start))


_BRACED = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}\}){0,300}\}){0,2000})\}"
_BOXED = re.compile(
    rf"\\f?box(?:ed)?\s{{0,4}}{_BRACED}"
    r"|<([a-z_ ]{0,16}(?:answer|choice|option|letter|selection)[a-z_ ]{0,12})>([^<]{0,2000})</\2>",
    re.IGNORECASE,
)
_BOLD = re.compile(
    r"\*\*([^*\n]{1,400})\*\*|__([^_\n]{1,400})__|<(?:b|strong|mark|u)>([^<\n]{1,400})</(?:b|strong|mark|u)>",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[\s,;/&+|()\[\]{}\"'*_.$-]")
_COMMAND = re.compile(r"\\[a-z]{1,8}")


def _boxes(reply: ReplyText) -> Iterator[Claim]:
    """The boxes, answer tags and calls that hold a choice."""
    text = reply.text
    for match in list(_BOXED.finditer(text))[-50:] if "\\" in text or "<" in text else ():
        group = match.lastindex or 1
        piece = _piece(match[group], reply.options).moved(match.start(group))
        if piece.is_settled:
            index = piece.value if piece.is_answer else SEVERAL
            yield Claim(index, piece.span or match.span(), match.start(), match.end(), "box")


def _piece(text: str, options: AnswerOptions) -> Reading:
    """The choice that a marked piece of text names; ambiguous if it lists several labels."""
    reading = whole(ReplyText(text, options))
    if reading.is_settled:
        return reading
    named = {name.choice for name in labels_in(options, text, 0, len(text))}
    return AMBIGUOUS if len(named) > 1 else NO_ANSWER


def piece_of(text: str, options: AnswerOptions) -> Reading:
    """The choice that all of ``text`` names."""
    return _piece(fold(text), options)


def _ends_list(reply: ReplyText, line: int, index: int) -> bool:
    """True if the line before holds the option before: the reply lists them."""
    previous = reply.text[:line].rstrip()
    start = max(previous.rfind("\n") + 1, len(previous) - 400)
    name = ReplyText(previous[start:], reply.options).name_at(0, is_start=True)
    return name is not None and name.choice == index - 1


# ------------------------------------------------------------------------------- other readers


@register_reader("label_after")
def label_after(
    text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = (), phrase: str
) -> Reading:
    """Read the label after the last ``phrase``; nothing if there is none.

    The last, because a model that corrects itself does so at the end.
    """
    reply = ReplyText(fold(text), options_of(labels, choices))
    for match in reversed(list(phrase_pattern(phrase).finditer(reply.low))):
        claim = reply.claim_at(match.start(), match.end(), "label_after")
        if claim or not PLACEHOLDER.match(reply.text, match.end()):  # the instruction repeated
            return _of_label(reply, claim)
    return NO_ANSWER


def _of_label(reply: ReplyText, claim: Claim | None) -> Reading:
    """The claim as a reading, if it names a label and not only a choice's text."""
    if claim is None:
        return NO_ANSWER
    is_text = claim.choice >= 0 and reply.options.label_at(reply.text, claim.span[0]) is None
    return NO_ANSWER if is_text else _reading(claim.choice, claim.span).with_rule(claim.rule)


@register_reader("first_label")
def first_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the label with which the reply starts: ``C``, ``(C)``, ``**C**``, ``C. Paris``.

    A reply that starts by repeating the options (``A. … B. …``) has not answered yet.
    """
    reply = ReplyText(fold(text), options_of(labels, choices))
    return _of_label(reply, reply.claim_at(0, 0, "first_label", is_start=True))


@register_reader("marked_label")
def marked_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the choice in the last box (``\\boxed{C}``, ``<answer>C</answer>``), else in bold.

    Bold also stresses what is wrong: where it names several choices, there is no answer.
    """
    reply = ReplyText(fold(text), options_of(labels, choices))
    boxed = list(_boxes(reply))
    reading = _reading(boxed[-1].choice, boxed[-1].span) if boxed else bold(reply)
    return reading.with_rule("marked_label")


@register_reader("choice_text")
def choice_text(text: str, *, choices: Sequence[str] = ()) -> Reading:
    """Read a choice's text: the whole reply, its last sentence, or the only one mentioned."""
    reply = ReplyText(fold(text), options_of((), choices))
    for rule in (whole, closing, mention):
        reading = rule(reply, None)
        if reading.is_settled:
            return reading.with_rule("choice_text")
    return NO_ANSWER


@register_reader("label_text")
def label_text(text: str, *, labels: Sequence[str] = (), phrase: str | None = None) -> Reading:
    """Read a class named by a word: after the last ``phrase``, else as ``choice`` reads a choice.

    "Category is", "Sentiment:" and their like announce the class as well.
    """
    options, class_cue = options_of((), labels), vocabulary().class_cue
    cue = (
        re.compile(f"{phrase_pattern(phrase).pattern}|{class_cue.pattern}") if phrase else class_cue
    )
    return _spread(text, lambda plain: _read(plain, options, cue), "").with_rule("label_text")


# The reader of an order: ``B > A > C``, ``["B", "A", "C"]``, numbered lines → list of indices


_AROUND = r"[\"'*_()\[\]`$]{0,4}"
_BETWEEN = (
    r"(?:\s{0,4}(?:>+|,|;|\||→|≻|-+>|=+>|/)\s{0,4}(?:(?:and|then|finally)\s{1,4})?"
    r"|\s{1,4}(?:and|then|followed\s+by)\s{1,4}|\s{0,4}\n\s{0,4}(?:[-*•]\s{1,4})?|[ \t]{1,4})"
)


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
        cues = list(phrase_pattern(phrase).finditer(lowered(folded)))
        ends = [cue.end() for cue in cues if not PLACEHOLDER.match(folded, cue.end())]
        if not ends:
            return NO_ANSWER
        start = ends[-1]
        repeated = [cue.start() for cue in cues if cue.start() > start]  # the instruction
        folded = folded[: min(repeated, default=len(folded))]
    if len(options.by_label) != len(labels) or not labels:
        return NO_ANSWER
    numbered, run, label = _orders(tuple(options.by_label))
    lines = list(numbered.finditer(folded, start))[-len(labels) :]
    runs = (list(label.finditer(folded, *match.span())) for match in run.finditer(folded, start))
    for order in (lines, *reversed(list(runs))):
        indices = [options.index_of(match["label"]) for match in order]
        if len(order) == len(labels) and set(indices) == set(options.by_label.values()):
            span = order[0].start("label"), order[-1].end("label")
            return Reading(indices, "ranking", span)
    return NO_ANSWER


@lru_cache(maxsize=1024)
def _orders(cores: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Patterns for a label on a numbered line, for labels with separators between, and for one label."""
    one = "|".join(token(core) for core in sorted(cores, key=len, reverse=True))
    numbered = rf"^[ \t]{{0,8}}\(?\d{{1,4}}[.):][ \t]{{1,4}}{_AROUND}(?P<label>{one})"
    run = rf"(?:{one})(?:{_AROUND}{_BETWEEN}{_AROUND}(?:{one}))*"
    return (
        re.compile(numbered, re.IGNORECASE | re.MULTILINE),
        re.compile(run, re.IGNORECASE),
        re.compile(f"(?P<label>{one})", re.IGNORECASE),
    )
