"""Labels of nuggets → scores of topics and of runs, with coverage and bounds beside each.

A missing label gets no score: it is left out and counted. The bounds are the scores if every missing
label were ``not_support`` or ``support``, and the interval of a run covers both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import DataError, did_you_mean, listing
from lm_eval.stats.numeric import Floats
from lm_eval.stats.resampling import Measured
from lm_eval.support.encode import AsDict
from nugget_eval.data.records import ALL, Labelled, Nugget, Topic, nugget_ids
from nugget_eval.scores.bootstrap import Resampling, from_draws, np, resampled_sums
from nugget_eval.scores.measures import MEASURES, TREC_MEASURES, Tally, count_labels, known_measure


@dataclass(frozen=True, slots=True)
class TopicScore(AsDict):
    """A score of one topic; ``value`` is None if it is undefined, and ``reason`` says why.

    ``low`` and ``high`` are the score with every missing label taken as ``not_support`` or ``support``.
    """

    value: float | None
    low: float | None
    high: float | None
    labelled: int
    total: int
    reason: str = ""

    KEYS = ("value", ("worst_case", "low"), ("best_case", "high"), "labelled", "total")

    @property
    def coverage(self) -> float | None:
        """The share of the nuggets that count here which have a label."""
        return self.labelled / self.total if self.total else None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; a reason only if there is one."""
        known = AsDict.to_dict(self)
        return {**known, "reason": self.reason} if self.reason else known


@dataclass(frozen=True, slots=True)
class TopicScores(AsDict):
    """The scores of one topic, by measure."""

    qid: str
    scores: Mapping[str, TopicScore]


@dataclass(frozen=True, slots=True)
class RunScore(AsDict):
    """The mean of a measure over the topics of a run.

    ``low`` and ``high`` bound it over the missing labels, also those of topics without any label. The
    interval of ``mean`` also covers the choice of topics; if nothing is missing, only that.
    """

    mean: Measured
    low: float | None
    high: float | None
    labelled: int
    total: int
    num_topics: int
    undefined: Mapping[str, int]
    """Reason → number of topics that are not in the mean."""

    KEYS = (
        *(("worst_case", "low"), ("best_case", "high")),
        *("labelled", "total", "coverage", "num_topics", "undefined"),
    )

    @property
    def coverage(self) -> float | None:
        """The share of the nuggets that count here which have a label."""
        return self.labelled / self.total if self.total else None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the mean with its interval, then its bounds and what it counts."""
        return {**self.mean.to_dict(), **AsDict.to_dict(self)}


@dataclass(frozen=True, slots=True)
class RunScores(AsDict):
    """The scores of one run: by topic, and their means by measure."""

    run_id: str
    topics: tuple[TopicScores, ...]
    means: Mapping[str, RunScore]

    KEYS = ("run_id", "means", "topics")

    def values(self, measure: str) -> dict[str, float]:
        """Topic → score, for the topics where it is defined."""
        known_measure(measure)
        scores = ((topic.qid, topic.scores[measure].value) for topic in self.topics)
        return {qid: value for qid, value in scores if value is not None}

    def to_metrics(self) -> list[dict[str, Any]]:
        """The lines of a metrics file: each topic, then the means under the qid ``all``."""
        lines: list[dict[str, Any]] = [
            {"qid": topic.qid, **{name: topic.scores[name].value for name in TREC_MEASURES}}
            for topic in self.topics
        ]
        means = {name: self.means[name].mean.value for name in TREC_MEASURES}
        return [*lines, {"qid": ALL, **means}]


def score_topic(qid: str, nuggets: Sequence[Nugget], *, trec_compat: bool = False) -> TopicScores:
    """The scores of one topic. ``trec_compat`` is explained at ``score_run``."""
    return _topic_scores([qid], Tally(count_labels([nuggets]), trec_compat))[0]


def score_run(
    items: Iterable[Labelled],
    *,
    topics: Iterable[Topic] | None = None,
    run_id: str | None = None,
    trec_compat: bool = False,
    how: Resampling | None = None,
) -> RunScores:
    """The scores of one run from the labels of its answers, one item for each topic.

    With ``topics``, every topic there is scored: labels are missing if it has no item, and for
    nuggets that its item lacks. An item of another topic, or a topic twice, is an error.
    ``trec_compat`` scores as nuggetizer does: missing labels count as 0, a topic without vital nuggets
    scores 0, and all topics are in the means.
    """
    by_topic = _by_topic(items)
    names = {item.unit for item in by_topic.values()}
    if run_id is None and len(names) > 1:
        raise DataError(
            f"Labels of several runs: {listing(sorted(names), 5)}. Score each on its own, as "
            "score_runs does."
        )
    nuggets = {qid: tuple(item.nuggets) for qid, item in by_topic.items()}
    if topics is not None:
        nuggets = _completed(nuggets, topics)
    if not nuggets:
        raise DataError("A run without any topic cannot be scored.")
    tally = Tally(count_labels(list(nuggets.values())), trec_compat)
    return RunScores(
        run_id if run_id is not None else next(iter(names), ""),
        tuple(_topic_scores(list(nuggets), tally)),
        _run_means(tally, how or Resampling()),
    )


def score_runs(
    items: Iterable[Labelled],
    *,
    topics: Iterable[Topic] | None = None,
    trec_compat: bool = False,
    how: Resampling | None = None,
) -> list[RunScores]:
    """The scores of each run in ``items``, in the order in which they come first.

    Labels of retrieved passages are put together by ``best_over_passages`` first.
    """
    runs: dict[str, list[Labelled]] = defaultdict(list)
    for item in items:
        runs[item.unit].append(item)
    known = None if topics is None else list(topics)
    return [
        score_run(labelled, topics=known, run_id=name, trec_compat=trec_compat, how=how)
        for name, labelled in runs.items()
    ]


def _by_topic(items: Iterable[Labelled]) -> dict[str, Labelled]:
    by_topic: dict[str, Labelled] = {}
    for item in items:
        if item.qid in by_topic:
            raise DataError(
                f"Topic {item.qid!r} has labels twice. Combine passages of one topic with "
                "best_over_passages, or remove one of the two."
            )
        by_topic[item.qid] = item
    return by_topic


def _completed(
    nuggets: Mapping[str, tuple[Nugget, ...]], topics: Iterable[Topic]
) -> dict[str, tuple[Nugget, ...]]:
    """The nuggets of every topic, with the labels and in the words of the nuggets file."""
    known = {topic.qid: topic.nuggets for topic in topics}
    unknown = [qid for qid in nuggets if qid not in known]
    if unknown:
        raise DataError(
            f"Labels of topics that the nuggets file does not have ({len(unknown)}): "
            f"{listing(unknown, 5)}.{did_you_mean(unknown[0], known)} "
            "Use the nuggets file that the labels were made with."
        )
    return {qid: _relabelled(qid, wanted, nuggets.get(qid, ())) for qid, wanted in known.items()}


def _relabelled(
    qid: str, nuggets: Sequence[Nugget], labelled: Sequence[Nugget]
) -> tuple[Nugget, ...]:
    labels = dict(zip(nugget_ids(qid, labelled), (n.assignment for n in labelled), strict=True))
    keys = nugget_ids(qid, nuggets)
    strange = [n.text for key, n in zip(labels, labelled, strict=True) if key not in set(keys)]
    if strange:
        raise DataError(
            f"Topic {qid!r}: labels of nuggets that the nuggets file does not have ({len(strange)}), "
            f"such as {strange[0][:80]!r}. Use the nuggets file that the labels were made with."
        )
    return tuple(
        Nugget(nugget.text, nugget.importance, labels.get(key))
        for key, nugget in zip(keys, nuggets, strict=True)
    )


def _topic_scores(qids: Sequence[str], tally: Tally) -> list[TopicScores]:
    rows = zip(
        tally.values.tolist(),
        tally.low.tolist(),
        tally.high.tolist(),
        tally.labelled.tolist(),
        tally.total.tolist(),
        strict=True,
    )
    return [
        TopicScores(qid, _scores(tally, topic, columns))
        for topic, (qid, columns) in enumerate(zip(qids, rows, strict=True))
    ]


def _scores(tally: Tally, topic: int, columns: Sequence[Sequence[Any]]) -> dict[str, TopicScore]:
    scores = {}
    for column, (value, low, high, labelled, total) in enumerate(zip(*columns, strict=True)):
        reason = tally.reason(topic, column) if math.isnan(value) else ""
        bounds = (_known(low), _known(high))
        scores[MEASURES[column]] = TopicScore(_known(value), *bounds, labelled, total, reason)
    return scores


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _run_means(tally: Tally, how: Resampling) -> dict[str, RunScore]:
    parts = [tally.values, tally.low, tally.high]
    # For each a sum and a count, since topics without a score are in no mean.
    sums = np.concatenate(
        [np.nan_to_num(part) for part in parts] + [~np.isnan(p) for p in parts], 1
    )
    draws = resampled_sums(sums, how) if len(sums) > 1 and how.iters > 1 else sums[:0]
    with np.errstate(invalid="ignore", divide="ignore"):
        half = draws.shape[1] // 2
        means = (draws[:, :half] / draws[:, half:]).reshape(len(draws), 3, len(MEASURES))
    return {
        measure: _run_score(tally, column, means[:, :, column], how)
        for column, measure in enumerate(MEASURES)
    }


def _run_score(tally: Tally, column: int, draws: Floats, how: Resampling) -> RunScore:
    undefined = _undefined(tally, column)
    return RunScore(
        _mean(tally, column, draws, how, undefined),
        _plain_mean(tally.low[:, column]),
        _plain_mean(tally.high[:, column]),
        int(tally.labelled[:, column].sum()),
        int(tally.total[:, column].sum()),
        len(tally.values) - sum(undefined.values()),
        undefined,
    )


def _mean(
    tally: Tally, column: int, draws: Floats, how: Resampling, undefined: Mapping[str, int]
) -> Measured:
    mean = _plain_mean(tally.values[:, column])
    if mean is None:
        return Measured(None, f"no topic has this score: {'; '.join(undefined)}")
    n = len(tally.values) - sum(undefined.values())
    is_certain = tally.trec_compat or bool((tally.labelled == tally.total)[:, column].all())
    bounds = None if is_certain else (draws[:, 1], draws[:, 2])
    return from_draws(mean, draws[:, 0], how, n=n, num_units=n, bounds=bounds)


def _plain_mean(values: Floats) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


def _undefined(tally: Tally, column: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic in np.flatnonzero(np.isnan(tally.values[:, column])).tolist():
        reason = tally.reason(topic, column)
        counts[reason] = counts.get(reason, 0) + 1
    return counts
