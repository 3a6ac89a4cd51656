"""How alike two judges, or people and a judge, rank the same runs.

In: the scores of the runs by either side. Out: Kendall's tau-b and tau of average precision, with
intervals from resampled topics for what endless topics would show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lm_eval.errors import DataError, listing
from lm_eval.stats.numeric import Floats
from lm_eval.stats.ranks import order_from_draws, shrunk, signs, tau_b
from lm_eval.text.encode import AsDict
from nugget_eval.scores.bootstrap import (
    Measured,
    Resampling,
    measured,
    np,
    resampled_sums,
)
from nugget_eval.scores.measures import known_measure
from nugget_eval.scores.scores import RunScores

NO_ORDER = "undefined: one side ties all runs"
_CELLS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class RunAgreement(AsDict):
    """How alike two sides rank runs: ``tau_b``, ``tau_ap``, and ``tau_b_by_topic`` (a mean)."""

    measure: str
    measures: Mapping[str, Measured]
    runs: tuple[str, ...]
    num_topics: int

    KEYS = ("measures", "runs", "measure", "num_topics")


def run_agreement(
    gold: Sequence[RunScores],
    judged: Sequence[RunScores],
    measure: str,
    *,
    how: Resampling | None = None,
) -> RunAgreement:
    """How alike two judges rank the runs that both scored, on the topics that all have."""
    how = how or Resampling()
    runs, topics, first, second = _score_tables(gold, judged, known_measure(measure))
    num_topics, num_runs = first.shape
    # The two sides are to runs what formats are to models: noise alone makes them rank differently.
    means = np.stack([first.mean(axis=0), second.mean(axis=0)], axis=1)[None]
    sums = resampled_sums(np.concatenate([first, second], axis=1), how)
    drawn = (sums / num_topics).reshape(-1, 2, num_runs).transpose(0, 2, 1)
    draws = shrunk(means, drawn, np.random.default_rng([how.seed, 1]))
    found = {}
    for name, statistic in (("tau_b", tau_b), ("tau_ap", tau_ap)):
        value = _in_parts(statistic, means[:, :, 0], means[:, :, 1])[0]
        of_draws = _in_parts(statistic, draws[:, :, 0], draws[:, :, 1])
        found[name] = _tau(value, of_draws, how, num_runs, num_topics)
    each = _in_parts(tau_b, first, second)
    each = each[~np.isnan(each)]
    sums = np.stack([each, np.ones(len(each))], axis=1)
    found["tau_b_by_topic"] = measured(
        sums, lambda s: s[:, 0] / s[:, 1], how, n=len(each), undefined=NO_ORDER
    )
    return RunAgreement(measure, found, runs, len(topics))


def tau_ap(gold: Floats, judged: Floats) -> Floats:
    """Tau of average precision (Yilmaz and others) of each draw: mistakes near the top weigh more.

    A tie in gold is half right; runs that the judge ties count as the average over their orders.
    Undefined where either side ties all runs.
    """
    num_runs = gold.shape[1]
    judged = np.round(judged, 12)
    is_better = _concordance(gold)  # draws × y × x: 1 if y is above x in gold, 0.5 if they tie
    above = judged[:, :, None] > judged[:, None, :]
    num_above = above.sum(axis=1)  # runs strictly above x
    tied = (judged[:, :, None] == judged[:, None, :]).sum(axis=1)  # x itself among them
    right = (is_better * above).sum(axis=1)
    inside = (judged[:, :, None] == judged[:, None, :]) * (1.0 - np.eye(num_runs))
    right_inside = (is_better * inside).sum(axis=1) / np.maximum(tied - 1, 1)
    total = np.zeros(len(gold))
    for place in range(num_runs):  # x at each place within its group of ties, with equal chances
        rank = num_above + place
        share = (right + place * right_inside) / np.maximum(rank, 1)
        total += np.where((place < tied) & (rank > 0), share / tied, 0.0).sum(axis=1)
    has_order = (signs(gold) != 0).any(axis=1) & (signs(judged) != 0).any(axis=1)
    return np.where(has_order, 2.0 * total / max(num_runs - 1, 1) - 1.0, np.nan)


def _score_tables(
    gold: Sequence[RunScores], judged: Sequence[RunScores], measure: str
) -> tuple[tuple[str, ...], list[str], Floats, Floats]:
    """Runs and topics that both sides have, and the scores of each side: topics × runs."""
    left = {run.run_id: run.values(measure) for run in gold}
    right = {run.run_id: run.values(measure) for run in judged}
    runs = tuple(name for name in left if name in right)
    if len(runs) < 2:
        raise DataError(
            f"Rankings need two runs or more that both sides scored, and there are {len(runs)}. "
            f"Gold has {listing(left, 5)}; the other has {listing(right, 5)}."
        )
    every = [side[name] for side in (left, right) for name in runs]
    topics = [qid for qid in every[0] if all(qid in scores for scores in every)]
    if not topics:
        raise DataError(
            f"There is no topic for which all {len(runs)} runs have {measure} on both sides."
        )
    first, second = (
        np.array([[side[name][qid] for name in runs] for qid in topics]) for side in (left, right)
    )
    return runs, topics, first, second


def _in_parts(
    statistic: Callable[[Floats, Floats], Floats], first: Floats, second: Floats
) -> Floats:
    """The statistic of every draw, a few at a time: it holds draws × runs × runs."""
    step = max(1, _CELLS_AT_ONCE // first.shape[1] ** 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = [
            statistic(first[start : start + step], second[start : start + step])
            for start in range(0, len(first), step)
        ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _tau(value: float, drawn: Floats, how: Resampling, num_runs: int, num_topics: int) -> Measured:
    if np.isnan(value):
        return Measured(None, NO_ORDER)
    draws = drawn if num_topics > 1 else drawn[:0]
    return order_from_draws(
        float(value),
        draws,
        n=num_runs,
        num_units=num_topics,
        of=how.of,
        confidence=how.confidence,
    )


def _concordance(values: Floats) -> Floats:
    gaps = values[:, :, None] - values[:, None, :]
    return np.where(np.abs(gaps) < 1e-12, 0.5, (gaps > 0).astype(float))
