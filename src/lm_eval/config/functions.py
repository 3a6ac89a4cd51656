"""The Python behind a ``!function a.b.f`` tag in a YAML file: named now, run later.

In: the dotted name and the file with the tag. Out: a ``FunctionRef``, which can be called, resolved to
any object, or printed back, and which imports nothing before it is used.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    FieldError,
    HelperError,
    LmEvalError,
    did_you_mean,
    listing,
)
from lm_eval.registry import STAND_INS

_UNSET = object()
_LOCK = threading.RLock()
_LOADED: dict[str, tuple[tuple[int, int], ModuleType]] = {}
"""Helper file → (modification time and size, the module made from it)."""


@dataclass(frozen=True, repr=False)
class FunctionRef:
    """The object ``attribute`` of ``module``, looked for beside the YAML file ``source`` first.

    ``folder`` is the folder of that file, None for text that is not from a file. With ``allowed``
    false, using it is an error that says how to allow it. Once resolved, a reference keeps its
    object: editing a helper during a run does not change the run.
    """

    module: str
    attribute: str
    folder: str | None = None
    source: str = "<text>"
    allowed: bool = True
    _object: Any = field(default=_UNSET, init=False, compare=False)

    @classmethod
    def parse(
        cls, text: str, *, folder: str | None, source: str = "<text>", allowed: bool = True
    ) -> FunctionRef:
        """The reference for what follows the tag, such as ``utils.process_docs``."""
        name = text.strip()
        module, _, attribute = name.rpartition(".")
        if not attribute.isidentifier() or not all(module.split(".")) or "/" in name:
            raise ConfigError(
                f"{source}: `!function {name}` names no function. Write `!function module.name`: "
                f"`!function utils.process_docs` is `process_docs` in the file utils.py beside it.",
                path=source,
            )
        return cls(module, attribute, folder, source, allowed)

    @property
    def file(self) -> Path | None:
        """The helper file beside the YAML file; None if the module is imported normally."""
        if self.folder is None:
            return None
        path = Path(self.folder, *self.module.split(".")).with_suffix(".py")
        return path if path.is_file() else None

    def as_text(self) -> str:
        """The reference as the YAML file has it."""
        return f"!function {self.module}.{self.attribute}"

    __repr__ = as_text
    __str__ = as_text

    def resolve(self) -> Any:
        """The object itself, be it a function, a class or a list; imports its module once."""
        if self._object is _UNSET:
            self._check_allowed()
            object.__setattr__(self, "_object", self._find())
        return self._object

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.resolve()
        if not callable(function):
            raise FieldError(
                f"`{self.as_text()}` ({self.source}) is a {type(function).__name__}, which cannot "
                f"be called. Name a function, or use it in a field that takes a value."
            )
        try:
            return function(*args, **kwargs)
        except LmEvalError:
            raise
        except Exception as error:
            raise FieldError(self._call_failed(error)) from error

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the loaded object: its module exists only in this process.
        return FunctionRef, (self.module, self.attribute, self.folder, self.source, self.allowed)

    def _check_allowed(self) -> None:
        if self.allowed:
            return
        code = self.file or f"the module {self.module}"
        raise CodeNotRunError(
            f"`{self.as_text()}` in {self.source} is Python code ({code}), and running a task's "
            f"code was not allowed. Read it, and add `--run_code` if you trust it."
        )

    def _find(self) -> Any:
        file = self.file
        module = self._import() if file is None else load_helper(file, wanted_by=str(self))
        try:
            return getattr(module, self.attribute)
        except AttributeError:
            names = [name for name in vars(module) if not name.startswith("_")]
            raise ConfigError(
                f"{self.source}: `{self.as_text()}`: {file or self.module} has no "
                f"{self.attribute!r}.{did_you_mean(self.attribute, names)} "
                f"It defines: {listing(sorted(names))}.",
                path=self.source,
            ) from None

    def _import(self) -> ModuleType:
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            # The module itself or a parent of it is missing, not something that it imports.
            if error.name and f"{self.module}.".startswith(f"{error.name}."):
                raise ConfigError(self._no_module(), path=self.source) from None
            _import_failed(error, f"the module {self.module}", "", str(self))
        except (Exception, SystemExit) as error:
            _import_failed(error, f"the module {self.module}", "", str(self))

    def _no_module(self) -> str:
        if self.folder is None:
            return f"{self.source}: `{self.as_text()}`: there is no module {self.module!r}."
        relative = f"{self.module.replace('.', '/')}.py"
        parent = Path(self.folder, relative).parent
        siblings = sorted(path.name for path in parent.glob("*.py")) if parent.is_dir() else []
        return (
            f"{self.source}: `{self.as_text()}`: there is no file {relative} in {self.folder}, and "
            f"no installed module {self.module!r}.{did_you_mean(Path(relative).name, siblings)} "
            f"Python files there: {listing(siblings)}."
        )

    def _call_failed(self, error: Exception) -> str:
        location = _location(error, str(self.file or ""))
        where = f" at {location}" if location else ""
        hint = ""
        if isinstance(error, ModuleNotFoundError):
            hint = " Import files beside the helper at its top, not inside the function."
        return f"`{self.as_text()}` ({self.source}) failed{where}: {_text(error)}{hint}"


def resolved(value: Any) -> Any:
    """The function behind a reference; any other value as it is."""
    return value.resolve() if isinstance(value, FunctionRef) else value


def load_helper(file: Path, *, wanted_by: str = "") -> ModuleType:
    """The module of a helper file; loaded again only if the file has changed.

    The module is called ``lm_eval_code_<hash of its folder>.<stem>``, so that it can use
    ``from . import sibling`` and two tasks can each have a ``utils.py``.
    """
    path = os.path.realpath(file)
    with _LOCK:
        stat = os.stat(path)
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = _LOADED.get(path)
        if known is None or known[0] != stamp:
            known = _LOADED[path] = (stamp, _execute(path, wanted_by))
        return known[1]


def _execute(path: str, wanted_by: str) -> ModuleType:
    folder, stem = os.path.dirname(path), Path(path).stem
    package = f"lm_eval_code_{hashlib.sha256(folder.encode(errors='replace')).hexdigest()[:12]}"
    _make_package(package, folder)
    spec = spec_from_file_location(f"{package}.{stem}", path)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        # Compiled from its text, because times in a cached .pyc have a resolution of one second.
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        with _siblings_importable(folder):
            exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        _import_failed(error, path, path, wanted_by)
    return module


def _make_package(name: str, folder: str) -> None:
    """Register ``folder`` as a package, without running an ``__init__.py``."""
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package


@contextmanager
def _siblings_importable(folder: str) -> Iterator[None]:
    """Let ``import sibling`` find files of ``folder``; afterwards the interpreter is as before.

    Other tasks may have files of the same name, so modules loaded from here are removed from
    ``sys.modules`` afterwards, and modules of the same name come back.
    """
    finder = _SiblingFinder(folder)
    _stand_in_for_datasets()
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if finder.covers(name)}
    if "evaluate" in sys.modules:
        hidden["evaluate"] = sys.modules["evaluate"]
    sys.modules["evaluate"] = STAND_INS.get("evaluate")()
    before = set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in finder.found:
                del sys.modules[name]
        sys.modules.pop("evaluate", None)
        sys.modules.update(hidden)


def _stand_in_for_datasets() -> None:
    """Let helpers import ``datasets`` if it is not installed; a small table is enough for most."""
    if "datasets" not in sys.modules and not _origin("datasets"):
        sys.modules["datasets"] = STAND_INS.get("datasets")()


class _SiblingFinder:
    """Finds top-level modules in one folder. The standard library and installed packages come first."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.found: set[str] = set()
        names = [entry.name.removesuffix(".py") for entry in os.scandir(folder)]
        self.names = frozenset(names) - sys.stdlib_module_names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name not in self.names or _is_installed(name):
            return None
        spec = PathFinder.find_spec(name, [self.folder])
        if spec is None or spec.origin is None:  # a folder without __init__.py holds data
            return None
        self.found.add(name)
        return spec

    def covers(self, name: str) -> bool:
        """Whether a loaded module would hide a file of this folder."""
        top = name.partition(".")[0]
        if top not in self.names or top == "lm_eval" or _is_installed(top):
            return False
        return os.path.exists(os.path.join(self.folder, f"{top}.py"))


def _origin(name: str) -> str | None:
    """The file that ``import name`` would load from ``sys.path``; None for a folder of data."""
    try:
        spec = PathFinder.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin


def _is_installed(name: str) -> bool:
    """Whether a module is one of a folder that packages are installed in, wherever that is.

    A ``utils.py`` that just happens to be in the current folder is not: the helper means its own.
    """
    origin = _origin(name)
    if origin is None:
        return False
    file = Path(origin)
    root = file.parent.parent if file.name.startswith("__init__.") else file.parent
    return next(root.glob("*-info"), None) is not None


def _import_failed(error: BaseException, what: str, path: str, wanted_by: str) -> NoReturn:
    location = _location(error, path)
    package = missing_package(error)
    hint = ""
    if package is not None:
        hint = f" Install the package that provides {package!r}, or put the file beside it."
    raise HelperError(
        f"`{wanted_by}` cannot be used: importing {what} failed"
        f"{f' at {location}' if location else ''}: {_text(error)}{hint}",
        path=path or None,
        line=int(location.rpartition(":")[2]) if location else None,
        reason=_text(error),
        package=package,
    ) from error


def missing_package(error: BaseException) -> str | None:
    """The missing package that made an import fail, as far as the errors tell.

    Helpers often catch the first error and raise one that says what to install.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ModuleNotFoundError) and seen.name:
            return seen.name.partition(".")[0]
        seen = seen.__cause__ or seen.__context__
    advice = re.search(r"pip install ['\"`]?([A-Za-z][\w.-]*)", str(error))
    return advice[1] if advice else None


def _location(error: BaseException, path: str) -> str:
    """``file:line`` of the error: the innermost location in the helper's folder."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    folder = os.path.dirname(os.path.realpath(path)) if path else ""
    ours = [frame for frame in outside if folder and frame.filename.startswith(folder + os.sep)]
    last = (ours or [f for f in outside if not f.filename.startswith("<frozen")])[-1:]
    return f"{last[0].filename}:{last[0].lineno}" if last else ""


def _text(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
