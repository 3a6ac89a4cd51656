"""The results of a comparison as values: a ``Comparison`` for each set of rows on the same items.

The rows of a comparison are the formats of one model, its conditions where the number of shots differs
too (``mcqa, 5-shot``), or the models under one format.
``statistics`` makes these values; ``words`` and ``tables`` show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.lab.stored.measurement import CHOICES_HIDDEN, CHOICES_SCORED, CHOICES_SHOWN
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.paired import MCNEMAR, Paired
from lm_eval.stats.power import items_needed
from lm_eval.support.encode import AsDict

if TYPE_CHECKING:
    from lm_eval.stats.components import Components
    from lm_eval.stats.multiplicity import CochranQ
    from lm_eval.stats.ranks import RankStability
    from lm_eval.stats.spread import Spread

ALPHA = 0.05
"""The level of every test: p-values below it, adjusted for being several, count."""
REAL = "real"
"""Too large for luck, and for what unread answers can explain."""
CONFOUNDED = "confounded"
"""Too large for luck, but unread answers may be the reason."""
INCONCLUSIVE = "inconclusive"
"""Luck may be the reason."""
EQUAL = "no difference"
"""No item tells the two apart."""


@dataclass(frozen=True)
class ComparisonRow(AsDict):
    """One measurement: its score, how many of its answers could be read, and what they cost."""

    label: str
    """The format's name, or the model's if models are compared."""
    model: str
    format: str
    metric: str
    score: Estimate
    num_read: float | None
    """Answers that could be read; of several replies to an item, each is a part of one answer. None if
    nothing is read from text."""
    score_read: Estimate | None
    """Among the answers that could be read; None if there are none, or if all answers count anyway."""
    bounds: tuple[float, float] | None
    """The score if no unread answer were right, and if all were; None if the score is not a share."""
    missing: int
    usage: Mapping[str, Any] | None
    choices: str | None = None
    """``shown``, ``scored`` or ``hidden``; None if there are no choices, or nothing is known."""

    ALSO = ("share_read",)

    @property
    def share_read(self) -> float | None:
        return None if self.num_read is None else self.num_read / self.score.n

    @property
    def num_unread(self) -> float:
        return 0 if self.num_read is None else self.score.n - self.num_read


@dataclass(frozen=True)
class Flips:
    """Items on which two rows differ, as doc ids."""

    first: tuple[str, ...]
    """Better under the first."""
    second: tuple[str, ...]


@dataclass(frozen=True)
class Pair(AsDict):
    """Two rows on the same items, the better one first."""

    first: str
    second: str
    result: Paired
    """On all items; answers that were not read count as not right."""
    p_adjusted: float
    both_read: Paired | None
    """On the items read under both; None if these are all items, or none."""
    p_both_read: float | None
    """Of ``both_read``, adjusted like ``p_adjusted``."""
    remaining: Paired | None
    """On the items read under the second; unread answers of the first count as not right. This is what
    remains if unread answers are no better than read ones. None if all answers were read, or none of
    the second."""
    p_remaining: float
    """The p-value that the difference is more than luck and unread answers, adjusted like ``p_adjusted``
    and never below it: the largest p of ``result``, ``remaining`` and ``both_read``, or 1 if one of them
    does not favour the first or cannot be tested."""
    gap_read: float
    """The share of answers read under the first, minus that under the second."""
    counts: tuple[int, int]
    """Items on which the first is better, and those on which the second is."""
    probability: float | None
    """That the first is truly better; None if scores are not 0 and 1, or come in clusters."""
    is_adherence: bool
    """Whether the difference is no larger than ``gap_read``."""
    asks_same: bool = True
    """Whether both prompts treat the choices alike: show them, score them, or neither."""
    flips: Flips | None = None

    ALSO = ("verdict",)

    @property
    def is_significant(self) -> bool:
        return self.p_adjusted < ALPHA

    @property
    def verdict(self) -> str:
        """``real``, ``confounded``, ``inconclusive`` or ``no difference``."""
        if self.p_remaining < ALPHA:
            return REAL
        if self.is_significant:
            return CONFOUNDED
        return INCONCLUSIVE if any(self.counts) else EQUAL


TARGETS = (0.1, 0.05, 0.02, 0.01)
"""Differences to plan items for; used is the largest that is clearly too small to be found now."""


@dataclass(frozen=True)
class PairPower:
    """Which differences the items can find among some pairs, each tested as if it were the only one."""

    detects: float
    """A true difference that 4 of 5 such runs would find between the two that vary most."""
    target: float | None
    """A smaller difference to plan for; None if scores are not shares, or none is much smaller."""
    items: float | None
    """Items that would find ``target`` between the two that vary most."""


@dataclass(frozen=True)
class Comparison(AsDict):
    """One model's formats, or one format's models, on the same items, with pairwise tests."""

    task: str
    compares: str
    """``formats``, ``conditions`` (format and number of shots) or ``models``."""
    within: str
    """What all rows share: the model's name, or the format's."""
    rows: tuple[ComparisonRow, ...]
    default: str
    """The row that the others are compared with: the first, unless another was named."""
    pairs: tuple[Pair, ...]
    family: str
    """``every two``, or ``each against mcqa``."""
    method: str
    """How p-values are adjusted for multiple tests: ``holm``, ``bh`` or ``by``."""
    num_items: int
    num_clusters: int | None
    is_binary: bool
    is_share: bool
    """Whether every score lies between 0 and 1."""
    higher_is_better: bool
    steady: tuple[int, int] | None
    """Items that are right under every row, and under none; None if scores are not 0 and 1."""
    flip_counts: tuple[tuple[int, ...], ...]
    """[i][j]: items on which row i is better than row j."""
    omnibus: CochranQ | None = None
    spread: Spread | None = None
    components: Components | None = None
    left_out: Mapping[str, int] | None = None
    """Result → its items that others lack, if only common items were asked for."""
    members: tuple[str, ...] = ()
    """The tasks of ``task``, if that is a group."""

    KEYS = (
        *("task", "compares", "within", "default", "family", "method", "num_items", "num_clusters"),
        *("is_binary", "higher_is_better", "steady", "flip_counts", "left_out", "members"),
        *("rows", "pairs", "omnibus", "spread", "components"),
    )

    def row(self, label: str) -> ComparisonRow:
        """The row of that label."""
        return next(row for row in self.rows if row.label == label)

    def pairs_called(self, *verdicts: str) -> list[Pair]:
        """The pairs with one of these verdicts, the largest difference first."""
        called = [pair for pair in self.pairs if pair.verdict in verdicts]
        return sorted(called, key=lambda pair: -abs(pair.result.difference.value))

    def power(self, pairs: Sequence[Pair]) -> PairPower | None:
        """What these items can find among ``pairs``; None if nothing is known about any of them."""
        known = [pair for pair in pairs if pair.result.smallest_detectable is not None]
        if not known:
            return None
        hardest = max(known, key=_variation)
        detects = hardest.result.smallest_detectable or 0.0
        target = next((each for each in TARGETS if self.is_share and each < 0.9 * detects), None)
        needed = None if target is None else _items_needed(hardest.result, target)
        return PairPower(detects, target, needed)

    def rows_by_choices(self) -> dict[str, list[ComparisonRow]]:
        """How prompts treat the choices → the rows that do; empty if all do the same."""
        kinds = {
            kind: [row for row in self.rows if row.choices == kind]
            for kind in (CHOICES_SHOWN, CHOICES_SCORED, CHOICES_HIDDEN)
        }
        several = {kind: rows for kind, rows in kinds.items() if rows}
        return several if len(several) > 1 else {}

    @property
    def best(self) -> ComparisonRow:
        """The row with the best score; of several, the one that ``spread`` names as well."""
        return self._ends[0 if self.higher_is_better else 1]

    @property
    def worst(self) -> ComparisonRow:
        """The row with the worst score; of several, the one that ``spread`` names as well."""
        return self._ends[1 if self.higher_is_better else 0]

    @property
    def _ends(self) -> tuple[ComparisonRow, ComparisonRow]:
        """The first of the highest, and the last of the lowest: two rows, even where all tie."""

        def score(row: ComparisonRow) -> float:
            return row.score.value

        return max(self.rows, key=score), min(reversed(self.rows), key=score)

    @property
    def under(self) -> str:
        """The word before a row's name: answers are given *under* a format, and *with* a model."""
        return "with" if self.compares == "models" else "under"

    @property
    def kind(self) -> str:
        """What one row is: a ``format``, a ``condition`` or a ``model``."""
        return self.compares[:-1]

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether a score of 1 is a right answer, and 0 is not."""
        return self.is_binary and self.higher_is_better

    @property
    def num_units(self) -> int:
        """What is sampled: clusters if there are any, otherwise items."""
        return self.num_clusters or self.num_items

    def chances(self, label: str) -> tuple[float, float] | None:
        """How often the row is best, and worst, when the items are resampled."""
        if self.spread is None:
            return None
        index = [row.label for row in self.rows].index(label)
        chances = self.spread.p_best[index], self.spread.p_worst[index]
        return chances if self.higher_is_better else chances[::-1]


def _variation(pair: Pair) -> tuple[float, float]:
    """How much a pair varies: the smallest difference it finds, then its standard error."""
    return pair.result.smallest_detectable or 0.0, pair.result.difference.stderr or 0.0


def _items_needed(result: Paired, target: float) -> float:
    """How many items find a true difference, if items vary as these do."""
    if result.test == MCNEMAR:  # the share of discordant items is at least the difference
        variance = max(target, (result.wins + result.losses) / result.n)
    else:
        variance = result.n * (result.difference.stderr or 0.0) ** 2
    return items_needed(target, variance=variance)


@dataclass(frozen=True)
class Ranking(AsDict):
    """Several models under several formats of one task: do the formats rank the models alike?"""

    task: str
    models: tuple[str, ...]
    formats: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    """Models × formats."""
    stability: RankStability
    higher_is_better: bool
    num_items: int

    KEYS = ("task", "models", "formats", "scores", "higher_is_better", "num_items", "stability")


@dataclass(frozen=True)
class ComparisonReport(AsDict):
    """Everything that was compared, task by task, with notes on which results were chosen."""

    blocks: tuple[Comparison, ...]
    rankings: tuple[Ranking, ...] = ()
    notes: tuple[str, ...] = ()
    resamples: int = 0
    seed: int = 0

    alpha = ALPHA
    KEYS = (("comparisons", "blocks"), "rankings", "notes", "resamples", "seed", "alpha")
