"""Strings from the command line → values: ``k=v`` lists, seeds, task lists, option files."""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import UsageError, did_you_mean, listing

SEED_NAMES = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")


def split_list(values: Sequence[str] | str | None) -> list[str]:
    """Names given with commas or spaces between, as one list."""
    given = [values] if isinstance(values, str) else values or []
    return [name.strip() for value in given for name in value.split(",") if name.strip()]


def parse_pairs(values: Sequence[str] | Mapping[str, Any] | None, *, flag: str) -> dict[str, Any]:
    """``k=v,k=v`` (or one JSON object) as a dict; commas inside brackets and quotes do not split."""
    if isinstance(values, Mapping):
        return dict(values)
    pairs: dict[str, Any] = {}
    for value in [values] if isinstance(values, str) else values or []:
        if value.strip().startswith("{"):
            pairs.update(_json_object(value, flag))
            continue
        for piece in _top_level_pieces(value):
            key, equals, text = piece.partition("=")
            if not equals or not key.strip():
                raise UsageError(f"{flag}: {shorten(piece)} is no key=value pair.")
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


def parse_seeds(text: str | int) -> dict[str, int | None]:
    """One seed for all, or three or four for python, numpy, torch and few-shot sampling."""
    parts = [part.strip() for part in str(text).split(",")]
    try:
        seeds = [None if part.lower() == "none" else int(part) for part in parts]
    except ValueError:
        raise UsageError(f"--seed {text!r} is not a list of whole numbers.") from None
    if len(seeds) == 1:
        seeds *= 4
    if len(seeds) == 3:
        seeds.append(1234)
    if len(seeds) != 4:
        raise UsageError(f"--seed takes 1, 3 or 4 numbers, not {len(seeds)}.")
    return dict(zip(SEED_NAMES, seeds, strict=True))


def parse_samples(text: str | Mapping[str, Any] | None) -> dict[str, list[int]] | None:
    """``{"task": [0, 3]}`` from JSON text or a file that holds it."""
    if text is None:
        return None
    value: Any = text
    if isinstance(text, str):
        path = Path(text)
        is_file = not text.lstrip().startswith("{") and path.is_file()
        value = _json_object(path.read_text(encoding="utf-8") if is_file else text, "--samples")
    for task, places in value.items():
        if not isinstance(places, list) or not all(isinstance(p, int) for p in places):
            raise UsageError(
                f"--samples: task {task!r} needs a list of doc numbers, not {shorten(places)}."
            )
    return dict(value)


def merge_config_file(args: argparse.Namespace, defaults: Mapping[str, Any]) -> None:
    """Fill in options from ``--config``; what stands on the command line wins."""
    if getattr(args, "config", None) is None:
        return
    from lm_eval.config.yaml import load_yaml

    options = load_yaml(args.config, run_code=False)
    valid = [name for name in vars(args) if name not in ("command", "config")]
    for name, value in options.items():
        if name not in valid:
            raise UsageError(
                f"{args.config}: unknown option {name!r}.{did_you_mean(str(name), valid)} "
                f"Options: {listing(valid, 40)}."
            )
        if getattr(args, name) == defaults.get(name):
            setattr(args, name, value)


def _json_object(text: str, flag: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {shorten(text)} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{flag}: expected a JSON object, not {shorten(value)}.")
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
