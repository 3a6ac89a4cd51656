"""A comparison in plain words: what is real, what may be luck, what was not read, what the score is.

In: a ``Comparison``. Out: sentences for someone who has never run a statistical test; each makes sense
alone and begins with its topic. Also the notes below the tables: what their columns mean, and the
numbers behind the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lm_eval.formats.variants import SUFFIX, split_suffix
from lm_eval.lab.compare.values import (
    ALPHA,
    CONFOUNDED,
    REAL,
    Comparison,
    ComparisonRow,
    Pair,
)
from lm_eval.lab.compare.verdicts import fewest_units, verdict_sentences
from lm_eval.lab.show.phrases import (
    MANY_FORMATS,
    NAMED,
    clipped,
    ends,
    fair_words,
    items,
    p_words,
    scored,
    size,
    unread,
)
from lm_eval.lab.stored.measurement import CHOICES_HIDDEN, CHOICES_SCORED, CHOICES_SHOWN
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.estimates import Estimate
from lm_eval.text.numbers import joined, number, percent
from lm_eval.text.terminal import visible

SMALL_N = 300
"""Below this many items, the probability that one row is truly better is shown as well."""

_FALSE = "so that on average at most 1 in 20 of those below 0.05 is luck"
_METHODS = {
    "holm": "Holm",
    "bh": f"Benjamini and Hochberg, {_FALSE}",
    "by": f"Benjamini and Yekutieli, {_FALSE}",
}


def title(comparison: Comparison) -> str:
    """What was compared: ``demo_mcq: 4 formats on the same 32 items, asked of dummy``."""
    shared = "under the format" if comparison.compares == "models" else "asked of"
    tasks = f" of {len(comparison.members)} tasks" if comparison.members else ""
    same = "item" if comparison.num_items == 1 else items(comparison)
    return (
        f"{visible(comparison.task)}: {len(comparison.rows)} {comparison.compares} on the same "
        f"{same}{tasks}, {shared} {visible(comparison.within)}"
    )


def sentences(comparison: Comparison) -> list[str]:
    """What the comparison says, the most important first."""
    if all(row.num_read == 0 for row in comparison.rows):
        return [_all_unread(comparison)]
    if any(any(pair.counts) for pair in comparison.pairs):
        lines = [
            _overall(comparison),
            different_information(comparison),
            *verdict_sentences(comparison),
        ]
    else:
        lines = [_no_difference(comparison), different_information(comparison)]
    lines += [
        adherence_words(comparison),
        unread_words(comparison),
        score_words(comparison),
    ]
    return [sentence for sentence in lines if sentence]


# All differences together


def _all_unread(comparison: Comparison) -> str:
    return (
        f"Nothing was read: none of the answers {comparison.under} these {len(comparison.rows)} "
        f"{comparison.compares} was in a form that could be read, so the scores say nothing about what "
        "the model knows. Look at the replies in the samples file, and try a format that "
        "scores choices, such as @mcqa."
    )


def _no_difference(comparison: Comparison) -> str:
    which = "both" if len(comparison.rows) == 2 else f"all {len(comparison.rows)}"
    score = size(comparison, comparison.rows[0].score.value)
    if comparison.num_items == 1:
        where = f"the one item, {score}"
    else:
        where = f"every one of the {items(comparison)}, {score} on average"
    return f"No difference: {which} {comparison.compares} got the same score on {where}."


def _overall(comparison: Comparison) -> str:
    """Whether the formats differ at all: the spread, compared with what luck alone would give."""
    spread = comparison.spread
    is_few = comparison.num_units < fewest_units(comparison)
    if spread is None or len(comparison.rows) == 2 or (is_few and spread.p >= ALPHA):
        return ""
    apart = (
        f"the best ({scored(comparison, comparison.best)}) and the worst "
        f"({scored(comparison, comparison.worst)}) are {size(comparison, spread.value)} apart"
    )
    luck = (
        f"{len(comparison.rows)} {comparison.compares} that make no difference at all would, "
        f"on {items(comparison)}, be about {size(comparison, spread.null_mean)} apart by luck, and up "
        f"to {size(comparison, spread.null_95)} in 19 cases of 20"
    )
    has_pairs = any(pair.is_significant for pair in comparison.pairs)
    if spread.p < ALPHA:
        is_clear = has_pairs or is_few  # another sentence says that the items are too few
        unclear = "" if is_clear else " Which of them differ is not clear: no two stand out."
        return (
            f"The {comparison.kind} matters here: {apart}. {luck}.{_fair(comparison)}{unclear}"
            f"{_unread_alone(comparison)}"
        )
    if has_pairs:
        return (
            f"Luck could explain how far apart the {comparison.compares} are: {apart}, and {luck}. "
            "Some differ:"
        )
    return (
        f"Nothing here shows that the {comparison.kind} matters: {apart}, but {luck}. That does "
        "not prove that they are equal."
    )


def _unread_alone(comparison: Comparison) -> str:
    """A remark if every difference that is too large for luck may come from unread answers."""
    verdicts = {pair.verdict for pair in comparison.pairs}
    if CONFOUNDED not in verdicts or REAL in verdicts:
        return ""
    return " It may matter only for how many answers could be read."


_CHOICES = {
    CHOICES_SHOWN: ("shows {}", "show {}"),
    CHOICES_SCORED: ("scores {} without showing them", "score {} without showing them"),
    CHOICES_HIDDEN: ("does not show {}", "do not show {}"),
}


def different_information(comparison: Comparison) -> str:
    """Which rows show the choices and which do not; empty if all do the same."""
    kinds = comparison.rows_by_choices()
    parts = [
        f"{some_names(rows)} {_CHOICES[kind][len(rows) > 1].format('them' if index else 'the choices')}"
        for index, (kind, rows) in enumerate(kinds.items())
    ]
    if not parts:
        return ""
    return (
        f"Not the same question: {'; '.join(parts)}. A difference between these kinds may come from "
        "what the model was shown."
    )


def some_names(rows: Sequence[ComparisonRow]) -> str:
    """``a, b and c``, ``a, b, c and 4 more``."""
    names = [visible(row.label) for row in rows]
    more = len(names) - NAMED
    return joined([*names[:NAMED], f"{more} more"] if more > 0 else names)


def _fair(comparison: Comparison) -> str:
    """The spread of a best and a worst that were chosen on other items: choosing among many flatters."""
    half = comparison.spread.split_half if comparison.spread else None
    if half is None or len(comparison.rows) < MANY_FORMATS:
        return ""
    return " " + fair_words(half, size(comparison, abs(half)))


# Scores


WIDE = 0.8
"""An interval that covers this much of the scale says only that nothing is known."""
MOST_FORMATS = 50
"""Nobody runs more formats than this for the sake of one mean."""


def adherence_words(comparison: Comparison) -> str:
    """What is lost by not keeping to each format that was also enforced; empty if none was."""
    rows = {row.label: row for row in comparison.rows}
    gaps = []
    for pair in comparison.pairs:
        first, second = rows[pair.first], rows[pair.second]
        if split_suffix(first.format) == (second.format, SUFFIX):
            gaps.append(_gap(second, first, pair, 1))
        elif split_suffix(second.format) == (first.format, SUFFIX):
            gaps.append(_gap(first, second, pair, -1))
    if not gaps:
        return ""
    start = "Adherence gap (enforced less free, what not keeping to the format costs)"
    return f"{start}: {'; '.join(gaps)}."


def _gap(free: ComparisonRow, held: ComparisonRow, pair: Pair, sign: int) -> str:
    """``generate 0.03 (between -0.09 and 0.15), 98 % read free and 100 % enforced``."""
    difference = pair.result.difference
    value = sign * difference.value
    text = f"{visible(free.label)} {number(value + 0.0, 2)}"
    if difference.low is not None and difference.high is not None:
        low, high = sorted((sign * difference.low, sign * difference.high))
        text += f" (between {number(low, 2)} and {number(high, 2)})"
    if free.num_read is not None and held.num_read is not None:
        read = percent(free.num_read, free.score.n), percent(held.num_read, held.score.n)
        text += f", {read[0]} read free and {read[1]} enforced"
    if free.choices == CHOICES_HIDDEN:
        text += (
            f", where {visible(free.label)} shows no choices and the enforced answer is one of them"
        )
    return text


def unread_words(comparison: Comparison) -> str:
    """How many answers were not read, and what they might have changed; empty if all were read."""
    rows = [row for row in comparison.rows if row.num_unread]
    if not rows:
        return ""
    shown = rows[:NAMED]
    counts = joined([f"{unread(row)} {comparison.under} {visible(row.label)}" for row in shown])
    more = f", and some {comparison.under} {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    text = f"Not read: {counts}{more}. They count {_unread_counts(comparison)}"
    could = [
        f"{visible(row.label)} would have {size(comparison, row.bounds[1])} instead of "
        f"{size(comparison, row.score.value)}"
        for row in shown
        if row.bounds is not None and row.num_read
    ]
    if could:
        text += f"; were all of them right, {joined(could)}"
    nothing = [visible(row.label) for row in rows if row.num_read == 0]
    if nothing:
        text += (
            f". A score without a single answer read ({joined(nothing)}) says nothing about what the "
            "model knows"
        )
    return f"{text}."


def _unread_counts(comparison: Comparison) -> str:
    return "as not right" if comparison.higher_is_better else "as the metric says"


def score_words(comparison: Comparison) -> str:
    """The usual format's score, with the range that another choice of format might have given."""
    parts = comparison.components
    row = comparison.row(comparison.default)
    if parts is None or row.score.low is None or row.score.high is None or row.num_read == 0:
        return ""
    start = f"Your score: {size(comparison, row.score.value)} under {visible(row.label)}"
    if comparison.is_share and row.score.high - row.score.low > WIDE:
        return f"{start}; {items(comparison)} are too few to say how far that is from the truth."
    start += f"; the luck of the items alone puts it between {ends(comparison, row.score)}"
    count = len(comparison.rows)
    if parts.var_format == 0:
        return (
            f"{start}. Nothing in these {count} {comparison.compares} says that the choice of "
            f"{comparison.kind} adds to that."
        )
    with_format, items_only = (
        size(comparison, error) for error in (parts.stderr_one_format, parts.stderr_items)
    )
    if with_format == items_only:
        return f"{start}. The choice of {comparison.kind} adds hardly anything to that."
    shown = " and of what it shows" if comparison.rows_by_choices() else ""
    text = (
        f"{start}. Including the choice of {comparison.kind}{shown}, its typical error "
        f"(standard error) is {with_format} instead of {items_only}"
    )
    score = clipped(parts.one_format(row.score.value))
    if comparison.is_share and score.low is not None and score.high is not None:
        if score.high - score.low > WIDE:
            return (
                f"{text}; {count} {comparison.compares} say too little about all others for an "
                "interval."
            )
        text += f": between {ends(comparison, score)}"
    return f"{text}.{_formats_needed(comparison)}"


def _formats_needed(comparison: Comparison) -> str:
    parts = comparison.components
    if parts is None or not parts.stderr_items:
        return ""
    needed = parts.formats_needed(parts.stderr_items)
    if needed is None or not 2 <= needed <= MOST_FORMATS:
        return ""
    return (
        f" The mean over {needed} such {comparison.compares} would be as sure as one "
        f"{comparison.kind}'s score seems."
    )


# Notes


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
        yield "Lower is better here: the first of two has the lower score, so differences are negative."


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
    better = "right" if comparison.is_right_or_wrong else "better"
    under = comparison.under
    yield f"Flips: items {better} {under} the first alone – {under} the second alone."
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
        is_one = ones == 1
        are = (
            ("is" if is_one else "are") + " right"
            if comparison.higher_is_better
            else f"score{'s' * is_one} 1"
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
        yield f"Docs without an answer, which are not counted: {', '.join(missing)}."


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
            f" With the items resampled {spread.resamples:,} times: [{number(spread.low)}, "
            f"{number(spread.high)}], mean {number(spread.bootstrap_mean)}; resampling adds noise, so "
            "this is too high. Best: the share of resamples in which a format is best."
        )
    return text


def _methods(estimates: Iterable[Estimate]) -> str:
    """How the intervals were made; another note says if clusters are few."""
    with_ends = [estimate for estimate in estimates if estimate.low is not None]
    methods = [estimate.method.removesuffix(", few clusters") for estimate in with_ends]
    return " or ".join(dict.fromkeys(methods)) or "none"
