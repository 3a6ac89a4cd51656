"""What the order of choices does to a task's answers: the numbers, as reports show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.stats.estimates import Estimate
from lm_eval.stats.positions import recall_spread

ACC_DEBIASED, ACC_OVER_ORDERS = "acc_debiased", "acc_over_orders"
"""The metrics that are made from the answers in several orders."""
Shares = tuple[float | None, ...]
"""One for each position; None where no choice is shown or right."""


@dataclass(frozen=True, kw_only=True)
class ChoiceOrder:
    """Position bias of one task under one format. Positions are those of the prompt, from the first."""

    mode: str
    """As ``--permute`` says it."""
    permuted: int
    """Docs that were asked in several orders."""
    asked_once: int
    """Docs that were asked in the order of the data and debiased by the prior (``pride``)."""
    left_in_place: Mapping[str, int]
    """Why docs stay in the order of the data → how many do."""
    asked: int
    """Orders of all docs together: what was asked instead of one for each doc."""
    is_vote: bool
    """Whether a doc's debiased answer is what most orders say (generated answers), not the mean."""
    labels: tuple[str, ...]
    """What the positions are called."""
    recall: Shares
    """Right ÷ docs whose gold is there, in the order of the data."""
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
    """Number of choices → how likely each position is, whatever choice is there."""
    ties: int
    """Debiased answers that are several choices at once: each of them is right in part."""
    unanswered: int
    """Docs without a debiased answer: no order was read (not right), or no prior is known (left out)."""

    @property
    def rstd(self) -> float | None:
        """How far recall differs by position, in points."""
        return recall_spread(self.recall)

    @property
    def rstd_debiased(self) -> float | None:
        return recall_spread(self.recall_debiased)

    @property
    def prior(self) -> Shares:
        """The prior of docs that have every position; empty where there is none."""
        return self.priors.get(len(self.labels), ())

    @property
    def cost(self) -> float:
        """How often a doc was asked, in the mean."""
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
