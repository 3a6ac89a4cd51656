"""Thompson sampling: the search of FormatSpread, with its published settings.

In and out: as ``halving``, for one end or for both. Formats are asked in batches, those that may be
extreme more often. Successive halving compares all formats on the same items and is the default; this
one is for comparison with published figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lm_eval.errors import DataError
from lm_eval.stats.halving import Ask, ItemPool, Round, Search, check_search, checked_scores
from lm_eval.stats.intervals import DEFAULT_SEED, mean_estimate
from lm_eval.stats.numeric import Array, numpy

BATCH = 20
PRIOR_B = 5.0
CELLS_PER_FORMAT = 63
"""For one end: 40,000 cells for both ends of 320 formats were published."""
BASE = 0


@dataclass(slots=True)
class _Arm:
    """What one format was asked, and what it scored."""

    items: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


def prior_a(accuracy: float) -> float:
    """The first parameter of the Beta prior, from the score of the original format.

    The published formula divides by zero at 1, so the score is taken to lie within 0.01 and 0.99.
    """
    accuracy = min(max(accuracy, 0.01), 0.99)
    return max(1.1, PRIOR_B * accuracy / (1.0 - accuracy))


def thompson(
    num_formats: int,
    budget: int,
    ask: Ask,
    *,
    num_items: int,
    reserve: int = 0,
    worst: Sequence[bool] = (False,),
    seed: int = DEFAULT_SEED,
) -> list[Search]:
    """A search for each of ``worst`` (False: the best), by Thompson sampling; scores are within 0 and 1.

    The budget is shared equally, and each search knows all that those before it saw. First of all the
    base format, number 0, is asked one batch, whose mean sets the prior. Each step then draws a score
    for every format from its Beta posterior and asks the extreme one ``BATCH`` items new to it. All
    formats go through the items in the same order, so that no more items are used than needed.
    """
    check_search(num_formats, budget, num_items, reserve)
    hunt = _Hunt(num_formats, ask, ItemPool(num_items, seed, reserve), seed)
    first = hunt.pull(BASE, min(BATCH, budget // len(worst)))
    assert first is not None, "a pool has at least one item"
    hunt.prior = prior_a(first.means[0])
    found: list[Search] = []
    for place, is_worst in enumerate(worst):
        share = (budget - sum(one.cells for one in found)) // (len(worst) - place)
        found.append(_search(hunt, [] if found else [first], share, is_worst))
    return found


class _Hunt:
    """The state of a search: every format's answers so far."""

    def __init__(self, num_formats: int, ask: Ask, pool: ItemPool, seed: int) -> None:
        self.ask = ask
        self.prior = 1.0
        self.rng = numpy().random.default_rng((seed, 1))
        self.pool = pool
        self.arms = [_Arm() for _ in range(num_formats)]

    def pull(self, place: int, count: int) -> Round | None:
        """Ask a format on ``count`` items new to it, or fewer; None if none are left for it."""
        arm, pool = self.arms[place], self.pool
        start = len(arm.items)
        pool.take(start + count - len(pool.used))
        items = pool.used[start : start + count]
        if not items:
            return None
        scores = checked_scores(self.ask, [place], items)[0].tolist()
        for item, score in zip(items, scores, strict=True):
            if not 0.0 <= score <= 1.0:
                raise DataError(
                    f"Format {place}, item {item}: the score {score} does not lie between 0 and 1, "
                    "which Thompson sampling needs. Search by successive halving instead."
                )
        arm.items += items
        arm.scores += scores
        mean = sum(arm.scores) / len(arm.scores)
        return Round((place,), tuple(items), (mean,), (place,), len(items))

    def posterior(self) -> tuple[Array, Array]:
        """The parameters of each format's Beta posterior."""
        np = numpy()
        right = np.array([sum(arm.scores) for arm in self.arms])
        asked = np.array([len(arm.scores) for arm in self.arms])
        return self.prior + right, PRIOR_B + asked - right


def _search(hunt: _Hunt, rounds: list[Round], budget: int, worst: bool) -> Search:
    """Spend what ``rounds`` left of the budget."""
    np = numpy()
    sign = -1.0 if worst else 1.0
    left, reason = budget - sum(r.cells for r in rounds), None
    is_open = np.ones(len(hunt.arms), dtype=bool)
    while left > 0 and reason is None:
        drawn = sign * hunt.rng.beta(*hunt.posterior())
        place = int(np.where(is_open, drawn, -np.inf).argmax())
        done = hunt.pull(place, min(BATCH, left))
        if done is not None:
            rounds.append(done)
            left -= done.cells
            continue
        is_open[place] = False
        if not is_open.any():
            reason = (
                "every format was asked on every item not kept fresh before its budget was spent"
            )
    a, b = hunt.posterior()
    asked = np.array([len(arm.scores) > 0 for arm in hunt.arms])
    if not asked.all():
        never = int((~asked).sum())
        reason = f"{never} of {len(asked)} formats {'was' if never == 1 else 'were'} never asked"
    chosen = int(np.where(asked, sign * a / (a + b), -np.inf).argmax())
    return Search(
        chosen=chosen,
        is_worst=worst,
        method="Thompson sampling",
        rounds=tuple(rounds),
        cells=sum(r.cells for r in rounds),
        while_choosing=mean_estimate(hunt.arms[chosen].scores),
        used_items=frozenset(hunt.pool.used),
        reason=reason,
    )
