"""What reading a judge's reply gives: ``LabelReading``, with the names of formats and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from nugget_eval.reading.spellings import Label

FormatType = Literal[
    "json", "markdown", "csv", "yaml", "xml", "adaptive", "tsv", "numbered", "python_list", "pipe"
]
FORMAT_TYPES: tuple[FormatType, ...] = get_args(FormatType)
"""Output formats that a judge can be asked for; ``adaptive`` leaves the choice to the judge."""

FormatUsed = FormatType | Literal["prose", "empty", "failed"]
"""``prose`` is an answer in sentences, ``empty`` a reply without text, ``failed`` any other."""

ErrorType = Literal[
    "truncation",
    "count_mismatch",
    "format_error",
    "ambiguous",
    "unknown_label",
    "incomplete_index",
    "refusal",
    "empty",
    "echo",
]
"""Why labels are missing.

``truncation``        fewer labels than nuggets: the end is missing, or thinking never ended
``count_mismatch``    more labels than nuggets, or a number that no nugget has
``format_error``      no answer was found
``ambiguous``         two answers, or two labels for one nugget, and nothing says which counts
``unknown_label``     something that is not a label where a label should be
``incomplete_index``  a numbered answer with gaps
``refusal``           the model declined
``empty``             no text at all, or nothing but closed reasoning
``echo``              only an example, a list of allowed labels, a definition or a quotation
"""

Span = tuple[int, int]
LabelTuple = tuple["list[Label | None] | None", int, str, "str | None"]


@dataclass(frozen=True, slots=True)
class LabelReading:
    """The labels in a reply, one entry per nugget, and how they were found.

    ``labels`` always has one entry per nugget; None is missing. ``error_type`` is None exactly if
    none is missing; ``reason`` says the same in words. ``rule`` names what found the answer and
    ``span`` is its position in the reply. ``found`` counts the labels in the answer, even if they
    could not be placed. ``conforms`` tells whether the answer is in the format that was asked for
    (None if no particular one was).
    """

    labels: tuple[Label | None, ...]
    format_used: FormatUsed
    error_type: ErrorType | None = None
    reason: str = ""
    rule: str | None = None
    span: Span | None = None
    found: int = 0
    conforms: bool | None = None

    @property
    def is_complete(self) -> bool:
        return self.error_type is None

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers, from 1, of the nuggets without a label."""
        return tuple(i for i, label in enumerate(self.labels, 1) if label is None)

    def as_tuple(self) -> LabelTuple:
        """``(labels, count, format_used, error_type)``; ``labels`` is None if none was placed."""
        labels = list(self.labels) if any(self.labels) else None
        return labels, self.found, self.format_used, self.error_type
