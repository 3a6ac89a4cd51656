"""What ``lm-eval compare`` prints beside the findings: a label and a short line for each fact.

In: a ``Comparison``. Out: lines of a report: facts that no pair shows (choices, adherence, the error of
a score that includes the choice of format), what the columns mean, and measures over all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lm_eval.formats.enforced import SUFFIX, split_suffix
from lm_eval.lab.compare.values import Comparison, ComparisonRow, Pair
from lm_eval.lab.report import ReportLine
from lm_eval.lab.show.phrases import NAMED, clipped
from lm_eval.lab.stored.measurement import CHOICES_HIDDEN
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.estimates import Estimate
from lm_eval.support.numbers import interval, listed, number, p_equals, percent, signed
from lm_eval.support.terminal import visible

SMALL_N = 300
"""Below this many items, the probability that one row is truly better is shown as well."""
WIDE = 0.8
"""An interval that covers this much of the scale says only that nothing is known."""
MAX_FORMATS = 50
"""Nobody runs more formats than this for the sake of one mean."""
_SHOWN = {"shown": "shown", "scored": "scored unseen", "hidden": "hidden"}


def facts(comparison: Comparison) -> list[ReportLine]:
    """What no pair shows: who shows the choices, what adherence costs, how sure a score is."""
    details = [
        ReportLine("Choices", choices_shown(comparison)),
        ReportLine("Adherence", _adherence(comparison)),
        ReportLine("Std. error", _error(comparison)),
    ]
    return [detail for detail in details if detail.text]


def choices_shown(comparison: Comparison) -> str:
    """``shown under mcqa, hidden under cot``; empty if all do the same."""
    parts = [
        f"{_SHOWN[kind]} {comparison.under} {_some_names(rows)}"
        for kind, rows in comparison.rows_by_choices().items()
    ]
    has_commas = any("," in row.label for row in comparison.rows)
    return ("; " if has_commas else ", ").join(parts)


def _some_names(rows: Sequence[ComparisonRow]) -> str:
    """``a, b and c``, ``a, b, c and 4 more``."""
    names = [visible(row.label) for row in rows]
    more = len(names) - NAMED
    return listed([*names[:NAMED], f"{more} more"] if more > 0 else names)


def _adherence(comparison: Comparison) -> str:
    """What is lost by not keeping to each format that was also enforced; empty if none was."""
    gaps = []
    for pair in comparison.pairs:
        first, second = comparison.row(pair.first), comparison.row(pair.second)
        if split_suffix(first.format) == (second.format, SUFFIX):
            gaps.append(_gap(second, first, pair, 1))
        elif split_suffix(second.format) == (first.format, SUFFIX):
            gaps.append(_gap(first, second, pair, -1))
    return f"enforced − free: {'; '.join(gaps)}" if gaps else ""


def _gap(free: ComparisonRow, held: ComparisonRow, pair: Pair, sign: int) -> str:
    """``generate +.03 [−.09, .15], 98 % parsed free and 100 % enforced``."""
    difference = pair.result.difference
    text = f"{visible(free.label)} {signed(sign * difference.value)}"
    if difference.low is not None and difference.high is not None:
        low, high = sorted((sign * difference.low, sign * difference.high))
        text += f" [{number(low, 2)}, {number(high, 2)}]"
    if free.num_read is not None and held.num_read is not None:
        parsed = percent(free.num_read, free.score.n), percent(held.num_read, held.score.n)
        text += f", {parsed[0]} parsed free and {parsed[1]} enforced"
    if free.choices == CHOICES_HIDDEN:
        text += " (free, no choices are shown; enforced, the answer is one of them)"
    return text


def _error(comparison: Comparison) -> str:
    """The standard error of the usual format's score, without and with the choice of format."""
    parts, row = comparison.components, comparison.row(comparison.default)
    if parts is None or row.score.low is None or row.score.high is None or row.num_read == 0:
        return ""
    if comparison.is_share and row.score.high - row.score.low > WIDE:
        return ""
    score = f"{visible(row.label)} {number(row.score.value, 2)}"
    items, both = (number(error, 2) for error in (parts.stderr_items, parts.stderr_one_format))
    if parts.var_format == 0 or items == both:
        return f"{score} ± {items}; the choice of {comparison.kind} adds nothing measurable"
    text = f"{score} ± {items}; with the choice of {comparison.kind} ± {both}"
    ends = clipped(parts.one_format(row.score.value))
    is_known = ends.low is not None and ends.high is not None and ends.high - ends.low <= WIDE
    if comparison.is_share and is_known:
        text += f" {interval(ends)}"
    needed = parts.formats_needed(parts.stderr_items) if parts.stderr_items else None
    if needed is not None and 2 <= needed <= MAX_FORMATS:
        text += f"; mean of {needed} {comparison.compares} ± {items}"
    return text


# Columns


def columns(comparison: Comparison) -> list[ReportLine]:
    """What the columns mean that the findings do not have."""
    pairs, rows, under = comparison.pairs, comparison.rows, comparison.under
    better = "right" if comparison.is_right_or_wrong else "better"
    alone = " (of one comparison)" if len(pairs) > 1 else ""
    has_unread = any(row.num_unread for row in rows)
    parsed = f"those parsed {under} the second"
    known = {
        "At most": "score if every reply without an answer were right"
        if any(row.bounds is not None and row.num_unread for row in rows)
        else "",
        "Best": f"share of resamples in which the {comparison.kind} is best"
        if len(rows) > 2 and comparison.chances(rows[0].label) is not None
        else "",
        "Better": "probability that the first is truly better"
        if comparison.num_items < SMALL_N and any(pair.probability is not None for pair in pairs)
        else "",
        "Flips": f"items {better} {under} the first alone – {under} the second alone",
        "Both parsed": f"difference and p on the items parsed {under} both"
        if any(pair.both_read is not None for pair in pairs)
        else "",
        "Detects": f"true difference that 4 of 5 such runs find{alone}"
        if any(pair.result.smallest_detectable is not None for pair in pairs)
        else "",
        "p": "of the pairs with p < .05, at most 1 in 20 on average is chance"
        if comparison.method != "holm" and len(pairs) > 1
        else "",
        "Verdict": f"real if p < .05 over all items and over {parsed}; confounded if only over all"
        if has_unread
        else "real if p < .05, whatever the interval leaves out"
        if any(_leaves_out_0(pair) and not pair.is_significant for pair in pairs)
        else "",
    }
    return [ReportLine(label, text) for label, text in known.items() if text]


def _leaves_out_0(pair: Pair) -> bool:
    low, high = pair.result.difference.low, pair.result.difference.high
    return low is not None and high is not None and low * high > 0


# Measures over all rows


def measures(comparison: Comparison) -> list[ReportLine]:
    """Spread, one test for all, items that never flip, methods."""
    return [ReportLine(label, text) for label, text in _measures(comparison) if text]


def cautions(comparison: Comparison) -> list[ReportLine]:
    """Few clusters, and items or docs that were left out."""
    return [ReportLine(label, text) for label, text in _cautions(comparison) if text]


def _measures(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield "Best − worst", _spread(comparison)
    yield "", _resampled(comparison)
    if comparison.omnibus is not None:
        test = comparison.omnibus
        yield (
            "All together",
            f"{test.test} = {number(test.statistic, 2)}, df {test.df}, {p_equals(test.p)}",
        )
    yield "Items", _steady(comparison)
    scores = _methods(row.score for row in comparison.rows)
    yield (
        "Intervals",
        f"scores {scores}; differences {_methods(pair.result.difference for pair in comparison.pairs)}",
    )


def _cautions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    if comparison.num_clusters and comparison.num_clusters < FEW_CLUSTERS:
        yield (
            "Clusters",
            f"{comparison.num_clusters} are few: below {FEW_CLUSTERS}, intervals tend to be too narrow",
        )
    left_out = [f"{visible(name)} {num}" for name, num in (comparison.left_out or {}).items()]
    yield "Left out", _listed(left_out, f"not among the {comparison.num_items} items that all have")
    missing = [f"{visible(row.label)} {row.missing}" for row in comparison.rows if row.missing]
    yield "Missing", _listed(missing, "docs without a reply, in no score")


def _listed(parts: Sequence[str], what: str) -> str:
    return f"{'; '.join(parts)} ({what})" if parts else ""


def _spread(comparison: Comparison) -> str:
    spread = comparison.spread
    if spread is None or spread.value <= 0 or len(comparison.rows) < 3:
        return ""
    how = spread.null_method
    if spread.null_permutations:
        how = f"{spread.null_permutations:,} {how}"
    ends = ""
    if spread.safe_low is not None and spread.safe_high is not None:
        ends = f" [{number(spread.safe_low)}, {number(spread.safe_high)}]"
    return (
        f"{number(spread.value)}{ends}; by chance {number(spread.null_mean)} on average, "
        f"≤ {number(spread.null_95)} in 95 % of cases; excess {number(spread.excess)}; "
        f"{p_equals(spread.p)} ({how})"
    )


def _resampled(comparison: Comparison) -> str:
    spread = comparison.spread
    if spread is None or spread.value <= 0 or len(comparison.rows) < 3:
        return ""
    if spread.low is None or spread.high is None or spread.bootstrap_mean is None:
        return ""
    return (
        f"{number(spread.bootstrap_mean)} [{number(spread.low)}, {number(spread.high)}] in "
        f"{spread.resamples:,} resamples of the items, which overstate it"
    )


def _steady(comparison: Comparison) -> str:
    if comparison.steady is None or not comparison.num_items:
        return ""
    ones, zeros = comparison.steady
    score = "right" if comparison.higher_is_better else "of score 1"
    changing = comparison.num_items - ones - zeros
    return (
        f"{ones:,} {score} {comparison.under} all, {zeros:,} {comparison.under} none, {changing:,} "
        f"depend{'s' * (changing == 1)} on the {comparison.kind}"
    )


def _methods(estimates: Iterable[Estimate]) -> str:
    """How the intervals were made; another line says if clusters are few."""
    with_ends = [estimate for estimate in estimates if estimate.low is not None]
    methods = [estimate.method.removesuffix(", few clusters") for estimate in with_ends]
    return " or ".join(dict.fromkeys(methods)) or "none"
