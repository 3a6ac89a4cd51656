"""Pieces of sentences: numbers with their nouns, parts of a comparison, and excerpts of replies.

Names and replies are data and go through ``visible``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lm_eval.stats.estimates import Estimate
from lm_eval.support.numbers import interval, p_equals, percent, signed
from lm_eval.support.terminal import ELLIPSIS, visible

if TYPE_CHECKING:
    from lm_eval.lab.compare.values import Comparison
    from lm_eval.stats.paired import Paired

NAMED = 3
"""Differences or rows named in a sentence; the table has them all."""
MANY_ITEMS = 1000
"""With this many items or more, a third digit of a score is meaningful."""


def digits(comparison: Comparison) -> int:
    """How many decimal places of a score are meaningful with this many items."""
    return 2 if comparison.num_items < MANY_ITEMS else 3


def clipped(estimate: Estimate) -> Estimate:
    """The estimate of a share with its interval cut to 0 … 1."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def difference_words(test: Paired, title: str, more: str, less: str) -> str:
    """A paired difference with its interval and test, in one sentence."""
    difference = f"{signed(test.difference.value, 3)} {interval(test.difference)}".rstrip()
    counts = f"{test.wins} {more}, {test.losses} {less}, {test.ties} the same"
    return f"{title} {difference}: {counts}; {p_equals(test.p)} ({test.test})."


def chance(value: float) -> str:
    """A chance in percent; only certainties are 0 or 100."""
    tenths = round(value * 1000)
    if 0 < value < 1:
        tenths = min(999, max(1, tenths))
    return percent(tenths, 1000)


def round_up(count: float) -> int:
    """A number of items to plan with: rounded up to two digits."""
    items = max(1, -int(-count // 1))
    step = int(10 ** max(0, len(str(items)) - 2))
    return -(-items // step) * step


AROUND = 36
"""Characters shown on either side of a marked span."""


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


def at_index(text: str, index: int, around: int = AROUND) -> str:
    """The text around an index, with » in front of the character there."""
    return f"{_before(text[:index], around)}»{_after(text[index:], around)}"


def first_difference(first: str, second: str) -> int:
    """The index of the first character that differs; the length of the shorter text if none does."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while high - low > 1:  # slices compare far faster than single characters
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _before(text: str, limit: int) -> str:
    return visible(text) if len(text) <= limit else ELLIPSIS + visible(text[-limit:])


def _after(text: str, limit: int) -> str:
    return visible(text) if len(text) <= limit else visible(text[:limit]) + ELLIPSIS
