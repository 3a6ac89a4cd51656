"""The order of a doc's choices where the task shuffles them, and golds that are all at one place.

In: the seed that ``shuffle_choices`` gives, a question and its choices. Out: an order that depends on
these texts alone, so that it is the same under every format, in examples, and in a copy of the data that
lists the choices otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import ConfigError, FormatError
from lm_eval.formats.items import Item, reordered
from lm_eval.formats.prompt_format import PromptFormat

LOOKED_AT = 200
FEWEST = 20
"""Docs that must have their golds at one place before that is no chance."""


def shuffled_order(seed: Any, question: str, choices: Sequence[str]) -> list[int]:
    """The places of the choices, in the order in which they are shown."""
    start = hashlib.sha256(f"{seed}\0{question}\0".encode("utf-8", "surrogatepass"))
    seen: dict[str, int] = {}
    keys = []
    for choice in choices:
        seen[choice] = seen.get(choice, 0) + 1
        digest = start.copy()
        digest.update(f"{seen[choice]}\0{choice}".encode("utf-8", "surrogatepass"))
        keys.append(digest.digest())
    return sorted(range(len(choices)), key=keys.__getitem__)


def shuffled(item: Item, seed: Any) -> Item:
    """The item with its choices in the order that the seed gives."""
    if not item.choices:
        return item
    return reordered(item, shuffled_order(seed, item.question, item.choices))


def check_seed(seed: Any, where: str) -> None:
    """Refuse what is not a seed."""
    if seed is None or (isinstance(seed, int | str) and not isinstance(seed, bool)):
        return
    raise ConfigError(
        f"{where}: shuffle_choices must be a seed, a whole number such as 1, not {shorten(seed)}.",
        key="shuffle_choices",
    )


def check_places(fmt: PromptFormat, items: Iterable[Item]) -> None:
    """Refuse a format with labels where the right choice has the same label in all of the first docs.

    Choices that are the same for all docs, such as yes and no, are classes: their docs may be sorted.
    """
    if fmt.answers != "choice" or fmt.choice_labels in (None, "choices"):
        return
    places: set[Any] = set()
    lists: set[tuple[str, ...]] = set()
    count = 0
    for item in islice(items, LOOKED_AT):
        places.update(item.gold[:1])
        lists.add(item.choices)
        count += 1
        if len(places) > 1:
            return
    if count < FEWEST or len(lists) < 2:
        return
    place = places.pop()
    raise FormatError(
        f"choice {place + 1} is the right one in each of the first {count} docs, so a model that always "
        "gives the same label would be right. Write `shuffle_choices: 1` in the task, which orders the "
        "choices of each doc by a hash, or use a format that scores texts, such as cloze."
    )
