"""The words that carry meaning in a reply as patterns, from ``language.yaml``.

Readers name a kind (``not``, ``if``) or a pattern (``verdict``) and never spell a word. Patterns are for
text in lower case, cover all languages at once, and are compiled on first use.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from lm_eval.config.yaml import SafeLoader

# Languages whose words have spaces around them and no endings that change them.
_SPACED = ("en", "de", "fr", "es", "pt", "it", "ru")
_PART = re.compile(r"<<([=~]?)([^<>]+)>>")


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """The words of all languages."""
    return Vocabulary()


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    source = Path(__file__).with_name("language.yaml")
    table: dict[str, dict[str, Any]] = yaml.load(  # plain data of our own
        source.read_text(encoding="utf-8"), Loader=SafeLoader
    )
    return table


class Vocabulary:
    """The patterns of the words of all languages, as attributes."""

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("__"):
            raise AttributeError(name)
        pattern = re.compile(_source(name))
        setattr(self, name, pattern)
        return pattern

    def denies(self, low: str, start: int, end: int) -> bool:
        """True if a word between two positions denies; "no doubt" does not."""
        return any(not match["vain"] for match in self.denial.finditer(low, start, end))

    def ordinal_number(self, word: str) -> int | None:
        """The number of an ordinal, from 1; None for the last."""
        if word.isdigit():
            return int(word)
        columns = zip(*_table()["ordinals"].values(), strict=True)
        names = [re.compile("|".join(column)) for column in columns][:-1]
        return next((n for n, name in enumerate(names, 1) if name.fullmatch(word)), None)


def _source(name: str) -> str:
    """The source of a pattern by its name, or of a pattern for one word of a kind."""
    source = _table()["patterns"].get(name)
    if source is None:
        return _one_of(name)
    joined = "".join(line.strip() for line in source.splitlines())
    return _PART.sub(_part, joined)


def _part(part: re.Match[str]) -> str:
    if part[1] == "=":
        return _source(part[2])
    return _one_of(*part[2].split(), with_spaced=part[1] != "~")


def _one_of(*kinds: str, with_spaced: bool = True) -> str:
    """The source of a pattern for one word of these kinds, whole where words have edges."""
    spaced: list[str] = []
    joined: list[str] = []
    for kind in kinds:
        for language, items in _table()[kind].items():
            for item in items if with_spaced or language not in _SPACED else ():
                is_word = language in _SPACED and (item[0].isalpha() or item[0] == "(")
                (spaced if is_word else joined).append(item)
    parts = [rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)"] if spaced else []
    parts += sorted(joined, key=len, reverse=True)
    return f"(?:{'|'.join(parts)})"
