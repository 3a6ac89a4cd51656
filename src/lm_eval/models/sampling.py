"""What generating backends share: seeds, drawing tokens, splitting replies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.errors import UsageError
from lm_eval.requests import GenerateRequest
from lm_eval.requests.options import GenerationOptions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


Sample = Callable[["npt.NDArray[np.float64]"], int]
"""Picks a token from logits."""


def split_reasoning(
    tokens: Sequence[int],
    mark: str | int | None,
    decode: Callable[[Sequence[int]], str],
    text: str | None = None,
) -> tuple[str | None, str]:
    """``(reasoning, answer)``: what comes before the last ``mark``, a text or a token, and behind it.

    Without a mark all is answer and the reasoning is None. ``text`` is the text of the tokens, if it
    is known.
    """
    if isinstance(mark, int) and mark in tokens:
        last = len(tokens) - 1 - list(tokens)[::-1].index(mark)
        return decode(tokens[:last]), decode(tokens[last + 1 :]).lstrip()
    text = decode(tokens) if text is None else text
    if isinstance(mark, str) and mark in text:
        reasoning, _, answer = text.rpartition(mark)
        return reasoning, answer.lstrip()
    return None, text


def valid_text(text: str) -> str:
    """The text with half surrogate pairs, which are not characters, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
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
    """Draws the tokens of one request, by its own seed or else ``seed``; None if it is greedy.

    Each request has its own random stream, so that other requests change nothing. ``top_k`` 0 and
    ``top_p`` 1 keep all tokens. Temperature first, then top-k, then top-p, the order of
    ``transformers``.
    """
    if not options.temperature:
        return None
    import numpy as np

    stream = np.random.default_rng(request_seed(options.extra.get("seed", seed), request))
    top_p = float(options.extra.get("top_p") or 1.0)
    top_k = int(options.extra.get("top_k") or 0)

    def sample(logits: npt.NDArray[np.float64]) -> int:
        kept = np.argsort(-logits, kind="stable")
        if top_k:
            kept = kept[:top_k]
        scaled = (logits[kept] - logits[kept[0]]) / options.temperature
        weights = np.exp(scaled)
        sums = np.cumsum(weights)
        if top_p < 1:
            kept_mass = int(np.searchsorted(sums, top_p * sums[-1])) + 1
            sums = sums[:kept_mass]
        drawn = int(np.searchsorted(sums, stream.random() * sums[-1], side="right"))
        return int(kept[min(drawn, len(sums) - 1)])

    return sample


def prompt_room(request: GenerateRequest, max_gen_toks: int, *, window: int, argument: str) -> int:
    """How many tokens of a prompt fit the window beside the reply; an error if none does."""
    if window <= max_gen_toks:
        raise UsageError(
            f"Task {request.task!r} asks for up to {max_gen_toks} generated tokens, but the window "
            f"is {window}. Lower max_gen_toks with --gen_kwargs, or raise {argument} in --model_args "
            "if the model allows it."
        )
    return window - max_gen_toks
