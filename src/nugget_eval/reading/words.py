"""The words of ``words.yaml`` as patterns, for text that is folded and in lower case."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def _words() -> dict[str, Any]:
    source = resources.files("nugget_eval.reading").joinpath("words.yaml")
    loaded: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    return loaded


def alternatives(kind: str) -> str:
    """The words of one kind as the alternatives of a pattern."""
    return "|".join(_words()[kind].split("\n")).strip("|")


@cache
def pattern(kind: str) -> re.Pattern[str]:
    """Finds a word of ``kind``: not inside a longer word of Latin or Cyrillic letters."""
    return re.compile(rf"(?<![a-zà-ÿа-я0-9_])(?:{alternatives(kind)})(?![a-zà-ÿа-я0-9_])")


@cache
def ordinals() -> dict[int, str]:
    """Position → the words for it."""
    return {int(number): words for number, words in _words()["ordinals"].items()}
