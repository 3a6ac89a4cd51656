"""Readers of a choice, by its label, its text or either, and of an order of choices.

In: a reply, the labels shown and the choice texts. Out: its index, or the indices in order. ``RULES``
are tried in order, and the first that finds an answer, or evidence for more than one, decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from lm_eval.formats.readers.claims import NONE, REACH, Claim, ReplyText
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
    blanked,
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
    span = reading.span if moved_to is None or reading.span is None else moved_to(reading.span)
    return Reading(reading.value, f"{prefix}{reading.rule}", span, is_claim=reading.is_claim)


@lru_cache(maxsize=512)
def _pattern(phrase: str | None) -> re.Pattern[str] | None:
    return phrase_pattern(phrase) if phrase and phrase.strip() else None


def _read(text: str, options: AnswerOptions, phrase: re.Pattern[str] | None) -> Reading:
    """The choice that folded ``text`` commits to; turns that the model invents are left out."""
    if not text.strip():
        return NO_ANSWER
    reply = ReplyText(text, options)
    if "\n" in text:
        begins = len(text) - len(text.lstrip())
        turn = reply.words.turn.search(reply.low, begins)
        if turn:
            reply = ReplyText(text[: turn.start()], options)
        question = reply.words.question.search(reply.low, begins)
        if question:
            reading = _by_rules(ReplyText(text[: question.start()], options), phrase)
            if reading.is_settled or reading is NONE_OF_THEM:
                return reading
            if text[: question.start()].strip():  # what follows is about another question
                return NO_ANSWER
    reading = _by_rules(reply, phrase)
    return NO_ANSWER if reading is NONE_OF_THEM else reading


NONE_OF_THEM = Reading.unread("unreadable")
"""The reply says that no choice is right: no other rule is tried."""


def _by_rules(reply: ReplyText, phrase: re.Pattern[str] | None) -> Reading:
    for rule in RULES:
        reading = rule(reply, phrase)
        if reading.is_settled or reading is NONE_OF_THEM:
            reading = reading if reading.rule else reading.with_rule(rule.__name__)
            return replace(reading, is_claim=False) if rule in WEAK else reading
    return NO_ANSWER


# ---------------------------------------------------------------------------------------- rules


def whole(reply: ReplyText, _phrase: re.Pattern[str] | None = None) -> Reading:
    """The reply is a label, a choice's text, or a label with its text."""
    text, options = reply.text, reply.options
    if len(text) > options.window:
        return NO_ANSWER
    name = options.label_at(text, opened(text, 0))
    if name is None and len(text) <= _MAX_LEAD:
        name = reply.name_at(0)
        name = name if name and not name.is_text else None
    is_price = name is not None and text[: name.span[0]].strip() == "$" and text.count("$") == 1
    if name is not None and not is_price:
        rest = key_of(text[name.span[1] :])
        own = options.keys[name.choice] if 0 <= name.choice < len(options.keys) else ""
        if not rest or rest == own:
            return _reading(name.choice, name.span)
        if rest in options.keys and options.is_exact(text[slice(*name.span)]):
            return AMBIGUOUS
    return options.whole_text(text)


_MAX_LEAD = 120  # characters of a reply that consists of filler words and a label


def conclusion(reply: ReplyText, phrase: re.Pattern[str] | None) -> Reading:
    """The choice that the reply announces; of several the corrected one, else ambiguous."""
    ordered = sorted(
        [*reply.conclusions(phrase), *_boxes(reply)], key=lambda claim: (claim.span, claim.start)
    )
    claims = list({claim.span: claim for claim in reversed(ordered)}.values())[::-1]
    if not claims:
        return NO_ANSWER
    return _settled(reply, _before_tail(reply, claims))


def verdict(reply: ReplyText, _phrase: re.Pattern[str] | None) -> Reading:
    """The one choice that is called right."""
    if len(reply.text) > (_SHORT if reply.is_cut else 3 * _SHORT):
        return NO_ANSWER
    rights, _ = reply.verdicts()
    if len(rights) != 1:
        return AMBIGUOUS if rights else NO_ANSWER
    ((index, span),) = rights.items()
    return _checked(reply, Claim(index, span, *span, "verdict"))


def opening(reply: ReplyText, _phrase: re.Pattern[str] | None = None) -> Reading:
    """The label that the reply starts with, its text or a reason behind it; not a list of options.

    In a long reply it must fill the first line: "(a) The …" begins a solution in parts.
    """
    claim = reply.claim_at(0, 0, "opening", is_start=True)
    if claim is None or claim.choice == NONE:
        return NO_ANSWER if claim is None else _after(reply, claim.end)
    first_line = reply.text.lstrip().partition("\n")[0]
    is_long = len(reply.text) > 3 * _SHORT or reply.is_cut
    if is_long and len(first_line.strip()) > claim.end + 2:
        return NO_ANSWER
    if reply.is_denied(claim.end, reply.sentence_end(claim.end)) and claim.choice == SEVERAL:
        return NO_ANSWER
    changed = reply.words.second_thought.search(reply.low, claim.end)
    return _after(reply, changed.start()) if changed else _checked(reply, claim)


def _after(reply: ReplyText, start: int) -> Reading:
    """What a reply comes to that takes its first answer back at ``start``."""
    rest = ReplyText(" " * start + reply.text[start:], reply.options)
    for rule in (conclusion, verdict, closing, bold):
        reading = rule(rest, None)
        if reading.is_settled:
            return reading.with_rule("correction")
    return AMBIGUOUS


def closing(reply: ReplyText, _phrase: re.Pattern[str] | None) -> Reading:
    """The choice that the last sentence or line of a finished reply comes to: "so it is C"."""
    if reply.is_cut:
        return NO_ANSWER
    end = len(reply.text.rstrip())
    start = reply.sentence(max(0, end - 1))[0]
    line = reply.text.rfind("\n", 0, end) + 1
    for at in dict.fromkeys((line, start)):
        piece = _piece(reply.text[at:end], reply.options).moved(at)
        is_listed = piece.is_answer and _ends_list(reply, at, piece.value)
        if piece.is_answer and at and not is_listed and not reply.is_denied(line, at):
            return piece
    for match in reversed([*reply.words.it_is.finditer(reply.low, max(start, end - REACH), end)]):
        claim = reply.claim_at(match.start(), match.end(), "closing")
        if claim is not None and claim.choice >= 0 and not reply.is_denied(start, match.start()):
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
    """The only choice that a short reply names, by its text or a label in brackets."""
    if len(reply.text) > _SHORT or reply.text.rstrip()[-1:] in tuple(",:(-–—"):
        return NO_ANSWER
    spans = {i: at[-1] for i, at in reply.options.text_mentions(reply.text).items()}
    spans |= {index: span for index, _, span in _bracketed(reply, 0)}
    if len(spans) != 1:
        return AMBIGUOUS if spans else NO_ANSWER
    ((index, span),) = spans.items()
    start, end = reply.sentence(span[0])
    is_doubtful = reply.is_denied(start, end) or reply.text[end - 1 : end] == "?"
    return NO_ANSWER if is_doubtful else Reading(index, span=span)


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
    """What a reply's announcements come to. "Would be" counts only where nothing is firmer."""
    firm = [claim for claim in claims if claim.is_firm] or claims
    last = firm[0]
    for claim in firm[1:]:
        is_narrower = last.choice < 0 and claim.start >= last.end  # "A or B … so the answer is B"
        if claim.choice == last.choice:
            last = last if last.rule == "phrase" != claim.rule else claim
        elif is_narrower or reply.is_corrected(last.end, claim.span[0]):
            last = claim
        elif claim.choice == NONE:
            return NONE_OF_THEM
        else:
            return AMBIGUOUS
    return _checked(reply, last)


def _checked(reply: ReplyText, claim: Claim) -> Reading:
    """The claim as a reading, unless what follows calls another choice right, or this one wrong."""
    if claim.choice < 0:
        return AMBIGUOUS if claim.choice == SEVERAL else NONE_OF_THEM
    rights, wrongs = reply.verdicts(claim.end)
    if any(index != claim.choice for index in rights):
        return AMBIGUOUS
    if claim.choice in wrongs and claim.choice not in rights:
        return AMBIGUOUS
    changed = reply.words.second_thought.search(reply.low, claim.end, claim.end + REACH)
    later = _after(reply, changed.start()) if changed else NO_ANSWER
    return later if later.is_answer else Reading(claim.choice, claim.rule, claim.span)


def _reading(index: int, span: Span) -> Reading:
    return AMBIGUOUS if index < 0 else Reading(index, span=span)


_TAIL = re.compile(
    r"\b(?:summari[sz]\w*|combin\w*|all|these|previous|other|remaining|following|next|each|both)\b"
    r"[^.\n]{0,60}\b(?:answers|questions|problems)\b"
)
_NUMBERED = re.compile(r"(?:\A|\n)[ \t]*\(?\d{1,3}[.):][ \t]*[^.\n]{0,40}\Z")


def _before_tail(reply: ReplyText, claims: list[Claim]) -> list[Claim]:
    """The claims without those about other questions: a summary, or a list of more answers."""
    first = claims[0]
    tail = _TAIL.search(reply.low, first.end)
    end = tail.start() if tail else len(reply.text)
    return [first] + [
        claim
        for claim in claims[1:]
        if claim.start < end
        and not _NUMBERED.search(reply.text, max(0, claim.start - 60), claim.start)
    ]


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
    return AMBIGUOUS if _lists_labels(text, options) else NO_ANSWER


def piece_of(text: str, options: AnswerOptions) -> Reading:
    """The choice that all of ``text`` names."""
    return _piece(fold(text), options)


def _lists_labels(text: str, options: AnswerOptions) -> bool:
    """True for ``A, C``, ``A and C`` and ``AC``: nothing but several labels."""
    stripped = text.strip(" \t\n()[]{}\"'*_.$")
    if len(stripped) > 200 or not options.by_label:
        return False
    if 1 < len(stripped) <= len(options.by_label) and set(stripped) <= set(options.by_label):
        return len(set(stripped)) == len(stripped)
    named = list(labels_in(options, stripped, 0, len(stripped)))
    if len({name.choice for name in named}) < 2:
        return False
    rest = lowered(blanked(stripped, [name.span for name in named]))
    and_or = ReplyText(rest, options).words.and_or
    return not _JOINED.sub("", and_or.sub("", _COMMAND.sub(" ", rest)))


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
    options = options_of(labels, choices)
    reply = ReplyText(fold(text), options)
    cues = list(phrase_pattern(phrase).finditer(reply.low))
    for match in reversed(cues):
        claim = reply.claim_at(match.start(), match.end(), "label_after")
        if claim is None and PLACEHOLDER.match(reply.text, match.end()):
            continue  # the instruction repeated
        if not reply.text[match.end() :].strip(" \t\r\n:*_$\"'`([{.…-"):
            continue  # cut off while it repeated itself
        if claim is None or reply.text[slice(*claim.span)] == "" or _is_text(claim, options, reply):
            return NO_ANSWER
        return _reading(claim.choice, claim.span).with_rule("label_after")
    return NO_ANSWER


def _is_text(claim: Claim, options: AnswerOptions, reply: ReplyText) -> bool:
    return claim.choice >= 0 and options.label_at(reply.text, claim.span[0]) is None


@register_reader("first_label")
def first_label(text: str, *, labels: Sequence[str] = (), choices: Sequence[str] = ()) -> Reading:
    """Read the label with which the reply starts: ``C``, ``(C)``, ``**C**``, ``C. Paris``.

    A reply that starts by repeating the options (``A. … B. …``) has not answered yet.
    """
    options = options_of(labels, choices)
    reply = ReplyText(fold(text), options)
    claim = reply.claim_at(0, 0, "first_label", is_start=True)
    if claim is None or claim.choice == NONE or _is_text(claim, options, reply):
        return NO_ANSWER
    return _reading(claim.choice, claim.span).with_rule("first_label")


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
        cues = list(phrase_pattern(phrase).finditer(lowered(folded)))
        ends = [cue.end() for cue in cues if not PLACEHOLDER.match(folded, cue.end())]
        if not ends:
            return NO_ANSWER
        start = ends[-1]
        repeated = [cue.start() for cue in cues if cue.start() > start]  # the instruction
        folded = folded[: min(repeated, default=len(folded))]
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
