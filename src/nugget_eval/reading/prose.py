"""Labels in sentences: the text is cut into pieces, one per nugget, and each goes to the choice reader.

Only plain claims are read: besides the nugget, its label and a remark, a sentence may hold nothing but
words that assign a label. *I doubt that both nuggets are supported* holds another, so it claims nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import zip_longest

from lm_eval.formats.readers import choice
from nugget_eval.reading.answers import LabelList, place
from nugget_eval.reading.outcome import LabelReading
from nugget_eval.reading.pieces import Slot, is_reserved
from nugget_eval.reading.spellings import LABELS, SPELLING, Label, spelled
from nugget_eval.reading.words import alternatives, ordinals, pattern

_LETTERS = ("A", "B", "C")
_SENTENCE = re.compile(r"(?<=[.!?;。])\s+|\n+|[;。](?=\S)")
_CONCLUSION = re.compile(
    r"\W*(?:since|because|while|given|as)\b[^,]*,|.*\b(?:so|therefore|thus|hence|daher|also|donc|portanto|quindi|因此|所以)\b,?\s"
)
_NO_CLAIM = re.compile(r"\W*no\W*|\W*(?:please|answer|respond|reply|use)\b.*")
_OBJECT = re.compile(r"\s+(?:the|this|that|these|an?|it|its|both|all|each)\b")  # "I support this"
_SAID = re.compile(r"\W*(?:says?|said|according|claims|states)\b")
_LONGEST = 2000


@cache
def _plain() -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<![a-zà-ÿа-я])(?:{alternatives('glue')}|{alternatives('all')})(?![a-zà-ÿа-я])|[^\w]|_)*"
    )


@lru_cache(maxsize=4096)
def read_sentence(text: str) -> Label | None:
    """The label that sentences about one nugget settle on, or None."""
    claims = [(each, _claim(each)) for each in _sentences(text)]
    given = [(each, label) for each, label in claims if label]
    if not given:
        return None
    last, label = given[-1]
    rest = " ".join(each for each, claimed in claims if not claimed)
    if any("_" in match[0] and spelled(match) != label for match in SPELLING.finditer(rest)):
        return None
    is_one = len({label for _, label in given}) == 1
    low = last.lower()
    return (
        label if is_one or pattern("revision").search(low) or pattern("final").search(low) else None
    )


def _sentences(text: str) -> list[str]:
    kept = _SENTENCE.split(text)
    return [each for each in kept if SPELLING.search(each) and len(each) < _LONGEST]


def _claim(sentence: str, *, is_strict: bool = False) -> Label | None:
    """The label of a sentence that is a plain claim; a strict one holds no remark.

    Every spelling becomes the letter of its label, so the choice reader sees three options.
    """
    found = list(SPELLING.finditer(sentence))
    first, low = found[0], sentence.lower()
    lead, after = low[: first.start()], low[first.end() :]
    before = re.sub(r"\([^()]*\)", "", pattern("revision").sub("", _CONCLUSION.sub("", lead)))
    if (
        len({spelled(match) for match in found}) > 1
        or spelled(first) is None
        or is_reserved(first, after)
        or _NO_CLAIM.fullmatch(lead)
        or (low[: first.end()].endswith("not support") and pattern("verdict").search(before))
        or (first[0].lower() == "support" and _OBJECT.match(after))
        or _SAID.match(after)
    ):
        return None
    rest = after if is_strict else _remark().split(after)[0]
    if not _plain().fullmatch(before) or not _plain().fullmatch(rest):
        return None
    reading = choice(
        f"The answer is {SPELLING.sub(_letter, sentence[first.start() :])}", labels=_LETTERS
    )
    return LABELS[reading.value] if isinstance(reading.value, int) else None


@cache
def _remark() -> re.Pattern[str]:
    return re.compile(rf"[,(—–:]|\.\s|(?:{pattern('because').pattern})")


def _letter(match: re.Match[str]) -> str:
    return f"({_LETTERS[LABELS.index(spelled(match) or LABELS[0])]})"


# Which nuggets a sentence is about


@cache
def _reference() -> re.Pattern[str]:
    noun = rf"(?:{alternatives('nugget')})"
    link = r"\s?(?:,\s?and|,|and|und|et|y|e|и|&|和|と|및|و|और|to|bis|à|through|–|-|~)\s?"
    words = "|".join(f"(?P<o{n}>{each})" for n, each in ordinals().items())
    sizes = "|".join(_SIZES)
    return re.compile(
        rf"(?<![a-zà-ÿа-я0-9_])(?:{noun}[\s#]{{0,2}}"
        rf"(?P<numbers>\d{{1,3}}(?:{link}(?:(?<!-){noun}[\s#]{{0,2}})?#?\d{{1,3}})*)"
        rf"|(?P<two>{alternatives('two')})|(?P<rest>{alternatives('rest')})(?:\s(?:{sizes}))?"
        rf"|(?:(?P<none>{alternatives('none')})|(?P<all>{alternatives('all')}))"
        rf"(?:\s(?:of\s)?(?:the\s)?(?P<size>{sizes}|\d{{1,3}})(?![a-zà-ÿа-я0-9_]))?"
        rf"|(?:{words}))(?![a-zà-ÿа-я0-9_])"
    )


_SIZES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_SIZES |= {"drei": 3, "trois": 3, "tres": 3, "три": 3}
_RANGE = re.compile(r"(\d+)(?:\s?(?:(?:to|bis|à|through)\s|[–~-])\s?\D{0,10}?(\d+))?")
_PLACE = re.compile(r"\s(?:sentence|line|paragraph|passage|part|half)\b")


def _nuggets(match: re.Match[str], count: int, given: set[int]) -> list[int]:
    """The numbers of the nuggets that a reference means; none if it cannot be told."""
    every = range(1, count + 1)
    if match["numbers"]:
        ranges = _RANGE.findall(match["numbers"])
        return [n for a, b in ranges for n in range(int(a), min(int(b or a), count + 1) + 1)]
    if match["two"]:
        return [1, 2]
    if match["rest"]:
        return [n for n in every if n not in given] if given else []
    if match["none"] or match["all"]:
        size = match["size"]
        is_pair = pattern("pair").match(match[0]) is not None
        meant = (_SIZES.get(size) or int(size)) if size else 2 if is_pair else count
        return list(every) if meant == count else []
    return [next(n for n in ordinals() if match[f"o{n}"])]


def _pieces(sentence: str, refs: list[re.Match[str]]) -> list[str]:
    """A sentence cut into the texts that speak of each reference."""
    label = SPELLING.search(sentence)
    if label is None or not refs:
        return []
    if label.start() < refs[0].start():
        ends = [0, *(ref.end() for ref in refs)]
        pieces = [sentence[ends[i] : ref.start()] for i, ref in enumerate(refs)]
        pieces[-1] += sentence[refs[-1].end() :]
        return pieces
    starts = [*(ref.start() for ref in refs[1:]), len(sentence)]
    pieces = [sentence[ref.end() : end] for ref, end in zip(refs, starts, strict=True)]
    pieces[0] = sentence[: refs[0].start()] + pieces[0]
    return pieces


def _references(low: str) -> list[re.Match[str]]:
    """The references in a sentence; of two words for all nuggets before one label, the second."""
    refs = [ref for ref in _reference().finditer(low) if not _PLACE.match(low, ref.end())]
    return [
        ref
        for ref, after in zip_longest(refs, refs[1:])
        if not (after and ref["all"] and after["all"])
        or SPELLING.search(low[ref.end() : after.start()])
    ]


def _slots(text: str, count: int) -> Iterator[Slot]:
    given: set[int] = set()
    for sentence in _sentences(text):
        low = sentence.lower()
        refs = _references(low)
        is_first = bool(refs) and SPELLING.search(low[: refs[0].start()]) is not None
        labels = [
            _claim(each, is_strict=is_first) if SPELLING.search(each) else None
            for each in _pieces(sentence, refs)
        ]
        if None in labels:
            continue
        for ref, label in zip(refs, labels, strict=bool(labels)):
            numbers = _nuggets(ref, count, given)
            given |= set(numbers)
            if not ref["none"]:
                yield from (Slot(label, n) for n in numbers)
            elif label == LABELS[0]:  # "neither is supported"
                yield from (Slot(LABELS[2], n) for n in numbers)


def read_prose(text: str, count: int) -> LabelReading | None:
    """The labels that sentences give to ``count`` nuggets; None if they give none."""
    slots: tuple[Slot, ...] = ()
    if count > 1:
        slots = tuple(_slots(text, count))
    elif not any(_nuggets(ref, 1, {1}) != [1] for ref in _reference().finditer(text.lower())):
        label = read_sentence(text)
        slots = (Slot(label),) if label else ()
    if not slots:
        return None
    return place(LabelList("prose", "prose", (0, len(text)), slots), count)
