"""A model by duck type: an object with the harness's three methods, of whatever class."""

from __future__ import annotations

from typing import Any

from lm_eval.models.base import LM

METHODS = ("loglikelihood", "loglikelihood_rolling", "generate_until")


class DuckLM(LM):
    """Passes each kind of request on to the object, as the harness would."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._object = model

    def loglikelihood(self, requests: Any) -> Any:
        return self._object.loglikelihood(requests)

    def loglikelihood_rolling(self, requests: Any) -> Any:
        return self._object.loglikelihood_rolling(requests)

    def generate_until(self, requests: Any) -> Any:
        return self._object.generate_until(requests)


def as_model(model: Any) -> LM | None:
    """The object as a model that has its class's name; None if it lacks one of the methods."""
    if not all(callable(getattr(model, name, None)) for name in METHODS):
        return None
    named: LM = type(type(model).__name__, (DuckLM,), {})(model)
    return named
