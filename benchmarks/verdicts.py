"""How often `lm-eval compare` calls a difference real where there is none, and where there is one.

    python benchmarks/verdicts.py [--sets 4000] [--seed 0]

Prints Markdown. Two formats are asked the same items, of different difficulty. *Equal ability* means
that on each item the chance of a right answer is the same under both. Some answers are not read: at
random, more often on hard items, or more often (or only) where they are wrong; how often, and for which
of these reasons, may differ between the formats. Beside the rule of ``lm_eval.lab.compare`` the tables
have the rule that it replaced (a lead larger than the gap in answers read) and two others: the test on
the items read under both, and bounds (every unread answer of the worse format is right).

Wins and losses are counted for all data sets at once. That these are the verdicts of ``compare`` is
checked on the first data sets of each row. About one CPU minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit

from lm_eval.lab.compare.statistics import pairs
from lm_eval.lab.compare.values import ALPHA, REAL, Pair
from lm_eval.lab.stored.measurement import Measurement, align
from lm_eval.stats.mcnemar import mcnemar

ITEMS = (20, 100, 300, 1000)
RULES = ("before", "both read", "bounds", "now")
CHECKED = 3
"""Data sets of each row that go through ``compare`` itself."""
SPREAD_OF_ITEMS = 1.5


@dataclass(frozen=True)
class Unread:
    """Which answers of a format are not read: the share, and what makes it more likely."""

    share: float = 0.0
    more: str = "at random"

    def draw(self, right: Any, difficulty: Any, rng: Any) -> Any:
        """Whether each answer is read, sets × items."""
        odds = {
            "at random": np.ones_like(difficulty),
            "hard items": expit(1.5 * difficulty),
            "wrong 3 ×": np.where(right, 1.0, 3.0),
            "wrong only": np.where(right, 0.0, 1.0),
        }[self.more]
        chance = self.share * odds / np.maximum(odds.mean(axis=1, keepdims=True), 1e-9)
        return rng.random(right.shape) >= np.clip(chance, 0.0, 1.0)

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % {self.more}" if self.share else "none"


SETTINGS = (
    (Unread(), Unread()),
    (Unread(), Unread(0.1)),
    (Unread(), Unread(0.4)),
    (Unread(0.1), Unread(0.1)),
    (Unread(0.1), Unread(0.4)),
    (Unread(), Unread(0.3, "hard items")),
    (Unread(0.2, "hard items"), Unread(0.2, "hard items")),
    (Unread(0.2, "hard items"), Unread(0.2)),
    (Unread(), Unread(0.2, "wrong 3 ×")),
    (Unread(0.1, "wrong 3 ×"), Unread(0.3, "wrong 3 ×")),
    (Unread(0.2, "wrong 3 ×"), Unread(0.2)),
    (Unread(), Unread(0.2, "wrong only")),
    (Unread(0.1, "wrong only"), Unread(0.1)),
    (Unread(0.2, "wrong only"), Unread(0.2)),
)
"""Unread answers of the first and of the second format."""
POWER_SETTINGS = (
    (Unread(), Unread()),
    (Unread(), Unread(0.1)),
    (Unread(), Unread(0.4)),
    (Unread(), Unread(0.2, "hard items")),
    (Unread(0.1), Unread()),
    (Unread(0.05), Unread(0.05)),
    (Unread(0.1), Unread(0.1)),
    (Unread(0.2), Unread(0.2)),
)


@cache
def level(share: float) -> float:
    """The level at which items of this spread are right in this share."""
    levels = np.linspace(-6.0, 6.0, 600)
    items = SPREAD_OF_ITEMS * np.random.default_rng(1).standard_normal(4000)
    means = expit(levels[:, None] - items).mean(axis=1)
    return float(np.interp(share, means, levels))


@cache
def p_value(wins: int, losses: int) -> float:
    """McNemar's exact p; 1 where the first does not lead."""
    return mcnemar(wins, losses)[0] if wins > losses else 1.0


def p_values(first: Any, second: Any, kept: Any) -> Any:
    """For each data set: does ``first`` lead on the items kept?"""
    wins = (first & ~second & kept).sum(axis=1)
    losses = (second & ~first & kept).sum(axis=1)
    return np.array(
        [p_value(*counts) for counts in zip(wins.tolist(), losses.tolist(), strict=True)]
    )


def verdicts(right: Any, read: Any) -> dict[str, Any]:
    """Rule → whether each data set's difference is called real; ``right`` and ``read`` are pairs."""
    scores = [knows & is_read for knows, is_read in zip(right, read, strict=True)]
    leads = scores[0].sum(axis=1) >= scores[1].sum(axis=1)

    def better_first(values: Any) -> tuple[Any, Any]:
        one, other = values
        pick = leads[:, None]
        return np.where(pick, one, other), np.where(pick, other, one)

    (first, second), (knows, knows_too) = better_first(scores), better_first(right)
    read_first, read_second = better_first(read)
    all_items = np.ones_like(first)
    p = p_values(first, second, all_items)
    lead = (first.sum(axis=1) - second.sum(axis=1)) / first.shape[1]
    gap = read_first.mean(axis=1) - read_second.mean(axis=1)
    return {
        "before": (p < ALPHA) & ~((lead > 0) & (lead <= gap + 1e-12)),
        "both read": p_values(knows, knows_too, read_first & read_second) < ALPHA,
        "bounds": p_values(first, second | ~read_second, all_items) < ALPHA,
        "now": p_values(first, knows_too, read_second) < ALPHA,
    }


def simulated(
    num: int, sets: int, shares: Sequence[float], unread: Sequence[Unread], rng: Any
) -> tuple[list[Any], list[Any]]:
    """Who is right and what is read, for each format as sets × items."""
    difficulty = SPREAD_OF_ITEMS * rng.standard_normal((sets, num))
    right = [rng.random((sets, num)) < expit(level(share) - difficulty) for share in shares]
    read = [each.draw(knows, difficulty, rng) for each, knows in zip(unread, right, strict=True)]
    return right, read


def measurement(name: str, scores: Any, is_read: Any, **more: Any) -> Measurement:
    """One format's scores as ``lm_eval.lab.compare`` takes them."""
    return Measurement(
        run="",
        model="m",
        task="t",
        format=name,
        name=f"t@{name}",
        metric="acc",
        higher_is_better=True,
        items=tuple(map(str, range(len(scores)))),
        scores=scores,
        is_read=is_read,
        **more,
    )


def judged(rows: Sequence[Measurement]) -> list[Pair]:
    """What ``lm_eval.lab.compare`` says of all pairs of rows."""
    names = [row.format for row in rows]
    found = pairs(align(rows), names, None, adjust="holm", seed=0, lists_flips=False)
    return list(found)


def called(right: list[Any], read: list[Any], place: int) -> list[str]:
    """The verdicts on all pairs of formats in one data set."""
    rows = [
        measurement(f"f{k}", (knows[place] & is_read[place]).astype(float), is_read[place])
        for k, (knows, is_read) in enumerate(zip(right, read, strict=True))
    ]
    return [pair.verdict for pair in judged(rows)]


def shares_called_real(
    shares: tuple[float, float], unread: tuple[Unread, Unread], sets: int, seed: int
) -> Iterator[dict[str, float]]:
    """Rule → share of data sets called real, for each number of items."""
    for num in ITEMS:
        rng = np.random.default_rng((seed, num))
        right, read = simulated(num, sets, shares, unread, rng)
        found = verdicts(right, read)
        for place in range(CHECKED):
            assert (called(right, read, place) == [REAL]) == found["now"][place]
        yield {rule: float(found[rule].mean()) for rule in RULES}


def row(*fields: object) -> str:
    return "| " + " | ".join(str(field) for field in fields) + " |"


def show(settings: Any, shares: tuple[float, float], sets: int, seed: int) -> None:
    """A table: for each rule the shares called real at each number of items, in per cent."""
    sizes = " / ".join(map(str, ITEMS))
    print(row("unread, first", "unread, second", *(f"{rule}: {sizes} items" for rule in RULES)))
    print(row(*["---"] * (2 + len(RULES))))
    for unread in settings:
        found = list(shares_called_real(shares, unread, sets, seed))
        cells = (" / ".join(f"{100 * each[rule]:.1f}" for each in found) for rule in RULES)
        print(row(*unread, *cells), flush=True)


def show_family(sets: int, seed: int) -> None:
    """Four equal formats: how often is any of the six differences called real?"""
    shares = (0.0, 0.1, 0.2, 0.4)
    print(
        "\nFour equal formats with 0, 10, 20 and 40 % unread at random, 0.8 right: any pair real\n"
    )
    for num in ITEMS[:-1]:
        rng = np.random.default_rng((seed, num, len(shares)))
        unread = tuple(map(Unread, shares))
        right, read = simulated(num, sets, (0.8,) * len(shares), unread, rng)
        real = sum(REAL in called(right, read, place) for place in range(sets))
        print(f"- {num} items: {100 * real / sets:.1f} % of {sets} data sets")


def show_kinds(sets: int, seed: int) -> None:
    """Equal formats with 0 and 15 % unread at random, where McNemar's test does not apply."""
    print(f"\nNone against 15 % unread at random, 100 items, {sets} data sets: called real\n")
    for kind in ("clusters of 5", "graded scores", "5 replies to each item"):
        rng = np.random.default_rng((seed, len(kind)))
        found = [judged(list(equal_rows(kind, rng)))[0] for _ in range(sets)]
        real = sum(pair.verdict == REAL for pair in found) / sets
        plain = sum(pair.is_significant for pair in found) / sets
        print(f"- {kind}: {100 * real:.1f} % (as scored, {100 * plain:.0f} % have p < {ALPHA})")


def equal_rows(kind: str, rng: Any, num: int = 100) -> Iterator[Measurement]:
    """Two formats of equal ability on items that come in clusters."""
    of = np.arange(num) // 5
    difficulty = rng.standard_normal(num) + rng.standard_normal(of[-1] + 1)[of]
    chances = expit(1.3 - difficulty)
    for name, share in (("a", 0.0), ("b", 0.15)):
        if kind == "5 replies to each item":
            right, read = rng.random((5, num)) < chances, rng.random((5, num)) >= share
            scores, shares = (right & read).mean(axis=0), read.mean(axis=0)
            yield measurement(name, scores, shares > 0, shares_read=shares)
            continue
        read = rng.random(num) >= share
        if kind == "graded scores":
            graded = np.clip(chances + 0.3 * rng.standard_normal(num), 0.01, 1.0)
            yield measurement(name, graded * read, read)
        else:
            right = rng.random(num) < chances
            clusters = tuple(map(str, of.tolist()))
            yield measurement(name, (right & read).astype(float), read, clusters=clusters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for share in (0.5, 0.8):
        print(
            f"\nEqual ability, {share} right: called real, in per cent of {arguments.sets} data sets\n"
        )
        show(SETTINGS, (share, share), arguments.sets, arguments.seed)
    for better in (0.6, 0.7):
        print(
            f"\n{better} against 0.5 right: called real, in per cent of {arguments.sets} data sets\n"
        )
        show(POWER_SETTINGS, (better, 0.5), arguments.sets, arguments.seed)
    show_family(max(100, arguments.sets // 10), arguments.seed)
    show_kinds(max(100, arguments.sets // 10), arguments.seed)


if __name__ == "__main__":
    main()
