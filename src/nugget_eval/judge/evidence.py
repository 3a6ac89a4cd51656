"""Evidence: how much likelier a passage makes a nugget, word by word, and the label that follows.

A small model cannot follow the rules of a judge, but it expects the words that a passage has prepared.
The nugget is scored as a fact about the query, once after the passage and once without it. The label is
read off the difference. The model is never asked for a label, so no passage can talk it into one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from lm_eval.formats.assemble import Chat, Message
from nugget_eval.prompts.formats import PromptInfo
from nugget_eval.reading.spellings import Label

_AFTER_PASSAGE = "{passage}\n\nState a fact from this text."
_WITHOUT = "State a fact."
LEAST_SHARE = 0.25
"""The share of a nugget's information that a passage must give, for it to state any of the nugget."""
STRETCH = 3
"""Words in a row. Where the passage makes as many no likelier, it does not state that part."""
_VERSION = "1.0"


@dataclass(frozen=True)
class PassageEvidence:
    """What a passage does for a nugget, in nats."""

    share: float
    """Of the nugget's information without the passage, the part that the passage gives: at most 1."""
    weakest: float
    """The gain in log-likelihood of the words in a row that gain least."""

    @property
    def label(self) -> Label:
        if self.share < LEAST_SHARE:
            return "not_support"
        return "support" if self.weakest > 0 else "partial_support"


def evidence_prompts(query: str, passage: str) -> tuple[Chat, Chat]:
    """What the nugget follows: with the passage, and without it."""
    asked = query.strip().rstrip("?")
    before = f"{asked}?\n\n" if asked else ""
    return _chat(before + _AFTER_PASSAGE.replace("{passage}", passage.strip())), _chat(
        before + _WITHOUT
    )


def _chat(text: str) -> Chat:
    return Chat((Message("user", text),))


def beginnings(nugget: str) -> list[str]:
    """The nugget up to the end of each of its words."""
    return list(accumulate(nugget.split(), lambda text, word: f"{text} {word}"))


def weigh(after_passage: Sequence[float], without: Sequence[float]) -> PassageEvidence:
    """The evidence, from the log-likelihoods of a nugget's beginnings in both prompts."""
    gains = [one - other for one, other in zip(after_passage, without, strict=True)]
    before = [0.0, *gains]
    length = min(STRETCH, len(gains))
    stretches = (gains[end] - before[end + 1 - length] for end in range(length - 1, len(gains)))
    return PassageEvidence(gains[-1] / max(-without[-1], 1e-9), min(stretches))


@cache
def evidence_info() -> PromptInfo:
    """What identifies the prompts and the rule, for results to carry."""
    content = json.dumps([_AFTER_PASSAGE, _WITHOUT, LEAST_SHARE, STRETCH])
    return PromptInfo(
        name="evidence",
        summary="How much likelier the passage makes the nugget.",
        best_for="Small models that cannot follow instructions.",
        version=_VERSION,
        changelog={"1.0": "A share of a quarter, and no three words without a gain."},
        fingerprint=hashlib.sha256(content.encode()).hexdigest()[:12],
        reasons=False,
    )
