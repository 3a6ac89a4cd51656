"""What a value of the config must be: each check gives the value back, or says what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import LmEvalError, did_you_mean, listing

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

Check = Callable[[Any], Any]


class WrongValue(ValueError):
    """What is wrong with a value, as the end of a sentence."""


def one_of(names: Callable[[], Iterable[str]] | Sequence[str], *, optional: bool = False) -> Check:
    """One of these names; a bare off or on of YAML as the word it was."""

    def check(value: Any) -> Any:
        valid = [*(names() if callable(names) else names)]
        if isinstance(value, bool):  # YAML reads a bare off and on as these
            value = ("off", "on")[value] if ("off", "on")[value] in valid else value
        if (value is None and optional) or value in valid:
            return value
        hint = did_you_mean(value, valid) if isinstance(value, str) else ""
        raise WrongValue(
            f"is {shorten(value)}, which does not exist.{hint} Valid: {listing(valid)}"
        )

    return check


def whole(least: int, *, optional: bool = False) -> Check:
    """A whole number from ``least`` up."""

    def check(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise WrongValue(f"is {shorten(value)}, but must be a whole number from {least} up")
        return value

    return check


def between(least: float, most: float, *, is_open: bool = False) -> Check:
    """A number in this range."""

    def check(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (least < value < most if is_open else least <= value <= most):
            return float(value)
        raise WrongValue(f"is {shorten(value)}, but must be a number from {least:g} to {most:g}")

    return check


def level(value: Any) -> str:
    """A level of logging, in any case."""
    return str(one_of(LEVELS)(value.upper() if isinstance(value, str) else value))


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise WrongValue(f"is {shorten(value)}, but must be true or false")
    return value


def text(value: Any) -> str | None:
    """A text that is not empty, or None."""
    if value is None:
        return None
    if isinstance(value, str | os.PathLike) and str(value).strip():
        return str(value)
    raise WrongValue(f"is {shorten(value)}, but must be a text that is not empty")


def mapping(value: Any) -> dict[str, Any]:
    """Names with values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise WrongValue(f"is {shorten(value)}, but must be a mapping of names to values")
    return dict(value)


def paths(value: Any) -> list[str]:
    """One file or several, as a list."""
    given = [value] if isinstance(value, str | os.PathLike) else value
    if given is None:
        return []
    if not isinstance(given, list | tuple) or not all(
        isinstance(one, str | os.PathLike) and str(one).strip() for one in given
    ):
        raise WrongValue(f"is {shorten(value)}, but must be a file or a list of files")
    return [str(one) for one in given]


def share_or_count(value: Any) -> str:
    """How many requests may fail: a number, or a share such as 1%."""
    from lm_eval.answers.ask import allowed_failures

    try:
        allowed_failures(str(value), 0)
    except LmEvalError as error:
        raise WrongValue(f"is {shorten(value)}: {error}") from None
    return str(value)


def backend(value: Any) -> str | None:
    """The name of a model backend, or None for the embedded model."""
    from lm_eval.registry import MODELS

    if value is None or value in MODELS:
        return None if value is None else str(value)
    raise WrongValue(f"is {shorten(value)}: {MODELS.unknown(str(value))}".rstrip("."))


def judges(value: Any) -> list[dict[str, Any]]:
    """Models that judge, each as a mapping with ``backend``, ``model_args`` and ``name``."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise WrongValue(f"is {shorten(value)}, but must be a list of judges")
    return [_judge(one) for one in value]


def _judge(given: Any) -> dict[str, Any]:
    """``{backend: …, model_args: …}``, or ``name:k=v,k=v`` as on the command line."""
    if isinstance(given, str):
        from lm_eval.config.pairs import parse_pairs

        name, _, rest = given.partition(":")
        try:
            given = {"backend": name, "model_args": parse_pairs(rest or None, flag="--judges")}
        except LmEvalError as error:
            raise WrongValue(str(error).rstrip(".")) from None
    if not isinstance(given, Mapping):
        raise WrongValue(f"holds {shorten(given)}, but a judge is a mapping with `backend`")
    valid = ("backend", "model_args", "name")
    for key in given:
        if key not in valid:
            raise WrongValue(
                f"has a judge with {shorten(key)}.{did_you_mean(str(key), valid)} Valid: "
                f"{listing(valid)}"
            )
    return {
        "backend": backend(given.get("backend")),
        "model_args": mapping(given.get("model_args") or {}),
        "name": text(given.get("name")),
    }
