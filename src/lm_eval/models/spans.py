"""What backends with a tokenizer of their own share: from encoded texts to spans of tokens to score.

A span holds the tokens the model reads and the last of them it is asked about; how they go through
the model is the scorer's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from lm_eval.errors import ModelError, UsageError
from lm_eval.models.token_tree import Span
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest

T = TypeVar("T")


def continuation_span(
    place: int, context: list[int], continuation: list[int], *, window: int
) -> tuple[Span, bool]:
    """The span that scores a continuation, and whether its beginning was cut to fit the window.

    The last token is only predicted, never read, so ``window + 1`` tokens fit.
    """
    tokens = (context + continuation)[:-1]
    return Span(place, tokens[-window:], continuation), len(tokens) > window


def rolling_spans(place: int, prefix: int, text: list[int], *, window: int) -> Iterator[Span]:
    """Spans that score each token of a text once.

    The first begins with the prefix token. Each later one gives as much context as fits and scores
    only tokens that none before it scored.
    """
    tokens = [prefix, *text]
    last = len(tokens) - 1
    if last == 0:
        yield Span(place, [], [])
    for scored in range(0, last, window):
        end = min(scored + window, last)
        yield Span(
            place,
            inputs=tokens[max(0, end - window) : end],
            targets=tokens[scored + 1 : end + 1],
        )


def sum_by_place(
    spans_of: Iterable[tuple[int, list[Span]]],
    score: Callable[[Iterator[Span]], Iterator[Span]],
) -> Iterator[tuple[int, float]]:
    """``(place, sum of its spans)`` as sums are complete; ``spans_of`` gives each place once."""
    sums: dict[int, float] = {}
    left: dict[int, int] = {}

    def spans() -> Iterator[Span]:
        for place, parts in spans_of:
            sums[place], left[place] = 0.0, len(parts)
            yield from parts

    for span in score(spans()):
        sums[span.place] += span.logprob
        left[span.place] -= 1
        if not left[span.place]:
            yield span.place, sums.pop(span.place)


def check_continuation(
    request: LoglikelihoodRequest, length: int, *, window: int, argument: str
) -> None:
    """Refuse a continuation that does not fit the window even without its context."""
    if length > window:
        raise ModelError(
            f"Task {request.task!r}, doc {request.doc_id}: a continuation of {length} tokens does "
            f"not fit the window of {window}. Raise {argument} in --model_args, or leave the doc "
            "out with --samples."
        )


def prompt_room(request: GenerateRequest, max_gen_toks: int, *, window: int, argument: str) -> int:
    """How many tokens of a prompt fit the window beside the reply; an error if none does."""
    if window <= max_gen_toks:
        raise UsageError(
            f"Task {request.task!r} asks for up to {max_gen_toks} generated tokens, but the window "
            f"is {window}. Lower max_gen_toks with --gen_kwargs, or raise {argument} in --model_args "
            "if the model allows it."
        )
    return window - max_gen_toks


def window_notes(
    model: str, *, argument: str, window: int, trained: int, truncated: int, empty: int
) -> list[str]:
    """What a reader of the results should know about texts and the window they had to fit."""
    notes = []
    if truncated:
        notes.append(
            f"{truncated} requests were longer than the window of {window} tokens and lost their "
            f"beginning. Raise {argument} in --model_args if the model allows it."
        )
    if window > trained:
        notes.append(
            f"{argument}={window} is more than the {trained} tokens that {model} was made for. "
            "Longer texts may get poor scores."
        )
    if empty:
        notes.append(f"{empty} continuations have no token of their own and scored 0.")
    return notes


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most ``size``, read as they are asked for."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
