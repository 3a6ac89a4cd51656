"""A comparison in plain words: what is real, what may be luck, what was not read, what the score is.

In: a ``Comparison``. Out: sentences for someone who has never run a statistical test; each makes sense
alone and begins with its topic.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    scored,
    size,
    unread,
)
from lm_eval.lab.stored.measurement import CHOICES_HIDDEN, CHOICES_SCORED, CHOICES_SHOWN
from lm_eval.text.numbers import joined, listed, number, percent
from lm_eval.text.terminal import visible

SMALL_N = 300
"""Below this many items, the probability that one row is truly better is shown as well."""


def title(comparison: Comparison) -> str:
    """What was compared: ``demo_mcq · 32 items · 4 formats · dummy``."""
    tasks = f" of {len(comparison.members)} tasks" if comparison.members else ""
    compared = f"{len(comparison.rows)} {comparison.compares}"
    return " · ".join(
        [
            visible(comparison.task),
            f"{items(comparison)}{tasks}",
            compared,
            visible(comparison.within),
        ]
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
    return listed([*names[:NAMED], f"{more} more"] if more > 0 else names)


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


def formats_needed(comparison: Comparison) -> int | None:
    """How many formats make a mean as sure as the items allow; None if unknown or too many."""
    parts = comparison.components
    if parts is None or not parts.stderr_items:
        return None
    needed = parts.formats_needed(parts.stderr_items)
    return None if needed is None or not 2 <= needed <= MOST_FORMATS else needed


def _formats_needed(comparison: Comparison) -> str:
    needed = formats_needed(comparison)
    if needed is None:
        return ""
    return (
        f" The mean over {needed} such {comparison.compares} would be as sure as one "
        f"{comparison.kind}'s score seems."
    )
