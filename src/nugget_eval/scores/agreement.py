"""How well labels agree: a judge with people, judges with each other, and rankings of runs.

Every statistic has an interval from resampled topics (or items, where topics are not known), or a reason
why it has none; nothing is NaN. Only items with a label on both sides are compared; coverage tells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lm_eval.errors import DataError, listing
from lm_eval.stats.estimates import share_estimate
from lm_eval.stats.numeric import Floats
from lm_eval.stats.resampling import Measured
from lm_eval.text.encode import AsDict
from nugget_eval.data.records import Labelled, nugget_ids
from nugget_eval.reading import LABELS, RANK, Label
from nugget_eval.scores import confusion as stats
from nugget_eval.scores.bootstrap import (
    Resampling,
    measured,
    np,
    resampled_sums,
)

Labels = Sequence[Label | None]

ONE_LABEL = "undefined: only one label occurs"
NO_ITEMS = "undefined: no item has two labels"


@dataclass(frozen=True, slots=True)
class AlignedLabels:
    """The labels of two files side by side, a nugget of a topic and run at a time."""

    gold: tuple[Label | None, ...]
    judged: tuple[Label | None, ...]
    topics: tuple[str, ...]
    not_judged: int
    """Nuggets of gold that the other file does not have; they are in the lists, without a label."""
    not_in_gold: int
    """Nuggets that gold does not have; they cannot be compared and are in no list."""


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


def align_labels(gold: Iterable[Labelled], judged: Iterable[Labelled]) -> AlignedLabels:
    """Put labels side by side by run or passage, topic and nugget; an error if nothing fits.

    A nugget of gold that was never judged stays in, without a label: it counts against coverage.
    """
    wanted, found = _labels(gold, "gold"), _labels(judged, "the judged labels")
    common = wanted.keys() & found.keys()
    if not common:
        raise DataError(
            "Gold and the judged labels have no nugget in common. Gold has "
            f"{_examples(wanted)}; the other has {_examples(found)}. Check run ids, topic ids and that "
            "the texts of the nuggets are the same."
        )
    return AlignedLabels(
        tuple(wanted.values()),
        tuple(found.get(key) for key in wanted),
        tuple(qid for _, qid, _ in wanted),
        len(wanted) - len(common),
        len(found) - len(common),
    )


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
    counts = np.zeros((len(first), stats.SIZE))
    for labels in raters.values():
        for item, label in enumerate(labels):
            if label is not None:
                counts[item, _code(label)] += 1
    how = how or Resampling()
    num_labels = counts.sum(axis=1)
    paired = np.flatnonzero(num_labels >= 2).tolist()
    complete = np.flatnonzero(num_labels == len(raters)).tolist()
    pairs = _grouped(stats.coincidences(counts[paired]), paired, topics, how)
    full = _grouped(stats.fleiss_sums(counts[complete], len(raters)), complete, topics, how)
    return RaterAgreement(
        {**_fleiss(full, len(complete)), **_alphas(*pairs, len(paired))},
        tuple(raters),
        len(first),
        len(paired),
        len(complete),
    )


def _labels(items: Iterable[Labelled], what: str) -> dict[tuple[str, str, str], Label | None]:
    found: dict[tuple[str, str, str], Label | None] = {}
    seen: set[tuple[str, str]] = set()
    for item in items:
        if (item.unit, item.qid) in seen:
            where = f"topic {item.qid!r}" + (f" of {item.unit!r}" if item.unit else "")
            raise DataError(
                f"{where} occurs twice in {what}. Combine passages of one topic with "
                "best_over_passages, or remove one of the two."
            )
        seen.add((item.unit, item.qid))
        for key, nugget in zip(nugget_ids(item.qid, item.nuggets), item.nuggets, strict=True):
            found[item.unit, item.qid, key] = nugget.assignment
    return found


def _examples(keys: Iterable[tuple[str, str, str]]) -> str:
    names = dict.fromkeys(f"{unit}/{qid}" if unit else qid for unit, qid, _ in keys)
    return listing(names, 3)


def _same_length(first: Labels, second: Labels) -> None:
    if len(first) != len(second):
        raise DataError(
            f"Labels to compare must belong to the same items; got {len(first)} and {len(second)}."
        )


def _code(label: Label | None) -> int:
    if label not in RANK:
        raise DataError(
            f"Unknown label {label!r}. Labels: {', '.join(LABELS)}; None where missing."
        )
    return RANK[label]


def _cells(pairs: Sequence[tuple[Label | None, Label | None]]) -> Floats:
    """A row for each pair of labels: 1 in its cell of the table of labels, flattened."""
    cells = np.zeros((len(pairs), stats.SIZE * stats.SIZE))
    codes = [_code(gold) * stats.SIZE + _code(judged) for gold, judged in pairs]
    cells[np.arange(len(pairs)), codes] = 1.0
    return cells


def _grouped(
    rows: Floats, items: Sequence[int], topics: Sequence[Hashable] | None, how: Resampling
) -> tuple[Floats, Resampling]:
    """Rows summed by topic, and how to resample them: items, where there are not two topics."""
    names = None if topics is None else [topics[item] for item in items]
    if names is None or len(set(names)) < 2:
        return rows, replace(how, of="items")
    places: dict[Hashable, int] = defaultdict(lambda: len(places))
    sums = np.zeros((len(set(names)), rows.shape[1]))
    np.add.at(sums, [places[name] for name in names], rows)
    return sums, how


def _pair_measures(sums: Floats, n: int, how: Resampling) -> dict[str, Measured]:
    statistics: dict[str, tuple[Callable[[Floats], Floats], str]] = {
        "accuracy": (stats.accuracy, NO_ITEMS),
        "macro_f1": (stats.macro_f1, NO_ITEMS),
        "kappa": (stats.kappa(0), ONE_LABEL),
        "kappa_linear": (stats.kappa(1), ONE_LABEL),
        "kappa_quadratic": (stats.kappa(2), ONE_LABEL),
        "mae": (stats.mean_absolute_error, NO_ITEMS),
        "bias": (stats.bias, NO_ITEMS),
    }
    for label in LABELS:
        place = RANK[label]
        never = f"undefined: {label} never occurs"
        statistics[f"precision[{label}]"] = (
            stats.precision(place),
            f"{never} in the judge's labels",
        )
        statistics[f"recall[{label}]"] = (stats.recall(place), f"{never} in gold")
        statistics[f"f1[{label}]"] = (stats.f1(place), never)
    draws = resampled_sums(sums, how) if len(sums) else sums
    # The coincidences of two raters are the table of labels and its mirror.
    mirrored = (stats.tables(sums) + stats.tables(sums).transpose(0, 2, 1)).reshape(sums.shape)
    shares = _share_sizes(stats.tables(sums))
    sizes = {name: int(counts.sum()) for name, counts in shares.items()}
    found = {
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
    return {**found, **_extreme_shares(found, shares, how.of), **_alphas(mirrored, how, n)}


def _share_sizes(tables: Floats) -> dict[str, Floats]:
    """Of how many items accuracy, precision and recall are shares, in each topic or item."""
    sizes = {"accuracy": tables.sum(axis=(1, 2))}
    for label, place in RANK.items():
        sizes[f"precision[{label}]"] = tables[:, :, place].sum(axis=1)
        sizes[f"recall[{label}]"] = tables[:, place].sum(axis=1)
    return sizes


def _extreme_shares(
    found: Mapping[str, Measured], sizes: Mapping[str, Floats], of: str
) -> dict[str, Measured]:
    """Wilson's interval for shares of 0 or 1: resampling cannot show that they might be off.

    Labels of one topic go together, so a topic counts as one item, as for clusters of items.
    """
    shares = {}
    for name, counts in sizes.items():
        value, num_units = found[name].value, int((counts > 0).sum())
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
            stats.krippendorff(is_ordinal=name == "ordinal"),
            how,
            n=n,
            undefined=reason,
            draws=draws,
        )
        for name in ("nominal", "ordinal")
    }


def _fleiss(found: tuple[Floats, Resampling], n: int) -> dict[str, Measured]:
    sums, how = found
    reason = ONE_LABEL if n else "undefined: no item has a label of every rater"
    return {"fleiss": measured(sums, stats.fleiss, how, n=n, undefined=reason)}
