"""A judge's reply → one label or None per nugget, with the rule, the span and the repairs.

Every possible answer is collected with its span (``structured``, ``markup``, ``lists``, ``prose``);
``ranking`` sets aside examples, drafts and quotations, places labels by their numbers, and refuses two
answers that differ. Time is linear in the length of the reply.

Read in this order: spellings, candidates, numbering, cues, remarks, cells, lines, lists, markup,
structured, ranking, prose, quick, reader, reasoning, registered.
"""

from __future__ import annotations

from nugget_eval.reading.candidates import FORMAT_TYPES, ErrorType, FormatUsed, LabelReading
from nugget_eval.reading.reader import (
    parse_labels_multi_format,
    read_labels,
    strip_thinking_reasoning_blocks,
)
from nugget_eval.reading.reasoning import Reasoned, read_reasoning
from nugget_eval.reading.spellings import LABELS, ORDER, RANK, Label, label_of

__all__ = [
    "FORMAT_TYPES",
    "LABELS",
    "ORDER",
    "RANK",
    "ErrorType",
    "FormatUsed",
    "Label",
    "LabelReading",
    "Reasoned",
    "label_of",
    "parse_labels_multi_format",
    "read_labels",
    "read_reasoning",
    "strip_thinking_reasoning_blocks",
]
