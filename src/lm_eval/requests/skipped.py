"""Docs that cannot be asked: which, and why. They are left out of a run and counted, within a bound.

A doc without two choices or without a gold answer stops no benchmark. Targets that the task leaves
ambiguous are another matter: they are collected here to be told together, and always an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from lm_eval.errors import AmbiguousGoldError, FormatError, KnownBadDocError, LmEvalError
from lm_eval.requests.options import allowed_count

MAX_SKIPPED = "1%"
"""How many docs of a task may be left out, unless the run says otherwise."""
AMBIGUOUS = "the target may mean more than one choice"
_NAMED = 5


class SkippedDocs:
    """Collects the docs of one task that cannot be asked; adding one again changes nothing."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}
        self._known: set[int] = set()
        self._first: dict[str, LmEvalError] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._reasons

    def add(self, doc_id: int, error: LmEvalError) -> bool:
        """Whether the error is one doc's alone, and the doc was taken in."""
        is_ambiguous = isinstance(error, AmbiguousGoldError)
        reason = AMBIGUOUS if is_ambiguous else error.skip_reason
        if reason is None:
            return False
        if isinstance(error, KnownBadDocError):
            self._known.add(doc_id)
        self._reasons[doc_id] = reason
        self._first.setdefault(reason, error)
        return True

    def counts(self) -> dict[str, int]:
        """Reason → number of docs, the most frequent first."""
        return dict(Counter(self._reasons.values()).most_common())

    def by_reason(self) -> dict[str, list[int]]:
        """Reason → its docs, the most frequent reason first."""
        docs: dict[str, list[int]] = {reason: [] for reason in self.counts()}
        for doc_id, reason in self._reasons.items():
            docs[reason].append(doc_id)
        return docs

    def check(self, task: str, total: int, max_skipped: str | float) -> None:
        """Raise where targets are ambiguous, or more of the ``total`` docs than allowed are left out.

        Docs that the task itself leaves out (``skip_docs``) do not count, unless no others are left.
        """
        allowed = allowed_count(max_skipped, total, flag="--max_skipped", what="docs")
        docs = self.by_reason()
        if AMBIGUOUS in docs:
            several = AmbiguousGoldError(f"{self._first[AMBIGUOUS]}{_others(docs[AMBIGUOUS])}")
            several.docs = docs
            raise several
        if not docs or (len(self) - len(self._known) <= allowed and len(self) < total):
            return
        if total == 1:
            raise self._first[next(iter(docs))]
        reasons = "".join(
            f"\n  {len(ids)} × {reason}: {_named(ids)}\n    {self._first[reason]}"
            for reason, ids in docs.items()
        )
        bad = len(self) - len(self._known)
        error = FormatError(
            f"Task {task!r}: {bad:,} of {total:,} docs cannot be asked, and --max_skipped "
            f"{max_skipped} allows {min(allowed, total - 1):,}.{reasons}\nCorrect the data or the task, "
            "name such docs in skip_docs, or allow more with --max_skipped."
        )
        error.docs = docs
        raise error


def skipped_line(counts: Mapping[str, int]) -> str:
    """``3 docs skipped: 2 × no gold answer, 1 × fewer than two choices``."""
    total = sum(counts.values())
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in counts.items())
    return f"{total:,} {'doc' if total == 1 else 'docs'} skipped: {reasons}"


def ranges(doc_ids: Sequence[int]) -> str:
    """Doc numbers in order, runs joined: ``0-3, 7, 9-12``."""
    parts: list[list[int]] = []
    for doc_id in sorted(doc_ids):
        if parts and doc_id == parts[-1][-1] + 1:
            parts[-1][1:] = [doc_id]
        else:
            parts.append([doc_id])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _named(doc_ids: Sequence[int]) -> str:
    word = "doc" if len(doc_ids) == 1 else "docs"
    more = f" and {len(doc_ids) - _NAMED:,} more" if len(doc_ids) > _NAMED else ""
    return f"{word} {', '.join(map(str, islice(doc_ids, _NAMED)))}{more}"


def _others(doc_ids: Sequence[int]) -> str:
    if len(doc_ids) == 1:
        return ""
    return f" The same holds for {len(doc_ids) - 1:,} more: {_named(doc_ids[1:])}."
