"""Groups: several tasks under one name, possibly nested, possibly with scores of the group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.config.schema import ANYTHING, Key, check, keys_of, placed
from lm_eval.errors import ConfigError
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.tasks.definitions import Definition


@dataclass(frozen=True)
class GroupScore:
    """One score of a group: a metric of its tasks, averaged."""

    metric: str
    aggregation: Any = "mean"
    weight_by_size: bool = True
    filter_list: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.filter_list, str):
            object.__setattr__(self, "filter_list", [self.filter_list])
        if self.aggregation != "mean" and not callable(self.aggregation):
            raise ConfigError(
                f"aggregate_metric_list: aggregation must be mean, not {shorten(self.aggregation)}.",
                key="aggregate_metric_list",
            )


@dataclass
class GroupConfig:
    """A group as written in YAML."""

    group: str
    group_alias: str | None = None
    task: list[Any] = field(default_factory=list)
    aggregate_metric_list: list[GroupScore] | None = None
    metadata: dict[str, Any] | None = None
    aggregate: str | None = None
    """``primary``: the group's score is the mean of each member's own."""
    rescale: Any = None
    """What is subtracted first: ``chance``, or member → the score of guessing."""
    weights: str | None = None
    """``mean`` (the default): members count equally; ``micro``: by their docs."""

    def __post_init__(self) -> None:
        """One task or score needs no list around it."""
        if isinstance(self.task, str):
            self.task = [self.task]
        scores: Any = self.aggregate_metric_list
        if scores is not None:
            listed = [scores] if isinstance(scores, Mapping | GroupScore) else scores
            where = f"group {self.group!r}"
            self.aggregate_metric_list = [_score(entry, where) for entry in listed]

    @property
    def scores(self) -> list[GroupScore]:
        """What the group itself scores; empty if nothing."""
        return self.aggregate_metric_list or []

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """The keys as in YAML; functions by name, or as they are with ``keep_callable``."""
        facts = asdict(self)
        facts = {k: v for k, v in facts.items() if v is not None or k not in SUITE_KEYS}
        facts["aggregate_metric_list"] = facts["aggregate_metric_list"] or None
        for score in facts["aggregate_metric_list"] or ():
            if callable(score["aggregation"]) and not keep_callable:
                score["aggregation"] = getattr(score["aggregation"], "__name__", "function")
        return facts

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, source: str | None = None) -> GroupConfig:
        """A group from YAML data; keys other than ``GROUP_KEYS`` are for its members."""
        given = {key: value for key, value in mapping.items() if key in GROUP_KEYS}
        where = f"group {given.get('group')!r}"
        try:
            for key in ("task", "aggregate_metric_list"):
                if isinstance(given.get(key), str | Mapping):
                    given[key] = [given[key]]
            check({"group": None, "task": None, **given}, SCHEMA, where)
            if given.get("aggregate") is None and any(map(given.get, ("rescale", "weights"))):
                raise ConfigError(
                    f"{where}: rescale and weights are for suites: write `aggregate: primary` beside "
                    "them.",
                    key="aggregate",
                )
            return cls(**given)
        except ConfigError as error:
            raise placed(error, source) from None


@dataclass
class GroupSpec:
    """A group whose members are known but not built, because a format may still be chosen."""

    config: GroupConfig
    members: list[Member]


@dataclass
class Member:
    """One of a group's members, with the ``@format`` it is named with."""

    definition: Definition
    format_name: str | None


SUITE_KEYS = ("aggregate", "rescale", "weights")


SCHEMA = keys_of(
    GroupConfig,
    group=Key(str, "a name", takes_null=False),
    group_alias=Key(),
    task=Key(
        Annotated[list, Meta(min_length=1)], "a list of its tasks and groups", takes_null=False
    ),
    aggregate_metric_list=Key(list),
    aggregate=Key(
        Literal["primary"],
        "primary, which averages each member's own score; for one metric of all members write "
        "`aggregate_metric_list`",
    ),
    rescale=Key(
        Literal["chance"] | dict[str, Annotated[float, Meta(ge=0, lt=1)]],
        "`chance`, or what guessing scores for each member to rescale, from 0 to below 1: `rescale: "
        "{my_task: 0.25}`",
    ),
    weights=Key(Literal["mean", "micro"], "mean (the default) or micro"),
)
GROUP_KEYS = tuple(SCHEMA)
_SCORE_KEYS = dict.fromkeys((f.name for f in fields(GroupScore)), ANYTHING)


class Group:
    """A group with its members loaded.

    Made by the loader, or as in the harness: ``Group("mmlu")`` and then ``add``. Groups are hashable by
    identity, so they can be keys of a dict.
    """

    def __init__(
        self,
        name: str | GroupConfig | Mapping[str, Any] | None = None,
        alias: str | None = None,
        aggregate_metric_list: Sequence[Any] | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        config: GroupConfig | Mapping[str, Any] | None = None,
        members: Iterable[ConfigurableTask | Group] = (),
        format_name: str | None = None,
    ) -> None:
        spec = config if name is None else name
        if spec is None or isinstance(spec, str):
            scores: Any = aggregate_metric_list
            spec = GroupConfig(str(spec or ""), alias, [], scores, metadata)
        self.config = spec if isinstance(spec, GroupConfig) else GroupConfig(**spec)
        self.members = list(members)
        self.format_name = format_name
        """The format that ``@`` chose for all members without their own."""

    @property
    def name(self) -> str:
        """``group@format`` if ``@`` chose one: its scores appear beside those under other formats."""
        return f"{self.config.group}{self._at_format}"

    @property
    def alias(self) -> str:
        return f"{self.config.group_alias or self.config.group}{self._at_format}"

    @property
    def _at_format(self) -> str:
        return "" if self.format_name is None else f"@{self.format_name}"

    def __repr__(self) -> str:
        return f"Group({self.name}: {', '.join(member.name for member in self.members)})"

    def __bool__(self) -> bool:
        """A group without members is still a group."""
        return True

    # The harness's own methods

    def add(self, item: ConfigurableTask | Group) -> None:
        """Add a task or group to this one; it replaces a member of the same name."""
        self.pop(item.name)
        self.members.append(item)

    def get(self, name: str) -> ConfigurableTask | Group | None:
        """The member of this name, or None."""
        return next((member for member in self.members if member.name == name), None)

    def pop(self, name: str) -> ConfigurableTask | Group | None:
        """Remove a member and return it; None if there is none of this name."""
        member = self.get(name)
        if member is not None:
            self.members.remove(member)
        return member

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def __iter__(self) -> Iterator[ConfigurableTask | Group]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def child_names(self) -> list[str]:
        return [member.name for member in self.members]

    def get_all_tasks(self, recursive: bool = True) -> list[ConfigurableTask]:
        """Every task below this group, or only its direct members."""
        if recursive:
            return list(self.tasks())
        return [member for member in self.members if not isinstance(member, Group)]

    def get_all_groups(self, recursive: bool = True) -> list[Group]:
        """Every group below this one, or only its direct members."""
        if recursive:
            return [group for group in self.groups() if group is not self]
        return [member for member in self.members if isinstance(member, Group)]

    @property
    def metadata(self) -> dict[str, Any] | None:
        return self.config.metadata

    @property
    def aggregate_metric_list(self) -> list[GroupScore] | None:
        return self.config.aggregate_metric_list

    @property
    def has_aggregation(self) -> bool:
        """Whether the group itself has scores."""
        return bool(self.config.scores or self.config.aggregate)

    @property
    def version(self) -> str:
        return str((self.metadata or {}).get("version", "N/A"))

    @property
    def group(self) -> str:
        """Another name for ``name``."""
        return self.name

    group_name = group

    @property
    def group_alias(self) -> str | None:
        return self.config.group_alias

    def to_dict(self) -> dict[str, Any]:
        """The group as in YAML."""
        return {**self.config.to_dict(), "task": self.config.task or self.child_names}

    @classmethod
    def from_config(cls, config: GroupConfig | Mapping[str, Any]) -> Group:
        """The group without members; ``add`` them."""
        return cls(config=config)

    @classmethod
    def from_group(cls, group: Group) -> Group:
        """The group itself."""
        return group

    # Everything below

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
    if isinstance(value, GroupScore):
        return value
    metric = value.get("metric") if isinstance(value, Mapping) else None
    if isinstance(metric, FunctionRef):  # the score of the tasks' own function, by its name
        metric = metric.attribute
    if not isinstance(metric, str):
        raise ConfigError(
            f"{where}: aggregate_metric_list has an entry {shorten(value)}; each needs the name of a "
            "metric, such as `- metric: acc`.",
            key="aggregate_metric_list",
        )
    check(value, _SCORE_KEYS, where, "aggregate_metric_list")
    return GroupScore(**{**value, "metric": metric})
