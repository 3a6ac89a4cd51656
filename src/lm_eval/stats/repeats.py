"""Several replies to one item → one number: the item's part in pass@k or maj@k.

Replies to one item are not independent items. So each item first becomes one number (the chance that k
of its replies include a right one, or that the majority of k is right), and intervals are over items.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

Reply = tuple[Hashable | None, float]
"""The answer that was read (None if none was: the reply has no vote) and its score."""


def pass_chance(correct: int, n: int, k: int) -> float:
    """The chance that ``k`` of ``n`` replies include a correct one: 1 − C(n−c, k) / C(n, k)."""
    if not 0 <= correct <= n:
        raise ValueError(f"Right replies are some of all; got {correct} of {n}.")
    _check_k(k, n)
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def majority_score(replies: Sequence[Reply], k: int) -> float:
    """The expected score of the answer that most of ``k`` of an item's replies give.

    The mean over every choice of k replies; answers with equally many votes share the item, as a fair
    draw between them would. Replies that were not read have no vote; where none of the k was read, the
    score is 0. Exact: nothing is drawn.
    """
    _check_k(k, len(replies))
    scores: dict[Hashable, list[float]] = defaultdict(list)
    for answer, score in replies:
        if answer is not None:
            scores[answer].append(score)
    votes = {answer: len(of_answer) for answer, of_answer in scores.items()}
    silent = len(replies) - sum(votes.values())
    expected = 0.0
    for answer, of_answer in scores.items():
        if any(of_answer):
            others = [count for other, count in votes.items() if other != answer]
            chance = _win_chance(votes[answer], others, silent, k)
            expected += chance * math.fsum(of_answer) / len(of_answer)
    return expected


def _win_chance(votes_for: int, others: Sequence[int], silent: int, k: int) -> float:
    """How likely an answer with ``votes_for`` votes wins among k votes, ties shared."""
    if k == votes_for + sum(others) + silent:  # every vote counts: only ties are left to chance
        most = max(others, default=0)
        return 0.0 if votes_for < most else 1.0 / (1 + others.count(votes_for))
    total = 0.0
    for votes in range(1, min(votes_for, k) + 1):
        ways = _ways_below(votes, others, silent, k - votes)
        total += math.comb(votes_for, votes) * math.fsum(w / (1 + ties) for ties, w in ways.items())
    return total / math.comb(votes_for + sum(others) + silent, k)


def _ways_below(most: int, others: Sequence[int], silent: int, left: int) -> dict[int, int]:
    """The number of ways to take ``left`` votes with at most ``most`` of any answer.

    The key is how many answers have exactly ``most``.
    """
    ways: dict[tuple[int, int], int] = {
        (taken, 0): math.comb(silent, taken) for taken in range(min(silent, left) + 1)
    }
    for count in others:
        grown: dict[tuple[int, int], int] = defaultdict(int)
        for (taken, ties), number in ways.items():
            for votes in range(min(count, most, left - taken) + 1):
                grown[taken + votes, ties + (votes == most)] += number * math.comb(count, votes)
        ways = grown
    by_ties: dict[int, int] = defaultdict(int)
    for (taken, ties), number in ways.items():
        if taken == left:
            by_ties[ties] += number
    return by_ties


def _check_k(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k is a number of replies, 1 to {n} here; got {k}.")
