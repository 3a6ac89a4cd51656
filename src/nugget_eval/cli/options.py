"""The flags of ``nugget-eval`` that stand for values of the config: one for each of them.

In: the sections a command takes. Out: flags of its parser and, from parsed arguments, the config.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from lm_eval.config.pairs import parse_pairs
from lm_eval.errors import UsageError
from nugget_eval.config import SECTIONS, Config
from nugget_eval.errors import ConfigurationError

NAME = "nugget-eval"


def add_config(
    parser: argparse.ArgumentParser, sections: Iterable[str], without: Iterable[str] = ()
) -> None:
    """A flag for each value of these sections of the config."""
    left_out = set(without)
    for section in sections:
        group = parser.add_argument_group(section)
        for name, one in settings(section).items():
            if name not in left_out:
                _add_flag(group, name, one)


def settings(section: str) -> dict[str, Field[Any]]:
    """The values of a section of the config by the names of their flags."""
    part = getattr(Config(), section)
    return {one.metadata["flag"] or one.name: one for one in fields(part)}


_SHORT = {"model": "-M", "model_args": "-a", "batch_size": "-b", "output_path": "-o", "limit": "-L"}


def _add_flag(group: Any, name: str, one: Field[Any]) -> None:
    flags = [f"--{name}", *([_SHORT[name]] if name in _SHORT else [])]
    about = one.metadata["about"]
    default = one.default if one.default is not MISSING else None
    options: dict[str, Any] = {"metavar": _metavar(one)}
    if isinstance(default, bool):
        options = {"nargs": "?", "const": "true", "metavar": "true|false"}
    elif one.default_factory is not MISSING or name in ("answers", "items"):
        options["nargs"] = "+"
    group.add_argument(*flags, default=None, help=about, **options)


def _metavar(one: Field[Any]) -> str:
    kind = str(one.type)
    if "dict" in kind and "list" not in kind:
        return "K=V"
    if "int" in kind or "float" in kind:
        return "N"
    files = ("nuggets", "answers", "items", "gold", "prices", "use_cache", "examples")
    return "FILE" if one.name in files else "DIR" if one.name == "output_path" else "NAME"


def config_of(args: argparse.Namespace, sections: Sequence[str] = SECTIONS) -> Config:
    """The config that ``--config`` and the flags make, flags last."""
    path = getattr(args, "config", None)
    config = Config.from_yaml(path) if path is not None else Config()
    for section in sections:
        for name, one in settings(section).items():
            value = getattr(args, name, None)
            if value is not None:
                _set(getattr(config, section), one, name, value)
    return config


def _set(part: Any, one: Field[Any], flag: str, value: Any) -> None:
    try:
        setattr(part, one.name, _value(one, flag, value))
    except ConfigurationError as error:
        problem = str(error).partition(f".{one.name} ")[2] or str(error)
        raise UsageError(f"--{flag} {problem}") from None


def _value(one: Field[Any], flag: str, given: Any) -> Any:
    """The value that a flag's text means; text that cannot be read is left for the check."""
    kind = str(one.type)
    if kind.startswith("dict"):
        return parse_pairs(given, flag=f"--{flag}")
    if kind == "bool":
        return {"true": True, "false": False}.get(str(given).lower(), given)
    if "int" in kind or "float" in kind:
        for convert in (int, float):
            try:
                return convert(given)
            except ValueError:
                continue
    return given
