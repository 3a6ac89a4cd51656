"""Several labels for one nugget → one: by ordinal median, or by Dawid and Skene's model of judges.

A vote that is missing is None and counts for nothing; without any vote the label is missing. A
label whose snippet does not occur in the passage is flagged, lowered or dropped before it counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lm_eval.stats.numeric import Floats
from nugget_eval.prompts.examples import whole_words
from nugget_eval.reading.reasoning import Reasoned
from nugget_eval.reading.spellings import ORDER, RANK, Label
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


Verdict = Literal["found", "not_found", "none"]
"""``none``: the reply quotes nothing for this nugget."""

_GAP = re.compile(r"\.\.\.|…|\[\.\.\.\]|\s/\s|[\"”»]\s*(?:[,;]|and|und|y)?\s*[\"“«]|;\s*\n|\n")
_NOTHING = frozenset(("", "none", "n a", "na", "null", "no snippet", "not found", "nothing"))
_STEP_DOWN: dict[Label, Label] = {"support": "partial_support", "partial_support": "not_support"}


@dataclass(frozen=True, slots=True)
class Checked:
    """A label after the check of its snippet."""

    label: Label | None
    verdict: Verdict | None
    """None if nothing had to be checked."""


def check_snippets(
    labels: Sequence[Label | None], reasoned: Sequence[Reasoned], passage: str, action: str
) -> list[Checked]:
    """Each label with the verdict on its snippet; ``action`` is taken on those that fail.

    A ``not_support`` needs no snippet, and a missing label has none to check. ``action`` is ``off``,
    ``flag``, ``downgrade`` or ``drop``.
    """
    if action == "off":
        return [Checked(label, None) for label in labels]
    quoted = quotes_by_number(reasoned, len(labels))
    checked = []
    for number, label in enumerate(labels, 1):
        if label is None or label == "not_support":
            checked.append(Checked(label, None))
            continue
        verdict = snippet_verdict(quoted.get(number), passage)
        checked.append(Checked(_after(label, verdict, action), verdict))
    return checked


def snippet_verdict(snippet: str | None, passage: str) -> Verdict:
    """Whether each part of a quotation occurs in the passage; an ellipsis separates parts."""
    parts = [whole_words(part) for part in quote_parts(snippet or "")]
    if not parts:
        return "none"
    words = _passage_words(passage)
    return "found" if all(part in words for part in parts) else "not_found"


def quote_parts(snippet: str) -> list[str]:
    """The parts of a quotation that an ellipsis separates, without those that quote nothing."""
    return [part for part in _GAP.split(snippet) if whole_words(part).strip() not in _NOTHING]


def _after(label: Label, verdict: Verdict, action: str) -> Label | None:
    if verdict == "found" or action == "flag":
        return label
    return _STEP_DOWN[label] if action == "downgrade" else None


def quotes_by_number(reasoned: Sequence[Reasoned], count: int) -> dict[int, str | None]:
    """Nugget number → snippet; without numbers, in order if there is one for each nugget."""
    if len(reasoned) == count and all(item.number is None for item in reasoned):
        return {number: item.snippet for number, item in enumerate(reasoned, 1)}
    return {item.number: item.snippet for item in reasoned if item.number is not None}


_passage_words = lru_cache(maxsize=8)(whole_words)
