"""Types of arrays, and numpy and scipy for modules that must load quickly or without scipy.

A module that only the lab reaches imports numpy at its top. One that other commands load as well takes
``np`` and ``special`` from here: they are imported when something of theirs is first used. scipy is
not in the core install: a command that needs it calls ``require`` first.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from lm_eval.errors import MissingExtraError

__all__ = [
    "LAB_PACKAGES",
    "ArrayLike",
    "Bools",
    "Floats",
    "Generator",
    "Ints",
    "LateModule",
    "np",
    "require",
    "special",
]

INSTALL = "pip install 'lm-eval-formats[lab]'"

LAB_PACKAGES = ("scipy.special",)
"""What the statistics of the lab need."""

Floats: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.integer[Any]]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"
ArrayLike: TypeAlias = "npt.ArrayLike"
"""What numpy makes an array of, such as a list of lists."""
Generator: TypeAlias = "np.random.Generator"


def require(*packages: str, install: str = INSTALL) -> None:
    """Raise a ``MissingExtraError`` with the line that installs them, unless all can be imported."""
    for package in packages:
        _load(package, install)


class LateModule:
    """A module that is imported when something of it is first used."""

    def __init__(self, name: str, install: str = INSTALL) -> None:
        self._name = name
        self._install = install

    def __getattr__(self, name: str) -> Any:
        value = getattr(_load(self._name, self._install), name)
        setattr(self, name, value)  # the next lookup does not come here
        return value


def _load(name: str, install: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingExtraError(
            f"These statistics need {package}, which is not installed.", install=install
        ) from error


special: Any = LateModule("scipy.special")
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LateModule("numpy")
