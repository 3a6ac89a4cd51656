"""Stored runs → how much the difference of two formats, or of two models, varies over items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, variance

from lm_eval.errors import ComparisonError, listing
from lm_eval.lab.power.rows import Assumptions
from lm_eval.lab.stored.measurement import Aligned, Measurement, align
from lm_eval.lab.stored.run import StoredRun, open_runs
from lm_eval.lab.stored.select import Choice, chosen
from lm_eval.stats.paired import MCNEMAR, paired

MANY_PAIRS = 10


def pairs_in_runs(
    paths: Sequence[str], choice: Choice | None = None, *, intersect: bool = False
) -> tuple[list[Assumptions], list[str]]:
    """Every two formats of one model, every two models under one format, and notes on the choice.

    Results are chosen as for a comparison. Other items are an error, unless ``intersect`` asks for those
    that both of a pair have. Of more than ten pairs, those with the smallest, the middle and the largest
    variance.
    """
    runs = open_runs(paths)
    found, notes = chosen(runs, choice)
    pairs = [(a, b) for a, b in combinations(found, 2) if _is_pair(a, b)]
    if not pairs:
        raise ComparisonError(" ".join([_nothing_to_pair(found), *notes]))
    replies = {str(run.path): run for run in runs}
    has_models = len({one.model for one in found}) > 1
    made = [
        _assumptions(
            align([a, b], intersect=intersect),
            [_ReplyVariance.of(replies[one.run], one) for one in (a, b)],
            _label(a, b, has_models=has_models),
        )
        for a, b in pairs
    ]
    known = [one for one in made if one.variance + one.within > 0]
    if not known:
        raise ComparisonError(
            f"{made[0].label}: both scored the same on all {made[0].num_items} items, so there is no "
            "variance to plan with. Run more items, or assume one: --discordant 0.1."
        )
    return (known if len(known) <= MANY_PAIRS else _three(known)), notes


_ALL_FORMATS = "--tasks 'TASK@*'"


def _is_pair(a: Measurement, b: Measurement) -> bool:
    return a.task == b.task and (a.model == b.model) != (a.format == b.format)


def _nothing_to_pair(found: Sequence[Measurement]) -> str:
    names = listing([f"{one.name} ({one.model})" for one in found], 6)
    command = next((f"`{one.more_formats}`" for one in found if one.more_formats), None)
    return (
        f"There is nothing to compare: two formats of one model are needed, or two models under one "
        f"format; here is {names}. Run the task under several formats "
        f"({command or _ALL_FORMATS}), give a second run, or assume a "
        "variance: --discordant 0.2."
    )


@dataclass(frozen=True)
class _ReplyVariance:
    """How the replies to one item vary, over the items of a measurement."""

    count: int = 1
    variance: float = 0.0
    """The mean over items of the variance of whether a reply is right."""

    @classmethod
    def of(cls, run: StoredRun, one: Measurement) -> _ReplyVariance:
        """From the samples, where the task was asked several times and its score is the share right."""
        asked = run.results["configs"].get(one.name, {}).get("repeats") or 1
        if asked < 2 or one.metric != "acc":
            return cls()
        rows = [sample["readings"] for sample in run.samples(one.name) if "readings" in sample]
        if not rows:
            return cls()
        try:
            found = [variance([float(reply["right"]) for reply in row]) for row in rows]
        except (LookupError, TypeError, ValueError):
            raise ComparisonError(
                f"{run.samples_path(one.name)} is damaged: it does not say which replies are right. Run "
                "again, or delete the run."
            ) from None
        return cls(len(rows[0]), fmean(found))


def _label(a: Measurement, b: Measurement, *, has_models: bool) -> str:
    """``t@mcqa − t@cloze``, with the models where there are several: each label names one pair."""
    if a.model != b.model:
        return f"{a.name} ({a.model}) − {b.name} ({b.model})"
    return f"{a.name} − {b.name}{f' ({a.model})' if has_models else ''}"


def _assumptions(aligned: Aligned, replies: Sequence[_ReplyVariance], label: str) -> Assumptions:
    found = paired(*aligned.scores, clusters=aligned.clusters)
    is_share = bool(((aligned.scores >= 0) & (aligned.scores <= 1)).all())
    is_mcnemar = found.test == MCNEMAR
    discordant = (found.wins + found.losses) / found.n
    # Of an item's difference, if there is none on average; with clusters, what n items amount to.
    total = discordant if is_mcnemar else found.n * (found.difference.stderr or 0.0) ** 2
    within = fmean(one.variance for one in replies)
    of_replies = sum(one.variance / one.count for one in replies)
    return Assumptions(
        label,
        # What the replies add is told apart, so that other numbers of them can be planned with.
        max(0.0, total - of_replies),
        within=within,
        num_items=found.n,
        num_clusters=None if aligned.clusters is None else len(set(aligned.clusters)),
        repeats=max(one.count for one in replies),
        seen=found.difference.value,
        limit=1.0 if is_share else math.inf,
        discordant=discordant if is_mcnemar and not within else None,
    )


def _three(known: Sequence[Assumptions]) -> list[Assumptions]:
    ordered = sorted(known, key=lambda one: one.variance)
    middle = median([one.variance for one in ordered])
    nearest = min(ordered, key=lambda one: abs(one.variance - middle))
    return list(dict.fromkeys([ordered[0], nearest, ordered[-1]]))
