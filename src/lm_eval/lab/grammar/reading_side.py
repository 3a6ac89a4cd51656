"""The reading side of a format, in the words of its asking side.

A format that generates text stops where the model begins a next question (``\\nQuestion:``), and may
look for its own ``answer_prompt`` in a reply. Where a sampled format writes these differently, its stop
strings and its reader have to know the new words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.readers import BoundReader

_FIELDS = ("instruction", "question_prefix")
_FIRST_WORDS = 4


def with_reading_side(fmt: PromptFormat, base: PromptFormat) -> PromptFormat:
    """``fmt``, made from ``base``, with stop strings and a reader in its own words."""
    return _with_stops(_with_phrase(fmt, base), base)


def _with_phrase(fmt: PromptFormat, base: PromptFormat) -> PromptFormat:
    """The reader looks for the new ``answer_prompt`` where it looked for the old one."""
    old, new = base.answer_prompt, fmt.answer_prompt
    if base.scorer is None or not old or not new or old == new:
        return fmt
    scorer = replaced_phrase(base.scorer, old.strip(), new.strip())
    return fmt if scorer == base.scorer else replace(fmt, scorer=scorer)


def replaced_phrase(reader: BoundReader, old: str, new: str) -> BoundReader:
    """The reader with ``new`` in place of a ``phrase`` that is ``old``, also in its alternatives."""
    options = tuple(
        (key, new if key == "phrase" and value == old else value) for key, value in reader.options
    )
    alternatives = tuple(replaced_phrase(one, old, new) for one in reader.alternatives)
    return replace(reader, options=options, alternatives=alternatives)


def phrase_of(reader: BoundReader | None) -> str | None:
    """The phrase that a reader looks for first, if it looks for one."""
    if reader is None:
        return None
    phrases = [dict(reader.options).get("phrase"), *map(phrase_of, reader.alternatives)]
    return next((phrase for phrase in phrases if phrase), None)


def _with_stops(fmt: PromptFormat, base: PromptFormat) -> PromptFormat:
    until = base.generation_kwargs.get("until")
    if not isinstance(until, list | tuple):
        return fmt
    stops = list(dict.fromkeys(_translated(list(until), fmt, base)))
    if stops == list(until):
        return fmt
    return replace(fmt, generation_kwargs={**base.generation_kwargs, "until": stops})


def _translated(until: list[Any], fmt: PromptFormat, base: PromptFormat) -> Iterator[Any]:
    for stop in until:
        field = _begun_by(stop, base)
        if field is None or getattr(fmt, field) == getattr(base, field):
            yield stop
            continue
        begin = _begin(getattr(fmt, field), is_instruction=field == "instruction")
        if begin:
            yield _lead(stop) + begin
    if base.instruction is None and fmt.instruction is not None:
        leads = [_lead(stop) for stop in until if _begun_by(stop, base)]
        yield from (lead + _begin(fmt.instruction, is_instruction=True) for lead in leads)


def _begun_by(stop: Any, base: PromptFormat) -> str | None:
    """The field of ``base`` that begins with this stop string's text."""
    text = stop.strip() if isinstance(stop, str) else ""
    begins = (name for name in _FIELDS if text and (getattr(base, name) or "").startswith(text))
    return next(begins, None)


def _lead(stop: str) -> str:
    return stop[: len(stop) - len(stop.lstrip())]


def _begin(text: str | None, *, is_instruction: bool) -> str:
    """How a text begins: a descriptor with its separator, or an instruction's first words."""
    if not text:
        return ""
    if is_instruction:
        literal = re.split(r"\{[{%#]|\n", text)[0]
        return " ".join(literal.split()[:_FIRST_WORDS])
    shown = text.rstrip()
    # A bare word would stop a sentence that happens to begin with it.
    return text if shown[-1:].isalnum() else shown
