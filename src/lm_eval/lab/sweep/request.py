"""Checks of what a sweep is asked for, before a model is asked: the items, and the budget in cells."""

from __future__ import annotations

import math
import re

from lm_eval.errors import UsageError
from lm_eval.lab.show.phrases import counted
from lm_eval.lab.sweep.search import KEPT_FRESH
from lm_eval.lab.sweep.sweep import MIN_ITEMS

FIRST_ITEMS = 4
"""Items in the first round of a search without a budget, which asks all formats."""


def check_items(name: str, num_items: int, num_clusters: int | None, search: str | None) -> None:
    """Raise a ``UsageError`` if there are too few items, or all belong to one cluster."""
    needed = KEPT_FRESH if search is not None else MIN_ITEMS
    if num_items < needed:
        why = "some to choose with and some to score again what was chosen"
        what = f"a search needs at least {needed} items, {why}"
        if search is None:
            what = f"a sweep compares formats on at least {needed} items"
        raise UsageError(f"{name}: {what}; there {_are(num_items)}.")
    if num_clusters == 1:
        raise UsageError(
            f"{name}: all {num_items:,} items belong to one cluster, so that nothing says what scores "
            "others would have. Ask items of more clusters, such as with a larger --limit."
        )


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


def parse_budget(
    text: str | None, *, num_formats: int, num_items: int, search: str | None
) -> int | None:
    """The number of cells that ``--budget`` asks for, None for all of them.

    ``text`` is ``2n`` (twice the items), a number of cells, ``full``, or None.

    A search without a budget gets enough cells for ``FIRST_ITEMS`` of every format in its first round.
    """
    total, searches = num_formats * num_items, 2 if search == "both" else 1
    if text is None and search is not None:
        of_each = FIRST_ITEMS * math.ceil(math.log2(num_formats))
        return min(total, searches * of_each * num_formats)
    if text is None or text == "full":
        if search is not None:
            raise UsageError(
                "--search asks less than everything, so --budget full has no meaning with it. A "
                "full sweep names the best and worst format anyway: leave --search out."
            )
        return None
    cells = _cells(text, num_items)
    least = searches * num_formats
    if cells < least:
        why = "each of the two searches asks every format once" if searches > 1 else "one each"
        raise UsageError(
            f"--budget {text} is {counted(cells, 'cell')}, but {num_formats} formats need at least "
            f"{least:,} ({why}). Give --budget {least} or more, or fewer --formats."
        )
    if cells > total:
        raise UsageError(
            f"--budget {text} is {cells:,} cells, but {num_formats} formats × {num_items} items have "
            f"only {total:,}. Leave --budget out to ask them all."
        )
    return cells


def _cells(text: str, num_items: int) -> int:
    times = re.fullmatch(r"(\d+(?:\.\d+)?)\s*n", text.strip().lower())
    if times is not None:
        return round(float(times[1]) * num_items)
    if re.fullmatch(r"\d+", text.strip()):
        return int(text)
    raise UsageError(
        f"--budget {text!r} is neither a number of cells such as 800, nor a multiple of the number of "
        "items such as 2n, nor full."
    )
