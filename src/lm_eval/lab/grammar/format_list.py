"""A sampled list of formats as a file: saved once, and the same for every model that is asked later.

In: ``SampledFormats``. Out: YAML that people can read, that ``--format_path`` registers and that
``lm-eval sweep --formats`` runs. Loading gives back the same formats, by their fingerprints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lm_eval.errors import ConfigError, OutputError, listing
from lm_eval.formats.compile import format_names, get_format
from lm_eval.formats.list_file import LIST_VERSION, FormatListFile, read_format_list
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.axes import AXES
from lm_eval.lab.grammar.sample import DEFAULT_SEED, MOST_CHOICES, SampledFormat, SampledFormats
from lm_eval.registry import FORMATS
from lm_eval.text.files import write_whole

_HEAD = {
    "layout": "{count} formats that ask what {base} asks, in the same words; only the layout differs.",
    "wording": "{count} formats that ask what {base} asks, in other words.",
    "shots": "{count} ways to put few-shot examples before the questions of {base}.",
    "reasoning": "{base}, with and without reasoning before the answer.",
}
_HOW = "# Run them: lm-eval sweep --formats FILE. Make them known by name: --format_path FILE."


@dataclass(frozen=True)
class FormatList(SampledFormats):
    """Sampled formats that can be saved, and loaded again."""

    @classmethod
    def of(cls, sampled: SampledFormats) -> FormatList:
        """The list of what was sampled."""
        given = {one.name: getattr(sampled, one.name) for one in fields(SampledFormats)}
        return cls(**given)

    @classmethod
    def load(cls, path: str | Path) -> FormatList:
        """The list in a file; whatever is wrong with it is one error with file and line."""
        return _loaded(read_format_list(path))

    def save(self, path: str | Path) -> Path:
        """Write the list, making the folder where there is none; the file's path."""
        file = Path(path)
        try:
            # A sweep that dies here leaves no half of a list for the next one to find.
            write_whole(file, self.as_yaml())
        except OSError as error:
            raise OutputError(
                f"The list of formats cannot be written to {file}: {error.strerror}. Name "
                "another --output_path."
            ) from None
        return file

    def as_yaml(self) -> str:
        """The file's text: what is common to all, then each format by what differs from the base."""
        said = _HEAD[self.axis].format(count=len(self), base=self.base.name)
        data = self._head() | {"formats": [self._entry(one) for one in self.formats]}
        return f"# {said}\n{_HOW}\n{_dumped(data)}"

    def _head(self) -> dict[str, Any]:
        return {
            "format_list": LIST_VERSION,
            "axis": self.axis,
            "base": _base_spec(self.base),
            "seed": self.seed,
            "most_choices": self.most_choices,
            "sizes": dict(self.sizes),
            "rejected": dict(self.rejected),
        }

    def _entry(self, one: SampledFormat) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": one.name, "fingerprint": one.format.fingerprint}
        parts = {
            "slots": _Line(one.slots),
            "fields": _Lines(_difference(one.format, self.base)),
            "options": dict(one.options),
        }
        return entry | {key: value for key, value in parts.items() if value}


def _dumped(data: Any) -> str:
    """YAML with one line for each field, in which ``\\n`` and other marks are escaped."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        style = None if value.isprintable() else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    def mapping(dumper: yaml.SafeDumper, value: _Lines | _Line) -> yaml.Node:
        is_line = isinstance(value, _Line)
        return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=is_line)

    Dumper.add_representer(str, text)
    Dumper.add_representer(_Lines, mapping)
    Dumper.add_representer(_Line, mapping)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 10_000}
    return str(yaml.dump(data, Dumper=Dumper, default_flow_style=None, **options))


class _Line(dict[str, Any]):
    """A mapping that is written in one line."""


class _Lines(dict[str, Any]):
    """A mapping that is written with a line for each key."""


def _difference(fmt: PromptFormat, base: PromptFormat) -> dict[str, Any]:
    theirs = base.as_data()
    ours = fmt.as_data().items()
    return {key: value for key, value in ours if key != "name" and value != theirs[key]}


def _base_spec(base: PromptFormat) -> str | dict[str, Any]:
    """The base's name where that name will find it, else all there is to it."""
    known = {name: get_format(name) for name in format_names()}
    if known.get(base.name) == base:
        return base.name
    built_in = [fmt for name, fmt in known.items() if FORMATS.place(name) == "built in"]
    nearest = min(built_in, key=lambda fmt: len(_difference(base, fmt)))
    return _Lines({"name": base.name, "type": nearest.name, **_difference(base, nearest)})


def _loaded(saved: FormatListFile) -> FormatList:
    head = saved.head
    axis = head.get("axis", "layout")
    if axis not in AXES:
        raise ConfigError(
            f"{saved.path}: there is no axis {axis!r}. Axes: {listing(AXES)}.", path=saved.path
        )
    return FormatList(
        base=saved.base,
        axis=axis,
        seed=_whole(saved, "seed", DEFAULT_SEED),
        formats=tuple(SampledFormat(one.format, one.slots, one.options) for one in saved.entries),
        sizes=_counts(saved, "sizes"),
        rejected=_counts(saved, "rejected"),
        most_choices=_whole(saved, "most_choices", MOST_CHOICES),
    )


def _whole(saved: FormatListFile, key: str, default: int) -> int:
    value = saved.head.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{saved.path}: {key} must be a whole number.", path=saved.path, key=key)
    return value


def _counts(saved: FormatListFile, key: str) -> dict[str, int]:
    value = saved.head.get(key) or {}
    if not isinstance(value, Mapping) or not all(isinstance(n, int) for n in value.values()):
        raise ConfigError(
            f"{saved.path}: {key} must map names to whole numbers.", path=saved.path, key=key
        )
    return dict(value)
