"""Names on the command line become tasks: files are found, read, and their formats chosen.

In: ``my_task``, ``my_task@cloze``, ``my_task@*``, a group, a tag, a glob, a ``.yaml`` file or a folder.
Out: ``ConfigurableTask`` objects and the groups they stand in.
"""

from __future__ import annotations

import fnmatch
import inspect
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Union

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.config.yaml import load_yaml
from lm_eval.errors import (
    ConfigError,
    FieldError,
    LmEvalError,
    LmEvalWarning,
    UnknownFormatError,
    UnknownTaskError,
    UsageError,
    did_you_mean,
    listing,
    nearest,
)
from lm_eval.registry import TASK_GROUPS, TASKS
from lm_eval.tasks.config import CONFIG_KEYS, TaskConfig
from lm_eval.tasks.groups import GROUP_KEYS, Group, GroupConfig
from lm_eval.tasks.index import IndexedFile, index_folder
from lm_eval.tasks.task import ConfigurableTask

Kind = Literal["task", "group", "tag"]
Selector = Union[str, Mapping[str, Any], ConfigurableTask, Group]
Selectors = Union[Selector, Iterable[Selector]]


@dataclass(frozen=True)
class Entry:
    """Where a name comes from."""

    name: str
    kind: Kind
    path: str | None = None
    members: tuple[str, ...] = ()
    """The tasks that carry a tag."""
    also: str | None = None
    """Another file of the same folder that defines this name."""


class TaskManager:
    """Finds tasks by name in the built-in library and in ``include_path``.

    ``run_code=False`` loads everything but refuses to call a task's Python functions. ``parity``
    undoes the deliberate differences from EleutherAI's harness, for comparisons with it.
    ``metadata`` is added to that of every task, over its own keys; ``verbosity`` is the level of
    the ``lm_eval`` logger, to which helper modules write.
    """

    def __init__(
        self,
        include_path: str | Path | Sequence[str | Path] | None = None,
        *,
        include_defaults: bool = True,
        run_code: bool = True,
        parity: bool = False,
        metadata: Mapping[str, Any] | None = None,
        verbosity: str | None = None,
    ) -> None:
        if verbosity is not None:
            set_verbosity(verbosity)
        self.parity = parity
        self._metadata = dict(metadata or {})
        self._run_code = run_code
        paths = [include_path] if isinstance(include_path, str | Path) else include_path or []
        roots = [_library()] if include_defaults else []
        for path in paths:
            if not Path(path).exists():
                raise UsageError(
                    f"--include_path {str(path)!r} does not exist."
                    f"{did_you_mean(Path(path).name, _folders_beside(Path(path)))} "
                    "Give a folder with task files."
                )
        self._roots = [*roots, *(Path(path) for path in paths)]
        self._index: dict[str, Entry] | None = None
        self._open_groups: list[str] = []
        self.problems: list[LmEvalError] = []
        """Files that could not be indexed; the other names are there nonetheless."""

    @property
    def index(self) -> dict[str, Entry]:
        """Every known name. Files are read when it is first asked for."""
        if self._index is None:
            self._index = {}
            for root in self._roots:
                self._add_root(root)
        return self._index

    def names(self, kind: Kind) -> list[str]:
        """The known names of a kind, sorted."""
        return sorted(name for name, entry in self.index.items() if entry.kind == kind)

    @property
    def all_tasks(self) -> list[str]:
        """Every known name: tasks, groups and tags."""
        return sorted(self.index)

    @property
    def all_subtasks(self) -> list[str]:
        return self.names("task")

    @property
    def all_groups(self) -> list[str]:
        return self.names("group")

    @property
    def all_tags(self) -> list[str]:
        return self.names("tag")

    @property
    def task_index(self) -> Mapping[str, Entry]:
        return self.index

    def match_tasks(self, task_list: Iterable[str]) -> list[str]:
        """The known names that match any of these names and patterns, sorted."""
        found = {name for one in task_list for name in fnmatch.filter(self.index, one)}
        return sorted(found)

    def load_task_or_group(self, task_list: Selectors) -> dict[Any, Any]:
        """What is named, nested: ``{task name: task, group: {task name: task, …}}``."""
        return nested(self._select_all(task_list))

    def load(self, selectors: Selectors) -> dict[str, Any]:
        """The tasks and groups that ``selectors`` name.

        ``{"tasks": {name: task}, "groups": {name: group}, "group_map": {name: member names}}``.
        A selector is a string, a mapping with the keys of a task file, or a task object.
        """
        return gathered(self._select_all(selectors))

    def _select_all(self, selectors: Selectors) -> list[ConfigurableTask | Group]:
        is_one = isinstance(selectors, str | Mapping | ConfigurableTask | Group)
        wanted: Any = [selectors] if is_one else selectors
        found = [one for selector in wanted for one in self._select_any(selector)]
        for item in found if self._metadata else ():
            for task in item.tasks() if isinstance(item, Group) else [item]:
                task.config.metadata = {**(task.config.metadata or {}), **self._metadata}
        return found

    def _select_any(self, selector: Selector) -> list[ConfigurableTask | Group]:
        if isinstance(selector, ConfigurableTask | Group):
            return [selector]
        if isinstance(selector, str):
            return self.select(selector)
        return self._select_mapping(selector)

    def _select_mapping(self, keys: Mapping[str, Any]) -> list[ConfigurableTask | Group]:
        """A task or group given as a mapping; a known task's other keys replace its own."""
        source = "a mapping given to TaskManager.load"
        if "group" in keys:
            return self._with_formats(self._loose_group(keys, source), None)
        name, format_name = split_selector(str(keys.get("task")))
        if self._entry(name) is None:
            return self._with_formats(_config({**keys, "task": name}, source), format_name)
        others = {key: value for key, value in keys.items() if key != "task"}
        return self._with_formats(
            self._overridden(name, others, source, group="tasks"), format_name
        )

    def select(self, selector: str) -> list[ConfigurableTask | Group]:
        """What one selector names, loaded, with its ``@format`` applied."""
        name, format_name = split_selector(selector)
        if name.endswith((".yaml", ".yml")):
            return self._with_formats(self._read_file(Path(name)), format_name)
        if Path(name).is_dir() and ("/" in name or name not in self.index):
            return self._select_folder(Path(name), format_name)
        if any(sign in name for sign in "*?["):
            return self._select_glob(name, format_name)
        return self._with_formats(self._named(name), format_name)

    def config(self, name: str) -> TaskConfig:
        """The config of a task, without a format chosen by ``@``."""
        found = self._named(name)
        if not isinstance(found, TaskConfig):
            raise UnknownTaskError(f"{name!r} is a group or tag, not a task.", name=name)
        return found

    # Finding

    def _named(self, name: str) -> TaskConfig | list[Any] | _LooseGroup | _PythonTask:
        entry = self._entry(name)
        if entry is None and name in TASKS:
            return _PythonTask({"task": name, "class": TASKS.get(name)}, TASKS.place(name))
        if entry is None and name in TASK_GROUPS:
            return [self._named(member) for member in TASK_GROUPS[name]]
        if entry is None:
            raise self._unknown(name)
        if entry.kind == "tag":
            return [self._named(member) for member in sorted(entry.members)]
        return self._read_file(Path(str(entry.path)))

    def _entry(self, name: str) -> Entry | None:
        """What a name stands for; a name with two meanings is an error, once it is asked for."""
        entry = self.index.get(name)
        if entry is not None and entry.also is not None:
            raise _defined_twice(entry)
        return entry

    def _unknown(self, name: str) -> UnknownTaskError:
        problem = ""
        if self.problems:
            problem = f" Not everything could be read; the first problem: {self.problems[0]}"
        return UnknownTaskError(
            f"Unknown task {name!r}.{did_you_mean(name, self.index)} Known: "
            f"{listing(sorted(self.index))}. Add a folder of task files with --include_path; list "
            f"all with `lm-eval ls tasks`.{problem}",
            name=name,
            nearest=nearest(name, self.index),
        )

    def _select_glob(self, pattern: str, format_name: str | None) -> list[ConfigurableTask | Group]:
        names = fnmatch.filter(sorted(self.index), pattern)
        if not names:
            raise UnknownTaskError(
                f"No task matches {pattern!r}. Known: {listing(sorted(self.index))}. List all with "
                "`lm-eval ls tasks`.",
                name=pattern,
            )
        found = [self._with_formats(self._named(name), format_name) for name in names]
        return [item for items in found for item in items]

    def _select_folder(
        self, folder: Path, format_name: str | None
    ) -> list[ConfigurableTask | Group]:
        indexed, problems = index_folder(folder)
        if problems:
            raise problems[0]
        files = [Path(file.path) for file in indexed if file.kind is not None]
        if not files:
            raise UnknownTaskError(
                f"Folder {str(folder)!r} holds no task files: .yaml files with a `task` or `group`.",
                name=str(folder),
            )
        found = [self._with_formats(self._read_file(file), format_name) for file in files]
        return [item for items in found for item in items]

    # Reading

    def _read_file(self, path: Path) -> TaskConfig | _LooseGroup | _PythonTask:
        if path.is_dir():
            raise ConfigError(f"{str(path)!r} is a folder, not a task file.", path=str(path))
        if not path.is_file():
            raise ConfigError(
                f"Task file {str(path)!r} does not exist."
                f"{did_you_mean(path.name, _names_beside(path))}",
                path=str(path),
            )
        data = load_yaml(path, run_code=self._run_code)
        kind = _kind_of(data)
        if kind == "group":
            return self._loose_group(data, str(path))
        if kind == "task":
            return _PythonTask(data, str(path)) if "class" in data else _config(data, str(path))
        raise ConfigError(
            f"{path} names neither a `task` nor a `group`, so it cannot be run by itself.",
            path=str(path),
        )

    def _loose_group(self, data: Mapping[str, Any], source: str) -> _LooseGroup:
        config = GroupConfig.from_mapping(data, source=source)
        shared = {key: value for key, value in data.items() if key not in GROUP_KEYS}
        shared.pop("tag", None)
        for key in shared:
            if key not in CONFIG_KEYS:
                valid = [*GROUP_KEYS, *CONFIG_KEYS]
                raise ConfigError(
                    f"{source}: group {config.group!r} has an unknown key {str(key)!r}."
                    f"{did_you_mean(str(key), valid)} Its own keys: {listing(GROUP_KEYS)}; every key "
                    "of a task may stand there too, for all its members.",
                    path=source,
                )
        with self._inside(config.group, source):
            members = [self._member(member, config, shared, source) for member in config.task]
        return _LooseGroup(config, members)

    @contextmanager
    def _inside(self, group: str, source: str) -> Iterator[None]:
        """Keep track of the groups being read, so that a circle ends in an error."""
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
    ) -> _Member:
        """One entry of a group's list: a name with or without ``@format``, or an inline mapping."""
        if isinstance(member, str):
            name, format_name = split_selector(member)
            if name not in self.index:
                raise UnknownTaskError(
                    f"{source}: group {group.group!r} names {name!r}, which is no task, group or "
                    f"tag.{did_you_mean(name, self.index)} List all with `lm-eval ls tasks`.",
                    name=name,
                    nearest=nearest(name, self.index),
                )
            found = self._overridden(name, dict(shared), source, group=group.group)
            return _Member(found, format_name)
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
        overrides = {**shared, **{k: v for k, v in member.items() if k != "task"}}
        found = self._overridden(
            name,
            overrides,
            source,
            group=group.group,
            is_asked_as_format=format_name is not None,
        )
        return _Member(found, format_name)

    def _inline_group(
        self, member: Mapping[str, Any], group: GroupConfig, shared: Mapping[str, Any], source: str
    ) -> _Member:
        if "task" in member:
            inner = {**shared, **member, "group": f"{group.group}::{member['group']}"}
            return _Member(self._loose_group(inner, source), None)
        name, format_name = split_selector(str(member["group"]))
        overrides = {**shared, **{k: v for k, v in member.items() if k != "group"}}
        found = self._overridden(name, overrides, source, group=group.group)
        return _Member(found, format_name)

    def _overridden(
        self,
        name: str,
        overrides: dict[str, Any],
        source: str,
        *,
        group: str,
        is_asked_as_format: bool = False,
    ) -> Any:
        """A named task, group or tag with keys replaced; an unknown name defines a task in place."""
        entry = self._entry(name)
        if entry is None and not _brings_docs(overrides):
            raise UnknownTaskError(
                f"{source}: {name!r} is no task, group or tag.{did_you_mean(name, self.index)} To "
                "define a task in place, give it a dataset_path.",
                name=name,
                nearest=nearest(name, self.index),
            )
        if entry is None:
            if not ({"formats", "template"} & overrides.keys() or is_asked_as_format):
                name = f"{group}::{name}"  # as the harness calls a task defined in a group
            return _config({"task": name, **overrides}, source)
        if entry.kind == "tag":
            members = sorted(entry.members)
            return [self._overridden(one, overrides, source, group=group) for one in members]
        if not overrides:
            return self._read_file(Path(str(entry.path)))
        data = load_yaml(str(entry.path), run_code=self._run_code)
        if entry.kind == "group":
            outer = {k: v for k, v in overrides.items() if k not in GROUP_KEYS}
            return self._loose_group({**data, **outer}, str(entry.path))
        return _config({**data, **overrides, "task": name}, str(entry.path))

    # Formats

    def _with_formats(self, found: Any, format_name: str | None) -> list[ConfigurableTask | Group]:
        if isinstance(found, _LooseGroup):
            return [self._built_group(found, format_name)]
        if isinstance(found, list):
            return [item for one in found for item in self._with_formats(one, format_name)]
        if isinstance(found, _PythonTask):
            return [found.build(format_name, parity=self.parity)]
        if format_name == "*":
            return _every_format(found, parity=self.parity)
        return [ConfigurableTask(found, format_name=format_name, parity=self.parity)]

    def _built_group(self, loose: _LooseGroup, format_name: str | None) -> Group:
        members: list[ConfigurableTask | Group] = []
        for member in loose.members:
            members += self._with_formats(member.found, member.format_name or format_name)
        return Group(loose.config, members)

    # Indexing

    def _add_root(self, root: Path) -> None:
        files, problems = index_folder(root)
        self.problems += problems
        tags: dict[str, list[str]] = {}
        for file in files:
            self._add_file(file, root)
            for tag in file.tags if file.kind == "task" else ():
                tags.setdefault(tag, []).append(file.name)
        for tag, members in tags.items():
            known = self.index.get(tag)
            if known is None or known.kind == "tag":
                both = dict.fromkeys([*(known.members if known else ()), *members])
                self.index[tag] = Entry(tag, "tag", members=tuple(both))

    def _add_file(self, file: IndexedFile, root: Path) -> None:
        """Note what one file defines. Of two files with one name, neither is chosen.

        With ``parity`` the harness's rules hold: the first of a root, and of two roots the later.
        """
        if file.kind is None:
            return
        known = self.index.get(file.name)
        entry = Entry(file.name, file.kind, file.path)
        if known is None or known.kind == "tag" or known.path == file.path:
            self.index[file.name] = entry
        elif not self.parity:
            self.index[file.name] = replace(known, also=file.path)
            self.problems.append(_defined_twice(self.index[file.name]))
        elif not Path(str(known.path)).is_relative_to(root):
            warnings.warn(
                f"{file.kind.capitalize()} {file.name!r} of {file.path} takes the place of the one "
                f"in {known.path}.",
                LmEvalWarning,
                stacklevel=2,
            )
            self.index[file.name] = entry


@dataclass
class _PythonTask:
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
        made = self.data["class"]
        task_class = made.resolve() if isinstance(made, FunctionRef) else made
        settings = {k: v for k, v in self.data.items() if k not in ("class", "task", "tag")}
        takes_config = "config" in inspect.signature(task_class.__init__).parameters
        task = task_class(config=settings) if takes_config else task_class()
        if not isinstance(task, ConfigurableTask):
            raise ConfigError(
                f"{self.source}: `class` gives a {type(task).__name__}, which is no subclass of "
                "lm_eval.api.task.ConfigurableTask."
            )
        task.config.task = name
        task.config.source = task.config.source or self.source
        task.parity = parity
        return task


@dataclass
class _Member:
    found: Any
    format_name: str | None


@dataclass
class _LooseGroup:
    """A group whose members are found but not yet built, because a format may still be chosen."""

    config: GroupConfig
    members: list[_Member]


def gathered(items: Iterable[ConfigurableTask | Group]) -> dict[str, Any]:
    """Tasks and groups by name, as ``TaskManager.load`` returns them."""
    tasks: dict[str, ConfigurableTask] = {}
    groups: dict[str, Group] = {}
    for item in items:
        members = list(item.tasks()) if isinstance(item, Group) else [item]
        for task in members:
            _check_same(tasks.setdefault(task.name, task), task)
        if isinstance(item, Group):
            groups.update({group.name: group for group in item.groups()})
    return {
        "tasks": tasks,
        "groups": groups,
        "group_map": {n: [member.name for member in g.members] for n, g in groups.items()},
    }


def nested(items: Iterable[ConfigurableTask | Group]) -> dict[Any, Any]:
    """Tasks by name, each group as a key before what is in it."""
    return {
        item if isinstance(item, Group) else item.name: (
            nested(item.members) if isinstance(item, Group) else item
        )
        for item in items
    }


def get_task_dict(
    task_name_list: Selectors, task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """What ``TaskManager.load_task_or_group`` gives, with the built-in tasks where none is given."""
    return (task_manager or TaskManager()).load_task_or_group(task_name_list)


def set_verbosity(level: str) -> None:
    """The least level that the ``lm_eval`` logger lets through, such as ``INFO``."""
    known = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if str(level).upper() not in known:
        raise UsageError(
            f"verbosity {level!r} is no level.{did_you_mean(str(level), known)} "
            f"Levels: {listing(known)}."
        )
    logging.getLogger("lm_eval").setLevel(str(level).upper())


def split_selector(selector: str) -> tuple[str, str | None]:
    """``my_task@mcq::gpqa`` → ``("my_task", "mcq::gpqa")``; no ``@``, no format."""
    whole = selector.strip()
    name, at, format_name = whole.rpartition("@")
    if not at or "/" in format_name or format_name.endswith((".yaml", ".yml")):
        return whole, None  # an @ in a path is part of it
    if not name or not format_name or ("@" in name and "/" not in name):
        raise UsageError(
            f"{selector!r} is no task@format: one name belongs on each side of one @, such "
            "as my_task@mcqa, or my_task@* for every format of the task."
        )
    return name, format_name


def _every_format(config: TaskConfig, *, parity: bool) -> list[ConfigurableTask | Group]:
    """``task@*``: the task's own formats, or every built-in that its fields can fill."""
    built: list[ConfigurableTask | Group] = []
    for name in config.format_choices():
        task = ConfigurableTask(config, format_name=name, parity=parity)
        if config.has_format_map or _fits(task):
            built.append(task)
    if not built:
        raise UsageError(
            f"Task {config.task!r} has no format that its fields can fill. It needs doc_to_text, "
            "doc_to_target and, for choices, doc_to_choice."
        )
    return built


def _fits(task: ConfigurableTask) -> bool:
    """Whether the format can be filled from the task's first doc (a ranking needs an order)."""
    try:
        task.ask(0)
    except LmEvalError:
        return False
    return True


def _config(data: Mapping[str, Any], source: str) -> TaskConfig:
    """A task's config; errors that do not say where they come from name the task and its file."""
    name = data.get("task")
    if not isinstance(name, str) or not name.strip() or "@" in name or "," in name:
        raise ConfigError(
            f"{source}: {shorten(name)} cannot be a task's name: it would not be found by "
            "`--tasks`, where @ chooses a format and a comma stands between tasks. Choose another.",
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


def _check_same(known: ConfigurableTask, task: ConfigurableTask) -> None:
    """Refuse two different tasks under one name: only one of them would be run."""
    if known.config.source != task.config.source:
        raise ConfigError(
            f"Task {task.name!r} was selected from two files: {known.config.source} and "
            f"{task.config.source}. Rename one of the two."
        )
    one, other = (
        {**t.config.to_dict(), "doc_to_text": None, "doc_to_choice": None, "doc_to_target": None}
        for t in (known, task)
    )
    if one != other or known.config.raw != task.config.raw:
        changed = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
        raise ConfigError(
            f"Task {task.name!r} was selected twice with different settings"
            f"{' (' + listing(changed) + ')' if changed else ''}, and results go by its name. Give "
            "one of the two a name of its own."
        )


def _defined_twice(entry: Entry) -> ConfigError:
    return ConfigError(
        f"{entry.kind.capitalize()} {entry.name!r} is defined twice: in {entry.path} and in "
        f"{entry.also}. Rename one of the two.",
        path=entry.also,
    )


def _brings_docs(keys: Mapping[str, Any]) -> bool:
    return keys.get("dataset_path") is not None or keys.get("custom_dataset") is not None


def _library() -> Path:
    return Path(str(resources.files("lm_eval.tasks"))) / "library"


def _kind_of(data: Mapping[str, Any]) -> Literal["task", "group"] | None:
    if "group" in data:
        return "group"
    return "task" if "task" in data and isinstance(data["task"], str) else None


def _folders_beside(path: Path) -> list[str]:
    parent = path.parent
    return [file.name for file in parent.iterdir() if file.is_dir()] if parent.is_dir() else []


def _names_beside(path: Path) -> list[str]:
    if not path.parent.is_dir():
        return []
    return [file.name for file in path.parent.glob("*.y*ml") if file.is_file()]
