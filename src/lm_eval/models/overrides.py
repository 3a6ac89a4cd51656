"""A model of a redefined backend → what tells its answers from others: the key that it names.

A subclass, an object or a patch of our own class may redefine methods. Nobody can tell from outside
what decides its answers, so they are kept only under a ``cache_key`` or an ``identity()`` of its own.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from lm_eval.models.base import LM, is_ours, overridden, shipped


def kept_as(name: str, doc: str) -> Any:
    """A property over the attribute ``name``, under which the harness keeps its value."""

    def write(model: Any, value: Any) -> None:
        setattr(model, name, value)

    return property(attrgetter(name), write, doc=doc)


def class_path(cls: type) -> str:
    """Where a class is defined: its module and qualified name."""
    return f"{cls.__module__}.{cls.__qualname__}"


def is_redefined(model: object) -> bool:
    """Whether a class outside this package, the object or a patch of our class redefines anything."""
    classes = [c for c in type(model).__mro__ if c.__module__ not in ("abc", "builtins", "typing")]
    return (
        not all(map(is_ours, classes))
        or any(
            shipped(cls).get(name) is not value and _is_code(value)
            for cls in classes
            for name, value in vars(cls).items()
        )
        or bool(overridden(model, getattr(model, "__dict__", {})))
    )


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, property | staticmethod | classmethod)


def own_identity(model: LM) -> dict[str, Any] | None:
    """What tells a model's answers from another's, as far as the model knows; None if nothing does."""
    identity = model.identity()
    if identity is not None and (overridden(model, ["identity"]) or not is_redefined(model)):
        return {"class": type(model).__name__, **identity}
    key = getattr(model, "cache_key", None)
    if key is None:
        return None
    return {**(identity or {}), "class": class_path(type(model)), "cache_key": str(key)}
