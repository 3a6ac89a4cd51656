"""How Python asks for the names of EleutherAI's harness: ``import``, attributes, the version.

``lm_eval.addresses.names`` lists every public name of its release 0.4.13. Modules of it that have no
file here, such as ``lm_eval.models.utils``, are made from that list by a finder at the end of
``sys.meta_path``, which Python asks last. Modules that do have a file say
``__getattr__ = attributes_of(__name__)`` for the names they lack. A name that is not here is an error
that says what to use instead. Nothing is read before a name is missing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.errors import MissingAttributeError, MissingImportError, did_you_mean

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import Distribution, DistributionFinder
    from types import ModuleType

_ROOT = "lm_eval"
_LOGGERS = ("eval_logger", "logger")


class AddressFinder:
    """Finds the modules of the list, and says what to use for names that are not here."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: Any = None) -> Any:
        """The module of an address, None for what is not ours, an error for what is missing."""
        if path is None or not name.startswith(f"{_ROOT}."):
            return None
        from lm_eval.addresses.names import NAMES

        if name in NAMES:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, AddressFinder, is_package=True)  # type: ignore[arg-type]
        module, _, attribute = name.rpartition(".")
        if module in NAMES and not attribute.startswith("__"):
            # Asked by ``from module import attribute``, once the module said that it has none.
            raise MissingImportError(_explanation(module, attribute), name=name)
        return None

    @staticmethod
    def create_module(_spec: ModuleSpec) -> ModuleType | None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        from lm_eval.addresses.names import NAMES

        name = module.__name__
        module.__doc__ = f"``{name}`` of EleutherAI's harness, an address."
        vars(module)["__all__"] = [key for key, home in NAMES[name].items() if home.is_here]
        vars(module)["__getattr__"] = attributes_of(name)

    @staticmethod
    def find_distributions(context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Answers ``importlib.metadata.version("lm_eval")`` if that distribution is not installed."""
        if str(context.name).lower().replace("-", "_") == _ROOT:
            from lm_eval.addresses.names import distribution

            yield distribution()


def install() -> None:
    """Let Python ask for the addresses, after everything else."""
    if AddressFinder not in sys.meta_path:
        sys.meta_path.append(AddressFinder)


def attributes_of(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module: what its address has beside what its file holds.

    The module becomes one that Python looks for submodules in, because that is how it asks for a name
    that ``from module import name`` did not find.
    """
    holder = sys.modules[module]
    if not hasattr(holder, "__path__"):
        holder.__path__ = []

    def attribute(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = _value(module, name)
        setattr(holder, name, value)
        return value

    return attribute


def _value(module: str, name: str) -> Any:
    from lm_eval.addresses.names import NAMES, home_of

    home = home_of(module, name)
    if home is not None and home.target == f"{module}:{name}":  # the file is still being read
        raise AttributeError(f"module {module!r} has no attribute {name!r} yet")
    if home is not None and home.is_here:
        return home.get()
    if name in _LOGGERS:
        import logging

        return logging.getLogger(module)
    if f"{module}.{name}" in NAMES:
        return importlib.import_module(f"{module}.{name}")
    raise MissingAttributeError(_explanation(module, name))


def _explanation(module: str, name: str) -> str:
    """Why a name is not here, and what to use."""
    from lm_eval.addresses.names import NAMES, RELEASE, home_of

    home = home_of(module, name)
    if home is not None:
        return f"{module}.{name} is not here. {home.advice}"
    if f"{module}.".startswith("lm_eval.tasks."):
        helpers = [key for key in NAMES if key.startswith("lm_eval.tasks.") and "utils" in key]
        return (
            f"{module} has no {name!r} here. In release {RELEASE} of EleutherAI's harness this is where "
            f"the Python of its tasks lives; of that, {', '.join(helpers)} can be imported. Copy what "
            "you need beside your own task, or install that release."
        )
    if "._" in f"{module}.{name}":
        return (
            f"{module} has no {name!r} here. Private names of release {RELEASE} of EleutherAI's harness "
            "cannot be imported; docs/harness.md lists the public ones."
        )
    known = [key for key, its_home in NAMES.get(module, {}).items() if its_home.is_here]
    return (
        f"{module} has no {name!r}, neither here nor in release {RELEASE} of EleutherAI's harness, "
        f"whose names are found here.{did_you_mean(name, known)} A program for a later release needs "
        "that release; docs/harness.md lists every name."
    )
