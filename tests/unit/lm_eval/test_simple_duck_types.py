"""Models by duck type."""

from __future__ import annotations

from typing import Any

import pytest

import lm_eval
from lm_eval.errors import UsageError
from lm_eval.tasks.loader import get_task_dict


class Duck:
    def loglikelihood(self, requests: Any) -> Any:
        return [(-float(len(request.args[1])), True) for request in requests]

    def loglikelihood_rolling(self, requests: Any) -> Any:
        return [-1.0 for _ in requests]

    def generate_until(self, requests: Any) -> Any:
        return ["A" for _ in requests]


def test_an_object_with_the_three_methods_is_a_model() -> None:
    tasks = get_task_dict(["demo_mcq@mcqa", "demo_mcq@generate"])
    found = lm_eval.evaluate(lm=Duck(), task_dict=tasks, limit=4)  # type: ignore[arg-type]
    assert list(found["results"]) == ["demo_mcq@mcqa", "demo_mcq@generate"]
    samples = found["samples"]["demo_mcq@generate"]
    assert [sample["resps"] for sample in samples] == [[["A"]]] * 4
    with pytest.raises(UsageError, match="has its three methods"):
        lm_eval.evaluate(lm=object(), task_dict=tasks)  # type: ignore[arg-type]
