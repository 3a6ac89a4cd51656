"""``compare A B --fail_if_worse``: has anything become worse from one run to another?

In: the measurements of the run before and of the run after. Out: each result of the first paired with
the same result of the second, item by item, and whether it is worse at a stated level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lm_eval.errors import ComparisonError, listing
from lm_eval.lab.report import ReportLine, Section
from lm_eval.lab.stored.measurement import Measurement, align
from lm_eval.lab.stored.run import StoredRun
from lm_eval.lab.stored.select import Choice, chosen, groups_in
from lm_eval.stats.clusters import array_estimate
from lm_eval.stats.estimates import DEFAULT_SEED, Estimate
from lm_eval.stats.multiplicity import ADJUSTMENTS
from lm_eval.stats.paired import Paired, paired_many
from lm_eval.stats.power import factor
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.encode import AsDict
from lm_eval.support.numbers import counted, interval, number, p_value, percent, signed
from lm_eval.support.terminal import visible

WORSE, OK = "worse", "ok"
_BEFORE, _AFTER = "before", "after"


@dataclass(frozen=True)
class ResultChange(AsDict):
    """One result in two runs: its scores, and their paired difference."""

    name: str
    """``task@format``, with the number of shots if the runs have several."""
    metric: str
    before: Estimate
    after: Estimate
    result: Paired
    """After against before."""
    p_adjusted: float
    """Two-sided, adjusted for the number of results."""
    level: float
    higher_is_better: bool
    share_read: tuple[float, float] | None
    """The share of replies with an answer, before and after; None if nothing is read from text."""
    left_out: int
    """Items that only one of the runs has, if only common items were asked for."""

    KEYS = (
        *("name", "metric", "before", "after", ("difference", "result.difference.value")),
        *(("low", "result.difference.low"), ("high", "result.difference.high"), ("p", "result.p")),
        *("p_adjusted", "level", ("test", "result.test"), ("num_items", "result.n"), "detects"),
        *("higher_is_better", "share_read", "left_out", "verdict"),
    )

    @property
    def detects(self) -> float | None:
        """A true difference that 4 of 5 such pairs of runs would find at this level, if alone."""
        smallest = self.result.smallest_detectable  # at the usual level
        return None if smallest is None else smallest * factor(self.level) / factor()

    @property
    def verdict(self) -> str:
        """``worse`` if the score fell by more than luck explains, otherwise ``ok``."""
        difference = self.result.difference.value
        fell = difference < 0 if self.higher_is_better else difference > 0
        return WORSE if fell and self.p_adjusted < self.level else OK


@dataclass(frozen=True)
class RegressionReport(AsDict):
    """All results of the run before, beside those of the run after."""

    changes: tuple[ResultChange, ...]
    level: float
    method: str
    before: str
    after: str
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> list[ResultChange]:
        return [change for change in self.changes if change.verdict == WORSE]


def regressions(
    before: Sequence[StoredRun],
    after: Sequence[StoredRun],
    choice: Choice,
    *,
    level: float,
    method: str = "holm",
    intersect: bool = False,
    seed: int = DEFAULT_SEED,
) -> RegressionReport:
    """Every result of ``before`` against the same result of ``after``; an error if one is missing."""
    old, old_notes = _measured(before, choice)
    new, new_notes = _measured(after, choice)
    pairs, notes = _matched(old, new)
    has_shots = len({(first.task, first.format) for first, _ in pairs}) < len(pairs)
    tested = [_tested(*pair, level, intersect, seed, has_shots=has_shots) for pair in pairs]
    adjusted = ADJUSTMENTS[method]([change.result.p for change in tested])
    changes = [replace(change, p_adjusted=p) for change, p in zip(tested, adjusted, strict=True)]
    return RegressionReport(
        tuple(changes),
        level,
        method,
        _names(before),
        _names(after),
        tuple(dict.fromkeys([*old_notes, *new_notes, *notes])),
    )


def _names(runs: Sequence[StoredRun]) -> str:
    return listing([str(run.path) for run in runs], 3)


def _measured(runs: Sequence[StoredRun], choice: Choice) -> tuple[list[Measurement], list[str]]:
    """The groups of a run that have a score for each item, and the tasks outside of them."""
    named = [name for run in runs for name in run.results.get("groups", {})]
    wanted = {name for name in named if {name, name.partition("@")[0]} & set(choice.tasks)}
    measurements, notes = chosen(runs, choice)
    tasks = [measurement for measurement in measurements if not measurement.members]
    groups = [
        group
        for run in runs
        for group in groups_in(run.results, [task for task in tasks if task.run == str(run.path)])
        if not wanted or group.name in wanted
    ]
    inside = {(group.run, task) for group in groups for task in group.members}
    return [*groups, *(task for task in tasks if (task.run, task.task) not in inside)], notes


Key = tuple[str, str, int | None, str]


def _matched(
    old: Sequence[Measurement], new: Sequence[Measurement]
) -> tuple[list[tuple[Measurement, Measurement]], list[str]]:
    """Each result before, paired with the same one after; and notes on results that are new."""
    has_models = any(len({measured.model for measured in side}) > 1 for side in (old, new))

    def key(measured: Measurement) -> Key:
        model = measured.model if has_models else ""
        return measured.task, measured.format, measured.num_fewshot, model

    def titles(measurements: Iterable[Measurement]) -> str:
        return listing([_title(each, has_models=has_models) for each in measurements], 5)

    by_key = {key(measured): measured for measured in new}
    missing = [measured for measured in old if key(measured) not in by_key]
    if missing:
        raise ComparisonError(
            f"The second run lacks what the first has: {titles(missing)}. It has {titles(new)}. Run "
            "that too, or choose what both have with --tasks, --formats and --models."
        )
    known = {key(measured) for measured in old}
    added = [measured for measured in new if key(measured) not in known]
    notes = [f"New in the second run, so not compared: {titles(added)}."] if added else []
    pairs = [(measured, by_key[key(measured)]) for measured in old]
    return pairs, [*notes, *_changed_prompts(pairs)]


def _title(measured: Measurement, *, has_models: bool) -> str:
    shots = "" if measured.num_fewshot is None else f", {measured.num_fewshot}-shot"
    return f"{measured.name}{shots}" + (f" ({measured.model})" if has_models else "")


def _changed_prompts(pairs: Iterable[tuple[Measurement, Measurement]]) -> list[str]:
    """A note on results whose format or task changed, which may explain a difference."""
    changed = [
        first.name
        for first, second in pairs
        if (first.facts or {}).get("fingerprints") != (second.facts or {}).get("fingerprints")
    ]
    if not changed:
        return []
    are = "is" if len(changed) == 1 else "are"
    return [
        f"The task or format of {listing(changed, 5)} {are} not the same in both runs, so a change may "
        "come from the prompts; `lm-eval diff` says what differs."
    ]


def _tested(
    first: Measurement,
    second: Measurement,
    level: float,
    intersect: bool,
    seed: int,
    *,
    has_shots: bool,
) -> ResultChange:
    """The second against the first on the same items; p is not adjusted yet."""
    rows = [replace(first, condition=_BEFORE), replace(second, condition=_AFTER)]
    aligned = align(rows, intersect=intersect)
    ((_, _, result),) = paired_many(aligned.scores, aligned.clusters, chosen=[(1, 0)], seed=seed)
    before, after = (array_estimate(scores, aligned.clusters) for scores in aligned.scores)
    shots = f", {first.num_fewshot}-shot" if has_shots and first.num_fewshot is not None else ""
    return ResultChange(
        name=f"{first.name}{shots}",
        metric=first.metric,
        before=before,
        after=after,
        result=result,
        p_adjusted=result.p,
        level=level,
        higher_is_better=first.higher_is_better,
        share_read=_shares(first, second),
        left_out=sum(aligned.left_out.values()),
    )


def _shares(first: Measurement, second: Measurement) -> tuple[float, float] | None:
    if first.is_read is None or second.is_read is None:
        return None
    return float(first.is_read.mean()), float(second.is_read.mean())


# As people read it


def regression_table(report: RegressionReport) -> FittingTable:
    """A line for each result: both scores, the difference, p and the verdict."""
    columns = (
        Column("name", "Result", wraps=True, stays=True),
        Column("before", "Before", is_number=True, stays=True),
        Column("after", "After", is_number=True, stays=True),
        Column("difference", "Difference", is_number=True, stays=True),
        Column("p", "p", is_number=True, stays=True),
        Column("read", "Parsed", is_number=True),
        Column("verdict", "Verdict", stays=True),
    )
    return FittingTable(columns, [[_line(change) for change in report.changes]], ("read",))


def _line(change: ResultChange) -> Cells:
    difference, read = change.result.difference, change.share_read
    return Cells(
        name=visible(change.name),
        before=number(change.before.value),
        after=number(change.after.value),
        difference=f"{signed(difference.value, 3)} {interval(difference)}".rstrip(),
        p=p_value(change.p_adjusted),
        read="" if read is None else f"{percent(read[0], 1)} → {percent(read[1], 1)}",
        verdict=change.verdict,
    )


def verdict_line(report: RegressionReport) -> str:
    """``Worse: 1 of 3 results (paired exact McNemar, two-sided, Holm-adjusted, level 0.05).``"""
    count = len(report.changes)
    tests = " or ".join(dict.fromkeys(change.result.test for change in report.changes))
    adjusted = f", adjusted for {count} by {report.method.capitalize()}" if count > 1 else ""
    how = f"paired {tests}, two-sided{adjusted}, level {report.level:g}"
    worse = report.worse
    if worse:
        return f"Worse: {len(worse)} of {counted(count, 'result')} ({how})."
    return f"Nothing is worse: {counted(count, 'result')} ({how})."


def power_line(report: RegressionReport) -> str:
    """Which change the items can detect: a gate that cannot detect anything guards nothing."""
    known = [(change.detects, change) for change in report.changes if change.detects is not None]
    if not known:
        return ""
    most, change = max(known, key=lambda pair: pair[0])
    return (
        f"With {counted(change.result.n, 'item')}, a true change of {number(most, 2)} is found in 4 of "
        f"5 cases at the {100 * report.level:g} % level; a smaller one may pass."
    )


def regression_report(report: RegressionReport) -> list[Section]:
    """The verdict, a line for each result, and what the items can detect."""
    power = power_line(report)
    lines = [ReportLine(None, power)] if power else []
    return [Section(verdict_line(report), regression_table(report), lines, report.notes)]
