"""Fuzzing with atheris (``pip install atheris``): no exception, no wrong length, no invented label.

    python -m tests.fuzz.labels -runs=1000000

Half of the inputs are raw text, half are built from the pieces that replies are made of.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["nugget_eval"]):
    from nugget_eval.common import (
        parse_labels_multi_format,
        read_reasoning,
        strip_thinking_reasoning_blocks,
    )
    from tests.support.nuggets.label_formats import PIECES, has_label


def check(data: bytes) -> None:
    """Read one input and fail if a promise is broken."""
    provider = atheris.FuzzedDataProvider(data)
    count = provider.ConsumeIntInRange(1, 6)
    if provider.ConsumeBool():
        text = provider.ConsumeUnicodeNoSurrogates(2000)
    else:
        places = provider.ConsumeIntListInRange(len(data), 0, len(PIECES) - 1)
        text = "".join(PIECES[place] for place in places)
    labels, found, _, error = parse_labels_multi_format(text, count)
    assert labels is None or len(labels) == count, text
    assert (error is None) == (labels is not None and None not in labels), text
    assert found >= sum(label is not None for label in labels or ()), text
    assert all(has_label(text, label) for label in labels or () if label), text
    strip_thinking_reasoning_blocks(text)
    read_reasoning(text)


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
