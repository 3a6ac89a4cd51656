"""Why two stored runs have different scores: settings, items, prompts, answers, readings, in this order.

In: two runs. Out: a ``RunDiff`` with a ``ResultDiff`` for each result that both have. Its difference in
score is the sum of what items, prompts, answers, readings and scoring contribute; ``conclusion`` says in
words what explains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from lm_eval.errors import ComparisonError, MissingExtraError, listing
from lm_eval.lab.diff.facts import FactDiff, in_order, result_findings, run_findings
from lm_eval.lab.diff.items import COUNTED, STAGES, ItemDiff, Metric, compare_items
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import StoredResult, StoredRun
from lm_eval.lab.stored.scores import stored_estimate
from lm_eval.lab.stored.select import chosen_names
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import Estimate, mean_estimate
from lm_eval.stats.paired import Paired, paired
from lm_eval.stats.power import ALPHA
from lm_eval.support.encode import plain
from lm_eval.support.numbers import number, p_equals, signed
from lm_eval.support.terminal import visible

Parts = dict[str, float]
"""``items``, ``prompts``, ``answers``, ``readings``, ``scoring`` → their part of the difference."""
NO_METRIC = "no score"
PART_NAMES = {
    "prompt": "prompts",
    "answer": "answers",
    "reading": "readings",
    "score": "scoring",
}


@dataclass(frozen=True)
class ResultDiff:
    """One result of each run."""

    names: tuple[str, str]
    metrics: tuple[str, str]
    scores: tuple[Estimate | None, Estimate | None]
    paired: Paired | None
    """On the items that both have; None if scores are not known item by item, or with ``no_test``."""
    findings: tuple[FactDiff, ...]
    items: ItemDiff | None
    """None if one of the runs has no samples."""
    parts: Parts
    no_items: str = ""
    """Why nothing is known item by item."""
    no_test: str = ""
    """What has to be installed for the test of the items that both have."""

    @property
    def difference(self) -> float | None:
        """First minus second."""
        first, second = self.scores
        return None if first is None or second is None else first.value - second.value

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; samples stay in their files."""
        counts = {} if self.items is None else {name: self.items.counts[name] for name in COUNTED}
        flips = ((), ()) if self.items is None else self.items.flips
        return {
            "names": list(self.names),
            "metrics": list(self.metrics),
            "scores": plain(self.scores),
            "difference": self.difference,
            "paired": plain(self.paired),
            "parts": self.parts,
            "counts": counts,
            "higher_in_a": list(flips[0]),
            "higher_in_b": list(flips[1]),
            "findings": plain(self.findings),
            "no_items": self.no_items,
            "no_test": self.no_test,
        }


@dataclass(frozen=True)
class RunDiff:
    """Two runs."""

    runs: tuple[StoredRun, StoredRun]
    findings: tuple[FactDiff, ...]
    results: tuple[ResultDiff, ...]
    left_out: tuple[tuple[str, ...], tuple[str, ...]]
    """Results that only the first run has, and that only the second has."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "runs": [str(run.path) for run in self.runs],
            "models": [run.model for run in self.runs],
            "findings": plain(self.findings),
            "results": plain(self.results),
            "only_in_a": list(self.left_out[0]),
            "only_in_b": list(self.left_out[1]),
        }


def diff_runs(
    a: StoredRun,
    b: StoredRun,
    *,
    names: Sequence[str] = (),
    formats: tuple[str, str] | None = None,
    show: int = 1,
) -> RunDiff:
    """Two runs, result by result; ``formats`` pairs a format of the first with one of the second."""
    pairs = _pairs(a, b, names, formats)
    results = tuple(
        _result(StoredResult(a, first), StoredResult(b, second), show) for first, second in pairs
    )
    left_a = tuple(name for name in a.names if name not in {first for first, _ in pairs})
    left_b = tuple(name for name in b.names if name not in {second for _, second in pairs})
    is_chosen = bool(names or formats)
    return RunDiff(
        (a, b), tuple(run_findings(a, b)), results, ((), ()) if is_chosen else (left_a, left_b)
    )


def _pairs(
    a: StoredRun, b: StoredRun, names: Sequence[str], formats: tuple[str, str] | None
) -> list[tuple[str, str]]:
    if formats is None:
        pairs = [(name, name) for name in chosen_names(a, names, ()) if name in b.names]
        if not pairs and names:
            chosen_names(b, names, ())
        if not pairs and _are_single(a, b):
            pairs = [(a.names[0], b.names[0])]
    else:
        first = chosen_names(a, names, formats[:1])
        second = {b.task_of(name): name for name in chosen_names(b, names, formats[1:])}
        pairs = [(name, second[a.task_of(name)]) for name in first if a.task_of(name) in second]
    if pairs:
        return pairs
    shared = {a.task_of(name) for name in a.names} & {b.task_of(name) for name in b.names}
    if not shared:
        raise ComparisonError(
            f"These are runs of different tasks: {a.path} has {listing(a.names, 6)}; {b.path} has "
            f"{listing(b.names, 6)}. Give two runs of one task."
        )
    of_a = next(name for name in a.names if a.task_of(name) in shared)
    of_b = next(name for name in b.names if b.task_of(name) == a.task_of(of_a))
    raise ComparisonError(
        f"The runs share tasks ({listing(sorted(shared), 6)}) but no result: {listing(a.names, 6)} and "
        f"{listing(b.names, 6)}. To compare two formats of one task, say which: --formats "
        f"{StoredResult(a, of_a).format},{StoredResult(b, of_b).format}."
    )


def _are_single(a: StoredRun, b: StoredRun) -> bool:
    """Whether each run has one result, and both are of the same task: then these two are meant."""
    if len(a.names) != 1 or len(b.names) != 1:
        return False
    return a.task_of(a.names[0]) == b.task_of(b.names[0])


def _result(a: StoredResult, b: StoredResult, show: int) -> ResultDiff:
    results, metrics = (a, b), (_metric(a), _metric(b))
    no_items = _why_no_items(results)
    items = None if no_items else compare_items(results, metrics, show=show)
    test, no_test = (None, "") if items is None else _paired(items)
    return ResultDiff(
        names=(a.name, b.name),
        metrics=(metrics[0][0], metrics[1][0]),
        scores=(_estimate(a, metrics[0], items, 0), _estimate(b, metrics[1], items, 1)),
        paired=test,
        findings=tuple(result_findings(a, b)),
        items=items,
        parts={} if items is None else _parts(items),
        no_items=no_items,
        no_test=no_test,
    )


def _why_no_items(results: Sequence[StoredResult]) -> str:
    """Why there is nothing to compare item by item; empty if both have their samples."""
    try:
        for result in results:
            result.run.samples_path(result.name)
    except ComparisonError as error:
        return str(error)
    return ""


def _metric(result: StoredResult) -> Metric:
    """The metric shown as the score, and its filter; ``NO_METRIC`` if answers were only saved."""
    try:
        return primary_metric(result.run.results, result.name, str(result.run.path))
    except ComparisonError:
        return NO_METRIC, None


def _paired(items: ItemDiff) -> tuple[Paired | None, str]:
    """The test on the items of both runs, or what has to be installed for it."""
    first, second = items.paired
    if not first:
        return None, ""
    clusters = items.clusters if len(items.clusters) == len(first) else None
    try:
        return paired(first, second, clusters=clusters), ""
    except MissingExtraError as error:
        return None, f"{error.what} Install it: {error.install}"


def _parts(items: ItemDiff) -> Parts:
    """How much of the difference in score comes from where; the parts add up to it."""
    first, second = items.scores
    shared = len(items.paired[0])
    if not first or not second:
        return {}
    total = sum(first) / len(first) - sum(second) / len(second)
    if not shared:
        return {"items": total}
    shares = {PART_NAMES[stage]: items.parts[stage] / shared for stage in STAGES}
    on_shared = sum(shares.values())
    is_same_set = shared == len(first) == len(second)
    return {"items": 0.0 if is_same_set else total - on_shared, **shares}


def _estimate(
    result: StoredResult, metric: Metric, items: ItemDiff | None, side: int
) -> Estimate | None:
    """The score as the file has it; computed from the items if the file gives no interval."""
    stored = _stored(result, metric)
    scores = [] if items is None else items.scores[side]
    if items is None or not scores or (stored is not None and stored.low is not None):
        return stored
    made = _made(scores, items.all_clusters[side])
    return made if stored is None or abs(stored.value - made.value) <= 1e-6 else stored


def _made(scores: Sequence[float], clusters: Sequence[str]) -> Estimate:
    if len(clusters) != len(scores):
        return mean_estimate(scores)
    try:
        return clustered_estimate(scores, clusters)
    except MissingExtraError:
        mean = sum(scores) / len(scores)
        return Estimate(mean, None, None, None, len(scores), "none")


def _stored(result: StoredResult, metric: Metric) -> Estimate | None:
    scores = result.fact("results") or {}
    key = f"{metric[0]},{metric[1]}"
    if not isinstance(scores.get(key), int | float):
        return None
    ends = (result.fact("intervals") or {}).get(key)
    known = (result.fact("n-samples") or {}).get("effective")
    return stored_estimate(scores, key, ends, known if isinstance(known, int) else 0, "as stored")


# In words


def conclusion(result: ResultDiff, run_facts: Sequence[FactDiff]) -> list[str]:
    """What explains the difference."""
    facts = in_order([*run_facts, *result.findings])
    words = [*_other_measure(result), _explanation(result, facts), *_unexplained(result)]
    if any(result.parts.values()):
        words += [] if result.paired is None else [_chance(result.paired)]
        words += _adherence(result)
    return words


def _chance(test: Paired) -> str:
    if not test.wins and not test.losses:
        return "On the items of both there is no difference."
    if test.p < ALPHA:
        return f"On the items of both that is more than chance gives ({p_equals(test.p)})."
    needed = test.smallest_detectable
    text = f"On the items of both, chance alone may give as much ({p_equals(test.p)})."
    if needed is None:
        return text
    return (
        f"{text} {test.n} items find a true difference of {number(needed)} in 4 of 5 comparisons."
    )


def _adherence(result: ResultDiff) -> list[str]:
    """A remark if the difference is no larger than the difference in answers read."""
    items = result.items
    if items is None or not items.counts["with_reading"] or not items.paired[0]:
        return []
    counts = items.counts
    first, second = (counts[f"read_{side}"] / counts[f"replies_{side}"] for side in "ab")
    gap = first - second
    difference = fmean(items.paired[0]) - fmean(items.paired[1])
    if not difference or difference * gap <= 0 or abs(difference) > abs(gap):
        return []
    return [
        "Replies without an answer may explain it: it is no larger than the gap in parsed replies "
        f"({signed(gap, 3)})."
    ]


def _explanation(result: ResultDiff, facts: Sequence[FactDiff]) -> str:
    changed = [fact for fact in facts if fact.changes]
    names = listing([fact.topic for fact in changed]) if changed else ""
    if result.items is None:
        why = f"What differs in the files: {names}." if names else "The files show no difference."
        return f"Item by item nothing is known: {result.no_items} {why}"
    if not result.items.paired[0] and result.items.counts["shared"]:
        why = f" What differs in the files: {names}." if names else ""
        return f"No item has a score in both runs, so there is no difference to explain.{why}"
    parts = {name: value for name, value in result.parts.items() if abs(value) > 1e-12}
    if not parts:
        if any(result.items.flips):
            return (
                "The scores are the same, but not the verdicts: those that flip cancel out."
                f"{_causes(result.items, facts)}"
            )
        if not result.items.counts["shared"]:
            return "Item by item nothing can be said: the runs share no item."
        return "There is no difference to explain: every item that both have got the same score."
    total = result.difference
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    words = dict(_PART_WORDS)
    if result.items.counts["changed"]:
        words["items"] = words["changed"]
    shown = ", ".join(f"{signed(value, 3)} from {words[name]}" for name, value in ordered)
    return f"Of the difference {signed(total or 0.0, 3)}: {shown}.{_causes(result.items, facts)}"


def _other_measure(result: ResultDiff) -> list[str]:
    """A warning if the two scores do not measure the same thing."""
    first, second = map(visible, result.metrics)
    if first == second or None in result.scores:
        return []
    return [
        f"These are not the same measure: A is {first}, B is {second}. Part of the difference is "
        "between the measures."
    ]


def _unexplained(result: ResultDiff) -> list[str]:
    """A note if the parts, which are made from means over items, do not add up to the difference."""
    if result.difference is None or not result.parts:
        return []
    remainder = result.difference - sum(result.parts.values())
    if abs(remainder) < 5e-4:
        return []
    return [
        f"{signed(remainder, 3)} is left over: a score in the files is not the mean over the items in "
        "the samples. It is made in another way, or samples were lost or changed."
    ]


_PART_WORDS = {
    "items": "items that only one run has",
    "changed": "items that are not the same in both runs",
    "prompts": "items whose prompts differ",
    "answers": "other answers to the same prompts",
    "readings": "other readings of the same answers",
    "scoring": "other scores of the same readings",
}

_CHOOSING = ("limit", "sample")
"""Settings that only choose the docs."""


def _causes(items: ItemDiff, facts: Sequence[FactDiff]) -> str:
    """Which settings explain each stage that matters."""
    changed = {fact.topic for fact in facts if fact.changes}
    keys = {change.key for fact in facts for change in fact.changes}
    causes: list[str] = []
    if items.counts["only_a"] or items.counts["only_b"]:
        cause = next((key for key in _CHOOSING if key in keys), "other docs, or --samples")
        causes.append(f"Items differ because of: {cause}.")
    elif items.counts["changed"]:
        causes.append("Items differ because of: docs with other content.")
    if items.flipped["prompt"]:
        topics = ["few-shot examples"] if items.counts["shots"] else []
        topics += [topic for topic in ("settings", "task", "format") if topic in changed]
        cause = listing(topics) if topics else "nothing that is stored"
        causes.append(f"Prompts differ because of: {cause}.")
    if items.flipped["answer"]:
        causes.append(_cause_of_answers(facts))
    if items.flipped["reading"]:
        cause = "the reader" if "reader" in changed else "the code of the reader (versions)"
        causes.append(f"Readings differ because of: {cause}.")
    if items.flipped["score"]:
        cause = "the targets" if items.counts["targets"] else "the metric, or its code"
        causes.append(f"Scoring differs because of: {cause}.")
    return "".join(f" {cause}" for cause in causes)


def _cause_of_answers(facts: Sequence[FactDiff]) -> str:
    """How many docs were asked does not change an answer; everything else about a run may."""
    changed = {
        fact.topic for fact in facts if any(change.key not in _CHOOSING for change in fact.changes)
    }
    topics = [name for name in ("model", "arguments", "settings", "versions") if name in changed]
    if topics:
        return f"Answers differ because of: {listing(topics)}."
    return (
        "Model, arguments and settings are the same, so the answers to one prompt are not repeatable: "
        "sampling, batching or hardware."
    )
