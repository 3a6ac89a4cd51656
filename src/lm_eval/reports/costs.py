"""What a run cost, or would cost: tables for people, and the ``accounting`` of the results file.

In: ``TaskResult``s with their ``usage``, or ``Forecast``s for a dry run, and prices if given. Names are
data: they go through ``visible`` and are never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.requests.values import Estimated, Usage
from lm_eval.scoring.results import TaskResult
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import amount, cost_digits, count, duration, short_time
from lm_eval.support.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console

    from lm_eval.answers.prices import Prices

TOTAL = "total"
_COSTS_MOVABLE = ("retries", "cached", "missing", "time")


def print_costs(
    results: Sequence[TaskResult], console: Console, prices: Prices | None = None
) -> None:
    """Print what asking cost, if anything was counted."""
    costs = cost_table(results, prices)
    if costs is not None:
        console.print()
        console.print(costs)


def usage_of(results: Iterable[TaskResult]) -> dict[str, Usage]:
    """Name → what asking cost, for the results that counted it."""
    return {result.name: result.usage for result in results if result.usage is not None}


def cost_table(results: Sequence[TaskResult], prices: Prices | None = None) -> FittingTable | None:
    """The table of what each task × format cost; None if no request or token was counted."""
    usages = usage_of(results)
    if not any(used.requests or used.tokens_in or used.tokens_out for used in usages.values()):
        return None
    missing = {result.name: result.missing for result in results}
    total = Usage.total(usages.values())
    digits = cost_digits(prices.cost(total)) if prices else 0

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
            cost=amount(prices.cost(usage), digits) if prices else "",
        )

    rows = [row(name, usage, missing[name]) for name, usage in usages.items()]
    total_row = [row(TOTAL, total, sum(missing[name] for name in usages))] if len(rows) > 1 else []
    return FittingTable(_cost_columns(prices), (rows, total_row), _COSTS_MOVABLE)


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
    return {**counts, "cost": float(prices.cost(usage))} if prices else counts


def _cost_columns(prices: Prices | None) -> tuple[Column, ...]:
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


# What a run would cost


_FORECAST_MOVABLE = ("docs", "tokens_out")


@dataclass(frozen=True)
class Forecast:
    """What a task under a format would ask."""

    name: str
    num_docs: int
    estimated: Estimated
    seconds: tuple[float, float] | None = None
    """How long it takes, from the least to the most; None if the model's speed is not known."""


def print_forecasts(
    forecasts: Sequence[Forecast], console: Console, *, prices: Prices | None = None
) -> None:
    """Print the table, and how to read it."""
    console.print(forecast_table(forecasts, prices))
    console.print()
    for line in _forecast_notes(forecasts, prices):
        console.print(Paragraph("  ", line))


def forecast_table(forecasts: Sequence[Forecast], prices: Prices | None = None) -> FittingTable:
    """The table alone: ranges from the least to the most, ``≈`` if tokens are guessed."""
    num_docs = sum(forecast.num_docs for forecast in forecasts)
    total = Forecast(TOTAL, num_docs, total_estimate(forecasts), _total_seconds(forecasts))
    digits = cost_digits(prices.cost(total.estimated.most)) if prices else 0
    rows = [_forecast_row(forecast, prices, digits) for forecast in forecasts]
    total_row = [_forecast_row(total, prices, digits)] if len(rows) > 1 else []
    return FittingTable(_forecast_columns(prices), (rows, total_row), _FORECAST_MOVABLE)


def _total_seconds(forecasts: Sequence[Forecast]) -> tuple[float, float] | None:
    known = [forecast.seconds for forecast in forecasts if forecast.seconds is not None]
    if len(known) < len(forecasts) or not known:
        return None
    return sum(least for least, _ in known), sum(most for _, most in known)


def total_estimate(forecasts: Sequence[Forecast]) -> Estimated:
    """What all of them would ask together."""
    tokenizers = {forecast.estimated.counted_with for forecast in forecasts}
    return Estimated(
        least=Usage.total(forecast.estimated.least for forecast in forecasts),
        most=Usage.total(forecast.estimated.most for forecast in forecasts),
        counted_with=tokenizers.pop() if len(tokenizers) == 1 else None,
    )


def _forecast_row(forecast: Forecast, prices: Prices | None, digits: int) -> Cells:
    least, most = forecast.estimated.least, forecast.estimated.most
    about = "" if forecast.estimated.is_exact else "≈ "
    return Cells(
        name=visible(forecast.name),
        docs=count(forecast.num_docs),
        requests=_range(count(least.requests), count(most.requests)),
        tokens_in=about + _range(count(least.tokens_in), count(most.tokens_in)),
        tokens_out=f"≤ {count(most.tokens_out)}" if most.tokens_out else "0",
        time=""
        if forecast.seconds is None
        else f"≈ {_range(*(short_time(seconds) for seconds in forecast.seconds))}",
        cost=about + _cost(prices, least, most, digits) if prices else "",
    )


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} – {high}"


def _cost(prices: Prices, least: Usage, most: Usage, digits: int) -> str:
    return _range(amount(prices.cost(least), digits), amount(prices.cost(most), digits))


def _forecast_columns(prices: Prices | None) -> tuple[Column, ...]:
    return (
        Column("name", "Would ask", wraps=True, stays=True),
        Column("docs", "Docs", is_number=True, stays=True),
        Column("requests", "Requests", is_number=True, stays=True),
        Column("tokens_in", "Tokens in", is_number=True, stays=True),
        Column("tokens_out", "Tokens out", is_number=True, stays=True),
        Column("time", "Time", is_number=True),
        Column("cost", prices.currency if prices else "", is_number=True),
    )


def _forecast_notes(forecasts: Sequence[Forecast], prices: Prices | None) -> list[str]:
    total = total_estimate(forecasts)
    tokenizers = {forecast.estimated.counted_with for forecast in forecasts}
    lines = ["Dry run: no request is sent and no file is written."]
    for name in sorted(name for name in tokenizers if name):
        lines.append(f"Tokens in are counted with the tokenizer {visible(name)}.")
    if None in tokenizers:
        lines.append("≈ Tokens in are guessed from the text: one for every 4 characters.")
    if total.most.tokens_out:
        lines.append("Tokens out are an upper bound: each reply at its limit or the window's.")
    if total.least.requests != total.most.requests:
        lines.append(
            "Requests: the first number if the server returns the log-probs of several next "
            "tokens or accepts batches, the second if each choice needs a request of its own."
        )
    if any(forecast.seconds is not None for forecast in forecasts):
        lines.append(
            "Time: at the speed of the last run of this model here; replies as long as they were "
            "then, or as long as they may be."
        )
    if prices:
        lines.append(f"Prices: entry {visible(prices.entry)!r}, {prices.currency}.")
    lines.append("Not included: retries, and savings from stored or cached answers.")
    return lines
