"""Several replies to each doc (``repeats: 4``): one value for each doc and metric.

A doc's replies are averaged before anything else, so that docs stay what varies. Beside the means are
``pass@k``, the chance that one of k replies is right, and ``maj@k``, how right the answer is that most
of k replies give.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import ConfigError
from lm_eval.scoring.metrics import (
    Metric,
    TextOutcome,
    as_number,
    is_right,
    normal_form,
    only_number,
    same_answer,
)
from lm_eval.stats.estimates import mean_estimate

_NAME = re.compile(r"(pass|maj)@([1-9]\d*)")
_EXPLAINED = {
    "pass": "the chance that one of {k} replies is right",
    "maj": "how right the answer of most of {k} replies is, ties shared",
}


def is_repeat_metric(name: str) -> bool:
    """Whether a metric is made from several replies: ``pass@3``, ``maj@5``."""
    return _NAME.fullmatch(name) is not None


def repeat_metrics(asked: Sequence[str], repeats: int, *, where: str) -> list[Metric]:
    """``pass@K`` and ``maj@K`` of a task with K replies to each doc, and those it asks for by name."""
    names = [name for name in asked if is_repeat_metric(name)]
    if repeats > 1:
        names += [f"pass@{repeats}", f"maj@{repeats}"]
    return [_metric(name, repeats, where) for name in dict.fromkeys(names)]


def value_of(metric: Metric, outcomes: Sequence[TextOutcome]) -> Any:
    """A doc's value of a metric: its mean over the replies that count, or None where none does."""
    if metric.of_replies is not None:
        return metric.of_replies(outcomes)
    # Of pairs for a table there is no mean: the first reply represents the doc.
    if len(outcomes) == 1 or metric.aggregate is not mean_estimate:
        return metric.value(outcomes[0])
    values = [value for outcome in outcomes if (value := metric.value(outcome)) is not None]
    return sum(values) / len(values) if values else None


@dataclass
class RepeatNotes:
    """Collects what a reader of the scores should know about the replies."""

    repeats: int = 1
    differs: bool = False

    def add(self, outcomes: Sequence[TextOutcome]) -> None:
        """Note the replies to one doc."""
        self.repeats = max(self.repeats, len(outcomes))
        self.differs = self.differs or len({outcome.reply for outcome in outcomes}) > 1

    def lines(self, metrics: Sequence[Metric]) -> list[str]:
        if self.repeats == 1:
            return []
        notes = [
            f"{self.repeats} replies to each doc: their mean is the doc's score, and docs are what the "
            "intervals are over"
        ]
        if not self.differs:
            notes.append(
                f"the {self.repeats} replies to a doc are the same for every doc: let the model sample, "
                "for example with --gen_kwargs do_sample=true,temperature=0.7"
            )
        first = [m.name for m in metrics if not m.of_replies and m.aggregate is not mean_estimate]
        if first:
            notes.append(f"{', '.join(first)} is that of the first reply to each doc")
        return notes


def _metric(name: str, repeats: int, where: str) -> Metric:
    match = _NAME.fullmatch(name)
    assert match is not None
    kind, k = match[1], int(match[2])
    if k > repeats:
        raise ConfigError(
            f"{where}: metric {name!r} needs {k} replies to each doc, and there "
            f"{'is' if repeats == 1 else 'are'} {repeats}. Set `repeats: {k}` in the task, or ask for a "
            "smaller k."
        )
    of_replies = _passes(k) if kind == "pass" else _majority(k)
    return Metric(name, _EXPLAINED[kind].format(k=k), of_replies=of_replies)


def _passes(k: int) -> Callable[[Sequence[TextOutcome]], float]:
    return lambda outcomes: pass_chance(sum(map(is_right, outcomes)), len(outcomes), k)


def _majority(k: int) -> Callable[[Sequence[TextOutcome]], float]:
    return lambda outcomes: majority_score([(_vote(o), float(is_right(o))) for o in outcomes], k)


def _vote(outcome: TextOutcome) -> Hashable | None:
    """What a reply votes for; None where nothing was read. Answers that are the same are one vote."""
    if not outcome.reading.is_answer:
        return None
    value = outcome.reading.value
    if outcome.answers == "order":
        return tuple(value)
    if outcome.answers != "text":
        return value if isinstance(value, Hashable) else str(value)
    text = str(value)
    for place, gold in enumerate(outcome.gold):
        if same_answer(text, str(gold)):
            return "gold", place
    number = only_number(text) if as_number(text) is not None else None
    return ("number", number) if number is not None else ("text", normal_form(text))


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
