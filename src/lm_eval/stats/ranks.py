"""Whether models come in the same order under every format.

In: scores by model, format and item. Out: a ``RankStability``: how alike the formats rank the models,
how often two models swap places, and how alike one format ranks them on two halves of the items,
since noise alone also changes an order.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from lm_eval.stats.clusters import score_matrix, unit_sums
from lm_eval.stats.estimates import DEFAULT_SEED
from lm_eval.stats.numeric import ArrayLike, Floats, Generator, np
from lm_eval.stats.resampling import (
    DEFAULT_SPLITS,
    Measured,
    from_resamples,
    half_means,
    resampled_sums,
    resampling_method,
)
from lm_eval.support.encode import AsDict

DEFAULT_MARGIN = 0.02
OUTER_SHARE = 0.2
"""Statistics of orders are discrete, so the inner 95 % of the draws cover the truth less often. Only
this share of the outer 5 % is cut off, which simulations showed to be needed."""
TIE = 1e-12
NO_ORDER = "undefined: a format ties all models"
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class HalfRanks:
    """How alike models are ranked on two halves of the items: means over formats and splits.

    ``same`` is one format on both halves, the most that noise allows; ``across`` is one format on the
    one half and another format on the other. If the two are alike, formats do not change the order.
    ``w`` is Kendall's W of the two rankings. None if every ranking ties all models.
    """

    same_tau: float | None
    across_tau: float | None
    same_w: float | None
    across_w: float | None
    splits: int


@dataclass(frozen=True, slots=True)
class RankStability(AsDict):
    """How far the order of the models depends on the format.

    Noise alone makes models swap places, so these figures look less stable than the truth. Their
    intervals are about the scores on infinitely many items: items are resampled, and the interaction
    of models and formats is shrunk by the share of it that is noise. Each interval includes the figure
    itself and spans more than 95 % of the draws; simulations showed that 95 % coverage needs this
    (``benchmarks/coverage_spread.py``). ``halves`` is another view of how much is noise.
    """

    num_models: int
    num_formats: int
    num_items: int
    num_clusters: int | None
    w: Measured
    """Kendall's W with correction for ties: 1 if all formats rank alike. Needs three models."""
    tau: Measured
    """The mean of Kendall's tau-b over all pairs of formats."""
    tau_by_format: tuple[Measured, ...]
    """Each format's tau-b with the mean score under the other formats."""
    flip_rate: Measured
    """The share of (pair of formats, pair of models) in which the two models swap places."""
    reversal: Measured
    """The chance that a model ahead by ``margin`` under one format is as far behind under another."""
    margin: float
    taus: tuple[tuple[float | None, ...], ...]
    """Tau-b between every two formats; None if one of them ties all models."""
    halves: HalfRanks | None
    """None with fewer than two items (or clusters)."""

    KEYS = (
        *("num_models", "num_formats", "num_items", "num_clusters", "margin", "most_typical"),
        *("w", "tau", "flip_rate", "reversal", "tau_by_format", "taus", "halves"),
    )

    @property
    def most_typical(self) -> int | None:
        """The format that ranks the models most like the others; the first of several."""
        values = [tau.value for tau in self.tau_by_format]
        known = [value for value in values if value is not None]
        return values.index(max(known)) if known else None


def rank_stability(
    scores: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 1000,
    splits: int = DEFAULT_SPLITS,
    seed: int = DEFAULT_SEED,
    margin: float = DEFAULT_MARGIN,
) -> RankStability:
    """How stable the order of models is in ``scores`` (models × formats × items, the same items)."""
    table = score_matrix(scores, dims=("model", "format", "item"))
    num_models, num_formats, num_items = table.shape
    units, sizes = unit_sums(table.reshape(-1, num_items), clusters)
    shape = (-1, num_models, num_formats)
    rng, split_rng = (np.random.default_rng([seed, stream]) for stream in (1, 2))
    means = table.mean(axis=2)[None]
    observed = _statistics(means, margin)
    sums = resampled_sums(np.column_stack([units, sizes]), max(0, resamples), rng)
    drawn = (sums[:, :-1] / sums[:, -1:]).reshape(shape)
    draws = _statistics(shrunk(means, drawn, rng), margin)
    show = _IntervalMaker(
        num_items,
        len(units),
        "items" if clusters is None else "clusters",
        _possible(num_models, num_formats),
    )
    w = show("w", observed["w"], draws["w"], NO_ORDER)
    return RankStability(
        num_models=num_models,
        num_formats=num_formats,
        num_items=num_items,
        num_clusters=None if clusters is None else len(units),
        w=w if num_models > 2 else Measured(None, "Kendall's W needs three models or more"),
        tau=show("tau", observed["tau"], draws["tau"], NO_ORDER),
        tau_by_format=tuple(
            show("loo", observed["loo"][:, k], draws["loo"][:, k], NO_ORDER)
            for k in range(num_formats)
        ),
        flip_rate=show("flips", observed["flips"], draws["flips"], NO_ORDER),
        reversal=show(
            "reversal",
            observed["reversal"],
            draws["reversal"],
            f"no two models lie {margin:g} apart anywhere",
        ),
        margin=margin,
        taus=tuple(tuple(map(_known, row)) for row in observed["taus"][0].tolist()),
        halves=_half_ranks(units, sizes, shape, splits, split_rng),
    )


@dataclass(frozen=True, slots=True)
class _IntervalMaker:
    """Turns a value and its draws into a ``Measured``."""

    num_items: int
    num_units: int
    of: str
    possible: Mapping[str, tuple[float, float]]

    def __call__(self, name: str, value: Floats, draws: Floats, undefined: str) -> Measured:
        number = _known(float(value[0]))
        if number is None:
            return Measured(None, undefined)
        return order_from_draws(
            number,
            draws,
            n=self.num_items,
            num_units=self.num_units,
            of=self.of,
            possible=self.possible[name],
        )


def order_from_draws(
    value: float,
    draws: Floats,
    *,
    n: int,
    num_units: int,
    of: str,
    confidence: float = 0.95,
    possible: tuple[float, float] = (-1.0, 1.0),
) -> Measured:
    """``value``, a statistic of orders, with an interval from ``shrunk`` draws that includes it.

    The ends are values that were drawn, as orders have none in between, and lie in ``possible``: the
    least and the most where no two models tie, as none do on endless items.
    """
    everything = np.append(draws, value)  # so that constant draws still show the gap
    inner = 1.0 - OUTER_SHARE * (1.0 - confidence)
    measured = from_resamples(value, everything, n=n, num_units=num_units, of=of, confidence=inner)
    if measured.estimate is None or measured.estimate.stderr is None:
        return measured
    low, high = measured.estimate.low, measured.estimate.high
    if low is None or high is None:  # an order that no resample changes
        low = high = value
    drawn = np.sort(everything[np.isfinite(everything)])
    below = float(drawn[max(0, int(np.searchsorted(drawn, low + TIE, "right")) - 1)])
    above = float(drawn[min(len(drawn) - 1, int(np.searchsorted(drawn, high - TIE, "left")))])
    low, high = (min(max(end, possible[0]), possible[1]) for end in (below, above))
    method = f"shrunk {resampling_method(of, num_units)}"
    return Measured(
        replace(measured.estimate, low=min(low, value), high=max(high, value), method=method)
    )


def _possible(num_models: int, num_formats: int) -> dict[str, tuple[float, float]]:
    """The least and the most that each statistic can be where no two models tie.

    Two models swap places most often where half of the formats rank them either way.
    """
    pairs = num_formats * (num_formats - 1) / 2
    swaps = (num_formats // 2) * ((num_formats + 1) // 2) / pairs
    is_odd = num_formats % 2 == 1 and num_models % 2 == 0  # no rank sums are equal then
    return {
        "w": (3 / (num_formats**2 * (num_models**2 - 1)) if is_odd else 0.0, 1.0),
        "tau": (1.0 - 2 * swaps, 1.0),
        "loo": (-1.0, 1.0),
        "flips": (0.0, swaps),
        "reversal": (0.0, swaps),
    }


def tau_b(first: Floats, second: Floats) -> Floats:
    """Kendall's tau-b of each draw, draws × models twice; NaN if one side ties all."""
    left, right = signs(first), signs(second)
    lengths = (left**2).sum(axis=1) * (right**2).sum(axis=1)
    taus: Floats = (left * right).sum(axis=1) / np.sqrt(lengths)
    return taus


def signs(values: Floats) -> Floats:
    """The sign of the difference of every two models, draws × pairs; rounding errors count as ties."""
    rows, columns = np.triu_indices(values.shape[1], 1)
    gaps = values[:, rows] - values[:, columns]
    return np.where(np.abs(gaps) < TIE, 0.0, np.sign(gaps))


def _statistics(means: Floats, margin: float) -> dict[str, Floats]:
    """Every statistic of every draw of ``means``, draws × models × formats, a few at a time."""
    _, num_models, num_formats = means.shape
    cells = num_formats * (num_models**2 + num_formats)
    step = max(1, _CELLS_AT_ONCE // cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        starts = range(0, max(1, len(means)), step)
        parts = [_block(means[start : start + step], margin) for start in starts]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _block(means: Floats, margin: float) -> dict[str, Floats]:
    _, num_models, num_formats = means.shape
    ahead = signs(means)  # draws × pairs of models × formats
    rows, columns = np.triu_indices(num_formats, 1)
    taus = _taus(ahead, ahead)
    others = (means.sum(axis=2, keepdims=True) - means) / (num_formats - 1)
    wins, losses = (ahead > 0).sum(axis=2), (ahead < 0).sum(axis=2)
    first, second = np.triu_indices(num_models, 1)
    gaps = means[:, first] - means[:, second]
    clear = (gaps >= margin - TIE) & (ahead > 0), (gaps <= TIE - margin) & (ahead < 0)
    far_ahead, far_behind = (side.sum(axis=2) for side in clear)
    chances = (far_ahead + far_behind).sum(axis=1) * (num_formats - 1)
    return {
        "w": _concordance(_net_wins(ahead, num_models)),
        "tau": _mean_of_known(taus[:, rows, columns]),
        "taus": taus,
        "loo": tau_b(means, others),
        "flips": (wins * losses).sum(axis=1) / (len(rows) * wins.shape[1]),
        "reversal": 2 * (far_ahead * far_behind).sum(axis=1) / chances,
    }


def shrunk(means: Floats, drawn: Floats, rng: Generator) -> Floats:
    """Draws of the true scores, with the interaction of models and formats shrunk by its share of noise.

    The noise is estimated from ``drawn``, the resampled ``means``. How much of the interaction is real
    is itself uncertain, so each draw has its own share.
    """
    if not len(drawn):
        return drawn
    errors = drawn - means
    of_means, of_errors = _interaction(means), _interaction(errors)
    df = (means.shape[1] - 1) * (means.shape[2] - 1)
    noise = float((of_errors**2).sum()) / len(drawn) / df
    total = float((of_means**2).sum()) / rng.chisquare(df, len(drawn))
    real = np.divide(total - noise, total, out=np.ones_like(total), where=total > noise)
    shares = np.where(total > noise, real, 0.0 if noise > 0 else 1.0)[:, None, None]
    kept, kept_errors = shares * of_means, np.sqrt(shares) * of_errors
    truths: Floats = means - of_means + errors - of_errors + kept + kept_errors
    return truths


def _interaction(values: Floats) -> Floats:
    """The interaction in draws × models × formats: what main effects of both leave over."""
    by_model = values.mean(axis=2, keepdims=True)
    by_format = values.mean(axis=1, keepdims=True)
    rest: Floats = values - by_model - by_format + values.mean(axis=(1, 2), keepdims=True)
    return rest


def _taus(first: Floats, second: Floats) -> Floats:
    """Tau-b of every format's signs in ``first`` with every one's in ``second``."""
    products = first.transpose(0, 2, 1) @ second
    lengths = (first**2).sum(axis=1)[:, :, None] * (second**2).sum(axis=1)[:, None, :]
    taus: Floats = products / np.sqrt(lengths)
    return taus


def _net_wins(ahead: Floats, num_models: int) -> Floats:
    """For each model and format, models behind minus models in front: twice the centred rank."""
    rows, columns = np.triu_indices(num_models, 1)
    sides = np.zeros((num_models, len(rows)))
    sides[rows, np.arange(len(rows))] = 1.0
    sides[columns, np.arange(len(rows))] = -1.0
    return sides @ ahead


def _concordance(net: Floats) -> Floats:
    """W: the variance of the models' rank sums over the largest that these ties allow."""
    together = (net.sum(axis=2) ** 2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        shares: Floats = together / (net.shape[2] * (net**2).sum(axis=(1, 2)))
    return shares


def _half_ranks(
    units: Floats, sizes: Floats, shape: tuple[int, int, int], splits: int, rng: Generator
) -> HalfRanks | None:
    if len(units) < 2 or splits < 1:
        return None
    ahead = [signs(side.reshape(shape)) for side in half_means(units, sizes, splits, rng)]
    nets = [_net_wins(side, shape[1]) for side in ahead]
    with np.errstate(invalid="ignore", divide="ignore"):
        taus = _taus(*ahead)
        squares = [(net**2).sum(axis=1) for net in nets]
        products = nets[0].transpose(0, 2, 1) @ nets[1]
        ws = 0.5 + products / (squares[0][:, :, None] + squares[1][:, None, :])
    is_same = np.eye(shape[2], dtype=bool)
    values = [
        _known(float(_mean_of_known(statistic[:, where].reshape(1, -1))[0]))
        for statistic in (taus, ws)
        for where in (is_same, ~is_same)
    ]
    return HalfRanks(values[0], values[1], values[2], values[3], splits)


def _mean_of_known(values: Floats) -> Floats:
    """The mean of each row without its NaNs; NaN if nothing is left."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)
    return means


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
