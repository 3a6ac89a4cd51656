"""Windows over long texts, and calls that are repeated after an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.compat.generation import (
    get_rolling_token_windows,
    make_disjoint_window,
    retry_on_specific_exceptions,
)


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_every_token_is_predicted_once(length: int, window: int, data: st.DataObject) -> None:
    context = data.draw(st.integers(1, window))
    tokens = list(range(length))
    pairs = list(get_rolling_token_windows(tokens, -1, window, context))
    assert [token for _, predicted in pairs for token in predicted] == tokens
    for number, (seen, predicted) in enumerate(pairs):
        assert len(seen) <= window
        assert seen[-len(predicted) :] == [-1, *tokens][predicted[0] : predicted[-1] + 1]
        assert number == 0 or len(seen) - len(predicted) + 1 >= context
        before, same = make_disjoint_window((seen, predicted))
        assert same == predicted
        assert before == seen[: len(seen) - len(predicted) + 1]


def test_a_context_longer_than_the_window_is_refused() -> None:
    with pytest.raises(AssertionError):
        list(get_rolling_token_windows([1, 2], 0, 3, 4))


def test_a_call_is_repeated_after_the_errors_named(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    seen: list[tuple[str, float]] = []

    @retry_on_specific_exceptions(
        [OSError], max_retries=3, on_exception_callback=lambda e, wait: seen.append((str(e), wait))
    )
    def call(errors: list[Exception]) -> str:
        if errors:
            raise errors.pop(0)
        return "answered"

    assert call([OSError("a"), OSError("b")]) == "answered"
    assert waits == [3.0, 4.5]
    assert seen == [("a", 3.0), ("b", 4.5)]
    assert call([OSError()] * 3) is None
    with pytest.raises(KeyError):
        call([KeyError()])
