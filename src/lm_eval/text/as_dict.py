"""Dataclasses → dicts ready for JSON, by their fields or by the keys that their class names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

Keys = tuple[str | tuple[str, str], ...]
"""Attributes in the order in which they are written; ``(key, attribute)`` where the two differ."""


@dataclass(frozen=True, slots=True)
class AsDict:
    """Base of the dataclasses that have ``to_dict()``."""

    KEYS: ClassVar[Keys] = ()
    """What is written; empty: every field, then ``ALSO``."""
    ALSO: ClassVar[tuple[str, ...]] = ()
    """Properties that are written after the fields."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        keys = self.KEYS or (*(one.name for one in fields(self)), *self.ALSO)
        pairs = ((key, key) if isinstance(key, str) else key for key in keys)
        return {key: plain(getattr(self, attribute)) for key, attribute in pairs}


def plain(value: Any) -> Any:
    """``value`` with dicts and lists for all dataclasses, mappings, tuples and sets in it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value
