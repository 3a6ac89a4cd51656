"""Classes of EleutherAI's harness that are not here: they say what to use when they are used.

They are backends, and loggers that send results to a service. Programs import them beside what they
run, so the import itself goes through, with a warning. Making one, or running a subclass, is an error
that names the replacement.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from lm_eval.addresses.backends import CLASSES, LOGGERS, LOGGING_ADVICE, advice_for
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.models.base import LM


class AbsentLogger:
    """A class that is not here."""

    advice = ""

    def __new__(cls, *_: Any, **_settings: Any) -> NoReturn:
        raise UsageError(f"{cls.__name__} is not here. {cls.advice}")


class AbsentBackend(AbsentLogger, LM):
    """A backend that is not here."""


def __getattr__(name: str) -> Any:
    if name not in CLASSES and name not in LOGGERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    advice = advice_for(CLASSES[name]) if name in CLASSES else LOGGING_ADVICE
    warnings.warn(
        f"{name} is imported, and this package does not have it. {advice}",
        LmEvalWarning,
        stacklevel=5,
    )
    base = AbsentBackend if name in CLASSES else AbsentLogger
    made = type(name, (base,), {"advice": advice, "__module__": __name__})
    globals()[name] = made
    return made
