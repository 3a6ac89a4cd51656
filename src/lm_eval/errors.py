"""Every exception the package raises on purpose, and how messages are worded.

Each one answers *where*, *what* and *what next* in its message. The command line prints that message
and exits with code 1; a traceback means a defect in this package.

    LmEvalError
    ├── UsageError                 a flag or argument that cannot be used
    ├── MissingImportError         a name of EleutherAI's harness that is not here; an ImportError
    ├── MissingAttributeError      the same, asked of its module; an AttributeError
    ├── UnknownNameError           a name that is not registered; carries the nearest valid one
    │   ├── UnknownFormatError
    │   ├── UnknownTaskError
    │   └── UnknownModelError
    ├── ConfigError                a YAML file or configuration value
    │   ├── YamlSyntaxError        carries line and column
    │   ├── IncludeError           carries the chain of files
    │   ├── HelperError            a task's Python that cannot be imported; carries what it lacks
    │   └── UnsupportedError       a key that this release cannot follow
    ├── DataError                  a data file, a split, a row
    ├── FieldError                 a field spec that cannot be evaluated on a doc
    │   └── CodeNotRunError        a field that is Python, and running code is not allowed
    ├── FormatError                a format that does not fit its task or doc
    │   ├── KnownBadDocError       a doc that its task leaves out by name
    │   └── GoldError              a target that names no choice
    │       └── AmbiguousGoldError a target that may mean two; the task can say which
    ├── ModelError                 a backend that cannot answer
    │   ├── MissingExtraError      a package that is not installed; carries the pip line
    │   └── RequestError           a request that failed for good; carries status and attempts
    │       └── UnreachableError   no server answers at the address
    ├── ComparisonError            runs that cannot be compared as they are
    ├── StoreError                 a file of stored answers that cannot be used
    └── OutputError                results that cannot be written
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

E = TypeVar("E", bound="LmEvalError")


class LmEvalError(Exception):
    """Base of all errors meant for the user. ``retryable`` says whether trying again can help."""

    retryable: bool = False
    skip_reason: str | None = None
    """Why a doc cannot be asked, in a few words, where other docs of its task can; None: the fault
    is not the doc's alone, and nothing is skipped."""

    def __reduce__(self) -> tuple[Any, ...]:
        """All of it survives a journey between processes, whatever its constructor takes."""
        return _rebuilt, (type(self), self.args, dict(self.__dict__))

    def saying(self: E, message: str) -> E:
        """An error of the same class with the same facts and another message."""
        return _rebuilt(type(self), (message,), dict(self.__dict__))


def _rebuilt(cls: type[E], args: tuple[Any, ...], state: dict[str, Any]) -> E:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(LmEvalError):
    """A command-line flag or function argument that cannot be used as given."""


class MissingImportError(LmEvalError, ImportError):
    """An import of something that this package does not have. The message says what to use."""


class MissingAttributeError(LmEvalError, AttributeError):
    """``module.name`` for something that this package does not have."""


class UnknownNameError(LmEvalError, KeyError):
    """A name that is not registered. ``nearest`` is the closest valid name, or None."""

    def __init__(self, message: str, *, name: str = "", nearest: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.nearest = nearest

    __str__ = Exception.__str__  # a KeyError would quote it


class UnknownFormatError(UnknownNameError):
    """No format of that name in the task or the registry."""


class UnknownTaskError(UnknownNameError):
    """No task, group or tag of that name."""


class UnknownModelError(UnknownNameError, ValueError):
    """No model backend of that name. A ``ValueError`` too, as ``get_model`` of the harness raises."""


class ConfigError(LmEvalError):
    """A configuration that cannot be used. ``path`` and ``line`` say where, if known.

    ``key`` is the offending key, or the keys and places that lead to it, so that a caller that knows
    the file can find its line.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        key: str | tuple[str | int, ...] | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.key = key

    @property
    def route(self) -> tuple[str | int, ...]:
        """The keys and places that lead to the offending key."""
        return (self.key,) if isinstance(self.key, str) else self.key or ()


class YamlSyntaxError(ConfigError):
    """A file that is not YAML."""


class IncludeError(ConfigError):
    """An ``include`` that is missing or runs in a circle."""


class HelperError(ConfigError):
    """A helper module that cannot be imported.

    ``reason`` is its own error, ``package`` the package that is missing, if that is why.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        reason: str = "",
        package: str | None = None,
    ) -> None:
        super().__init__(message, path=path, line=line)
        self.reason = reason
        self.package = package


class UnsupportedError(ConfigError):
    """A task that asks for something this release does not do. ``key`` is what asks for it."""


class DataError(LmEvalError):
    """A data file, split or row that cannot be read."""


class NotFetchedError(DataError):
    """Data of a hub that is not in the cache, while the hub cannot be asked."""


class FieldError(LmEvalError):
    """A field spec that has no value on a doc.

    ``located`` adds task, field and doc id once they are known further up.
    """

    def __init__(
        self,
        problem: str,
        *,
        task: str | None = None,
        field: str | None = None,
        doc_id: int | None = None,
        skip_reason: str | None = None,
    ) -> None:
        self.problem = problem
        self.skip_reason = skip_reason
        self.task = task
        self.field = field
        self.doc_id = doc_id
        self.what = "doc"
        super().__init__(problem)

    def __str__(self) -> str:
        return f"{place(self.task, self.field, self.doc_id, what=self.what)}{self.problem}"

    def located(
        self,
        *,
        task: str | None = None,
        field: str | None = None,
        doc_id: int | None = None,
        what: str = "doc",
    ) -> FieldError:
        """This error with what it did not know filled in. ``what`` is the kind of doc."""
        self.what = what if self.doc_id is None else self.what
        self.task = self.task if self.task is not None else task
        self.field = self.field if self.field is not None else field
        self.doc_id = self.doc_id if self.doc_id is not None else doc_id
        return self


class CodeNotRunError(FieldError):
    """A field that is a Python function, while running a task's code is not allowed."""


class FormatError(LmEvalError):
    """A format that does not fit the task or the doc it is applied to."""

    def __init__(self, message: str, *, skip_reason: str | None = None) -> None:
        super().__init__(message)
        self.skip_reason = skip_reason
        self.docs: Mapping[str, Sequence[int]] = {}
        """Reason → docs, if several docs of a task are at fault."""


class KnownBadDocError(FormatError):
    """A doc that its task leaves out by name (``skip_docs``)."""


class GoldError(FormatError):
    """A target that names none of the choices, or a text that several of them have."""


class AmbiguousGoldError(GoldError):
    """A target that may mean two choices. The task can say which (``target_type``)."""


class ModelError(LmEvalError):
    """A model backend that cannot be loaded or cannot answer."""


class ComparisonError(LmEvalError):
    """Stored runs that cannot be found, read, or set against each other as they are."""


class MissingExtraError(ModelError):
    """A package that is not installed. The message holds the exact ``pip install`` line."""

    def __init__(self, what: str, *, install: str) -> None:
        super().__init__(f"{what} Install it with:\n\n    {install}\n")
        self.what = what
        self.install = install


class RequestError(ModelError):
    """A request over HTTP that failed for good.

    ``status`` is the server's code, None without a response; ``attempts`` says how often it was sent.
    ``stops_run`` says that every other request would fail in the same way.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        attempts: int = 1,
        stops_run: bool = False,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.attempts = attempts
        self.stops_run = stops_run
        self.retryable = retryable


class UnreachableError(RequestError):
    """Nothing answers at the address: wrong host or port, no network, or a server that is down."""


class StoreError(LmEvalError):
    """A file of stored answers that cannot be opened, read or written."""


class OutputError(LmEvalError):
    """Results that cannot be written where they were asked for."""


def place(task: str | None, field: str | None, doc_id: int | None, *, what: str = "doc") -> str:
    """The start of a message: ``Task 't', doc 17, field 'doc_to_text': ``, as far as known."""
    parts = []
    if task is not None:
        parts.append(f"task {task!r}")
    if doc_id is not None:
        parts.append(f"{what} {doc_id}")
    if field is not None:
        parts.append(f"field {field!r}")
    if not parts:
        return ""
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}: "


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name closest to ``name``, or None when nothing comes close."""
    return next(iter(nearest_names(name, valid, most=1)), None)


def nearest_names(name: str, valid: Iterable[str], most: int = 4) -> list[str]:
    """The valid names that come close to ``name``, the closest first."""
    import difflib  # only a mistake needs it

    options = {str(option).lower(): str(option) for option in valid}
    matches = difflib.get_close_matches(str(name).lower(), options, n=most, cutoff=0.6)
    return [options[match] for match in matches]


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """``" Did you mean 'mcqa'?"``, or an empty string when nothing comes close."""
    match = nearest(name, valid)
    return f" Did you mean {match!r}?" if match else ""


def listing(names: Iterable[str], limit: int = 20) -> str:
    """Names as one readable line; a long list is cut and counted."""
    names = [str(name) for name in names]
    if not names:
        return "none"
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def few_names(name: str, valid: Iterable[str], most: int = 5) -> str:
    """Some of the valid names in one line, those that come close to ``name`` first."""
    known = list(dict.fromkeys(map(str, valid)))
    near = nearest_names(name, known, most)
    return listing([*near, *(other for other in known if other not in near)], most)


class LmEvalWarning(UserWarning):
    """Something a user should look at; the run goes on. The command line prints each once."""


def first_line(error: BaseException) -> str:
    """The first line of what an error says, without a full stop; its kind if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
