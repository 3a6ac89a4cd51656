"""Parts of sentences about a sweep, and the sentence about answers that could not be read."""

from __future__ import annotations

from lm_eval.lab.sweep.sweep import Plan, Sweep
from lm_eval.reports.table import number, percent
from lm_eval.stats.estimates import Estimate
from lm_eval.text.terminal import visible


def name_of(plan: Plan, row: int) -> str:
    """A format's name, safe to show."""
    return visible(plan.formats[row].name)


def between(estimate: Estimate) -> str:
    """``between 0.10 and 0.38``; empty where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"between {number(estimate.low, 2)} and {number(estimate.high, 2)}"


def ends(estimate: Estimate) -> str:
    """The interval in brackets, after a space; empty where there is none."""
    text = between(estimate)
    return f" ({text})" if text else ""


def share(value: float) -> str:
    """``64 %``."""
    return percent(round(value * 1000), 1000)


def unread_words(sweep: Sweep, what: str = "") -> str:
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
    low = min(range(len(sweep.shares_read)), key=lambda row: _or_one(sweep.shares_read[row]))
    least = f"only {share(min(shares))}" if min(shares) else "none"
    so = f", so part of {what} may be keeping to the format, not knowing" if what else ""
    return (
        f"Not read: under {name_of(sweep.plan, low)} {least} of the answers could be read (the most: "
        f"{share(max(shares))}). Unread answers count as not right{so}."
    )


def _or_one(share: float | None) -> float:
    return 1.0 if share is None else share
