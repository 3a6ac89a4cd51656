"""When two free-text answers are the same.

Case, white space, an article in front and punctuation at the edges do not count; numbers are compared
as numbers. Nothing is translated: ``forty-two`` is not ``42``, ``4 July`` is not ``July 4``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from lm_eval.formats.readers.number import numbers_in
from lm_eval.formats.readers.text import fold, sentence_ends

_ARTICLE = re.compile(r"^(?:the|an?)\s+")
_EDGES = " \t\r\n.,;:!?\"'`*_()[]{}«»“”‘’$"
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_UNIT_GAP = re.compile(r"(?<=\d) (?=[a-z°%µ])")  # 42 km, 42km
_DASHES = str.maketrans("–—", "--")

_CURRENCIES = {
    **dict.fromkeys(("$", "dollar", "dollars", "usd"), "$"),
    **dict.fromkeys(("€", "euro", "euros", "eur"), "€"),
    **dict.fromkeys(("£", "pound", "pounds", "gbp"), "£"),
    **dict.fromkeys(("¥", "yen", "jpy"), "¥"),
    **dict.fromkeys(("₹", "rupee", "rupees", "inr"), "₹"),
}
_CURRENCY = re.compile(r"[$€£¥₹]|\b(?:" + "|".join(filter(str.isalpha, _CURRENCIES)) + r")\b")
_PERCENT = re.compile(r"%|\bper\s?cent\b")
# A number that is denied, compared, scaled or part of a term is not the number itself.
_QUALIFIED = re.compile(
    r"\b(?:not|never|neither|nor|except|between|at\s+least|at\s+most|up\s+to|hundreds?|thousands?"
    r"|millions?|billions?|trillions?|dozens?|half|squared|cubed|other\s+than)\b|n't\b"
    r"|\b(?:less|more|fewer|greater|larger|smaller)\s+than\b|[≤≥≠±√]|[<>]=?\s?[-+$€£]?[.\d]"
    r"|\b(?:over|under|above|below|almost|nearly|minus)\s+[$€£]?[.\d]|\d\s?[xyzinkπ](?![a-z])"
)
# What a later sentence begins with when it takes the answer back, or doubts it.
_WITHDRAWN = re.compile(
    r"[.!?…。！？][)\]*_\"'`]{0,3}\s*[\"'(*_]{0,3}(?:no(?=\s*[,.!:;…-])|(?:wait|hold\s+on|actually|sorry"
    r"|correction|scratch\s+that|on\s+second\s+thought|oops|hm+|i\s+mean|or|or\s+rather|but|however"
    r"|alternatively|maybe|perhaps|(?:that|this|it)(?:'s|\s+is|\s+was)\s+(?:wrong|incorrect|not))\b)",
    re.IGNORECASE,
)
_REACH = 200
_CACHED_LENGTH = 1000


def same_answer(given: str, gold: str) -> bool:
    """Whether an answer says what the gold says.

    A remark may follow in a sentence of its own (``Paris. I hope it is correct.``) unless it takes
    the answer back. What continues the sentence belongs to the answer: ``Paris or London`` is not
    ``Paris``. Where the gold is a number, the one number in the answer counts: ``42 apples`` is
    ``42``, while ``between 40 and 42`` and ``not 42`` are not.
    """
    if _says(given, gold):
        return True
    head = given[: 2 * len(gold) + _REACH]  # a remark begins where the gold has ended
    return any(
        _says(given[:stop], gold) and not _WITHDRAWN.search(given, stop)
        for stop, _ in sentence_ends(head)
    )


def _says(given: str, gold: str) -> bool:
    if normal_form(given) == normal_form(gold):
        return bool(normal_form(gold)) or given.strip() == gold.strip()
    wanted = as_number(gold)
    return wanted is not None and only_number(given) == wanted and _fits(given, gold)


def _fits(given: str, gold: str) -> bool:
    """False if both name a currency, and not the same."""
    ours, theirs = _currencies(given), _currencies(gold)
    return not ours or not theirs or ours == theirs


def _currencies(text: str) -> set[str]:
    return {_CURRENCIES[found] for found in _CURRENCY.findall(fold(text).lower())}


def normal_form(text: str) -> str:
    """The text without case, edges, article in front, thousands separators and runs of space."""
    return _short_form(text) if len(text) <= _CACHED_LENGTH else _form(text)


def _form(text: str) -> str:
    plain = _plain(text).casefold().strip(_EDGES)
    plain = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)
    return _UNIT_GAP.sub("", " ".join(_ARTICLE.sub("", plain).split()))


_short_form = lru_cache(maxsize=8192)(_form)


def _plain(text: str) -> str:
    """One Unicode form of the text; ``10²`` and ``3½`` keep their signs, they are not 102 and 31/2."""
    if text.isascii():
        return text
    is_odd = any(unicodedata.category(char) == "No" for char in text)
    plain = unicodedata.normalize("NFC" if is_odd else "NFKC", fold(text)).translate(_DASHES)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in plain)


@lru_cache(maxsize=8192)
def as_number(text: str) -> str | None:
    """The text as a number in plain form, if it is one, with or without currency and percent."""
    bare = _PERCENT.sub("", _CURRENCY.sub("", _plain(text).lower())).strip(_EDGES)
    if not bare[-1:].isdigit() and not bare.endswith("}"):
        return None
    words = re.sub(r"\\[dt]?frac|\be[-+]?\d|\d+e[-+]?\d", "", bare)
    return None if re.search(r"[^\W\d_]", words) else only_number(bare)


def only_number(text: str) -> str | None:
    """The number in a text that holds exactly one, in plain form; None where there is none,
    several, or one that is denied, compared or scaled (``not 42``, ``over 42``, ``42 million``).
    """
    plain = _plain(text).lower()
    if _QUALIFIED.search(plain) or any(unicodedata.category(c) == "No" for c in plain):
        return None
    found = None if _WITHDRAWN.search(plain) else numbers_in(plain)
    return found[0] if found and len(set(found)) == 1 else None
