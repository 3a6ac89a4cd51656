"""A format in the language of a task.

``words.yaml`` has the texts of the general formats by language. A text of a format that equals one of
its English entries is replaced by the entry of the task's language; ``{{ _words.NAME }}`` in a format is
replaced by that word, from the format's own ``words`` or from the file. Both happen once, before any doc
is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.formats.readers import BoundReader
from lm_eval.support.numbers import joined

if TYPE_CHECKING:
    from lm_eval.formats.prompt_format import PromptFormat

ENGLISH = "en"
TRANSLATED = (
    *("preamble", "instruction", "context_prefix", "question_prefix", "choices_prefix"),
    *("answer_instruction", "answer_prompt", "gen_prefix", "target_format", "scored_format"),
)
"""The fields that contain words."""
_WORD = re.compile(r"\{\{-?\s*_words\.(\w+)\s*-?\}\}")
_AROUND = re.compile(
    r"(?P<before>\n?)(?P<said>.+?)(?P<after>: ?|\n+| \{(?:label|answer)\})?", re.DOTALL
)
_LETTERS = re.compile(r"[^\W\d_]{2}")
_STOP_LENGTH = 40


@lru_cache(maxsize=1)
def known_words() -> dict[str, dict[str, str]]:
    """Language → name → wording, for the general formats."""
    from lm_eval.config.yaml import load_yaml

    return dict(load_yaml(Path(__file__).with_name("words.yaml")))


def in_language(fmt: PromptFormat, language: str | None, *, task: str) -> tuple[PromptFormat, str]:
    """The format with its words in a language, and a note about words that it lacks."""
    if not fmt.has_words and is_english(language):
        return fmt, ""
    code = ENGLISH if is_english(language) else code_of(str(language))
    own, note = _own_words(fmt, code), ""
    if code != ENGLISH and own is None and (code not in known_words() or not _may_speak(fmt)):
        if _speaks(fmt) or fmt.has_words:
            known = sorted({*known_words(), *fmt.words} - {ENGLISH})
            note = _note(fmt, code, task, f"It has words for: {listing(known, 60)}.")
        code, own = ENGLISH, _own_words(fmt, ENGLISH)
    words = {**known_words()[ENGLISH], **known_words().get(code, {}), **(own or {})}
    translation = _Translation(fmt, words, code)
    changed = translation.format()
    if translation.kept and code != ENGLISH and fmt.kind == "general":
        stay = "stays as it is" if len(translation.kept) == 1 else "stay as they are"
        note = _note(fmt, code, task, f"Its {joined(translation.kept)} {stay}.")
    return changed, note


def is_english(language: str | None) -> bool:
    return language is None or code_of(language) == ENGLISH


def code_of(language: str) -> str:
    """``de`` for ``de``, ``DE`` and ``de-AT``."""
    return re.split(r"[-_]", language.strip().lower())[0]


def _note(fmt: PromptFormat, code: str, task: str, details: str) -> str:
    return (
        f"Task {task!r} is in the language {code!r}, and format {fmt.name!r} is in English. {details} "
        "`words` in a format adds others."
    )


def _own_words(fmt: PromptFormat, code: str) -> Mapping[str, str] | None:
    return {code_of(name): texts for name, texts in fmt.words.items()}.get(code)


def _may_speak(fmt: PromptFormat) -> bool:
    """Whether ``words.yaml`` applies to this format; a convention stays the same in every language."""
    return fmt.kind == "general" or fmt.has_words


def _speaks(fmt: PromptFormat) -> bool:
    """Whether a format contains any words."""
    return fmt.kind == "general" and any(_LETTERS.search(_said(fmt, name)) for name in TRANSLATED)


def _said(fmt: PromptFormat, name: str) -> str:
    """A field's text outside templates and placeholders."""
    return re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{\w*\}|\\\w+", "", getattr(fmt, name) or "")


class _Translation:
    """Translates one format. ``kept`` names the fields that could not be translated."""

    def __init__(self, fmt: PromptFormat, words: Mapping[str, str], code: str) -> None:
        self._fmt, self._words, self._code = fmt, words, code
        english = known_words()[ENGLISH]
        is_same = code == ENGLISH or fmt.kind == "convention"
        self._said = {} if is_same else {english[name]: words[name] for name in english}
        self.kept: list[str] = []

    def format(self) -> PromptFormat:
        fmt = self._fmt
        changes: dict[str, Any] = {"words": {}}
        for name in TRANSLATED:
            text = getattr(fmt, name)
            if text:
                changes[name] = self._translated(text, name)
        if fmt.scorer is not None:
            changes["scorer"] = self._reader(fmt.scorer)
        until = fmt.generation_kwargs.get("until")
        if isinstance(until, list | tuple):
            stops = [self._stop(stop, changes) for stop in until]
            changes["generation_kwargs"] = {**fmt.generation_kwargs, "until": stops}
        return replace(fmt, **changes)

    def _translated(self, text: str, name: str = "") -> str:
        changed = self._filled(text)
        match = _AROUND.fullmatch(changed)
        said = self._said.get(match["said"]) if match else None
        if match and said is not None:
            return self._joined(f"{match['before']}{said}{match['after'] or ''}")
        if name and changed == text and _LETTERS.search(_said(self._fmt, name)):
            self.kept.append(name)
            return changed  # all of it stays in one language
        return self._joined(changed)

    def _filled(self, text: str) -> str:
        """The text with its ``{{ _words.NAME }}``."""

        def word(match: re.Match[str]) -> str:
            if match[1] not in self._words:
                raise ConfigError(
                    f"Format {self._fmt.name!r}: _words has no {match[1]!r} in the language "
                    f"{self._code!r}.{did_you_mean(match[1], self._words)} It has: "
                    f"{listing(self._words, 40)}. Give it in `words`.",
                    key="words",
                )
            return str(self._words[match[1]])

        return _WORD.sub(word, text)

    def _joined(self, text: str) -> str:
        """The text with labels joined by this language's words."""
        if self._code == ENGLISH:
            return text
        for name in ("and", "or"):
            first, last = "{{ _choice_labels[:-1] | join(', ') }}", "{{ _choice_labels[-1] }}"
            joined = f"{first} {self._words[name]} {last}"
            text = text.replace(f"{{{{ _choice_list_{name} }}}}", joined)
        return text

    def _reader(self, reader: BoundReader) -> BoundReader:
        if reader.alternatives:
            return replace(reader, alternatives=tuple(map(self._reader, reader.alternatives)))
        options = tuple(
            (key, self._translated(value) if isinstance(value, str) and key == "phrase" else value)
            for key, value in reader.options
        )
        return replace(reader, options=options)

    def _stop(self, stop: Any, changes: Mapping[str, Any]) -> Any:
        """A stop string, translated; the beginning of a text becomes that of its translation."""
        if not isinstance(stop, str):
            return stop
        changed = self._translated(stop)
        if changed != stop or not stop.strip():
            return changed
        for name in ("instruction", "answer_prompt"):
            if (getattr(self._fmt, name) or "").startswith(stop.strip()):
                start = changes[name].split("{{")[0].split("\n")[0][:_STOP_LENGTH]
                return f"\n{start.rstrip()}" if start.strip() else stop
        return stop
