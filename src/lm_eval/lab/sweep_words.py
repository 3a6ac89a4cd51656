"""A sweep in plain words: how far the format moves the score, and how sure that is.

In: a ``Sweep``. Out: a title and sentences, the most important first. Names are data and go through
``visible``.
"""

from __future__ import annotations

from lm_eval.lab.pairing import TIE
from lm_eval.lab.phrases import clipped, p_words
from lm_eval.lab.sweep import Few, Plan, Sweep
from lm_eval.lab.sweep_search import FEW_FRESH, Extreme, Found
from lm_eval.lab.sweep_whole import LEVEL, Whole
from lm_eval.reports.table import number, percent
from lm_eval.reports.terminal import visible
from lm_eval.stats.few_cells import CALIBRATED
from lm_eval.stats.intervals import Estimate
from lm_eval.stats.paired import Paired
from lm_eval.stats.slots import SlotEffect

CLEAR_BEST = 0.5
_OTHER_AXES = {
    "wording": "These formats ask in different words, so this is not the effect of layout.",
    "shots": "What varies here is the few-shot examples, not the layout.",
    "reasoning": "What varies here is whether the model reasons first, not the layout.",
}


def title(sweep: Sweep) -> str:
    """``demo_mcq@mcqa: 50 formats (layout) × 40 items, 2,000 cells``."""
    plan = sweep.plan
    return (
        f"{visible(plan.name)}: {plan.num_formats} formats ({plan.formats.axis}) × {plan.num_items} "
        f"items, {_cells(sweep)}"
    )


def sentences(sweep: Sweep) -> list[str]:
    """What the sweep shows, the most important first."""
    result = sweep.result
    if isinstance(result, Whole):
        found = _whole(sweep, result)
    elif isinstance(result, Few):
        found = _few(sweep, result)
    else:
        found = _found(sweep, result)
    about = _OTHER_AXES.get(sweep.plan.formats.axis, "")
    found = [*found, about, _unread(sweep), *sweep.notes, *_paid(sweep)]
    return [sentence for sentence in found if sentence]


def _cells(sweep: Sweep) -> str:
    plan = sweep.plan
    if sweep.cells >= plan.all_cells:
        return f"all {plan.all_cells:,} cells"
    share = percent(sweep.cells, plan.all_cells)
    return f"{sweep.cells:,} of {plan.all_cells:,} cells ({share})"


def _name(plan: Plan, row: int) -> str:
    return visible(plan.formats[row].name)


def _between(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ""
    return f"between {number(found.low, 2)} and {number(found.high, 2)}"


def _ends(found: Estimate) -> str:
    text = _between(found)
    return f" ({text})" if text else ""


# All cells


def _whole(sweep: Sweep, result: Whole) -> list[str]:
    if result.spread.value == 0:
        return [_all_equal(result)]
    return [
        _spread(sweep.plan, result),
        _adherence(sweep, result),
        _extremes(sweep.plan, result),
        _middle(result),
        _including(sweep.plan, result),
        _differing(sweep.plan, result),
        _slots(result),
    ]


def _all_equal(result: Whole) -> str:
    score = number(result.scores[0].value, 2)
    differ = max(0 if pair is None else pair.wins + pair.losses for pair in result.against_base)
    if not differ:
        return f"No difference: every format scores {score}, and the same on every item."
    return (
        f"Every format scores {score}, but not on the same items: up to {differ:,} of "
        f"{result.scores[0].n:,} come out differently than under the base format."
    )


def _spread(plan: Plan, result: Whole) -> str:
    found = result.spread
    scores = [result.scores[row].value for row in (result.worst, result.best)]
    seen = (
        f"from {number(scores[0], 2)} ({_name(plan, result.worst)}) to {number(scores[1], 2)} "
        f"({_name(plan, result.best)}), a spread of {number(found.value, 2)}"
    )
    luck = (
        f"Formats that make no difference would show about {number(found.null_mean, 2)} by luck, and up "
        f"to {number(found.null_95, 2)} in 19 cases of 20 ({p_words(found.p)}, {found.null_method})"
    )
    if found.p < LEVEL:
        return f"The format matters here: the score goes {seen}. {luck}."
    return (
        f"Nothing here shows that the format matters: the score goes {seen}, but that may be luck. "
        f"{luck}. That is no proof that they are equal."
    )


def _adherence(sweep: Sweep, result: Whole) -> str:
    """Where unread answers alone could make a spread that is real, it says nothing about knowing."""
    best, worst = (sweep.shares_read[row] for row in (result.best, result.worst))
    if best is None or worst is None or best - worst < result.spread.value - TIE:
        return ""
    if result.spread.p >= LEVEL or not (result.is_share and sweep.higher_is_better):
        return ""
    return (
        f"Format adherence, not ability: {_share(best)} of the answers under "
        f"{_name(sweep.plan, result.best)} could be read, {_share(worst)} under "
        f"{_name(sweep.plan, result.worst)}. Unread answers count as not right and are enough to make "
        "this spread."
    )


def _extremes(plan: Plan, result: Whole) -> str:
    parts = []
    for kind, row, shares in (
        ("best", result.best, result.p_best),
        ("worst", result.worst, result.p_worst),
    ):
        parts.append(f"{_name(plan, row)} is the {kind} in {_share(shares[row])} of resamples")
    text = f"How sure that is: {parts[0]}, {parts[1]}"
    if min(result.p_best[result.best], result.p_worst[result.worst]) < CLEAR_BEST:
        text += (
            "; others may well take their places on other items, so do not quote one as the best"
        )
    return (
        f"{text}. Both were picked because they came out so, which flatters the best and wrongs the "
        "worst: --search scores what it picks on fresh items."
    )


def _middle(result: Whole) -> str:
    q = {name: number(value, 2) for name, value in result.quantiles.items()}
    return (
        f"Half of the formats score between {q[25]} and {q[75]}, nine in ten between {q[5]} and "
        f"{q[95]}; the median is {q[50]}."
    )


def _including(plan: Plan, result: Whole) -> str:
    parts, base = result.components, result.scores[0]
    mean, own = parts.over_formats(), parts.one_format(base.value)
    if result.is_share:
        mean, own = clipped(mean), clipped(own)
    text = f"The mean over these formats is {number(mean.value, 2)}{_ends(mean)}."
    if base.low is None or own.low is None:
        return text
    return (
        f"{text} The base format {_name(plan, 0)} scores {number(base.value, 2)}: the luck of the items "
        f"alone puts it {_between(base)}, with the choice of format on top {_between(own)}."
    )


def _differing(plan: Plan, result: Whole) -> str:
    others = plan.num_formats - 1
    if not result.num_different:
        return (
            f"None of the {others} other formats can be told from the base format one by one (adjusted "
            "after Benjamini and Hochberg)."
        )
    better = sum(
        pair is not None and p is not None and p < LEVEL and pair.difference.value > 0
        for pair, p in zip(result.against_base, result.adjusted, strict=True)
    )
    return (
        f"{result.num_different} of the {others} other formats differ from the base format, {better} "
        f"above it and {result.num_different - better} below; about one in twenty of these findings is "
        "false (Benjamini and Hochberg)."
    )


def _slots(result: Whole) -> str:
    """Asked only where there is something to explain: with many slots, one would often seem to."""
    if result.spread.p >= LEVEL:
        return ""
    clear = [one for one in result.slots if one.adjusted < LEVEL]
    if clear:
        return f"What goes with the differences: {'; '.join(map(_slot, clear))}."
    if not result.slots:
        return ""
    return (
        "No slot by itself explains the differences by more than luck, with "
        f"{len(result.slots)} slots allowed for."
    )


def _slot(one: SlotEffect) -> str:
    names = list(one.means)
    ends = [
        f"{visible(repr(name))} with {number(one.means[name], 2)}" for name in (names[-1], names[0])
    ]
    return (
        f"{visible(one.slot)} ({_share(one.explained)} of the variance between formats, "
        f"{p_words(one.adjusted)}; from {ends[0]} to {ends[1]})"
    )


def _share(value: float) -> str:
    return percent(round(value * 1000), 1000)


# A few cells


def _few(sweep: Sweep, result: Few) -> list[str]:
    found = result.distribution
    q = {name: f"{number(one.value, 2)}{_ends(one)}" for name, one in found.quantiles.items()}
    per_format = f"{min(result.seen)} to {max(result.seen)}"
    if min(result.seen) == max(result.seen):
        per_format = str(result.seen[0])
    return [
        f"Estimated from {percent(found.cells, sweep.plan.all_cells)} of the cells ({per_format} items "
        "for each format): the best format's score over all items lies about "
        f"{number(found.spread.value, 2)} above the worst's{_ends(found.spread)}.",
        f"The median format scores {q[50]}; one in twenty scores below {q[5]}, one in twenty above "
        f"{q[95]}.",
        f"The mean over formats is {number(found.mean.value, 2)}{_ends(found.mean)}; the plain mean of "
        f"the cells asked is {number(found.seen_mean, 2)}.",
        "Formats that make no difference show some spread, too, by luck. Only the full sweep tests for "
        "that: leave --budget out, and what was asked is reused.",
        _how_sure(found.mean.method),
        *found.warnings,
    ]


def _how_sure(method: str) -> str:
    """What the intervals of an estimate are worth."""
    if method == CALIBRATED:
        return (
            "All of these intervals are 95 % intervals of an estimate: on simulated formats and "
            "independent items they hold the truth that often."
        )
    return (
        "The intervals are approximate: so few formats or cells, or scores that are not right or wrong, "
        "are beyond what was tried in simulations."
    )


# A search


def _found(sweep: Sweep, result: Found) -> list[str]:
    plan = sweep.plan
    said = [_extreme(plan, one, result) for one in result.extremes]
    said.append(
        f"The base format {_name(plan, 0)} scores {number(result.base.value, 2)}{_ends(result.base)} on "
        f"the same {result.fresh_items} fresh items."
    )
    if result.apart is not None:
        said.append(
            f"Best minus worst on fresh items: {_difference(result.apart)}. That is a fair figure for "
            "how far the format moves the score, as neither was chosen on these items."
        )
    if result.fresh_items < FEW_FRESH:
        said.append(
            f"Only {result.fresh_items} items were left to score again what was found, so the intervals "
            "are wide. More items help, or a smaller --budget."
        )
    return said + _ran_out(result)


def _extreme(plan: Plan, one: Extreme, result: Found) -> str:
    choosing, fresh = one.search.while_choosing, one.fresh
    text = (
        f"The {one.kind} format found is {_name(plan, one.chosen)}: "
        f"{number(fresh.value, 2)}{_ends(fresh)} on {result.fresh_items} fresh items. While it was "
        f"chosen it scored {number(choosing.value, 2)} on {choosing.n} items, a figure that the choice "
        "itself distorts"
    )
    if one.against_base is None:
        return f"{text}. It is the base format itself."
    text += f". Against the base format on the fresh items: {_difference(one.against_base)}"
    if one.against_base.p >= LEVEL:
        text += ", so nothing shows yet that it differs from the base format"
    return f"{text}."


def _difference(pair: Paired) -> str:
    return f"{pair.difference.value:+.2f}{_ends(pair.difference)}, {p_words(pair.p)} by {pair.test}"


def _ran_out(result: Found) -> list[str]:
    said = []
    for one in result.extremes:
        if one.search.reason is not None:
            half = one.search.split_half
            fair = "" if half is None else f" Split in halves, it scores {number(half, 2)}."
            said.append(f"Search for the {one.kind}: {one.search.reason}{fair}")
    return said


# What all have


def _unread(sweep: Sweep) -> str:
    shares = [share for share in sweep.shares_read if share is not None]
    if not shares or min(shares) == 1:
        return ""
    if max(shares) == 0:
        return (
            "Nothing was read: no answer under any of these formats was in a form that could be read, "
            "so the scores say nothing about what the model knows. Look at the replies in the samples."
        )
    low = min(range(len(sweep.shares_read)), key=lambda row: _or_one(sweep.shares_read[row]))
    return (
        f"Not read: under {_name(sweep.plan, low)} only {_share(min(shares))} of the answers could be "
        f"read (the most: {_share(max(shares))}). Unread answers count as not right, so part of the "
        "spread may be keeping to the format, not knowing."
    )


def _or_one(share: float | None) -> float:
    return 1.0 if share is None else share


def _paid(sweep: Sweep) -> list[str]:
    said = []
    if sweep.missing:
        said.append(f"{sweep.missing:,} cells got no answer and count nowhere.")
    if sweep.reused or sweep.asked:
        said.append(
            f"Answers: {sweep.asked:,} asked of the model, {sweep.reused:,} reused from earlier "
            "commands."
        )
    return said
