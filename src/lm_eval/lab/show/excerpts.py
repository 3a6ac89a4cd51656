"""Long texts of models and prompts, cut to the part that matters. Text is data: everything goes through
``visible``, and the marked part is put between « and ».
"""

from __future__ import annotations

from lm_eval.text.terminal import ELLIPSIS, visible

AROUND = 36
"""Characters kept on either side of what is marked."""


def quoted(text: str, limit: int = 90) -> str:
    """A reply in quotation marks, its start if it is long; ``(nothing)`` if it is blank."""
    return f"“{visible(text, limit)}”" if text.strip() else "(nothing)"


def marked(text: str, span: tuple[int, int], around: int = AROUND) -> str:
    """The text around a span, with the span between « and »."""
    start, end = max(0, span[0]), min(len(text), span[1])
    inside = visible(text[start:end], 3 * around)
    return (
        f"{_before(text[:start], around)}«{inside}»{_after(text[end:], around)}"
        if inside or text
        else "(nothing)"
    )


def at_place(text: str, place: int, around: int = AROUND) -> str:
    """The text around one place, with » in front of the character there."""
    return f"{_before(text[:place], around)}»{_after(text[place:], around)}"


def first_difference(one: str, other: str) -> int:
    """The place of the first character in which two texts differ; their end where one goes on."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:  # slices compare far faster than characters one by one
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _before(text: str, limit: int) -> str:
    return visible(text) if len(text) <= limit else ELLIPSIS + visible(text[-limit:])


def _after(text: str, limit: int) -> str:
    return visible(text) if len(text) <= limit else visible(text[:limit]) + ELLIPSIS
