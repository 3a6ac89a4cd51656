"""A sweep in plain words: how far the format moves the score, and how sure that is.

In: a ``Sweep``. Out: a title and sentences, the most important first. Names are data and go through
``visible``.
"""

from __future__ import annotations

from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.show.phrases import counted, p_words
from lm_eval.lab.sweep.full import FullSweep
from lm_eval.lab.sweep.full_words import full_words
from lm_eval.lab.sweep.phrases import ends, name_of, unread_words
from lm_eval.lab.sweep.search import FEW_FRESH, Extreme, SearchResult
from lm_eval.lab.sweep.sweep import PartialSweep, Plan, Sweep
from lm_eval.reports.table import number, percent
from lm_eval.stats.paired import Paired
from lm_eval.stats.partial.distribution import CALIBRATED
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
        words = full_words(sweep, result)
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
