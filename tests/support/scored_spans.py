"""What tests of scoring compare with: one plain forward for each span, nothing shared or padded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from lm_eval.models.local.token_tree import Span

CLOSE = 1e-4


def plain_scores(model: Any, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans with their scores, each by a forward of its own."""
    import torch

    with torch.inference_mode():
        for span in spans:
            logits = _without_past(model)(input_ids=torch.tensor([list(span.inputs)])).logits[0]
            rows = torch.log_softmax(logits[span.first_read :].double(), -1)
            for row, target in zip(rows, span.targets, strict=True):
                span.add(row[target].item(), int(row.argmax()) == target)
            yield span


def _without_past(model: Any) -> Any:
    """The model; a new one where it would remember the longest text it has seen."""
    if "dynamic" not in str(getattr(model.config, "rope_parameters", "")):
        return model
    new = type(model)(model.config).eval()
    new.load_state_dict(model.state_dict())
    return new


def spans_of(docs: Sequence[tuple[list[int], list[list[int]]]]) -> list[Span]:
    """Spans that score each continuation of each context."""
    pairs = [(context, choice) for context, choices in docs for choice in choices]
    return [
        Span(place, [*context, *choice][:-1], choice)
        for place, (context, choice) in enumerate(pairs)
    ]


def assert_scores(model: Any, done: Sequence[Span], asked: Sequence[Span]) -> None:
    """Each span that was asked for is done once, with the scores of a plain forward."""
    assert sorted(span.index for span in done) == list(range(len(asked)))
    expected = [Span(span.index, list(span.inputs), span.targets) for span in asked]
    for span, plain in zip(asked, plain_scores(model, expected), strict=True):
        assert span.logprob == pytest.approx(plain.logprob, abs=CLOSE)
        assert span.is_greedy == plain.is_greedy
