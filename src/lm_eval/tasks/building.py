"""Definitions → tasks under their formats, and groups of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lm_eval.errors import ConfigError, LmEvalError, UsageError, listing
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.definitions import Definition, LooseGroup
from lm_eval.tasks.groups import Group
from lm_eval.tasks.python_task import PythonTask
from lm_eval.tasks.task import ConfigurableTask


def build(
    found: Definition, format_name: str | None, *, parity: bool
) -> list[ConfigurableTask | Group]:
    """What was found, under the format that ``@`` chose; None: each under its own."""
    if isinstance(found, LooseGroup):
        return _groups(found, format_name, parity=parity)
    if isinstance(found, list):
        return [item for one in found for item in build(one, format_name, parity=parity)]
    if isinstance(found, PythonTask):
        return [found.build(format_name, parity=parity)]
    if format_name == "*":
        return _every_format(found, parity=parity)
    return [ConfigurableTask(found, format_name=format_name, parity=parity)]


def _groups(
    loose: LooseGroup, format_name: str | None, *, parity: bool
) -> list[ConfigurableTask | Group]:
    """The group under the format; ``group@*``: once for each format that any of its members has."""
    built = [
        (item, member.format_name)
        for member in loose.members
        for item in build(member.found, member.format_name or format_name, parity=parity)
    ]
    if format_name != "*":
        return [Group(loose.config, [item for item, _ in built], format_name)]
    free = dict.fromkeys(item.format_name for item, own in built if own is None)
    return [
        Group(loose.config, [item for item, own in built if own or item.format_name == name], name)
        for name in free or (None,)
    ]


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
