"""A score with its standard error and 95 % interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A score, its standard error and interval; None where there is none (one item, no spread)."""

    value: float
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    """How the interval was made: ``wilson``, ``normal``, ``bootstrap``, ``none``."""
