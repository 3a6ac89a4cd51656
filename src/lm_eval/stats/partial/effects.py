"""The prior of the effects of formats and items.

In: effects and the parameters of their distribution, chains as the last axis. Out: log densities
up to a constant. Sizes are in logits.
"""

from __future__ import annotations

import numpy as np

from lm_eval.stats.numeric import Floats

State = dict[str, Floats]
"""Parameters by name, one number per chain."""

# Half-normal priors of the effects' sizes; the level's and the broken formats' shift's normal ones;
# the share of broken formats is Beta(SHARE_A, SHARE_B).
SIZE_FORMATS, SIZE_ITEMS, SIZE_BROKEN = 0.8, 2.0, 0.5
LEVEL_SD = 2.0
SHIFT_MEAN, SHIFT_SD = -2.5, 1.0
SHARE_A, SHARE_B = 0.5, 4.0
NAMES = ("level", "log_formats", "logit_share", "shift", "log_broken")
ITEMS = "log_items"


def normal(value: Floats, log_size: Floats) -> Floats:
    """The log density of N(0, size²)."""
    density: Floats = -0.5 * (value * np.exp(-log_size)) ** 2 - log_size
    return density


def half_normal(log_size: Floats, scale: float) -> Floats:
    """The log density of a half-normal size, in terms of its logarithm."""
    return log_size - 0.5 * (np.exp(log_size) / scale) ** 2


def of_formats(residual: Floats, state: State) -> Floats:
    """The log density of each format's effect beyond the level: sound and broken formats mixed."""
    share = state["logit_share"]
    log_share = -np.logaddexp(0.0, -share)
    sound = log_share - share + normal(residual, state["log_formats"])
    broken = log_share + normal(residual - state["shift"], state["log_broken"])
    return np.logaddexp(sound, broken)


def broken_odds(residual: Floats, state: State) -> Floats:
    """The log odds that a format with this effect is broken."""
    sound = normal(residual, state["log_formats"])
    broken = normal(residual - state["shift"], state["log_broken"])
    return np.clip(state["logit_share"] + broken - sound, -500.0, 500.0)


def of_parameters(state: State) -> Floats:
    """The log density of the parameters of the formats' effects."""
    share = state["logit_share"]
    log_share = -np.logaddexp(0.0, -share)
    return (
        -0.5 * (state["level"] / LEVEL_SD) ** 2
        - 0.5 * ((state["shift"] - SHIFT_MEAN) / SHIFT_SD) ** 2
        + half_normal(state["log_formats"], SIZE_FORMATS)
        + half_normal(state["log_broken"], SIZE_BROKEN)
        + SHARE_A * log_share
        + SHARE_B * (log_share - share)
    )
