"""Labels in sentences: the text is cut into pieces, one per nugget, and each goes to the choice reader.

Only plain claims are read: besides the nugget, its label and a remark, a sentence may hold nothing but
words that assign a label. *I doubt that both nuggets are supported* holds another, so it claims nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from lm_eval.formats.readers import choice
from nugget_eval.reading.answers import LabelList, place, reading_of
from nugget_eval.reading.outcome import LabelReading
from nugget_eval.reading.pieces import CARDINALS, Slot, contradicts_mark, is_remark, is_reserved
from nugget_eval.reading.spellings import LABELS, SPELLING, Label, spelled
from nugget_eval.reading.words import alternatives, ordinals, pattern

_LETTERS = ("A", "B", "C")
_SENTENCE = re.compile(r"(?<=[.!?;。])\s+|\n+|[;。](?=\S)")
_QUOTED = re.compile(r"\"[^\"\n]*\s[^\"\n]*\"")
_CONCLUSION = re.compile(
    r"\W*(?:since|because|while|given|as)\b[^,]*,|.*\b(?:so|therefore|thus|hence|daher|also|donc|portanto|quindi|因此|所以)\b,?\s"
)
_LONGEST = 2000


@cache
def _plain() -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<![a-zà-ÿа-я])(?:{alternatives('glue')}|{alternatives('all')})(?![a-zà-ÿа-я])|[^\w]|_)*"
    )


@lru_cache(maxsize=4096)
def read_sentence(text: str) -> Label | None:
    """The label that sentences about one nugget settle on, or None.

    Every spelling becomes the letter of its label, so the choice reader sees three options.
    """
    sentences = _sentences(text)
    given = [(each, label) for each in sentences if (label := _claim(each))]
    rest = " ".join(each for each in sentences if not _claim(each))
    if given and any("_" in m[0] and spelled(m) != given[-1][1] for m in SPELLING.finditer(rest)):
        return None
    if len({label for _, label in given}) > 1:
        last = given[-1][0].lower()
        is_last = pattern("revision").search(last) or pattern("final").search(last)
        return given[-1][1] if is_last else None
    return given[-1][1] if given else None


def _sentences(text: str) -> list[str]:
    kept = _SENTENCE.split(_QUOTED.sub(" ", text))
    return [each for each in kept if SPELLING.search(each) and len(each) < _LONGEST]


def _claim(sentence: str, *, is_strict: bool = False) -> Label | None:
    """The label of a sentence that is a plain claim; a strict one holds no remark."""
    found = list(SPELLING.finditer(sentence))
    labels = {spelled(match) for match in found}
    first = found[0]
    lead, after = sentence[: first.start()].lower(), sentence[first.end() :]
    before = re.sub(r"\([^()]*\)", "", pattern("revision").sub("", _CONCLUSION.sub("", lead)))
    is_denied = re.search(r"\bnot\s+(?:\w+\s)?\W*\Z", before) is not None
    is_two = len(labels) > 1
    is_corrected = is_denied or pattern("revision").search(after.lower()) is not None
    word = first[0].lower()
    if (
        None in labels
        or (is_two and (len(found) > 2 or not is_corrected))
        or (is_denied and not is_two)
        or "?" in after
        or is_reserved(first, after)
        or _NO_CLAIM.fullmatch(lead)
        or (word.endswith("not support") and pattern("verdict").search(before))
        or (word == "support" and _OBJECT.match(after))
        or _SAID.match(after)
        or contradicts_mark(sentence, found[-1])
    ):
        return None
    rest = after.lower()
    if not is_strict:
        rest = "" if is_two or is_remark(after) else _remark().split(rest)[0]
    before = re.sub(r"\bnot\s*\Z", "", before) if is_denied else before
    if not _plain().fullmatch(before) or not _plain().fullmatch(rest):
        return None
    asked = SPELLING.sub(_letter, sentence[first.start() :])
    reading = choice(f"The answer is {'not ' if is_denied else ''}{asked}", labels=_LETTERS)
    return LABELS[reading.value] if isinstance(reading.value, int) else None


@cache
def _remark() -> re.Pattern[str]:
    return re.compile(rf"[,(—–:]|\.\s|(?:{pattern('because').pattern})")


_NO_CLAIM = re.compile(r"\W*no\W*|\W*(?:please|answer|respond|reply|use)\b.*")
_OBJECT = re.compile(r"\s+(?:the|this|that|these|an?|it|its|both|all|each)\b")
_SAID = re.compile(r"\W*(?:says?|said|according|claims|states)\b")


def _letter(match: re.Match[str]) -> str:
    return f"({_LETTERS[LABELS.index(spelled(match) or LABELS[0])]})"


# Which nuggets a sentence is about


@cache
def _reference() -> re.Pattern[str]:
    noun = rf"(?:{alternatives('nugget')})"
    link = r"\s?(?:,\s?and|,|and|und|et|y|e|и|&|和|と|및|و|और|to|bis|à|through|–|-|~)\s?"
    words = "|".join(f"(?P<o{n}>{each})" for n, each in ordinals().items())
    sizes = "|".join(CARDINALS)
    return re.compile(
        rf"(?<![a-zà-ÿа-я0-9_])(?:(?:{noun}|el|le|il|o)[\s#]{{0,2}}"
        rf"(?P<numbers>\d{{1,3}}(?:{link}(?:(?<!-){noun}[\s#]{{0,2}})?#?\d{{1,3}})*)"
        rf"|(?P<two>{alternatives('two')})|(?P<last>{alternatives('last')})"
        rf"|(?P<rest>{alternatives('rest')})(?:\s(?:{sizes}))?"
        rf"|(?:(?P<none>{alternatives('none')})|(?P<all>{alternatives('all')}))"
        rf"(?:\s(?:of\s)?(?:the\s)?(?P<size>{'|'.join(_SIZES)}|\d{{1,3}})(?![a-zà-ÿа-я0-9_]))?"
        rf"|(?:{words}))(?![a-zà-ÿа-я0-9_])"
    )


_SIZES = {**CARDINALS, **dict.fromkeys(("drei", "trois", "tres", "три"), 3)}
_RANGE = re.compile(r"(\d+)(?:\s?(?:(?:to|bis|à|through)\s|[–~-])\s?\D{0,10}?(\d+))?")
_NOUN = re.compile(r"^\s*(?:one|ones|nuggets?|of them)\b", re.IGNORECASE)
_PLACE = re.compile(r"\s(?:sentence|line|paragraph|passage|part|half)\b")
_EXCEPT = re.compile(r"\b(?:except|but|außer|sauf|excepto)\s*(?:for\s)?(?:the\s)?\Z")


def _nuggets(match: re.Match[str], count: int, given: set[int]) -> list[int]:
    """The numbers of the nuggets that a reference means; none if it cannot be told."""
    if match["numbers"]:
        numbers: list[int] = []
        for first, last in _RANGE.findall(match["numbers"]):
            numbers += range(int(first), min(int(last or first), count + 1) + 1)
        return numbers
    if match["two"]:
        return [1, 2]
    if match["last"]:
        return [count]
    if match["rest"]:
        return [n for n in range(1, count + 1) if n not in given] if given else []
    if match["none"] or match["all"]:
        size = match["size"]
        is_pair = pattern("pair").match(match[0]) is not None
        meant = (_SIZES.get(size) or int(size)) if size else 2 if is_pair else count
        return list(range(1, count + 1)) if meant == count else []
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
    pieces[0] = _CONCLUSION.sub("", sentence[: refs[0].start()]) + pieces[0]
    return pieces


def _references(low: str) -> list[re.Match[str]]:
    """The references in a sentence; of two words for all nuggets before one label, the second."""
    refs = [ref for ref in _reference().finditer(low) if not _PLACE.match(low, ref.end())]
    kept = []
    for i, ref in enumerate(refs):
        after = refs[i + 1] if i + 1 < len(refs) else None
        between = low[ref.end() : after.start()] if after else ""
        is_doubled = after and after["all"] and (ref["all"] or (ref["none"] and "," in between))
        if not is_doubled or SPELLING.search(between):
            kept.append(ref)
    return kept


def _slots(text: str, count: int) -> Iterator[Slot]:
    given: set[int] = set()
    for sentence in _sentences(text):
        low = sentence.lower()
        refs = _references(low)
        is_first = bool(refs) and SPELLING.search(low[: refs[0].start()]) is not None
        pieces = [_NOUN.sub("", piece) for piece in _pieces(sentence, refs)]
        labels = [
            _claim(each, is_strict=is_first) if SPELLING.search(each) else None for each in pieces
        ]
        if not labels or None in labels or low.rstrip().endswith("?"):
            continue
        excepted: set[int] = set()
        placed: list[tuple[list[int], Label]] = []
        for ref, label in zip(refs, labels, strict=True):
            numbers = _nuggets(ref, count, given)
            excepted |= set(numbers) if _EXCEPT.search(low[: ref.start()]) else set()
            if label and ref["none"]:
                placed += [(numbers, LABELS[2])] if label == LABELS[0] else []
            elif label:
                placed.append((numbers, label))
            given |= set(numbers)
        for numbers, label in placed:
            is_all = len(numbers) == count > 1
            yield from (Slot(label, n) for n in numbers if not (is_all and n in excepted))


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
    return reading_of(place(LabelList("prose", "prose", (0, len(text)), slots), count))
