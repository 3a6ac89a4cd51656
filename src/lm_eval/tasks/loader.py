"""Loads the tasks named on the command line: finds and reads files, and applies formats.

In: ``my_task``, ``my_task@cloze``, ``my_task@*``, a group, a tag, a glob, a ``.yaml`` file or a folder.
Out: ``ConfigurableTask`` objects and the groups they belong to.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.errors import (
    ConfigError,
    LmEvalError,
    UnknownTaskError,
    UsageError,
    did_you_mean,
    listing,
)
from lm_eval.formats.compile import find_format
from lm_eval.formats.enforced import SUFFIX
from lm_eval.support.terminal import LOG_LEVELS
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.definitions import Definition, Definitions, PythonTask
from lm_eval.tasks.format_fit import fitting
from lm_eval.tasks.groups import Group, GroupSpec
from lm_eval.tasks.index import Entry, Kind, TaskNames, index_folder, split_selector, task_roots
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.tasks.keys.sample_rows import SampleUse

Selector = str | Mapping[str, Any] | ConfigurableTask | Group
Selectors = Selector | Iterable[Selector]
IncludePath = str | Path | Sequence[str | Path] | None


class TaskManager:
    """Finds tasks by name in the built-in library and in ``include_path``.

    ``run_code=False`` loads everything but refuses to call a task's Python functions. ``parity``
    undoes the deliberate differences from EleutherAI's harness, for comparisons with it. ``metadata``
    is added to the metadata of every task, and is passed to a ``custom_dataset``. ``verbosity`` is the
    level of the ``lm_eval`` logger, to which helper modules write; a first argument that is not a level
    is the ``include_path``. ``sample_rows`` says when a task's invented rows replace its data:
    ``"never"``, ``"if_absent"`` from this machine, or ``"always"``.

    With ``run_code``, helpers can import each other as ``lm_eval.tasks.<folder>.<module>``; folders of
    ``include_path`` come after the library.
    """

    def __init__(
        self,
        verbosity: IncludePath = None,
        include_path: IncludePath = None,
        include_defaults: bool = True,
        metadata: Mapping[str, Any] | None = None,
        *,
        run_code: bool = True,
        parity: bool = False,
        sample_rows: SampleUse = "never",
    ) -> None:
        if verbosity is not None and include_path is None and not is_level(verbosity):
            verbosity, include_path = None, verbosity
        if verbosity is not None:
            set_verbosity(str(verbosity))
        self.parity = parity
        self.include_path = include_path
        self.metadata = dict(metadata or {})
        roots = task_roots(include_path, include_defaults=include_defaults)
        if run_code:
            _make_importable(roots[1:] if include_defaults else roots)
        self._definitions = Definitions(
            roots,
            run_code=run_code,
            parity=parity,
            metadata=self.metadata,
            sample_rows=sample_rows,
        )

    @property
    def known(self) -> TaskNames:
        """All names. Files are read on first use."""
        return self._definitions.known

    @property
    def index(self) -> dict[str, Entry]:
        """Every known name and where it comes from."""
        return self._definitions.index

    @property
    def problems(self) -> list[LmEvalError]:
        """Files that could not be indexed; empty before the index is first used."""
        return self._definitions.problems

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
        names = {name for pattern in task_list for name in fnmatch.filter(self.index, pattern)}
        return sorted(names)

    def load_task_or_group(self, task_list: Selectors) -> dict[Any, Any]:
        """The named tasks and groups, nested: ``{task name: task, group: {task name: task, …}}``."""
        return nested(self._select_all(task_list))

    def load(self, selectors: Selectors) -> dict[str, Any]:
        """The tasks and groups that ``selectors`` name.

        ``{"tasks": {name: task}, "groups": {name: group}, "group_map": {name: member names}}``.
        A selector is a string, a mapping with the keys of a task file, or a task object.
        """
        return gathered(self._select_all(selectors))

    def _select_all(self, selectors: Selectors) -> list[ConfigurableTask | Group]:
        self._definitions.data_pool = {}
        is_one = isinstance(selectors, str | Mapping | ConfigurableTask | Group)
        wanted: Any = [selectors] if is_one else selectors
        return [item for selector in wanted for item in self._select_any(selector)]

    def _select_any(self, selector: Selector) -> list[ConfigurableTask | Group]:
        if isinstance(selector, ConfigurableTask | Group):
            return [selector]
        if isinstance(selector, str):
            return self.select(selector)
        return self._select_mapping(selector)

    def _select_mapping(self, keys: Mapping[str, Any]) -> list[ConfigurableTask | Group]:
        """A task or group given as a mapping; of a known one, its keys replace the task's own."""
        source = "a mapping given to TaskManager.load"
        if "group" in keys and "task" in keys:
            return self._built(self._definitions.group_of(keys, source), None)
        kind = "group" if "group" in keys else "task"
        name, format_name = split_selector(str(keys.get(kind)))
        if kind == "task" and self._definitions.entry(name) is None:
            return self._built(
                self._definitions.config_of({**keys, "task": name}, source), format_name
            )
        others = {key: value for key, value in keys.items() if key != kind}
        return self._built(
            self._definitions.overridden(name, others, source, group="tasks"), format_name
        )

    def select(self, selector: str) -> list[ConfigurableTask | Group]:
        """The tasks and groups that one selector names, loaded, with its ``@format`` applied."""
        name, format_name = split_selector(selector)
        if name.endswith((".yaml", ".yml")):
            return self._built(self._definitions.read_file(Path(name)), format_name)
        if Path(name).is_dir() and ("/" in name or name not in self.index):
            return self._select_folder(Path(name), format_name)
        if any(sign in name for sign in "*?["):
            return self._select_glob(name, format_name)
        if "::" in name and name not in self.index:
            return self._select_members(name, format_name)
        if name not in self.index and (group := self._definitions.group_with(name)):
            return self._select_members(f"{group}::{name}", format_name)
        return self._built(self._definitions.named(name), format_name)

    def _select_members(self, name: str, format_name: str | None) -> list[ConfigurableTask | Group]:
        """``group::task``: a member of a group or of a group in it, with the keys set by the group."""
        outer, *inner = name.split("::")
        members = self._built(self._definitions.named(outer), format_name)
        for wanted in inner:
            below = [member for item in members for member in _below(item)]
            members = [item for item in below if wanted == _last_name(item)]
            if not members:
                known = sorted({_last_name(item) for item in below})
                raise UnknownTaskError(
                    f"{outer!r} has no member {wanted!r}.{did_you_mean(wanted, known)} "
                    f"Members: {listing(known)}.",
                    name=name,
                )
        return members

    def list_all_tasks(
        self, list_groups: bool = True, list_tags: bool = True, list_subtasks: bool = True
    ) -> str:
        """Markdown tables of all groups, tags and tasks, and where they are defined."""
        from lm_eval.support.markdown import markdown_table

        def rows(kind: Kind) -> list[tuple[str, str]]:
            return [(name, str(self.index[name].path or "---")) for name in self.names(kind)]

        tables = []
        if list_groups:
            tables.append(markdown_table(("Group", "Config Location"), rows("group")))
        if list_tags:
            tables.append(markdown_table(("Tag",), [(name,) for name in self.names("tag")]))
        if list_subtasks:
            tables.append(markdown_table(("Task", "Config Location"), rows("task")))
        return "\n" + "".join(f"{table}\n\n" for table in tables)

    def config(self, name: str) -> TaskConfig:
        """The config of a task, without a format chosen by ``@``."""
        definition = self._definitions.named(name)
        if not isinstance(definition, TaskConfig):
            raise UnknownTaskError(f"{name!r} is a group or tag, not a task.", name=name)
        return definition

    def read(self, name: str) -> TaskConfig | Group | type[Any]:
        """What the file of a task or group defines. Nothing is built: a Python task stays a class."""
        definition = self._definitions.named(name)
        if isinstance(definition, PythonTask):
            return definition.task_class()
        if isinstance(definition, TaskConfig):
            return definition
        if isinstance(definition, GroupSpec):
            return Group(config=definition.config)
        raise UnknownTaskError(f"{name!r} is a tag, not a task or group.", name=name)

    def _select_glob(self, pattern: str, format_name: str | None) -> list[ConfigurableTask | Group]:
        names = fnmatch.filter(sorted(self.index), pattern)
        if not names:
            raise UnknownTaskError(
                f"No task matches {pattern!r}. Known: {listing(sorted(self.index), 5)}. List all with "
                "`lm-eval ls tasks`.",
                name=pattern,
            )
        return self._built([self._definitions.named(name) for name in names], format_name)

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
        return self._built([self._definitions.read_file(file) for file in files], format_name)

    def _built(
        self, definition: Definition, format_name: str | None
    ) -> list[ConfigurableTask | Group]:
        return build(definition, format_name, parity=self.parity)


def get_task_dict(
    task_name_list: Selectors, task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """What ``TaskManager.load_task_or_group`` gives; by default from the built-in tasks."""
    return (task_manager or TaskManager()).load_task_or_group(task_name_list)


def is_level(value: Any) -> bool:
    """Whether a value names a level of logging, not a folder."""
    return isinstance(value, str) and value.upper() in LOG_LEVELS and not Path(value).is_dir()


def set_verbosity(level: str) -> None:
    """Set the lowest level that the ``lm_eval`` logger passes on, such as ``INFO``."""
    if str(level).upper() not in LOG_LEVELS:
        raise UsageError(
            f"verbosity {level!r} is not a level.{did_you_mean(str(level), LOG_LEVELS)} "
            f"Levels: {listing(LOG_LEVELS)}."
        )
    import logging

    logging.getLogger("lm_eval").setLevel(str(level).upper())


def _make_importable(roots: Iterable[Path]) -> None:
    package = sys.modules["lm_eval.tasks"]
    for root in roots:
        folder = str(root.resolve())
        if root.is_dir() and folder not in package.__path__:
            package.__path__.append(folder)


EVERY = "*"
EVERY_ENFORCED = f"{EVERY}{SUFFIX}"


def build(
    definition: Definition, format_name: str | None, *, parity: bool
) -> list[ConfigurableTask | Group]:
    """What a definition defines, under the format that ``@`` chose; None: each under its own."""
    if isinstance(definition, GroupSpec):
        return _groups(definition, format_name, parity=parity)
    if isinstance(definition, list):
        return [item for member in definition for item in build(member, format_name, parity=parity)]
    if isinstance(definition, PythonTask):
        return [definition.build(format_name, parity=parity)]
    if format_name in (EVERY, EVERY_ENFORCED):
        is_enforced = format_name == EVERY_ENFORCED
        return [*every_format(definition, parity=parity, is_enforced=is_enforced)]
    return [ConfigurableTask(definition, format_name=format_name, parity=parity)]


def every_format(
    config: TaskConfig, *, parity: bool, is_enforced: bool = False
) -> list[ConfigurableTask]:
    """``task@*``: the task under its own formats, or under every built-in that its fields can fill.

    ``task@*+enforced``: under those of them that read text, each enforced.
    """
    names = config.format_choices()
    if is_enforced:
        names = [f"{name}{SUFFIX}" for name in names if _is_free_text(config, name)]
        if not names:
            raise UsageError(
                f"{config.task}@{EVERY_ENFORCED} selects nothing: no format of the task reads text."
            )
    tasks = [ConfigurableTask(config, format_name=name, parity=parity) for name in names]
    return tasks if config.has_format_map else fitting(config, tasks)


def _is_free_text(config: TaskConfig, name: str) -> bool:
    fmt = find_format(name, config.own_formats, task=str(config.task))
    return fmt.reads_text and not fmt.enforced


def _groups(
    loose: GroupSpec, format_name: str | None, *, parity: bool
) -> list[ConfigurableTask | Group]:
    """The group under the format; ``group@*``: once for each format of any of its members."""
    built = [
        (item, member.format_name)
        for member in loose.members
        for item in build(member.definition, member.format_name or format_name, parity=parity)
    ]
    if format_name not in (EVERY, EVERY_ENFORCED):
        members = [item for item, _ in built]
        return [Group(config=loose.config, members=members, format_name=format_name)]
    free = dict.fromkeys(item.format_name for item, own in built if own is None)
    return [
        Group(
            config=loose.config,
            members=[item for item, own in built if own or item.format_name == name],
            format_name=name,
        )
        for name in free or (None,)
    ]


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


def _below(item: ConfigurableTask | Group) -> Iterable[ConfigurableTask | Group]:
    """Everything in a group; for a task, the task itself."""
    if not isinstance(item, Group):
        return [item]
    return [member for group in item.groups() for member in group.members]


def _last_name(item: ConfigurableTask | Group) -> str:
    """The name without a format, and without the groups before it."""
    name = item.config.group if isinstance(item, Group) else item.task_name
    return name.rpartition("::")[2]


def nested(items: Iterable[ConfigurableTask | Group]) -> dict[Any, Any]:
    """Tasks by name; each group is the key of its members."""
    return {
        item if isinstance(item, Group) else item.name: (
            nested(item.members) if isinstance(item, Group) else item
        )
        for item in items
    }


def _check_same(known: ConfigurableTask, task: ConfigurableTask) -> None:
    """Refuse two different tasks under one name: only one of them would be run."""
    if known.config.source != task.config.source:
        raise ConfigError(
            f"Task {task.name!r} was selected from two files: {known.config.source} and "
            f"{task.config.source}. Rename one of the two."
        )
    first, second = known.config.as_written(), task.config.as_written()
    if first != second:
        changed = sorted(key for key in first if first[key] != second[key])
        raise ConfigError(
            f"Task {task.name!r} was selected twice with different settings"
            f"{' (' + listing(changed) + ')' if changed else ''}, and results go by its name. Give "
            "one of the two a name of its own: in a group with `as: name` beside its `task`."
        )
