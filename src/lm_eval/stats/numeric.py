"""numpy and scipy, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

from lm_eval.errors import MissingExtraError

Array: TypeAlias = Any
"""An array of numpy. The package is imported late, so that its types are not at hand."""

INSTALL = "pip install 'lm-eval-formats[lab]'"


def numpy(install: str = INSTALL) -> Any:
    """The module numpy; an error with the line that installs it where it is missing."""
    return _module("numpy", install)


def special() -> Any:
    """The module ``scipy.special``: distributions as plain functions, which load quickly."""
    return _module("scipy.special")


def optimize() -> Any:
    """The module ``scipy.optimize``."""
    return _module("scipy.optimize")


def _module(name: str, install: str = INSTALL) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingExtraError(
            f"These statistics need {package}, which is not installed.", install=install
        ) from error
