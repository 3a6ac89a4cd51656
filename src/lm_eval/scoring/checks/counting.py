"""Sentences and words of a reply, as IFEval counts them.

IFEval counts sentences with the Punkt tokenizer and words with that of the Penn Treebank, both of nltk.
These are rules of our own that count alike without it: a sentence ends at ``.``, ``?`` or ``!`` before a
blank, unless the period belongs to an abbreviation, an initial or a list of initials.
"""

from __future__ import annotations

import re

_SENTENCE_END = re.compile(r"(?P<word>\S*?)(?P<mark>[.?!]+)[\"'”’)\]*_]*(?=\s)")
_ABBREVIATIONS = frozenset(
    (
        *(
            "mr",
            "mrs",
            "ms",
            "dr",
            "prof",
            "rev",
            "hon",
            "sr",
            "jr",
            "st",
            "gen",
            "col",
            "lt",
            "sgt",
        ),
        *(
            "capt",
            "cmdr",
            "maj",
            "gov",
            "sen",
            "rep",
            "pres",
            "inc",
            "corp",
            "co",
            "ltd",
            "bros",
            "vs",
        ),
        *(
            "jan",
            "feb",
            "aug",
            "sept",
            "oct",
            "nov",
            "dec",
            "u.s",
            "u.k",
            "u.n",
            "d.c",
            "a.m",
            "p.m",
        ),
        *(
            "e.g",
            "i.e",
            "fig",
            "ph.d",
            "vol",
            "mt",
            "ft",
            "ave",
            "blvd",
            "dept",
            "est",
            "approx",
        ),
    )
)
_INITIAL = re.compile(r"[A-Z]")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_NEXT_WORD = re.compile(r"\s*[\"'“‘(\[*_]*(\S)")


def count_sentences(text: str) -> int:
    """The number of sentences; what comes after the last end counts as one."""
    stripped = text.strip()
    if not stripped:
        return 0
    ends = 0
    last = 0
    for match in _SENTENCE_END.finditer(f"{stripped} "):
        if match.end() >= len(stripped):
            continue  # the end of the text ends its last sentence anyway
        if _ends_sentence(match, stripped):
            ends += 1
            last = match.end()
    return ends + bool(stripped[last:].strip())


def _ends_sentence(match: re.Match[str], text: str) -> bool:
    mark = match["mark"]
    if mark != ".":
        is_ellipsis = set(mark) == {"."}
        return not is_ellipsis or _next_is_capital(match, text)
    written = match["word"].strip("\"'“‘([*_-")
    word = written.lower()
    if word == "no":  # No. 5
        return re.match(r"\s*\d", text[match.end() :]) is None
    if word in _ABBREVIATIONS or _INITIALS.fullmatch(word):
        return word not in ("mr", "mrs", "ms", "dr", "prof") and _starts_sentence(match, text)
    if _INITIAL.fullmatch(written) and word != "i":
        return not _next_is_capital(match, text) or _starts_sentence(match, text)
    return True


_STARTERS = frozenset(
    (
        "the",
        "he",
        "she",
        "it",
        "they",
        "we",
        "i",
        "this",
        "that",
        "in",
        "but",
        "however",
        "his",
        "her",
    )
)


def _starts_sentence(match: re.Match[str], text: str) -> bool:
    """Whether the next word is one that begins sentences; a name after ``Inc.`` is not."""
    following = re.match(r"\s*[\"'“‘(\[*_]*([A-Z]\w*)", text[match.end() :])
    return following is not None and following[1].lower() in _STARTERS


def _next_is_capital(match: re.Match[str], text: str) -> bool:
    following = _NEXT_WORD.match(text, match.end())
    return following is not None and following[1].isupper()


def count_words(text: str) -> int:
    """Runs of letters, digits and underscores."""
    return len(re.findall(r"\w+", text))


_APART = (
    re.compile(r"[;@#$%&?!()\[\]{}<>]|[«“”‘’»„\"]|--+|\.{2,}|…"),
    re.compile(r"[:,](?=\D|$)|``|''"),
)
_CONTRACTION = re.compile(
    r"(?<=[^' ])('s|'m|'d|'ll|'re|'ve|n't|')(?=\s|$)|\b(can)(?=not\b)", re.IGNORECASE
)
_TWO_WORDS = re.compile(r"\b(gim|lem)(me)\b|\b(gon|wan)(na)\b|\b(got)(ta)\b", re.IGNORECASE)


def words_apart(text: str) -> list[str]:
    """The tokens of a text: punctuation apart, contractions in two (``DON'T``: ``DO``, ``N'T``)."""
    for pattern in _APART:
        text = pattern.sub(lambda found: f" {found[0]} ", text)
    text = re.sub(r"(?<=[^.])\.(?=[\s\])}>\"']*$)", " . ", text)
    text = _TWO_WORDS.sub(lambda m: " ".join(part for part in m.groups() if part), f" {text} ")
    text = _CONTRACTION.sub(lambda m: f" {m[1]}" if m[1] else f"{m[2]} ", text)
    return text.split()


def count_capital_words(text: str) -> int:
    """Tokens in capital letters."""
    return sum(word.isupper() for word in words_apart(text))
