"""How spans become prompts: letters of one doc are one, longer answers are one each.

What vLLM makes of them is in ``tests/integration/test_vllm.py``, with vLLM itself.
"""

from __future__ import annotations

from typing import Any

from lm_eval.models.local.token_tree import Span
from lm_eval.models.vllm.engine import MOST_LETTERS, VllmEngine


class Params:
    """Keeps what a prompt is asked for, as vLLM's ``SamplingParams`` do."""

    def __init__(self, **given: Any) -> None:
        self.given = given


def engine(*, reads_letters: bool = True, lora: Any = None) -> VllmEngine:
    made = VllmEngine.__new__(VllmEngine)
    made.lora = lora
    made._params, made._reads_letters, made._optional = Params, reads_letters, {}
    return made


def asks(spans: list[Span], **options: Any) -> list[tuple[list[int], list[int], Any]]:
    """For each prompt its tokens, the places of its spans, and the letters that are asked for."""
    return [
        (ask.prompt, [span.index for span in ask.spans], ask.params.given.get("logprob_token_ids"))
        for ask in engine(**options)._asks(spans, [])
    ]


def test_letters_behind_the_same_text_are_one_prompt() -> None:
    spans = [Span(0, [1, 2], [7]), Span(1, [1, 2], [8]), Span(2, [1, 2], [7]), Span(3, [1, 3], [7])]
    assert asks(spans) == [([1, 2], [0, 1, 2], [7, 8]), ([1, 3], [3], [7])]


def test_longer_answers_are_part_of_their_prompt() -> None:
    spans = [Span(0, [1, 2, 7], [7, 9]), Span(1, [1, 2], [8]), Span(2, [1, 2, 8, 8], [8, 8, 6])]
    assert asks(spans) == [
        ([1, 2, 7, 9], [0], None),
        ([1, 2], [1], [8]),
        ([1, 2, 8, 8, 6], [2], None),
    ]


def test_a_release_that_cannot_be_asked_for_letters() -> None:
    assert asks([Span(0, [1, 2], [7])], reads_letters=False) == [([1, 2, 7], [0], None)]


def test_with_an_adapter_every_token_is_a_next_token() -> None:
    assert asks([Span(0, [1, 2, 7], [7, 9])], lora="adapter") == [
        ([1, 2], [0], [7]),
        ([1, 2, 7], [0], [9]),
    ]


def test_many_letters_are_several_prompts() -> None:
    spans = [Span(place, [1], [place]) for place in range(MOST_LETTERS + 1)]
    assert [len(places) for _, places, _ in asks(spans)] == [MOST_LETTERS, 1]


def test_nothing_to_score_is_set_aside() -> None:
    empty: list[Span] = []
    assert list(engine()._asks([Span(0, [1], [])], empty)) == []
    assert [span.index for span in empty] == [0]
