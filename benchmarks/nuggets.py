"""How fast replies of a judge are read, and that no reply takes long.

    python benchmarks/nuggets.py

Prints replies per CPU second (best of three) and the CPU seconds for a megabyte of one piece.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nugget_eval.common import (
    LABELS,
    parse_labels_multi_format,
    read_reasoning,
    strip_thinking_reasoning_blocks,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.nuggets.label_formats import PIECES, SHAPES, WRITERS

MEGABYTE = 1_000_000
NUGGETS = 5
Replies = list[str]
WORDS = "the passage says that bees carry nectar [sic] and support is given, but not_support"


def answers(write: Callable[[Sequence[str]], str], number: int) -> Replies:
    """Bare answers with random labels."""
    chosen = random.Random(1)
    return [write(chosen.choices(LABELS, k=NUGGETS)) for _ in range(number)]


FACTS = "the bridge was finished in 1874 and replaced a wooden crossing near an old mill"
LISTS = {
    "numbered, a remark behind each label": "{k}. {label} - {words}",
    "numbered, a remark in brackets": "{k}) {label} ({words})",
    "numbered, the nugget before each label": "{k}. {words}: {label}",
    "numbered, the nugget in bold": "{k}. **{words}** - {label}",
}


def numbered_lists(item: str, number: int, lead: str = "") -> Replies:
    """Numbered lists with other words beside each label."""
    chosen = random.Random(3)
    words = FACTS.split()
    return [
        lead
        + "\n".join(
            item.format(
                k=k, label=chosen.choice(LABELS), words=" ".join(chosen.choices(words, k=7))
            )
            for k in range(1, NUGGETS + 1)
        )
        for _ in range(number)
    ]


def with_reasoning(number: int) -> Replies:
    """A reasoning block of 2 KB, each with other words, and a JSON array."""
    chosen = random.Random(2)
    words = WORDS.split()
    replies = []
    for _ in range(number):
        items = []
        for k in range(1, NUGGETS + 1):
            rationale = " ".join(chosen.choices(words, k=50))
            snippet = " ".join(chosen.choices(words, k=8))
            items.append(
                f'{k}.\n  nugget="fact {k}"\n  snippet="{snippet}"\n  rationale="{rationale}"\n'
                f'  decision="{chosen.choice(LABELS)}"\n'
            )
        labels = json.dumps(chosen.choices(LABELS, k=NUGGETS))
        replies.append(f"<reasoning>\n{''.join(items)}</reasoning>\n{labels}")
    return replies


def per_second(replies: Replies) -> float:
    """Replies read per CPU second, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        for reply in replies:
            labels = parse_labels_multi_format(reply, NUGGETS)[0]
            assert labels is not None
        best = min(best, time.process_time() - start)
    return len(replies) / best


def worst(function: Callable[[str], object]) -> tuple[float, str]:
    """CPU seconds for the slowest megabyte of one piece, and the piece."""
    slowest = (0.0, "")
    for piece in PIECES:
        for tail in ("", "\nsupport", '\n["support"'):
            text = piece * (MEGABYTE // len(piece)) + tail
            start = time.process_time()
            function(text)
            slowest = max(slowest, (time.process_time() - start, repr(piece + " …" + tail)))
    return slowest


def main() -> None:
    """Print all figures."""
    print(
        f"{'bare answers, ' + str(NUGGETS) + ' nuggets':44} replies per CPU s  (bound: 5,000 on average)"
    )
    for name, write in {**WRITERS, **SHAPES}.items():
        print(f"  {name:42} {per_second(answers(write, 4000)):>17,.0f}")
    print(f"{'lists with text':44} replies per CPU s  (bound: 5,000)")
    for name, item in LISTS.items():
        print(f"  {name:42} {per_second(numbered_lists(item, 2000)):>17,.0f}")
    led = numbered_lists("{k}. {label}", 2000, "Here are the labels:\n\n")
    print(f"  {'numbered, behind a line of words':42} {per_second(led):>17,.0f}")
    replies = with_reasoning(1000)
    size = sum(map(len, replies)) // len(replies)
    case = f"json with {size:,} characters of reasoning"
    print(f"{case:44} {per_second(replies):>17,.0f}  (bound: 500)")
    print("slowest megabyte of one piece, CPU s (bound: 1)")
    for function in (
        lambda text: parse_labels_multi_format(text, NUGGETS),
        strip_thinking_reasoning_blocks,
        read_reasoning,
    ):
        seconds, piece = worst(function)
        print(
            f"  {getattr(function, '__name__', '').replace('<lambda>', 'parse_labels_multi_format'):42} "
            f"{seconds:>17.2f}  {piece}"
        )


if __name__ == "__main__":
    main()
