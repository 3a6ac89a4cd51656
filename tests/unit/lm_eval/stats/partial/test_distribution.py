"""The distribution over formats from a few cells: known answers, oracles and simulated data."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from lm_eval.errors import DataError, UsageError
from lm_eval.stats.partial import sampler as prior
from lm_eval.stats.partial.distribution import Distribution, balanced_cells, estimate_distribution

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


@pytest.mark.parametrize(("size", "broken"), [(0.15, 0.0), (0.4, 0.0), (0.9, 0.0), (0.3, 0.15)])
def test_the_error_is_at_most_half_that_of_ridge_rasch(size: float, broken: float) -> None:
    """100 formats × 300 items, 800 cells; benchmarks/few_cells.py has the figures of more data."""
    rng = np.random.default_rng(20)
    effects = size * rng.standard_normal(100) - 2.5 * (rng.random(100) < broken)
    scores = simulated(effects, 300, rng)
    true = np.sort(scores.mean(axis=1))
    found = estimated(scores, 800)
    cells = balanced_cells(100, 300, 800, 1)
    rasch = np.sort(ridge_rasch(cells, [scores[c] for c in cells], 100, 300))
    assert np.abs(found.ordered - true).mean() <= 0.5 * np.abs(rasch - true).mean()
    assert found.mean.low <= true.mean() <= found.mean.high
    held = [
        e.low <= t <= e.high for e, t in zip(found.per_format, scores.mean(axis=1), strict=True)
    ]
    assert np.mean(held) >= 0.9


def by_importance(
    cells: list[Cell], outcomes: list[float], formats: int, items: int
) -> tuple[Any, Any]:
    """Mean and standard deviation of each format's score: draws of the prior, weighted."""
    rng, count = np.random.default_rng(5), 200_000
    level = prior.LEVEL_SD * rng.standard_normal(count)
    sound, odd, size = (
        scale * np.abs(rng.standard_normal(count))
        for scale in (prior.SIZE_FORMATS, prior.SIZE_BROKEN, prior.SIZE_ITEMS)
    )
    share = rng.beta(prior.SHARE_A, prior.SHARE_B, count)
    shift = prior.SHIFT_MEAN + prior.SHIFT_SD * rng.standard_normal(count)
    is_broken = rng.random((formats, count)) < share
    t = level + np.where(is_broken, shift, 0.0)
    t += np.where(is_broken, odd, sound) * rng.standard_normal((formats, count))
    chances = expit(t[:, None] + size * rng.standard_normal((items, count)))
    noise = chances * (1 - chances)
    weights = np.ones(count)
    for cell, outcome in zip(cells, outcomes, strict=True):
        weights *= chances[cell] if outcome else 1 - chances[cell]
        chances[cell], noise[cell] = outcome, 0.0
    weights /= weights.sum()
    scores, variance = chances.mean(axis=1), noise.sum(axis=1) / items**2
    mean = scores @ weights
    return mean, np.sqrt((scores**2 + variance) @ weights - mean**2)


CORNER = [(0, 0), (0, 1), (1, 0), (2, 1), (2, 2), (1, 3)]


def test_the_sampler_agrees_with_weighted_draws_of_the_prior() -> None:
    """Four formats, the last of which is never asked."""
    outcomes = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    mean, deviation = by_importance(CORNER, outcomes, 4, 4)
    found = estimate_distribution(CORNER, outcomes, 4, 4, draws=4000)
    assert [e.value for e in found.per_format] == pytest.approx(mean, abs=0.03)
    assert [e.stderr for e in found.per_format] == pytest.approx(deviation, abs=0.03)


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
    assert found.quantiles[25].value == pytest.approx(np.quantile(means, 0.25))
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
    assert mean_of_draws > 1.6 * true
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
    assert of_binary.mean.method == "posterior, calibrated by simulation"
    assert of_graded.mean.method == "posterior, approximate"  # nobody simulated these
    true = graded.mean(axis=1)
    held = [e.low <= t <= e.high for e, t in zip(of_graded.per_format, true, strict=True)]
    assert np.mean(held) >= 0.9
    width = [np.mean([e.high - e.low for e in d.per_format]) for d in (of_graded, of_binary)]
    assert width[0] < 0.5 * width[1]


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


def test_formats_of_two_kinds_are_called_a_heavy_tail() -> None:
    rng = np.random.default_rng(8)
    scores = simulated(np.repeat([-6.0, 6.0], 30), 100, rng)
    found = estimated(scores, 600)
    said = [warning for warning in found.warnings if "Heavy tail" in warning]
    assert any("1200 cells" in warning for warning in said)
    assert any(" % of the formats seem to score far from" in warning for warning in said)


def test_few_cells_per_format_are_named() -> None:
    found = estimate_distribution([(0, 0), (1, 1)], [1.0, 0.0], 10, 10)
    assert any("0.2 cells per format" in w and "40 cells" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("cells", "outcomes", "options", "error", "message"),
    [
        ([(0, 0)], [], {}, UsageError, "1 cells and 0 outcomes"),
        ([], [], {}, UsageError, "at least one cell"),
        ([(0, 0), (1, 2)], [0.0, float("nan")], {}, DataError, "Format 1, item 2: the score nan"),
        ([(0, 0)], [1.5], {}, DataError, "between 0 and 1"),
        ([(0, 9)], [1.0], {}, UsageError, "lies outside"),
        ([(0, 0), (0, 0)], [1.0, 1.0], {}, UsageError, "listed twice"),
        ([(0, 0)], [1.0], {"draws": 3}, UsageError, "Draws lie between"),
    ],
)
def test_what_cannot_be_estimated_is_refused(
    cells: list[Cell], outcomes: list[float], options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        estimate_distribution(cells, outcomes, 3, 4, **options)
