"""A judge's reply → one label or None per nugget, with the rule, the span and the repairs.

``reader`` collects every possible answer: in brackets, tags or lines (``notations``), else in sentences
(``prose``). ``ranking`` sets aside examples, drafts and quotations, places labels by their numbers, and
refuses two answers that differ. Time is linear in the length of the reply.

What words mean is shared by all: ``spellings`` of a label, ``references`` to a nugget, ``cues`` around a
list, ``remarks`` after a label.

Read in this order: spellings, candidates, references, cues, remarks, notations, ranking, prose,
shortcuts, reader, reasoning, registered.
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
