"""Finds wordings by the first letters of the words of a text, before any pattern is tried."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property


class Wording:
    """A pattern that begins with one of several words, found by the first letters of these words.

    Looking up the words of a text in a set is many times quicker than searching for a pattern with a
    hundred ways to begin; most replies contain none of them, and the pattern is compiled for the first
    that does.
    """

    def __init__(self, pattern: str, items: Iterable[str]) -> None:
        self._source = pattern
        by_key: dict[str, set[str]] = {}
        for stem in {stem for item in items for stem in _stems(item)}:
            word = _FIRST_WORD.match(stem) if _has_edges(stem) else None
            by_key.setdefault(word.group()[:KEY] if word else "", set()).add(stem)
        self.joined = _shortest(by_key.pop("", set()))
        self.joined_ascii = tuple(filter(str.isascii, self.joined))
        self.by_key = {key: _shortest(stems) for key, stems in by_key.items()}
        self.keys = frozenset(self.by_key)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self._source)

    def is_in(self, low: str, keys: frozenset[str]) -> bool:
        """False if ``low``, whose words have these keys, cannot contain the wording."""
        if not self.keys.isdisjoint(keys):
            return True
        return any(stem in low for stem in self._joined(low))

    def _joined(self, low: str) -> tuple[str, ...]:
        return self.joined_ascii if low.isascii() else self.joined

    def search(self, low: str, keys: frozenset[str], start: int, end: int) -> re.Match[str] | None:
        part = low[start:end]
        if self.keys.isdisjoint(keys) and not any(stem in part for stem in self._joined(part)):
            return None
        return self.pattern.search(low, start, end)

    def all_in(self, low: str, keys: frozenset[str], start: int = 0) -> list[re.Match[str]]:
        """The matches from ``start`` on, in order of their ends; of very many the last ones."""
        stems = [stem for stem in self._joined(low) if stem in low]
        stems += (stem for key in self.keys & keys for stem in self.by_key[key])
        matches = []
        for stem in stems:
            tries = _MOST_TRIED
            at = low.rfind(stem, start)
            while at >= 0 and tries:
                if at == 0 or not low[at - 1].isalnum() or not _has_edges(stem):
                    tries -= 1
                    match = self.pattern.match(low, at)
                    if match:
                        matches.append(match)
                at = low.rfind(stem, start, at + len(stem) - 1)
        return sorted(matches, key=re.Match.end) if len(matches) > 1 else matches


def _shortest(stems: set[str]) -> tuple[str, ...]:
    """``stems`` without those that begin with another one."""
    return tuple(s for s in stems if not any(s[:n] in stems for n in range(1, len(s))))


_MOST_TRIED = 300  # occurrences of a word, from the end
KEY = 3  # the number of letters by which a word is looked up
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_PARTED = {code: " " for code in range(128) if not chr(code).isalpha()}


def keys_of(low: str) -> frozenset[str]:
    """The first letters of the words of a text in lower case."""
    return frozenset([word[:KEY] for word in low.translate(_PARTED).split()])


def _has_edges(stem: str) -> bool:
    """True for words of scripts that separate words by spaces; signs have no edges."""
    return stem[:1].isalpha() and stem[0] < "\u0590"


def _stems(item: str) -> list[str]:
    """The plain beginnings of what the pattern ``item`` matches."""
    literal = _LITERAL.match(item)
    stem = literal.group() if literal else ""
    rest = item[len(stem) :]
    if rest[:1] in ("?", "*") and stem:
        return [stem[:-1]] if len(stem) > 1 else [stem, *_stems(rest[1:])]
    if len(stem) in range(1, KEY) and rest.startswith("(?:"):
        return [stem + head for head in _stems(rest)]
    if stem:
        return [stem]
    if rest.startswith("(?:"):
        end = _closing(rest)
        heads = [stem for part in _split(rest[3:end]) for stem in _stems(part)]
        optional = _OPTIONAL.match(rest, end + 1)
        return heads + (_stems(rest[optional.end() :]) if optional else [])
    if rest.startswith("["):
        end = rest.index("]")
        return [char + tail for char in rest[1:end] for tail in _stems(rest[end + 1 :])]
    return [""]


_OPTIONAL = re.compile(r"[?*]|\{0,\d\}")
_LITERAL = re.compile(r"[^\\()\[\]?*+|.{}]*")


def _closing(source: str) -> int:
    """Where the group that begins ``source`` closes."""
    depth = 0
    for at, char in enumerate(source):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at
    raise ValueError(source)


def _split(source: str) -> list[str]:
    """The alternatives of a pattern."""
    parts, depth = [""], 0
    for char in source:
        depth += (char in "([") - (char in ")]")
        if char == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts
