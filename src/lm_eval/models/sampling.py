"""What every backend that generates needs: seeds, drawing tokens, and the end at a stop string."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.models.base import GenerationOptions
from lm_eval.requests import GenerateRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Sample = Callable[["npt.NDArray[np.float64]"], int]
"""Picks a token from logits."""


def cut_at_stop(text: str, until: Sequence[str]) -> str:
    """``text`` before the first of the stop strings."""
    for stop in until:
        if stop:
            text = text.partition(stop)[0]
    return text


def repeat_number(request: GenerateRequest) -> int:
    """Which of its repeats a request is, from 0."""
    return request.index % max(request.repeats, 1)


def request_seed(seed: Any, request: GenerateRequest) -> int:
    """A seed for this request alone, whatever else is generated beside it."""
    name = f"{seed}\0{request.task}\0{request.doc_id}\0{request.index}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def request_sampler(
    request: GenerateRequest, options: GenerationOptions, seed: int
) -> Sample | None:
    """Draws the tokens of one request, by its own seed or else ``seed``; None where it is greedy."""
    if not options.temperature:
        return None
    return sampler(
        request_seed(options.extra.get("seed", seed), request),
        temperature=options.temperature,
        top_p=float(options.extra.get("top_p") or 1.0),
        top_k=int(options.extra.get("top_k") or 0),
    )


def sampler(seed: int, *, temperature: float, top_p: float, top_k: int) -> Sample:
    """Draws tokens with a random stream of its own, so that other requests change nothing.

    ``top_k`` 0 and ``top_p`` 1 keep all tokens. Temperature first, then top-k, then top-p, the
    order of ``transformers``.
    """
    import numpy as np

    stream = np.random.default_rng(seed)

    def sample(logits: npt.NDArray[np.float64]) -> int:
        kept = np.argsort(-logits, kind="stable")
        if top_k:
            kept = kept[:top_k]
        scaled = (logits[kept] - logits[kept[0]]) / temperature
        weights = np.exp(scaled)
        sums = np.cumsum(weights)
        if top_p < 1:
            kept_mass = int(np.searchsorted(sums, top_p * sums[-1])) + 1
            sums = sums[:kept_mass]
        drawn = int(np.searchsorted(sums, stream.random() * sums[-1], side="right"))
        return int(kept[min(drawn, len(sums) - 1)])

    return sample
