"""One mechanism for everything that can be plugged in: models, formats, readers, metrics.

A name is bound to an object by a decorator, to a lazy ``"module:Name"`` string for built-ins, or by
an installed package through an entry-point group. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Generic, TypeVar, overload

from lm_eval.addresses.backends import ADVICE as BACKEND_ADVICE
from lm_eval.errors import (
    ConfigError,
    UnknownFormatError,
    UnknownModelError,
    UnknownNameError,
    did_you_mean,
    few_names,
    nearest,
)

T = TypeVar("T")
D = TypeVar("D")
_NOTHING = object()


class Registry(Generic[T]):
    """Names of one ``kind`` and the objects bound to them.

    ``entry_point_group`` is read once, the first time a name is missing or all names are listed.
    ``advice`` says what to use instead of names that users know from elsewhere. ``made`` turns a name
    and what an entry point names into what is bound.
    """

    def __init__(
        self,
        kind: str,
        *,
        entry_point_group: str | None = None,
        error: type[UnknownNameError] = UnknownNameError,
        list_command: str | None = None,
        advice: Mapping[str, str] | None = None,
        made: Callable[[str, Any], T] = lambda _, value: value,
    ) -> None:
        self.kind = kind
        self._made = made
        self._advice = advice or {}
        self._entry_point_group = entry_point_group
        self._error = error
        self._list_command = list_command
        self._entries: dict[str, T | str] = {}
        self._places: dict[str, str] = {}
        self._entry_points_read = entry_point_group is None

    def register(self, name: str, value: T | str, *, place: str | None = None) -> None:
        """Bind ``name``; a string ``"module:Name"`` is imported when it is first asked for.

        Binding the same object again is harmless, also if a string names it (a package that
        decorates its class and lists it as an entry point); another object under a taken name is
        an error that names both places.
        """
        place = place or _place_of(value)
        value = value if isinstance(value, str) else self._made(name, value)
        known = self._entries.get(name)
        if known is not None and known is not value:
            is_same = self._places[name] == place or _address(known) == _address(value)
            if is_same:  # or a module that was loaded again
                self._entries[name] = known if isinstance(value, str) else value
                return
            raise ConfigError(
                f"{self.kind.capitalize()} {name!r} is registered twice: in {self._places[name]} "
                f"and in {place}. Rename one of the two."
            )
        self._entries[name] = value
        self._places[name] = place

    def replace(self, name: str, value: T) -> None:
        """Bind ``name`` again, replacing what it was bound to."""
        self._entries[name] = value
        self._places[name] = _place_of(value)

    def name_of(self, value: T) -> str | None:
        """The first name that ``value`` is bound to, if any."""
        address = _address(value)
        return next((name for name, it in self._entries.items() if _address(it) == address), None)

    def decorator(self, *names: str) -> Callable[[Any], Any]:
        """A decorator that binds each of ``names`` to what it decorates."""

        def bind(value: Any) -> Any:
            for name in names:
                self.register(name, value)
            return value

        return bind

    @overload
    def get(self, name: str) -> T: ...
    @overload
    def get(self, name: str, default: D) -> T | D: ...
    def get(self, name: str, default: Any = _NOTHING) -> Any:
        """The object bound to ``name``; an unknown name gives ``default``, if there is one.

        Without a default it is an error with the nearest valid name.
        """
        if name not in self:
            if default is _NOTHING:
                raise self.unknown(name)
            return default
        value = self._entries[name]
        if isinstance(value, str):
            loaded = _import(value)
            if self._entries[name] is value:  # its decorator may have bound it by now
                self._entries[name] = self._made(name, loaded)
            value = self._entries[name]
        return value

    def unknown(self, name: str) -> UnknownNameError:
        """The error for a name that is not here."""
        hint = f" List all with `{self._list_command}`." if self._list_command else ""
        advice = self._advice.get(name)
        problem = (
            f"{self.kind.capitalize()} {name!r} is not here. {advice}"
            if advice
            else f"Unknown {self.kind} {name!r}.{did_you_mean(name, self)}"
        )
        return self._error(
            f"{problem} Known: {few_names(name, sorted(self))}.{hint}",
            name=name,
            nearest=nearest(name, self),
        )

    def registered(self) -> dict[str, T | str]:
        """What was registered so far; built-ins that were not used yet are still strings."""
        return dict(self._entries)

    def place(self, name: str) -> str:
        """Where ``name`` was registered."""
        return self._places[name]

    def __getitem__(self, name: str) -> T:
        return self.get(name)

    def keys(self) -> KeysView[str]:
        """Every name."""
        return self._all().keys()

    def values(self) -> ValuesView[T | str]:
        """What the names are bound to; built-ins that were not used yet are strings."""
        return self._all().values()

    def items(self) -> ItemsView[str, T | str]:
        """Every name and what it is bound to, as in ``values``."""
        return self._all().items()

    def _all(self) -> dict[str, T | str]:
        self._read_entry_points()
        return self._entries

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            self._read_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        self._entry_points_read = True
        from importlib import metadata  # brings the email package: too slow for every start

        for point in metadata.entry_points(group=self._entry_point_group or ""):
            package = point.dist.name if point.dist else "an installed package"
            self.register(point.name, point.value, place=f"{package} ({point.value})")


@dataclass(frozen=True)
class Metric:
    """How one score is made, under formats and in plain task files.

    Formats call ``of_choice``, ``of_text`` or ``of_replies``; a kind of outcome without one cannot give
    this score. Plain tasks call ``function`` for the ``output_types``.
    """

    name: str
    explained: str = "a function of references and predictions"
    of_choice: Callable[[Any], Any] | None = None
    of_text: Callable[[Any], Any] | None = None
    aggregate: Callable[[Sequence[Any]], Any] | None = None
    """All values under a format → an estimate; None for their mean."""
    higher_is_better: bool | None = True
    """None if a plain function does not say."""
    of_replies: Callable[[Sequence[Any]], Any] | None = None
    """For a score that is made from all replies to a doc at once."""
    compares_texts: bool = False
    """Whether the answers must be texts of their own, not choices."""
    same: Callable[[str, str], bool] | None = None
    """Whether two answers are the same, for metrics that say so of an answer and a gold."""
    function: Any = None
    """Of ``(references, predictions, **options)`` or of one pair, or a reference to such a function."""
    aggregation: Any = None
    """How plain tasks combine the values: a name in ``AGGREGATIONS``, or a function."""
    output_types: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_built_in: bool = False

    def value(self, outcome: Any) -> Any:
        """This doc's value under a format, or None if it does not count here."""
        function = self.of_text if outcome.is_text else self.of_choice
        return function(outcome) if function else None

    def fits(self, *, reads_text: bool, compares_texts: bool = True) -> bool:
        """Whether a format that gives such answers has this score."""
        if self.compares_texts and not compares_texts:
            return False
        return (self.of_text if reads_text else self.of_choice) is not None


def _as_metric(name: str, value: Any) -> Metric:
    """A metric as it is; a function that a package lists without ``register_metric`` around it is for
    scored choices and generated text, and the mean counts."""
    if isinstance(value, Metric):
        return value
    both = ("multiple_choice", "generate_until")
    return Metric(name, function=value, aggregation="mean", output_types=both)


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _address(value: Any) -> str:
    """``module:Name`` of an object, or of the string that names it."""
    if isinstance(value, str):
        return value.partition("[")[0].strip()  # an entry point may name extras
    value = value.function if isinstance(value, Metric) and value.function else value
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    return f"{module}:{name}" if module and name else f"object {id(value)}"


def _place_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{module}.{name}"


MODELS: Registry[Any] = Registry(
    "model",
    entry_point_group="lm_eval.models",
    error=UnknownModelError,
    list_command="lm-eval ls models",
    advice=BACKEND_ADVICE,
)
FORMATS: Registry[Any] = Registry(
    "format",
    entry_point_group="lm_eval.formats",
    error=UnknownFormatError,
    list_command="lm-eval ls formats",
)
READERS: Registry[Any] = Registry("reader", entry_point_group="lm_eval.readers")
METRICS: Registry[Metric] = Registry("metric", entry_point_group="lm_eval.metrics", made=_as_metric)
TEMPLATES: Registry[Any] = Registry("template type", entry_point_group="lm_eval.templates")
FILTERS: Registry[Any] = Registry("filter", entry_point_group="lm_eval.filters")
AGGREGATIONS: Registry[Any] = Registry("aggregation", entry_point_group="lm_eval.aggregations")
CHECKS: Registry[Any] = Registry("check", entry_point_group="lm_eval.checks")
"""Instruction id → a function of a reply and arguments that says whether it was followed."""
TASKS: Registry[Any] = Registry("task", list_command="lm-eval ls tasks")
RUN_READERS: Registry[Any] = Registry("run reader", entry_point_group="lm_eval.runs")
STAND_INS: Registry[Callable[[], ModuleType]] = Registry("stand-in for a package")
"""Package → makes a module that helpers of tasks import under its name."""
TASK_GROUPS: dict[str, list[str]] = {}
"""Group → names in ``TASKS``, for task classes grouped by a decorator."""

STAND_INS.register("datasets", "lm_eval.harness.datasets_shim:stand_in")
STAND_INS.register("evaluate", "lm_eval.harness.evaluate_shim:stand_in")


def backend_name(model: object) -> str:
    """What ``--model`` calls this model's backend; the name of its class if it is not registered."""
    return MODELS.name_of(type(model)) or type(model).__name__


for _name, _target in {
    "dummy": "dummy:DummyLM",
    "gguf": "gguf:GgufLM",
    "local-completions": "openai_completions:LocalCompletionsAPI",
    "local-chat-completions": "openai_completions:LocalChatCompletion",
    "openai-completions": "openai_completions:OpenAICompletionsAPI",
    "openai-chat-completions": "openai_completions:OpenAIChatCompletion",
    "anthropic-chat": "providers.anthropic:AnthropicChat",
    "anthropic-chat-completions": "providers.anthropic:AnthropicChat",
    "azure-openai": "providers.azure:AzureOpenAIChat",
    "azure-openai-chat-completions": "providers.azure:AzureOpenAIChat",
    "gemini": "providers.gemini:GeminiChat",
    "hf": "huggingface:HFLM",
    "huggingface": "huggingface:HFLM",
    "hf-auto": "huggingface:HFLM",
    "vllm": "vllm.model:VLLM",
    "ray": "ray.model:RayLM",
}.items():
    MODELS.register(_name, f"lm_eval.models.{_target}")

for _name, _target in {
    "regex": "RegexFilter",
    "regex_pos": "POSFilter",
    "remove_whitespace": "WhitespaceFilter",
    "multi_choice_regex": "MultiChoiceRegexFilter",
    "take_first": "TakeFirstFilter",
    "take_first_k": "TakeKFilter",
    "majority_vote": "MajorityVoteFilter",
    "lowercase": "LowercaseFilter",
    "uppercase": "UppercaseFilter",
    "map": "MapFilter",
    "format_span": "SPANFilter",
    "custom": "CustomFilter",
}.items():
    FILTERS.register(_name, f"lm_eval.harness.filters:{_target}")

for _name, _target in {
    "mean": "mean",
    "median": "median",
    "nanmean": "nanmean",
    "perplexity": "perplexity",
    "weighted_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    "f1": "f1_score",
    "matthews_corrcoef": "matthews_corrcoef",
    "bleu": "bleu",
    "chrf": "chrf",
    "chrf++": "chrfpp",
    "ter": "ter",
    "brier_score": "brier_score",
    "bypass": "bypass_agg",
}.items():
    AGGREGATIONS.register(_name, f"lm_eval.harness.aggregation:{_target}")

for _name, _target in {
    "keywords:existence": "keywords_exist",
    "keywords:frequency": "keyword_frequency",
    "keywords:forbidden_words": "no_forbidden_words",
    "keywords:letter_frequency": "letter_frequency",
    "language:response_language": "response_language",
    "change_case:english_capital": "english_capital",
    "change_case:english_lowercase": "english_lowercase",
    "change_case:capital_word_frequency": "capital_word_frequency",
    "length_constraints:number_words": "number_words",
    "length_constraints:number_sentences": "number_sentences",
    "length_constraints:number_paragraphs": "number_paragraphs",
    "length_constraints:nth_paragraph_first_word": "nth_paragraph_first_word",
    "detectable_content:number_placeholders": "number_placeholders",
    "detectable_content:postscript": "postscript",
    "detectable_format:number_bullet_lists": "number_bullet_lists",
    "detectable_format:constrained_response": "constrained_response",
    "detectable_format:number_highlighted_sections": "number_highlighted_sections",
    "detectable_format:multiple_sections": "multiple_sections",
    "detectable_format:json_format": "json_format",
    "detectable_format:title": "title",
    "combination:two_responses": "two_responses",
    "combination:repeat_prompt": "repeat_prompt",
    "startend:end_checker": "end_checker",
    "startend:quotation": "quotation",
    "punctuation:no_comma": "no_comma",
}.items():
    CHECKS.register(_name, f"lm_eval.scoring.checks:{_target}")

register_model = MODELS.decorator
register_check = CHECKS.decorator
register_reader = READERS.decorator
register_template = TEMPLATES.decorator
get_model = MODELS.get


def register_filter(name: str) -> Callable[[Any], Any]:
    """A decorator that binds a filter class.

    Helper modules of two tasks may each bring a filter of one name: the one loaded last counts,
    which is the one of the task that is being built. Built-in names stay as they are.
    """

    def bind(value: Any) -> Any:
        if name in FILTERS and not FILTERS.place(name).startswith("lm_eval.harness.filters"):
            FILTERS.replace(name, value)
        else:
            FILTERS.register(name, value)
        return value

    return bind


def get_filter(filter_name: Any) -> Any:
    """The filter class of that name; a callable is returned as it is."""
    return filter_name if callable(filter_name) else FILTERS.get(filter_name)


register_aggregation = AGGREGATIONS.decorator


register_task = TASKS.decorator


def register_group(name: str) -> Callable[[Any], Any]:
    """A decorator that puts a task class, registered before, under the group ``name``."""

    def bind(value: Any) -> Any:
        names = [task for task, known in TASKS.registered().items() if known is value]
        if not names:
            raise ConfigError(
                f"{_place_of(value)} is not a registered task, so it cannot join group {name!r}. Put "
                "@register_task below @register_group."
            )
        members = TASK_GROUPS.setdefault(name, [])
        members.extend(task for task in names if task not in members)
        return value

    return bind


def register_metric(
    *,
    metric: str,
    higher_is_better: bool | None = None,
    output_type: str | list[str] | tuple[str, ...] = (),
    aggregation: str | None = None,
) -> Callable[[Any], Any]:
    """A decorator that binds a function of ``(references, predictions, **options)``, or of one list.

    Plain tasks and formats call it alike. ``output_type`` says what it can be made from:
    ``generate_until`` (the default), ``multiple_choice``, or both. ``aggregation`` names the one used
    where a task's ``metric_list`` gives none.
    """
    if aggregation is not None:
        AGGREGATIONS.get(aggregation)
    types = (output_type,) if isinstance(output_type, str) else tuple(output_type)

    def bind(function: Any) -> Any:
        made = Metric(
            metric,
            function=function,
            aggregation=aggregation,
            higher_is_better=higher_is_better,
            output_types=types,
        )
        METRICS.register(metric, made, place=_place_of(function))
        return function

    return bind
