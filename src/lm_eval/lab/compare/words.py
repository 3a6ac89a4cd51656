"""A comparison in plain words: what is real, what may be luck, what was not read, what the score is.

In: a ``Comparison``. Out: sentences for someone who has never run a test. Each makes sense alone and
begins with what it is about.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from lm_eval.lab.compare.values import (
    ADHERENCE,
    ALPHA,
    CHANCE,
    CHANCE_OR_ADHERENCE,
    REAL,
    Comparison,
    Pair,
)
from lm_eval.lab.show.phrases import (
    MANY_FORMATS,
    NAMED,
    clipped,
    ends,
    fair_words,
    items,
    joined,
    lead,
    p_words,
    read_in_both,
    read_share,
    round_up,
    scored,
    size,
    unread,
)
from lm_eval.stats.paired import MCNEMAR
from lm_eval.stats.power import can_find, items_needed, variance_of_difference
from lm_eval.text.terminal import visible

_TARGETS = (0.1, 0.05, 0.02, 0.01)


def title(comparison: Comparison) -> str:
    """What was compared: ``demo_mcq: 4 formats on the same 32 items, asked of dummy``."""
    shared = "asked of" if comparison.compares == "formats" else "under the format"
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
        found = [
            _overall(comparison),
            _real(comparison),
            _adherence(comparison),
            _chance(comparison),
            _chance_or_adherence(comparison),
            _hidden(comparison),
        ]
    else:
        found = [_no_difference(comparison)]
    found += [unread_words(comparison), score_words(comparison)]
    return [sentence for sentence in found if sentence]


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
    """Whether the formats differ at all: the spread against what luck alone would show."""
    spread = comparison.spread
    is_few = comparison.num_units < fewest_units(comparison)
    if spread is None or len(comparison.rows) == 2 or (is_few and spread.p >= ALPHA):
        return ""
    apart = (
        f"the best ({scored(comparison, comparison.best)}) and the worst "
        f"({scored(comparison, comparison.worst)}) are {size(comparison, spread.value)} apart"
    )
    luck = (
        f"{len(comparison.rows)} formats that make no difference at all would, on {items(comparison)}, "
        f"be about {size(comparison, spread.null_mean)} apart by luck, and up to "
        f"{size(comparison, spread.null_95)} in 19 cases of 20"
    )
    has_pairs = any(pair.is_significant for pair in comparison.pairs)
    if spread.p < ALPHA:
        is_clear = has_pairs or is_few  # of few items, that is said by itself
        unclear = "" if is_clear else " Which of them differ is not clear: no two stand out."
        return f"The format matters here: {apart}. {luck}.{_fair(comparison)}{unclear}"
    if has_pairs:
        return (
            f"Luck could explain how far apart the formats are: {apart}, and {luck}. Some differ:"
        )
    return (
        f"Nothing here shows that the format matters: {apart}, but {luck}. That does not prove "
        "that they are equal."
    )


def _fair(comparison: Comparison) -> str:
    """The spread of ends that other items picked: with many formats, picking them flatters."""
    half = comparison.spread.split_half if comparison.spread else None
    if half is None or len(comparison.rows) < MANY_FORMATS:
        return ""
    return " " + fair_words(half, size(comparison, abs(half)))


# Difference by difference


def _real(comparison: Comparison) -> str:
    pairs = _of(comparison, REAL)
    if not pairs:
        return ""
    shown = "; ".join(
        f"{lead(comparison, pair)}{_though(comparison, pair)}" for pair in pairs[:NAMED]
    )
    more = f"; and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    noun = "difference" if len(pairs) == 1 else "differences"
    return f"Real {noun} ({_level(comparison)}): {shown}{more}."


def _though(comparison: Comparison, pair: Pair) -> str:
    """Said where the better row has fewer answers read: unread ones cannot have made it better."""
    if pair.gap_read >= 0:
        return ""
    first, second = (read_share(comparison.row(label)) for label in (pair.first, pair.second))
    return f", although fewer of its answers could be read ({first} against {second})"


def _level(comparison: Comparison) -> str:
    """What makes a difference count as real."""
    count = len(comparison.pairs)
    if count == 1:
        return f"too large for luck, {p_words(comparison.pairs[0].p_adjusted)}"
    if comparison.method != "holm":
        return "too large for luck, though up to 1 in 20 of such findings may be luck after all"
    return f"too large for luck, with all {count} comparisons allowed for"


def _adherence(comparison: Comparison) -> str:
    """Real differences that unread answers alone can make."""
    pairs = _of(comparison, ADHERENCE)
    if not pairs:
        return ""
    shown = " ".join(_adherence_of(comparison, pair) for pair in pairs[:NAMED])
    more = f" The same holds for {len(pairs) - NAMED} more." if len(pairs) > NAMED else ""
    return (
        f"{shown}{more} Unread answers count as not right: such a difference shows how well answers "
        "keep to the format, not what the model knows."
    )


def _adherence_of(comparison: Comparison, pair: Pair) -> str:
    text = (
        f"{_explained(comparison, pair)}, {read_share(comparison.row(pair.first))} {comparison.under} "
        f"{visible(pair.first)}). {lead(comparison, pair)}"
    )
    if pair.both_read is None or pair.p_both_read is None:
        return f"{text}."
    apart = pair.both_read.difference.value
    also = ""
    if pair.p_both_read < ALPHA:
        also = " and real, too" if apart > 0 else " and real the other way round"
    return (
        f"{text}; on the {read_in_both(comparison, pair.both_read)}, the difference is "
        f"{size(comparison, apart)} ({p_words(pair.p_both_read)}){also}."
    )


def _explained(comparison: Comparison, pair: Pair) -> str:
    """``mcqa vs cot: explained by unread answers (34 % read under cot``, the bracket left open."""
    first, second = visible(pair.first), visible(pair.second)
    return (
        f"{first} vs {second}: explained by unread answers "
        f"({read_share(comparison.row(pair.second))} read {comparison.under} {second}"
    )


def _chance(comparison: Comparison) -> str:
    """The differences that luck can explain, and how many items it would take."""
    pairs = _of(comparison, CHANCE, CHANCE_OR_ADHERENCE)
    if not pairs:
        return ""
    fewest = fewest_units(comparison)
    if comparison.num_units < fewest:
        return _too_few(comparison, fewest)
    if len(pairs) == len(comparison.pairs) > 1:
        what = f"all {len(pairs)} differences"
    elif len(pairs) < NAMED:
        what = "; ".join(f"{lead(comparison, pair)}, {p_words(pair.p_adjusted)}" for pair in pairs)
    else:
        what = f"the other {len(pairs)} differences"
    return f"May be luck: {what}. {_detectable(comparison, pairs)}".rstrip()


def _chance_or_adherence(comparison: Comparison) -> str:
    """Differences that may be luck, and that unread answers explain if they are not."""
    pairs = _of(comparison, CHANCE_OR_ADHERENCE)
    shown = [f"{_explained(comparison, pair)}), if not by luck." for pair in pairs[:NAMED]]
    if len(pairs) > NAMED:
        shown.append(f"The same holds for {len(pairs) - NAMED} more.")
    return " ".join(shown)


def _too_few(comparison: Comparison, fewest: int) -> str:
    unit = "clusters of items" if comparison.num_clusters else "items"
    tests = "" if len(comparison.pairs) == 1 else f" for {len(comparison.pairs)} comparisons"
    found = (
        comparison.spread is not None and len(comparison.rows) > 2 and comparison.spread.p < ALPHA
    )
    text = (
        f"Too few {unit} to tell{' which of them differ' if found else ''}: with "
        f"{comparison.num_units}, no difference between two could be told from luck, however large; "
        f"that takes at least {fewest}{tests}."
    )
    if not comparison.is_share or comparison.num_clusters:
        return text
    needed = round_up(items_needed(0.1, variance=variance_of_difference(0.5, 0.0)))
    return f"{text} To find a true difference of 0.10, plan {needed} items."


def fewest_units(comparison: Comparison) -> int:
    """How many items (or clusters) it takes before any difference can have a p below the level.

    Holm multiplies the smallest p by the number of comparisons.
    """
    tests = len(comparison.pairs) if comparison.method == "holm" else 1
    fewest = 1
    while not can_find(fewest, ALPHA / tests):
        fewest += 1
    return fewest


def _detectable(comparison: Comparison, pairs: Sequence[Pair]) -> str:
    known = [pair.result.smallest_detectable for pair in pairs]
    found = [value for value in known if value is not None]
    if not found:
        return ""
    smallest = statistics.median(found)
    alone = ", were it the only comparison" if len(comparison.pairs) > 1 else ""
    text = (
        f"With {items(comparison)}, a true difference has to be about {size(comparison, smallest)} to "
        f"be found in 4 of 5 such runs{alone}"
    )
    target = next((value for value in _TARGETS if value < 0.9 * smallest), None)
    if not comparison.is_share or target is None:
        return f"{text}."
    needed = statistics.median(_needed(pair, target) for pair in pairs if any(pair.counts))
    return f"{text}; one of {target:.2f} takes about {round_up(needed):,} items."


def _needed(pair: Pair, target: float) -> float:
    """Items for a true difference, if items vary as these do."""
    found = pair.result
    if found.test == MCNEMAR:  # a difference takes as many discordant items as it is large
        variance = max(target, (found.wins + found.losses) / found.n)
    else:
        variance = found.n * (found.difference.stderr or 0.0) ** 2
    return items_needed(target, variance=variance)


def _hidden(comparison: Comparison) -> str:
    """Differences among the answers that were read, where all answers together show none."""
    pairs = [
        pair
        for pair in _of(comparison, CHANCE, CHANCE_OR_ADHERENCE)
        if pair.p_both_read is not None and pair.p_both_read < ALPHA
    ]
    if not pairs:
        return ""
    shown = "; ".join(_hidden_of(comparison, pair) for pair in pairs[:NAMED])
    return (
        f"Hidden by unread answers: {shown}. The items whose answers were not read may have been the "
        "harder ones."
    )


def _hidden_of(comparison: Comparison, pair: Pair) -> str:
    found = pair.both_read
    assert found is not None
    assert pair.p_both_read is not None
    value = found.difference.value if comparison.higher_is_better else -found.difference.value
    better, worse = (pair.first, pair.second) if value > 0 else (pair.second, pair.first)
    return (
        f"on the {read_in_both(comparison, found)}, {visible(better)} is "
        f"{size(comparison, abs(value))} better than {visible(worse)} ({p_words(pair.p_both_read)})"
    )


def _of(comparison: Comparison, *verdicts: str) -> list[Pair]:
    """The pairs with one of these verdicts, the largest difference first."""
    found = [pair for pair in comparison.pairs if pair.verdict in verdicts]
    return sorted(found, key=lambda pair: -abs(pair.result.difference.value))


WIDE = 0.8
"""An interval that covers so much of the scale says no more than that nothing is known."""
MOST_FORMATS = 50
"""Nobody runs more formats than these for the sake of one mean."""


def unread_words(comparison: Comparison) -> str:
    """How many answers were not read, and what they might have changed; empty where all were."""
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
            f". A score without a single answer read ({joined(nothing)}) says nothing about knowing"
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
        return f"{start}. Nothing in these {count} formats says that the choice of format adds to that."
    with_format, items_only = (
        size(comparison, error) for error in (parts.stderr_one_format, parts.stderr_items)
    )
    if with_format == items_only:
        return f"{start}. The choice of format adds hardly anything to that."
    text = (
        f"{start}. Including the choice of format, its typical error (standard error) is {with_format} "
        f"instead of {items_only}"
    )
    found = clipped(parts.one_format(row.score.value))
    if comparison.is_share and found.low is not None and found.high is not None:
        if found.high - found.low > WIDE:
            return f"{text}; {count} formats say too little about all others for an interval."
        text += f": between {ends(comparison, found)}"
    return f"{text}.{_formats_needed(comparison)}"


def _formats_needed(comparison: Comparison) -> str:
    parts = comparison.components
    if parts is None or not parts.stderr_items:
        return ""
    needed = parts.formats_needed(parts.stderr_items)
    if needed is None or not 2 <= needed <= MOST_FORMATS:
        return ""
    return f" The mean over {needed} such formats would be as sure as one format's score seems."
