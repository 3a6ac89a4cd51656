"""The effect of the order of choices on a task's answers: the numbers, and a report for people.

``ChoiceOrder`` holds the numbers; ``print_orders`` prints a table of positions and sentences under it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.scoring.results import TaskResult
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.positions import recall_spread
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import counted, number, with_interval
from lm_eval.support.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console

ACC_DEBIASED, ACC_OVER_ORDERS = "acc_debiased", "acc_over_orders"
"""The metrics that are computed from the answers in several orders."""
Shares = tuple[float | None, ...]
"""One for each position; None if no choice is shown there, or none is right there."""


@dataclass(frozen=True, kw_only=True)
class ChoiceOrder:
    """Position bias of one task under one format. Positions are those of the prompt, from the first."""

    mode: str
    """The value of ``--permute``."""
    permuted: int
    """Docs that were asked in several orders."""
    asked_once: int
    """Docs that were asked in the order of the data and debiased by the prior (``pride``)."""
    left_in_place: Mapping[str, int]
    """Why docs stay in the order of the data → how many do."""
    asked: int
    """The number of orders asked, over all docs; without ``--permute``, one for each doc."""
    is_vote: bool
    """Whether a doc's debiased answer is the vote of its orders (generated answers), not the mean."""
    labels: tuple[str, ...]
    """The labels of the positions."""
    recall: Shares
    """Right ÷ docs whose gold is at the position, in the order of the data."""
    recall_debiased: Shares
    picked: Shares
    """Picked ÷ docs that have the position and an answer, in the order of the data."""
    picked_over_orders: Shares
    """The same over all orders of permuted docs, in which every choice is at every position."""
    moved: tuple[Estimate | None, ...]
    """The score of permuted docs if their gold were always shown there."""
    changed: Estimate | None
    """The share of permuted docs whose answer is not the same choice in every order."""
    priors: Mapping[int, tuple[float, ...]]
    """Number of choices → how likely each position is, whichever choice is there."""
    ties: int
    """Debiased answers that are several choices at once, which count as right in part."""
    unanswered: int
    """Docs without a debiased answer: nothing was read in any order (not right), or no prior is known
    (left out)."""

    @property
    def rstd(self) -> float | None:
        """How far recall differs by position, in points."""
        return recall_spread(self.recall)

    @property
    def rstd_debiased(self) -> float | None:
        return recall_spread(self.recall_debiased)

    @property
    def prior(self) -> Shares:
        """The prior of docs that have every position; empty if there is none."""
        return self.priors.get(len(self.labels), ())

    @property
    def cost(self) -> float:
        """How often a doc was asked, on average."""
        return self.asked / max(self.num_docs, 1)

    @property
    def num_docs(self) -> int:
        return self.permuted + self.asked_once + sum(self.left_in_place.values())

    def notes(self) -> list[str]:
        """What a reader of the scores should know about how docs were asked."""
        if not self.permuted:
            asked = f"--permute {self.mode} changed no order"
        else:
            docs = "1 doc" if self.permuted == 1 else f"{self.permuted} docs"
            asked = f"{docs} asked in several orders of their choices ({self.mode})"
        if self.asked_once:
            asked += f", {self.asked_once} once and debiased by the prior of the positions"
        left = [
            f"{count} in {'its' if count == 1 else 'their'} own order: {why}"
            for why, count in self.left_in_place.items()
        ]
        return ["; ".join([asked, *left])]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "mode": self.mode,
            "docs": {
                "permuted": self.permuted,
                "asked_once": self.asked_once,
                "left_in_place": dict(self.left_in_place),
            },
            "orders_per_doc": self.cost,
            "debiased_by": "vote" if self.is_vote else "log-probabilities",
            "positions": list(self.labels),
            "recall": list(self.recall),
            "recall_debiased": list(self.recall_debiased),
            "rstd": self.rstd,
            "rstd_debiased": self.rstd_debiased,
            "picked": list(self.picked),
            "picked_over_orders": list(self.picked_over_orders),
            "acc_if_gold_at": [None if acc is None else asdict(acc) for acc in self.moved],
            "answer_changes": None if self.changed is None else asdict(self.changed),
            "priors": {str(count): list(prior) for count, prior in self.priors.items()},
            "ties": self.ties,
            "unanswered": self.unanswered,
        }


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
    """Print the effect of the order of choices, for each result that was asked in several orders."""
    ordered = [
        (visible(result.name), result, result.choice_order)
        for result in results
        if result.choice_order is not None
    ]
    permuted = [_rows(name, order) for name, _, order in ordered if order.permuted]
    table = FittingTable(_COLUMNS, permuted, _MOVABLE)
    if table.rows:
        console.print()
        console.print(table)
        console.print()
    for name, result, order in ordered:
        console.print(Paragraph("  ", f"{name}: {_sentences(result, order)}"))


def _rows(name: str, order: ChoiceOrder) -> list[Cells]:
    return [
        Cells(
            name=f"{name} at {visible(label)}",
            task="" if position else name,
            position=visible(label),
            prior=_share(order.prior, position),
            picked=_share(order.picked_over_orders, position),
            recall=_share(order.recall, position),
            recall_debiased=_share(order.recall_debiased, position),
            moved=with_interval(order.moved[position]) if order.moved else "",
        )
        for position, label in enumerate(order.labels)
    ]


def _share(shares: Shares, position: int) -> str:
    """A share as ``0.25``; empty if the result has none, so that its column can be left out."""
    return number(shares[position]) if shares else ""


def _sentences(result: TaskResult, order: ChoiceOrder) -> str:
    if not order.permuted:
        return "nothing was asked in another order, so no bias of positions can be seen."
    return " ".join([*_scores(result), *_bias(order), *_exceptions(order)])


def _scores(result: TaskResult) -> list[str]:
    """The score in the order of the data, and those over several orders."""
    metrics = result.metrics
    parts = []
    if "acc" in metrics:
        parts.append(f"acc {number(metrics['acc'].value)} in the order of the data")
    for name, words in ((ACC_DEBIASED, "debiased"), (ACC_OVER_ORDERS, "in the mean of orders")):
        if name in metrics:
            parts.append(f"{with_interval(metrics[name])} {words}")
    return [f"{', '.join(parts)}."] if parts else []


def _bias(order: ChoiceOrder) -> list[str]:
    sentences = []
    if order.changed is not None:
        changed = order.changed
        sentences.append(
            f"The answer changes with the order in {round(changed.value * changed.n)} of {changed.n} "
            f"docs ({with_interval(changed)})."
        )
    if order.rstd is not None and order.rstd_debiased is not None:
        sentences.append(
            f"Recall differs by position with a standard deviation (RStd) of "
            f"{order.rstd:.1f} points, debiased {order.rstd_debiased:.1f}."
        )
    return sentences


def _exceptions(order: ChoiceOrder) -> list[str]:
    """What a reader of these numbers should know about exceptional docs."""
    sentences = []
    if len(order.priors) > 1:
        *fewer, highest = sorted(order.priors)
        counts = f"{', '.join(map(str, fewer))} or {highest}"
        most = f"that of docs with {len(order.labels)}" if order.prior else "in the results file"
        sentences.append(
            f"Docs have {counts} choices: Prior is {most}, and what is picked does not add up to 1."
        )
    if order.ties:
        kind = "votes" if order.is_vote else "choices"
        sentences.append(
            f"In {counted(order.ties, 'doc')} {kind} tie without the positions: they count as right in "
            "part."
        )
    if order.unanswered and order.is_vote:
        sentences.append(
            f"In {counted(order.unanswered, 'doc')} no order gave an answer that could be read."
        )
    elif order.unanswered:
        sentences.append(
            f"For {counted(order.unanswered, 'doc')} no prior is known: not in acc_debiased."
        )
    return sentences
