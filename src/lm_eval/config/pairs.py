"""``k=v,k=v`` as people write arguments, in a shell or in a string → a dict of values."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import UsageError

_EXAMPLES = {
    "--model_args": "path=model.gguf,n_ctx=2048",
    "--gen_kwargs": "max_gen_toks=64,temperature=0.7",
    "--metadata": "max_seq_lengths=[4096,8192]",
}


def parse_pairs(
    values: Sequence[str] | str | Mapping[str, Any] | None, *, flag: str
) -> dict[str, Any]:
    """``k=v,k=v`` (or one JSON object) as a dict; commas inside brackets and quotes do not split.

    An error where a name is given twice.
    """
    if isinstance(values, Mapping):
        return dict(values)
    pairs: dict[str, Any] = {}
    for value in [values] if isinstance(values, str) else values or []:
        if value.strip().startswith("{"):
            for key, given in json_object(value, flag).items():
                _add(pairs, key, given, flag)
            continue
        for piece in _top_level_pieces(value):
            key, equals, text = piece.partition("=")
            if not equals or not key.strip():
                raise UsageError(
                    f"{flag}: {shorten(piece)} has no '='. Write names and values as in "
                    f"`{flag} {_EXAMPLES.get(flag, 'name=value')}`."
                )
            _add(pairs, key.strip(), parse_value(text.strip()), flag)
    return pairs


def _add(pairs: dict[str, Any], key: str, value: Any, flag: str) -> None:
    if key in pairs:
        raise UsageError(
            f"{flag}: {key!r} is given twice, as {shorten(pairs[key])} and as {shorten(value)}. Give it "
            "once."
        )
    pairs[key] = value


def parse_value(text: str) -> Any:
    """A value as people mean it: true/false, none, numbers, Python literals, else the string."""
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null"):
        return None
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return text


def json_object(text: str, flag: str) -> dict[str, Any]:
    """The object that a JSON text holds; anything else is an error that names the flag."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            _add(found, key, value, flag)
        return found

    try:
        value = json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        raise UsageError(f"{flag}: {shorten(text)} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{flag}: expected a JSON object {{…}}, not {shorten(value)}.")
    return value


def _top_level_pieces(text: str) -> list[str]:
    pieces, depth, quote, start = [], 0, "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        elif char == "," and depth <= 0:
            pieces.append(text[start:at])
            start = at + 1
    pieces.append(text[start:])
    return [piece for piece in pieces if piece.strip()]
