"""The orders in which a doc's choices are shown, and the item under each.

In: how many choices there are and a ``Permutation``, the word of ``--permute``. Out: orders, and items
with choices and gold moved. An order holds, for each position in the prompt, the place in the data of
the choice that stands there; the first of several is the order of the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal

from lm_eval.errors import FormatError, UsageError, did_you_mean
from lm_eval.formats.items import Item

Order = tuple[int, ...]
Mode = Literal["cyclic", "full", "pride"]

MODES = ("none", "cyclic", "full", "pride")
MOST_ORDERS = 24
"""More orders of one doc than that are refused: four choices have so many."""
SHARE = 0.05
"""The share of docs from which ``pride`` learns how labels are preferred."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """In which orders docs are asked."""

    mode: Mode
    share: float | None = None
    """With ``pride``: the share of docs that are asked in all cyclic orders."""

    def __str__(self) -> str:
        return self.mode if self.share is None else f"{self.mode}={self.share:g}"


def parse_permutation(text: str | None) -> Permutation | None:
    """``cyclic``, ``full``, ``pride`` or ``pride=0.1``; None for ``none``."""
    if text is None or text == "none":
        return None
    name, equals, share = text.partition("=")
    if name == "pride":
        return Permutation("pride", _share(share) if equals else SHARE)
    if name in ("cyclic", "full") and not equals:
        return Permutation("cyclic" if name == "cyclic" else "full")
    problem = "takes no share; only pride does" if name in MODES else "is no way to order choices"
    hint = "" if name in MODES else did_you_mean(name, MODES)
    raise UsageError(
        f"--permute {text} {problem}.{hint} Give none, cyclic (as many orders as choices), full (all "
        "orders), or pride (all cyclic orders for 5 % of the docs; pride=0.1 for another share)."
    )


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(
            f"--permute pride={text} is no share of the docs. Give a number above 0 and up to 1, such "
            "as pride=0.1."
        )
    return share


def orders(count: int, mode: Mode) -> list[Order]:
    """The orders of ``count`` choices, that of the data first.

    Every choice stands at every position equally often.
    """
    if mode != "full":
        return [tuple((place + shift) % count for place in range(count)) for shift in range(count)]
    if math.factorial(count) > MOST_ORDERS:
        raise FormatError(
            f"{count} choices have {math.factorial(count):,} orders, more than the {MOST_ORDERS} that "
            f"--permute full asks of one doc. Use --permute cyclic, which asks {count}."
        )
    return list(permutations(range(count)))


def reordered(item: Item, order: Sequence[int]) -> Item:
    """The item with its choices in another order. Choices beyond the order stay where they are."""
    whole = (*order, *range(len(order), len(item.choices)))
    position = {place: at for at, place in enumerate(whole)}
    gold: tuple[Any, ...] = tuple(position[place] for place in item.gold)
    return replace(item, choices=tuple(item.choices[place] for place in whole), gold=gold)
