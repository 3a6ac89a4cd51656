"""What the order of choices does, for people: a table of positions, and sentences under it.

In: ``TaskResult``s. Out: a Rich table and paragraphs; nothing where docs were asked in one order only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_eval.orders.results import ChoiceOrder, Shares
from lm_eval.scoring.results import TaskResult
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.numbers import number, with_interval
from lm_eval.text.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (
    Column("task", "Choice order", wraps=True, stays=True),
    Column("position", "At", stays=True),
    Column("prior", "Prior", is_number=True),
    Column("picked", "Picked", is_number=True),
    Column("recall", "Recall", is_number=True),
    Column("recall_debiased", "Debiased", is_number=True),
    Column("moved", "Acc, gold here", is_number=True),
)
_MOVABLE = ("recall_debiased", "recall", "picked")


def print_orders(results: Sequence[TaskResult], console: Console) -> None:
    """Print what the order of choices does, for each result that was asked in several orders."""
    found = _ordered(results)
    if not found:
        return
    table = _table(found)
    if table.rows:
        console.print()
        console.print(table)
        console.print()
    for name, result, order in found:
        console.print(Paragraph("  ", f"{name}: {_sentences(result, order)}"))


_Ordered = tuple[str, TaskResult, ChoiceOrder]


def _ordered(results: Sequence[TaskResult]) -> list[_Ordered]:
    return [
        (visible(result.name), result, result.choice_order)
        for result in results
        if result.choice_order is not None
    ]


def _table(found: Sequence[_Ordered]) -> FittingTable:
    asked = [_rows(name, order) for name, _, order in found if order.permuted]
    return FittingTable(_COLUMNS, asked, _MOVABLE)


def _rows(name: str, order: ChoiceOrder) -> list[Cells]:
    return [
        Cells(
            name=f"{name} at {visible(label)}",
            task="" if place else name,
            position=visible(label),
            prior=_share(order.prior, place),
            picked=_share(order.picked_over_orders, place),
            recall=_share(order.recall, place),
            recall_debiased=_share(order.recall_debiased, place),
            moved=with_interval(order.moved[place]) if order.moved else "",
        )
        for place, label in enumerate(order.labels)
    ]


def _share(shares: Shares, place: int) -> str:
    """A share as ``0.25``; empty where the result has none, so that its column can go."""
    if not shares:
        return ""
    return number(shares[place])


def _sentences(result: TaskResult, order: ChoiceOrder) -> str:
    if not order.permuted:
        return "nothing was asked in another order, so no bias of positions can be seen."
    return " ".join([*_scores(result), *_bias(order), *_exceptions(order)])


def _scores(result: TaskResult) -> list[str]:
    """The score of the order given and those beside it."""
    metrics = result.metrics
    said = []
    if "acc" in metrics:
        said.append(f"acc {number(metrics['acc'].value)} in the order of the data")
    for name, words in (("acc_debiased", "debiased"), ("acc_over_orders", "in the mean of orders")):
        if name in metrics:
            said.append(f"{with_interval(metrics[name])} {words}")
    return [f"{', '.join(said)}."] if said else []


def _bias(order: ChoiceOrder) -> list[str]:
    said = []
    if order.changed is not None:
        changed = order.changed
        said.append(
            f"The answer changes with the order in {round(changed.value * changed.n)} of {changed.n} "
            f"docs ({with_interval(changed)})."
        )
    if order.rstd is not None and order.rstd_debiased is not None:
        said.append(
            f"Recall differs by position with a standard deviation (RStd) of "
            f"{order.rstd:.1f} points, debiased {order.rstd_debiased:.1f}."
        )
    return said


def _exceptions(order: ChoiceOrder) -> list[str]:
    """What a reader of these numbers should know about docs that are unlike the others."""
    said = []
    if len(order.priors) > 1:
        *fewer, highest = sorted(order.priors)
        counts = f"{', '.join(map(str, fewer))} or {highest}"
        most = f"that of docs with {len(order.labels)}" if order.prior else "in the results file"
        said.append(
            f"Docs have {counts} choices: Prior is {most}, and what is picked does not add up to 1."
        )
    if order.ties:
        kind = "votes" if order.is_vote else "choices"
        said.append(
            f"In {_docs(order.ties)} {kind} tie without the positions: they count as right in part."
        )
    if order.unanswered and order.is_vote:
        said.append(f"In {_docs(order.unanswered)} no order gave an answer that could be read.")
    elif order.unanswered:
        said.append(f"For {_docs(order.unanswered)} no prior is known: not in acc_debiased.")
    return said


def _docs(count: int) -> str:
    return "1 doc" if count == 1 else f"{count} docs"
