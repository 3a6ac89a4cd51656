"""The dummy model: repeatable, quick, and honest about stop strings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lm_eval.errors import UsageError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.dummy import DummyLM
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Reply, RollingRequest


def _choices(text: str, doc_id: int = 0) -> list[LoglikelihoodRequest]:
    context = Prompt((text,))
    return [
        LoglikelihoodRequest("t", doc_id, place, context, f" {letter}")
        for place, letter in enumerate("ABCD")
    ]


def _generate(lm: DummyLM, text: str, **gen_kwargs: object) -> str:
    (reply,) = lm.generate_until([GenerateRequest("t", 0, 0, Prompt((text,)), gen_kwargs)])
    return reply


def test_scores_follow_from_seed_context_and_continuation() -> None:
    requests = _choices("What is 2+2?") + _choices("What is 2+3?", 1)
    answers = DummyLM().loglikelihood(requests)
    assert answers == DummyLM().loglikelihood(requests)
    assert len({score for score, _ in answers}) == len(requests)
    assert all(score < 0 for score, _ in answers)
    assert answers != DummyLM(seed=1).loglikelihood(requests)


def test_scores_do_not_depend_on_how_a_prompt_is_cut_into_pieces() -> None:
    whole = LoglikelihoodRequest("t", 0, 0, Prompt(("ab",)), "c")
    pieces = LoglikelihoodRequest("t", 0, 0, Prompt(("a", "b")), "c")
    shifted = LoglikelihoodRequest("t", 0, 0, Prompt(("a",)), "bc")
    one, same, other = DummyLM().loglikelihood([whole, pieces, shifted])
    assert one == same != other


def test_some_continuations_are_greedy_and_most_are_not() -> None:
    requests = [request for number in range(200) for request in _choices(str(number))]
    greedy = sum(is_greedy for _, is_greedy in DummyLM().loglikelihood(requests))
    assert 0 < greedy < len(requests) / 4


def test_rolling_score_grows_with_the_text() -> None:
    lm = DummyLM()
    short, long = lm.loglikelihood_rolling(
        [RollingRequest("t", 0, 0, "ab"), RollingRequest("t", 1, 0, "ab" * 100)]
    )
    assert long < short < 0


def test_replies_vary_and_repeat() -> None:
    replies = [_generate(DummyLM(), f"Question {number}") for number in range(100)]
    assert replies == [_generate(DummyLM(), f"Question {number}") for number in range(100)]
    assert len(set(replies)) > 20
    assert any("The best answer is" in reply for reply in replies)


def test_constant_reply_is_cut_at_the_first_stop_string() -> None:
    reply = _generate(DummyLM(reply="A. yes\nB. no"), "Q", until=["B", "\n", ""])
    assert reply == "A. yes"
    assert isinstance(reply, Reply)
    assert reply.finish == "stop"


def test_chat_and_open_assistant_turn() -> None:
    lm = DummyLM()
    chat = Chat((Message("system", "Be brief."), Message("user", "Hi")))
    assert lm.render(chat) == "<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\n"
    prefilled = Chat((*chat.messages, Message("assistant", "The best answer is")))
    assert lm.render(prefilled).endswith("<|assistant|>\nThe best answer is")


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no argument 'sead'.*Did you mean 'seed'"):
        DummyLM.from_args({"sead": 1}, name="dummy")


def test_numpy_is_not_loaded() -> None:
    code = "import sys, lm_eval.models.dummy; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_usual_sampling_arguments_are_accepted() -> None:
    plain = _generate(DummyLM(), "q")
    assert _generate(DummyLM(), "q", top_p=0.9, top_k=5, seed=1, num_beams=1) == plain


def test_unknown_generation_argument_is_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        _generate(DummyLM(), "q", max_gen_tokens=5)
    for part in (
        "max_gen_tokens=5",
        "task 't'",
        "Did you mean 'max_gen_toks'",
        "temperature",
        "top_p",
    ):
        assert part in str(caught.value)
