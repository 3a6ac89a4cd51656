"""Arguments of generation, and tokens that must fit a window, as backends of the harness treat them."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

from lm_eval.compat.helpers import maybe_warn, warning_once
from lm_eval.requests.options import REPLY_LIMITS, cut_at_stop

DEFAULT_MAX_LENGTH = 2048
DEFAULT_MAX_GEN_TOKS = 256
DEFAULT_RANDOM_SEED = 0
DEFAULT_OTHER_SEED = 1234
TOKENIZER_INFINITY = int(1e30)
"""The ``model_max_length`` of a tokenizer of transformers that knows no limit."""

_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_logger = logging.getLogger("lm_eval.models.utils")

Tokens = list[int]
GenKwargs = dict[str, Any]


def default_gen_kwargs(
    until: str | list[str] | None, max_gen_toks: int = DEFAULT_MAX_GEN_TOKS
) -> GenKwargs:
    """Greedy generation up to ``until``."""
    return {
        "temperature": 0.0,
        "do_sample": False,
        "max_gen_toks": max_gen_toks,
        "until": handle_stop_sequences(until, None),
    }


def normalize_gen_kwargs(
    gen_kwargs: Mapping[str, Any], default_max_gen_toks: int = DEFAULT_MAX_GEN_TOKS
) -> GenKwargs:
    """A copy with ``until`` as a list, ``max_gen_toks`` under that name, and ``do_sample`` set.

    Of several limits the first of ``max_gen_toks``, ``max_new_tokens``, ``max_tokens`` and
    ``max_completion_tokens`` counts. Without ``do_sample``, a temperature above 0 samples;
    ``do_sample=False`` sets the temperature to 0.
    """
    kwargs = copy.deepcopy(dict(gen_kwargs))
    until = kwargs.get("until", [])
    limits = {name: kwargs.pop(name, None) for name in REPLY_LIMITS}
    limits = {name: value for name, value in limits.items() if value is not None}
    if len(limits) > 1:
        warning_once(_logger, f"Several limits on new tokens: {limits}. The first counts.")
    do_sample, temperature = kwargs.get("do_sample"), float(kwargs.get("temperature", 0.0))
    if do_sample is None:
        kwargs["do_sample"] = temperature > 0.0
    elif do_sample is False:
        kwargs["temperature"] = 0.0
    if do_sample is not None and do_sample != (temperature > 0.0):
        warning_once(_logger, f"do_sample={do_sample} with temperature={temperature}.")
    kwargs["until"] = until if isinstance(until, list) else [until]
    kwargs["max_gen_toks"] = int(next(iter(limits.values()), default_max_gen_toks))
    return kwargs


def handle_stop_sequences(until: str | list[str] | None, eos: str | None) -> list[str]:
    """``until`` as a list, with the end-of-text token added at the end if it is missing."""
    if until is None or isinstance(until, str):
        until = [] if until is None else [until]
    if not isinstance(until, list):
        raise ValueError(f"until must be a text or a list of texts, not {until!r}")
    return until if eos is None or eos in until else [*until, eos]


def postprocess_generated_text(
    generation: str, stop: list[str] | str | None, think_end_token: str | None
) -> str:
    """What follows the last ``think_end_token``, up to the first of the stop sequences."""
    if think_end_token:
        generation = generation.rpartition(think_end_token)[2].lstrip()
    return cut_at_stop(generation, [stop] if isinstance(stop, str) else stop or [])


def truncate_tokens(tokens: Tokens, max_length: int, side: str = "left") -> Tokens:
    """At most ``max_length`` tokens; what is cut is on the left, on the right or in the middle."""
    if side == "left":
        return tokens[-max_length:]
    if side == "right":
        return tokens[:max_length]
    if side == "middle":
        half = max_length // 2
        return tokens[:half] + tokens[-(max_length - half) :]
    raise ValueError(f"Unknown side {side!r} to truncate. Sides: left, middle, right.")


def maybe_truncate(
    tokens: Tokens,
    max_gen_toks: int,
    max_model_len: int,
    min_gen_toks: int = 1,
    side: str = "left",
    shrink_gen_toks: bool = False,
    verbose: bool = True,
) -> tuple[Tokens, int]:
    """Tokens and number of new tokens that fit the window together.

    The prompt is cut; with ``shrink_gen_toks`` there are fewer new tokens instead, and the prompt is
    cut only if fewer than ``min_gen_toks`` of them would be left.
    """
    if len(tokens) + max_gen_toks <= max_model_len:
        return tokens, max_gen_toks
    room = max_model_len - len(tokens)
    maybe_warn(
        f"{len(tokens)} tokens of context and {max_gen_toks} new ones do not fit {max_model_len}.",
        verbose,
    )
    if not shrink_gen_toks:
        return truncate_tokens(tokens, max_model_len - max_gen_toks, side), max_gen_toks
    if room >= min_gen_toks:
        return tokens, room
    if max_model_len <= min_gen_toks:
        raise ValueError(
            f"A window of {max_model_len} tokens has no room for a prompt and {min_gen_toks} new ones"
        )
    return truncate_tokens(tokens, max_model_len - min_gen_toks, side), min_gen_toks


def resolve_max_length(
    config: Any, tokenizer: Any = None, *, default: int = DEFAULT_MAX_LENGTH
) -> int:
    """The window of a model: from its config (the part about text, if it has several), or tokenizer."""
    config = getattr(config, "text_config", None) or config
    lengths = [getattr(config, name, None) for name in _LENGTHS]
    limit = getattr(tokenizer, "model_max_length", None)
    lengths.append(None if limit == TOKENIZER_INFINITY else limit)
    return int(next((length for length in lengths if length is not None), default))


def configure_pad_token(tokenizer: Any, model_config: Any = None) -> Any:
    """The tokenizer with a padding token: its own, else the unknown or the end-of-text token."""
    if getattr(tokenizer, "pad_token_id", None) is not None or getattr(
        tokenizer, "pad_token", None
    ):
        return tokenizer
    for name in ("unk_token", "eos_token"):
        if getattr(tokenizer, name, None):
            tokenizer.pad_token_id = getattr(tokenizer, f"{name}_id")
            return tokenizer
    if getattr(model_config, "model_type", None) == "qwen":  # takes no new special tokens
        tokenizer.pad_token = "<|endoftext|>"
    elif type(tokenizer).__name__ not in ("RWKVWorldTokenizer", "Rwkv5Tokenizer"):  # pads with 0
        tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    return tokenizer


def has_bos_prefix(sequence: str, bos_str: str | Iterable[str] | None = None) -> bool:
    """Whether a text begins with the beginning-of-text token, or one of several."""
    starts = () if bos_str is None else (bos_str,) if isinstance(bos_str, str) else tuple(bos_str)
    return sequence.startswith(starts)


def _add_special_kwargs(
    add_special_tokens: bool | None, add_bos: bool | None = None
) -> dict[str, bool]:
    """What to call a tokenizer with; nothing if neither is set."""
    chosen = add_bos if add_special_tokens is None else add_special_tokens
    return {} if chosen is None else {"add_special_tokens": chosen}


def get_rolling_token_windows(
    token_list: Sequence[int], prefix_token: int, max_seq_len: int, context_len: int
) -> Iterator[tuple[Tokens, Tokens]]:
    """``(input, predicted)`` windows over a text that is longer than the model takes.

    Every token is predicted once. The first window begins with ``prefix_token``; each further one sees
    at least ``context_len`` tokens before the first that it predicts, and ends where the text ends.
    """
    assert 1 <= context_len <= max_seq_len
    tokens = list(token_list)
    if not tokens:
        return
    yield [prefix_token, *tokens[: max_seq_len - 1]][: len(tokens)], tokens[:max_seq_len]
    step = max_seq_len - context_len + 1
    for start in range(max_seq_len, len(tokens), step):
        end = min(start + step, len(tokens))
        yield tokens[end - max_seq_len - 1 : end - 1], tokens[start:end]


def make_disjoint_window(pair: tuple[Tokens, Tokens]) -> tuple[Tokens, Tokens]:
    """A rolling window as context and continuation, which share no token."""
    context, predicted = pair
    return context[: len(context) - (len(predicted) - 1)], predicted


def retry_on_specific_exceptions(
    on_exceptions: Sequence[type[Exception]],
    max_retries: int | None = None,
    backoff_time: float = 3.0,
    backoff_multiplier: float = 1.5,
    on_exception_callback: Callable[[Exception, float], Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that calls again after these exceptions, each time after a longer wait.

    After ``max_retries`` failures the call gives ``None``, as in the harness.
    """

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def again(*args: Any, **kwargs: Any) -> Any:
            wait_s, attempts = backoff_time, 0
            while max_retries is None or attempts < max_retries:
                try:
                    return call(*args, **kwargs)
                except tuple(on_exceptions) as error:
                    if on_exception_callback is not None:
                        on_exception_callback(error, wait_s)
                    time.sleep(wait_s)
                    wait_s *= backoff_multiplier
                    attempts += 1
            return None

        return again

    return decorate


def replace_placeholders(
    string: str, default_placeholder: str, image_token: str, max_images: int
) -> str:
    """The text with its first ``max_images`` placeholders as the model's token for an image.

    Further ones stay, unless the two are the same text: then they go.
    """
    head, *rest = string.split(default_placeholder)
    after = "" if default_placeholder == image_token else default_placeholder
    tokens = [image_token if index < max_images else after for index in range(len(rest))]
    return head + "".join(token + part for token, part in zip(tokens, rest, strict=True))


def flatten_image_list(images: Iterable[Iterable[Any]]) -> list[Any]:
    """All images of several docs in one list."""
    return [image for of_doc in images for image in of_doc]
