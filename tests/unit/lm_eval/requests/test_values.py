"""Answers carry what a backend knows beside the pair or the text."""

from __future__ import annotations

import copy
import pickle

import pytest

from lm_eval.answers.keys import decode, encode
from lm_eval.requests import Score


@pytest.mark.parametrize("tokens", [None, 0, 3])
def test_a_score_is_a_pair_and_keeps_its_tokens(tokens: int | None) -> None:
    score = Score(-1.5, True, tokens=tokens)
    logprob, is_greedy = score
    assert (logprob, is_greedy) == (-1.5, True) == score
    copies = copy.copy(score), copy.deepcopy(score), pickle.loads(pickle.dumps(score))
    for again in (*copies, decode(encode(score))):
        assert isinstance(again, Score)
        assert again == score
        assert again.tokens == tokens
