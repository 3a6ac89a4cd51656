"""The notes below the tables of a comparison, and everything about a ranking of models.

In: a ``Comparison``; out: what its columns mean, and the numbers behind the sentences. In: a
``Ranking``; out: its title, sentences, table and notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lm_eval.lab.compare.values import Comparison, Pair, Ranking
from lm_eval.lab.show.phrases import chance, items, p_words
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.estimates import Estimate
from lm_eval.text.columns import Cells, Column, FittingTable
from lm_eval.text.numbers import number, with_interval
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
        f"as large where there is none ({tests}{adjusted})."
    )
    if any(_leaves_out_0(pair) and not pair.is_significant for pair in comparison.pairs):
        yield (
            "An interval may leave out 0 although p is 0.05 or more: p decides, as the more cautious "
            "of the two."
        )
    yield " ".join(_column_notes(comparison))
    yield _verdict_note(comparison)
    if not comparison.higher_is_better:
        yield "Less is better here: the first of two has the lower score, so differences are negative."


def _leaves_out_0(pair: Pair) -> bool:
    difference = pair.result.difference
    return (
        difference.low is not None
        and difference.high is not None
        and difference.low * difference.high > 0
    )


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
    if any(pair.result.smallest_detectable is not None for pair in comparison.pairs):
        alone = ", were it the only comparison" if len(comparison.pairs) > 1 else ""
        yield f"Detects: a true difference of this size is found in 4 of 5 such runs{alone}."


def _verdict_note(comparison: Comparison) -> str:
    if not any(row.num_unread for row in comparison.rows):
        return "Verdict: real if p is below 0.05; else inconclusive, as luck may be the reason."
    return (
        "Verdict: real if p is below 0.05, and also on the items read "
        f"{comparison.under} the second, where unread answers of the first count as not right; "
        "confounded if only the former, as unread answers may be the reason; else inconclusive, as luck "
        "may be the reason."
    )


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """The rest of the numbers: spread, components, intervals, items that never flip."""
    spread = comparison.spread
    if spread is not None and spread.value > 0 and len(comparison.rows) > 2:
        yield _spread_note(comparison)
    if comparison.omnibus is not None:
        test = comparison.omnibus
        yield (
            f"All together: {test.test} = {number(test.statistic, 2)} with {test.df} degrees of "
            f"freedom, {p_words(test.p)}."
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
            f"none and {flip} depend{'s' if flip == 1 else ''} on the {comparison.kind}."
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
            "this is too high. Best: the share of these draws in which a format is best."
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


ALIKE = 0.1
"""Rankings count as alike if they agree across formats almost as well as on two halves of the items."""
_TIE = 1e-12


def ranking_title(ranking: Ranking) -> str:
    """``demo_mcq: do 4 formats rank 3 models alike?``."""
    return (
        f"{visible(ranking.task)}: do {len(ranking.formats)} formats rank {len(ranking.models)} models "
        "alike?"
    )


def ranking_sentences(ranking: Ranking) -> list[str]:
    """What the rankings say, in plain words."""
    lines = (_order(ranking), _halves(ranking), _typical(ranking))
    return [sentence for sentence in lines if sentence]


def ranking_table(ranking: Ranking) -> FittingTable:
    """A line for each format: the score and rank of each model, and how it agrees with the others."""
    columns = (
        Column("name", "Format", wraps=True, stays=True),
        *(
            Column(f"model{place}", visible(model), is_number=True, wraps=True, stays=True)
            for place, model in enumerate(ranking.models)
        ),
        Column("tau", "Agrees with the others", is_number=True),
    )
    lines = [_line(ranking, place) for place in range(len(ranking.formats))]
    return FittingTable(columns, [lines])


def ranking_notes(ranking: Ranking) -> Iterator[str]:
    """What the columns mean, and the measures over all formats."""
    stability = ranking.stability
    yield (
        "In brackets: the model's rank under that format. Agrees with the others: Kendall's tau-b with "
        "the mean over the other formats, 1 for the same order, −1 for the reverse."
    )
    measured = {
        "Kendall's W": stability.w,
        "mean tau-b": stability.tau,
        "pairs of models that change places": stability.flip_rate,
    }
    parts = [
        f"{name} {with_interval(found.estimate, 2)}"
        for name, found in measured.items()
        if found.estimate is not None
    ]
    if parts:
        yield (
            f"Over all formats: {'; '.join(parts)}. 95 % intervals, for what endless items of this kind "
            "would show: noise alone makes models change places."
        )


def _line(ranking: Ranking, place: int) -> Cells:
    scores = [row[place] for row in ranking.scores]
    tau = ranking.stability.tau_by_format[place].estimate
    cells = {
        f"model{k}": f"{number(score)} ({_rank(scores, score, is_up=ranking.higher_is_better)})"
        for k, score in enumerate(scores)
    }
    return Cells(name=visible(ranking.formats[place]), tau=with_interval(tau, 2), **cells)


def _rank(scores: Sequence[float], score: float, *, is_up: bool) -> int:
    """1 for the best; models that tie share the better rank."""
    return 1 + sum(other > score + _TIE if is_up else other < score - _TIE for other in scores)


def _order(ranking: Ranking) -> str:
    stability = ranking.stability
    share = stability.flip_rate.value
    if share is None:
        return ""
    if share == 0:
        return "The order of the models is the same under every format, ties apart."
    text = (
        f"The order differs between formats: from one format to another, two models change places in "
        f"{chance(share)} of cases"
    )
    reversal = stability.reversal.value
    if reversal:
        text += (
            f"; a model that leads by {number(stability.margin, 2)} or more under one format trails by "
            f"as much under another in {chance(reversal)}"
        )
    return f"{text}."


def _halves(ranking: Ranking) -> str:
    """Whether noise alone would change the order as much."""
    halves = ranking.stability.halves
    if halves is None or halves.same_tau is None or halves.across_tau is None:
        return ""
    if ranking.stability.flip_rate.value == 0 and halves.same_tau == 1:
        return ""
    text = (
        f"On two halves of the {ranking.num_items:,} items, the orders agree by "
        f"{number(halves.same_tau, 2)} under the same format, and by {number(halves.across_tau, 2)} "
        "under different ones (1: the same order, 0: no relation, −1: the reverse)"
    )
    if ranking.stability.flip_rate.value == 0:
        return f"{text}: luck in the items can change the order all the same."
    if halves.across_tau >= halves.same_tau - ALIKE:
        return f"{text}: luck in the items changes the order about as much as the format does."
    return f"{text}: the format changes the order more than luck in the items does."


def _typical(ranking: Ranking) -> str:
    place = ranking.stability.most_typical
    if place is None or ranking.stability.flip_rate.value == 0 or len(ranking.formats) < 3:
        return ""  # two formats agree with each other as much as the other way round
    tau = ranking.stability.tau_by_format[place].value
    agrees = "" if tau is None else f" (agreement {number(tau, 2)})"
    name = visible(ranking.formats[place])
    return f"{name} ranks the models most like the other formats do{agrees}."
