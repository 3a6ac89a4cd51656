"""Words by their first letters: whatever a pattern finds, its first letters find as well."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

import lm_eval
from lm_eval.formats.readers.language import Vocabulary, vocabulary_of
from lm_eval.formats.readers.text import fold, lowered
from lm_eval.formats.readers.wording import Wording, keys_of

WORDINGS = [
    *("cue", "text_cue", "class_cue", "pick", "choose", "it_is", "supposed", "condition", "would"),
    *(
        "denial",
        "contrast",
        "hard",
        "second_thought",
        "refusal",
        "verdict_word",
        "but_word",
        "doubt",
    ),
]


@cache
def replies() -> tuple[str, ...]:
    folder = Path(lm_eval.__file__).parent / "formats/readers/odd_answers"
    tables = (yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yaml"))
    return tuple(lowered(fold(row["text"])) for table in tables for row in table["rows"])


@pytest.mark.parametrize("name", WORDINGS)
def test_nothing_that_the_pattern_finds_is_missed(name: str) -> None:
    for low in replies():
        wording: Wording = getattr(vocabulary_of(low), name)
        if wording.pattern.search(low):
            assert wording.is_in(low, keys_of(low)), low


@pytest.mark.parametrize("name", ["cue", "pick", "it_is"])
def test_all_of_them_are_found(name: str) -> None:
    for low in replies():
        wording: Wording = getattr(vocabulary_of(low), name)
        starts = {match.start() for match in wording.all_in(low, keys_of(low))}
        assert {match.start() for match in wording.pattern.finditer(low)} <= starts, low


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ("answers?", "answer"),
        ("go(?:ing)?\\s+with", "going with"),
        ("(?:yo\\s+)?(?:elijo|escojo)", "escojo"),
        ("(?:the\\s+|a\\s+){0,3}best", "best"),
        ("[ao]lso", "also"),
    ],
)
def test_a_pattern_is_found_by_how_it_may_begin(item: str, word: str) -> None:
    wording = Wording(rf"(?<!\\w)(?:{item})(?!\\w)", [item])
    low = f"so {word}, then"
    assert [match.group() for match in wording.all_in(low, keys_of(low))] == [word]
    assert wording.search("nothing here", keys_of("nothing here"), 0, 99) is None


def test_every_language_has_every_kind_of_word_that_decides() -> None:
    kinds = (
        "answer",
        "copula",
        "correct",
        "wrong",
        "not",
        "if",
        "also",
        "and_or",
        "none",
        "refusal",
    )
    scripts = ("latin", "cyrillic", "han", "hangul", "arabic", "devanagari")
    for kind in kinds:
        for script in scripts:
            source = Vocabulary((script,)).one_of(kind)
            assert source != "(?!)", (kind, script)
            re.compile(source)
