"""The spread of formats that one half of the items chooses and the other half scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval.stats import resampling
from lm_eval.stats.spread import spread


def test_without_an_effect_the_other_half_shows_none():
    """Ten formats that do not differ seem to spread over 8 points, and on other items over none."""
    rng = np.random.default_rng(0)
    halves, raw = [], []
    for _ in range(150):
        found = spread((rng.random((10, 200)) < rng.random(200)).astype(float), resamples=2)
        halves.append(found.split_half)
        raw.append(found.value)
    assert np.mean(halves) == pytest.approx(0, abs=3 * np.std(halves) / math.sqrt(150))
    assert np.mean(raw) > 0.07


def test_a_clear_effect_is_kept():
    rng = np.random.default_rng(1)
    table = (rng.random((5, 400)) < np.array([[0.7], [0.5], [0.5], [0.5], [0.3]])).astype(float)
    found = spread(table, resamples=2)
    assert found.split_half == pytest.approx(found.value, abs=0.01)


def test_four_items_by_hand():
    """Each half chooses one of two formats; three ways to halve four items, each both ways round."""
    table = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    # Halves {0,1} | {2,3}: +1 → 0; a tie scores 0. {0,2} | {1,3} and {0,3} | {1,2}: 1/2 each way.
    found = [spread(table, resamples=2, seed=seed).split_half for seed in range(40)]
    assert np.mean(found) == pytest.approx((0 + 0.5 + 0.5) / 3, abs=0.02)


def test_clusters_stay_whole():
    """Copies of an item on both sides would choose and report on the same scores."""
    rng = np.random.default_rng(3)
    table = (rng.random((6, 30)) < 0.5).astype(float)
    copies = np.repeat(table, 4, axis=1)
    names = np.repeat(range(30), 4).tolist()
    clustered = spread(copies, clusters=names, resamples=2)
    assert clustered.split_half == pytest.approx(spread(table, resamples=2).split_half, abs=1e-9)
    assert spread(copies, resamples=2).split_half > clustered.split_half + 0.05


def test_one_item_cannot_be_halved():
    assert spread([[1], [0], [0]], resamples=2).split_half is None


def test_blocks_of_splits_draw_as_all_at_once(monkeypatch):
    """What is drawn, and so every printed number, does not depend on how much is held at a time."""
    units = (np.random.default_rng(5).random((3000, 3)) < [0.5, 0.4, 0.45]).astype(float)
    for cells, multiplications in ((200_000, 2**18), (1, 1_000), (10**9, 10**9)):
        monkeypatch.setattr(resampling, "SPLIT_CELLS", cells)
        monkeypatch.setattr(resampling, "UNTHREADED", multiplications)
        rng = np.random.default_rng(11)
        first, second = resampling.half_means(units, np.ones(3000), 7, rng)
        assert (first * 1500).round().tolist() == [
            *([739, 617, 689], [781, 607, 676], [765, 617, 672], [739, 606, 680]),
            *([753, 605, 681], [753, 593, 671], [790, 628, 672]),
        ]
        assert (first + second) * 1500 == pytest.approx(np.tile(units.sum(axis=0), (7, 1)))
