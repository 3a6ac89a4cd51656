"""Choices that speak of other choices: ``None of the above``, ``Both A and C``, ``A and B only``.

Such a choice means something else, or nothing, once the choices stand in another order. The whole text
must say so: ``Vitamins A and B12`` and ``Band A`` are about the world.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from lm_eval.formats.items import letter

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
LONGEST = 120
"""Characters of the longest text that is looked at: what speaks of other choices is short."""
_EDGES = " \t\n.!;:,\"'“”‘’()[]。，"


def names_others(choices: Sequence[str]) -> bool:
    """Whether any of the choices speaks of the others, by place, by label or by their texts."""
    texts = [_plain(choice) for choice in choices if len(choice) <= LONGEST]
    pattern = _pattern(len(choices))
    known = set(texts)
    return any(pattern.fullmatch(text) or _joins(text, known) for text in texts)


def _plain(text: str) -> str:
    return " ".join(text.strip(_EDGES).casefold().split())


def _joins(text: str, known: set[str]) -> bool:
    """``both cats and dogs`` beside the choices ``cats`` and ``dogs``."""
    found = re.fullmatch(r"(?:both|either|neither) (.+?),? (?:and|or|nor|&) (.+)", text)
    return found is not None and {found[1], found[2]} <= known


@lru_cache(maxsize=64)
def _pattern(count: int) -> re.Pattern[str]:
    """What speaks of others among ``count`` choices, whose letters it knows."""
    letters = "|".join(letter(place).casefold() for place in range(count))
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
