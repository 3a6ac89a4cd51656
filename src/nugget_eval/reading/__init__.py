"""A judge's reply → one label or None per nugget, with the rule and the span.

Every notation is read as lines: ``tags`` and ``brackets`` turn XML and JSON into lines of the same
length, ``lines`` finds tables, rows and lists, ``pieces`` reads one line, ``prose`` cuts sentences into
one piece per nugget and gives each to the choice reader. ``answers`` sets aside examples, drafts and
quotations, places labels by their numbers, and refuses two answers that differ; ``copies`` blanks what a
reply repeats of its data. Words are in ``words.yaml``. Time is linear in the length of the reply.

Read in this order: spellings, outcome, words, pieces, tags, brackets, answers, prose, lines, copies,
reader, reasoning, registered.
"""

from __future__ import annotations

from nugget_eval.reading.outcome import FORMAT_TYPES, ErrorType, FormatUsed, LabelReading
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
