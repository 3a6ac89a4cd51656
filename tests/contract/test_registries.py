"""Everything that is registered says in a line what it is."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lm_eval.formats.compile import format_names, get_format
from lm_eval.formats.readers import Reading, bind_reader
from lm_eval.models.base import LM
from lm_eval.registry import METRICS, MODELS, READERS, Metric


def one_line(text: str | None) -> bool:
    first = (text or "").strip().partition("\n")[0]
    return len(first) >= 10 and len(first) <= 110


@pytest.mark.parametrize("name", format_names())
def test_format_is_explained(name: str) -> None:
    summary = get_format(name).summary
    assert one_line(summary)
    assert summary.endswith(".")


@pytest.mark.parametrize("name", sorted(METRICS))
def test_metric_is_explained(name: str) -> None:
    metric = METRICS.get(name)
    assert isinstance(metric, Metric)
    assert metric.name == name
    assert one_line(metric.explained)
    assert metric.of_choice or metric.of_text or metric.function


@pytest.mark.parametrize("name", sorted(READERS))
def test_reader_is_explained(name: str) -> None:
    reader = READERS.get(name)
    assert one_line(inspect.getdoc(reader))


# What a reader must be told; the others need nothing.
OPTIONS: dict[str, dict[str, Any]] = {
    "after_last": {"phrase": "The answer is"},
    "label_after": {"phrase": "The answer is"},
    "regex": {"pattern": r"(\w+)"},
    "json_field": {"field": "answer"},
}


@pytest.mark.parametrize("name", sorted(READERS))
def test_reader_reads_nothing_from_nothing(name: str) -> None:
    wanted = inspect.signature(READERS.get(name)).parameters
    options = {k: v for k, v in OPTIONS.get(name, {}).items() if k in wanted}
    reading = bind_reader({"reader": name, **options})("", labels=("A", "B"), choices=("x", "y"))
    assert isinstance(reading, Reading)
    assert not reading.is_answer


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model_is_explained(name: str) -> None:
    model = MODELS.get(name)
    assert issubclass(model, LM)
    assert one_line(model.__doc__)
