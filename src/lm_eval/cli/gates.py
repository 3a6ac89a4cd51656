"""``--require``: what a run has to score, for builds that fail when it does not.

In: conditions such as ``mmlu@mcqa:acc>=0.6``, and the results of a run. Out: a line for each of them, a
JUnit file where one is asked for, and whether all hold. A condition about something that the run does
not measure is an error before the model is asked.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.run.plan import Outcome, Prepared
from lm_eval.scoring.score import task_metrics
from lm_eval.stats.estimates import Estimate
from lm_eval.tasks.groups import Group
from lm_eval.text.files import write_output
from lm_eval.text.numbers import number
from lm_eval.text.terminal import visible

FAILED = 3
"""The exit code of a run whose conditions do not all hold; 1 is an error."""
READ = "read"
"""The share of replies in which an answer was found."""
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(
    r"(?P<name>.+):(?P<metric>[^\s:<>=]+?)(?:\.(?P<end>low|high))?"
    r"\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[^<>=]+)"
)
_EXAMPLE = "--require 'mmlu@mcqa:acc>=0.6'"


@dataclass(frozen=True)
class Requirement:
    """One condition: a result, a metric (or an end of its interval), and a bound."""

    text: str
    name: str
    metric: str
    end: str | None
    sign: str
    bound: float

    def value(self, estimate: Estimate) -> float | None:
        """What is compared with the bound."""
        return getattr(estimate, self.end) if self.end else estimate.value

    def holds(self, value: float | None) -> bool:
        return value is not None and _OPERATORS[self.sign](value, self.bound)


@dataclass(frozen=True)
class CheckedRequirement:
    """A condition and what the run gave; None where it has no such number."""

    requirement: Requirement
    value: float | None

    @property
    def holds(self) -> bool:
        return self.requirement.holds(self.value)

    def line(self) -> str:
        """``failed   mmlu@mcqa:acc>=0.6   is 0.287``."""
        verdict = "ok" if self.holds else "failed"
        return f"{verdict:9}{visible(self.requirement.text)}   is {number(self.value)}"


def requirements(texts: Sequence[str]) -> list[Requirement]:
    """The conditions of the command line; one that cannot be understood is an error."""
    return [_requirement(text.strip()) for text in texts]


def _requirement(text: str) -> Requirement:
    found = _CONDITION.fullmatch(text)
    try:
        bound = float(found["bound"]) if found else None
    except ValueError:
        bound = None
    if found is None or bound is None:
        raise UsageError(
            f"--require {text!r} is not a condition. Write TASK:METRIC>=NUMBER, with >=, <=, > or <, "
            f"such as {_EXAMPLE}; acc.low is the lower end of the interval, and read the share of "
            "replies with an answer."
        )
    return Requirement(
        text, found["name"].strip(), found["metric"], found["end"], found["sign"], bound
    )


def check_known(
    wanted: Sequence[Requirement], prepared: Sequence[Prepared], groups: Sequence[Group]
) -> None:
    """Refuse a condition about a result or a metric that the run will not have."""
    tasks = {one.task.name: one for one in prepared}
    names = [*tasks, *(group.name for group in groups)]
    for one in wanted:
        if one.name not in names:
            raise UsageError(
                f"--require {one.text!r}: the run has no result {one.name!r}."
                f"{did_you_mean(one.name, names)} Results: {listing(names, 10)}."
            )
        if one.name in tasks and tasks[one.name].task.format is not None:
            _check_metric(one, tasks[one.name])


def _check_metric(one: Requirement, prepared: Prepared) -> None:
    fmt = prepared.task.format
    assert fmt is not None
    known = [metric.name for metric in task_metrics(prepared.task)]
    if fmt.reads_text:
        known.append(READ)
    if one.metric not in known:
        raise UsageError(
            f"--require {one.text!r}: {one.name!r} has no metric {one.metric!r}."
            f"{did_you_mean(one.metric, known)} Metrics: {listing(known, 20)}."
        )


def checked(wanted: Sequence[Requirement], outcome: Outcome) -> list[CheckedRequirement]:
    """Each condition with what the run gave."""
    return [CheckedRequirement(one, _value(one, outcome)) for one in wanted]


def _value(one: Requirement, outcome: Outcome) -> float | None:
    for result in outcome.results:
        if result.name == one.name:
            if one.metric == READ and result.readings is not None:
                return result.readings.share_read
            if one.metric in result.metrics:
                return one.value(result.metrics[one.metric])
    for group in outcome.groups:
        if group.name == one.name and one.metric in group.metrics:
            return one.value(group.metrics[one.metric])
    return None


def write_junit(path: str, results: Sequence[CheckedRequirement], *, seconds: float) -> Path:
    """The conditions as the test cases of a JUnit file."""
    from xml.etree import ElementTree

    failures = sum(not one.holds for one in results)
    suite = ElementTree.Element(
        "testsuite",
        name="lm-eval",
        tests=str(len(results)),
        failures=str(failures),
        errors="0",
        time=f"{seconds:.1f}",
    )
    for one in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=visible(one.requirement.name),
            name=visible(one.requirement.text),
        )
        if not one.holds:
            said = f"{one.requirement.metric} is {number(one.value)}"
            ElementTree.SubElement(case, "failure", message=visible(said))
    ElementTree.indent(suite)
    file = Path(path).expanduser()
    text = ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
    write_output(file, f"{text}\n")
    return file
