"""Spans: which tokens are read and scored, in windows of a given size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lm_eval.models.local.model import rolling_spans


@given(st.integers(0, 60), st.integers(1, 20))
def test_rolling_spans_score_each_token_once_in_full_windows(length: int, window: int) -> None:
    text = list(range(100, 100 + length))
    spans = list(rolling_spans(3, 0, text, window=window))
    assert [token for span in spans for token in span.targets] == text
    for span in spans:
        assert span.index == 3
        assert len(span.inputs) <= window
        assert len(span.targets) <= len(span.inputs) or not text
    assert all(len(span.inputs) == window for span in spans[:-1])
