"""Facts about a task for lists: how many docs, which language, how it is asked.

In: the keys of a file. Out: ``TaskFacts``, which the index of files keeps. None of them is
a setting: a file without any is listed too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_PLAIN = re.compile(r"\{\{\s*([A-Za-z]\w*)\s*\}\}")
_CHOICE_TEMPLATES = ("mcq", "cloze")


@dataclass(frozen=True)
class TaskFacts:
    """A task or family in a list. ``counts`` and ``languages``: one for all tasks, or one per task."""

    summary: str = ""
    kind: str = "text"
    """``choices``, ``text``, ``python`` for a task that is a class, ``suite`` for a group of tasks."""
    format: str = ""
    """The default format; empty if the file has its own prompt."""
    shots: int = 0
    licence: str = ""
    is_gated: bool = False
    dataset: str = ""
    counts: tuple[int | None, ...] = (None,)
    languages: tuple[str, ...] = ("",)
    total: int | None = None
    """The docs of a family whose file does not state them per task."""

    def docs(self, tasks: int) -> int | None:
        """The number of docs of all tasks; None if the file does not state it."""
        if self.total is not None:
            return self.total
        counts = [*self.counts] * (tasks if len(self.counts) == 1 else 1)
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def of_member(self, index: int) -> TaskFacts:
        """The facts of one task of a family."""
        count = self.counts[index if len(self.counts) > 1 else 0]
        language = self.languages[index if len(self.languages) > 1 else 0]
        return replace(self, counts=(count,), languages=(language,), total=None)


Fill = Callable[[str, Any, Mapping[str, Any]], Any]
"""Key, its value in a file, and the values of variables → the value with these filled in."""


def facts_of(
    keys: Mapping[str, Any], members: Iterable[Mapping[str, Any]] = (), fill: Fill | None = None
) -> TaskFacts:
    """The facts of a file; ``members`` are the values of each task of a family, ``fill`` uses them."""
    written = keys.get("metadata")
    metadata = written if isinstance(written, Mapping) else {}
    each = [*members] or [{}]

    def same_for_all(value: Any) -> str:
        texts = {_text(_value(value, values, fill)) for values in each[:2]}
        return texts.pop() if len(texts) == 1 else ""

    return TaskFacts(
        summary=same_for_all(metadata.get("summary")),
        kind=_kind(keys),
        format=_format(keys),
        shots=_count(keys.get("num_fewshot")) or 0,
        licence=same_for_all(metadata.get("licence", metadata.get("license"))),
        is_gated=bool(metadata.get("gated")),
        dataset=same_for_all(keys.get("dataset_path")),
        counts=_shared([_count(_value(metadata.get("n"), values, fill)) for values in each]),
        total=_count(metadata.get("total")),
        languages=_shared(
            [_language(_value(metadata.get("language"), values, fill)) for values in each]
        ),
    )


def _kind(keys: Mapping[str, Any]) -> str:
    if "class" in keys:
        return "python"
    if "group" in keys and "each" not in keys:
        return "suite"
    template = keys.get("template")
    has_choices = (
        keys.get("doc_to_choice") is not None
        or keys.get("output_type") == "multiple_choice"
        or (isinstance(template, str) and template.startswith(_CHOICE_TEMPLATES))
    )
    return "choices" if has_choices else "text"


def _format(keys: Mapping[str, Any]) -> str:
    written = keys.get("formats", keys.get("template"))
    if isinstance(written, list):
        written = written[0] if written else None
    if isinstance(written, Mapping):
        named = written.get("name", written.get("template"))
        written = named if isinstance(named, str) else next(iter(written), None)
    return _text(written)


def _shared(values: Sequence[Any]) -> tuple[Any, ...]:
    """One value if all are alike."""
    return tuple(values[:1] if all(value == values[0] for value in values) else values)


def _language(value: Any) -> str:
    languages = value if isinstance(value, list) else [value]
    return ", ".join(_text(language) for language in languages if language is not None)


def _value(value: Any, values: Mapping[str, Any], fill: Fill | None) -> Any:
    """A value of a file with a family's values filled in; without Jinja if it is a single name."""
    if not values or not isinstance(value, str) or "{" not in value:
        return value
    plain = _PLAIN.fullmatch(value.strip())
    if plain is not None:
        return values.get(plain[1])
    return value if fill is None else fill("metadata", value, values)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
