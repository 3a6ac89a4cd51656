"""A sweep in sentences, the most important first: what all cells show, or a few.

In: a ``Sweep``. Out: plain text. Names and slot values are data and go through ``visible``.
"""

from __future__ import annotations

from lm_eval.lab.compare.details import facts
from lm_eval.lab.compare.findings import findings, in_text
from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.show.phrases import MANY_FORMATS, chance, clipped, fair_words
from lm_eval.lab.sweep.sweep import FullSweep, PartialSweep, Plan, Sweep
from lm_eval.stats.components import SlotEffect
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.few_cells import CALIBRATED
from lm_eval.text.numbers import counted, interval, number, p_equals, percent
from lm_eval.text.terminal import visible

FEW_FOR_QUANTILES = 10
"""Up to this many formats are too few for quantiles or slots."""
CLEAR_BEST = 0.5
OTHER_AXES = {
    "wording": "These formats ask in different words, so this is not the effect of layout.",
    "shots": "What varies here is the few-shot examples, not the layout.",
    "reasoning": "What varies here is whether the model reasons first, not the layout.",
}


def title(sweep: Sweep) -> str:
    """``demo_mcq@mcqa: 50 formats (layout) × 40 items, 2,000 cells``."""
    plan = sweep.plan
    return (
        f"{visible(plan.name)}: {plan.num_formats} formats ({plan.formats.axis}) × {plan.num_items} "
        f"items, {_cells_asked(sweep)}"
    )


def sentences(sweep: Sweep) -> list[str]:
    """The sentences about a sweep, the most important first."""
    result = sweep.result
    if isinstance(result, FullSweep):
        words = _full_words(sweep, result)
    else:
        words = _partial_words(sweep, result)
    about = OTHER_AXES.get(sweep.plan.formats.axis, "")
    words = [*words, about, *sweep.notes, *paid(sweep)]
    return [sentence for sentence in words if sentence]


def _cells_asked(sweep: Sweep) -> str:
    plan = sweep.plan
    if sweep.cells >= plan.all_cells:
        return f"all {plan.all_cells:,} cells"
    share = percent(sweep.cells, plan.all_cells)
    return f"{sweep.cells:,} of {plan.all_cells:,} cells ({share})"


# All cells


def _full_words(sweep: Sweep, result: FullSweep) -> list[str]:
    """What a comparison with the base says, and what only many formats can tell."""
    compared = [
        *in_text(findings(result.comparison)),
        *(f"{detail.label}: {detail.text}." for detail in facts(result.comparison)),
        unread_words(sweep, "the differences"),
    ]
    count = sweep.plan.num_formats
    if result.spread.value == 0:
        return compared
    return [
        *compared,
        _extremes(sweep.plan, result) if count >= MANY_FORMATS else "",
        _middle(result) if count > FEW_FOR_QUANTILES else "",
        _mean(result),
        slot_words(result),
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


def slot_words(result: FullSweep) -> str:
    """Slots that go with the differences; empty unless the spread is significant."""
    if result.spread.p >= ALPHA:
        return ""
    clear = [effect for effect in result.slots if effect.adjusted < ALPHA]
    if clear:
        return f"What goes with the differences: {'; '.join(map(_slot, clear))}."
    if not result.slots or len(result.scores) <= FEW_FOR_QUANTILES:  # too few to find a slot with
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
        f"{p_equals(effect.adjusted)}; from {ends[0]} to {ends[1]})"
    )


# A few cells


def _partial_words(sweep: Sweep, result: PartialSweep) -> list[str]:
    estimated = result.distribution
    q = {
        percentage: f"{number(score.value, 2)}{ends(score)}"
        for percentage, score in estimated.quantiles.items()
    }
    reused = ", and what was asked is reused" if "answers" in sweep.files else ""
    fewest, most = min(result.seen), max(result.seen)
    per_format = counted(most, "item") if fewest == most else f"{fewest} to {counted(most, 'item')}"
    return [
        f"Estimated from {percent(estimated.cells, sweep.plan.all_cells)} of the cells ({per_format} "
        "for each format): the best format's score over all items lies "
        f"{number(estimated.spread.low, 2)} to {number(estimated.spread.high, 2)} above the worst's.",
        f"The median format scores {q[50]}; one in twenty scores below {q[5]}, one in twenty above "
        f"{q[95]}.",
        f"The mean over formats is {number(estimated.mean.value, 2)}{ends(estimated.mean)}; the plain "
        f"mean of the cells asked is {number(estimated.seen_mean, 2)}.",
        "Even formats that make no difference show some spread, by luck. Only the full sweep tests for "
        f"that: leave --budget out{reused}.",
        _how_sure(estimated.mean.method),
        *estimated.warnings,
        unread_words(sweep, "the spread"),
    ]


def _how_sure(method: str) -> str:
    """How far the intervals of an estimate can be trusted."""
    if method == CALIBRATED:
        return (
            "All of these are 95 % intervals of an estimate: on simulated formats and independent items "
            "they contain the truth that often."
        )
    return (
        "The intervals are approximate: so few formats or cells, or scores other than right or wrong, "
        "were not tried in simulations."
    )


# In every sweep


def paid(sweep: Sweep) -> list[str]:
    """How many cells have no answer, and how many answers were asked or reused."""
    words = []
    if sweep.missing:
        are = "is" if sweep.missing == 1 else "are"
        words.append(f"{counted(sweep.missing, 'cell')} got no answer and {are} not counted.")
    if sweep.reused or sweep.asked:
        words.append(
            f"Answers: {sweep.asked:,} asked of the model, {sweep.reused:,} reused from earlier "
            "commands."
        )
    return words


def name_of(plan: Plan, row: int) -> str:
    """A format's name, safe to show."""
    return visible(plan.formats[row].name)


def ends(estimate: Estimate) -> str:
    """The interval in brackets, after a space; empty if there is none."""
    text = interval(estimate)
    return f" {text}" if text else ""


def unread_words(sweep: Sweep, effect: str) -> str:
    """How many answers could not be read, if any; part of ``effect`` may be due to these."""
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
    name = name_of(sweep.plan, sweep.shares_read.index(min(shares)))
    return (
        f"Not read: under {name} {least} of the answers could be read (the most: "
        f"{chance(max(shares))}). Unread answers count as not right, so part of {effect} may come from "
        "keeping to the format, not from knowing."
    )
