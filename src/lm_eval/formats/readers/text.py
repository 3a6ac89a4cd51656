"""Text as readers see it: folded without moving a character, as plain words, and cut at phrases."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

_PLAIN = {
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″«»「」『』", '"'),
    **dict.fromkeys("−﹣‐‑", "-"),
    "。": ".",
    "、": ",",
    "【": "[",
    "】": "]",
    # Invisible marks stand around answers in right-to-left and copied text.
    **dict.fromkeys("\u200b\u200e\u200f\u2060\ufeff", " "),
    **dict.fromkeys("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", " "),
}
# Superscripts and fractions are left out: 10² is not 102.
_FOLDED_KINDS = ("<wide>", "<narrow>", "<font>", "<circle>", "<compat>", "<noBreak>")


class _Folding(dict[int, str]):
    """Code point → the plain character it stands for; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = _PLAIN.get(char) or _compatible(char)
        self[code] = folded
        return folded


def _compatible(char: str) -> str:
    if not unicodedata.decomposition(char).startswith(_FOLDED_KINDS):
        return char
    folded = unicodedata.normalize("NFKC", char)
    return folded if len(folded) == 1 else char


_FOLDING = _Folding()


def fold(text: str) -> str:
    """``text`` with full-width, styled and typographic characters made plain, of equal length."""
    return text if text.isascii() else text.translate(_FOLDING)


# --------------------------------------------------------------------------------------- phrases


@lru_cache(maxsize=512)
def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """A pattern for ``phrase`` in any case, spacing and emphasis (``The **best answer** is``)."""
    words = [re.escape(word) for word in fold(phrase).split()]
    if not words:
        return re.compile(r"(?!)")  # an empty phrase stands nowhere
    before = r"(?<!\w)" if phrase.strip()[0].isalnum() else ""
    after = r"(?!\w)" if phrase.strip()[-1].isalnum() else ""
    return re.compile(before + r"[\s*_]+".join(words) + after, re.IGNORECASE)


def after_last(text: str, cue: re.Pattern[str], start: int = 0) -> int | None:
    """Where the last ``cue`` that is followed by something ends, or None.

    A cue with nothing behind it is where the model was cut off while it repeated itself.
    """
    ends = [found.end() for found in cue.finditer(text, start)]
    tail = len(text.rstrip(" \t\r\n:*_$\"'`([{.…-"))
    return next((end for end in reversed(ends) if end < tail), None)


# --------------------------------------------------------------------------------------- words

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(
    # numbers keep sign and decimals, "-5" is not "5"
    r"(?:(?<![\w)])-)?\d+(?:[.,]\d+)*(?![^\W_])"
    # scripts without spaces: every character is a word
    rf"|[{_CJK}]"
    # accents may stand behind their letter
    rf"|[^\W_{_CJK}](?:[^\W_{_CJK}]|[\u0300-\u036f])*"
    # signs that carry meaning, as in "x < y"; emphasis, quotes and brackets do not
    r"|[^\w\s*$`\"'.,;:!?()\[\]{}–—…¡¿·-]"
)
_ARTICLES = frozenset({"a", "an", "the"})


def _plain_word(word: str) -> str:
    if word[-1].isdigit():
        word = word.replace(",", "")
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", word).casefold()


def _is_article(text: str, found: re.Match[str], *, is_first: bool) -> bool:
    """True for ``the`` before a word; the A of "A* search" and "vitamin A" is a name."""
    word = found.group()
    if word.lower() not in _ARTICLES or not text[found.end() : found.end() + 1].isspace():
        return False
    return word != "A" or is_first


@dataclass(frozen=True, slots=True)
class Words:
    """A text as plain words, each of which knows where it stands.

    ``line`` holds the words with one space around each, so that a whole-word search is one
    ``str.find``: linear, whatever the text.
    """

    line: str
    starts: list[int]
    spans: list[tuple[int, int]]

    @property
    def key(self) -> str:
        """The words alone, to compare two texts."""
        return self.line[1:-1]

    def starts_with(self, key: str) -> tuple[int, int] | None:
        """Where ``key`` stands in the text if the text begins with it."""
        if not key or not self.line.startswith(f" {key} "):
            return None
        return self._span(0, len(key) + 1)

    def find_all(self, key: str) -> Iterator[tuple[int, int]]:
        """Places of ``key`` in ``line``, as whole words."""
        if not key:
            return
        needle, at = f" {key} ", -1
        while (at := self.line.find(needle, at + 1)) >= 0:
            yield at, at + len(needle) - 1

    def _span(self, start: int, end: int) -> tuple[int, int]:
        first = bisect_right(self.starts, start + 1) - 1
        last = bisect_right(self.starts, end - 1) - 1
        return self.spans[first][0], self.spans[last][1]

    def span_of(self, place: tuple[int, int]) -> tuple[int, int]:
        """Where a place in ``line`` stands in the text."""
        return self._span(*place)


def words(text: str) -> Words:
    """``text`` without case, punctuation and articles; articles stay where nothing else is."""
    text = fold(text)
    matches = list(_WORD.finditer(text))
    kept = [
        m for i, m in enumerate(matches) if not _is_article(text, m, is_first=i == 0)
    ] or matches
    line, starts = [" "], []
    at = 1
    for match in kept:
        word = _plain_word(match.group())
        starts.append(at)
        line += (word, " ")
        at += len(word) + 1
    return Words("".join(line), starts, [match.span() for match in kept])


def may_mention(text: str, keys: Iterable[str]) -> bool:
    """False if none of ``keys`` can occur in ``text``: a quick look before the slow one."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    longest = [max(key.split(), key=len, default="") for key in keys]
    # digits may be grouped in the text, "1,000", and not in the key
    return any(word and (word in plain or word[-1].isdigit()) for word in longest)


@lru_cache(maxsize=8192)
def key_of(text: str) -> str:
    """What two texts share if they differ only in case, punctuation, articles and Unicode form."""
    return words(text).key
