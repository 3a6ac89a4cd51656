"""A comparison in sentences, the most important first: what ``lm-eval compare`` prints of it."""

from __future__ import annotations

from lm_eval.lab.compare.details import facts
from lm_eval.lab.compare.findings import findings
from lm_eval.lab.compare.values import Comparison
from lm_eval.lab.report import in_text

__all__ = ["sentences"]


def sentences(comparison: Comparison) -> list[str]:
    """``The format matters: …``, ``Real: mcqa > cot +.29 [.20, .39] p < .001``, …."""
    said = [f"{fact.label}: {fact.text}." for fact in facts(comparison)]
    return [*in_text(findings(comparison)), *said]
