"""A full sweep in plain words: whether the format matters, how sure that is, and which slots matter.

In: a ``Sweep`` of all cells. Out: sentences, the most important first.
"""

from __future__ import annotations

from lm_eval.lab.compare.pairs import TIE
from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.show.phrases import MANY_FORMATS, clipped, fair_words, p_words
from lm_eval.lab.sweep.full import FullSweep
from lm_eval.lab.sweep.phrases import between, ends, name_of, share, unread_words
from lm_eval.lab.sweep.sweep import Plan, Sweep
from lm_eval.reports.table import number
from lm_eval.stats.components import SlotEffect
from lm_eval.text.terminal import visible

CLEAR_BEST = 0.5
ALL_SHOWN = 10
"""Up to this many formats, all are in the table; too few for quantiles or slots."""


def full_words(sweep: Sweep, result: FullSweep) -> list[str]:
    """The sentences about a full sweep; those with nothing to say are empty."""
    if result.spread.value == 0:
        return [_all_equal(result), unread_words(sweep)]
    many = sweep.plan.num_formats
    return [
        _spread(sweep.plan, result),
        _adherence(sweep, result) or unread_words(sweep, "the spread"),
        _extremes(sweep.plan, result) if many >= MANY_FORMATS else "",
        _middle(result) if many > ALL_SHOWN else "",
        _including(sweep.plan, result),
        _differing(sweep.plan, result) if many > 2 else "",
        _slots(result),
    ]


def _all_equal(result: FullSweep) -> str:
    score = number(result.scores[0].value, 2)
    differ = max(0 if pair is None else pair.wins + pair.losses for pair in result.against_base)
    if not differ:
        return f"No difference: every format scores {score}, and the same on every item."
    return (
        f"Every format scores {score}, but not on the same items: up to {differ:,} of "
        f"{result.scores[0].n:,} come out differently than under the base format."
    )


def _spread(plan: Plan, result: FullSweep) -> str:
    spread = result.spread
    scores = [result.scores[row].value for row in (result.worst, result.best)]
    seen = (
        f"from {number(scores[0], 2)} ({name_of(plan, result.worst)}) to {number(scores[1], 2)} "
        f"({name_of(plan, result.best)}), a spread of {number(spread.value, 2)}"
    )
    luck = (
        f"Formats that make no difference would show about {number(spread.null_mean, 2)} by luck, and "
        f"up to {number(spread.null_95, 2)} in 19 cases of 20 ({p_words(spread.p)}, "
        f"{spread.null_method})"
    )
    if spread.p < ALPHA:
        return f"The format matters here: the score goes {seen}. {luck}."
    return (
        f"Nothing here shows that the format matters: the score goes {seen}, but that may be luck. "
        f"{luck}. That is no proof that they are equal."
    )


def _adherence(sweep: Sweep, result: FullSweep) -> str:
    """Said where a significant spread is no larger than the gap in answers read."""
    best, worst = (sweep.shares_read[row] for row in (result.best, result.worst))
    if best is None or worst is None or best - worst < result.spread.value - TIE:
        return ""
    if result.spread.p >= ALPHA or not (result.comparison.is_share and sweep.higher_is_better):
        return ""
    return (
        f"Format adherence, not ability: {share(best)} of the answers under "
        f"{name_of(sweep.plan, result.best)} could be read, {share(worst)} under "
        f"{name_of(sweep.plan, result.worst)}. Unread answers count as not right and are enough to make "
        "this spread."
    )


def _extremes(plan: Plan, result: FullSweep) -> str:
    parts = []
    for kind, row, shares in (
        ("best", result.best, result.p_best),
        ("worst", result.worst, result.p_worst),
    ):
        parts.append(f"{name_of(plan, row)} is the {kind} in {share(shares[row])} of resamples")
    text = f"How sure that is: {parts[0]}, {parts[1]}"
    if min(result.p_best[result.best], result.p_worst[result.worst]) < CLEAR_BEST:
        text += (
            "; others may well take their places on other items, so do not quote one as the best"
        )
    return f"{text}. {_fair(result)}".rstrip()


def _fair(result: FullSweep) -> str:
    """The spread with its ends picked on one half of the items and scored on the other."""
    half = result.spread.split_half
    if half is None:
        return ""
    return fair_words(half, number(abs(half), 2))


def _middle(result: FullSweep) -> str:
    q = {name: number(value, 2) for name, value in result.quantiles.items()}
    return (
        f"Half of the formats score between {q[25]} and {q[75]}, nine in ten between {q[5]} and "
        f"{q[95]}; the median is {q[50]}."
    )


def _including(plan: Plan, result: FullSweep) -> str:
    parts, base = result.comparison.components, result.scores[0]
    if parts is None:
        return ""
    mean, with_choice = parts.over_formats(), parts.one_format(base.value)
    if result.comparison.is_share:
        mean, with_choice = clipped(mean), clipped(with_choice)
    text = f"The mean over these formats is {number(mean.value, 2)}{ends(mean)}."
    if base.low is None or with_choice.low is None:
        return text
    on_top = f"with the choice of format on top {between(with_choice)}"
    if parts.var_format == 0:
        on_top = "and nothing in these formats says that their choice adds to that"
    return (
        f"{text} The base format {name_of(plan, 0)} scores {number(base.value, 2)}: the luck of the "
        f"items alone puts it {between(base)}, {on_top}."
    )


def _differing(plan: Plan, result: FullSweep) -> str:
    others = plan.num_formats - 1
    if not result.num_different:
        return (
            f"{'Neither' if others == 2 else 'None'} of the {others} other formats can be told from the "
            "base format one by one (adjusted after Benjamini and Hochberg)."
        )
    differ = "differs" if result.num_different == 1 else "differ"
    better = sum(
        pair is not None and p is not None and p < ALPHA and pair.difference.value > 0
        for pair, p in zip(result.against_base, result.adjusted, strict=True)
    )
    return (
        f"{result.num_different} of the {others} other formats {differ} from the base format, {better} "
        f"above it and {result.num_different - better} below. Of such findings, at most one in twenty "
        "is false on average (Benjamini and Hochberg)."
    )


def _slots(result: FullSweep) -> str:
    """Slots that go with the differences; empty unless the spread is significant."""
    if result.spread.p >= ALPHA:
        return ""
    clear = [effect for effect in result.slots if effect.adjusted < ALPHA]
    if clear:
        return f"What goes with the differences: {'; '.join(map(_slot, clear))}."
    if not result.slots or len(result.scores) <= ALL_SHOWN:  # too few to find a slot with
        return ""
    return (
        "No slot by itself explains the differences by more than luck, with "
        f"{len(result.slots)} slots allowed for."
    )


def _slot(effect: SlotEffect) -> str:
    names = list(effect.means)
    ends = [
        f"{visible(repr(name))} with {number(effect.means[name], 2)}"
        for name in (names[-1], names[0])
    ]
    return (
        f"{visible(effect.slot)} ({share(effect.explained)} of the variance between formats, "
        f"{p_words(effect.adjusted)}; from {ends[0]} to {ends[1]})"
    )
