"""Enforced formats with models of ``transformers``: replies are held, alone and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.errors import ModelError  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.formats.grammar import NUMBER, Grammar, Hole, line  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.requests import GenerateRequest, Reply  # noqa: E402
from tests.support.tiny_models import save  # noqa: E402

LETTERS = Grammar((Hole(choices=("A", "B", "C", "D")),))
REASONED = Grammar((" ", Hole(choices=("Paris", "a dog", "eight"))), "The best answer is")
GRAMMARS = (
    LETTERS,
    REASONED,
    Grammar((NUMBER,)),
    Grammar(('{"a": "', Hole(choices=("x", "y")), '"}')),
)
PROMPTS = (
    "Question: Which animal barks?",
    "One two three",
    "The capital of France is",
    "A",
    "(B) D.",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def lm(folder: Path) -> Iterator[HFLM]:
    model = HFLM(str(folder), device="cpu", batch_size=4)
    yield model
    model.close()


def requests(count: int = 20, **kwargs: Any) -> list[GenerateRequest]:
    kwargs = {"max_gen_toks": 12, **kwargs}
    return [
        GenerateRequest(
            *("t", place, 0, Prompt((PROMPTS[place % 5],)), kwargs),
            grammar=GRAMMARS[place % 4],
        )
        for place in range(count)
    ]


def test_every_reply_is_allowed(lm: HFLM) -> None:
    asked = requests()
    replies: dict[int, Reply] = dict(lm.stream(asked))  # type: ignore[arg-type]
    assert len(replies) == len(asked)
    for place, request in enumerate(asked):
        assert request.grammar is not None
        reply = replies[place]
        is_cut = reply.finish == "length" and request.grammar is GRAMMARS[2]
        assert request.grammar.answers(reply) is not None or is_cut, reply


def test_replies_in_a_batch_are_those_of_one_alone(lm: HFLM) -> None:
    asked = requests(12)
    together = dict(lm.stream(asked))
    for place, request in enumerate(asked):
        assert dict(lm.stream([request])) == {0: together[place]}


def test_free_and_enforced_requests_go_together(lm: HFLM) -> None:
    free = GenerateRequest("t", 99, 0, Prompt((PROMPTS[0],)), {"max_gen_toks": 12})
    alone = dict(lm.stream([free]))
    assert dict(lm.stream([*requests(3), free]))[3] == alone[0]


def test_two_phases_keep_the_free_text(lm: HFLM) -> None:
    free = GenerateRequest("t", 0, 0, Prompt((PROMPTS[0],)), {"max_gen_toks": 12})
    held = GenerateRequest("t", 0, 0, Prompt((PROMPTS[0],)), {"max_gen_toks": 12}, grammar=REASONED)
    (said,), (reply,) = dict(lm.stream([free])).values(), dict(lm.stream([held])).values()
    assert str(reply).startswith(str(said).rstrip())
    assert REASONED.answers(str(reply)) is not None


@pytest.mark.parametrize("is_text", [False, True], ids=["token", "text"])
def test_two_phases_keep_the_reasoning_apart(lm: HFLM, folder: Path, is_text: bool) -> None:
    free = GenerateRequest("t", 0, 0, Prompt((PROMPTS[0],)), {"max_gen_toks": 12})
    prompt = torch.tensor([lm.tok_encode(PROMPTS[0])])
    written = lm.model.generate(prompt, max_new_tokens=12, do_sample=False)[0, -12:].tolist()
    mark = next(token for token in written[3:] if lm.tok_decode([token]).isascii())
    thinking = HFLM(
        str(folder), device="cpu", think_end_token=lm.tok_decode([mark]) if is_text else mark
    )
    held = replace(free, grammar=REASONED)
    (thought,), (reply,) = (
        dict(thinking.stream([free])).values(),
        dict(thinking.stream([held])).values(),
    )
    assert isinstance(thought, Reply)
    assert isinstance(reply, Reply)
    assert thought.reasoning
    assert reply.reasoning == thought.reasoning
    assert str(reply).startswith(str(thought).rstrip())
    assert REASONED.answers(str(reply)) is not None


def test_stop_strings_end_a_held_line_of_a_model_that_thinks(folder: Path) -> None:
    thinking = HFLM(str(folder), device="cpu", think_end_token="</think>")
    asked = GenerateRequest(
        *("t", 0, 0, Prompt((PROMPTS[1],)), {"max_gen_toks": 40, "until": ["two"]}),
        grammar=Grammar(("one two three ", line())),
    )
    (reply,) = dict(thinking.stream([asked])).values()
    assert isinstance(reply, Reply)
    assert str(reply).strip() == "one"
    assert reply.finish == "stop"


def test_sampled_replies_are_allowed_and_the_same_again(lm: HFLM) -> None:
    sampled = {"do_sample": True, "temperature": 5.0}
    replies = dict(lm.stream(requests(40, **sampled)))
    assert replies == dict(lm.stream(requests(40, **sampled)))
    letters = {str(replies[place]).strip() for place in range(0, 40, 4)}
    assert letters <= set("ABCD")
    assert len(letters) > 1


def test_an_open_line_ends(lm: HFLM) -> None:
    request = GenerateRequest(
        "t", 0, 0, Prompt((PROMPTS[1],)), {"max_gen_toks": 9}, grammar=Grammar((line(),))
    )
    (reply,) = dict(lm.stream([request])).values()
    assert "\n" not in str(reply)


def test_an_encoder_decoder_is_held_at_once_and_refused_behind_reasons(tmp_path: Path) -> None:
    lm = HFLM(str(save(tmp_path / "t5", "t5")), device="cpu")
    assert lm.why_not_enforceable(LETTERS) is None
    assert "cannot continue after the reasons" in str(lm.why_not_enforceable(REASONED))
    replies = dict(lm.stream([r for r in requests() if r.grammar is LETTERS]))
    assert {str(reply).strip() for reply in replies.values()} <= set("ABCD")


def test_a_subclass_that_generates_itself_is_refused(folder: Path) -> None:
    class Own(HFLM):
        def _model_generate(self, context: Any, max_length: Any, stop: Any, **kwargs: Any) -> Any:
            return super()._model_generate(context, max_length, stop, **kwargs)

    assert "its own _model_generate generates" in str(Own(str(folder)).why_not_enforceable(LETTERS))


def test_a_tokenizer_without_a_backend_is_told(folder: Path) -> None:
    lm = HFLM(str(folder), device="cpu")
    lm.tokenizer = type("Slow", (), {"eos_token_id": 1})()
    with pytest.raises(
        ModelError, match="its tokenizer, Slow, is not one of the tokenizers library"
    ):
        lm._enforcer()
