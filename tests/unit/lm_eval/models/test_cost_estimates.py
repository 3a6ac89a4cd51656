"""What requests would cost, before they are sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.base import LM
from lm_eval.models.cost_estimates import estimated, guess_tokens
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request, RollingRequest
from lm_eval.requests.values import Estimated, Usage

LETTERS = (" A", " B", " C", " D")


def scored(doc_id: int, text: str = "x" * 40) -> list[Request]:
    context = Prompt((text,))
    return [
        LoglikelihoodRequest("t", doc_id, index, context, letter)
        for index, letter in enumerate(LETTERS)
    ]


def generated(doc_id: int, **gen_kwargs: int) -> Request:
    return GenerateRequest("t", doc_id, 0, Prompt(("y" * 8,)), gen_kwargs)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("abc", 1),
        ("x" * 9, 3),
        (Prompt(("x" * 4, "y" * 4)), 2),
        (Chat((Message("system", "x" * 4), Message("user", Prompt(("y" * 2, "z" * 2))))), 2),
    ],
)
def test_four_characters_are_a_token(text: str | Prompt | Chat, tokens: int) -> None:
    assert guess_tokens(text) == tokens


def test_a_local_model_is_asked_each_choice() -> None:
    found = LM().estimate([*scored(0), *scored(1)])
    expected = Usage(requests=8, tokens_in=8 * (10 + 1))
    assert found == Estimated(least=expected, most=expected)
    assert not found.is_exact


def test_a_reply_costs_at_most_what_it_may_become() -> None:
    model = LM()
    found = model.estimate([generated(0, max_gen_toks=7), generated(1)])
    assert found.least == Usage(requests=2, tokens_in=4)
    assert found.most == Usage(requests=2, tokens_in=4, tokens_out=7 + 256)


def test_a_server_may_score_all_choices_of_a_doc_in_one_request() -> None:
    found = estimated(
        [*scored(0), *scored(1)],  # equal prompts, but two docs
        max_reply=lambda request: 0,
        count=lambda text: 100 if isinstance(text, Prompt) else 1,
        counted_with="mine",
        shares_requests=True,
    )
    assert found.least == Usage(requests=2, tokens_in=200, tokens_out=2)
    assert found.most == Usage(requests=8, tokens_in=808, tokens_out=8)
    assert found.is_exact


def test_choices_of_several_tokens_are_prompts_of_their_own() -> None:
    context = Prompt(("x" * 40,))
    choices = [LoglikelihoodRequest("t", 0, n, context, " some words") for n in range(4)]
    found = estimated(choices, max_reply=lambda request: 0, shares_requests=True)
    assert found.least == Usage(requests=1, tokens_in=4 * 13, tokens_out=4)
    assert found.most == Usage(requests=4, tokens_in=4 * 13, tokens_out=4)


def test_a_context_is_counted_once_for_all_its_choices() -> None:
    counted: list[object] = []

    def count(text: object) -> int:
        counted.append(text)
        return 1

    estimated(scored(0), max_reply=lambda request: 0, count=count)
    assert sum(isinstance(text, Prompt) for text in counted) == 1


def test_whole_texts_are_read_and_nothing_is_written() -> None:
    found = LM().estimate([RollingRequest("t", 0, 0, "x" * 400)])
    assert found.most == Usage(requests=1, tokens_in=100)


def test_requests_are_read_one_at_a_time() -> None:
    """Whatever their number, only the requests of one doc are alive."""
    alive = most = 0

    class Watched(str):
        def __init__(self, *_: object) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def requests() -> Iterator[Request]:
        for doc_id in range(1000):
            yield LoglikelihoodRequest("t", doc_id, 0, Prompt(("x",)), Watched(" A"))

    assert LM().estimate(requests()).most.requests == 1000
    assert most < 10


@given(st.lists(st.integers(0, 200), max_size=8))
def test_the_least_is_never_more_than_the_most(lengths: list[int]) -> None:
    requests = [one for n, length in enumerate(lengths) for one in scored(n, "x" * length)]
    for shares in (False, True):
        found = estimated(requests, max_reply=lambda request: 5, shares_requests=shares)
        assert found.least.requests <= found.most.requests
        assert found.least.tokens_in <= found.most.tokens_in
