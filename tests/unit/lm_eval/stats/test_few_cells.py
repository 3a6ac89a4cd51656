"""The distribution over formats from a few cells: known answers, oracles and simulated data."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from lm_eval.stats import few_cells
from lm_eval.stats.few_cells import Distribution, balanced_cells, estimate_distribution

Cell = tuple[int, int]


def simulated(effects: Any, items: int, rng: Any) -> Any:
    """Right and wrong: formats differ, items differ, and so do single cells."""
    logits = 0.5 + effects[:, None] + 1.3 * rng.standard_normal(items)
    logits = logits + 0.5 * rng.standard_normal((len(effects), items))
    return (rng.random(logits.shape) < expit(logits)).astype(float)


def estimated(scores: Any, budget: int, seed: int = 1, **options: Any) -> Distribution:
    cells = balanced_cells(*scores.shape, budget, seed)
    return estimate_distribution(cells, [scores[c] for c in cells], *scores.shape, **options)


def ridge_rasch(cells: list[Cell], outcomes: list[float], formats: int, items: int) -> Any:
    """PromptEval's estimator without covariates: unseen cells filled by a ridge regression."""
    rows, columns = np.array(cells).T
    place, ones = np.arange(len(cells)), np.ones(len(cells))
    design = sparse.csr_array((ones, (place, rows)), shape=(len(cells), formats + items))
    design += sparse.csr_array((ones, (place, formats + columns)), shape=design.shape)
    model = LogisticRegression(C=100.0, max_iter=2000).fit(design, outcomes)
    weights = model.coef_[0]
    filled = expit(model.intercept_[0] + weights[:formats, None] + weights[formats:])
    filled[rows, columns] = outcomes
    return filled.mean(axis=1)


@pytest.mark.parametrize(
    ("size", "broken", "bound"),
    [(0.15, 0.0, 0.5), (0.4, 0.0, 0.5), (0.9, 0.0, 0.5), (0.3, 0.15, 0.65)],
)
def test_the_error_is_far_below_that_of_ridge_rasch(
    size: float, broken: float, bound: float
) -> None:
    """100 formats × 300 items, 800 cells; benchmarks/few_cells.py has the figures of more data."""
    rng = np.random.default_rng(20)
    effects = size * rng.standard_normal(100) - 2.5 * (rng.random(100) < broken)
    scores = simulated(effects, 300, rng)
    true = np.sort(scores.mean(axis=1))
    found = estimated(scores, 800)
    cells = balanced_cells(100, 300, 800, 1)
    rasch = np.sort(ridge_rasch(cells, [scores[c] for c in cells], 100, 300))
    assert np.abs(found.ordered - true).mean() <= bound * np.abs(rasch - true).mean()
    assert found.mean.low <= true.mean() <= found.mean.high
    held = [
        e.low <= t <= e.high for e, t in zip(found.per_format, scores.mean(axis=1), strict=True)
    ]
    assert np.mean(held) >= 0.9


def test_effects_and_likelihood_are_those_of_the_dense_normal_model() -> None:
    """Five formats and seven items, some of them never asked."""
    rng = np.random.default_rng(2)
    cells = [(f, i) for f in range(4) for i in range(6) if rng.random() < 0.6]
    rows, columns = np.array(cells).T
    rest = rng.standard_normal((len(cells), 1))
    grid = few_cells._Grid(rows, columns, rest[:, 0], 5, 7)
    found = []
    for of_formats, of_items in ((0.3, 0.5), (0.02, 1.5)):
        common = few_cells.LEVEL_VARIANCE
        formats = common + of_formats * np.eye(5)
        items = of_items * np.eye(7)
        seen = formats[np.ix_(rows, rows)] + items[np.ix_(columns, columns)] + np.eye(len(cells))
        fit = few_cells._Fit(grid, rest, of_formats, of_items)
        weights = np.linalg.solve(seen, rest)
        for effects, dense, places in zip(
            fit.effects(rest), (formats, items), (rows, columns), strict=True
        ):
            assert effects == pytest.approx(dense[:, places] @ weights)
        squares = few_cells.UNSEEN_SQUARES + (rest.T @ weights).item()
        assert fit.squares == pytest.approx(squares)
        log_density = np.linalg.slogdet(seen)[1] + (len(cells) - 1) * np.log(squares)
        found.append(2 * fit.log_likelihood + log_density - np.log(of_formats))
    assert found[0] == pytest.approx(found[1])


@given(st.integers(1, 6), st.integers(1, 8), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_a_full_grid_gives_the_plain_means_without_uncertainty(
    formats: int, items: int, random: Any
) -> None:
    cells = [(f, i) for f in range(formats) for i in range(items)]
    random.shuffle(cells)
    outcomes = [random.choice([0.0, 0.25, 1.0]) for _ in cells]
    scores = np.empty((formats, items))
    for cell, outcome in zip(cells, outcomes, strict=True):
        scores[cell] = outcome
    means = scores.mean(axis=1)
    found = estimate_distribution(cells, outcomes, formats, items)
    assert [e.value for e in found.per_format] == means.tolist()
    assert found.spread.value == means.max() - means.min()
    assert found.quantiles[50].value == pytest.approx(np.quantile(means, 0.5))
    assert found.mean.value == pytest.approx(means.mean())
    for estimate in (found.mean, found.spread, *found.quantiles.values(), *found.per_format):
        assert estimate.low == estimate.value == estimate.high
        assert estimate.method == "all cells seen"


def test_formats_seen_on_every_item_keep_their_means() -> None:
    rng = np.random.default_rng(3)
    scores = simulated(0.5 * rng.standard_normal(6), 12, rng)
    cells = [(f, i) for f in range(6) for i in range(12) if f < 3 or i < 4]
    found = estimate_distribution(cells, [scores[c] for c in cells], 6, 12)
    for row in range(3):
        exact = found.per_format[row]
        assert exact.value == pytest.approx(scores[row].mean(), abs=1e-12)
        assert exact.low == pytest.approx(exact.high, abs=1e-12)
    assert found.per_format[4].low < found.per_format[4].high


def test_everything_right_leaves_room_for_the_unseen() -> None:
    found = estimate_distribution(balanced_cells(10, 30, 60, 1), [1.0] * 60, 10, 30)
    assert found.mean.value > 0.9
    assert found.mean.low < 1.0
    assert found.mean.high == 1.0
    assert found.seen_mean == 1.0


def test_the_spread_of_formats_that_do_not_differ_is_far_below_the_mean_of_its_draws() -> None:
    """That mean is about twice the truth: a few cells cannot rule out one bad format."""
    true, mean_of_draws, value = 0.0, 0.0, 0.0
    for seed in range(3):
        scores = simulated(np.zeros(20), 80, np.random.default_rng((seed, 5)))
        found = estimated(scores, 160, seed=seed)
        true += np.ptp(scores.mean(axis=1))
        mean_of_draws += found.ordered[-1] - found.ordered[0]
        value += found.spread.value
        assert found.spread.low <= found.spread.value <= found.spread.high
    assert mean_of_draws > 1.5 * true
    assert value < 1.25 * true


def test_one_format_has_no_spread_and_one_item_has_all_of_it() -> None:
    one_format = estimate_distribution([(0, i) for i in range(20)], [1.0, 0.0] * 10, 1, 40)
    assert one_format.spread.value == 0.0
    assert one_format.mean.value == pytest.approx(0.5, abs=0.05)
    assert one_format.mean.low < 0.5 < one_format.mean.high
    one_item = estimate_distribution([(f, 0) for f in range(20)], [1.0, 0.0] * 10, 40, 1)
    assert one_item.spread.value == 1.0
    assert set(one_item.ordered) <= {0.0, 1.0} | set(one_item.ordered[10:30])


def test_graded_scores_are_more_telling_than_right_and_wrong() -> None:
    rng = np.random.default_rng(4)
    chances = expit(0.8 * rng.standard_normal(20)[:, None] + rng.standard_normal(60))
    graded = np.clip(chances + 0.05 * rng.standard_normal(chances.shape), 0.0, 1.0)
    binary = (rng.random(chances.shape) < chances).astype(float)
    of_graded, of_binary = estimated(graded, 240), estimated(binary, 240)
    assert of_binary.mean.method == few_cells.CALIBRATED
    assert of_graded.mean.method == few_cells.APPROXIMATE  # nobody simulated these
    true = graded.mean(axis=1)
    held = [e.low <= t <= e.high for e, t in zip(of_graded.per_format, true, strict=True)]
    assert np.mean(held) >= 0.9
    width = [np.mean([e.high - e.low for e in d.per_format]) for d in (of_graded, of_binary)]
    assert width[0] < 0.5 * width[1]


def test_scores_need_not_lie_between_0_and_1() -> None:
    rng = np.random.default_rng(6)
    scores = 40 + 3 * rng.standard_normal((20, 1)) + 5 * rng.standard_normal((20, 60))
    found = estimated(scores, 240)
    true = scores.mean(axis=1)
    assert found.mean.low <= true.mean() <= found.mean.high
    held = [e.low <= t <= e.high for e, t in zip(found.per_format, true, strict=True)]
    assert np.mean(held) >= 0.9


def test_the_same_seed_gives_the_same_numbers_ready_for_json() -> None:
    rng = np.random.default_rng(7)
    scores = simulated(0.4 * rng.standard_normal(8), 1000, rng)
    first, second = (estimated(scores, 80, seed=2) for _ in range(2))
    assert first == second
    kept = json.loads(json.dumps(first.to_dict()))
    assert kept["quantiles"]["50"]["value"] == first.quantiles[50].value
    assert kept["mean"]["method"] == first.mean.method
    assert first.seen_mean == pytest.approx(
        np.mean([scores[c] for c in balanced_cells(8, 1000, 80, 2)])
    )


def test_few_cells_per_format_are_named() -> None:
    found = estimate_distribution([(0, 0), (1, 1)], [1.0, 0.0], 10, 10)
    assert any("0.2 cells per format" in w and "40 cells" in w for w in found.warnings)


# Which cells are asked


@st.composite
def grids(draw: st.DrawFn) -> tuple[int, int, int, int]:
    formats, items = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    return formats, items, draw(st.integers(1, formats * items)), draw(st.integers(0, 99))


def counts(cells: list[tuple[int, int]], axis: int, size: int) -> list[int]:
    found = Counter(cell[axis] for cell in cells)
    return [found[place] for place in range(size)]


@given(grids())
def test_formats_are_asked_equally_often_and_so_are_items(grid: tuple[int, int, int, int]) -> None:
    formats, items, budget, seed = grid
    cells = balanced_cells(formats, items, budget, seed)
    assert len(set(cells)) == len(cells) == budget
    for axis, size in enumerate((formats, items)):
        asked = counts(cells, axis, size)
        assert max(asked) - min(asked) <= 1
    assert cells == balanced_cells(formats, items, budget, seed)


@given(grids(), st.data())
def test_a_larger_budget_keeps_every_cell_that_was_paid_for(
    grid: tuple[int, int, int, int], data: st.DataObject
) -> None:
    formats, items, budget, seed = grid
    paid = balanced_cells(formats, items, budget, seed)
    more = data.draw(st.integers(budget, formats * items))
    cells = balanced_cells(formats, items, more, seed)
    assert cells[:budget] == paid
    assert len(set(cells)) == more
    for axis, size in enumerate((formats, items)):
        asked = counts(cells, axis, size)
        assert max(asked) - min(asked) <= 1


def test_the_whole_grid_is_every_cell_once() -> None:
    assert sorted(balanced_cells(3, 4, 12, seed=5)) == [(f, i) for f in range(3) for i in range(4)]


def test_many_items_are_used_once_each_before_any_twice() -> None:
    cells = balanced_cells(100, 14_042, 800, seed=3)
    assert len({item for _, item in cells}) == 800


def test_seeds_choose_different_cells() -> None:
    lists = [frozenset(balanced_cells(10, 30, 60, seed)) for seed in range(20)]
    assert len(set(lists)) == 20
    # Over many seeds every cell has the same chance: 60 of 300.
    found = Counter(cell for seed in range(2000) for cell in balanced_cells(10, 30, 60, seed))
    assert len(found) == 300
    assert min(found.values()) > 320
    assert max(found.values()) < 480
