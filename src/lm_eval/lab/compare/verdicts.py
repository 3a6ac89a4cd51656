"""The differences of a comparison in plain words, by verdict, with what these items can detect.

In: a ``Comparison``. Out: a sentence for each verdict that occurs: which differences are real, which
unread answers may explain, which luck may explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lm_eval.lab.compare.values import (
    ALPHA,
    CONFOUNDED,
    INCONCLUSIVE,
    REAL,
    Comparison,
    Pair,
)
from lm_eval.lab.show.phrases import (
    NAMED,
    items,
    lead,
    p_words,
    read_in_both,
    read_share,
    round_up,
    size,
)
from lm_eval.stats.paired import Paired
from lm_eval.stats.power import can_find, items_needed, variance_of_difference
from lm_eval.text.numbers import percent
from lm_eval.text.terminal import visible


def verdict_sentences(comparison: Comparison) -> Iterator[str]:
    """What is real, confounded and inconclusive; an empty string if there is nothing to say."""
    yield _real(comparison)
    yield _confounded(comparison)
    yield _inconclusive(comparison)
    yield _hidden(comparison)


def _real(comparison: Comparison) -> str:
    pairs = comparison.pairs_called(REAL)
    if not pairs:
        return ""
    shown = "; ".join(
        f"{lead(comparison, pair)}{_though(comparison, pair)}" for pair in pairs[:NAMED]
    )
    more = f"; and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    noun = "difference" if len(pairs) == 1 else "differences"
    return f"Real {noun} ({_level(comparison)}): {shown}{more}."


def _though(comparison: Comparison, pair: Pair) -> str:
    """How unread answers bear on a real difference."""
    remaining = pair.remaining
    if remaining is None:
        return ""
    if pair.gap_read < 0:  # unread answers count against the better row
        first, second = (read_share(comparison.row(label)) for label in (pair.first, pair.second))
        return f", although fewer of its answers could be read ({first} against {second})"
    apart = size(comparison, abs(remaining.difference.value))
    return (
        f", and {apart} on the {_items_read(remaining)} {comparison.under} {visible(pair.second)}"
    )


def _items_read(result: Paired) -> str:
    return "one item read" if result.n == 1 else f"{result.n:,} items read"


def _level(comparison: Comparison) -> str:
    """What makes a difference count as real."""
    count = len(comparison.pairs)
    if count == 1:
        return f"too large for luck, {p_words(comparison.pairs[0].p_adjusted)}"
    if comparison.method != "holm":
        return "too large for luck, though up to 1 in 20 of such findings may be luck after all"
    return f"too large for luck, with all {count} comparisons allowed for"


def _confounded(comparison: Comparison) -> str:
    """Differences that are too large for luck, but not for unread answers."""
    pairs = comparison.pairs_called(CONFOUNDED)
    if not pairs:
        return ""
    shown = ". ".join(_confounded_of(comparison, pair) for pair in pairs[:NAMED])
    more = f". The same holds for {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    return (
        f"Confounded by unread answers: {shown}{more}. Unread answers count as not right, so such a "
        "difference may show how well answers keep to the format, not what the model knows."
    )


def _confounded_of(comparison: Comparison, pair: Pair) -> str:
    text = f"{lead(comparison, pair)}, but {_not_read(comparison, pair)}"
    both, p = pair.both_read, pair.p_both_read
    if both is None or p is None:
        return text
    apart = both.difference.value
    text += (
        f"; on the {read_in_both(comparison, both)}, the difference is {size(comparison, apart)} "
        f"({p_words(p)})"
    )
    if p >= ALPHA or pair.remaining is None:
        return text
    if apart < 0:
        return f"{text}, the other way round"
    left = size(comparison, pair.remaining.difference.value)
    return (
        f"{text}, but {left} if unread answers {comparison.under} {visible(pair.first)} are wrong"
    )


def _not_read(comparison: Comparison, pair: Pair) -> str:
    """``36 % of the answers under cot were not read (under generate, 2 %)``."""
    first, second = (comparison.row(label) for label in (pair.first, pair.second))
    where = f"of the answers {comparison.under} {visible(second.label)}"
    if second.num_read == 0:
        return f"none {where} could be read"
    text = f"{percent(second.num_unread, second.score.n)} {where} were not read"
    if not first.num_unread:
        return text
    share = percent(first.num_unread, first.score.n)
    return f"{text} ({comparison.under} {visible(first.label)}, {share})"


def _inconclusive(comparison: Comparison) -> str:
    """The differences that luck can explain, and how many items would show more."""
    pairs = comparison.pairs_called(INCONCLUSIVE)
    if not pairs:
        return ""
    fewest = fewest_units(comparison)
    if comparison.num_units < fewest:
        return _too_few(comparison, fewest)
    if len(pairs) == len(comparison.pairs) > 1:
        shown = f"all {len(pairs)} differences"
    elif len(pairs) < NAMED:
        shown = "; ".join(f"{lead(comparison, pair)}, {p_words(pair.p_adjusted)}" for pair in pairs)
    else:
        shown = f"the other {len(pairs)} differences"
    return f"Inconclusive, may be luck: {shown}. {_detectable(comparison, pairs)}".rstrip()


def _too_few(comparison: Comparison, fewest: int) -> str:
    unit = "clusters of items" if comparison.num_clusters else "items"
    tests = "" if len(comparison.pairs) == 1 else f" for {len(comparison.pairs)} comparisons"
    has_spread = (
        comparison.spread is not None and len(comparison.rows) > 2 and comparison.spread.p < ALPHA
    )
    text = (
        f"Too few {unit} to tell{' which of them differ' if has_spread else ''}: with "
        f"{comparison.num_units}, no difference between two could be told from luck, however large; "
        f"that takes at least {fewest}{tests}."
    )
    if not comparison.is_share or comparison.num_clusters:
        return text
    needed = round_up(items_needed(0.1, variance=variance_of_difference(0.5, 0.0)))
    return f"{text} To find a true difference of 0.10, plan {needed} items."


def fewest_units(comparison: Comparison) -> int:
    """The fewest items (or clusters) with which any difference can have a p below the level.

    Holm multiplies the smallest p by the number of comparisons.
    """
    tests = len(comparison.pairs) if comparison.method == "holm" else 1
    fewest = 1
    while not can_find(fewest, ALPHA / tests):
        fewest += 1
    return fewest


def _detectable(comparison: Comparison, pairs: Sequence[Pair]) -> str:
    """What these items can find between the two that vary most, and which two these are."""
    power = comparison.power(pairs)
    if power is None:
        return ""
    largest = size(comparison, power.detects)
    alone = ", were it the only comparison" if len(comparison.pairs) > 1 else ""
    text = (
        f"With {items(comparison)}, a true difference has to be about {largest} to be found in 4 of 5 "
        f"such runs{alone}"
    )
    if power.target is not None and power.items is not None:
        text += f"; one of {power.target:.2f} takes about {round_up(power.items):,} items"
    if len(pairs) == 1:
        return f"{text}."
    text += f". That is for {_names(power.hardest)}, the pair that varies most"
    least = size(comparison, power.least)
    if least == largest:
        return f"{text}."
    return f"{text}; for {_names(power.easiest)}, which vary least, {least} is enough."


def _names(pair: Pair) -> str:
    return f"{visible(pair.first)} and {visible(pair.second)}"


def _hidden(comparison: Comparison) -> str:
    """Differences among the answers that were read, if all answers together show none."""
    pairs = [
        pair
        for pair in comparison.pairs_called(INCONCLUSIVE)
        if pair.p_both_read is not None and pair.p_both_read < ALPHA
    ]
    if not pairs:
        return ""
    shown = "; ".join(_hidden_of(comparison, pair) for pair in pairs[:NAMED])
    return (
        f"Hidden by unread answers: {shown}. The unread answers may have been to the harder items, or "
        "the wrong ones."
    )


def _hidden_of(comparison: Comparison, pair: Pair) -> str:
    both_read = pair.both_read
    assert both_read is not None
    assert pair.p_both_read is not None
    value = (
        both_read.difference.value if comparison.higher_is_better else -both_read.difference.value
    )
    better, worse = (pair.first, pair.second) if value > 0 else (pair.second, pair.first)
    return (
        f"on the {read_in_both(comparison, both_read)}, {visible(better)} is "
        f"{size(comparison, abs(value))} better than {visible(worse)} ({p_words(pair.p_both_read)})"
    )
