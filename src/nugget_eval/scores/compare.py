"""Runs against runs: paired differences with tests, and rankings of runs.

Two runs are compared on the topics where both have the score. The test flips the signs of the topics'
differences: exactly, if there are at most 20,000 ways to flip them, else by 10,000 seeded draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations

from lm_eval.errors import DataError, listing
from lm_eval.stats.multiplicity import holm
from lm_eval.stats.numeric import Floats
from lm_eval.stats.ranks import order_from_draws, shrunk, signs, tau_b
from lm_eval.stats.resampling import Measured
from lm_eval.stats.sign_flips import NO_SIGN, PValue, sign_flip_p_values
from lm_eval.support.encode import AsDict
from nugget_eval.scores.bootstrap import Resampling, measured, np, resampled_sums
from nugget_eval.scores.measures import known_measure
from nugget_eval.scores.scores import RunScores

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class RunDifference(AsDict):
    """How much higher the first run scores than the second on the topics that both have."""

    first: str
    second: str
    measure: str
    difference: Measured
    p: PValue
    wins: int
    losses: int
    ties: int
    low: float
    """The difference if missing labels were at worst for the first run and at best for the second."""
    high: float
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    p_adjusted: float | None = None
    """Adjusted by Holm's method, if the comparison is one of several."""

    @property
    def num_topics(self) -> int:
        """Topics that both runs have."""
        return self.wins + self.losses + self.ties


@dataclass(frozen=True, slots=True)
class Ranked:
    """A run in a ranking: its rank and its mean over the topics that all runs have."""

    rank: int
    run_id: str
    mean: float


@dataclass(frozen=True, slots=True)
class RunRanking(AsDict):
    """Runs from best to worst.

    Runs share a rank if no two of them differ significantly (Holm over all pairs, level ``alpha``).
    Going down by mean, a run opens a new rank as soon as it differs significantly from any run of the
    current one; ranks count the runs above, as in 1, 1, 3.
    """

    measure: str
    rows: tuple[Ranked, ...]
    pairs: tuple[RunDifference, ...]
    num_topics: int
    left_out: int
    """Topics that some run lacks, or where its score is undefined."""
    alpha: float

    KEYS = ("measure", "num_topics", "left_out", "alpha", ("runs", "rows"), "pairs")


def tested_over_topics(differences: Floats, how: Resampling) -> list[tuple[Measured, PValue]]:
    """For each column of ``differences`` (topics × pairs): its mean with an interval, and its p-value.

    Topics are what is drawn and flipped: the labels within one depend on each other. The lab's paired
    tests differ in two ways: their intervals are of Student's t, and an answer that is missing is wrong
    there; here only what both sides labelled counts.
    """
    n = len(differences)
    p_values = sign_flip_p_values(differences, seed=how.seed)
    draws = resampled_sums(differences, how)  # once for all pairs

    def mean(pair: int) -> Measured:
        column, drawn = differences[:, [pair]], draws[:, [pair]]
        return measured(column, lambda sums: sums[:, 0] / n, how, n=n, undefined="", draws=drawn)

    return [(mean(pair), p) for pair, p in enumerate(p_values)]


def compare_runs(
    first: RunScores, second: RunScores, measure: str, *, how: Resampling | None = None
) -> RunDifference:
    """The paired difference ``first`` − ``second`` of a measure; an error if they share no topic."""
    return _differences([first, second], measure, [(0, 1)], how or Resampling())[0]


def rank_runs(
    runs: Sequence[RunScores],
    measure: str,
    *,
    alpha: float = ALPHA,
    how: Resampling | None = None,
) -> RunRanking:
    """The ranking of runs by a measure on the topics that all of them have; see ``RunRanking``."""
    if not runs:
        raise DataError("A ranking needs at least one run.")
    if len({run.run_id for run in runs}) < len(runs):
        raise DataError(f"Runs need different names; got {listing(run.run_id for run in runs)}.")
    common, table = _score_table(runs, measure)
    order = sorted(range(len(runs)), key=lambda run: (-table[run].mean(), run))
    pairs = list(combinations(order, 2))
    tested = _differences(runs, measure, pairs, how or Resampling()) if pairs else []
    adjusted = holm([pair.p.value for pair in tested])
    ranks = _ranks(order, {pair for pair, p in zip(pairs, adjusted, strict=True) if p <= alpha})
    everywhere = {topic.qid for run in runs for topic in run.topics}
    return RunRanking(
        measure,
        tuple(Ranked(ranks[i], runs[i].run_id, float(table[i].mean())) for i in order),
        tuple(replace(pair, p_adjusted=p) for pair, p in zip(tested, adjusted, strict=True)),
        len(common),
        len(everywhere) - len(common),
        alpha,
    )


def _score_table(runs: Sequence[RunScores], measure: str) -> tuple[list[str], Floats]:
    """The topics that have the score in every run, and the scores: runs × topics."""
    values = [run.values(measure) for run in runs]
    common = [qid for qid in values[0] if all(qid in scores for scores in values)]
    if not common:
        examples = "; ".join(
            f"{run.run_id or 'unnamed'}: {listing(scores, 3)}"
            for run, scores in zip(runs[:3], values, strict=False)
        )
        raise DataError(
            f"No topic has {measure} for every run ({examples}). Score them with the same nuggets, and "
            "check their coverage."
        )
    return common, np.array([[scores[qid] for qid in common] for scores in values])


def _differences(
    runs: Sequence[RunScores], measure: str, pairs: Sequence[tuple[int, int]], how: Resampling
) -> list[RunDifference]:
    """The tested difference of each pair of runs, on the topics that all runs have."""
    common, table = _score_table(runs, measure)
    shared = set(common)
    columns = np.stack([table[a] - table[b] for a, b in pairs], axis=1)
    return [
        RunDifference(
            runs[a].run_id,
            runs[b].run_id,
            measure,
            mean,
            p,
            int((column > NO_SIGN).sum()),
            int((column < -NO_SIGN).sum()),
            int((abs(column) <= NO_SIGN).sum()),
            *_bounds(runs[a], runs[b], measure, shared),
            tuple(topic.qid for topic in runs[a].topics if topic.qid not in shared),
            tuple(topic.qid for topic in runs[b].topics if topic.qid not in shared),
        )
        for (a, b), (mean, p), column in zip(
            pairs, tested_over_topics(columns, how), columns.T, strict=True
        )
    ]


def _bounds(
    first: RunScores, second: RunScores, measure: str, common: set[str]
) -> tuple[float, float]:
    ends = []
    for run in (first, second):
        scores = [topic.scores[measure] for topic in run.topics if topic.qid in common]
        ends.append((sum(s.low or 0.0 for s in scores), sum(s.high or 0.0 for s in scores)))
    (low, high), (other_low, other_high) = ends
    return (low - other_high) / len(common), (high - other_low) / len(common)


def _ranks(order: Sequence[int], different: Set[tuple[int, int]]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    group: list[int] = []
    for above, run in enumerate(order):
        if not group or any((member, run) in different for member in group):
            group = []
            rank = above + 1
        group.append(run)
        ranks[run] = rank
    return ranks


# Agreement of two rankings


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
    runs, first, second = _score_tables(gold, judged, known_measure(measure))
    num_topics, num_runs = first.shape
    # The two sides are to runs what formats are to models: noise alone makes them rank differently.
    means = np.stack([first.mean(axis=0), second.mean(axis=0)], axis=1)[None]
    sums = resampled_sums(np.concatenate([first, second], axis=1), how)
    drawn = (sums / num_topics).reshape(-1, 2, num_runs).transpose(0, 2, 1)
    draws = shrunk(means, drawn, np.random.default_rng([how.seed, 1]))
    measures = {}
    for name, statistic in (("tau_b", tau_b), ("tau_ap", tau_ap)):
        value = _in_parts(statistic, means[:, :, 0], means[:, :, 1])[0]
        of_draws = _in_parts(statistic, draws[:, :, 0], draws[:, :, 1])
        measures[name] = _tau(value, of_draws, how, num_runs, num_topics)
    each = _in_parts(tau_b, first, second)
    each = each[~np.isnan(each)]
    sums = np.stack([each, np.ones(len(each))], axis=1)
    measures["tau_b_by_topic"] = measured(
        sums, lambda s: s[:, 0] / s[:, 1], how, n=len(each), undefined=NO_ORDER
    )
    return RunAgreement(measure, measures, runs, num_topics)


def tau_ap(gold: Floats, judged: Floats) -> Floats:
    """Tau of average precision (Yilmaz and others) of each draw: mistakes near the top weigh more.

    A tie in gold is half right; runs that the judge ties count as the average over their orders.
    Undefined if either side ties all runs.
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
    for offset in range(num_runs):  # x at each position in its group of ties, with equal chances
        rank = num_above + offset
        share = (right + offset * right_inside) / np.maximum(rank, 1)
        total += np.where((offset < tied) & (rank > 0), share / tied, 0.0).sum(axis=1)
    has_order = (signs(gold) != 0).any(axis=1) & (signs(judged) != 0).any(axis=1)
    return np.where(has_order, 2.0 * total / max(num_runs - 1, 1) - 1.0, np.nan)


def _score_tables(
    gold: Sequence[RunScores], judged: Sequence[RunScores], measure: str
) -> tuple[tuple[str, ...], Floats, Floats]:
    """The runs that both sides have, and their scores on each side: topics × runs."""
    left, right = ({run.run_id: run for run in side} for side in (gold, judged))
    runs = tuple(name for name in left if name in right)
    if len(runs) < 2:
        raise DataError(
            f"Rankings need at least two runs that both sides scored; there are {len(runs)}. "
            f"Gold has {listing(left, 5)}; the other has {listing(right, 5)}. Give labels of several "
            "runs on both sides."
        )
    _, table = _score_table([side[name] for side in (left, right) for name in runs], measure)
    first, second = (np.ascontiguousarray(side.T) for side in np.split(table, 2))
    return runs, first, second


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
