"""Names and files → what they define. Nothing is built, because a format may still be chosen.

In: a task's name, a file, or a mapping with the keys of one. Out: a ``TaskConfig``, a ``PythonTask``, a
``GroupSpec`` with known members, or a list of those: the members of a tag.
"""

from __future__ import annotations

import copy
import inspect
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import missing_package, resolved
from lm_eval.config.yaml import IncludeCache, load_yaml
from lm_eval.errors import (
    ConfigError,
    FieldError,
    HelperError,
    LmEvalError,
    LmEvalWarning,
    UnknownFormatError,
    UnknownTaskError,
    UsageError,
    did_you_mean,
    listing,
    nearest,
    nearest_names,
)
from lm_eval.registry import TASK_GROUPS, TASKS
from lm_eval.tasks.checks import with_files_located
from lm_eval.tasks.config import CONFIG_KEYS, TaskConfig
from lm_eval.tasks.families import Family
from lm_eval.tasks.groups import GROUP_KEYS, GroupConfig, GroupSpec, Member
from lm_eval.tasks.index import Entry, TaskNames, split_selector
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.tasks.keys.sample_rows import SampleUse


@dataclass
class PythonTask:
    """A task whose YAML names a class."""

    data: Mapping[str, Any]
    source: str

    def build(self, format_name: str | None, *, parity: bool) -> ConfigurableTask:
        name = str(self.data["task"])
        if format_name is not None:
            raise UsageError(
                f"Task {name!r} is a Python class ({self.source}), which lays out its own prompts; "
                "@format works on tasks whose YAML names their fields."
            )
        task = self._made(self.task_class())
        task.config.task = name
        task.config.source = task.config.source or self.source
        task.parity = parity
        return task

    def task_class(self) -> type[ConfigurableTask]:
        """The class itself, which must be a ``ConfigurableTask``."""
        task_class = resolved(self.data["class"])
        if not (isinstance(task_class, type) and issubclass(task_class, ConfigurableTask)):
            raise ConfigError(
                f"{self.source}: `class` gives {shorten(task_class)}, which is not a subclass of "
                "lm_eval.api.task.ConfigurableTask.",
                path=self.source,
            )
        return task_class

    def _made(self, task_class: type[ConfigurableTask]) -> ConfigurableTask:
        apart = ("task", "tag", "group")
        settings = {key: value for key, value in self.data.items() if key not in apart}
        takes_config = "config" in inspect.signature(task_class.__init__).parameters
        try:
            return task_class(config=settings) if takes_config else task_class()
        except LmEvalError:
            raise
        except Exception as error:  # the constructor may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise HelperError(
                f"{self.source}: the class {task_class.__name__} of task {self.data['task']!r} "
                f"cannot be made: {reason}",
                path=self.source,
                reason=reason,
                package=missing_package(error),
            ) from error


NAMES = Path(__file__).parent / "names.yaml"
"""Names of the harness that the library calls otherwise."""

Definition = TaskConfig | PythonTask | GroupSpec | list[Any]


@dataclass
class Definitions:
    """What names in some folders mean."""

    roots: Sequence[Path]
    run_code: bool
    parity: bool
    metadata: Mapping[str, Any]
    sample_rows: SampleUse = "never"
    data_pool: dict[str, Any] = field(default_factory=dict)
    """The data of the tasks that are loaded together; a new one for each load."""
    _includes: IncludeCache = field(default_factory=IncludeCache)
    _families: dict[str, Family] = field(default_factory=dict)
    _open_groups: list[str] = field(default_factory=list)

    @cached_property
    def known(self) -> TaskNames:
        """All names. Files are read on first use."""
        return TaskNames(self.roots, parity=self.parity)

    @property
    def index(self) -> dict[str, Entry]:
        """Every known name and where it comes from."""
        return self.known.entries

    @property
    def problems(self) -> list[LmEvalError]:
        """Files that could not be indexed; empty before the index is first used."""
        return self.known.problems if "known" in vars(self) else []

    def named(self, name: str) -> Definition:
        """What a name defines, in a file or by registration; an unknown one is an error."""
        entry = self.entry(name)
        if entry is None and name in TASKS:
            return PythonTask({"task": name, "class": TASKS.get(name)}, TASKS.place(name))
        if entry is None and name in TASK_GROUPS:
            return [self.named(member) for member in TASK_GROUPS[name]]
        if entry is None:
            raise self._unknown(name)
        if entry.hides is not None:
            warnings.warn(
                f"{entry.kind.capitalize()} {name!r} is that of {entry.path}, which hides the one of "
                "the library.",
                LmEvalWarning,
                stacklevel=2,
            )
        return self._of_entry(entry, {})

    def group_with(self, name: str) -> str | None:
        """The one group of a user that calls a member ``name`` with ``as``; None for several."""
        outside = [entry for entry in self.index.values() if entry.is_own_group]
        found = [e.name for e in outside if name in _names_given(self._load(str(e.path)))]
        return found[0] if len(found) == 1 else None

    def entry(self, name: str) -> Entry | None:
        """What a name means; a name that two files define is an error when it is asked for."""
        entry = self.index.get(name)
        if entry is not None and entry.also is not None:
            raise entry.defined_twice()
        return entry

    def _unknown(self, name: str) -> UnknownTaskError:
        problem = ""
        if self.problems:
            problem = f" Not everything could be read; the first problem: {self.problems[0]}"
        here = called_here(name)
        if here is not None and split_selector(here)[0] in self.index:
            return UnknownTaskError(
                f"Task {name!r} of lm-eval is called {here} here: `--tasks {here}`. "
                f"{_where_to_look(name)}.{problem}",
                name=name,
                nearest=here,
            )
        near = nearest_names(name, self.index)
        others = f" Other names like it: {listing(near[1:])}." if near[1:] else ""
        return UnknownTaskError(
            f"Unknown task {name!r}.{did_you_mean(name, self.index)}{others} Search with `lm-eval ls "
            f"tasks --search {shlex.quote(name)}`, or see all with `lm-eval ls tasks`. "
            f"{_where_to_look(name)}.{problem}",
            name=name,
            nearest=nearest(name, self.index),
        )

    def read_file(self, path: Path) -> TaskConfig | GroupSpec | PythonTask:
        """What a file defines: a task or a group."""
        if path.is_dir():
            raise ConfigError(f"{str(path)!r} is a folder, not a task file.", path=str(path))
        if not path.is_file():
            raise ConfigError(
                f"Task file {str(path)!r} does not exist."
                f"{did_you_mean(path.name, _names_beside(path))}",
                path=str(path),
            )
        return self._defined(self._load(path), str(path), {})

    def _of_entry(self, entry: Entry, overrides: Mapping[str, Any]) -> Definition:
        """What a known name defines, with keys replaced."""
        if entry.kind == "tag":
            members = filter(None, map(self.entry, sorted(entry.members)))
            return [self._of_entry(member, overrides) for member in members]
        path = str(entry.path)
        if entry.kind == "group":
            overrides = {key: value for key, value in overrides.items() if key not in GROUP_KEYS}
        if entry.family is not None:
            return self._of_family(self._family(path), entry.name, overrides, path)
        return self._defined(self._load(path), path, overrides)

    def _defined(
        self, data: dict[str, Any], source: str, overrides: Mapping[str, Any]
    ) -> TaskConfig | GroupSpec | PythonTask:
        """What the keys of a file define, with some of them replaced."""
        if "each" in data:
            family = self._family(source, data)
            return self._family_group(family, family.name, overrides, source)
        if "group" in data and "class" not in data:
            return self.group_of({**data, **overrides}, source)
        if not isinstance(data.get("task"), str):
            raise ConfigError(
                f"{source} names neither a `task` nor a `group`, so it cannot be run by itself.",
                path=source,
            )
        keys = {**data, **overrides, "task": data["task"]}
        if "class" in data:
            return PythonTask(keys, source)
        return self.config_of(keys, source, overridden=overrides)

    def _load(self, path: str | Path) -> dict[str, Any]:
        return load_yaml(path, run_code=self.run_code, includes=self._includes)

    def _family(self, path: str, data: Mapping[str, Any] | None = None) -> Family:
        """The family that a file defines; read once."""
        if path not in self._families:
            loaded = self._load(path) if data is None else data
            self._families[path] = Family.from_mapping(loaded, source=path)
        return self._families[path]

    def _of_family(
        self, family: Family, name: str, overrides: Mapping[str, Any], source: str
    ) -> TaskConfig | GroupSpec:
        """A task or group of a family, with keys replaced."""
        if name not in family.members:
            return self._family_group(family, name, overrides, source)
        keys = family.task_keys(name, overrides).items()
        of_task = {key: value for key, value in keys if key in overrides or _is_of_task(key)}
        return self.config_of({**of_task, "task": name}, source, overridden=overrides)

    def _family_group(
        self, family: Family, name: str, overrides: Mapping[str, Any], source: str
    ) -> GroupSpec:
        """The group of all tasks of a family, its areas as groups in it; or one of these areas."""
        is_whole = name == family.name
        groups = list(family.areas) if is_whole else []
        tasks = family.outside_areas() if is_whole else list(family.areas[name])
        settings = {key: value for key, value in family.keys.items() if key in GROUP_KEYS}
        settings |= {"group": name, "task": [*groups, *tasks]}
        if not is_whole:
            settings.pop("group_alias", None)
        inside = [self._of_family(family, member, overrides, source) for member in settings["task"]]
        config = GroupConfig.from_mapping(settings, source=source)
        return GroupSpec(config, [Member(definition, None) for definition in inside])

    def config_of(
        self, data: Mapping[str, Any], source: str, *, overridden: Iterable[str] = ()
    ) -> TaskConfig:
        """The task that a mapping with the keys of a task file defines."""
        metadata = data.get("metadata")
        if self.metadata and (metadata is None or isinstance(metadata, Mapping)):
            data = {**data, "metadata": {**(metadata or {}), **self.metadata}}
        config = _task_config(data, source)
        config.overridden = frozenset(overridden)
        config.sample_use = self.sample_rows
        config.data_pool = self.data_pool
        return config

    def group_of(self, data: Mapping[str, Any], source: str) -> GroupSpec:
        """The group that a mapping with the keys of a group file defines."""
        config = GroupConfig.from_mapping(data, source=source)
        config.metadata = {**(config.metadata or {}), **self.metadata} or None
        shared = {key: value for key, value in data.items() if key not in GROUP_KEYS}
        shared.pop("tag", None)
        for key in shared:
            if key not in CONFIG_KEYS:
                valid = [*GROUP_KEYS, *CONFIG_KEYS]
                raise ConfigError(
                    f"{source}: group {config.group!r} has an unknown key {str(key)!r}."
                    f"{did_you_mean(str(key), valid)} Its own keys: {listing(GROUP_KEYS)}; every key "
                    "of a task may be there too, for all its members.",
                    path=source,
                )
        with self._inside(config.group, source):
            members = [self._member(member, config, shared, source) for member in config.task]
        return GroupSpec(config, members)

    @contextmanager
    def _inside(self, group: str, source: str) -> Iterator[None]:
        """Keep track of the groups being read: a group that contains itself is an error."""
        if group in self._open_groups:
            chain = " → ".join([*self._open_groups[self._open_groups.index(group) :], group])
            raise ConfigError(
                f"{source}: group {group!r} contains itself: {chain}. Remove one of the two.",
                path=source,
            )
        self._open_groups.append(group)
        try:
            yield
        finally:
            self._open_groups.pop()

    def _member(
        self, member: Any, group: GroupConfig, shared: Mapping[str, Any], source: str
    ) -> Member:
        """One entry of a group's list: a name with or without ``@format``, or an inline mapping."""
        if isinstance(member, str):
            name, format_name = split_selector(member)
            if name not in self.index:
                raise self._no_member(f"group {group.group!r} names {name!r}, which", name, source)
            definition = self.overridden(name, dict(shared), source, group=group.group)
            return Member(definition, format_name)
        if not isinstance(member, Mapping):
            raise ConfigError(
                f"{source}: group {group.group!r} has a member {shorten(member)}; expected a name "
                "or a mapping with `task`."
            )
        if "group" in member:
            return self._inline_group(member, group, shared, source)
        if not isinstance(member.get("task"), str):
            raise ConfigError(
                f"{source}: an inline member of group {group.group!r} needs a `task` name."
            )
        name, format_name = split_selector(member["task"])
        own = {key: value for key, value in member.items() if key not in ("task", "include", "as")}
        included = self._included(member.get("include"), source)
        overrides = {**shared, **included, **with_files_located(own, source)}
        asked_as = format_name is not None
        definition = self.overridden(
            name, overrides, source, group=group.group, is_asked_as_format=asked_as
        )
        if "as" in member:
            where = f"{source}: group {group.group!r}"
            definition = _renamed(definition, member["as"], where)
            if (other := self.index.get(member["as"])) is not None:
                raise ConfigError(
                    f"{where}: `as: {other.name}` is the {other.kind} of {other.path}, which --tasks "
                    f"{other.name} would run. Give the member a name of its own."
                )
        return Member(definition, format_name)

    def _no_member(
        self, what: str, name: str, source: str, *, in_place: bool = False
    ) -> UnknownTaskError:
        """The error for an unknown name in a group's file; ``what`` begins its message."""
        folder = Path(source).parent
        is_searched = any(folder.is_relative_to(root) for root in self.roots)
        if in_place:
            advice = "To define a task in place, give it a dataset_path."
        elif is_searched or not Path(source).is_file():
            advice = "List all with `lm-eval ls tasks`."
        else:
            advice = f"For the names in the files beside it, add `--include_path {folder}`."
        return UnknownTaskError(
            f"{source}: {what} is not a task, group or tag.{did_you_mean(name, self.index)} {advice}",
            name=name,
            nearest=nearest(name, self.index),
        )

    def _included(self, files: Any, source: str) -> dict[str, Any]:
        """The keys that an inline member includes from files beside the group's file."""
        merged: dict[str, Any] = {}
        for file in [files] if isinstance(files, str) else files or []:
            merged.update(self._load(Path(source).parent / str(file)))
        merged.pop("task", None)
        return merged

    def _inline_group(
        self, member: Mapping[str, Any], group: GroupConfig, shared: Mapping[str, Any], source: str
    ) -> Member:
        if "task" in member:
            inner = {**shared, **member, "group": f"{group.group}::{member['group']}"}
            return Member(self.group_of(inner, source), None)
        name, format_name = split_selector(str(member["group"]))
        overrides = {**shared, **{k: v for k, v in member.items() if k != "group"}}
        definition = self.overridden(name, overrides, source, group=group.group)
        return Member(definition, format_name)

    def overridden(
        self,
        name: str,
        overrides: dict[str, Any],
        source: str,
        *,
        group: str,
        is_asked_as_format: bool = False,
    ) -> Definition:
        """A named task, group or tag with some keys replaced; an unknown name defines a new task."""
        entry = self.entry(name)
        if entry is None and not _brings_docs(overrides):
            raise self._no_member(repr(name), name, source, in_place=True)
        if entry is None:
            if not ({"formats", "template"} & overrides.keys() or is_asked_as_format):
                name = f"{group}::{name}"  # as the harness calls a task defined in a group
            return self.config_of({"task": name, **overrides}, source)
        return self._of_entry(entry, overrides)


def _task_config(data: Mapping[str, Any], source: str) -> TaskConfig:
    """A task's config; its errors name the task and its file."""
    name = data.get("task")
    if not isinstance(name, str) or not name.strip() or "@" in name or "," in name:
        raise ConfigError(
            f"{source}: {shorten(name)} cannot be a task's name: it would not be found by "
            "`--tasks`, where @ chooses a format and a comma separates tasks. Choose another.",
            path=source,
        )
    try:
        return TaskConfig.from_mapping(data, source=source)
    except FieldError as error:
        raise error.located(task=f"{data.get('task')}") from None
    except UnknownFormatError as error:
        raise UnknownFormatError(
            f"{source}: {error}", name=error.name, nearest=error.nearest
        ) from None


def _is_of_task(key: str) -> bool:
    """Whether a key of a family's file applies to its tasks, not only to their group."""
    return key in CONFIG_KEYS or key not in GROUP_KEYS


def _brings_docs(keys: Mapping[str, Any]) -> bool:
    return keys.get("dataset_path") is not None or keys.get("custom_dataset") is not None


def _names_given(group: Mapping[str, Any]) -> Iterator[str]:
    """The names that a group gives to its members with ``as``, those in inline groups included."""
    members = group.get("task")
    for member in members if isinstance(members, list) else ():
        if isinstance(member, Mapping):
            yield from [str(member["as"])] if "as" in member else []
            yield from _names_given(member)


def _names_beside(path: Path) -> list[str]:
    if not path.parent.is_dir():
        return []
    return [file.name for file in path.parent.glob("*.y*ml") if file.is_file()]


def _where_to_look(name: str) -> str:
    if Path(f"{name}.yaml").is_file():
        return f"{name}.yaml is in this folder: add `--include_path .`"
    return (
        "For lm-eval's own task files, add `--include_path` with the folder lm_eval/tasks of an "
        "installed lm-eval; or a folder of yours"
    )


def called_here(name: str) -> str | None:
    """What to type for a name of EleutherAI's harness that the library calls otherwise, if it is one."""
    for other, here in load_yaml(NAMES, run_code=False).items():
        start, star, end = other.partition("*")
        inside = name.removeprefix(start).removesuffix(end)
        if name == other or (star and inside and name == f"{start}{inside}{end}"):
            return str(here).replace("*", inside)
    return None


def _renamed(definition: Definition, name: Any, where: str) -> Definition:
    """A task under another name, so that a group can have it twice with different settings."""
    if not isinstance(definition, TaskConfig):
        raise ConfigError(f"{where}: `as` renames a task, and this member is a group or a tag.")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.:-]+", name):
        raise ConfigError(
            f"{where}: `as` cannot be {shorten(name)}. Give a name of letters, digits, '_', '-' and '.'."
        )
    renamed = copy.copy(definition)
    renamed.task = name
    return renamed
