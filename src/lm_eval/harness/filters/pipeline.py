"""A task's ``filter_list`` → named pipelines, each of which turns responses into what is scored.

Everything that can be wrong in the YAML is reported here, when the task is built; the task's own
functions are imported when the pipeline is used.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from lm_eval.config.functions import FunctionRef, resolved
from lm_eval.config.schema import Key, check
from lm_eval.errors import ConfigError, UnknownNameError, did_you_mean, listing
from lm_eval.registry import get_filter

DEFAULT_NAME = "none"


def _are_steps(steps: list[dict[str, Any]]) -> bool:
    functions = [step.get("function") for step in steps]
    return all(isinstance(function, str) or callable(function) for function in functions)


FILTER_LIST = Key(
    Annotated[list[Any], Meta(min_length=1)],
    "a list of pipelines, each with `name` and `filter`; leave it out to take the first response",
)
PIPELINE_SCHEMA = {
    "name": Key(str, "a text", takes_null=False, is_needed=True),
    "filter": Key(
        Annotated[list[dict[str, Any]], Meta(min_length=1)],
        "a list of steps, each with the name of a filter and its options: `filter: [{function: "
        "take_first}]`",
        takes_null=False,
        is_needed=True,
        fits=_are_steps,
    ),
}


@dataclass
class FilterPipeline:
    """Filters applied one after the other; ``name`` follows the metric in results."""

    name: str
    steps: Sequence[tuple[Any, Mapping[str, Any] | None]]
    where: str = ""
    """How messages begin: which task's pipeline this is."""

    def apply(self, resps: Sequence[Any], docs: Sequence[Mapping[str, Any]]) -> list[Any]:
        """What is scored for each request. The filters are made anew each time."""
        count = len(resps)
        current: Any = list(resps)
        for place, (function, options) in enumerate(self.steps, 1):
            step = _make(get_filter(resolved(function)), options or {}, self._at(place, function))
            current = list(step.apply(current, docs))
            if len(current) != count:
                raise ConfigError(
                    f"{self._at(place, function)} gave {len(current)} entries for {count} "
                    "requests. A filter returns one entry for each, in the same order."
                )
        return list(current)

    @property
    def is_local(self) -> bool:
        """Whether each filter is one of ours, which look at one request at a time, unlike a task's
        own function."""
        return all(
            isinstance(function, str)
            and function != "custom"
            and get_filter(function).__module__.startswith("lm_eval.harness.filters.")
            for function, _ in self.steps
        )

    def check(self, load_helpers: Callable[[], object] | None = None) -> None:
        """Report everything that is wrong and can be seen without the task's code.

        ``load_helpers`` imports the task's modules; it is called if a filter is unknown, because
        such a module may register it.
        """
        for place, (function, options) in enumerate(self.steps, 1):
            where = self._at(place, function)
            if callable(function):
                continue
            _make(_known(function, where, load_helpers), options or {}, where)

    def _at(self, place: int, function: Any) -> str:
        start = f"{self.where}: " if self.where else ""
        return f"{start}filter {self.name!r}, step {place} ({_name(function)})"


@dataclass
class FilterEnsemble:
    """A pipeline over ``Instance`` objects, as Python tasks build it."""

    name: str
    filters: Sequence[Callable[[], Filter]] = field(default_factory=list)

    def apply(self, instances: Sequence[Any]) -> None:
        """Filter each instance's ``resps`` into its ``filtered_resps[name]``."""
        resps: Any = [instance.resps for instance in instances]
        docs = [instance.doc for instance in instances]
        for make in self.filters:
            resps = list(make().apply(resps, docs))
        for instance, filtered in zip(instances, resps, strict=True):
            instance.filtered_resps[self.name] = filtered


def build_filter_ensemble(
    filter_name: str, components: Sequence[tuple[Any, Mapping[str, Any] | None]]
) -> FilterEnsemble:
    """An ensemble of the filters named in ``components``, each with its options."""

    def maker(function: Any, options: Mapping[str, Any] | None) -> Callable[[], Filter]:
        factory = get_filter(resolved(function))
        return lambda: _make(factory, options or {}, f"Filter {filter_name!r}")

    return FilterEnsemble(filter_name, [maker(*component) for component in components])


def build_pipelines(
    filter_list: Any,
    *,
    task: str = "",
    load_helpers: Callable[[], object] | None = None,
) -> list[FilterPipeline]:
    """The pipelines of a task; without a ``filter_list`` one called ``none`` takes the first."""
    where = f"Task {task!r}"
    if filter_list is None:
        return [FilterPipeline(DEFAULT_NAME, [("take_first", {})], where)]
    check({"filter_list": filter_list}, {"filter_list": FILTER_LIST}, where)
    pipelines: dict[str, FilterPipeline] = {}
    for place, entry in enumerate(filter_list):
        check(entry, PIPELINE_SCHEMA, where, "filter_list", place)
        name = entry["name"]
        if name in pipelines:
            raise ConfigError(
                f"{where}: filter_list has two pipelines called {name!r}. Rename one: results "
                "are told apart by that name.",
                key=("filter_list", place, "name"),
            )
        steps = [
            (step["function"], {key: step[key] for key in step if key != "function"})
            for step in entry["filter"]
        ]
        pipelines[name] = FilterPipeline(name, steps, where)
        pipelines[name].check(load_helpers)
    return list(pipelines.values())


def _known(name: str, where: str, load_helpers: Callable[[], object] | None) -> Any:
    try:
        return get_filter(name)
    except UnknownNameError as error:
        if load_helpers is None:
            raise ConfigError(f"{where}: {error}") from None
    load_helpers()
    return _known(name, where, None)


def _make(factory: Any, options: Mapping[str, Any], where: str) -> Filter:
    """A filter from its class; options that it does not take, or cannot use, are errors."""
    _check_options(factory, options, where)
    try:
        made = factory(**options)
    except re.error as error:
        raise ConfigError(
            f"{where}: {error.pattern!r} is not a regular expression: {error}."
        ) from None
    except RecursionError:
        raise ConfigError(f"{where}: its pattern has too many groups inside one another.") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not hasattr(made, "apply"):
        raise ConfigError(
            f"{where} is not a filter: calling it gave a {type(made).__name__} without `apply`. "
            "For a function over (resps, docs) write `function: custom` and "
            "`filter_fn: !function …`."
        )
    filter_: Filter = made
    return filter_


def _check_options(factory: Any, options: Mapping[str, Any], where: str) -> None:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [
        parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL
    ]
    for key in options:
        if key not in names:
            raise ConfigError(
                f"{where} has no option {key!r}.{did_you_mean(str(key), names)} "
                f"Options: {listing(names)}."
            )
    for needed in parameters:
        if needed.name in names and needed.default is needed.empty and needed.name not in options:
            raise ConfigError(f"{where} needs the option {needed.name!r}.")


def _name(function: Any) -> str:
    if isinstance(function, (str, FunctionRef)):
        return str(function)
    return str(getattr(function, "__name__", function))


Responses = Iterable[Any]
"""The responses to the requests of a task, in order: a list for each request or, after ``take_first``,
the response itself."""


class Filter(ABC):
    """A step over all responses of a task at once. A new one is made for every run."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027 - subclasses need none of their own
        """Take the keys beside ``function`` in the task file."""

    @abstractmethod
    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        """The filtered responses: one entry for each of ``docs``, in the same order."""


def each(change: Callable[[Any], Any], resps: Responses) -> list[list[Any]]:
    """``change`` on every response of every list. A bare string is taken letter by letter."""
    return [[change(response) for response in some] for some in resps]


def each_text(change: Callable[[str], str], resps: Responses) -> list[list[Any]]:
    """As ``each``; what is not a text, such as a (log-likelihood, is greedy) pair, stays as it is."""
    return each(lambda text: change(text) if isinstance(text, str) else text, resps)
