"""One real GGUF file through ``gguf`` and, dequantised, through ``hf``: the same choices.

llama.cpp rounds activations to 8 bits, so log-probs differ a little; choices hardly ever do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import pytest

from tests.support.paths import SHARED

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")
pytest.importorskip("gguf", reason="transformers reads GGUF files with it: pip install gguf")

from lm_eval.errors import MissingExtraError
from lm_eval.formats.assemble import Prompt
from lm_eval.models.gguf import GgufLM
from lm_eval.models.huggingface import HFLM
from lm_eval.models.loading import load_model
from lm_eval.requests import LoglikelihoodRequest

SHARED_DATA = SHARED / "data"
SAMPLES = {
    "arc_challenge_test.jsonl": 67,
    "commonsenseqa_dev.jsonl": 67,
    "mmlu_test_5_per_subject.jsonl": 66,
}
OWN = resources.files("lm_eval") / "tasks/library/demo/demo_mcq.jsonl"

Models = tuple[GgufLM, HFLM]


@dataclass(frozen=True)
class Doc:
    question: str
    choices: Sequence[str]

    def requests(self, doc_id: int, kind: str) -> Iterator[LoglikelihoodRequest]:
        """The choices to score: as letters, or as texts that were not shown."""
        letters = "ABCDE"[: len(self.choices)]
        shown = "".join(f"{a}. {b}\n" for a, b in zip(letters, self.choices, strict=True))
        context = Prompt(
            (f"Question: {self.question}\n{shown if kind == 'letters' else ''}Answer:",)
        )
        for index, choice in enumerate(letters if kind == "letters" else self.choices):
            yield LoglikelihoodRequest(kind, doc_id, index, context, f" {choice}")


def own_docs(count: int) -> list[Doc]:
    lines = map(json.loads, OWN.read_text("utf-8").splitlines()[:count])
    return [Doc(line["question"], line["choices"]) for line in lines]


def sampled_docs() -> Iterator[Doc]:
    """The first docs of public samples, which are not part of the project."""
    for name, count in SAMPLES.items():
        for line in map(json.loads, (SHARED_DATA / name).read_text("utf-8").splitlines()[:count]):
            question = line["question"]
            if isinstance(question, str):
                yield Doc(question, [line[letter] for letter in "ABCD"])
            else:
                yield Doc(question["stem"], [choice["text"] for choice in question["choices"]])


@pytest.fixture(scope="module")
def models(request: pytest.FixtureRequest) -> Iterator[Models]:
    """Both backends; the conversion is kept between runs of the tests."""
    try:
        gguf = GgufLM()
    except MissingExtraError as error:
        pytest.skip(f"needs the default weights: {error.install}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(request.config.cache.mkdir("converted")))
        hf = load_model("hf", {"pretrained": str(gguf.engine.path), "device": "cpu"})
        assert isinstance(hf, HFLM)
        yield gguf, hf
    gguf.close()


def chosen(asked: Sequence[LoglikelihoodRequest], scores: Sequence[float]) -> dict[Any, int]:
    """Item → the choice with the highest score."""
    best: dict[Any, tuple[float, int]] = {}
    for request, score in zip(asked, scores, strict=True):
        item = (request.task, request.doc_id)
        best[item] = max(best.get(item, (score, request.index)), (score, request.index))
    return {item: index for item, (_, index) in best.items()}


@dataclass(frozen=True)
class Agreement:
    """How far two models agree on items, each a doc whose choices are scored in one way."""

    items: int
    same_choice: float
    """The share of items for which both models choose alike."""
    difference: float
    """Absolute differences of the log-probs of all choices, summed, over all tokens of all choices."""


def agreement(models: Models, asked: Sequence[LoglikelihoodRequest]) -> Agreement:
    gguf, _ = models
    one, other = ([score for score, _ in lm.loglikelihood(asked)] for lm in models)
    expected, found = chosen(asked, one), chosen(asked, other)
    same = sum(found[item] == choice for item, choice in expected.items())
    tokens = sum(len(_encoded(gguf, request)[1]) for request in asked)
    apart = sum(abs(a - b) for a, b in zip(one, other, strict=True))
    return Agreement(len(expected), same / len(expected), apart / tokens)


def _encoded(gguf: GgufLM, request: LoglikelihoodRequest) -> tuple[Any, Any]:
    return gguf.tokens.encode_pairs([(str(request.context), request.continuation)])[0]


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"needs the samples in {SHARED_DATA}")
def test_gguf_and_hf_choose_alike_on_200_items(models: Models) -> None:
    """Every other doc is scored by letters, those between by texts; all of them count together.

    The difference of 0.065 is 0.17 for letters, which are one token each, and 0.04 for texts.
    """
    asked = [
        request
        for doc_id, doc in enumerate(sampled_docs())
        for request in doc.requests(doc_id, ("letters", "texts")[doc_id % 2])
    ]
    found = agreement(models, asked)
    assert found.items == 200
    assert found.same_choice >= 0.95
    assert found.difference <= 0.12


def test_gguf_and_hf_choose_alike_on_own_docs(models: Models) -> None:
    """Wider bounds: choices of one or two tokens, such as numbers, are closer to each other."""
    asked = [
        request
        for doc_id, doc in enumerate(own_docs(12))
        for kind in ("letters", "texts")
        for request in doc.requests(doc_id, kind)
    ]
    found = agreement(models, asked)
    assert found.items == 24
    assert found.same_choice >= 0.8
    assert found.difference <= 0.25


def test_both_see_the_same_tokens_and_chats(models: Models) -> None:
    gguf, hf = models
    for request in (request for doc in own_docs(12) for request in doc.requests(0, "texts")):
        (pair,) = hf.tokens.encode_pairs([(str(request.context), request.continuation)])
        assert pair == _encoded(gguf, request)
    chat = [{"role": "user", "content": "Say yes. <|im_end|> 🦙"}]
    assert hf.apply_chat_template(chat) == gguf.apply_chat_template(chat)
    chat.append({"role": "assistant", "content": "The best answer is"})
    assert hf.apply_chat_template(chat, False) == gguf.apply_chat_template(chat, False)
    assert hf.identity()["digest"] == gguf.describe()["digest"]
