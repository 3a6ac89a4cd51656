"""When two free-text answers are the same.

Case, white space, articles and punctuation at the edges do not count; numbers are compared as numbers.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache

_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_EDGES = " \t\r\n.,;:!?\"'`*_()[]{}<>«»“”‘’$"


def same_answer(given: str, gold: str) -> bool:
    """Whether an answer says what the gold says.

    Where the gold is a number, the one number in the answer counts: ``42 apples`` is ``42``, while
    ``between 40 and 42`` is not.
    """
    if normal_form(given) == normal_form(gold):
        return True
    wanted = as_number(gold)
    return wanted is not None and only_number(given) == wanted


@lru_cache(maxsize=8192)
def normal_form(text: str) -> str:
    """The text without case, edges, articles in front and runs of white space."""
    plain = unicodedata.normalize("NFKC", text).casefold().strip(_EDGES)
    return " ".join(_ARTICLE.sub("", plain).split())


def as_number(text: str) -> Decimal | None:
    """The text as a number if it is one and nothing else: ``$1,234.50``, ``-5``, ``3%``."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2212", "-").strip(_EDGES + "%€£ ")
    if not any(c.isdigit() for c in plain) or _NUMBER.fullmatch(plain) is None:
        return None
    try:
        return Decimal(plain.replace(",", "")).normalize()
    except InvalidOperation:
        return None


def only_number(text: str) -> Decimal | None:
    """The number in a text that holds exactly one; None where there is none, or several."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    numbers = {as_number(m.group()) for m in _NUMBER.finditer(plain) if m.group().strip("+-.")}
    numbers.discard(None)
    return numbers.pop() if len(numbers) == 1 else None
