"""``--require``: what a run has to score, for builds that fail when it does not.

In: conditions such as ``mmlu@mcqa:acc>=0.6``, and the results of a run. Out: a line for each condition,
a JUnit file and a Markdown summary if they are asked for, and whether all hold. A condition about
something that the run does not measure is an error before the model is asked.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.orders.scoring import DEBIASED, OVER_ORDERS
from lm_eval.support.columns import markdown
from lm_eval.support.files import write_output
from lm_eval.support.numbers import counted, number
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    from lm_eval.run.plan import Outcome, Prepared
    from lm_eval.scoring.results import GroupResult, TaskResult
    from lm_eval.stats.estimates import Estimate
    from lm_eval.tasks.groups import Group

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
    """A condition and the run's value; None if the run has no such number."""

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
    match = _CONDITION.fullmatch(text)
    try:
        bound = float(match["bound"]) if match else None
    except ValueError:
        bound = None
    if match is None or bound is None or not math.isfinite(bound):
        raise UsageError(
            f"--require {text!r} is not a condition. Write TASK:METRIC>=NUMBER, with >=, <=, > or <, "
            f"such as {_EXAMPLE}; acc.low is the lower end of the interval, and read the share of "
            "replies with an answer."
        )
    return Requirement(
        text, match["name"].strip(), match["metric"], match["end"], match["sign"], bound
    )


def check_known(
    wanted: Sequence[Requirement], prepared: Sequence[Prepared], groups: Sequence[Group]
) -> None:
    """Refuse a condition about a result or a metric that the run will not have."""
    tasks = {each.task.name: each for each in prepared}
    by_name = {group.name: group for group in groups}
    names = [*tasks, *by_name]
    permutes = any(each.prompt.permute is not None for each in prepared)
    for condition in wanted:
        name, metric = condition.name, condition.metric
        if name not in names:
            raise UsageError(
                f"--require {condition.text!r}: the run has no result {name!r}."
                f"{did_you_mean(name, names)} Results: {listing(names, 5)}."
            )
        known = (
            _task_metrics(tasks[name])
            if name in tasks
            else _group_metrics(by_name[name], permutes=permutes)
        )
        if known is not None and metric not in known:
            raise UsageError(
                f"--require {condition.text!r}: {name!r} has no metric {metric!r}."
                f"{did_you_mean(metric, known)} Metrics: {listing(known) if known else 'none'}."
            )
        if name in tasks and tasks[name].task.format is not None:
            _check_bound(condition)


def _check_bound(requirement: Requirement) -> None:
    """Refuse a share outside 0 to 1, such as a percentage: it holds always or never."""
    is_share = requirement.metric in (READ, "acc") or requirement.metric.startswith("acc_")
    if is_share and not 0 <= requirement.bound <= 1:
        always = "always" if requirement.holds(0.5) else "never"
        raise UsageError(
            f"--require {requirement.text!r}: {requirement.metric} is between 0 and 1, so this {always} "
            "holds. Write a share, such as 0.6 for 60 %."
        )


def _task_metrics(prepared: Prepared) -> list[str] | None:
    """The metrics of a task; None if only its own code knows them, when it scores."""
    from lm_eval.run.prepare import metric_names

    known = metric_names(prepared.task)
    fmt = prepared.task.format
    if known is None or fmt is None:
        return known
    if prepared.prompt.permute is not None:
        known += [DEBIASED.name, OVER_ORDERS.name]
    return [*known, READ] if fmt.reads_text else known


def _group_metrics(group: Group, *, permutes: bool) -> list[str]:
    """The metrics of a group."""
    from lm_eval.run.groups import ABOVE_CHANCE, COMPANIONS, MEAN

    named = [score.metric for score in group.config.scores]
    beside = [name for metric in named for name in COMPANIONS.get(metric, ()) if permutes]
    suite = [MEAN] if group.config.aggregate is not None else []
    if suite and group.config.rescale is not None:
        suite.append(ABOVE_CHANCE)
    return [*suite, *named, *beside]


def checked(wanted: Sequence[Requirement], outcome: Outcome) -> list[CheckedRequirement]:
    """Each condition with the run's value."""
    return [CheckedRequirement(condition, _value(condition, outcome)) for condition in wanted]


def _value(condition: Requirement, outcome: Outcome) -> float | None:
    name, metric = condition.name, condition.metric
    for result in outcome.results:
        if result.name == name and metric == READ and result.readings is not None:
            return result.readings.share_read
    entries: list[TaskResult | GroupResult] = [*outcome.results, *outcome.groups]
    for entry in entries:
        if entry.name == name and metric in entry.metrics:
            return condition.value(entry.metrics[metric])
    return None


@dataclass(frozen=True)
class GateCase:
    """One test case of a JUnit file."""

    suite: str
    name: str
    failure: str | None = None
    """Why it failed; None if it did not."""


def case_of(checked: CheckedRequirement) -> GateCase:
    """A condition as a test case."""
    condition = checked.requirement
    failure = None if checked.holds else f"{condition.metric} is {number(checked.value)}"
    return GateCase(condition.name, condition.text, failure)


def write_junit(path: str, cases: Sequence[GateCase], *, seconds: float = 0.0) -> Path:
    """Write the test cases as a JUnit file, and return its path."""
    from xml.etree import ElementTree

    failures = sum(case.failure is not None for case in cases)
    suite = ElementTree.Element(
        "testsuite",
        name="lm-eval",
        tests=str(len(cases)),
        failures=str(failures),
        errors="0",
        time=f"{seconds:.1f}",
    )
    for case in cases:
        element = ElementTree.SubElement(
            suite, "testcase", classname=visible(case.suite), name=visible(case.name)
        )
        if case.failure is not None:
            ElementTree.SubElement(element, "failure", message=visible(case.failure))
    ElementTree.indent(suite)
    file = Path(path).expanduser()
    text = ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
    write_output(file, f"{text}\n")
    return file


def write_summary(
    path: str, outcome: Outcome, conditions: Sequence[CheckedRequirement] = ()
) -> Path:
    """Write the scores as Markdown, for the summary of a pull request; conditions come first."""
    from lm_eval.lab.stored.run import StoredRun
    from lm_eval.lab.table.layout import TableRequest, make_table
    from lm_eval.lab.table.targets import render

    lines = [f"### lm-eval: {_heading(conditions)}", ""]
    if conditions:
        lines += ["| Condition | Holds | Is |", "| --- | --- | ---: |"]
        lines += [
            f"| {markdown(visible(condition.requirement.text))} | "
            f"{'yes' if condition.holds else '**no**'} | {number(condition.value)} |"
            for condition in conditions
        ]
        lines.append("")
    table, _ = make_table(
        [StoredRun(outcome.path or Path("run"), outcome.as_dict())], TableRequest()
    )
    file = Path(path).expanduser()
    write_output(file, "\n".join([*lines, render(table, "md")]))
    return file


def _heading(conditions: Sequence[CheckedRequirement]) -> str:
    if not conditions:
        return "scores"
    holding = sum(condition.holds for condition in conditions)
    if holding == len(conditions):
        return "all conditions hold" if len(conditions) > 1 else "the condition holds"
    return f"{len(conditions) - holding} of {counted(len(conditions), 'condition')} not met"
