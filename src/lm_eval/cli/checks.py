"""What is found when tasks are checked: one ``Finding`` for each task, group or unreadable file.

Named tasks are checked with their docs, wherever those come from. A whole library is checked without
fetching anything: where docs are on a hub or made by the task's code, its keys are checked alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from lm_eval.errors import (
    CodeNotRunError,
    HelperError,
    LmEvalError,
    MissingExtraError,
    UnsupportedError,
)
from lm_eval.preparing import RunOptions, load_metrics, metric_names, prepare
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


class Outcome(Enum):
    """How a check ended; the value is how the summary says it."""

    OK = "ok"
    NO_DATA = "ok, docs not loaded"
    NEEDS_CODE = "not checked because they need --run_code"
    NEEDS_PACKAGE = "needing a package that is not installed"
    UNSUPPORTED = "asking for what this release does not do"
    ERROR = "with errors"


@dataclass(frozen=True)
class Finding:
    """What became of one name. ``cause`` is what several tasks may share: a package, a file, a key."""

    name: str
    outcome: Outcome
    cause: str = ""
    message: str = ""
    docs: int = 0
    kind: str = "task"


@dataclass
class Checker:
    """Checks one name after the other.

    ``not_evaluated`` counts, for each key, the tasks whose Python was not imported.
    """

    manager: TaskManager
    options: RunOptions
    run_code: bool

    def __post_init__(self) -> None:
        self.not_evaluated: Counter[str] = Counter()

    def named(self, selectors: Iterable[str]) -> Iterator[Finding]:
        """The tasks that selectors name, with all their docs."""
        for selector in selectors:
            try:
                tasks = self.manager.load([selector])["tasks"]
            except LmEvalError as error:
                yield finding_of(selector, error)
                continue
            for task in tasks.values():
                try:
                    load_metrics(task)
                    docs = prepare(task, self.options).num_docs
                except LmEvalError as error:
                    yield finding_of(task.name, error)
                else:
                    yield Finding(task.name, Outcome.OK, docs=docs)

    def everything(self) -> Iterator[Finding]:
        """Every task and group that the manager knows, and the files that it could not read."""
        for name in self.manager.names("task"):
            try:
                yield self._task(name)
            except LmEvalError as error:
                yield finding_of(name, error)
        for name in self.manager.names("group"):
            try:
                self.manager.read(name)
            except LmEvalError as error:
                yield finding_of(name, error, kind="group")
            else:
                yield Finding(name, Outcome.OK, kind="group")
        for problem in self.manager.problems:
            yield finding_of(getattr(problem, "path", None) or "", problem, kind="file")

    def _task(self, name: str) -> Finding:
        try:
            found = self.manager.read(name)
        except CodeNotRunError:
            self.not_evaluated["class"] += 1
            return Finding(name, Outcome.NO_DATA, "a Python class")
        if not isinstance(found, TaskConfig):
            return Finding(name, Outcome.NO_DATA, "a Python class")
        task = ConfigurableTask(found)
        if self.run_code:
            found.load_helpers()
        else:
            self.not_evaluated.update({key for key, _ in found.functions()})
        task.check_config()
        metric_names(task)
        source = task.data_from
        if source != "files":
            return Finding(name, Outcome.NO_DATA, SOURCES[source])
        return Finding(name, Outcome.OK, docs=prepare(task, self.options).num_docs)


SOURCES = {"hub": "on a hub", "code": "made by custom_dataset"}


def finding_of(name: str, error: LmEvalError, *, kind: str = "task") -> Finding:
    """An error, sorted by what can be done about it."""
    message = str(error)
    if isinstance(error, CodeNotRunError):
        return Finding(name, Outcome.NEEDS_CODE, error.field or "", message, kind=kind)
    if isinstance(error, HelperError) and error.package:
        return Finding(name, Outcome.NEEDS_PACKAGE, error.package, message, kind=kind)
    if isinstance(error, MissingExtraError):
        return Finding(name, Outcome.NEEDS_PACKAGE, error.install, message, kind=kind)
    if isinstance(error, UnsupportedError):
        return Finding(name, Outcome.UNSUPPORTED, error.key or "", message, kind=kind)
    cause = f"{error.path}: {error.reason}" if isinstance(error, HelperError) else ""
    return Finding(name, Outcome.ERROR, cause, message, kind=kind)
