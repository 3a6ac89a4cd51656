"""Files of formats: folders given with ``--format_path``, and lists of formats that share a base.

In: a YAML file with ``base`` and ``formats``. Out: a ``FormatListFile`` of compiled formats, each
checked against the fingerprint it was saved with, or one error that names the file and the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from lm_eval.config.fields import shorten
from lm_eval.config.schema import ANYTHING, Key, check, placed
from lm_eval.config.yaml import load_yaml
from lm_eval.errors import ConfigError, LmEvalError
from lm_eval.formats.compile import compile_format, format_names, get_format, register_format
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.registry import FORMATS

LIST_VERSION = 1
SCHEMA = {
    "format_list": Key(
        Literal[LIST_VERSION],
        f"{LIST_VERSION}, the layout that this release reads: sample the list again, or use the release "
        "that made it",
        takes_null=False,
    ),
    "axis": ANYTHING,
    "base": Key(
        str | dict,
        "a format's name or a mapping of its fields",
        takes_null=False,
        is_needed=True,
    ),
    **dict.fromkeys(("seed", "most_choices", "sizes", "rejected"), ANYTHING),
    "formats": Key(
        Annotated[list, Meta(min_length=1)],
        "a list with at least one entry",
        takes_null=False,
        is_needed=True,
    ),
}
ENTRY_SCHEMA = {
    "name": Key(
        Annotated[str, Meta(pattern=r"\S")], "the format's name", takes_null=False, is_needed=True
    ),
    "fingerprint": ANYTHING,
    "slots": Key(dict),
    "fields": Key(dict, "a mapping of the format's fields"),
    "options": Key(dict[str, Annotated[int, Meta(ge=0)]], "a mapping to whole numbers"),
}


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
    path = str(path)
    data = load_yaml(path, run_code=False)
    if not is_format_list(data):
        raise ConfigError(
            f"{path} is not a list of formats: it has no `base` and `formats`. Make one with "
            "`lm-eval sweep`; a single format is given with --format_path.",
            path=path,
        )
    try:
        check(data, SCHEMA, "list of formats")
        spec = {"type": data["base"]} if isinstance(data["base"], str) else data["base"]
        base = _compiled(spec, None, "base", ("base",))
        entries: dict[str, ListedFormat] = {}
        for index, entry in enumerate(data["formats"]):
            check(entry, ENTRY_SCHEMA, "list of formats", "formats", index)
            if entry["name"] in entries:
                raise ConfigError(
                    f"the name {entry['name']!r} occurs twice. Names must differ.",
                    key=("formats", index, "name"),
                )
            entries[entry["name"]] = _listed(entry, base, ("formats", index))
    except ConfigError as error:
        raise placed(error, path) from None
    head = {key: value for key, value in data.items() if key not in ("base", "formats")}
    return FormatListFile(path, base, tuple(entries.values()), head)


def _listed(
    entry: Mapping[str, Any], base: PromptFormat, at: tuple[str | int, ...]
) -> ListedFormat:
    name, fields = entry["name"], entry.get("fields") or {}
    fmt = _compiled({**fields, "name": name}, base, f"format {name!r}", (*at, "fields"))
    saved = entry.get("fingerprint")
    if saved is not None and str(saved) != fmt.fingerprint:
        raise ConfigError(
            f"format {name!r} was saved with fingerprint {saved} and is {fmt.fingerprint} now: "
            "the file was edited, its base has changed, or another release made it. Scores under "
            "the two do not compare. Sample the list again, or take the `fingerprint` lines out "
            "to use the formats as they are now.",
            key=(*at, "fingerprint"),
        )
    slots = {str(slot): str(value) for slot, value in (entry.get("slots") or {}).items()}
    return ListedFormat(fmt, slots, entry.get("options") or {})


def _compiled(
    spec: Mapping[str, Any], start: PromptFormat | None, where: str, at: tuple[str | int, ...]
) -> PromptFormat:
    try:
        return compile_format(spec, start=start, where=where)
    except LmEvalError as error:
        inner = error.route if isinstance(error, ConfigError) else ()
        raise ConfigError(str(error), key=(*at, *inner)) from None


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
