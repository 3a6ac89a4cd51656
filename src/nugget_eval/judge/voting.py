"""Several labels for one nugget → one: by ordinal median, or by Dawid and Skene's model of judges.

A vote that is missing is None and counts for nothing; without any vote the label is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.stats.numeric import Floats
from nugget_eval.reading import ORDER, RANK, Label
from nugget_eval.scores.bootstrap import np

Votes = Sequence[Sequence["Label | None"]]
"""A row for each nugget, a column for each judge."""
_SMOOTHING = 0.01
_TOLERANCE = 1e-7
_MOST_ROUNDS = 200


def median_label(votes: Sequence[Label | None]) -> Label | None:
    """The median of the votes that are not missing; of two middle ones, the lower."""
    ranks = sorted(RANK[vote] for vote in votes if vote is not None)
    return ORDER[ranks[(len(ranks) - 1) // 2]] if ranks else None


def dawid_skene(votes: Votes) -> list[Label | None]:
    """The most probable label of each nugget, by a model in which each judge errs in its own way.

    Expectation maximisation from the shares of the votes, the same result for the same votes. Of two
    labels that are equally probable, the lower. Needs numpy.
    """
    seen = _one_hot(votes)
    known = seen.sum(axis=(1, 2)) > 0
    if not known.any():
        return [None] * len(votes)
    seen = seen[known]
    beliefs = seen.sum(axis=1) / seen.sum(axis=(1, 2))[:, None]
    for _ in range(_MOST_ROUNDS):
        before = beliefs
        beliefs = _expected(seen, *_maximised(seen, beliefs))
        if np.abs(beliefs - before).max() < _TOLERANCE:
            break
    labels = iter(np.round(beliefs, 9).argmax(axis=1).tolist())  # rounded: ties go to the lower
    return [ORDER[next(labels)] if is_known else None for is_known in known.tolist()]


def combine(votes: Votes, how: str) -> list[Label | None]:
    """One label for each nugget; with fewer than two judges there is nothing to combine."""
    if how == "dawid_skene" and votes and len(votes[0]) > 1:
        return dawid_skene(votes)
    return [median_label(row) for row in votes]


def _one_hot(votes: Votes) -> Floats:
    """Nuggets × judges × labels: 1 where the judge gave the label."""
    seen = np.zeros((len(votes), len(votes[0]) if votes else 0, len(ORDER)))
    for row, row_votes in enumerate(votes):
        for judge, vote in enumerate(row_votes):
            if vote is not None:
                seen[row, judge, RANK[vote]] = 1.0
    return seen


def _maximised(seen: Floats, beliefs: Floats) -> tuple[Floats, Floats]:
    """How common each label is, and what each judge says of nuggets that have it."""
    shares = beliefs.mean(axis=0) + _SMOOTHING
    errors = np.einsum("nt,njv->jtv", beliefs, seen) + _SMOOTHING
    return shares / shares.sum(), errors / errors.sum(axis=2, keepdims=True)


def _expected(seen: Floats, shares: Floats, errors: Floats) -> Floats:
    """How probable each label is for each nugget."""
    logs = np.log(shares) + np.einsum("njv,jtv->nt", seen, np.log(errors))
    logs -= logs.max(axis=1, keepdims=True)
    beliefs: Floats = np.exp(logs)
    beliefs /= beliefs.sum(axis=1, keepdims=True)
    return beliefs
