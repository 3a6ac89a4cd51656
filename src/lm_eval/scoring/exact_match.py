"""``exact_match`` of EleutherAI's harness: texts compared as arrays of numpy compare them."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import partial
from typing import Any

_NO_PUNCTUATION: Any = str.maketrans("", "", string.punctuation)
_NO_DIGITS: Any = str.maketrans("", "", string.digits)


def exact_match(
    *,
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> dict[str, float]:
    """``{"exact_match": share}``. The options apply in the order of the signature.

    Punctuation and numbers are the ASCII ones. A prediction that is a list counts by its parts.
    """
    has_options = regexes_to_ignore or ignore_case or ignore_punctuation or ignore_numbers
    texts = [*predictions, *references]
    if not has_options and len(texts) == 2 and all(type(text) is str for text in texts):
        return {"exact_match": float(texts[0].rstrip("\0") == texts[1].rstrip("\0"))}
    import numpy as np

    def plain(values: Sequence[Any]) -> Any:
        array = np.asarray(values)
        if array.dtype.kind != "U":  # numbers have nothing to ignore
            return array
        for pattern in regexes_to_ignore or ():
            array = np.vectorize(partial(re.sub, pattern, ""), otypes=[str])(array)
        if ignore_case:
            array = np.char.lower(array)
        if ignore_punctuation:
            array = np.char.translate(array, _NO_PUNCTUATION)
        if ignore_numbers:
            array = np.char.translate(array, _NO_DIGITS)
        return array

    try:
        same = plain(predictions) == plain(references)
    except ValueError:  # parts of several lengths are no array, and nothing that a text equals
        return {"exact_match": 0.0}
    return {"exact_match": float(np.mean(same)) if np.size(same) else 0.0}
