"""Searching the best or worst format with a budget of cells."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.errors import DataError, UsageError
from lm_eval.lab.sweep.search import halving


class Bench:
    """Formats with known chances; remembers every cell that was asked."""

    def __init__(self, chances: Sequence[float], seed: int, num_items: int = 20_000) -> None:
        rng = np.random.default_rng((seed, 7))
        # One uniform number per item: the formats agree as far as their chances allow.
        self.scores = (rng.random(num_items) < np.asarray(chances)[:, None]).astype(float)
        self.asked: list[tuple[int, int]] = []

    def __call__(self, formats: Sequence[int], items: Sequence[int]) -> np.ndarray:
        self.asked += [(f, i) for f in formats for i in items]
        return self.scores[np.ix_(formats, items)]


@given(st.integers(2, 40), st.integers(0, 400), st.integers(0, 50), st.booleans())
@settings(max_examples=60)
def test_no_cell_is_asked_twice_and_all_are_counted(
    formats: int, more: int, seed: int, worst: bool
) -> None:
    bench = Bench(np.linspace(0.2, 0.8, formats), seed, num_items=30)
    found = halving(formats, formats + more, bench, worst=worst, seed=seed, num_items=30)
    assert len(bench.asked) == len(set(bench.asked)) == found.cells <= formats + more
    assert found.used_items == {item for _, item in bench.asked}
    assert found.cells == sum(r.cells for r in found.rounds)


def test_halving_keeps_the_better_half_of_each_round_on_shared_new_items() -> None:
    bench = Bench(np.linspace(0.1, 0.9, 20), seed=1)
    found = halving(20, 2000, bench, seed=1, num_items=20_000)
    assert [len(r.formats) for r in found.rounds] == [20, 10, 5, 3, 2]
    assert all(1800 / 5 <= r.cells <= 2000 / 5 + 20 for r in found.rounds)
    seen: set[int] = set()
    for before, after in zip(found.rounds, found.rounds[1:], strict=False):
        seen |= set(before.items)
        assert not seen & set(after.items)
        assert after.formats == before.survivors
        kept = [before.means[before.formats.index(f)] for f in before.survivors]
        dropped = [
            m
            for f, m in zip(before.formats, before.means, strict=True)
            if f not in before.survivors
        ]
        assert min(kept) >= max(dropped)
    assert found.chosen == found.rounds[-1].survivors[0]
    assert found.reason is None


@pytest.mark.parametrize("worst", [False, True])
def test_the_extreme_format_is_found(worst: bool) -> None:
    chances = np.full(32, 0.5)
    chances[[3, 17]] = 0.2, 0.8
    found = [
        halving(32, 3200, Bench(chances, s), worst=worst, seed=s, num_items=20_000).chosen
        for s in range(20)
    ]
    assert found.count(3 if worst else 17) >= 19


def test_fresh_items_take_away_the_winners_luck() -> None:
    """Sixteen equal formats at 0.5: the search flatters its choice, items that it kept out do not."""
    flattery, fair = [], []
    for seed in range(200):
        scores = (np.random.default_rng(seed).random((16, 400)) < 0.5).astype(float)
        bench = Bench([0.5] * 16, seed)
        bench.scores = scores
        found = halving(16, 640, bench, seed=seed, num_items=400)
        fresh = [item for item in range(400) if item not in found.used_items]
        flattery.append(found.while_choosing.value - 0.5)
        fair.append(scores[found.chosen, fresh].mean() - 0.5)
    assert np.mean(flattery) > 0.05
    assert abs(np.mean(fair)) < 0.015


def test_items_that_run_out_are_named() -> None:
    bench = Bench(np.linspace(0.1, 0.9, 8), seed=3)
    found = halving(8, 10_000, bench, seed=3, num_items=60)
    assert found.reason == "the items ran out in round 1, so it asked less than its budget"
    assert found.cells == 8 * 60
    less = halving(8, 700, Bench(np.linspace(0.1, 0.9, 8), seed=3), seed=3, num_items=150)
    assert "ran out in round 3" in less.reason


def test_a_reserve_stays_fresh() -> None:
    found = halving(8, 10_000, Bench([0.5] * 8, seed=4), seed=4, num_items=60, reserve=20)
    assert len(found.used_items) == 40
    assert found.cells == 8 * 40


def test_the_same_seed_finds_the_same() -> None:
    runs = [halving(9, 300, Bench([0.5] * 9, 8), seed=8, num_items=500) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].to_dict()["used_items"] == sorted(runs[0].used_items)


def test_what_cannot_be_searched_is_refused() -> None:
    ask = Bench([0.5] * 4, seed=9)
    with pytest.raises(UsageError, match="at least 2 formats"):
        halving(1, 100, ask, num_items=50)
    with pytest.raises(UsageError, match="at least 4 cells"):
        halving(4, 3, ask, num_items=50)
    with pytest.raises(UsageError, match="besides the 5 kept fresh"):
        halving(4, 30, ask, num_items=5, reserve=5)
    with pytest.raises(DataError, match="the score is nan"):
        halving(4, 30, lambda rows, items: np.full((len(rows), len(items)), np.nan), num_items=50)
