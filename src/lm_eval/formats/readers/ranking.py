"""The reader of an order: ``B > A > C``, ``["B", "A", "C"]``, numbered lines → list of places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from lm_eval.formats.readers.options import AnswerOptions, options_of, token
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, last_cue, phrase_pattern

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
    """Read an order of all labels, best first, as a list of places; the last one the reply gives.

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
    if len(options.places) != len(labels) or not labels:
        return NO_ANSWER
    cores = tuple(options.places)
    for candidates in (_numbered(folded, cores, start), _runs(folded, cores, start)):
        orders = [order for order in candidates if _is_permutation(order, options)]
        if orders:
            return _reading(orders[-1], options)
    return NO_ANSWER


Order = list[re.Match[str]]


def _runs(text: str, cores: tuple[str, ...], start: int) -> Iterable[Order]:
    """Labels with nothing but separators between them, as long as they go on."""
    label, run = _patterns(cores)
    for match in run.finditer(text, start):
        order = list(label.finditer(text, *match.span()))
        ends_as_word = order[-1][0] in ("A", "a", "I", "i")
        if not (ends_as_word and _PROSE_FOLLOWS.match(text, order[-1].end())):
            yield order


def _numbered(text: str, cores: tuple[str, ...], start: int) -> Iterable[Order]:
    """Labels behind ``1.``, ``2.``, … at the start of lines that count up."""
    order: Order = []
    for line in _numbered_line(cores).finditer(text, start):
        number = int(line["number"])
        order = [*order, line] if number == len(order) + 1 else [line] if number == 1 else []
        if len(order) == len(cores):
            yield order


def _is_permutation(order: Order, options: AnswerOptions) -> bool:
    places = {
        options.any_case.get(_key(match), options.places.get(match["label"])) for match in order
    }
    return len(order) == len(options.places) and places == set(options.places.values())


def _reading(order: Order, options: AnswerOptions) -> Reading:
    places = [
        options.places.get(match["label"], options.any_case.get(_key(match))) for match in order
    ]
    return Reading(places, "ranking", (order[0].start("label"), order[-1].end("label")))


def _key(match: re.Match[str]) -> str:
    return " ".join(match["label"].casefold().split())


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
