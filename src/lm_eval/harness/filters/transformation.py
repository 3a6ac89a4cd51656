"""Filters that rewrite each response, and the one that calls the task's own function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_eval.errors import ConfigError
from lm_eval.harness.filters.base import Filter, Responses, each, each_text

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
