"""Text → ``Reading``: what a model answered, by which rule, and where in the reply.

A format names its readers in ``scorer``; ``bind_reader`` compiles that spec and ``read`` applies it to a
reply. Readers never guess: a reading without an answer says why there is none.

Read in this order: reading, text, language, options, claims, choice, phrase, free_text, number, reply.
"""

from __future__ import annotations

from lm_eval.formats.readers.choice import (
    choice,
    choice_text,
    first_label,
    label_after,
    label_text,
    marked_label,
    ranking,
)
from lm_eval.formats.readers.free_text import (
    as_choice,
    boxed,
    json_field,
    regex,
    short_answer,
    whole_reply,
)
from lm_eval.formats.readers.number import number
from lm_eval.formats.readers.phrase import after_last
from lm_eval.formats.readers.reading import (
    NO_ANSWER,
    BoundReader,
    Reading,
    Reason,
    bind_reader,
    register_reader,
)
from lm_eval.formats.readers.reply import fitted, mask_thinking, read, without_copies

__all__ = [
    "NO_ANSWER",
    "BoundReader",
    "Reading",
    "Reason",
    "after_last",
    "as_choice",
    "bind_reader",
    "boxed",
    "choice",
    "choice_text",
    "first_label",
    "fitted",
    "json_field",
    "label_after",
    "label_text",
    "marked_label",
    "mask_thinking",
    "number",
    "ranking",
    "read",
    "regex",
    "register_reader",
    "short_answer",
    "whole_reply",
    "without_copies",
]
