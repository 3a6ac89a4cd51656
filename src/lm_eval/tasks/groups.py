"""Groups: several tasks under one name, nested at will, with scores of their own if they ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.tasks.task import ConfigurableTask


@dataclass(frozen=True)
class GroupScore:
    """One score of a group: a metric of its tasks, averaged."""

    metric: str
    aggregation: Any = "mean"
    weight_by_size: bool = True
    filter_list: Any = None


@dataclass
class GroupConfig:
    """A group as its YAML writes it."""

    group: str
    group_alias: str | None = None
    task: list[Any] = field(default_factory=list)
    aggregate_metric_list: tuple[GroupScore, ...] = ()
    metadata: dict[str, Any] | None = None

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, source: str | None = None) -> GroupConfig:
        """A group from YAML data; ``GROUP_KEYS`` are its own keys, others are for its members."""
        where = f"{source}: " if source else ""
        name = mapping.get("group")
        members = mapping.get("task")
        if not isinstance(name, str):
            raise ConfigError(f"{where}group must be a name, not {shorten(name)}.", path=source)
        if isinstance(members, str):
            members = [members]
        if not isinstance(members, list) or not members:
            raise ConfigError(
                f"{where}group {name!r} needs a list of tasks under `task`, not {shorten(members)}.",
                path=source,
            )
        scores = mapping.get("aggregate_metric_list") or []
        scores = [scores] if isinstance(scores, Mapping) else scores
        expected = {
            "aggregate_metric_list": (scores, list),
            "metadata": (mapping.get("metadata"), dict),
        }
        for key, (value, kind) in expected.items():
            if value is not None and not isinstance(value, kind):
                raise ConfigError(
                    f"{where}group {name!r}: {key} must be a {_KIND_WORDS[kind]}, not {shorten(value)}.",
                    path=source,
                )
        return cls(
            group=name,
            group_alias=mapping.get("group_alias"),
            task=members,
            aggregate_metric_list=tuple(_score(one, f"{where}group {name!r}") for one in scores),
            metadata=mapping.get("metadata"),
        )


_KIND_WORDS = {list: "list", dict: "mapping"}
GROUP_KEYS = tuple(f.name for f in fields(GroupConfig))


@dataclass(eq=False)  # each is itself: it can be a key of a dict
class Group:
    """A group with its members loaded."""

    config: GroupConfig
    members: list[ConfigurableTask | Group]
    format_name: str | None = None
    """What ``@`` chose for all members that name no format of their own."""

    @property
    def name(self) -> str:
        """``group@format`` where ``@`` chose one: its scores appear beside those under other formats."""
        return f"{self.config.group}{self._at_format}"

    @property
    def alias(self) -> str:
        return f"{self.config.group_alias or self.config.group}{self._at_format}"

    @property
    def _at_format(self) -> str:
        return "" if self.format_name is None else f"@{self.format_name}"

    def __repr__(self) -> str:
        return f"Group({self.name}: {', '.join(member.name for member in self.members)})"

    def tasks(self) -> Iterator[ConfigurableTask]:
        """Every task below this group, in order."""
        for member in self.members:
            if isinstance(member, Group):
                yield from member.tasks()
            else:
                yield member

    def groups(self) -> Iterator[Group]:
        """This group and every group below it."""
        yield self
        for member in self.members:
            if isinstance(member, Group):
                yield from member.groups()


def _score(value: Any, where: str) -> GroupScore:
    valid = [f.name for f in fields(GroupScore)]
    metric = value.get("metric") if isinstance(value, Mapping) else None
    if isinstance(metric, FunctionRef):  # the score of the tasks' own function, by its name
        metric = metric.attribute
    if not isinstance(metric, str):
        raise ConfigError(
            f"{where}: aggregate_metric_list has an entry {shorten(value)}; each needs the name of a "
            "metric, such as `- metric: acc`."
        )
    for key in value:
        if key not in valid:
            raise ConfigError(
                f"{where}: aggregate_metric_list has no key {str(key)!r}."
                f"{did_you_mean(str(key), valid)} "
                f"Keys: {listing(valid)}."
            )
    return GroupScore(**{**value, "metric": metric})
