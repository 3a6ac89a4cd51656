"""What answers cost: requests, tokens, time. Counted by the backend for each task × format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields


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
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        whole = cls()
        for usage in usages:
            whole.add(usage)
        return whole
