"""The reader under its name in ``lm_eval``: a format whose choices are nuggets can read their labels.

``lm_eval`` finds it by its entry point in the group ``lm_eval.readers``; nothing else imports it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.formats.readers.reading import Reading, Reason, register_reader
from nugget_eval.reading.outcome import ErrorType, FormatType
from nugget_eval.reading.reader import read_labels

_REASONS: dict[ErrorType, Reason] = {
    "truncation": "truncated",
    "ambiguous": "ambiguous",
    "refusal": "refused",
    "empty": "empty",
}


@register_reader("nugget_labels")
def nugget_labels(
    text: str, *, choices: Sequence[str] = (), format_type: FormatType = "adaptive"
) -> Reading:
    """Read one label per nugget (the choices) as a list; nothing unless every label is there.

    ``format_type`` is the output format that was asked for. Judges use ``read_labels``, which also
    gives the labels of an incomplete answer.
    """
    reading = read_labels(text, len(choices), format_type=format_type, data=choices)
    if reading.error_type is not None:
        return Reading.unread(_REASONS.get(reading.error_type, "unreadable"))
    return Reading(list(reading.labels), f"nugget_labels:{reading.format_used}", reading.span)
