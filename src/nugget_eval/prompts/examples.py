"""Few-shot examples: judged items that are shown before the one to judge, and the guard against leaks.

An example that shares its query, its passage or a nugget with the evaluated item would give the answer
away, so it is left out, and that is logged.
"""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lm_eval.config.schema import Key, check
from lm_eval.errors import ConfigError, listing
from nugget_eval.errors import PromptError
from nugget_eval.prompts.catalogue import BUILTIN
from nugget_eval.prompts.fence import Data
from nugget_eval.reading.spellings import LABELS, Label

logger = logging.getLogger("nugget_eval.prompts")

_NO_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Example:
    """A judged item. ``snippets`` and ``rationales`` are needed by prompt types that reason."""

    query: str
    passage: str
    nuggets: tuple[str, ...]
    labels: tuple[str, ...]
    snippets: tuple[str, ...] = ()
    rationales: tuple[str, ...] = ()

    @property
    def data(self) -> Data:
        return Data(self.query, self.passage, self.nuggets)

    @property
    def has_reasoning(self) -> bool:
        return len(self.snippets) == len(self.rationales) == len(self.nuggets)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An example that was not used, and why."""

    example: Example
    reason: str


def without_leaks(
    examples: Sequence[Example], data: Data
) -> tuple[tuple[Example, ...], tuple[LeftOut, ...]]:
    """The examples that may be shown before ``data``, and those left out; the latter are logged.

    Case, punctuation and white space make no difference.
    """
    if not examples:
        return (), ()
    item = tuple(whole_words(text) for text in data.texts)
    kept, left_out = [], []
    for example in examples:
        reason = _leak(example, item)
        if reason is None:
            kept.append(example)
        else:
            left_out.append(LeftOut(example, reason))
            logger.warning("Few-shot example left out: %s (%.60r).", reason, example.query)
    return tuple(kept), tuple(left_out)


def _leak(example: Example, item: tuple[str, ...]) -> str | None:
    """Which part of the example occurs in the item; ``item`` is query, passage and nuggets as words."""
    query, passage, *nuggets = _example_words(example)
    item_query, item_passage = item[0], item[1]
    if _occurs_in(query, item) or _occurs_in(item_query, [query]):
        return "its query occurs in the evaluated item"
    if _occurs_in(passage, item) or _occurs_in(item_passage, [passage]):
        return "its passage occurs in the evaluated item"
    for number, nugget in enumerate(nuggets, 1):
        if _occurs_in(nugget, item):
            return f"its nugget {number} occurs in the evaluated item"
    return None


def _occurs_in(words: str, texts: Sequence[str]) -> bool:
    return bool(words.strip()) and any(words in text for text in texts)


def whole_words(text: str) -> str:
    """``text`` as folded words with one space around each, so that only whole words match."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return f" {_NO_WORD.sub(' ', folded).strip()} "


@lru_cache(maxsize=256)
def _example_words(example: Example) -> tuple[str, ...]:
    return tuple(whole_words(text) for text in example.data.texts)


# From files


def load_examples(path: str | Path | None = None) -> tuple[Example, ...]:
    """The examples of a file; None: the built-in ones.

    A ``.jsonl`` file has one in each line, a ``.yaml`` file a list under ``examples``.
    """
    path = BUILTIN / "examples.yaml" if path is None else Path(path)
    rows = _json_rows(path) if path.suffix == ".jsonl" else _yaml_rows(path)
    return tuple(as_example(row, where=where) for where, row in rows)


def as_example(source: Any, *, where: str = "Example") -> Example:
    """An example from a mapping; a missing field or an unknown label is an error."""
    if isinstance(source, Example):
        source = {f.name: getattr(source, f.name) for f in fields(Example)}
    if not isinstance(source, Mapping):
        raise PromptError(f"{where} is not a mapping. It needs {listing(_SCHEMA)}.")
    try:
        check(source, _SCHEMA, where)
    except ConfigError as error:
        raise PromptError(str(error)) from None
    query, passage, *lists = (source.get(key, ()) for key in _SCHEMA)
    example = Example(query, passage, *map(tuple, lists))
    count = len(example.nuggets)
    for key in ("labels", "snippets", "rationales"):
        size = len(getattr(example, key))
        if size != count and (size or key == "labels"):
            raise PromptError(f"{where} has {count} nuggets and {size} {key}. Give one for each.")
    return example


_TEXT = Key(str, takes_null=False, is_needed=True)
_TEXTS = Key(Sequence[str], "a list of texts", takes_null=False)
_SCHEMA = {
    "query": _TEXT,
    "passage": _TEXT,
    "nuggets": replace(_TEXTS, words="a list of at least one text", fits=bool, is_needed=True),
    "labels": Key(
        Sequence[Label], f"a list of {listing(LABELS)}", takes_null=False, is_needed=True
    ),
    "snippets": _TEXTS,
    "rationales": _TEXTS,
}


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8 ({error.reason})"
        raise PromptError(
            f"{path}, the file of examples, cannot be read: {reason}. Check the path."
        ) from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, json.loads(line)
            except ValueError as error:
                raise PromptError(f"{where} is not JSON: {error}.") from None


def _yaml_rows(path: Path) -> Iterator[tuple[str, Any]]:
    from lm_eval.config.yaml import load_yaml

    try:
        rows = load_yaml(path, run_code=False).get("examples")
    except ConfigError as error:
        raise PromptError(str(error)) from None
    if not isinstance(rows, list):
        raise PromptError(f"{path} needs a list under `examples`.")
    for number, row in enumerate(rows, 1):
        yield f"{path}, example {number}", row
