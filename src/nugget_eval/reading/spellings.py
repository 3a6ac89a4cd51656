"""One piece of text → the label it spells, or None. A finite table of whole texts, never substrings.

``not_support``, ``Not Supported``, ``notSupported`` and ``does not support`` are one label; ``not
fully supported``, ``support or partial_support`` and ``supporting`` are none.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import Literal, get_args

Label = Literal["support", "partial_support", "not_support"]
LABELS: tuple[Label, ...] = get_args(Label)
ORDER: tuple[Label, ...] = LABELS[::-1]
"""From the lowest label to the highest."""
RANK: dict[Label, int] = {label: rank for rank, label in enumerate(ORDER)}

_SUPPORT = (
    "support",
    "supported",
    "supports",
    *(
        f"{how} {word}"
        for how in ("full", "fully", "completely")
        for word in ("support", "supported")
    ),
    "fully supports",
    "is supported",
    "is fully supported",
    "fullsupport",
    "fullysupported",
    "✅ support",
    "✅ supported",
    "✔ support",
)
_PARTIAL = (
    "partial",
    *(
        f"{how} {word}"
        for how in ("partial", "partially", "partly")
        for word in ("support", "supported", "supports")
    ),
    "is partially supported",
    "is partly supported",
    "in part supported",
    "partialsupport",
    "partiallysupport",
    "partiallysupported",
    "partlysupported",
    "partialsupported",
    "⚠ partial support",
)
_NOT = (
    *(f"{how} {word}" for how in ("not", "no") for word in ("support", "supported", "supports")),
    *(f"{verb} not support" for verb in ("does", "do", "did")),
    *(f"{verb} t support" for verb in ("doesn", "don", "didn")),
    *(f"{verb} not supported" for verb in ("is", "are", "was")),
    *(f"{verb} t supported" for verb in ("isn", "aren", "wasn")),
    "unsupported",
    "is unsupported",
    "un supported",
    "non support",
    "non supported",
    "notsupport",
    "notsupported",
    "nosupport",
    "nonsupported",
    "❌ not support",
    "❌ not supported",
    "✗ not support",
)
_TABLE: dict[str, Label] = {
    **dict.fromkeys(_SUPPORT, LABELS[0]),
    **dict.fromkeys(_PARTIAL, LABELS[1]),
    **dict.fromkeys(_NOT, LABELS[2]),
}
# Words that are labels only where every slot holds one word and the caller allows it.
_PLAIN_WORDS: dict[str, Label] = {
    **dict.fromkeys(("yes", "true"), LABELS[0]),
    "maybe": LABELS[1],
    **dict.fromkeys(("no", "false", "none"), LABELS[2]),
}
_LONGEST = 80
_EDGES = " \t\r\n\"'`*_()[]{}<>.,;:!"  # what may surround a label without meaning
_LEADING_NEGATION = re.compile(r"[\s\"'`*_()\[\]{}<>]*[!¬~]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN = re.compile(r"[\s_\-\u2010\u2011\u2013]+")
_MARKS = re.compile(r"(?<=[✅✔❌✗⚠])\ufe0f?\s*(?=\w)")
STEM = re.compile(r"upport|artial", re.IGNORECASE)
"""Part of every spelling: text without it holds no label."""


def label_of(text: str, *, case_sensitive: bool = False, plain_words: bool = False) -> Label | None:
    """The label that ``text`` as a whole spells, or None.

    ``case_sensitive`` accepts lower case only. ``plain_words`` adds yes, no, true, false, none and
    maybe.
    """
    if len(text) > _LONGEST:
        text = text.strip()
        if len(text) > _LONGEST:
            return None
    key = _key(text, case_sensitive)
    label = _TABLE.get(key)
    return _PLAIN_WORDS.get(key) if label is None and plain_words else label


@lru_cache(maxsize=16384)
def _key(text: str, case_sensitive: bool) -> str:
    """``text`` as lower-case words with one space between; "" if it cannot be a label."""
    plain = text.replace("\\_", "_")
    if "&" in plain:
        plain = html.unescape(plain)
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain).replace("’", "'").strip(" “”„«»「」『』‘。、")
    if _LEADING_NEGATION.match(plain):
        return ""
    plain = plain.strip(_EDGES).replace("'", " ")
    if case_sensitive and plain != plain.lower():
        return ""
    if not plain.islower() and not plain.isupper():
        plain = _CAMEL.sub(" ", plain)
    return _MARKS.sub(" ", _BETWEEN.sub(" ", plain.lower()))
