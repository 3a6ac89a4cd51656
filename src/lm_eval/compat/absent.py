"""Backends of EleutherAI's harness that are not here: classes that say what to use when they are used.

Programs import them beside the backend that they run, so the import itself goes through, with a
warning. Making one, or running a subclass, is an error that names the replacement.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from lm_eval.addresses.backends import CLASSES, advice_for
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.models.base import LM


class AbsentBackend(LM):
    """A backend that is not here."""

    advice = ""

    def __new__(cls, *_: Any, **_settings: Any) -> NoReturn:
        raise UsageError(f"{cls.__name__} needs a backend that is not here. {cls.advice}")


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    advice = advice_for(CLASSES[name])
    warnings.warn(
        f"{name} is imported, and this package does not have it. {advice}",
        LmEvalWarning,
        stacklevel=5,
    )
    made = type(name, (AbsentBackend,), {"advice": advice, "__module__": __name__})
    globals()[name] = made
    return made
