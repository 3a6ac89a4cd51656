"""``lm-eval validate``: every field checked and real docs rendered, with no model and no task code."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from enum import Enum

from lm_eval.config.arguments import split_list
from lm_eval.errors import (
    CodeNotRunError,
    FormatError,
    HelperError,
    LmEvalError,
    LmEvalWarning,
    MissingExtraError,
    NotFetchedError,
    UnsupportedError,
    UsageError,
    listing,
)
from lm_eval.formats.list_file import add_formats
from lm_eval.requests import PromptOptions
from lm_eval.requests.options import ranges
from lm_eval.run.plan import RunOptions
from lm_eval.run.prepare import load_metrics, metric_names, prepare
from lm_eval.support.files import write_output
from lm_eval.support.numbers import counted
from lm_eval.support.secrets import known_secrets
from lm_eval.support.terminal import visible
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.keys.sample_rows import SampleUse
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


class CheckOutcome(Enum):
    """How a check ended; the value is the wording of the summary."""

    OK = "ok"
    NO_DATA = "ok without their docs"
    NOT_FETCHED = "not checked because their data is not in the cache"
    NEEDS_CODE = "not checked because they need --run_code"
    NEEDS_PACKAGE = "needing a package that is not installed"
    UNSUPPORTED = "using something that this release does not support"
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
    is_invented: bool = False
    """Whether the docs are invented rows."""
    rows: int | None = None
    """Rows of the split, if the task uses only some of them."""
    bad_docs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Why docs cannot be asked → their ids."""
    selector: str = ""
    """What named it."""


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

    def named(self, selector: str) -> Iterator[CheckFinding]:
        """The tasks that a selector names, with all their docs.

        One that was asked for and cannot run is an error, whatever the reason, unless it is its code.
        """
        try:
            tasks = self.manager.load([selector])["tasks"]
        except LmEvalError as error:
            yield _as_asked(finding_of(selector, error), selector)
            return
        for task in tasks.values():
            try:
                load_metrics(task, run_code=self.run_code)
                found = self._rendered(task)
            except LmEvalError as error:
                found = finding_of(task.name, error)
            yield _as_asked(found, selector)

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
        has_rows = config.sample_use == "always" and config.sample_rows is not None
        if source != "files" and not has_rows:
            return CheckFinding(name, CheckOutcome.NO_DATA, SOURCES[source])
        return self._rendered(task)

    def _rendered(self, task: ConfigurableTask) -> CheckFinding:
        prepared = prepare(task, self.options)
        bad_docs = prepared.skipped.by_reason()
        return CheckFinding(
            task.name,
            CheckOutcome.OK,
            docs=prepared.num_docs,
            is_invented=task.uses_sample_rows,
            rows=task.rows_total,
            bad_docs=bad_docs,
        )


def _as_asked(finding: CheckFinding, selector: str) -> CheckFinding:
    may_pass = finding.outcome in (CheckOutcome.OK, CheckOutcome.NEEDS_CODE)
    outcome = finding.outcome if may_pass else CheckOutcome.ERROR
    return replace(finding, outcome=outcome, selector=selector)


SOURCES = {"hub": "on a hub", "code": "made by custom_dataset"}


def finding_of(name: str, error: LmEvalError, *, kind: str = "task") -> CheckFinding:
    """An error, sorted by what can be done about it."""
    outcome, cause = CheckOutcome.ERROR, ""
    if isinstance(error, CodeNotRunError):
        outcome, cause = CheckOutcome.NEEDS_CODE, error.field or ""
    elif isinstance(error, HelperError) and error.package:
        outcome, cause = CheckOutcome.NEEDS_PACKAGE, error.package
    elif isinstance(error, NotFetchedError):
        outcome, cause = CheckOutcome.NOT_FETCHED, SOURCES["hub"]
    elif isinstance(error, MissingExtraError):
        outcome, cause = CheckOutcome.NEEDS_PACKAGE, error.install
    elif isinstance(error, UnsupportedError):
        outcome, cause = CheckOutcome.UNSUPPORTED, ".".join(map(str, error.route))
    elif isinstance(error, HelperError):
        cause = f"{error.path}: {error.reason}"
    bad_docs = error.docs if isinstance(error, FormatError) else {}
    message = known_secrets().hide(str(error))
    return CheckFinding(name, outcome, cause, message, kind=kind, bad_docs=bad_docs)


SHOWN = 5
"""Tasks named for one cause, unless ``--verbose`` asks for all."""

_WORDS = {
    CheckOutcome.OK: "ok",
    CheckOutcome.NO_DATA: "ok",
    CheckOutcome.NOT_FETCHED: "no data",
    CheckOutcome.NEEDS_CODE: "skipped",
    CheckOutcome.NEEDS_PACKAGE: "package",
    CheckOutcome.UNSUPPORTED: "unable",
    CheckOutcome.ERROR: "error",
}
_NOT_CHECKED = (
    *(CheckOutcome.NEEDS_PACKAGE, CheckOutcome.UNSUPPORTED),
    *(CheckOutcome.NOT_FETCHED, CheckOutcome.NEEDS_CODE),
)


def validate(args: argparse.Namespace) -> int:
    """Print what was found; exit code 1 if a task is wrong, or one that was named cannot run."""
    add_formats(args.format_path)
    use: SampleUse = "always" if args.sample_rows else "never"
    manager = TaskManager(args.include_path, run_code=args.run_code, sample_rows=use)
    options = RunOptions(
        prompt=PromptOptions(num_fewshot=args.num_fewshot), max_skipped=args.max_skipped
    )
    checker = Checker(manager, options, args.run_code)
    if args.all:
        with _warnings_kept() as kept, redirect_stdout(sys.stderr):  # helpers may print on import
            findings = list(checker.everything())
        fine = (CheckOutcome.OK, CheckOutcome.NO_DATA)
        shown = [finding for finding in findings if finding.outcome not in fine]
    else:
        selectors = split_list(args.tasks)
        if not selectors:
            raise UsageError("No tasks. Name some with --tasks, or check all with --all.")
        findings = shown = [found for selector in selectors for found in checker.named(selector)]
    _write_report(args.output_path, findings)
    tasks = [finding for finding in findings if finding.kind != "group"]
    for alike in _alike(shown, is_verbose=args.verbose):
        _print_alike(alike)
    if args.all:
        _print_warnings(kept, is_verbose=args.verbose)
        _print_summary(tasks, checker)
        _print_groups([finding for finding in findings if finding.kind == "group"])
    else:
        for problem in manager.problems:  # not the fault of the tasks that were asked for
            print(f"note     {visible(str(problem), keep=chr(10))}")
    print(_total(Counter(finding.outcome for finding in tasks)))
    return 1 if any(finding.outcome is CheckOutcome.ERROR for finding in findings) else 0


def _alike(findings: Sequence[CheckFinding], *, is_verbose: bool) -> list[list[CheckFinding]]:
    """The findings, those together that have one cause or message, or are plain tasks of a family."""
    groups: dict[object, list[CheckFinding]] = {}
    for at, finding in enumerate(findings):
        why = finding.cause or finding.message.replace(repr(finding.name), "")
        if finding.outcome is CheckOutcome.OK:
            why = str(at) if finding.bad_docs else finding.selector
        groups.setdefault(at if is_verbose else (finding.outcome, why), []).append(finding)
    return list(groups.values())


def _print_alike(findings: Sequence[CheckFinding]) -> None:
    """Print a line for all that have one cause; else one for the first, and one for the others."""
    first, *others = findings
    word = _WORDS[first.outcome]
    names = visible(listing([finding.name for finding in findings], SHOWN))
    if first.outcome is CheckOutcome.OK:
        if len(findings) > SHOWN:
            print(_family_line(first.selector, findings))
        else:
            print(*map(_line, findings), sep="\n")
    elif others and first.cause:
        print(f"{word:<8} {visible(first.cause)} ({counted(len(findings), 'task')}): {names}")
    else:
        print(_line(first))
        if others:
            names = visible(listing([finding.name for finding in others], SHOWN))
            print(f"{word:<8} the same as {visible(first.name)} in {len(others)} more: {names}")


def _family_line(selector: str, findings: Sequence[CheckFinding]) -> str:
    docs = sum(finding.docs for finding in findings)
    invented = " (invented rows)" if all(finding.is_invented for finding in findings) else ""
    tasks = counted(len(findings), "task")
    return f"ok       {visible(selector)}: {tasks}, {docs:,} docs rendered{invented}"


def _print_warnings(kept: Sequence[str], *, is_verbose: bool) -> None:
    if kept and is_verbose:
        print(*(f"warning  {visible(text)}" for text in kept), sep="\n")
    elif kept:
        print(f"{len(kept)} warnings; --verbose shows them.")


def _print_groups(groups: Sequence[CheckFinding]) -> None:
    bad = sum(finding.outcome is not CheckOutcome.OK for finding in groups)
    if groups:
        print(f"{len(groups)} groups: {len(groups) - bad} ok, {bad} with errors.")


def _print_summary(tasks: Sequence[CheckFinding], checker: Checker) -> None:
    counts = Counter(finding.outcome for finding in tasks)
    for outcome in CheckOutcome:
        if counts[outcome]:
            causes = Counter(_summed_cause(f) for f in tasks if f.outcome is outcome)
            shown = [f"{visible(cause)} {n:,}" for cause, n in causes.most_common() if cause]
            why = f"   ({listing(shown, 8)})" if shown else ""
            print(f"{counts[outcome]:>8,} {outcome.value}{why}")
    if checker.not_evaluated:
        fields = [f"{key} in {n:,}" for key, n in checker.not_evaluated.most_common()]
        print(f"Not evaluated without --run_code: {listing(fields, 40)} tasks.")


def _summed_cause(finding: CheckFinding) -> str:
    if finding.outcome is not CheckOutcome.ERROR:
        return finding.cause
    return "a helper module failed" if finding.cause else "wrong keys, files or data"


def _total(counts: Counter[CheckOutcome]) -> str:
    """The last line: everything that was checked."""
    parts = [f"{counts[CheckOutcome.OK]} ok"]
    if counts[CheckOutcome.NO_DATA]:
        parts.append(f"{counts[CheckOutcome.NO_DATA]} {CheckOutcome.NO_DATA.value}")
    parts.append(f"{counts[CheckOutcome.ERROR]} with errors")
    parts += [f"{counts[outcome]} {outcome.value}" for outcome in _NOT_CHECKED if counts[outcome]]
    return f"{sum(counts.values())} checked: {', '.join(parts)}."


def _line(finding: CheckFinding) -> str:
    if finding.outcome is CheckOutcome.OK:
        text = f"{visible(finding.name)}: {counted(finding.docs, 'doc')} rendered"
        text += "" if finding.rows is None else f", of {finding.rows:,} rows"
        text += " (invented rows)" if finding.is_invented else ""
    else:
        is_named = finding.kind != "task" or finding.message.startswith(
            (f"Task {finding.name!r}", f"Unknown task {finding.name!r}")
        )
        name = "" if is_named else f"{visible(finding.name)}: "
        text = f"{name}{visible(finding.message, keep=chr(10))}"
    return f"{_WORDS[finding.outcome]:<8} {text}{''.join(map(_bad_docs, finding.bad_docs.items()))}"


def _bad_docs(entry: tuple[str, Sequence[int]]) -> str:
    """A line with every doc that one reason holds for."""
    reason, doc_ids = entry
    count = counted(len(doc_ids), "doc")
    why = "left out by" if reason.startswith("skip_docs: ") else "that cannot be asked,"
    return f"\n         {count} {why} {visible(reason)}: {ranges(doc_ids)}"


@contextmanager
def _warnings_kept() -> Iterator[list[str]]:
    """Collect our warnings instead of printing them, and ignore those of other packages."""
    kept: dict[str, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LmEvalWarning)
        warnings.showwarning = lambda message, *_, **__: kept.setdefault(str(message))
        texts: list[str] = []
        yield texts
        texts += kept


def _write_report(path: str | None, findings: Iterable[CheckFinding]) -> None:
    """Write one JSON object for each finding, if a file is asked for."""
    if path is not None:
        lines = [json.dumps(_as_dict(finding)) + "\n" for finding in findings]
        write_output(path, "".join(lines))


def _as_dict(finding: CheckFinding) -> dict[str, object]:
    return {
        "name": finding.name,
        "kind": finding.kind,
        "outcome": finding.outcome.name.lower(),
        "cause": finding.cause,
        "message": finding.message,
        "docs": finding.docs,
        **({} if finding.rows is None else {"rows": finding.rows}),
        **({"invented": True} if finding.is_invented else {}),
        "bad_docs": {reason: list(doc_ids) for reason, doc_ids in finding.bad_docs.items()},
    }
