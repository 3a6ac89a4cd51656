"""How a reply says which nugget a label is about: by its number in any notation, or by its text.

``1.``, ``(1)``, ``#1``, ``N1:``, ``Nugget 1 –``, ``1st nugget:``, ``第1条``, ``a)``, ``二、``; ``Bees
collect nectar: …``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from nugget_eval.reading.candidates import names

# A dash needs a blank or a letter after it, a bullet outside ASCII needs nothing.
_BULLETS = (
    r"[-=]>|[*+](?=[ \t])|[-–—―−](?=[ \t]|[^\W\d_])"
    r"|[•‣⁃∙·・･○●◦▪▫■□◆◇◈★☆✦✧✱❖※➢➣➤►▶▸▹→➔➜➡»›◉◎⦿🔹🔸🔷🔘👉📌]"
)
_WORDS = (  # what a nugget is called
    "nuggets?|items?|claims?|facts?|statements?|labels?|answers?|points?|entry|assertions?|elements?"
    "|fragmento?|frammento|information|información|informação|proposition|proposición|proposição|detail|these"
    "|aussage|fakt|behauptung|punkt|eintrag|antwort|pépite|fait|affirmation|élément|point|énoncé|hecho"
    "|afirmaci[oó]n|dato|elemento|punto|enunciado|fato|facto|afirmação|item|ponto|fatto|affermazione"
    "|факт|утверждение|пункт|наггет|тезис|信息点|資訊點|要点|事实|事實|陈述|声明|条目|知识点"
    "|ナゲット|項目|事実|主張|記述"
    "|feit|bewering|twierdzenie|madde|iddia|bilgi|påstående|fakta|pernyataan|断言|论断|信息|知识|情報"
    "|너겟|항목|사실|주장|진술|المعلومة|الحقيقة|العبارة|البند|النقطة|तथ्य|कथन|नगेट|दावा|बिंदु"
)
_SHORT = r"number|num|no\.?|nr\.?|n°|nº|№|id|[nkcfql]"
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_NUMBER = re.compile(
    r"[*_`\"]{0,3}[(\[{<]?[*_`]{0,2}"
    rf"(?P<word>(?:(?:{_WORDS})[ \t_#.:-]{{0,3}})?(?:(?:{_SHORT})[ \t_#.:=-]{{0,2}}"
    rf"|第[ ]?)?)[(\[]?(?P<hash>#)?"
    r"(?P<index>\d{1,4})(?!\d)(?:/\d{1,4})?(?:st|nd|rd|th)?"
    rf"(?:[ ]?(?:条|條|項|个|個|点|番|번)|[ \t](?:{_WORDS}))?[*_`\"]{{0,3}}[ \t]?"
    r"(?:(?P<end>\.\)|\.(?!\d)|[):\]}>=,]{1,2}(?:[ ]?=(?!=))?|/(?=[ \t])|->|=>|[→–—]"
    r"|-(?=[ \t]|[^\W\d]{2}))[*_`]{0,3}|)(?![\w.]*\d[.:]\d)",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    rf"[*_`]{{0,3}}(?:the[ \t])?(?P<ordinal>{'|'.join(_ORDINALS)})"
    rf"(?P<noun>[ \t](?:{_WORDS}))?[*_`]{{0,3}}[ \t]?"
    r"(?:[:=]|->|=>|[→–—]|-(?=[ \t]))[*_`]{0,3}",
    re.IGNORECASE,
)
_CARDINALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NAMED = re.compile(
    rf"[*_`]{{0,3}}(?:(?P<noun>{_WORDS})[ \t]"
    rf"(?:(?P<letter>[a-z])(?![^\W\d_])|(?={'|'.join(_CARDINALS)})))?"
    rf"(?P<number>{'|'.join(_CARDINALS)})?[*_`]{{0,3}}[ \t]?"
    r"(?:[:=]|->|=>|[→–—]|-(?=[ \t]))[*_`]{0,3}",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"[*_`]{0,3}[(\[]?[*_`]{0,3}第?(?P<mark>[^\W\d_条條項个個点]{1,4})[条條項个個点]?[*_`]{0,3}"
    r"(?P<end>[.)\]:,]{1,2}|[ \t][-–—](?=[ \t]))[*_`]{0,3}"
)
_BULLET = re.compile(
    rf"[ \t]*(?P<heading>#{{1,6}}[ \t]+)?(?P<bullet>{_BULLETS})?[ \t]*(?:\[[ xX✓]\][ \t]+)?"
)
_ROMAN = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
# The letters and signs that number lists, in order.
_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    tuple(f"{ten}{one}" for ten in ("", "x") for one in _ROMAN if ten or one),
    tuple(f"{ten}{one}" for ten in ("", "十") for one in ("", *"一二三四五六七八九") if ten or one),
    "甲乙丙丁戊己庚辛壬癸",
    "абвгдежзиклмнопрст",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "가나다라마바사아자차카타파하",
    "アイウエオカキクケコサシスセソ",
    "イロハニホヘトチリヌ",
    "أبجدهوزحطي",
    "ابجدهوزحطي",
    "कखगघङचछजझञ",
)
_MARKS = frozenset(mark for alphabet in _ALPHABETS for mark in alphabet)


class ItemStart(NamedTuple):
    """How an item begins.

    ``mark`` is a letter or sign whose number depends on the others in its list. ``is_bare``: a number
    with nothing but a blank around it, which may as well be a count. ``end`` is where the item's text
    begins. ``is_loose``: only a blank parts the number from that text, which may be a sentence.
    ``is_scale``: the number may be a grade that the text explains (``2 = support``).
    """

    bullet: str
    number: int | None
    mark: str
    is_bare: bool
    end: int
    is_loose: bool = False
    is_scale: bool = False


def item_start(source: str) -> ItemStart | None:
    """The bullet and number at the beginning of a line; None if there is neither."""
    lead = _BULLET.match(source)
    assert lead is not None
    bullet, at = lead["bullet"] or "", lead.end()
    numbered = _NUMBER.match(source, at)
    start = _numbered(source, numbered, lead) if numbered else None
    if start is not None:
        return start
    ordinal = _ORDINAL.match(source, at)
    if ordinal is not None:
        number = _ORDINALS.index(ordinal["ordinal"].lower()) + 1
        is_bare = ordinal["noun"] is None
        return ItemStart(bullet, number, "", is_bare, ordinal.end(), is_loose=is_bare)
    named = _NAMED.match(source, at)
    if named is not None and (named["number"] or named["letter"]):
        return _named(bullet, named)
    letter = _LETTER.match(source, at)
    if letter is not None and letter["mark"].lower() in _MARKS and _is_lettered(letter):
        return ItemStart(bullet, None, letter["mark"].lower(), False, letter.end())
    return ItemStart(bullet, None, "", False, at) if bullet else None


def _named(bullet: str, named: re.Match[str]) -> ItemStart:
    """``Nugget two:`` by its number, ``Nugget B:`` by its letter."""
    if named["letter"]:
        return ItemStart(bullet, None, named["letter"].lower(), False, named.end())
    number, is_bare = _CARDINALS.index(named["number"].lower()) + 1, named["noun"] is None
    return ItemStart(bullet, number, "", is_bare, named.end(), is_loose=is_bare)


def _numbered(source: str, number: re.Match[str], lead: re.Match[str]) -> ItemStart | None:
    """The item's start with this number; None if the number belongs to the text."""
    bullet, index, end = lead["bullet"] or "", int(number["index"]), number.end()
    is_named = bool(number["word"] or number["hash"] or lead["heading"])
    if number["end"] == "," and not is_named:
        return None  # a row of cells
    if number["end"]:
        is_scale = number["end"] == "=" and not is_named
        return ItemStart(bullet, index, "", False, end, is_scale=is_scale)
    if source[end : end + 1].strip() and not source[end - 1].isspace():  # ``3D``
        return None
    if source[end - 1 : end + 1].strip(" ")[:1] == "\t" and not is_named:
        return None  # a row of cells
    is_last = number["hash"] is not None or (is_named and end >= len(source.rstrip()))
    return ItemStart(bullet, index, "", not is_named, end, is_loose=not is_last)


def _is_lettered(letter: re.Match[str]) -> bool:
    """Only signs outside ASCII may have a comma after them (``一、``)."""
    return "," not in letter["end"] or not letter["mark"].isascii()


# Numbers in keys, cells and other texts

_KEY_NUMBER = re.compile(
    r"\W{0,4}(?:(?:nugget|item|claim|fact|statement|label|answer|number|no|nr|id"
    r"|[nkcfq])[\s_#.:°º-]{0,3})?"
    r"#?(\d{1,4})\W{0,4}",
    re.IGNORECASE,
)


def index_of(value: object) -> int | None:
    """The number that a key or cell gives: ``3``, ``"3"``, ``"Nugget 3"``, ``nugget_3``, ``#3``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10_000 else None
    if not isinstance(value, str) or len(value) > 40:
        return None
    match = _KEY_NUMBER.fullmatch(value)
    return int(match[1]) if match and not value.lstrip().startswith("-") else None


def indices_of(cell: str) -> list[int]:
    """The numbers in a cell that holds nothing else: ``1, 3``; empty if it holds other things."""
    numbers = (
        [index_of(part) for part in re.split(r"[,;&]|\band\b", cell)] if len(cell) < 400 else []
    )
    return [] if None in numbers else [number for number in numbers if number is not None]


def cell_number(cell: str) -> int | None:
    """The number that a cell is, or begins with: ``2``, ``Nugget 2``, ``2. Bees collect nectar``."""
    number = index_of(cell)
    if number is None and cell:
        start = item_start(cell)
        number = start.number if start is not None and not start.is_loose else None
    return number


_NUMBER_INSIDE = re.compile(
    r"\W{0,4}(?P<words>(?:[^\W\d_]+\W{0,3}){0,2})\d{1,3}(?!\d|\.\d|[ ]?%)(?=\W|\Z|[条條項])"
)
_NUMBERS_ONLY = re.compile(
    rf"\W*(?:(?:{_WORDS}|{_SHORT})\W{{0,3}})?\d{{1,4}}(?:\W{{0,3}}(?:and|und|et|y|e|и|和|と|to|bis)?\W{{0,3}}"
    rf"(?:(?:{_WORDS})\W{{0,3}})?\d{{1,4}})*\W*",
    re.IGNORECASE,
)


def is_numbers(text: str) -> bool:
    """True if a text is nothing but the numbers of nuggets."""
    return len(text) < 200 and _NUMBERS_ONLY.fullmatch(text) is not None


_LOCATIONS = names(
    "line lines sentence sentences paragraph para section page p quote passage see in at satz "
    "zeile absatz "
    "seite ligne phrase paragraphe línea frase párrafo linha parágrafo riga строка предложение абзац"
)


def begins_with_number(text: str) -> bool:
    """True if one of the first three words of a text is a number, which may be that of a nugget.

    False if a word says that it numbers something else (``line 3``), and for percentages.
    """
    number = _NUMBER_INSIDE.match(text)
    if number is None:
        return False
    before = re.findall(r"[^\W\d_]+", number["words"].lower())
    return not before or before[-1] not in _LOCATIONS


@lru_cache(maxsize=1024)
def _numbers(marks: tuple[str, ...]) -> tuple[int, ...] | None:
    orders = [
        tuple(list(alphabet).index(mark) + 1 for mark in marks)
        for alphabet in _ALPHABETS
        if set(marks) <= set(alphabet)
    ]
    from_first = [order for order in orders if 1 in order]
    best = set(from_first or orders)
    return best.pop() if len(best) == 1 else None


def numbers_of(marks: Sequence[str]) -> tuple[int, ...] | None:
    """The numbers that the letters of one list mean; None if no single alphabet has them all."""
    return _numbers(tuple(marks))


# The text of a nugget

_NUGGET_FIELD = re.compile(
    r"\W{0,3}(?:nugget|claim|fact|statement|text|aussage|fait|hecho|fato|fatto)\s?:\s", re.I
)
# What a line may be about, other than a nugget: a reading of it, a judge, a run, the labels themselves.
_ABOUT_THE_ANSWER = re.compile(
    r"\b(?:labels?|answers?|verdicts?|decisions?|initial\w*|draft|strict\w*|lenient\w*|options?|judges?"
    r"|annotators?|readings?|reviewers?|raters?|says?|said|against|instead|wrong|correct\w*|previous\w*"
    r"|alternative\w*|passage|nuggets?|example|e\.g|either|format|assistant)\b",
    re.IGNORECASE,
)
# The same, if the line says little else: ``second pass``.
_ABOUT_A_RUN = re.compile(
    r"\b(?:final|first|second|models?|humans?|runs?|views?|version|case|attempt|pass|old|new|before|after|user"
    r"|system|yes|no|high|low|task|mapping)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\W*(?:if|unless|maybe|perhaps|possibl[ey]|otherwise|not|when|wenn|falls|si|если|如果|もし)\b"
    r"|.*\b(?:could|might|would|either)\b"
    r"|\W*(?:[^\W\d_]+\s){0,2}(?:stated?|mentioned|captured|contained|absent|covered|found|supported)\W*\Z"
    r"|.*\b(?:stated?|mentioned|captured|contained|absent|covered|found|supported)\b[^.]{0,20}"
    r"\b(?:in|by|from)\s+the\s+(?:passage|text|document)",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"(?::|→|->|=>|\bis)\s*[*`\"]{0,3}(?:partial_|not_)?support\b", re.IGNORECASE
)
_NUMBERED_KEY = re.compile(r"\W{0,4}(?:[^\W\d_]+\W{1,3}){1,2}\d{1,3}\s?[:.)–—]")
_SHORT_KEY = 4
_LONG_KEY = 6  # words: a key this long is a sentence
_WITHOUT_BLANKS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


def is_nugget(key: str, *, is_pointed: bool) -> bool:
    """True if the text before a label may be that of a nugget, and so what the label is about.

    ``is_pointed``: an arrow leads from the text to the label. False if the text is about the answer
    (``On a strict reading``), a condition or a definition, and if it is a number or too short.
    """
    text = key.strip()
    if (text[:1] in _QUOTES and text[-1:] in _QUOTES) or _NUGGET_FIELD.match(text):
        return True
    if _CONDITION.match(text) or _LABELLED.search(text) or _NUMBERED_KEY.match(text):
        return False
    size, signs = len(text.split()), len(_WITHOUT_BLANKS.findall(text))
    if (size < _LONG_KEY and _ABOUT_THE_ANSWER.search(text)) or (
        size < _SHORT_KEY and _ABOUT_A_RUN.search(text)
    ):
        return False
    if is_pointed:
        return (size > 1 or signs > 1) and not is_numbers(text)
    if begins_with_number(text) and size < _LONG_KEY:
        return False
    return size > 2 or signs > 3


_QUOTES = frozenset("\"'“”„‟«»「」『』‘’*")
