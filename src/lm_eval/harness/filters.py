"""A task's ``filter_list`` → named pipelines, each of which turns responses into what is scored.

Everything that can be wrong in the YAML is reported here, when the task is built; the task's own
functions are imported when the pipeline is used. The built-in filters take the answer out of a response,
rewrite it, or choose among responses; names, options and results are those of EleutherAI's harness.
"""

from __future__ import annotations

import inspect
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from lm_eval.config.functions import FunctionRef, resolved
from lm_eval.config.limits import bounded_match
from lm_eval.config.schema import Key, check
from lm_eval.errors import (
    ConfigError,
    FieldError,
    UnknownNameError,
    did_you_mean,
    listing,
)
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
            and get_filter(function).__module__ == __name__
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


# Filters


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


# Take the answer out

NUMBER_AFTER_HASHES = r"#### (\-?[0-9\.\,]+)"
_TAGGED_TOKEN = re.compile(r"\('([^']*)', '([^']*)'\)")


class RegexFilter(Filter):
    """One match of a pattern, stripped; ``fallback`` if there is none.

    ``group_select`` says which match. Of several groups the first that is not empty counts.
    """

    def __init__(
        self,
        regex_pattern: str = NUMBER_AFTER_HASHES,
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each(self._read, resps)

    def _read(self, response: Any) -> Any:
        match = self._match(self.regex, response)
        if match is None:
            return self.fallback
        if match == ():
            return _strip(self.fallback)
        return match

    def _match(self, regex: re.Pattern[str], response: Any) -> Any:
        """The selected match; ``()`` if all of its groups are empty, None without a match."""
        text = response if isinstance(response, str) else ""
        matches = bounded_match(regex.findall, text, pattern=regex.pattern, owner="Filter")
        try:
            match = matches[self.group_select]
        except IndexError:
            return None
        if isinstance(match, tuple):
            match = next((group for group in match if group), ())
        return _strip(match)


class POSFilter(Filter):
    """The tags of ``('token', 'TAG')`` pairs in a text, as a list."""

    def __init__(
        self,
        regex_pattern: str = r"\['(.*?)'\]",
        group_select: int = 0,
        fallback: Any = None,
    ) -> None:
        # The pattern has never decided anything; it is kept because task files give one.
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = ["invalid"] if fallback is None else fallback

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each(self._tags, resps)

    def _tags(self, response: Any) -> Any:
        pairs = _TAGGED_TOKEN.findall(response) if isinstance(response, str) else response
        return [tag for _, tag in pairs] or self.fallback


class MultiChoiceRegexFilter(RegexFilter):
    """The letter of a choice, as ``(A)``: found by the pattern, else by the text of a choice of
    ``doc["choices"]`` in the response, else as a letter after a colon.

    The ``ignore`` options concern the second step only.
    """

    def __init__(
        self,
        regex_pattern: str = NUMBER_AFTER_HASHES,
        group_select: int = 0,
        fallback: str = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: list[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore
        self._ignored = [re.compile(pattern) for pattern in regexes_to_ignore or ()]

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        return [self._letters(some, choices_of(doc)) for some, doc in zip(resps, docs, strict=True)]

    def _letters(self, responses: Iterable[Any], choices: Iterable[str]) -> list[Any]:
        texts = [self._plain(choice.strip()) for choice in choices]
        letters = [chr(ord("A") + place) for place in range(len(texts))]
        # A text that occurs twice is the later choice.
        of_text = {text: f"({letter})" for text, letter in zip(texts, letters, strict=True)}
        of_letter = {letter: f"({letter})" for letter in letters}
        # Longest first: otherwise "Guilty" would be found inside "Guilty of Romance".
        any_text = re.compile("|".join(sorted(map(re.escape, texts), key=len, reverse=True)))
        any_letter = re.compile(rf":[\s]*({'|'.join(map(re.escape, letters))})")
        answers = []
        for response in responses:
            answer = self._match(self.regex, response) or None
            if not answer:
                answer = self._look_up(any_text, self._plain(response), of_text)
            if not answer:
                answer = self._look_up(any_letter, response, of_letter)
            answers.append(answer or self.fallback)
        return answers

    def _look_up(self, regex: re.Pattern[str], response: Any, names: Mapping[str, str]) -> Any:
        match = self._match(regex, response)
        return names.get(match, match) if match else None

    def _plain(self, text: Any) -> str:
        """The text without what is to be ignored."""
        if not isinstance(text, str):
            return ""
        for regex in self._ignored:
            replace = partial(regex.sub, "")
            text = bounded_match(replace, text, pattern=regex.pattern, owner="Filter")
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
        return str(text)


def choices_of(doc: Mapping[str, Any]) -> Iterable[str]:
    """The doc's field ``choices``: this filter looks there, whatever the task says."""
    try:
        choices: Iterable[str] = doc["choices"]
    except KeyError:
        raise FieldError(
            "the filter multi_choice_regex reads the choices from a field `choices`, and the doc "
            f"has none. Its fields: {listing(doc)}. Add the field in `process_docs`, or use the "
            "filter `regex`."
        ) from None
    return choices


def _strip(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


# Rewrite each response


class _TextFilter(Filter):
    """Changes each text by itself and takes no options."""

    change: ClassVar[Callable[[str], str]]

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(type(self).change, resps)


class LowercaseFilter(_TextFilter):
    """Responses in lower case."""

    change = str.lower


class UppercaseFilter(_TextFilter):
    """Responses in upper case."""

    change = str.upper


class WhitespaceFilter(Filter):
    """Responses without white space at their ends."""

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(str.strip, resps)


class MapFilter(Filter):
    """Each response looked up in ``mapping_dict``; ``default_value`` if it is not a key."""

    def __init__(
        self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None
    ) -> None:
        if mapping_dict is not None and not isinstance(mapping_dict, Mapping):
            raise ConfigError(f"mapping_dict must be a mapping, not {mapping_dict!r}.")
        self.mapping_dict = mapping_dict or {}
        self.default_value = default_value

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each(self._look_up, resps)

    def _look_up(self, response: Any) -> Any:
        try:
            return self.mapping_dict.get(response, self.default_value)
        except TypeError:  # a list cannot be a key
            return self.default_value


SPAN_LABELS = {
    "PER": ("person", "people", "persons", "per"),
    "LOC": ("location", "counties", "places", "country", "continent", "loc"),
    "ORG": ("organization", "company", "org"),
    "DATE": ("time", "date"),
}
_LABEL_OF = {word: label for label, words in SPAN_LABELS.items() for word in words}
_LABEL_WORD = re.compile(rf"\b({'|'.join(_LABEL_OF)})\s*:")
_SPANS = re.compile(rf"\b({'|'.join(SPAN_LABELS)}):\s*([^$]+)")


def format_spans(text: str) -> str:
    """The entities in a text such as ``Person: Ada $$ LOCATION: Rome, Kenya``."""
    labelled = _LABEL_WORD.sub(lambda match: f"{_LABEL_OF[match[1]]}:", text.lower())
    fields = labelled.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    entities = []
    for label, names in _SPANS.findall(fields):
        stripped = (name.strip() for name in names.split(","))
        entities += [f"{label.lower()}: {name}" for name in stripped if name.lower() != "none"]
    return " $ ".join(entities)


class SPANFilter(_TextFilter):
    """Named entities as ``label: entity $ label: entity``, from any of several spellings.

    Labels become ``per``, ``loc``, ``org`` or ``date``; entities called ``none`` are left out.
    """

    change = format_spans


class CustomFilter(Filter):
    """``filter_fn(resps, docs)``, the task's own function over all responses."""

    def __init__(self, filter_fn: Callable[..., Responses]) -> None:
        self.filter_fn = filter_fn

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        return self.filter_fn(resps, docs)


# Choose among responses


class TakeFirstFilter(Filter):
    """The first response, which is no longer a list: a later step sees its letters."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return [some[:1] if isinstance(some, str) else some[0] for some in resps]


class TakeKFilter(Filter):
    """The first ``k`` responses; the task's ``repeats`` must give that many."""

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        resps = list(resps)
        if resps and len(resps[0]) < self.k:
            raise ConfigError(
                f"The filter take_first_k takes {self.k} responses to each request, and there are "
                f"{len(resps[0])}. Set `repeats: {self.k}` in the task, or a smaller `k`."
            )
        return [some[: self.k] for some in resps]


class MajorityVoteFilter(Filter):
    """A list of one: the most frequent response, of equally frequent ones the first seen."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return [_most_frequent(some) for some in resps]


def _most_frequent(responses: Iterable[Any]) -> list[Any]:
    counts: Counter[Any] = Counter(responses)
    return [response for response, _ in counts.most_common(1)]
