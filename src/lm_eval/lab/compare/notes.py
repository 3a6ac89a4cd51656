"""The notes below the tables of a comparison: what columns mean, and the numbers behind the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lm_eval.lab.compare.values import ADHERENCE, CHANCE_OR_ADHERENCE, Comparison, Pair
from lm_eval.lab.show.phrases import items, p_words
from lm_eval.reports.table import number
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.estimates import Estimate
from lm_eval.text.terminal import visible

SMALL_N = 300
"""Below this many items the probability that one row is truly better is shown as well."""

_FALSE = "so that on average at most 1 in 20 of those below 0.05 is luck"
_METHODS = {
    "holm": "Holm",
    "bh": f"Benjamini and Hochberg, {_FALSE}",
    "by": f"Benjamini and Yekutieli, {_FALSE}",
}


def pair_notes(comparison: Comparison) -> Iterator[str]:
    """What the columns of the table of pairs mean."""
    tests = " or ".join(dict.fromkeys(pair.result.test for pair in comparison.pairs))
    num = len(comparison.pairs)
    adjusted = (
        f", adjusted for {num} comparisons by {_METHODS[comparison.method]}" if num > 1 else ""
    )
    yield (
        "Difference: of the two scores, with its own 95 % interval. p: how often luck alone makes one "
        f"as large where there is none ({tests}{adjusted}); below 0.05 it counts as real."
    )
    if any(_leaves_out_0(pair) and not pair.is_significant for pair in comparison.pairs):
        yield (
            "An interval may leave out 0 although p is 0.05 or more: p decides, the more cautious of "
            "the two."
        )
    yield " ".join(_column_notes(comparison))
    if not comparison.higher_is_better:
        yield "Less is better here: the first of two has the lower score, so differences are negative."


def _leaves_out_0(pair: Pair) -> bool:
    found = pair.result.difference
    return found.low is not None and found.high is not None and found.low * found.high > 0


def _column_notes(comparison: Comparison) -> Iterator[str]:
    if comparison.num_items < SMALL_N and any(
        pair.probability is not None for pair in comparison.pairs
    ):
        yield "Better: how probable it is that the first is truly better, as far as these items tell."
    what = "right" if comparison.is_right_or_wrong else "better"
    under = comparison.under
    yield f"Flips: items {what} {under} the first alone – {under} the second alone."
    if any(pair.both_read is not None for pair in comparison.pairs):
        yield (
            "If both read: the difference (and p) on the items whose answers were read "
            f"{comparison.under} both."
        )
    if any(pair.verdict in (ADHERENCE, CHANCE_OR_ADHERENCE) for pair in comparison.pairs):
        yield (
            "Adherence: format adherence, not ability; the difference is no larger than the gap in "
            "answers read."
        )
    if any(pair.result.smallest_detectable is not None for pair in comparison.pairs):
        alone = ", were it the only comparison" if len(comparison.pairs) > 1 else ""
        yield f"Detects: a true difference so large is found in 4 of 5 such runs{alone}."


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """The rest of the numbers: spread, components, intervals, items that never flip."""
    spread = comparison.spread
    if spread is not None and spread.value > 0 and len(comparison.rows) > 2:
        yield _spread_note(comparison)
    if comparison.omnibus is not None:
        found = comparison.omnibus
        yield (
            f"All together: {found.test} = {number(found.statistic, 2)} with {found.df} degrees of "
            f"freedom, {p_words(found.p)}."
        )
    if comparison.steady is not None and comparison.num_items:
        ones, zeros = comparison.steady
        flip = comparison.num_items - ones - zeros
        one = ones == 1
        are = (
            ("is" if one else "are") + " right"
            if comparison.higher_is_better
            else f"score{'s' * one} 1"
        )
        yield (
            f"Of {items(comparison)}, {ones} {are} {comparison.under} all, {zeros} {comparison.under} "
            f"none and {flip} depend{'s' if flip == 1 else ''} on the {comparison.compares[:-1]}."
        )
    if any(row.bounds is not None and row.num_unread for row in comparison.rows):
        yield "Bounds: the score if all unread answers were wrong, and if all were right."
    yield (
        f"Intervals of scores: {_methods(row.score for row in comparison.rows)}; of differences: "
        f"{_methods(pair.result.difference for pair in comparison.pairs)}."
    )
    if comparison.num_clusters and comparison.num_clusters < FEW_CLUSTERS:
        yield (
            f"{comparison.num_clusters} clusters are few: below {FEW_CLUSTERS}, intervals over "
            "clusters tend to be too narrow."
        )
    if comparison.left_out:
        parts = ", ".join(f"{visible(name)} {num}" for name, num in comparison.left_out.items())
        yield (
            f"Compared on the {comparison.num_items} items that all have; left out, because others lack "
            f"them: {parts}."
        )
    missing = [f"{visible(row.label)} {row.missing}" for row in comparison.rows if row.missing]
    if missing:
        yield f"Docs without an answer, which count nowhere: {', '.join(missing)}."


def _spread_note(comparison: Comparison) -> str:
    spread = comparison.spread
    assert spread is not None
    how = spread.null_method
    if spread.null_permutations:
        how = f"{spread.null_permutations:,} {how}"
    text = (
        f"Spread (best − worst): {number(spread.value)}; by luck alone {number(spread.null_mean)} on "
        f"average, up to {number(spread.null_95)} in 95 %; excess {number(spread.excess)}, "
        f"{p_words(spread.p)} ({how})."
    )
    if spread.safe_low is not None and spread.safe_high is not None:
        text += f" 95 % interval [{number(spread.safe_low)}, {number(spread.safe_high)}]."
    if spread.low is not None and spread.high is not None and spread.bootstrap_mean is not None:
        text += (
            f" With the items drawn anew {spread.resamples:,} times: [{number(spread.low)}, "
            f"{number(spread.high)}], mean {number(spread.bootstrap_mean)}; drawing anew adds noise, so "
            "that this lies too high. Best: the share of these draws in which a format is best."
        )
    return text


def _methods(found: Iterable[Estimate]) -> str:
    """How the intervals were made; another note says that clusters are few."""
    made = [one.method.removesuffix(", few clusters") for one in found if one.low is not None]
    return " or ".join(dict.fromkeys(made)) or "none"


def flip_notes(comparison: Comparison, limit: int) -> Iterator[str]:
    """The docs on which two rows differ."""
    what = "Right" if comparison.is_right_or_wrong else "Better"
    under = comparison.under
    for pair in comparison.pairs:
        if pair.flips is None:
            continue
        first, second = visible(pair.first), visible(pair.second)
        for where, docs in (
            (f"{under} {first}, not {under} {second}", pair.flips.first),
            (f"{under} {second}, not {under} {first}", pair.flips.second),
        ):
            if docs:
                more = f" and {len(docs) - limit:,} more" if len(docs) > limit else ""
                yield f"{what} {where}: doc {', '.join(map(visible, docs[:limit]))}{more}."
