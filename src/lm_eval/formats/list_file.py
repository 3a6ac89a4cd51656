"""Files of formats: folders given with ``--format_path``, and lists of formats that share a base.

In: a YAML file with ``base`` and ``formats``. Out: a ``FormatListFile`` of compiled formats, each
checked against the fingerprint it was saved with, or one error that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.config.yaml import key_line, load_yaml
from lm_eval.errors import ConfigError, LmEvalError, did_you_mean, listing
from lm_eval.formats.compile import compile_format, format_names, get_format, register_format
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.registry import FORMATS

LIST_VERSION = 1
_KEYS = ("format_list", "axis", "base", "seed", "most_choices", "sizes", "rejected", "formats")
_ENTRY_KEYS = ("name", "fingerprint", "slots", "fields", "options")


@dataclass(frozen=True)
class ListedFormat:
    """One format of a list, what its slots hold, and the run options that belong to it."""

    format: PromptFormat
    slots: Mapping[str, str]
    options: Mapping[str, int] = field(default_factory=dict)
    """``num_fewshot`` and ``fewshot_seed`` on the axis ``shots``; they are not fields of a format."""

    @property
    def name(self) -> str:
        return self.format.name


@dataclass(frozen=True)
class FormatListFile:
    """The content of a file of many formats. ``head`` has its other keys, as written."""

    path: str
    base: PromptFormat
    entries: tuple[ListedFormat, ...]
    head: Mapping[str, Any]


def is_format_list(data: Mapping[str, Any]) -> bool:
    """Whether a file's mapping is a list of formats, and not one format."""
    return "format_list" in data or ("formats" in data and "base" in data)


def read_format_list(path: str | Path) -> FormatListFile:
    """The formats of a file, compiled; an error if they changed since the list was saved."""
    data = load_yaml(path, run_code=False)
    return _ListReader(str(path), data).result()


class _ListReader:
    """Compiles the formats of one file; its errors name the file and the line."""

    def __init__(self, path: str, data: Mapping[str, Any]) -> None:
        self.path, self.data = path, data

    def result(self) -> FormatListFile:
        self._check_head()
        base = self._base()
        entries = tuple(self._entry(index, base) for index in range(len(self.data["formats"])))
        self._check_names(entries)
        head = {key: value for key, value in self.data.items() if key not in ("base", "formats")}
        return FormatListFile(self.path, base, entries, head)

    def _check_head(self) -> None:
        data = self.data
        if not is_format_list(data):
            raise self._error(
                "is not a list of formats: it has no `base` and `formats`. Make one with "
                "`lm-eval sweep`; a single format is given with --format_path."
            )
        for key in data:
            if key not in _KEYS:
                raise self._error(
                    f"unknown key {str(key)!r}.{did_you_mean(str(key), _KEYS)} "
                    f"Keys: {listing(_KEYS, 20)}.",
                    key,
                )
        version = data.get("format_list", LIST_VERSION)
        if version != LIST_VERSION:
            raise self._error(
                f"this list has the layout {shorten(version)}, and this release reads layout "
                f"{LIST_VERSION}. Sample the list again, or use the release that made it.",
                "format_list",
            )
        if not isinstance(data.get("formats"), list) or not data["formats"]:
            raise self._error("formats must be a list with at least one entry.", "formats")

    def _base(self) -> PromptFormat:
        spec = self.data.get("base")
        if isinstance(spec, str):
            spec = {"type": spec}
        if not isinstance(spec, Mapping):
            raise self._error(
                f"base must be a format's name or a mapping of its fields, not {shorten(spec)}.",
                "base",
            )
        return self._compiled(spec, None, ("base",))

    def _entry(self, index: int, base: PromptFormat) -> ListedFormat:
        entry, at = self.data["formats"][index], ("formats", index)
        if not isinstance(entry, Mapping):
            raise self._error(f"entry {index + 1} of formats is not a mapping.", *at)
        for key in entry:
            if key not in _ENTRY_KEYS:
                raise self._error(
                    f"unknown key {str(key)!r} of a format.{did_you_mean(str(key), _ENTRY_KEYS)} "
                    f"Keys: {listing(_ENTRY_KEYS)}. Fields of the format belong under `fields`.",
                    *at,
                    key,
                )
        if not isinstance(entry.get("name"), str) or not entry["name"].strip():
            raise self._error(f"entry {index + 1} of formats has no name.", *at)
        fields = self._mapping(entry, "fields", at)
        compiled = self._compiled({**fields, "name": entry["name"]}, base, (*at, "fields"))
        self._check_fingerprint(compiled, entry.get("fingerprint"), (*at, "fingerprint"))
        return ListedFormat(
            compiled,
            {str(slot): str(value) for slot, value in self._mapping(entry, "slots", at).items()},
            self._options(entry, at),
        )

    def _options(self, entry: Mapping[str, Any], at: tuple[Any, ...]) -> dict[str, int]:
        options = self._mapping(entry, "options", at)
        for key, value in options.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise self._error(
                    f"{key} must be a whole number, not {shorten(value)}.", *at, "options", key
                )
        return options

    def _mapping(self, entry: Mapping[str, Any], key: str, at: tuple[Any, ...]) -> dict[str, Any]:
        value = entry.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._error(f"{key} must be a mapping, not {shorten(value)}.", *at, key)
        return dict(value)

    def _compiled(
        self, spec: Mapping[str, Any], start: PromptFormat | None, at: tuple[Any, ...]
    ) -> PromptFormat:
        try:
            return compile_format(spec, start=start, where=self.path)
        except LmEvalError as error:
            key = getattr(error, "key", None)
            line = key_line(self.path, (*at, key)) if key else None
            line = line or key_line(self.path, at) or key_line(self.path, at[:2])
            problem = str(error).removeprefix(f"{self.path}: ")
            raise self._error(problem, line=line) from None

    def _check_fingerprint(self, fmt: PromptFormat, saved: Any, at: tuple[Any, ...]) -> None:
        if saved is not None and str(saved) != fmt.fingerprint:
            raise self._error(
                f"format {fmt.name!r} was saved with fingerprint {saved} and is {fmt.fingerprint} now: "
                "the file was edited, its base has changed, or another release made it. Scores under "
                "the two do not compare. Sample the list again, or take the `fingerprint` lines out "
                "to use the formats as they are now.",
                *at,
            )

    def _check_names(self, entries: tuple[ListedFormat, ...]) -> None:
        seen: dict[str, int] = {}
        for index, entry in enumerate(entries):
            name = entry.format.name
            if name in seen:
                first = key_line(self.path, ("formats", seen[name], "name"))
                raise self._error(
                    f"the name {name!r} occurs twice, first on line {first}. Names must differ.",
                    *("formats", index, "name"),
                )
            seen[name] = index

    def _error(self, problem: str, *at: Any, line: int | None = None) -> ConfigError:
        line = line or (key_line(self.path, at) if at else None)
        where = f"{self.path}, line {line}:" if line else self.path if not at else f"{self.path}:"
        return ConfigError(f"{where} {problem}", path=self.path, line=line)


def register_format_folder(folder: str | Path) -> list[str]:
    """Add every ``*.yaml`` file of a folder as a format; the names added, in file order.

    A file may also be a saved list of formats, and then each of them is added.
    """
    root = Path(folder)
    if not root.exists():
        raise ConfigError(f"--format_path {str(root)!r} does not exist.", path=str(root))
    files = sorted(root.glob("*.yaml")) if root.is_dir() else [root]
    if not files:
        raise ConfigError(f"--format_path {str(root)!r} holds no .yaml file.", path=str(root))
    names = []
    for file in files:
        data = load_yaml(file)
        if is_format_list(data):
            names += _register_list(file)
            continue
        name = data.get("name", file.stem)
        if not isinstance(name, str):
            raise ConfigError(f"{file}: name must be a text, not {shorten(name)}.", path=str(file))
        register_format(name, file)
        names.append(name)
    return names


def add_formats(paths: Sequence[str] | None) -> list[str]:
    """Make the formats of each ``--format_path`` known; their names."""
    return [name for path in paths or () for name in register_format_folder(path)]


def _register_list(file: Path) -> list[str]:
    """Add the formats of a saved list, except those that are registered already."""
    saved = read_format_list(file)
    if any(entry.options for entry in saved.entries):
        raise ConfigError(
            f"--format_path {str(file)!r}: this list varies the few-shot examples, which are not part "
            "of a format. Run it with `lm-eval sweep --formats`.",
            path=str(file),
        )
    formats = [entry.format for entry in saved.entries]
    for fmt in formats:
        is_known = fmt.name in format_names() and get_format(fmt.name) == fmt
        if not is_known:
            FORMATS.register(fmt.name, fmt, place=str(file))
    return [fmt.name for fmt in formats]
