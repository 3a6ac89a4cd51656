"""What a comparison says of its scores: how many answers were not read, and how sure a score is."""

from __future__ import annotations

from lm_eval.lab.compare.values import Comparison
from lm_eval.lab.show.phrases import NAMED, clipped, ends, items, joined, size, unread
from lm_eval.text.terminal import visible

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
