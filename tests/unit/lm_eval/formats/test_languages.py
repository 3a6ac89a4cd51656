"""Formats in other languages: they ask in it, write in it, and read what they ask for."""

from __future__ import annotations

import re
import warnings
from dataclasses import fields
from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.errors import ConfigError, LmEvalWarning
from lm_eval.formats.compile import get_format
from lm_eval.formats.languages import ENGLISH, known_words
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.requests import PromptOptions, build_requests

LANGUAGES = sorted(set(known_words()) - {ENGLISH})
ASKED = ("de", "fr", "es", "pt", "it", "ru", "zh", "ja", "ko", "ar", "hi", "sw", "th", "bn", "te")
FORMATS = ("mcqa", "cloze", "qa", "generate", "cot", "mcq_cot", "boxed")
DOC = {"q": "7 × 6 = ?", "c": ["41", "42", "43", "44"], "t": 1, "p": "6 × 7"}


def task(fmt: Any, language: str | None, **keys: Any) -> ConfigurableTask:
    """One question under a format, in a language."""
    settings: dict[str, Any] = {
        "doc_to_text": "q",
        "doc_to_choice": "c",
        "doc_to_target": "t",
        "fewshot_config": {"sampler": "first_n", "samples": [DOC]},
        **keys,
    }
    config = TaskConfig(
        task="t",
        language=language,
        custom_dataset=lambda: {"test": [DOC]},
        test_split="test",
        formats=fmt,
        **settings,
    )
    return ConfigurableTask(config)


def quiet(fmt: Any, language: str | None, **keys: Any) -> PromptFormat:
    """The format in use, which comes without a note."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = task(fmt, language, **keys).format
    assert found is not None
    return found


def prompt(fmt: Any, language: str | None, shots: int = 0) -> str:
    (doc,) = build_requests(task(fmt, language), [0], PromptOptions(num_fewshot=shots))
    return str(doc.context)


def test_the_languages_that_are_promised() -> None:
    assert {*ASKED, "tr", "vi", "id"} <= set(LANGUAGES)
    for language in LANGUAGES:
        assert known_words()[language].keys() == known_words()[ENGLISH].keys()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", FORMATS)
def test_every_word_is_said_in_the_language(name: str, language: str) -> None:
    text = prompt(name, language, shots=1)
    english = set(re.findall(r"[a-z]{3,}", prompt(name, None, shots=1).lower()))
    # French, Spanish and Turkish have some of the same words; placeholders stay as they are.
    same = {"question", "problem", "final", "boxed", "answer", "letter"}
    latin = set(re.findall(r"[a-z]{3,}", text.lower()))
    assert not (latin & english) - same
    assert "{{" not in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [name for name in FORMATS if get_format(name).reads_text])
def test_it_reads_what_it_asks_for_in_the_language(name: str, language: str) -> None:
    found = task(name, language)
    asked = found.ask(0)
    assert asked.item is not None
    assert found.format is not None
    reply = found.format.target_text(asked.item)
    right = "42" if found.format.answers == "text" else 1
    assert found.format.read(f" {reply}", asked.item).value == right
    whole = f"{found.format.gen_prefix or ''} {reply}"
    reasons = "" if name == "qa" else "6 × 7 = 42.\n"
    assert found.format.read(f"{reasons}{whole}", asked.item, is_prefilled=False).value == right
    last_line = asked.turn.user.rpartition("\n")[2]
    assert found.format.read(last_line, asked.item, is_prefilled=False).value is None
    for stop in found.format.generation_kwargs["until"]:
        assert stop == "\n" or stop.strip() in asked.turn.user
        assert stop not in f"{found.format.target_delimiter}{whole}"


@pytest.mark.parametrize("language", [None, "en", "en-GB"])
@pytest.mark.parametrize("name", FORMATS)
def test_english_is_what_it_was(name: str, language: str | None) -> None:
    assert quiet(name, language).fingerprint == get_format(name).fingerprint
    assert quiet(name, language) == get_format(name)


def test_a_language_has_a_fingerprint_of_its_own_and_regions_are_the_same_language() -> None:
    assert quiet("mcqa", "de").fingerprint != get_format("mcqa").fingerprint
    assert quiet("mcqa", "DE-at") == quiet("mcqa", "de")
    assert task("mcqa", "de").fingerprint != task("mcqa", None).fingerprint


def test_a_language_without_words_is_english_with_one_note() -> None:
    with pytest.warns(LmEvalWarning, match="'xx', and format 'mcqa' is in English") as caught:
        found = task("mcqa", "xx").format
    assert len(caught) == 1
    assert found == get_format("mcqa")
    assert quiet("bare", "xx") == get_format("bare")  # which says nothing


def test_words_of_its_own() -> None:
    own = {
        "type": "qa",
        "question_prefix": "{{ _words.riddle }}: ",
        "answer_prompt": "{{ _words.answer }} ->",
        "scorer": {"reader": "short_answer", "phrase": "{{ _words.answer }}"},
        "words": {"en": {"riddle": "Riddle"}, "de": {"riddle": "Rätsel"}, "xx": {"riddle": "Zz"}},
    }
    assert prompt(own, None) == "Riddle: 7 × 6 = ?\nAnswer ->"
    assert prompt(own, "de") == "Rätsel: 7 × 6 = ?\nAntwort ->"
    assert prompt(own, "xx") == "Zz: 7 × 6 = ?\nAnswer ->"
    scorer = quiet(own, "de").scorer
    assert scorer is not None
    assert dict(scorer.options) == {"phrase": "Antwort"}


def test_words_that_stay_english_are_named() -> None:
    own = {"type": "mcqa", "answer_prompt": "Your choice:"}
    with pytest.warns(LmEvalWarning, match="answer_prompt stays as it is"):
        assert task(own, "de").format is not None


def test_a_convention_is_the_same_in_every_language() -> None:
    assert quiet("olmes_mc", "de").question_prefix == "Question: "


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({"type": "mcqa", "words": {"de": "Frage"}}, "a table of texts for each language"),
        ({"type": "mcqa", "words": ["de"]}, "words must be a table of texts"),
        ({"type": "mcqa", "question_prefix": "{{ _words.questoin }} "}, "Did you mean 'question'"),
    ],
)
def test_wrong_words_are_refused(own: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        task(own, "de")


def test_a_language_is_a_text() -> None:
    with pytest.raises(ConfigError, match="language must be a text"):
        task("mcqa", 5)  # type: ignore[arg-type]


def test_nothing_else_of_a_format_changes() -> None:
    said = {"question_prefix", "answer_prompt"}
    for one in fields(PromptFormat):
        if one.name not in said:
            assert getattr(quiet("mcqa", "de"), one.name) == getattr(get_format("mcqa"), one.name)
