"""Which nuggets a phrase is about: numbers, ordinals, *all*, *none*, *the others*, an exception.

``Nuggets 1 and 3``, ``the first two``, ``beide``, ``所有信息点``, ``the rest``. Words such as *most*
are a phrase too: it is about nuggets, but nobody can tell which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nugget_eval.reading.candidates import Span
from nugget_eval.reading.prose import vocabulary as v

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A phrase about nuggets; ``numbers`` is empty where it does not say which.

    ``is_denied``: of none of them is the label true that follows. ``is_exception``: all but these.
    ``is_rest``: those of which nothing has been said yet.
    """

    span: Span
    numbers: Numbers = ()
    is_denied: bool = False
    is_exception: bool = False
    is_rest: bool = False
    is_bare: bool = False


_MANY = "|".join(v.NUMBERS.values())
_NUMBER = r"#?\d{1,3}(?!\d|[.,]\d|[ ]?%)"
_SIGN = r"(?:[ \t]{0,2}(?:#|№|no\.?|nr\.?|number|numbers|n°|nº)[ \t]{0,2})?"
_JOIN = rf"[ \t]{{0,2}}(?:,|{v.AND}|{v.TO}|–|—|-|&|/){{1,2}}[ \t]{{0,2}}(?:{v.AND}[ \t]{{1,2}})?"
_NUMBERED = (
    rf"(?P<listed>{v.NOUN}[ \t]{{0,2}}{_SIGN}(?P<list>{_NUMBER}"
    rf"(?:{_JOIN}(?:{v.NOUN}[ \t]{{0,2}})?{_SIGN}{_NUMBER}){{0,40}})(?:[ ]?(?:号|番|번))?)"
)
_BARE = r"(?P<bare>(?<![\w#.,/-])\d{1,3}(?![\d.,%]\d|\w))"
_ORDINAL = "|".join(f"(?P<o{i}>{pattern})" for i, pattern in enumerate(v.ORDINALS, 1))
_ONE = r"(?:[ \t](?:one|eine|uno|una|um|uma))?"
# Without a noun, an ordinal must not count anything else: ``the first sentence``.
_AFTER_ORDINAL = (
    rf"{v.COUNTER}(?:[ \t]{{0,2}}{v.NOUN}"
    rf"|{_ONE}(?=[ \t]{{0,2}}(?:[^\w\s]|\Z|{v.GLUE}|{v.AND}|do(?:es)?\b"
    r"|(?:partial|not|fully|un)?[ _]?support)))"
)
_SUBJECT = re.compile(
    rf"(?P<vague>{v.VAGUE}(?:[ \t]{{1,2}}{v.THE}(?:{_MANY}|\d{{1,2}})?)?"
    rf"|(?:{_MANY}|\d{{1,2}})[ \t](?:of|von|der|des|sur|de|out[ \t]of|из)[ \t]{v.THE}"
    rf"(?:{_MANY}|\d{{1,2}})?"
    rf")(?:[ \t]{{1,2}}{v.THE}{v.NOUN})?"
    rf"|{_NUMBERED}"
    r"|(?P<counted>(?<![\w.,])\d{1,3})(?:번|番)(?!\w*목)"
    rf"|(?P<few>{v.THE}(?:(?P<first_few>first|ersten|premiers|premières|primer[oa]s|primeir[oa]s|prim[ie]"
    rf"|первые|前|最初の)|last|letzten|derniers|dernières|últim[oa]s|ultim[ie]|последние|后|最後の)[ ]?"
    rf"(?P<few_n>{_MANY}|\d{{1,2}})(?:个|個|条|つ)?(?:[ \t]?{v.NOUN})?)"
    rf"|(?P<none>{v.NONE}(?:[ \t]{{1,2}}{v.THE}(?:(?:{_MANY}|\d{{1,2}})[ \t])?(?:{v.NOUN}|them|ihnen))?"
    rf"|{v.NO}[ \t]{{1,2}}{v.NOUN})"
    rf"|(?P<rest>{v.THE}(?:(?:all|alle|tous|todos|tutti)[ \t])?{v.THE}{v.REST}{_ONE}"
    rf"(?:[ \t](?:{_MANY}))?(?:[ \t]?{v.THE}(?:{v.NOUN}|them|ones?))?)"
    rf"|(?P<former>{v.THE}(?:former|erstere[rsnm]?))|(?P<latter>{v.THE}(?:latter|letztere[rsnm]?))"
    rf"|(?P<both>{v.BOTH}[ \t]{{0,2}}{v.THE}(?:{v.NOUN}|them)?)"
    rf"|(?P<all>(?<!at )(?<!after )(?<!above ){v.ALL}[ \t]{{0,2}}{v.THE}"
    rf"(?:(?P<all_n>{_MANY}|\d{{1,2}})[ \t]?)?(?:个|個|条|の)?(?:[ \t]?(?:{v.NOUN}|them))?)"
    rf"|(?P<these_n>(?:the|these|die|les|los|las|os|as|i|gli|le)[ \t]"
    rf"(?P<these_size>{_MANY}|\d{{1,2}})[ \t]{v.NOUN})"
    rf"|(?P<these>{v.THESE})"
    rf"|(?P<ordinal>(?P<the>{v.THE})(?:{_ORDINAL}|(?P<last>{v.LAST})){_AFTER_ORDINAL})"
    rf"|(?P<this>{v.THIS_ONE})"
    rf"|{_BARE}",
    re.IGNORECASE,
)
_EXCEPT = re.compile(rf"{v.EXCEPT}[ \t]{{0,2}}{v.THE}\Z", re.IGNORECASE)
_RANGE = re.compile(rf"#?(\d{{1,3}})[ \t]{{0,2}}(?:{v.TO}|–|—|-)[ \t]{{0,2}}#?(\d{{1,3}})", re.I)
_DIGITS = re.compile(r"\d{1,3}")
_PER_NUMBER = {n: re.compile(pattern, re.IGNORECASE) for n, pattern in v.NUMBERS.items()}
MOST_NUMBERS = 500
"""A phrase about more nuggets than this is not read."""


def subjects(sentence: str, count: int) -> Iterator[Subject]:
    """The phrases about nuggets in a sentence, in order; ``count`` is the number of nuggets."""
    for found in _SUBJECT.finditer(sentence):
        subject = _subject(found, tuple(range(1, count + 1)))
        if _EXCEPT.search(sentence, max(0, found.start() - 40), found.start()):
            subject = Subject(subject.span, subject.numbers, is_exception=True)
        yield subject


def _subject(found: re.Match[str], everyone: Numbers) -> Subject:
    kind = next(name for name in (*_NUMBERS_OF, "none", "rest", "bare") if found[name] is not None)
    if kind == "none":
        return Subject(found.span(), everyone, is_denied=True)
    if kind == "rest":
        return Subject(found.span(), is_rest=True)
    if kind == "bare":
        return Subject(found.span(), (int(found["bare"]),), is_bare=True)
    return Subject(found.span(), _NUMBERS_OF[kind](found, everyone))


def _all(found: re.Match[str], everyone: Numbers) -> Numbers:
    """*All three* are three nuggets, even where there are only two."""
    number = found["all_n"] or found["these_size"]
    size = len(everyone) if number is None else _size(number)
    return tuple(range(1, size + 1)) if size >= len(everyone) else ()


def _few(found: re.Match[str], everyone: Numbers) -> Numbers:
    size = _size(found["few_n"])
    if not 0 < size <= len(everyone):
        return ()
    return everyone[:size] if found["first_few"] is not None else everyone[-size:]


def _size(word: str) -> int:
    if word.isdigit():
        return int(word)
    return next((n for n, pattern in _PER_NUMBER.items() if pattern.fullmatch(word)), 0)


def _ordinal(found: re.Match[str], everyone: Numbers) -> Numbers:
    if found["last"] is not None:
        return everyone[-1:]
    return tuple(i for i in range(1, len(v.ORDINALS) + 1) if found[f"o{i}"] is not None)


def _numbers(listed: str) -> Numbers:
    """The numbers of ``1, 2 and 5–7``."""
    numbers: list[int] = []
    at = 0
    for first, last, span in ((int(r[1]), int(r[2]), r.span()) for r in _RANGE.finditer(listed)):
        numbers += map(int, _DIGITS.findall(listed[at : span[0]]))
        if not first < last <= first + MOST_NUMBERS:
            return ()
        numbers += range(first, last + 1)
        at = span[1]
    return tuple(numbers + [int(n) for n in _DIGITS.findall(listed[at:])])


# The kinds of phrases, each with how the numbers of its nuggets are found.
_NUMBERS_OF: dict[str, Callable[[re.Match[str], Numbers], Numbers]] = {
    "vague": lambda _found, _everyone: (),
    "listed": lambda found, _everyone: _numbers(found["list"]),
    "counted": lambda found, _everyone: (int(found["counted"]),),
    "few": _few,
    "former": lambda _found, everyone: everyone[:1] if len(everyone) == 2 else (),
    "latter": lambda _found, everyone: everyone[1:] if len(everyone) == 2 else (),
    "both": lambda _found, everyone: everyone if len(everyone) == 2 else (),
    "all": _all,
    "these_n": _all,
    "these": lambda _found, everyone: everyone,
    "ordinal": _ordinal,
    "this": lambda _found, everyone: everyone if len(everyone) == 1 else (),
}
