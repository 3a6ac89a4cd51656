"""The reader under its name in ``lm_eval``: a format whose choices are nuggets can read their labels.

``lm_eval`` finds it by its entry point in the group ``lm_eval.readers``; nothing else imports it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.formats.readers.reading import Reading, Reason, register_reader
from nugget_eval.reading.outcome import FORMAT_TYPES, ErrorType
from nugget_eval.reading.reader import read_labels

_REASONS: dict[ErrorType, Reason] = {
    "truncation": "truncated",
    "ambiguous": "ambiguous",
    "refusal": "refused",
    "empty": "empty",
}


@register_reader("nugget_labels")
def nugget_labels(
    text: str, *, choices: Sequence[str] = (), format_type: str | None = None
) -> Reading:
    """Read one label per nugget (the choices) as a list; nothing unless every label is there.

    ``format_type`` is the output format that was asked for. Judges use ``read_labels``, which also
    gives the labels of an incomplete answer.
    """
    if format_type is not None:
        _check_format_type(format_type)
    reading = read_labels(text, len(choices), format_type=format_type, data=choices)
    if reading.error_type is not None:
        return Reading.unread(_REASONS.get(reading.error_type, "unreadable"))
    return Reading(list(reading.labels), f"nugget_labels:{reading.format_used}", reading.span)


def _check_format_type(name: str) -> None:
    if name not in FORMAT_TYPES:
        raise ConfigError(
            f"Reader 'nugget_labels': format_type cannot be {name!r}."
            f"{did_you_mean(name, FORMAT_TYPES)} Valid: {listing(FORMAT_TYPES)}."
        )
