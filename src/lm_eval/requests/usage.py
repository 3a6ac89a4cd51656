"""What answers cost: requests, tokens, time. Counted by the backend for each task × format.

``Estimated`` is the same before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields


@dataclass(slots=True)
class Usage:
    """Counts that add up. A backend that does not count leaves them at 0."""

    requests: int = 0
    """Requests sent over the network and answered; one may carry many questions."""
    retries: int = 0
    """Sendings beyond the first of each request."""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    """Of ``tokens_in``, those the server had from an earlier request."""
    wall_s: float = 0.0

    def add(self, other: Usage) -> None:
        """Add ``other`` to these counts."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        whole = cls()
        for usage in usages:
            whole.add(usage)
        return whole


@dataclass(slots=True)
class Estimated:
    """What requests would cost, if nothing has to be sent again: between ``least`` and ``most``."""

    least: Usage = field(default_factory=Usage)
    most: Usage = field(default_factory=Usage)
    counted_with: str | None = None
    """The tokenizer that counted ``tokens_in``; None: they are guessed from characters."""

    @property
    def is_exact(self) -> bool:
        """Whether ``tokens_in`` are counted, not guessed."""
        return self.counted_with is not None
