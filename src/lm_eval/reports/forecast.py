"""What a run would cost → a table, with what in it is counted and what is guessed.

In: an ``Estimated`` for each task × format, and prices where some were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from lm_eval.answers.prices import Prices
from lm_eval.reports.costs import TOTAL, amount, cost_digits, count
from lm_eval.requests.values import Estimated, Usage
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

_MOVABLE = ("docs", "tokens_out")


@dataclass(frozen=True)
class Forecast:
    """What a task under a format would ask."""

    name: str
    num_docs: int
    estimated: Estimated


def print_forecasts(
    forecasts: Sequence[Forecast], console: Console, *, prices: Prices | None = None
) -> None:
    """Print the table, and how to read it."""
    console.print(forecast_table(forecasts, prices))
    console.print()
    for line in _note_lines(forecasts, prices):
        console.print(Paragraph("  ", line))


def forecast_table(forecasts: Sequence[Forecast], prices: Prices | None = None) -> FittingTable:
    """The table alone: ranges from the least to the most, ``≈`` where tokens are guessed."""
    total = _total(forecasts)
    digits = cost_digits(prices.cost(total.estimated.most).amount) if prices else 0
    rows = [_row(one, prices, digits) for one in forecasts]
    whole = [_row(total, prices, digits)] if len(rows) > 1 else []
    return FittingTable(_columns(prices), (rows, whole), _MOVABLE)


def _total(forecasts: Sequence[Forecast]) -> Forecast:
    counted = {one.estimated.counted_with for one in forecasts}
    return Forecast(
        TOTAL,
        sum(one.num_docs for one in forecasts),
        Estimated(
            least=Usage.total(one.estimated.least for one in forecasts),
            most=Usage.total(one.estimated.most for one in forecasts),
            counted_with=counted.pop() if len(counted) == 1 else None,
        ),
    )


def _row(one: Forecast, prices: Prices | None, digits: int) -> Cells:
    least, most = one.estimated.least, one.estimated.most
    about = "" if one.estimated.is_exact else "≈ "
    return Cells(
        name=visible(one.name),
        docs=count(one.num_docs),
        requests=_range(count(least.requests), count(most.requests)),
        tokens_in=about + _range(count(least.tokens_in), count(most.tokens_in)),
        tokens_out=f"≤ {count(most.tokens_out)}" if most.tokens_out else "0",
        cost=about + _cost(prices.cost(least).amount, prices.cost(most).amount, digits)
        if prices
        else "",
    )


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} – {high}"


def _cost(low: Fraction, high: Fraction, digits: int) -> str:
    return _range(amount(low, digits), amount(high, digits))


def _columns(prices: Prices | None) -> tuple[Column, ...]:
    return (
        Column("name", "Would ask", wraps=True, stays=True),
        Column("docs", "Docs", is_number=True, stays=True),
        Column("requests", "Requests", is_number=True, stays=True),
        Column("tokens_in", "Tokens in", is_number=True, stays=True),
        Column("tokens_out", "Tokens out", is_number=True, stays=True),
        Column("cost", prices.currency if prices else "", is_number=True),
    )


def _note_lines(forecasts: Sequence[Forecast], prices: Prices | None) -> list[str]:
    total = _total(forecasts).estimated
    tokenizers = {one.estimated.counted_with for one in forecasts}
    lines = ["Dry run: no request was sent and no file is written."]
    for name in sorted(name for name in tokenizers if name):
        lines.append(f"Tokens in are counted with the tokenizer {visible(name)}.")
    if None in tokenizers:
        lines.append("≈ Tokens in are guessed from the text: one for every 4 characters.")
    if total.most.tokens_out:
        lines.append("Tokens out are an upper bound: every reply as long as it may become.")
    if total.least.requests != total.most.requests:
        lines.append(
            "Requests: the first number where the server tells the log-probs of several next "
            "tokens or takes batches, the second where each choice needs a request of its own."
        )
    if prices:
        lines.append(f"Prices: entry {visible(prices.entry)!r}, {prices.currency}.")
    lines.append("Not included: retries, and savings by answers that are kept or cached.")
    return lines
