"""Parses arguments written in a shell or a string: ``k=v``, seeds, option files."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import UsageError, did_you_mean, few_names

_EXAMPLES = {
    "--model_args": "path=model.gguf,n_ctx=2048",
    "--gen_kwargs": "max_gen_toks=64,temperature=0.7",
    "--metadata": "max_seq_lengths=[4096,8192]",
}


def parse_pairs(
    values: Sequence[str] | str | Mapping[str, Any] | None, *, flag: str
) -> dict[str, Any]:
    """``k=v,k=v`` (or one JSON object) as a dict; commas inside brackets and quotes, and before another
    address (``base_url=http://a,http://b``), do not split.

    A name that occurs twice is an error.
    """
    if isinstance(values, Mapping):
        return dict(values)
    pairs: dict[str, Any] = {}
    for value in [values] if isinstance(values, str) else values or []:
        if value.strip().startswith("{"):
            for key, parsed in json_object(value, flag).items():
                _add(pairs, key, parsed, flag)
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
    """The value that a text means: true/false, none, a number, a Python literal, else the text."""
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
    """The object in a JSON text; anything else is an error that names the flag."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            _add(values, key, value, flag)
        return values

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
    joined: list[str] = []
    for piece in filter(str.strip, pieces):
        if joined and piece.lstrip().startswith(("http://", "https://")):
            joined[-1] += f",{piece}"
        else:
            joined.append(piece)
    return joined


def plain_arguments(model_args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as plain data; a model or tokenizer object becomes its name."""
    return {name: plain_value(value) for name, value in model_args.items()}


def plain_value(value: Any) -> Any:
    """A value as plain data."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return plain_arguments(value)
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if not callable(value):  # such as a path
        return str(value)
    return str(getattr(value, "name_or_path", "") or type(value).__name__)


_SEED_NAMES = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")


def split_list(values: Sequence[str] | str | None) -> list[str]:
    """Names separated by commas or spaces, as one list."""
    texts = [values] if isinstance(values, str) else values or []
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def parse_seeds(text: str | int | Mapping[str, int | None]) -> dict[str, int | None]:
    """One seed for all, or three or four for python, numpy, torch and few-shot sampling."""
    if isinstance(text, Mapping):
        return dict(text)
    parts = [part.strip() for part in str(text).split(",")]
    try:
        seeds = [None if part.lower() == "none" else int(part) for part in parts]
    except ValueError:
        raise UsageError(
            f"--seed {text!r}: a seed is a whole number. Give one, or four separated by commas: "
            "--seed 0,1234,1234,1234."
        ) from None
    if len(seeds) == 1:
        seeds *= 4
    if len(seeds) == 3:
        seeds.append(1234)
    if len(seeds) != 4:
        raise UsageError(
            f"--seed takes 1, 3 or 4 numbers (python, numpy, torch, few-shot), not {len(seeds)}."
        )
    return dict(zip(_SEED_NAMES, seeds, strict=True))


def parse_batch_size(given: str | int | None) -> int | str | None:
    """A number from 1 up, or ``auto`` and ``auto:N``, which the backend interprets."""
    text = str(given)
    if given is None or re.fullmatch(r"auto(:[1-9]\d*)?", text):
        return given
    if re.fullmatch(r"0*[1-9][0-9]*", text):
        return int(text)
    raise UsageError(f"--batch_size {given!r}: give a number from 1 up, or auto.")


def parse_samples(text: str | Mapping[str, Any] | None) -> dict[str, list[int]] | None:
    """``{"task": [0, 3]}`` from JSON text or from a file."""
    if text is None:
        return None
    value = json_object(_inline_or_file(text), "--samples") if isinstance(text, str) else text
    for task, numbers in value.items():
        is_list = isinstance(numbers, Sequence) and not isinstance(numbers, str) and numbers
        if not is_list or not all(map(_is_doc_number, numbers)):
            raise UsageError(
                f"--samples: task {task!r} needs a list of doc numbers such as [0, 3], "
                f"not {shorten(numbers)}."
            )
    return dict(value)


def option_file_tokens(
    file: str, defaults: Mapping[str, Any], refused: Mapping[str, str] | None = None
) -> list[str]:
    """The options of a ``--config`` file as they would be written on the command line.

    They pass the same checks there, and options that the user typed come later and win. ``defaults`` has
    every option and its default, ``refused`` known options that are not supported, with advice; without
    a value they are harmless.
    """
    from lm_eval.config.yaml import load_yaml

    valid = [name for name in defaults if name not in ("command", "config")]
    tokens: list[str] = []
    for name, value in load_yaml(file, run_code=False).items():
        if refused and f"--{name}" in refused:
            if value:
                raise UsageError(f"{file}: {name} is not supported. {refused[f'--{name}']}")
            continue
        if name not in valid:
            raise UsageError(
                f"{file}: unknown option {str(name)!r}.{did_you_mean(str(name), valid)} "
                f"Options: {few_names(str(name), valid)}."
            )
        is_switch = isinstance(defaults[name], bool)
        if is_switch and not isinstance(value, bool):
            raise UsageError(f"{file}: {name} is a switch: true or false, not {shorten(value)}.")
        if is_switch:
            tokens += [f"--{name}"] if value else []
        elif isinstance(value, list) and name in ("include_path", "format_path"):
            tokens += [f"--{name}={path}" for path in value]
        elif value is not None:
            tokens.append(f"--{name}={_as_argument(value)}")
    return tokens


def _as_argument(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    if isinstance(value, list):
        return ",".join(map(_as_argument, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_doc_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and value >= 0


def _inline_or_file(text: str) -> str:
    """``--samples`` itself if it is JSON, else the content of the file of that name."""
    if text.lstrip()[:1] in ("{", "["):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"--samples: the file {text!r} is not UTF-8 text.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--samples {text!r} is neither JSON such as '{{\"my_task\": [0, 3]}}' nor a file that "
            f"can be read: {reason}."
        ) from None
