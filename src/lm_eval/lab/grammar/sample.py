"""Formats that ask the same question in a different form, sampled from a grammar over a format's fields.

In: a base format, how many, a seed and an axis. Out: a ``FormatList``, the base first, each with the
values of its slots, and how many samples each check rejected; it can be saved and loaded. Tasks and
models have no part in it, so the list is the same for all of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, overload

from lm_eval.errors import ConfigError, FormatError, OutputError, UsageError, did_you_mean, listing
from lm_eval.formats.compile import format_names, get_format
from lm_eval.formats.list_file import LIST_VERSION, FormatListFile, ListedFormat, read_format_list
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.axes import AXES, Axis, axis_of
from lm_eval.lab.grammar.equivalence import BASE_CHECKS, CHECKS, Probe, failed_check
from lm_eval.registry import FORMATS
from lm_eval.support.files import write_whole
from lm_eval.support.numbers import counted

DEFAULT_SEED = 1234
MOST_CHOICES = 9
DUPLICATE = "duplicate"
"""The reason for rejecting a sample that looks like an earlier one, as plain text or in chat."""
_NAME_DIGITS = 8
_MOST_DRAWS = 5_000
"""How many combinations are tried at least; if nearly all are rejected, more would take minutes."""


@dataclass(frozen=True)
class FormatList(Sequence[ListedFormat]):
    """Sampled formats, the base first, and how they were found; can be saved, and loaded again."""

    base: PromptFormat
    axis: str
    seed: int
    formats: tuple[ListedFormat, ...]
    sizes: Mapping[str, int]
    """Slot → how many values it has for this base."""
    rejected: Mapping[str, int]
    """Check → how many samples it rejected."""
    most_choices: int = MOST_CHOICES

    def __len__(self) -> int:
        return len(self.formats)

    @overload
    def __getitem__(self, index: int) -> ListedFormat: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ListedFormat, ...]: ...
    def __getitem__(self, index: int | slice) -> ListedFormat | tuple[ListedFormat, ...]:
        return self.formats[index]

    @classmethod
    def of(cls, sampled: FormatList) -> FormatList:
        """``sampled`` itself: ``sample_formats`` returns a list that can be saved."""
        return sampled

    @classmethod
    def load(cls, path: str | Path) -> FormatList:
        """The list in a file; any problem with it is an error that names file and line."""
        return _loaded(read_format_list(path))

    def save(self, path: str | Path) -> Path:
        """Write the list, creating its folder if needed, and return the file's path."""
        file = Path(path)
        try:
            # Written as a whole, so that a sweep that dies here leaves no half of a list.
            write_whole(file, self.as_yaml())
        except OSError as error:
            raise OutputError(
                f"The list of formats cannot be written to {file}: {error.strerror}. Name "
                "another --output_path."
            ) from None
        return file

    def as_yaml(self) -> str:
        """The file's text: what all formats share, then how each differs from the base."""
        about = _HEAD[self.axis].format(count=len(self), base=self.base.name)
        data = self._head() | {"formats": [self._entry(listed) for listed in self.formats]}
        return f"# {about}\n{_HOW}\n{_dumped(data)}"

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

    def _entry(self, listed: ListedFormat) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": listed.name, "fingerprint": listed.format.fingerprint}
        parts = {
            "slots": _FlowMapping(listed.slots),
            "fields": _Lines(_difference(listed.format, self.base)),
            "options": dict(listed.options),
        }
        return entry | {key: value for key, value in parts.items() if value}


def sample_formats(
    base: PromptFormat,
    count: int,
    *,
    seed: int = DEFAULT_SEED,
    axes: Sequence[str] = ("layout",),
    most_choices: int = MOST_CHOICES,
    allow_fewer: bool = False,
) -> FormatList:
    """``count`` formats of one axis, the base first; no two look alike, and each passed every check.

    Combinations of slot values are drawn without replacement, each as likely as any other, until there
    are enough. Too few are an error that gives their number, unless ``allow_fewer``. ``most_choices`` is
    the largest number of choices that labels are checked for.
    """
    _check_count(count, most_choices)
    axis = axis_of(_one_axis(axes), base)
    sampler = _Sampler(base, axis, most_choices)
    draws = islice(_shuffled(sampler.total, random.Random(seed)), max(_MOST_DRAWS, 100 * count))
    for combination in draws:
        if len(sampler.found) >= count:
            break
        sampler.try_sample(combination)
    if len(sampler.found) < count and not allow_fewer:
        raise _too_few(sampler, count)
    return FormatList(
        base=base,
        axis=axis.name,
        seed=seed,
        formats=tuple(sampler.found),
        sizes={name: len(values) for name, values in axis.slots.items()},
        rejected=dict(sampler.rejected),
        most_choices=most_choices,
    )


class _Sampler:
    """Formats accepted so far, and why others were not."""

    def __init__(self, base: PromptFormat, axis: Axis, most_choices: int) -> None:
        self.base, self.axis, self.most_choices = base, axis, most_choices
        self.total = prod(len(values) for values in axis.slots.values())
        self.rejected: Counter[str] = Counter()
        self.found: list[ListedFormat] = []
        self._seen: set[Any] = set()
        self._names: set[str] = set()
        self._add_base()

    def try_sample(self, combination: int) -> None:
        """Keep the combination of that number if it passes every check and is new."""
        variant = self.axis.fill(self._values(combination))
        probe = Probe(self.base, variant.format, self.most_choices)
        reason = failed_check(probe, self.axis.checks)
        if reason is None and not self._is_new(probe, variant):
            reason = DUPLICATE
        if reason is not None:
            self.rejected[reason] += 1
            return
        self.found.append(_renamed(variant, self._name(variant)))

    def _add_base(self) -> None:
        probe = Probe(self.base, self.base, self.most_choices)
        reason = failed_check(probe, BASE_CHECKS)
        if reason is not None:
            raise FormatError(
                f"Format {self.base.name!r} cannot be varied: it fails the check {reason!r} itself. "
                f"{_about(reason)} Correct the format, or start from another."
            )
        base = ListedFormat(self.base, self._values(0))
        self._is_new(probe, base)
        name = base.name
        if name in format_names() and get_format(name).fingerprint != self.base.fingerprint:
            name = self._name(base)  # a task's own format under a known name
        self._names.add(name)
        self.found.append(_renamed(base, name))

    def _values(self, combination: int) -> dict[str, str]:
        """The slot values of a combination; number 0 is the base's own."""
        values = {}
        for name, options in self.axis.slots.items():
            combination, index = divmod(combination, len(options))
            values[name] = options[index]
        return values

    def _is_new(self, probe: Probe, variant: ListedFormat) -> bool:
        """Whether it looks unlike all before, as plain text and as chat; if so, it is noted."""
        options = tuple(variant.options.items())
        keys = {(way, digest, options) for way, digest in enumerate(probe.digests)}
        if keys & self._seen:
            return False
        self._seen |= keys
        return True

    def _name(self, variant: ListedFormat) -> str:
        """A name made from the content, so that two lists give different formats different names."""
        if variant.options:
            shots, seed = variant.options["num_fewshot"], variant.options.get("fewshot_seed")
            return f"{self.base.name}-{shots}shot{'' if seed is None else f'-seed{seed}'}"
        digits = variant.format.fingerprint
        names = (f"{self.base.name}-{digits[:size]}" for size in (_NAME_DIGITS, len(digits)))
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        return name


def _renamed(listed: ListedFormat, name: str) -> ListedFormat:
    return replace(listed, format=replace(listed.format, name=name))


def _about(reason: str) -> str:
    """What a check asks for, without its number."""
    return re.sub(r"^\(\d+\) ", "", (CHECKS[reason].__doc__ or "").strip())


def _shuffled(total: int, rng: random.Random) -> Iterator[int]:
    """The numbers from 1 to ``total - 1`` in random order, without a list of them.

    Only ``rng.random`` is used, as every Python promises the same sequence for it.
    """
    moved: dict[int, int] = {}
    for last in range(total - 1, 0, -1):
        at = 1 + int(rng.random() * last)
        yield moved.get(at, at)
        moved[at] = moved.pop(last, last)


def _one_axis(axes: Sequence[str]) -> str:
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    for name in names:
        if name not in AXES:
            raise UsageError(
                f"There is no axis {name!r}.{did_you_mean(name, AXES)} Axes: {listing(AXES)}."
            )
    if len(names) != 1:
        raise UsageError(
            f"One list varies one axis, not {' and '.join(names) or 'none'}: a spread over several "
            "would mix effects. Make a list for each."
        )
    return names[0]


def _check_count(count: int, most_choices: int) -> None:
    if count < 1:
        raise UsageError(f"The number of formats must be 1 or more, not {count}.")
    if most_choices < 2:
        raise UsageError(f"The number of choices must be 2 or more, not {most_choices}.")


def _too_few(sampler: _Sampler, count: int) -> UsageError:
    axis, there_are, name = sampler.axis, len(sampler.found), sampler.base.name
    if not axis.slots:
        return UsageError(
            f"Format {name!r} has nothing to vary on the axis {axis.name!r}: {axis.lack}."
        )
    tried = there_are + sampler.rejected.total()
    there = f"{counted(there_are, 'distinct format')} on the axis {axis.name!r}"
    if tried < sampler.total:
        reasons = ", ".join(f"{reason}: {number}" for reason, number in sampler.rejected.items())
        there += f" in {tried} of {sampler.total} combinations (left out: {reasons})"
    fewer = f"Ask for at most {there_are}, or start" if there_are > 1 else "Start"
    return UsageError(
        f"Format {name!r} has {there}, the base included; {count} are asked for. {fewer} from another "
        "format."
    )


_HEAD = {
    "layout": "{count} formats that ask what {base} asks, in the same words; only the layout differs.",
    "wording": "{count} formats that ask what {base} asks, in other words.",
    "shots": "{count} ways to put few-shot examples before the questions of {base}.",
    "reasoning": "{base}, with and without reasoning before the answer.",
}
_HOW = "# Run them: lm-eval sweep --formats FILE. Make them known by name: --format_path FILE."


def _dumped(data: Any) -> str:
    """YAML with one line for each field, in which ``\\n`` and other marks are escaped."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        style = None if value.isprintable() else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    def mapping(dumper: yaml.SafeDumper, value: _Lines | _FlowMapping) -> yaml.Node:
        is_line = isinstance(value, _FlowMapping)
        return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=is_line)

    Dumper.add_representer(str, text)
    Dumper.add_representer(_Lines, mapping)
    Dumper.add_representer(_FlowMapping, mapping)
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 10_000}
    return str(yaml.dump(data, Dumper=Dumper, default_flow_style=None, **options))


class _FlowMapping(dict[str, Any]):
    """A mapping that is written in one line."""


class _Lines(dict[str, Any]):
    """A mapping that is written with a line for each key."""


def _difference(fmt: PromptFormat, base: PromptFormat) -> dict[str, Any]:
    theirs = base.as_data()
    ours = fmt.as_data().items()
    return {key: value for key, value in ours if key != "name" and value != theirs[key]}


def _base_spec(base: PromptFormat) -> str | dict[str, Any]:
    """The base's name if that name will find it, otherwise all its fields."""
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
    try:
        return FormatList(
            base=saved.base,
            axis=axis,
            seed=int(head.get("seed", DEFAULT_SEED)),
            formats=saved.entries,
            sizes={name: int(count) for name, count in (head.get("sizes") or {}).items()},
            rejected={name: int(count) for name, count in (head.get("rejected") or {}).items()},
            most_choices=int(head.get("most_choices", MOST_CHOICES)),
        )
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f"{saved.path}: seed and most_choices must be whole numbers; sizes and rejected must map "
            "names to whole numbers.",
            path=saved.path,
        ) from None
