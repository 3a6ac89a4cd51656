"""A real vLLM in this process: scores, replies and chats as ``hf`` gives them, from one stream.

Needs an environment of its own: ``make test-vllm``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("vllm") is None:
    pytest.skip("needs vLLM, in an environment of its own: make test-vllm", allow_module_level=True)

from tests.support.command_line import python
from tests.support.vllm_process import IN_PROCESS

os.environ.update(IN_PROCESS)

from lm_eval.errors import ModelError, UsageError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.formats.grammar import NUMBER, Grammar, Hole, line
from lm_eval.models.gguf import default_weights
from lm_eval.models.huggingface import HFLM
from lm_eval.models.loading import load_model
from lm_eval.models.vllm.model import VLLM
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request, RollingRequest
from lm_eval.simple import simple_evaluate
from tests.support.paths import SHARED

WINDOW = 512
PER_TOKEN = 1e-3
ARC = SHARED / "data" / "arc_challenge_test.jsonl"
OWN = resources.files("lm_eval") / "tasks/library/demo/demo_mcq.jsonl"
SMALL = {"dtype": "float32", "enforce_eager": True, "distributed_executor_backend": "uni"}


@pytest.fixture(scope="module")
def hf() -> Iterator[HFLM]:
    model = load_model("hf", {"pretrained": str(default_weights()), "max_length": WINDOW})
    assert isinstance(model, HFLM)
    yield model
    model.close()


@pytest.fixture(scope="module")
def vllm(hf: HFLM) -> Iterator[VLLM]:
    """The file that ``hf`` has converted, in vLLM."""
    model = load_model(
        "vllm", {"pretrained": str(default_weights()), "max_model_len": WINDOW, **SMALL}
    )
    assert isinstance(model, VLLM)
    yield model
    model.close()


def items(count: int) -> list[tuple[str, list[str]]]:
    """Questions with their choices: of ARC where it is at hand, else our own."""
    if ARC.is_file():
        rows = [json.loads(line)["question"] for line in ARC.read_text("utf-8").splitlines()]
        found = [(row["stem"], [choice["text"] for choice in row["choices"]]) for row in rows]
    else:
        rows = [json.loads(line) for line in OWN.read_text("utf-8").splitlines()]
        found = [(row["question"], row["choices"]) for row in rows]
    return [row for row in found if len(set(row[1])) == len(row[1])][:count]


def scored(count: int) -> list[Request]:
    """Every other doc is asked for the letter, the others for the text of an answer."""
    requests: list[Request] = []
    for doc, (question, choices) in enumerate(items(count)):
        letters = "ABCDEF"[: len(choices)]
        shown = "".join(f"{a}. {b}\n" for a, b in zip(letters, choices, strict=True))
        are_letters = doc % 2 == 0
        context = Prompt((f"Question: {question}\n{shown if are_letters else ''}Answer:",))
        texts = list(letters) if are_letters else choices
        requests += [
            LoglikelihoodRequest("t", doc, index, context, f" {text}")
            for index, text in enumerate(texts)
        ]
    return requests


def answers(model: Any, requests: Sequence[Request]) -> list[Any]:
    by_place = dict(model.stream(list(requests)))
    return [by_place[place] for place in range(len(requests))]


def picks(requests: Sequence[Request], scores: Sequence[Any]) -> dict[int, int]:
    """Doc → its likeliest choice."""
    docs: dict[int, list[float]] = {}
    for request, score in zip(requests, scores, strict=True):
        docs.setdefault(request.doc_id, []).append(score[0])
    return {doc: values.index(max(values)) for doc, values in docs.items()}


def assert_alike(some: Sequence[Any], others: Sequence[Any]) -> None:
    for one, other in zip(some, others, strict=True):
        assert one.tokens == other.tokens
        assert one[0] == pytest.approx(other[0], abs=PER_TOKEN * max(one.tokens, 1))


def test_scores_and_choices_are_those_of_hf(vllm: VLLM, hf: HFLM) -> None:
    requests = scored(100)
    ours, theirs = answers(vllm, requests), answers(hf, requests)
    assert_alike(ours, theirs)
    assert picks(requests, ours) == picks(requests, theirs)
    assert [score[1] for score in ours] == [score[1] for score in theirs]
    one_token = [score for score in ours if score.tokens == 1]
    assert len(one_token) >= 4 * 40  # letters went through their own way


def test_shared_beginnings_come_from_the_cache_and_scores_stay(vllm: VLLM, hf: HFLM) -> None:
    shots = "".join(f"Question: what is {n} plus {n}?\nAnswer: {2 * n}\n\n" for n in range(24))
    context = Prompt((f"{shots}Question: what is 4 plus 5?\nAnswer:",))
    asked = [
        LoglikelihoodRequest("t", 0, n, context, text)
        for n, text in enumerate((" nine", " nine hundred and ninety", " 9", " it is nine"))
    ]
    before = vllm.describe()["tokens_from_cache"]
    first, second = answers(vllm, asked), answers(vllm, asked)
    assert vllm.describe()["tokens_from_cache"] > before
    assert_alike(first, answers(hf, asked))
    assert_alike(second, first)


def test_a_text_that_is_cached_beyond_its_context_is_asked_again(vllm: VLLM) -> None:
    text = " ".join(f"word{n}" for n in range(120))
    asked: list[Request] = [RollingRequest("t", 0, 0, text)]
    first = answers(vllm, asked)
    before = vllm.engine.asked_again
    assert answers(vllm, asked) == pytest.approx(first, abs=0.01)
    assert vllm.engine.asked_again > before


def test_whole_texts_longer_than_the_window(vllm: VLLM, hf: HFLM) -> None:
    short, long = "The capital of France is Paris.", "A cat sat on the mat and slept. " * 120
    asked: list[Request] = [
        RollingRequest("t", doc, 0, text) for doc, text in enumerate((short, long, ""))
    ]
    ours, theirs = answers(vllm, asked), answers(hf, asked)
    tokens = [len(hf.tok_encode(text)) for text in (short, long, "")]
    for one, other, count in zip(ours, theirs, tokens, strict=True):
        assert one == pytest.approx(other, abs=PER_TOKEN * max(count, 1))


def test_a_prompt_longer_than_the_window_loses_its_beginning(vllm: VLLM, hf: HFLM) -> None:
    context = Prompt(("A cat sat on the mat and slept. " * 120,))
    asked: list[Request] = [
        LoglikelihoodRequest("t", 0, n, context, text)
        for n, text in enumerate((" A", " A cat sat on"))
    ]
    before = vllm.truncated
    assert_alike(answers(vllm, asked), answers(hf, asked))
    assert vllm.truncated == before + 2
    assert any("lost their beginning" in note for note in vllm.warnings)


def generated(prompts: Sequence[Any], **kwargs: Any) -> list[Request]:
    return [GenerateRequest("t", doc, 0, prompt, kwargs) for doc, prompt in enumerate(prompts)]


def test_greedy_replies_are_those_of_hf(vllm: VLLM, hf: HFLM) -> None:
    prompts = [Prompt((f"The capital of {name} is",)) for name in ("France", "Italy", "Japan")]
    asked = generated(prompts, until=[".", "\n\n"], max_gen_toks=16)
    ours, theirs = answers(vllm, asked), answers(hf, asked)
    assert ours == theirs
    assert [reply.finish for reply in ours] == [reply.finish for reply in theirs]
    assert not any("." in reply for reply in ours)
    cut = answers(vllm, generated(prompts, until=["\n\n\n"], max_gen_toks=3))
    assert [reply.finish for reply in cut] == ["length"] * 3


def test_sampled_replies_repeat_whatever_is_beside_them(vllm: VLLM) -> None:
    kwargs = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 8, "until": []}
    context = Prompt(("Once upon a time",))
    asked: list[Request] = [
        GenerateRequest("t", 0, index, context, kwargs, repeats=4) for index in range(4)
    ]
    first = answers(vllm, asked)
    assert len(set(first)) > 1
    alone = [answers(vllm, [request])[0] for request in asked]
    assert alone == first


def test_chats_and_prefill(vllm: VLLM, hf: HFLM) -> None:
    user = Message("user", "What is the capital of France? One word.")
    chats = [Chat((user,)), Chat((user, Message("assistant", "The capital is")))]
    asked = generated(chats, until=["\n"], max_gen_toks=8)
    assert vllm.capabilities.chat_template
    assert answers(vllm, asked) == answers(hf, asked)
    assert vllm.render(chats[1]).endswith("The capital is")


def test_what_identifies_the_model(vllm: VLLM) -> None:
    identity = vllm.identity()
    assert identity["digest"].startswith("sha256:")
    assert identity["max_length"] == WINDOW
    assert "enforce_eager" not in identity["engine"]
    assert vllm.describe()["prefix_cache"] is True
    assert vllm.prefix_token_id == vllm.tokenizer.bos_token_id


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"enforce_eagre": True}, "has no argument 'enforce_eagre'. Did you mean 'enforce_eager'?"),
        (
            {"gpu_memory_utilization": 1.5},
            "gpu_memory_utilization must be a number above 0, at most 1",
        ),
        ({"max_model_len": 512, "max_length": 512}, "are the same. Give one of them"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size must be a whole number above 0"),
    ],
)
def test_wrong_arguments(vllm: VLLM, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model("vllm", {"pretrained": str(default_weights()), **SMALL, **arguments})
    assert words in str(caught.value)


def test_wrong_generation_arguments(vllm: VLLM) -> None:
    with pytest.raises(UsageError, match=r"no generation argument top_n=3 .*Did you mean 'top_"):
        answers(vllm, generated([Prompt(("A",))], top_n=3))
    with pytest.raises(UsageError, match="vLLM refuses these generation arguments"):
        answers(vllm, generated([Prompt(("A",))], do_sample=True, temperature=1.0, top_p=7))


LETTERS = Grammar((Hole(choices=("A", "B", "C", "D")),))
REASONED = Grammar((" ", Hole(choices=("Paris", "a dog", "eight"))), "The best answer is")
NUMBERS = Grammar((NUMBER,))
LINES = Grammar((line(),))
OBJECTS = Grammar(('{"animal": "', Hole(choices=("dog", "cat")), '", "legs": ', NUMBER, "}"))
PROMPTS = (
    "Question: Which animal barks?\nAnswer:",
    "One two three",
    "The capital of France is",
    "Question: How many legs has a spider?\nAnswer:",
    "Question: What is 17 plus 25?\nAnswer:",
    "(B) D.",
)


def enforced(grammar: Grammar, **kwargs: Any) -> list[Request]:
    kwargs = {"max_gen_toks": 24, "until": ["\n\n"], **kwargs}
    return [
        GenerateRequest("t", doc, 0, Prompt((text,)), kwargs, grammar=grammar)
        for doc, text in enumerate(PROMPTS)
    ]


@pytest.mark.parametrize("grammar", [LETTERS, REASONED, NUMBERS, LINES, OBJECTS])
def test_every_enforced_reply_is_allowed_and_that_of_hf(
    vllm: VLLM, hf: HFLM, grammar: Grammar
) -> None:
    assert vllm.why_not_enforceable(grammar) is None
    asked = enforced(grammar)
    ours, theirs = answers(vllm, asked), answers(hf, asked)
    for reply in ours:
        assert grammar.answers(reply) is not None or reply.finish == "length", reply
    assert ours == theirs
    free = answers(vllm, [replace(request, grammar=None) for request in asked])
    assert all(grammar.answers(reply) is None for reply in free) or grammar in (NUMBERS, LINES)


def test_free_and_enforced_requests_go_together(vllm: VLLM) -> None:
    mixed = [*enforced(LETTERS), *generated([Prompt((PROMPTS[2],))], max_gen_toks=6, until=[])]
    mixed += enforced(REASONED)
    together = answers(vllm, mixed)
    assert together == [answers(vllm, [request])[0] for request in mixed]


def test_sampled_replies_are_held_too(vllm: VLLM) -> None:
    asked = [
        GenerateRequest(
            *("t", 0, index, Prompt((PROMPTS[5],))),
            {"do_sample": True, "temperature": 2.0, "max_gen_toks": 4},
            grammar=LETTERS,
            repeats=12,
        )
        for index in range(12)
    ]
    first = answers(vllm, asked)
    assert first == answers(vllm, asked)
    assert {reply.strip() for reply in first} <= set("ABCD")
    assert len(set(first)) > 1


def test_enforced_formats_are_read_to_the_last_reply(vllm: VLLM) -> None:
    """At once and after free reasons, from the task to the score."""
    vllm.truncated = 0  # counted for the life of a model: another test of this one cuts prompts
    formats = ("generate+enforced", "cot+enforced", "mcq_cot+enforced")
    done = simple_evaluate(
        model=vllm,
        tasks=[f"demo_mcq@{name}" for name in formats],
        limit=6,
        gen_kwargs={"max_gen_toks": 40},
        log_samples=True,
    )
    for name in formats:
        scores = done["results"][f"demo_mcq@{name}"]
        assert scores["share_read,none"] == 1.0, name
        for row in done["samples"][f"demo_mcq@{name}"]:
            ((reply,),) = row["resps"]
            phrase = {"cot": "The final answer is ", "mcq_cot": "The best answer is "}
            assert phrase.get(name.partition("+")[0], "") in reply


def test_a_grammar_that_vllm_cannot_hold_is_refused_by_name(vllm: VLLM) -> None:
    looks_back = Grammar((Hole(pattern=r"a(?<=a)b"),))
    assert "vLLM refuses it: " in str(vllm.why_not_enforceable(looks_back))
    assert vllm.why_not_enforceable(LETTERS) is None, "and nothing else is"


LORA_PROGRAM = """
import json, sys
from lm_eval.formats.assemble import Prompt
from lm_eval.models.vllm.model import VLLM
from lm_eval.requests import LoglikelihoodRequest

pretrained, adapter, more, texts = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
model = VLLM(pretrained, lora_local_path=adapter, **more)
context = Prompt((texts[0],))
asked = [LoglikelihoodRequest("t", 0, n, context, text) for n, text in enumerate(texts[1:])]
answers = dict(model.stream(asked))
print(json.dumps([answers[n][0] for n in range(len(asked))] + [model.identity()["peft"]]))
"""
TEXTS = ("The capital of France is", " Paris", " Rome", " a large city")


def write_adapter(folder: Path, model: Any, rank: int = 4, alpha: int = 8) -> None:
    """An adapter with weights of its own, and the same added to ``model``."""
    import torch
    from safetensors.torch import save_file

    numbers = torch.Generator().manual_seed(7)
    tensors = {}
    for layer in (0, 5, 11):
        weight = model.model.layers[layer].self_attn.q_proj.weight
        down = torch.randn(rank, weight.shape[1], generator=numbers) * 0.05
        up = torch.randn(weight.shape[0], rank, generator=numbers) * 0.05
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors |= {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}
        weight.data += (alpha / rank) * (up @ down)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": alpha}
    config |= {"target_modules": ["q_proj"], "bias": "none", "lora_dropout": 0.0}
    (folder / "adapter_config.json").write_text(json.dumps(config), "utf-8")


def test_an_adapter(hf: HFLM, tmp_path: Path) -> None:
    """In a process of its own: an engine is made for adapters or not."""
    asked: list[Request] = [
        LoglikelihoodRequest("t", 0, n, Prompt((TEXTS[0],)), text)
        for n, text in enumerate(TEXTS[1:])
    ]
    before = answers(hf, asked)
    kept = {name: tensor.clone() for name, tensor in hf.model.state_dict().items()}
    try:
        write_adapter(tmp_path / "adapter", hf.model)
        adapted = answers(hf, asked)
    finally:
        hf.model.load_state_dict(kept)
    given = [str(default_weights()), str(tmp_path / "adapter")]
    given += [json.dumps({**SMALL, "max_model_len": WINDOW}), json.dumps(TEXTS)]
    done = python("-c", LORA_PROGRAM, *given, timeout=600, **IN_PROCESS)
    assert done.returncode == 0, done.stderr
    *scores, digest = json.loads(done.stdout.splitlines()[-1])
    assert digest.startswith("sha256:")
    for score, with_it, without in zip(scores, adapted, before, strict=True):
        assert score == pytest.approx(with_it[0], abs=PER_TOKEN * with_it.tokens)
        assert abs(with_it[0] - without[0]) > 10 * PER_TOKEN


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no folder"):
        load_model("vllm", {"pretrained": str(tmp_path / "none")})
