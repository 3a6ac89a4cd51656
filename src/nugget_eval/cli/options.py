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
        for name, setting in settings(section).items():
            if name not in left_out:
                _add_flag(group, name, setting)


def settings(section: str) -> dict[str, Field[Any]]:
    """The values of a section of the config by the names of their flags."""
    return {one.metadata["flag"] or one.name: one for one in fields(getattr(Config(), section))}


def _add_flag(group: Any, name: str, setting: Field[Any]) -> None:
    how = setting.metadata
    options: dict[str, Any] = {"metavar": how["metavar"] or _metavar(str(setting.type))}
    if setting.type == "bool":
        options = {"nargs": "?", "const": "true", "metavar": "true|false"}
    elif setting.default is MISSING:  # a list or a mapping
        options["nargs"] = "+"
    flags = filter(None, (f"--{name}", how["short"]))
    group.add_argument(*flags, help=how["about"] + _default(setting), **options)


def _default(setting: Field[Any]) -> str:
    """The default as ``--help`` shows it; nothing for what is off or empty."""
    value = setting.default
    if value is MISSING or value is None:
        return ""
    shown = str(value).lower() if isinstance(value, bool) else value
    return f" (default: {shown:g})" if isinstance(value, float) else f" (default: {shown})"


def _metavar(kind: str) -> str:
    if kind.startswith("dict"):
        return "K=V"
    return "N" if "int" in kind or "float" in kind else "NAME"


def config_of(args: argparse.Namespace, sections: Sequence[str] = SECTIONS) -> Config:
    """The config that ``--config`` and the flags make, flags last."""
    path = getattr(args, "config", None)
    config = Config.from_yaml(path) if path is not None else Config()
    for section in sections:
        for name, setting in settings(section).items():
            value = getattr(args, name, None)
            if value is not None:
                _set(getattr(config, section), setting, name, value)
    return config


def _set(part: Any, setting: Field[Any], flag: str, value: Any) -> None:
    try:
        setattr(part, setting.name, _value(str(setting.type), flag, value))
    except ConfigurationError as error:
        problem = str(error).partition(f".{setting.name} ")[2] or str(error)
        raise UsageError(f"--{flag} {problem}") from None


def _value(kind: str, flag: str, given: Any) -> Any:
    """The value that a flag's text means; text that cannot be read is left for the check."""
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
