"""The orders in which a doc's choices are shown, and the item under each.

In: how many choices there are and a ``Permutation``, the value of ``--permute``. Out: orders, and items
with choices and gold moved. An order holds, for each position in the prompt, the index in the data of
the choice shown there; the first of several is the order of the data. Choices that name other choices
(``None of the above``, ``Both A and C``) are recognised here, because they cannot move.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal

from lm_eval.errors import FormatError, UsageError, did_you_mean
from lm_eval.formats.items import letter

Order = tuple[int, ...]
Mode = Literal["cyclic", "full", "pride"]

MODES = ("none", "cyclic", "full", "pride")
MAX_ORDERS = 24
"""The most orders of one doc, as many as four choices have."""
SHARE = 0.05
"""The share of docs from which ``pride`` learns how labels are preferred."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """In which orders docs are asked."""

    mode: Mode
    share: float | None = None
    """With ``pride``: the share of docs that are asked in all cyclic orders."""

    def __str__(self) -> str:
        return self.mode if self.share is None else f"{self.mode}={self.share:g}"


def parse_permutation(text: str | None) -> Permutation | None:
    """``cyclic``, ``full``, ``pride`` or ``pride=0.1``; None for ``none``."""
    if text is None or text == "none":
        return None
    name, equals, share = text.partition("=")
    if name == "pride":
        return Permutation("pride", _share(share) if equals else SHARE)
    if name in ("cyclic", "full") and not equals:
        return Permutation("cyclic" if name == "cyclic" else "full")
    problem = (
        "takes no share; only pride does" if name in MODES else "is not a way to order choices"
    )
    hint = "" if name in MODES else did_you_mean(name, MODES)
    raise UsageError(
        f"--permute {text} {problem}.{hint} Give none, cyclic (as many orders as choices), full (all "
        "orders), or pride (all cyclic orders for 5 % of the docs; pride=0.1 for another share)."
    )


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(
            f"--permute pride={text} is not a share of the docs. Give a number above 0 and up to 1, "
            "such as pride=0.1."
        )
    return share


def orders(count: int, mode: Mode) -> list[Order]:
    """The orders of ``count`` choices, that of the data first.

    Every choice is shown at every position equally often.
    """
    if mode != "full":
        return [tuple((index + shift) % count for index in range(count)) for shift in range(count)]
    if math.factorial(count) > MAX_ORDERS:
        raise FormatError(
            f"{count} choices have {math.factorial(count):,} orders, more than the {MAX_ORDERS} that "
            f"--permute full asks of one doc. Use --permute cyclic, which asks {count}."
        )
    return list(permutations(range(count)))


_QUANTITY = (
    r"(?:none|all|any|some|both|neither|either|each|every one|most|one|two|three|several|"
    r"(?:more|less|fewer) than (?:one|two|three)|at least (?:one|two)|only (?:one|two)|"
    r"exactly (?:one|two|three)|(?:an? |some |any )?(?:combination|mixture))"
)
_OTHERS = (
    r"(?:(?:the )?(?:above|preceding|previous|foregoing|aforementioned|following|others|rest)|"
    r"(?:these|those)(?: (?:two|three|four) \w+)?|them|the (?:two|three|four|first two|last two))"
)
_NOUNS = (
    r"(?:answers?|answer choices|choices?|options?|alternatives?|responses?|statements?|"
    r"possibilities|reasons|factors|items|ones)"
)
_VERDICT = (
    r"(?: (?:is|are|was|were|can be|could be|may be) (?:all |both |not )?"
    r"(?:correct|incorrect|right|wrong|true|false|possible|valid|acceptable))"
)
_OF_OTHERS = (
    rf"{_QUANTITY}(?: of)? {_OTHERS}(?: (?:mentioned|listed|given|stated|above))?(?: {_NOUNS})?"
    rf"(?: (?:above|given|listed|mentioned|provided))?"
)
_CHOICES = r"(?:answers?|answer choices|choices?|options?|alternatives?)"
_OF_CHOICES = (
    rf"(?:(?:none|all|both|neither|any)(?: of)?(?: the)?|{_QUANTITY} of the) (?:other )?{_CHOICES}"
    r"(?: (?:above|given|listed|provided))?"
)
_BARE = r"(?:both|neither|either)(?: (?:one|are|is))?(?: (?:correct|right|true|false|wrong))?"
_AND = r"(?:,(?: (?:and|or|&))? ?| (?:and|or|nor|&|\+) |/)"
_ELSEWHERE = (
    r"(?:keine|alle|beide)[rs]? (?:der |die )?(?:oben )?(?:genannten|obigen|oben stehenden)"
    r"(?: antworten| aussagen)?",
    r"(?:aucune|toutes)(?: de)?(?: ces| les)? (?:réponses|propositions)"
    r"(?: ci-dessus| précédentes| proposées)?",
    r"(?:aucune?|tou(?:te)?s) (?:de )?(?:ce(?:lle|ux)?s?[ -])?ci-dessus",
    r"(?:ningun[ao]|tod[ao]s)(?: de)? (?:l[ao]s )?(?:respuestas |opciones )?anteriores",
    r"(?:nenhuma?|tod[ao]s)(?: d?[ao]s)? (?:respostas |opções |alternativas )?"
    r"(?:anteriores|acima)",
    r"(?:nessun[ao]|tutt[eai])(?: dell[ea]| le| i)? (?:risposte |opzioni )?(?:precedenti|sopra)",
    r"(?:以上|上述)(?:皆|都|均|全部)?(?:选项|答案|各项)?(?:皆|都|均|全)?(?:不)?(?:是|对|正确|非|错)(?:确)?",
    r"(?:上記|以上)の(?:すべて|全て|いずれでもない|どれでもない)",
)
MAX_LENGTH = 120
"""Longer texts are not looked at: a choice that speaks of others is short."""
_EDGES = " \t\n.!;:,\"'“”‘’()[]。，"


def names_others(choices: Sequence[str]) -> bool:
    """Whether any of the choices speaks of the others, by position, by label or by their texts."""
    texts = [_plain(choice) for choice in choices if len(choice) <= MAX_LENGTH]
    pattern = _pattern(len(choices))
    known = set(texts)
    return any(pattern.fullmatch(text) or _joins(text, known) for text in texts)


def _plain(text: str) -> str:
    return " ".join(text.strip(_EDGES).casefold().split())


def _joins(text: str, known: set[str]) -> bool:
    """``both cats and dogs`` beside the choices ``cats`` and ``dogs``."""
    match = re.fullmatch(r"(?:both|either|neither) (.+?),? (?:and|or|nor|&) (.+)", text)
    return match is not None and {match[1], match[2]} <= known


@lru_cache(maxsize=64)
def _pattern(count: int) -> re.Pattern[str]:
    """The pattern of a text that speaks of others among ``count`` choices, also by letter."""
    letters = "|".join(letter(index).casefold() for index in range(count))
    label = rf"(?:(?:the )?(?:{_CHOICES}|letters?) )?[(\[]?(?:{letters})[)\].]?"
    number = r"[(#]?\d\d?\)?"
    labels = rf"{label}(?:(?:{_AND}| ){label})*{_AND}{label}(?:,? but not {label})?"
    numbers = rf"{_CHOICES} {number}(?:{_AND}{number})+"
    each = r"(?:both|either|neither|(?:all|none|any|each|one) of)"
    said = (
        _OF_OTHERS,
        _OF_CHOICES,
        _BARE,
        rf"(?:(?:only|just) )?(?:{each} )?(?:{labels}|{numbers})",
        rf"{label},? but not {label}",
        rf"(?:all|any|everything|each)(?: of {_OTHERS})? (?:except|but|save)(?: for)? {label}",
        rf"(?:the )?same as (?:in )?{label}",
        *_ELSEWHERE,
    )
    return re.compile(rf"(?:{'|'.join(said)})(?:,? (?:only|alone|together))?{_VERDICT}?")
