"""What is found when tasks are checked: one ``CheckFinding`` for each task, group or unreadable file.

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
from lm_eval.run.prepare import RunOptions, load_metrics, metric_names, prepare
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


class CheckOutcome(Enum):
    """How a check ended; the value is how the summary says it."""

    OK = "ok"
    NO_DATA = "ok, docs not loaded"
    NEEDS_CODE = "not checked because they need --run_code"
    NEEDS_PACKAGE = "needing a package that is not installed"
    UNSUPPORTED = "asking for what this release does not do"
    ERROR = "with errors"


@dataclass(frozen=True)
class CheckFinding:
    """How the check of one name ended. Several tasks may share a ``cause``: a package, file or key."""

    name: str
    outcome: CheckOutcome
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

    def named(self, selectors: Iterable[str]) -> Iterator[CheckFinding]:
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
                    yield CheckFinding(task.name, CheckOutcome.OK, docs=docs)

    def everything(self) -> Iterator[CheckFinding]:
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
                yield CheckFinding(name, CheckOutcome.OK, kind="group")
        for problem in self.manager.problems:
            yield finding_of(getattr(problem, "path", None) or "", problem, kind="file")

    def _task(self, name: str) -> CheckFinding:
        try:
            config = self.manager.read(name)
        except CodeNotRunError:
            self.not_evaluated["class"] += 1
            return CheckFinding(name, CheckOutcome.NO_DATA, "a Python class")
        if not isinstance(config, TaskConfig):
            return CheckFinding(name, CheckOutcome.NO_DATA, "a Python class")
        task = ConfigurableTask(config)
        if self.run_code:
            config.load_helpers()
        else:
            self.not_evaluated.update({key for key, _ in config.functions()})
        task.check_config()
        metric_names(task)
        source = task.data_from
        if source != "files":
            return CheckFinding(name, CheckOutcome.NO_DATA, SOURCES[source])
        return CheckFinding(name, CheckOutcome.OK, docs=prepare(task, self.options).num_docs)


SOURCES = {"hub": "on a hub", "code": "made by custom_dataset"}


def finding_of(name: str, error: LmEvalError, *, kind: str = "task") -> CheckFinding:
    """An error, sorted by what can be done about it."""
    message = str(error)
    if isinstance(error, CodeNotRunError):
        return CheckFinding(name, CheckOutcome.NEEDS_CODE, error.field or "", message, kind=kind)
    if isinstance(error, HelperError) and error.package:
        return CheckFinding(name, CheckOutcome.NEEDS_PACKAGE, error.package, message, kind=kind)
    if isinstance(error, MissingExtraError):
        return CheckFinding(name, CheckOutcome.NEEDS_PACKAGE, error.install, message, kind=kind)
    if isinstance(error, UnsupportedError):
        return CheckFinding(name, CheckOutcome.UNSUPPORTED, error.key or "", message, kind=kind)
    cause = f"{error.path}: {error.reason}" if isinstance(error, HelperError) else ""
    return CheckFinding(name, CheckOutcome.ERROR, cause, message, kind=kind)
