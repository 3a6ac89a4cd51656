"""One piece of text → the label it spells, or None. A finite table of whole texts, never substrings.

``not_support``, ``Not Supported``, ``notSupported`` and ``does not support`` are one label; ``not
fully supported``, ``support or partial_support`` and ``supporting`` are none.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
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
)
_TABLE: dict[str, Label] = {
    **dict.fromkeys(_SUPPORT, LABELS[0]),
    **dict.fromkeys(_PARTIAL, LABELS[1]),
    **dict.fromkeys(_NOT, LABELS[2]),
}
# Words that are labels only if every slot holds one word and the caller allows it.
_PLAIN_WORDS: dict[str, Label] = {
    **dict.fromkeys(("yes", "true"), LABELS[0]),
    "maybe": LABELS[1],
    **dict.fromkeys(("no", "false", "none"), LABELS[2]),
}
# A mark beside a label says the same as the label, or the text is not a label.
_MARKS: dict[str, Label] = {
    **dict.fromkeys("✅✔☑✓🟢👍", LABELS[0]),
    **dict.fromkeys("⚠🟡🟠🔶➖", LABELS[1]),
    **dict.fromkeys("❌✗✘✖❎🔴👎⛔🚫", LABELS[2]),
}
_LONGEST = 80
_EDGES = " \t\r\n\"'`*_()[]{}<>.,;:!#@$|"  # what may surround a label without meaning
_LEADING_NEGATION = re.compile(r"[\s\"'`*_()\[\]{}<>#@$]*[!¬~]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN = re.compile(r"[\s_\-\u2010\u2011\u2013]+")
_DASH_BETWEEN = re.compile(r"\w\s+[-–]\s+\w")  # ``no - support`` are two words
_COMMAND = re.compile(r"\\[a-zA-Z]{2,12}[ ]?\{([^{}]*)\}")  # \text{support}
_CALL = re.compile(
    r"\w{0,20}(?:label|support|verdict)\w{0,10}\([\"']?(?P<value>[\w ]{4,20})[\"']?\)", re.I
)
_MEMBER = re.compile(  # Label.SUPPORT, and what Python prints for it: <Label.SUPPORT: 'support'>
    r"\w{0,20}(?:label|support|verdict|decision|judge?ment|assignment|class|level|rating|enum)\w{0,10}"
    r"(?:\.|::|->|(?<=LABEL)_)(?P<member>\w{4,20})(?:: ?['\"]?(?P<value>\w{4,20})['\"]?)?",
    re.IGNORECASE,
)
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
    if label is None and key[:1] in _MARKS:
        label = _TABLE.get(key[1:])
        return label if label == _MARKS[key[0]] else None
    return _PLAIN_WORDS.get(key) if label is None and plain_words else label


@lru_cache(maxsize=16384)
def _key(text: str, case_sensitive: bool) -> str:
    """``text`` as lower-case words with one space between; "" if it cannot be a label.

    A mark beside the words (``✅``) comes first, without a space.
    """
    plain, mark = text.replace("\\_", "_"), ""
    if "&" in plain:
        plain = html.unescape(plain)
    if "\\" in plain:
        plain = _COMMAND.sub(r"\1", plain)
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain.rstrip("¹²³⁴⁵⁶⁷⁸⁹⁰")).replace("’", "'")
        plain, mark = _without_mark(plain)
    if "(" in plain:
        plain = _CALL.sub(r"\g<value>", plain)
    if _LEADING_NEGATION.match(plain) or _DASH_BETWEEN.search(plain):
        return ""
    plain = plain.strip(_EDGES)
    if "." in plain or ":" in plain or ">" in plain or plain[:6] == "LABEL_":
        plain = _member(plain)
    plain = plain.replace("'", " ")
    if case_sensitive and plain != plain.lower():
        return ""
    if not plain.islower() and not plain.isupper():
        plain = _CAMEL.sub(" ", plain)
    return mark + _BETWEEN.sub(" ", plain.lower())


def _without_mark(text: str) -> tuple[str, str]:
    """``text`` without typographic quotes and without the mark at one of its ends, and that mark."""
    text = text.replace("\ufe0f", "").strip(_EDGES + "“”„«»「」『』‘。、")
    for mark, rest in ((text[:1], text[1:]), (text[-1:], text[:-1])):
        if mark in _MARKS:
            return rest.strip(_EDGES), mark
    return text, ""


def _member(text: str) -> str:
    """The name of a member of an enumeration; ``text`` itself if it is not one."""
    member = _MEMBER.fullmatch(text)
    if member is None or member["value"] not in (None, member["member"].lower()):
        return text
    return member["member"]


_SPELLED = re.compile(
    r"(?:\b\w{0,20}label(?:\.|::|:|=))?"
    r"(?:(?:\b|(?<=_))(?:does|is|do|un|non|no|not|fully|full|completely|partially|partial"
    r"|partly)[ _-]?){0,3}"
    r"support(?:ed|s)?(?![a-z])|\bpartial(?![a-z])",
    re.IGNORECASE,
)
_WRAPPING = " \t\"'`*#@(){}<>[]"
# Between alternatives there may be a slash, a plus, a dash or a colon, never one of the others.
_ALTERNATING = frozenset(("/", "//", "+", "-", "–", "—", ":", "~", "→", "->", "=>", ">", ">>"))
_SEPARATORS = _ALTERNATING | {"", "·", "•", "∙", "・", "&", "&&", "||", "∣", "¦", "and", "then"}
_SEPARATORS |= {"und", "et", "y", "e", "и", "和", "と", "및", "و", "और"}


def _bare(word: str) -> str:
    """A label without the name before it: ``label:support``."""
    return re.split(r"[.:=]", word)[-1]


def _separator(between: str) -> str:
    """What separates two labels, without the marks around each of them."""
    is_pointed = ">" in between and "<" not in between  # ``->``, not the end of a placeholder
    return between.strip(_WRAPPING.replace(">", "") if is_pointed else _WRAPPING).lower()


def label_sequence(text: str, *, is_marked: bool = False) -> list[Label] | None:
    """The labels of ``text`` if it is nothing but labels with blanks, slashes or dots between.

    ``support / not_support`` names alternatives unless ``is_marked`` says that it is an answer: a
    slash separates labels that repeat, or all three in another order than the prompt names them.
    """
    spelled = list(_SPELLED.finditer(text)) if len(text) <= 20_000 else []
    if len(spelled) < 2 or text[: spelled[0].start()].strip(_EDGES):
        return None
    between = {_separator(text[a.end() : b.start()]) for a, b in pairwise(spelled)}
    tail = text[spelled[-1].end() :].strip(_EDGES)
    if len(between) != 1 or not between <= _SEPARATORS or tail not in ("", *between):
        return None
    labels = [label for word in spelled if (label := label_of(_bare(word[0]))) is not None]
    if len(labels) < len(spelled):
        return None
    is_distinct = len(set(labels)) == len(labels)
    is_menu = is_distinct and (len(labels) == 2 or tuple(labels) == LABELS)
    return None if is_menu and not is_marked and between <= _ALTERNATING else labels
