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
    """``k=v,k=v`` (or one JSON object) as a dict; commas inside brackets and quotes do not split."""
    if isinstance(values, Mapping):
        return dict(values)
    pairs: dict[str, Any] = {}
    for value in [values] if isinstance(values, str) else values or []:
        if value.strip().startswith("{"):
            pairs.update(json_object(value, flag))
            continue
        for piece in _top_level_pieces(value):
            key, equals, text = piece.partition("=")
            if not equals or not key.strip():
                raise UsageError(
                    f"{flag}: {shorten(piece)} has no '='. Write names and values as in "
                    f"`{flag} {_EXAMPLES.get(flag, 'name=value')}`."
                )
            pairs[key.strip()] = parse_value(text.strip())
    return pairs


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
    try:
        value = json.loads(text)
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
