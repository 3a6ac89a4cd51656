"""``exact_match`` of EleutherAI's harness: texts compared as arrays of numpy compare them."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


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

    if not (regexes_to_ignore or ignore_case or ignore_punctuation or ignore_numbers):
        texts = [*predictions, *references]
        if len(predictions) == 1 == len(references) and all(type(text) is str for text in texts):
            is_same = texts[0].rstrip("\0") == texts[1].rstrip("\0")
            return {"exact_match": float(is_same)}

    def plain(values: Sequence[Any]) -> list[Any]:
        values = _alike(list(values))
        for pattern in regexes_to_ignore or ():
            values = _map(partial(re.sub, pattern, ""), values)
        if ignore_case:
            values = _lower(values)
        if ignore_punctuation:
            values = _map(lambda text: text.translate(_NO_PUNCTUATION), values)
        if ignore_numbers:
            values = _map(lambda text: text.translate(_NO_DIGITS), values)
        return values

    same = list(_compare(plain(predictions), plain(references)))
    return {"exact_match": sum(same) / len(same) if same else 0.0}


def _map(change: Callable[[str], str], values: list[Any]) -> list[Any]:
    """``change`` on every text, in nested lists too. Zero bytes at its end get lost, as in arrays."""

    def changed(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [changed(part) for part in value]
        return change(value).rstrip("\0") if isinstance(value, str) else value

    return [changed(value) for value in values]


def _texts(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _texts(value)
        else:
            yield value


def _alike(values: list[Any]) -> list[Any]:
    """Values of one type, as an array has them: one text among numbers makes texts of all."""
    if not any(isinstance(value, str) for value in _texts(values)):
        return values
    return _map(str, _as_texts(values))


def _as_texts(values: Iterable[Any]) -> list[Any]:
    return [_as_texts(v) if isinstance(v, (list, tuple)) else str(v) for v in values]


def _lower(values: list[Any]) -> list[Any]:
    """Small letters, cut to the length of the longest text before: an array's texts have a width,
    and a few capitals, such as the Turkish dotted I, become two characters."""
    width = max((len(text) for text in _texts(values) if isinstance(text, str)), default=0)
    return _map(lambda text: text.lower()[:width], values)


def _compare(predicted: Any, wanted: Any) -> Iterable[bool]:
    """Equality part by part, as arrays are compared: the last dimensions are aligned, and a
    single part is compared with all of the other side."""
    predicted, wanted = _wrap(predicted, _depth(wanted)), _wrap(wanted, _depth(predicted))
    if not isinstance(predicted, list):
        yield bool(predicted == wanted)
    elif len(predicted) == len(wanted) or 1 in (len(predicted), len(wanted)):
        many = max(len(predicted), len(wanted)) if predicted and wanted else 0
        for index in range(many):
            yield from _compare(predicted[index % len(predicted)], wanted[index % len(wanted)])
    else:
        yield False


def _depth(value: Any) -> int:
    return 1 + (_depth(value[0]) if value else 0) if isinstance(value, list) else 0


def _wrap(value: Any, depth: int) -> Any:
    while _depth(value) < depth:
        value = [value]
    return value
