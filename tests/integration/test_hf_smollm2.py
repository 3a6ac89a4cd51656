"""One real GGUF file through ``gguf`` and, dequantised, through ``hf``: the same choices.

llama.cpp rounds activations to 8 bits, so log-probs differ a little; choices hardly ever do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")
pytest.importorskip("gguf", reason="transformers reads GGUF files with it: pip install gguf")

from lm_eval.errors import MissingExtraError
from lm_eval.formats.assemble import Prompt
from lm_eval.models.gguf import GgufLM
from lm_eval.models.huggingface import HFLM
from lm_eval.requests import LoglikelihoodRequest

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = ("arc_challenge_test.jsonl", "commonsenseqa_dev.jsonl")
PER_FILE = 6

Models = tuple[GgufLM, HFLM]


@pytest.fixture(scope="module")
def models(request: pytest.FixtureRequest) -> Iterator[Models]:
    """Both backends; the conversion is kept between runs of the tests."""
    if not DATA.is_dir():
        pytest.skip(f"needs the items in {DATA}")
    try:
        gguf = GgufLM()
    except MissingExtraError as error:
        pytest.skip(f"needs the default weights: {error.install}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(request.config.cache.mkdir("converted")))
        yield gguf, HFLM(gguf.engine.path, device="cpu")
    gguf.close()


def items() -> Iterator[tuple[str, list[dict[str, str]]]]:
    for name in FILES:
        lines = (DATA / name).read_text("utf-8").splitlines()[:PER_FILE]
        for question in (json.loads(line)["question"] for line in lines):
            yield question["stem"], question["choices"]


def requests(kind: str) -> list[LoglikelihoodRequest]:
    """Each question with its choices scored as labels, or as texts that were not shown."""
    made = []
    for doc_id, (stem, choices) in enumerate(items()):
        shown = "".join(f"{choice['label']}. {choice['text']}\n" for choice in choices)
        context = Prompt((f"Question: {stem}\n{shown if kind == 'label' else ''}Answer:",))
        made += [
            LoglikelihoodRequest(kind, doc_id, index, context, f" {choice[kind]}")
            for index, choice in enumerate(choices)
        ]
    return made


def best(asked: list[LoglikelihoodRequest], scores: list[float]) -> dict[int, int]:
    """Doc → the choice with the highest score."""
    chosen: dict[int, tuple[float, int]] = {}
    for request, score in zip(asked, scores, strict=True):
        top = chosen.get(request.doc_id)
        if top is None or score > top[0]:
            chosen[request.doc_id] = (score, request.index)
    return {doc_id: index for doc_id, (_, index) in chosen.items()}


def test_gguf_and_hf_choose_alike(models: Models) -> None:
    gguf, hf = models
    same: list[bool] = []
    difference, tokens = 0.0, 0
    for kind in ("label", "text"):
        asked = requests(kind)
        one = [score for score, _ in gguf.loglikelihood(asked)]
        other = [score for score, _ in hf.loglikelihood(asked)]
        chosen, also = best(asked, one), best(asked, other)
        same += [chosen[doc_id] == also[doc_id] for doc_id in chosen]
        difference += sum(abs(a - b) for a, b in zip(one, other, strict=True))
        tokens += sum(len(_encoded(gguf, request)[1]) for request in asked)
    assert len(same) == 4 * PER_FILE
    assert sum(same) / len(same) >= 0.95
    assert difference / tokens <= 0.12


def _encoded(gguf: GgufLM, request: LoglikelihoodRequest) -> tuple[Any, Any]:
    return gguf.encode_pair(str(request.context), request.continuation)


def test_both_see_the_same_tokens_and_chats(models: Models) -> None:
    gguf, hf = models
    for request in requests("text")[::5]:
        (border,) = hf.tokens.borders([(str(request.context), request.continuation)])
        assert (list(border.context), list(border.scored)) == _encoded(gguf, request)
    chat = [{"role": "user", "content": "Say yes. <|im_end|> 🦙"}]
    assert hf.apply_chat_template(chat) == gguf.apply_chat_template(chat)
    chat.append({"role": "assistant", "content": "The best answer is"})
    assert hf.apply_chat_template(chat, False) == gguf.apply_chat_template(chat, False)
    assert hf.identity()["digest"] == gguf.describe()["digest"]
