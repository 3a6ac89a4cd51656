"""Names on the command line become tasks: files are found, read, and their formats chosen.

In: ``my_task``, ``my_task@cloze``, ``my_task@*``, a group, a tag, a glob, a ``.yaml`` file or a folder.
Out: ``ConfigurableTask`` objects and the groups they stand in.
"""

from __future__ import annotations

import fnmatch
import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef, missing_package
from lm_eval.config.yaml import IncludeCache, load_yaml
from lm_eval.errors import (
    ConfigError,
    FieldError,
    HelperError,
    LmEvalError,
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
from lm_eval.tasks.index import index_folder
from lm_eval.tasks.names import Entry, Kind, TaskNames, task_roots
from lm_eval.tasks.task import ConfigurableTask

Selector = Union[str, Mapping[str, Any], ConfigurableTask, Group]
Selectors = Union[Selector, Iterable[Selector]]


class TaskManager:
    """Finds tasks by name in the built-in library and in ``include_path``.

    ``run_code=False`` loads everything but refuses to call a task's Python functions. ``parity``
    undoes the deliberate differences from EleutherAI's harness, for comparisons with it. ``metadata``
    is added to that of every task, and so reaches a ``custom_dataset``. ``verbosity`` is the level of
    the ``lm_eval`` logger, to which helper modules write.

    Where code may run, helpers can import each other as ``lm_eval.tasks.<folder>.<module>``, with
    folders of ``include_path`` after our own.
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
        self._run_code = run_code
        self._metadata = dict(metadata or {})
        self._includes = IncludeCache()
        self._roots = task_roots(include_path, include_defaults=include_defaults)
        if run_code:
            _make_importable(self._roots[1:] if include_defaults else self._roots)
        self._names: TaskNames | None = None
        self._open_groups: list[str] = []

    @property
    def known(self) -> TaskNames:
        """All names. Files are read when it is first asked for."""
        if self._names is None:
            self._names = TaskNames(self._roots, parity=self.parity)
        return self._names

    @property
    def index(self) -> dict[str, Entry]:
        """Every known name and where it comes from."""
        return self.known.entries

    @property
    def problems(self) -> list[LmEvalError]:
        """Files that could not be indexed; none before the index was asked for."""
        return [] if self._names is None else self._names.problems

    def names(self, kind: Kind) -> list[str]:
        """The known names of a kind, sorted."""
        return self.known.of_kind(kind)

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
        return [one for selector in wanted for one in self._select_any(selector)]

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
            return self._with_formats(self._config({**keys, "task": name}, source), format_name)
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

    def read(self, name: str) -> TaskConfig | Group | type[Any]:
        """What a task's or group's file says, with nothing built: a task that is a class stays one."""
        found = self._named(name)
        if isinstance(found, _PythonTask):
            return found.task_class()
        if isinstance(found, TaskConfig):
            return found
        if isinstance(found, _LooseGroup):
            return Group(found.config, [])
        raise UnknownTaskError(f"{name!r} is a tag, not a task or group.", name=name)

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
            raise entry.defined_twice()
        return entry

    def _unknown(self, name: str) -> UnknownTaskError:
        problem = ""
        if self.problems:
            problem = f" Not everything could be read; the first problem: {self.problems[0]}"
        return UnknownTaskError(
            f"Unknown task {name!r}.{did_you_mean(name, self.index)} Known: "
            f"{listing(sorted(self.index))}. {_where_to_look(name)}; list all with `lm-eval ls "
            f"tasks`.{problem}",
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
        data = self._load(path)
        kind = _kind_of(data)
        if kind == "group":
            return self._loose_group(data, str(path))
        if kind == "task":
            return (
                _PythonTask(data, str(path)) if "class" in data else self._config(data, str(path))
            )
        raise ConfigError(
            f"{path} names neither a `task` nor a `group`, so it cannot be run by itself.",
            path=str(path),
        )

    def _load(self, path: str | Path) -> dict[str, Any]:
        return load_yaml(path, run_code=self._run_code, includes=self._includes)

    def _config(self, data: Mapping[str, Any], source: str) -> TaskConfig:
        metadata = data.get("metadata")
        if self._metadata and (metadata is None or isinstance(metadata, Mapping)):
            data = {**data, "metadata": {**(metadata or {}), **self._metadata}}
        return _config(data, source)

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
        own = {key: value for key, value in member.items() if key not in ("task", "include")}
        overrides = {**shared, **self._included(member.get("include"), source), **own}
        found = self._overridden(
            name,
            overrides,
            source,
            group=group.group,
            is_asked_as_format=format_name is not None,
        )
        return _Member(found, format_name)

    def _included(self, files: Any, source: str) -> dict[str, Any]:
        """What an inline member takes from the files it includes, beside the group's file."""
        merged: dict[str, Any] = {}
        for file in [files] if isinstance(files, str) else files or []:
            merged.update(self._load(Path(source).parent / str(file)))
        merged.pop("task", None)
        return merged

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
            return self._config({"task": name, **overrides}, source)
        if entry.kind == "tag":
            members = sorted(entry.members)
            return [self._overridden(one, overrides, source, group=group) for one in members]
        if not overrides:
            return self._read_file(Path(str(entry.path)))
        data = self._load(str(entry.path))
        if entry.kind == "group":
            outer = {k: v for k, v in overrides.items() if k not in GROUP_KEYS}
            return self._loose_group({**data, **outer}, str(entry.path))
        if "class" in data:
            return _PythonTask({**data, **overrides, "task": name}, str(entry.path))
        return self._config({**data, **overrides, "task": name}, str(entry.path))

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
        task = self._made(self.task_class())
        task.config.task = name
        task.config.source = task.config.source or self.source
        task.parity = parity
        return task

    def task_class(self) -> type[ConfigurableTask]:
        """The class itself, which must be one of ours."""
        made = self.data["class"]
        found = made.resolve() if isinstance(made, FunctionRef) else made
        if not (isinstance(found, type) and issubclass(found, ConfigurableTask)):
            raise ConfigError(
                f"{self.source}: `class` gives {shorten(found)}, which is no subclass of "
                "lm_eval.api.task.ConfigurableTask.",
                path=self.source,
            )
        return found

    def _made(self, task_class: type[ConfigurableTask]) -> ConfigurableTask:
        apart = ("class", "task", "tag", "group")
        settings = {key: value for key, value in self.data.items() if key not in apart}
        takes_config = "config" in inspect.signature(task_class.__init__).parameters
        try:
            return task_class(config=settings) if takes_config else task_class()
        except LmEvalError:
            raise
        except Exception as error:  # whatever a stranger's constructor raises
            reason = f"{type(error).__name__}: {error}"
            raise HelperError(
                f"{self.source}: the class {task_class.__name__} of task {self.data['task']!r} "
                f"cannot be made: {reason}",
                path=self.source,
                reason=reason,
                package=missing_package(error),
            ) from error


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


def _brings_docs(keys: Mapping[str, Any]) -> bool:
    return keys.get("dataset_path") is not None or keys.get("custom_dataset") is not None


def _make_importable(roots: Iterable[Path]) -> None:
    import lm_eval.tasks

    for root in roots:
        folder = str(root.resolve())
        if root.is_dir() and folder not in lm_eval.tasks.__path__:
            lm_eval.tasks.__path__.append(folder)


def _kind_of(data: Mapping[str, Any]) -> Literal["task", "group"] | None:
    if "group" in data and "class" not in data:
        return "group"
    return "task" if "task" in data and isinstance(data["task"], str) else None


def _names_beside(path: Path) -> list[str]:
    if not path.parent.is_dir():
        return []
    return [file.name for file in path.parent.glob("*.y*ml") if file.is_file()]


def _where_to_look(name: str) -> str:
    if Path(f"{name}.yaml").is_file():
        return f"{name}.yaml is in this folder: add `--include_path .`"
    return "Add a folder of task files with --include_path"
