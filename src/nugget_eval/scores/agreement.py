"""How well labels agree: a judge with people, and judges with each other.

Every statistic has an interval from resampled topics (or items, if topics are not known), or a reason
why it has none; nothing is NaN. Only items with a label on both sides are compared; ``coverage`` is
their share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from lm_eval.errors import DataError, listing
from lm_eval.stats.estimates import share_estimate
from lm_eval.stats.numeric import Floats
from lm_eval.stats.resampling import Measured
from lm_eval.support.encode import AsDict
from nugget_eval.reading.spellings import LABELS, ORDER, RANK, Label
from nugget_eval.scores.bootstrap import Resampling, measured, np, resampled_sums
from nugget_eval.scores.measures import GAIN

Labels = Sequence[Label | None]
SIZE = len(ORDER)

ONE_LABEL = "undefined: only one label occurs"
NO_ITEMS = "undefined: no item has two labels"


@dataclass(frozen=True, slots=True)
class Agreement(AsDict):
    """A judge against gold: statistics by name, and the table of labels.

    ``confusion[gold][judged]`` counts items, with ``missing`` for a judge's label that is None.
    ``measures`` has accuracy, macro_f1, kappa, kappa_linear, kappa_quadratic, mae, bias, alpha_nominal,
    alpha_ordinal, and precision, recall and f1 of each label as ``f1[support]``.
    """

    measures: Mapping[str, Measured]
    confusion: Mapping[str, Mapping[str, int]]
    compared: int
    total: int
    """Items with a gold label."""

    ALSO = ("coverage",)

    @property
    def coverage(self) -> float | None:
        """The share of gold labels that the judge labelled too."""
        return self.compared / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class RaterAgreement(AsDict):
    """Several raters: ``fleiss``, ``alpha_nominal`` and ``alpha_ordinal``.

    Alpha counts every item with two labels or more; Fleiss needs the items that all raters labelled.
    """

    measures: Mapping[str, Measured]
    raters: tuple[str, ...]
    items: int
    paired: int
    complete: int


def agreement(
    gold: Labels,
    judged: Labels,
    *,
    topics: Sequence[Hashable] | None = None,
    how: Resampling | None = None,
) -> Agreement:
    """A judge against gold, item by item. ``topics`` names the topic of each item, for the intervals."""
    _same_length(gold, judged)
    both = [i for i in range(len(gold)) if gold[i] is not None and judged[i] is not None]
    cells = _cells([(gold[i], judged[i]) for i in both])
    sums, how = _grouped(cells, both, topics, how or Resampling())
    counts = Counter(zip(gold, judged, strict=True))
    return Agreement(
        _pair_measures(sums, len(both), how),
        {
            row: {str(column or "missing"): counts[row, column] for column in (*LABELS, None)}
            for row in LABELS
        },
        len(both),
        sum(label is not None for label in gold),
    )


def rater_agreement(
    raters: Mapping[str, Labels],
    *,
    topics: Sequence[Hashable] | None = None,
    how: Resampling | None = None,
) -> RaterAgreement:
    """Agreement among two raters or more, whose labels are of the same items in the same order."""
    if len(raters) < 2:
        raise DataError(f"Agreement needs at least two raters; got {listing(raters)}.")
    first, *others = raters.values()
    for other in others:
        _same_length(first, other)
    counts = np.zeros((len(first), SIZE))
    for labels in raters.values():
        for item, label in enumerate(labels):
            if label is not None:
                counts[item, _code(label)] += 1
    how = how or Resampling()
    num_labels = counts.sum(axis=1)
    paired = np.flatnonzero(num_labels >= 2).tolist()
    complete = np.flatnonzero(num_labels == len(raters)).tolist()
    pairs = _grouped(coincidences(counts[paired]), paired, topics, how)
    full = _grouped(fleiss_sums(counts[complete], len(raters)), complete, topics, how)
    return RaterAgreement(
        {**_fleiss(full, len(complete)), **_alphas(*pairs, len(paired))},
        tuple(raters),
        len(first),
        len(paired),
        len(complete),
    )


def _same_length(first: Labels, second: Labels) -> None:
    if len(first) != len(second):
        raise DataError(
            f"Labels to compare must belong to the same items; got {len(first)} and {len(second)}."
        )


def _code(label: Label | None) -> int:
    if label not in RANK:
        raise DataError(f"Unknown label {label!r}. Labels: {', '.join(LABELS)}; None if missing.")
    return RANK[label]


def _cells(pairs: Sequence[tuple[Label | None, Label | None]]) -> Floats:
    """A row for each pair of labels: 1 in its cell of the table of labels, flattened."""
    cells = np.zeros((len(pairs), SIZE * SIZE))
    codes = [_code(gold) * SIZE + _code(judged) for gold, judged in pairs]
    cells[np.arange(len(pairs)), codes] = 1.0
    return cells


def _grouped(
    rows: Floats, items: Sequence[int], topics: Sequence[Hashable] | None, how: Resampling
) -> tuple[Floats, Resampling]:
    """Rows summed by topic, and how to resample them: by items if there are fewer than two topics."""
    names = None if topics is None else [topics[item] for item in items]
    if names is None or len(set(names)) < 2:
        return rows, replace(how, of="items")
    places: dict[Hashable, int] = defaultdict(lambda: len(places))
    sums = np.zeros((len(set(names)), rows.shape[1]))
    np.add.at(sums, [places[name] for name in names], rows)
    return sums, how


def _pair_measures(sums: Floats, n: int, how: Resampling) -> dict[str, Measured]:
    statistics: dict[str, tuple[Callable[[Floats], Floats], str]] = {
        "accuracy": (accuracy, NO_ITEMS),
        "macro_f1": (macro_f1, NO_ITEMS),
        "kappa": (kappa(0), ONE_LABEL),
        "kappa_linear": (kappa(1), ONE_LABEL),
        "kappa_quadratic": (kappa(2), ONE_LABEL),
        "mae": (mean_absolute_error, NO_ITEMS),
        "bias": (bias, NO_ITEMS),
    }
    for label in LABELS:
        rank = RANK[label]
        never = f"undefined: {label} never occurs"
        statistics[f"precision[{label}]"] = (
            precision(rank),
            f"{never} in the judge's labels",
        )
        statistics[f"recall[{label}]"] = (recall(rank), f"{never} in gold")
        statistics[f"f1[{label}]"] = (f1(rank), never)
    draws = resampled_sums(sums, how) if len(sums) else sums
    # The coincidences of two raters are the table of labels and its mirror.
    mirrored = (tables(sums) + tables(sums).transpose(0, 2, 1)).reshape(sums.shape)
    shares = _share_sizes(tables(sums))
    sizes = {name: int(counts.sum()) for name, counts in shares.items()}
    measures = {
        name: measured(
            sums,
            statistic,
            how,
            n=sizes.get(name, n),
            undefined=reason if n else NO_ITEMS,
            draws=draws,
        )
        for name, (statistic, reason) in statistics.items()
    }
    return {**measures, **_extreme_shares(measures, shares, how.of), **_alphas(mirrored, how, n)}


def _share_sizes(cells: Floats) -> dict[str, Floats]:
    """Of how many items accuracy, precision and recall are shares, in each topic or item."""
    sizes = {"accuracy": cells.sum(axis=(1, 2))}
    for label, rank in RANK.items():
        sizes[f"precision[{label}]"] = cells[:, :, rank].sum(axis=1)
        sizes[f"recall[{label}]"] = cells[:, rank].sum(axis=1)
    return sizes


def _extreme_shares(
    measures: Mapping[str, Measured], sizes: Mapping[str, Floats], of: str
) -> dict[str, Measured]:
    """Wilson's interval for shares of 0 or 1: resampling cannot show that they might be off.

    Labels of one topic go together, so a topic counts as one item, as for clusters of items.
    """
    shares = {}
    for name, counts in sizes.items():
        value, num_units = measures[name].value, int((counts > 0).sum())
        if value is not None and value in (0.0, 1.0):
            wilson = share_estimate(round(value * num_units), num_units)
            method = wilson.method if of == "items" else f"{wilson.method} over {num_units} {of}"
            shares[name] = Measured(replace(wilson, n=int(counts.sum()), method=method))
    return shares


def _alphas(sums: Floats, how: Resampling, n: int) -> dict[str, Measured]:
    draws = resampled_sums(sums, how) if len(sums) else sums
    reason = ONE_LABEL if n else NO_ITEMS
    return {
        f"alpha_{name}": measured(
            sums,
            krippendorff(is_ordinal=name == "ordinal"),
            how,
            n=n,
            undefined=reason,
            draws=draws,
        )
        for name in ("nominal", "ordinal")
    }


def _fleiss(grouped: tuple[Floats, Resampling], n: int) -> dict[str, Measured]:
    sums, how = grouped
    reason = ONE_LABEL if n else "undefined: no item has a label of every rater"
    return {"fleiss": measured(sums, fleiss, how, n=n, undefined=reason)}


# Statistics of sums

# In: arrays whose first axis are the draws. Out: a number for each draw, NaN if it is undefined.
# Labels are in the order not_support, partial_support, support; gold is in the rows.


def tables(sums: Floats) -> Floats:
    """Draws × 9 sums as draws × 3 × 3."""
    return sums.reshape(len(sums), SIZE, SIZE)


def accuracy(sums: Floats) -> Floats:
    """The share of items with the same label."""
    counts = tables(sums)
    shares: Floats = _diagonal(counts).sum(axis=1) / counts.sum(axis=(1, 2))
    return shares


def kappa(power: int) -> Callable[[Floats], Floats]:
    """Cohen's kappa; disagreements weigh 1 (``power`` 0), or their distance (1) or its square (2)."""
    distance = np.abs(np.arange(SIZE)[:, None] - np.arange(SIZE)).astype(float)
    weights = np.where(distance > 0, distance**power, 0.0)

    def statistic(sums: Floats) -> Floats:
        counts = tables(sums)
        expected = counts.sum(axis=2)[:, :, None] * counts.sum(axis=1)[:, None, :]
        seen = (counts * weights).sum(axis=(1, 2)) * counts.sum(axis=(1, 2))
        kappas: Floats = 1.0 - seen / (expected * weights).sum(axis=(1, 2))
        return kappas

    return statistic


def precision(label: int) -> Callable[[Floats], Floats]:
    """Of the items that the judge gave the label, the share that has it in gold."""
    return lambda sums: tables(sums)[:, label, label] / tables(sums)[:, :, label].sum(axis=1)


def recall(label: int) -> Callable[[Floats], Floats]:
    """Of the items that have the label in gold, the share that the judge gave it."""
    return lambda sums: tables(sums)[:, label, label] / tables(sums)[:, label].sum(axis=1)


def f1(label: int) -> Callable[[Floats], Floats]:
    """The harmonic mean of precision and recall; 0 if the label occurs and is never right."""
    return lambda sums: _f1(tables(sums))[:, label]


def macro_f1(sums: Floats) -> Floats:
    """The plain mean of the F1 of every label that occurs on either side."""
    scores = _f1(tables(sums))
    occurs = ~np.isnan(scores)
    means: Floats = np.where(occurs, scores, 0.0).sum(axis=1) / occurs.sum(axis=1)
    return means


def bias(sums: Floats) -> Floats:
    """The mean of judge minus gold with labels as 0, 0.5 and 1: above 0, the judge is lenient."""
    return _mean_of(sums, _gains()[None, :] - _gains()[:, None])


def mean_absolute_error(sums: Floats) -> Floats:
    """The mean distance of judge and gold with labels as 0, 0.5 and 1."""
    return _mean_of(sums, np.abs(_gains()[None, :] - _gains()[:, None]))


def coincidences(counts: Floats) -> Floats:
    """Items × 3 counts of labels → items × 9 pairs of labels within an item; 0 for fewer than two."""
    num_raters = counts.sum(axis=1)
    pairs = counts[:, :, None] * (counts[:, None, :] - np.eye(SIZE))
    weight: Floats = np.where(num_raters > 1, 1.0 / np.maximum(num_raters - 1, 1), 0.0)
    return (pairs * weight[:, None, None]).reshape(len(counts), SIZE * SIZE)


def krippendorff(*, is_ordinal: bool) -> Callable[[Floats], Floats]:
    """Krippendorff's alpha from sums of coincidences, for nominal or ordinal labels."""

    def statistic(sums: Floats) -> Floats:
        counts = tables(sums)
        each = counts.sum(axis=2)
        total = each.sum(axis=1)
        if is_ordinal:
            # The labels between two, and half of each end: the distance of their middle ranks.
            middle = np.cumsum(each, axis=1) - each / 2
            distance = (middle[:, :, None] - middle[:, None, :]) ** 2
        else:
            distance = 1.0 - np.eye(SIZE)[None]
        seen = (counts * distance).sum(axis=(1, 2))
        expected = (each[:, :, None] * each[:, None, :] * distance).sum(axis=(1, 2))
        alphas: Floats = 1.0 - (total - 1.0) * seen / expected
        return alphas

    return statistic


def fleiss_sums(counts: Floats, num_raters: int) -> Floats:
    """Items × 3 counts → items × 5 sums for ``fleiss``: agreement, the counts, one."""
    agreement = (counts * (counts - 1)).sum(axis=1) / (num_raters * (num_raters - 1))
    return np.column_stack([agreement, counts, np.ones(len(counts))])


def fleiss(sums: Floats) -> Floats:
    """Fleiss' kappa from ``fleiss_sums``."""
    seen = sums[:, 0] / sums[:, -1]
    shares = sums[:, 1:-1] / sums[:, 1:-1].sum(axis=1, keepdims=True)
    expected = (shares**2).sum(axis=1)
    is_one_label = (shares > 0).sum(axis=1) == 1  # rounding must not turn 0/0 into a number
    return np.where(is_one_label, np.nan, (seen - expected) / (1.0 - expected))


def _diagonal(counts: Floats) -> Floats:
    return np.diagonal(counts, axis1=1, axis2=2)


def _f1(counts: Floats) -> Floats:
    scores: Floats = 2.0 * _diagonal(counts) / (counts.sum(axis=1) + counts.sum(axis=2))
    return scores


def _gains() -> Floats:
    return np.array([GAIN[label] for label in ORDER])


def _mean_of(sums: Floats, values: Floats) -> Floats:
    means: Floats = (tables(sums) * values).sum(axis=(1, 2)) / sums.sum(axis=1)
    return means
