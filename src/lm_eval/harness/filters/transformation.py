"""Filters that rewrite each response, and the one that calls the task's own function."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.errors import ConfigError
from lm_eval.harness.filters.pipeline import Filter, Responses, each, each_text

SPAN_LABELS = {
    "PER": ("person", "people", "persons", "per"),
    "LOC": ("location", "counties", "places", "country", "continent", "loc"),
    "ORG": ("organization", "company", "org"),
    "DATE": ("time", "date"),
}
_LABEL_OF = {word: label for label, words in SPAN_LABELS.items() for word in words}
_LABEL_WORD = re.compile(rf"\b({'|'.join(_LABEL_OF)})\s*:")
_SPANS = re.compile(rf"\b({'|'.join(SPAN_LABELS)}):\s*([^$]+)")


class LowercaseFilter(Filter):
    """Responses in small letters."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(str.lower, resps)


class UppercaseFilter(Filter):
    """Responses in capitals."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(str.upper, resps)


class MapFilter(Filter):
    """Each response looked up in ``mapping_dict``; ``default_value`` where it is no key."""

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
        except TypeError:  # a list is no key
            return self.default_value


class SPANFilter(Filter):
    """Named entities as ``label: entity $ label: entity``, from any of several spellings.

    Labels become ``per``, ``loc``, ``org`` or ``date``; entities called ``none`` are left out.
    """

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(format_spans, resps)


class CustomFilter(Filter):
    """``filter_fn(resps, docs)``, the task's own function over all responses."""

    def __init__(self, filter_fn: Callable[..., Responses]) -> None:
        self.filter_fn = filter_fn

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        return self.filter_fn(resps, docs)


def format_spans(text: str) -> str:
    """The entities in a text such as ``Person: Ada $$ LOCATION: Rome, Kenya``."""
    labelled = _LABEL_WORD.sub(lambda match: f"{_LABEL_OF[match[1]]}:", text.lower())
    fields = labelled.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    entities = []
    for label, names in _SPANS.findall(fields):
        stripped = (name.strip() for name in names.split(","))
        entities += [f"{label.lower()}: {name}" for name in stripped if name.lower() != "none"]
    return " $ ".join(entities)


class TakeFirstFilter(Filter):
    """The first response, which is no list any more: a later step sees its letters."""

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
