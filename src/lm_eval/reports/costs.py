"""What a run cost → a table below the scores, and a block of the results file.

In: ``TaskResult``s with their ``usage``, and prices where some were given. Results of one name (a task
with several filters) asked once and are counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from lm_eval.answers.prices import Prices
from lm_eval.requests.values import Usage
from lm_eval.scoring.results import TaskResult
from lm_eval.text.columns import Cells, Column, FittingTable
from lm_eval.text.terminal import visible

TOTAL = "total"
_MOVABLE = ("retries", "cached", "missing", "time")


def usage_of(results: Iterable[TaskResult]) -> dict[str, Usage]:
    """Name → what asking cost, for the results of which that was counted."""
    return {result.name: result.usage for result in results if result.usage is not None}


def cost_table(results: Sequence[TaskResult], prices: Prices | None = None) -> FittingTable | None:
    """The table of what each task × format cost; None where no request or token was counted."""
    usages = usage_of(results)
    if not any(one.requests or one.tokens_in or one.tokens_out for one in usages.values()):
        return None
    missing = {result.name: result.missing for result in results}
    total = Usage.total(usages.values())
    digits = cost_digits(prices.cost(total).amount) if prices else 0

    def row(name: str, usage: Usage, num_missing: int) -> Cells:
        return Cells(
            name=visible(name),
            requests=count(usage.requests),
            retries=count(usage.retries) if usage.retries else "",
            tokens_in=count(usage.tokens_in),
            cached=count(usage.tokens_cached) if usage.tokens_cached else "",
            tokens_out=count(usage.tokens_out),
            time=duration(usage.wall_s),
            missing=count(num_missing) if num_missing else "",
            cost=amount(prices.cost(usage).amount, digits) if prices else "",
        )

    rows = [row(name, usage, missing[name]) for name, usage in usages.items()]
    whole = [row(TOTAL, total, sum(missing[name] for name in usages))] if len(rows) > 1 else []
    return FittingTable(_columns(prices), (rows, whole), _MOVABLE)


def accounting(results: Sequence[TaskResult], prices: Prices | None = None) -> dict[str, Any]:
    """What each task × format and the whole run cost, for the results file; empty if not counted.

    Two runs of the same command may differ in this block, and nowhere else but in times.
    """
    usages = usage_of(results)
    if not usages:
        return {}
    tasks = {name: _entry(usage, prices) for name, usage in usages.items()}
    block = {"tasks": tasks, TOTAL: _entry(Usage.total(usages.values()), prices)}
    return {**block, "prices": prices.as_dict()} if prices else block


def _entry(usage: Usage, prices: Prices | None) -> Mapping[str, Any]:
    counts: dict[str, Any] = usage.as_dict()
    return {**counts, "cost": float(prices.cost(usage).amount)} if prices else counts


def _columns(prices: Prices | None) -> tuple[Column, ...]:
    return (
        Column("name", "Cost of", wraps=True, stays=True),
        Column("requests", "Requests", is_number=True, stays=True),
        Column("retries", "Retries", is_number=True),
        Column("missing", "Missing", is_number=True),
        Column("tokens_in", "Tokens in", is_number=True, stays=True),
        Column("cached", "Cached", is_number=True),
        Column("tokens_out", "Tokens out", is_number=True, stays=True),
        Column("time", "Time", is_number=True, stays=True),
        Column("cost", prices.currency if prices else "", is_number=True),
    )


def count(number: int) -> str:
    """``12,345``."""
    return f"{number:,}"


def tokens(tokens_in: int, tokens_out: int) -> str:
    """``12,345 + 678``: tokens in and out; empty where none were counted."""
    return f"{tokens_in:,} + {tokens_out:,}" if tokens_in or tokens_out else ""


def duration(seconds: float) -> str:
    """A time as people read it: ``0.4 s``, ``12 s``, ``4 min 05 s``, ``2 h 10 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {left:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def cost_digits(largest: Fraction) -> int:
    """How many decimal places tell costs up to ``largest`` apart."""
    return 2 if largest >= 100 else 4


def amount(cost: Fraction, digits: int) -> str:
    """A sum of money; what is too small for its places is not shown as nothing."""
    smallest = Fraction(1, 10**digits)
    if 0 < cost < smallest / 2:
        return f"< {float(smallest):.{digits}f}"
    return f"{float(cost):,.{digits}f}"
