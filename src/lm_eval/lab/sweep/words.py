"""A sweep in plain words: how far the format moves the score, and how sure that is.

In: a ``Sweep``. Out: a title and sentences, the most important first. Names are data and go through
``visible``.
"""

from __future__ import annotations

from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.compare.words import sentences as comparison_sentences
from lm_eval.lab.show.phrases import MANY_FORMATS, chance, clipped, counted, fair_words, p_words
from lm_eval.lab.sweep.search import FEW_FRESH, Extreme, SearchResult
from lm_eval.lab.sweep.sweep import FullSweep, PartialSweep, Plan, Sweep
from lm_eval.stats.components import SlotEffect
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.paired import Paired
from lm_eval.stats.partial.distribution import CALIBRATED
from lm_eval.text.numbers import number, percent
from lm_eval.text.terminal import visible

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
    """The sentences about a sweep, the most important first."""
    result = sweep.result
    if isinstance(result, FullSweep):
        words = _full_words(sweep, result)
    elif isinstance(result, PartialSweep):
        words = _partial_words(sweep, result)
    else:
        words = _search_words(sweep, result)
    about = _OTHER_AXES.get(sweep.plan.formats.axis, "")
    words = [*words, about, *sweep.notes, *_paid(sweep)]
    return [sentence for sentence in words if sentence]


def _cells(sweep: Sweep) -> str:
    plan = sweep.plan
    if sweep.cells >= plan.all_cells:
        return f"all {plan.all_cells:,} cells"
    share = percent(sweep.cells, plan.all_cells)
    return f"{sweep.cells:,} of {plan.all_cells:,} cells ({share})"


# A few cells


def _partial_words(sweep: Sweep, result: PartialSweep) -> list[str]:
    estimated = result.distribution
    q = {
        percentage: f"{number(score.value, 2)}{ends(score)}"
        for percentage, score in estimated.quantiles.items()
    }
    reused = ", and what was asked is reused" if "answers" in sweep.files else ""
    per_format = f"{min(result.seen)} to {max(result.seen)}"
    if min(result.seen) == max(result.seen):
        per_format = f"{result.seen[0]:,}"
    per_format += " item" if max(result.seen) == 1 else " items"
    return [
        f"Estimated from {percent(estimated.cells, sweep.plan.all_cells)} of the cells ({per_format} "
        "for each format): the best format's score over all items lies about "
        f"{number(estimated.spread.value, 2)} above the worst's{ends(estimated.spread)}.",
        f"The median format scores {q[50]}; one in twenty scores below {q[5]}, one in twenty above "
        f"{q[95]}.",
        f"The mean over formats is {number(estimated.mean.value, 2)}{ends(estimated.mean)}; the plain "
        f"mean of the cells asked is {number(estimated.seen_mean, 2)}.",
        "Formats that make no difference show some spread, too, by luck. Only the full sweep tests for "
        f"that: leave --budget out{reused}.",
        _how_sure(estimated.mean.method),
        *estimated.warnings,
        unread_words(sweep, "the spread"),
    ]


def _how_sure(method: str) -> str:
    """How far the intervals of an estimate can be trusted."""
    if method == CALIBRATED:
        return (
            "All of these intervals are 95 % intervals of an estimate: on simulated formats and "
            "independent items they hold the truth that often, that of the spread a little less often "
            "where single formats stand far from all others."
        )
    return (
        "The intervals are approximate: so few formats or cells, or scores that are not right or wrong, "
        "are beyond what was tried in simulations."
    )


# A search


def _search_words(sweep: Sweep, result: SearchResult) -> list[str]:
    plan = sweep.plan
    said = [_extreme(plan, extreme, result) for extreme in result.extremes]
    said.append(
        f"The base format {name_of(plan, 0)} scores {number(result.base.value, 2)}"
        f"{ends(result.base)} on the same {_fresh_items(result).removeprefix('1 ')}."
    )
    if result.apart is not None:
        said.append(
            f"Best minus worst on fresh items: {_difference(result.apart)}. That is a fair figure for "
            "how far the format moves the score, as neither was chosen on these items."
        )
    if result.fresh_items < FEW_FRESH:
        said.append(
            f"So few fresh items ({result.fresh_items}) make for wide intervals. More items help, or a "
            "smaller --budget."
        )
    return [*said, *_ran_out(result), unread_words(sweep, "a difference")]


def _extreme(plan: Plan, extreme: Extreme, result: SearchResult) -> str:
    choosing, fresh = extreme.search.while_choosing, extreme.fresh
    text = (
        f"The {extreme.kind} format that {extreme.search.method} found is "
        f"{name_of(plan, extreme.chosen)}: {number(fresh.value, 2)}{ends(fresh)} on "
        f"{_fresh_items(result)}. While it was chosen it "
        f"scored {number(choosing.value, 2)} on {counted(choosing.n, 'item')}, a figure that the choice "
        "itself distorts"
    )
    if extreme.against_base is None:
        return f"{text}. It is the base format itself."
    text += f". Against the base format on the fresh items: {_difference(extreme.against_base)}"
    if extreme.against_base.p >= ALPHA:
        text += ", so nothing shows yet that it differs from the base format"
    return f"{text}."


def _difference(pair: Paired) -> str:
    return f"{pair.difference.value:+.2f}{ends(pair.difference)}, {p_words(pair.p)} by {pair.test}"


def _ran_out(result: SearchResult) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for extreme in result.extremes:
        if extreme.search.reason is not None:
            reasons.setdefault(extreme.search.reason, []).append(extreme.kind)
    return [
        f"In the search for the {' and in that for the '.join(kinds)}, {reason}."
        for reason, kinds in reasons.items()
    ]


def _fresh_items(result: SearchResult) -> str:
    return counted(result.fresh_items, "fresh item")


# What all have


def _paid(sweep: Sweep) -> list[str]:
    said = []
    if sweep.missing:
        count = "counts" if sweep.missing == 1 else "count"
        said.append(f"{counted(sweep.missing, 'cell')} got no answer and {count} nowhere.")
    if sweep.reused or sweep.asked:
        said.append(
            f"Answers: {sweep.asked:,} asked of the model, {sweep.reused:,} reused from earlier "
            "commands."
        )
    return said


def name_of(plan: Plan, row: int) -> str:
    """A format's name, safe to show."""
    return visible(plan.formats[row].name)


def ends(estimate: Estimate) -> str:
    """The interval in brackets, after a space; empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" (between {number(estimate.low, 2)} and {number(estimate.high, 2)})"


def unread_words(sweep: Sweep, what: str) -> str:
    """How many answers could not be read, if any; part of ``what`` may be due to these."""
    shares = [value for value in sweep.shares_read if value is not None]
    if not shares or min(shares) == 1:
        return ""
    if max(shares) == 0:
        where = (
            "in the samples" if "results" in sweep.files else "with --output_path, in the samples"
        )
        return (
            "Nothing was read: no answer under any of these formats was in a form that could be read, "
            f"so the scores say nothing about what the model knows. Look at the replies {where}."
        )
    least = f"only {chance(min(shares))}" if min(shares) else "none"
    return (
        f"Not read: under {name_of(sweep.plan, sweep.shares_read.index(min(shares)))} {least} of the "
        f"answers could be read (the most: {chance(max(shares))}). Unread answers count as not right, "
        f"so part of {what} may come from keeping to the format, not from knowing."
    )


CLEAR_BEST = 0.5
ALL_SHOWN = 10
"""Up to this many formats, all are in the table; too few for quantiles or slots."""


# All cells


def _full_words(sweep: Sweep, result: FullSweep) -> list[str]:
    """What a comparison with the base says, and what only many formats can tell."""
    said = comparison_sentences(result.comparison)
    many = sweep.plan.num_formats
    if result.spread.value == 0:
        return said
    return [
        *said,
        _extremes(sweep.plan, result) if many >= MANY_FORMATS else "",
        _middle(result) if many > ALL_SHOWN else "",
        _mean(result),
        _slots(result),
    ]


def _extremes(plan: Plan, result: FullSweep) -> str:
    best, worst = result.best, result.worst
    p_best, p_worst = result.p_best[best], result.p_worst[worst]
    text = (
        f"How sure the extremes are: {name_of(plan, best)} is the best in {chance(p_best)} of "
        f"resamples, {name_of(plan, worst)} the worst in {chance(p_worst)}"
    )
    if min(p_best, p_worst) < CLEAR_BEST:
        text += "; on other items, others may be, so do not quote one as the best"
    half, is_said = result.spread.split_half, result.spread.p < ALPHA
    if half is None or is_said:
        return f"{text}."
    return f"{text}. {fair_words(half, number(abs(half), 2))}"


def _middle(result: FullSweep) -> str:
    q = {name: number(value, 2) for name, value in result.quantiles.items()}
    return (
        f"Half of the formats score between {q[25]} and {q[75]}, nine in ten between {q[5]} and "
        f"{q[95]}; the median is {q[50]}."
    )


def _mean(result: FullSweep) -> str:
    if result.components is None:
        return ""
    mean = result.components.over_formats()
    mean = clipped(mean) if result.comparison.is_share else mean
    return f"The mean over these formats is {number(mean.value, 2)}{ends(mean)}."


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
        f"{visible(effect.slot)} ({chance(effect.explained)} of the variance between formats, "
        f"{p_words(effect.adjusted)}; from {ends[0]} to {ends[1]})"
    )
