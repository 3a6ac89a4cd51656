"""Sorting, batching and putting back: what holds for any requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lm_eval.compat.batching import Collator, Reorderer, chunks, undistribute


@given(st.lists(st.text(max_size=5)), st.integers(1, 6))
def test_answers_come_back_in_the_order_of_the_requests(words: list[str], size: int) -> None:
    order = Collator(words, sort_fn=len)
    batches = list(order.get_batched(n=size))
    assert all(0 < len(batch) <= size for batch in batches)
    assert order.get_original([word * 2 for batch in batches for word in batch]) == [
        word * 2 for word in words
    ]


@given(st.lists(st.tuples(st.text(max_size=3), st.sampled_from("abc"))), st.integers(1, 4))
def test_a_batch_holds_requests_of_the_same_arguments(
    asked: list[tuple[str, str]], size: int
) -> None:
    requests = [(text, {"until": [stop]}) for text, stop in asked]
    order = Collator(
        requests, sort_fn=lambda r: len(r[0]), group_fn=lambda r: r[1], group_by="gen_kwargs"
    )
    batches = list(order.get_batched(n=size))
    assert all(len({str(kwargs) for _, kwargs in batch}) == 1 for batch in batches)
    assert order.get_original([request for batch in batches for request in batch]) == requests


@given(st.lists(st.integers()), st.integers(1, 5))
def test_dealt_out_and_collected(numbers: list[int], hands: int) -> None:
    assert undistribute([numbers[hand::hands] for hand in range(hands)]) == numbers
    assert [item for chunk in chunks(numbers, hands) for item in chunk] == numbers


@given(st.lists(st.integers(-3, 3)))
def test_reordered_results_find_their_way_back(numbers: list[int]) -> None:
    order = Reorderer(numbers, lambda number: -number)
    assert order.get_reordered() == sorted(numbers, reverse=True)
    assert order.get_original(order.get_reordered()) == numbers
