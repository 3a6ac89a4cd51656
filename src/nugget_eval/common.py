"""The documented address of the reading functions; their home is ``nugget_eval.reading``."""

from __future__ import annotations

from nugget_eval.reading import (
    LABELS,
    ErrorType,
    FormatUsed,
    Label,
    LabelReading,
    parse_labels_multi_format,
    read_labels,
    read_reasoning,
    strip_thinking_reasoning_blocks,
)

__all__ = [
    "LABELS",
    "ErrorType",
    "FormatUsed",
    "Label",
    "LabelReading",
    "parse_labels_multi_format",
    "read_labels",
    "read_reasoning",
    "strip_thinking_reasoning_blocks",
]
