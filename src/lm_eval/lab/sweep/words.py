"""Sentences about a sweep: what goes with the differences, what was not parsed, what was paid.

In: a ``Sweep``. Out: plain text. Names and slot values are data and go through ``visible``.
"""

from __future__ import annotations

from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.show.phrases import chance
from lm_eval.lab.sweep.sweep import FullSweep, Plan, Sweep
from lm_eval.stats.components import SlotEffect
from lm_eval.support.numbers import counted, number, p_equals
from lm_eval.support.terminal import visible

FEW_FORMATS = 10
"""Up to this many formats are too few to find a slot with."""
OTHER_AXES = {
    "wording": "These formats ask in different words, so this is not the effect of layout.",
    "shots": "What varies here is the few-shot examples, not the layout.",
    "reasoning": "What varies here is whether the model reasons first, not the layout.",
}


def slot_words(result: FullSweep) -> str:
    """Slots that go with the differences; empty unless the spread is significant."""
    if result.spread.p >= ALPHA:
        return ""
    clear = [effect for effect in result.slots if effect.adjusted < ALPHA]
    if clear:
        return f"What goes with the differences: {'; '.join(map(_slot, clear))}."
    if not result.slots or len(result.scores) <= FEW_FORMATS:  # too few to find a slot with
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
