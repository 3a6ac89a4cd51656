"""The ``hf`` backend with tiny models, against computations by hand and one by one."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.errors import LmEvalWarning  # noqa: E402
from lm_eval.formats.assemble import Chat, Message, Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.requests import (  # noqa: E402
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    RollingRequest,
)
from tests.support import tiny_models  # noqa: E402 (after the check for torch)

CLOSE = 1e-4
QUESTIONS = ("What is the capital of France?", "Which animal barks?", "How many legs has a spider?")
CHOICES = ((" Paris", " Berlin Madrid"), (" a dog", " the old black cat"), (" eight", " A"))
CAUSAL = ("gpt2", "llama")

Load = Callable[..., HFLM]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    template = tiny_models.CHAT_TEMPLATE
    return {
        "gpt2": tiny_models.save(base / "gpt2", "gpt2", chat_template=template),
        "llama": tiny_models.save(base / "llama", "llama", chat_template=template),
        "t5": tiny_models.save(base / "t5", "t5"),
        "bare": tiny_models.save(base / "bare", "gpt2"),
    }


@pytest.fixture
def load(folders: dict[str, Path]) -> Load:
    def load(kind: str = "gpt2", **arguments: Any) -> HFLM:
        return HFLM(str(folders[kind]), **{"device": "cpu", **arguments})

    return load


def pairs(prefix: str = "") -> list[LoglikelihoodRequest]:
    return [
        LoglikelihoodRequest(
            "t", doc_id, index, Prompt((prefix, f"Question: {question}\nAnswer:")), choice
        )
        for doc_id, (question, choices) in enumerate(zip(QUESTIONS, CHOICES, strict=True))
        for index, choice in enumerate(choices)
    ]


def prompt(text: str, doc_id: int = 0, **gen_kwargs: Any) -> GenerateRequest:
    return GenerateRequest("t", doc_id, 0, Prompt((text,)), {"max_gen_toks": 16, **gen_kwargs})


def by_hand(lm: HFLM, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """One text alone through the model, summed in Python."""
    with torch.inference_mode():
        if lm.backend == "seq2seq":
            start = [lm.model.config.decoder_start_token_id, *continuation[:-1]]
            output = lm.model(
                input_ids=torch.tensor([context]), decoder_input_ids=torch.tensor([start])
            )
        else:
            output = lm.model(input_ids=torch.tensor([(context + continuation)[:-1]]))
    rows = output.logits[0].tolist()[-len(continuation) :]
    total, is_greedy = 0.0, True
    for row, token in zip(rows, continuation, strict=True):
        top = max(row)
        total += row[token] - top - math.log(math.fsum(math.exp(x - top) for x in row))
        is_greedy = is_greedy and row.index(top) == token
    return total, is_greedy


def expected(lm: HFLM, request: LoglikelihoodRequest) -> tuple[float, bool]:
    (pair,) = lm.tokens.encode_pairs([(str(request.context), request.continuation)])
    return by_hand(lm, *pair)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_scores_equal_a_computation_by_hand(load: Load, kind: str, prefix_cache: bool) -> None:
    lm = load(kind, prefix_cache=prefix_cache)
    shots = "".join(f"Question: {question} Answer: A\n\n" for question in QUESTIONS)
    requests = pairs() + pairs(shots)
    for request, (score, is_greedy) in zip(requests, lm.loglikelihood(requests), strict=True):
        by_itself = expected(lm, request)
        assert score == pytest.approx(by_itself[0], abs=CLOSE)
        assert is_greedy == by_itself[1]


@pytest.mark.parametrize("kind", CAUSAL)
def test_the_greedy_continuation_is_flagged(load: Load, kind: str) -> None:
    lm = load(kind)
    text = "One two three"
    ids = lm.tok_encode(text)
    with torch.inference_mode():
        top = int(lm.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
    (span,) = lm._score([_span(ids, top)])
    (other,) = lm._score([_span(ids, top + 1)])
    assert (span.is_greedy, other.is_greedy) == (True, False)


def _span(ids: list[int], target: int) -> Any:
    from lm_eval.models.local.token_tree import Span

    return Span(0, ids, [target])


@pytest.mark.parametrize("batch_size", [1, 3, "auto", "auto:4"])
def test_the_batch_changes_no_score(load: Load, batch_size: Any) -> None:
    requests = pairs() + pairs("One two three four five. " * 8)
    alone = [
        answer
        for request in requests
        for answer in load(prefix_cache=False, batch_size=1).loglikelihood([request])
    ]
    together = load(prefix_cache=False, batch_size=batch_size).loglikelihood(requests)
    assert [score for score, _ in together] == pytest.approx([s for s, _ in alone], abs=1e-5)
    assert [flag for _, flag in together] == [flag for _, flag in alone]


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_empty_contexts_and_continuations(load: Load, kind: str) -> None:
    lm = load(kind)
    requests = [
        LoglikelihoodRequest("t", 0, 0, Prompt(("",)), "Paris"),
        LoglikelihoodRequest("t", 0, 1, Prompt(("",)), ""),
        LoglikelihoodRequest("t", 0, 2, Prompt(("Answer:",)), ""),
    ]
    (score, _), *nothing = lm.loglikelihood(requests)
    assert score == pytest.approx(
        by_hand(lm, [lm.prefix_token_id], lm.tok_encode("Paris", add_special_tokens=False))[0],
        abs=CLOSE,
    )
    assert nothing == [(0.0, True)] * 2
    assert lm.describe()["empty_continuations"] == 2


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_long_context_loses_its_beginning_and_is_counted(load: Load, prefix_cache: bool) -> None:
    lm = load("llama", max_length=16, prefix_cache=prefix_cache)
    context = "One two three four five. " * 6 + "The"
    ((score, _),) = lm.loglikelihood(
        [LoglikelihoodRequest("t", 0, 0, Prompt((context,)), " best answer")]
    )
    ((start, continuation),) = lm.tokens.encode_pairs([(context, " best answer")])
    kept = start[-(16 + 1 - len(continuation)) :]
    assert score == pytest.approx(by_hand(lm, kept, continuation)[0], abs=CLOSE)
    assert lm.describe()["truncated_requests"] == 1
    assert any("1 requests were longer than the window of 16" in note for note in lm.warnings)


def test_a_long_text_for_an_encoder_loses_its_beginning_and_is_counted(load: Load) -> None:
    lm = load("t5", max_length=16)
    requests = [
        LoglikelihoodRequest("t", place, 0, Prompt((text,)), " Paris")
        for place, text in enumerate(("One two", "One two three four five. " * 6))
    ]
    ((context, scored),) = lm.tokens.encode_pairs([(str(requests[1].context), " Paris")])
    expected_score, _ = by_hand(lm, context[-16:], scored)
    assert lm.loglikelihood(requests)[1][0] == pytest.approx(expected_score, abs=CLOSE)
    assert lm.describe()["truncated_requests"] == 1


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_rolling_windows_score_each_token_once(load: Load, prefix_cache: bool) -> None:
    lm = load("llama", max_length=16, prefix_cache=prefix_cache)
    text = "One two three four five. The old black cat. " * 3
    tokens = [lm.prefix_token_id, *lm.tok_encode(text)]
    total = 0.0
    for scored in range(0, len(tokens) - 1, 16):
        end = min(scored + 16, len(tokens) - 1)
        window, new = tokens[max(0, end - 16) : end + 1], end - scored
        total += by_hand(lm, window[:-new], window[-new:])[0]
    texts = [RollingRequest("t", 0, 0, text), RollingRequest("t", 1, 0, "")]
    assert lm.loglikelihood_rolling(texts) == pytest.approx([total, 0.0], abs=1e-3)


def test_perplexity_counts_the_bos_token_that_a_tokenizer_adds(tmp_path: Path) -> None:
    """As 0.4.13 does: it rolls over ``[BOS, t1, …]`` after the prefix token."""
    folder = str(tiny_models.save(tmp_path / "m", "llama", adds_bos=True))
    request = [RollingRequest("t", 0, 0, "The old black cat.")]
    lm, plain = HFLM(folder, device="cpu"), HFLM(folder, device="cpu", add_bos_token=False)
    bos, *text = lm.tok_encode("The old black cat.")
    assert lm.loglikelihood_rolling(request) == pytest.approx(
        [by_hand(lm, [bos], [bos, *text])[0]], abs=CLOSE
    )
    assert plain.loglikelihood_rolling(request) == pytest.approx(
        [by_hand(lm, [bos], text)[0]], abs=CLOSE
    )


def test_add_bos_token_leaves_a_tokenizer_of_the_program_as_it_is(folders: dict[str, Path]) -> None:
    own = tiny_models.make_tokenizer()
    with pytest.warns(LmEvalWarning, match="adds no BOS"):
        lm = HFLM(str(folders["llama"]), device="cpu", tokenizer=own, add_bos_token=True)
    assert lm.tok_encode("cat") == own("cat")["input_ids"]
    named = HFLM(str(folders["llama"]), device="cpu", add_bos_token=True)
    assert named.tok_encode("cat") == [own.bos_token_id, *own("cat")["input_ids"]]


@pytest.mark.parametrize("kind", CAUSAL)
def test_greedy_generation_equals_a_loop_by_hand(load: Load, kind: str) -> None:
    lm = load(kind)
    ids = lm.tok_encode("Which animal")
    generated: list[int] = []
    for _ in range(8):
        with torch.inference_mode():
            logits = lm.model(input_ids=torch.tensor([ids + generated])).logits
        generated.append(int(logits[0, -1].argmax()))
    (reply,) = lm.generate_until([prompt("Which animal", max_gen_toks=8)])
    assert reply == lm.tok_decode(generated)
    assert isinstance(reply, Reply)
    assert reply.finish == "length"


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_replies_together_equal_replies_one_by_one(load: Load, kind: str) -> None:
    texts = ["One", "Which animal barks? a dog, the old", "The best answer is", "How many legs"]
    requests = [prompt(text, n, until=["\n", " the"]) for n, text in enumerate(texts)]
    requests += [prompt("One two", 9 + n, temperature=1.0, top_p=0.9) for n in range(3)]
    requests += [prompt("One two", 20, max_gen_toks=3), prompt("One two", 21, max_gen_toks=40)]
    together = load(kind, batch_size=len(requests)).generate_until(requests)
    lm = load(kind, batch_size=1)
    assert [lm.generate_until([request])[0] for request in reversed(requests)] == together[::-1]
    assert len({*together[4:7]}) > 1  # each request has a random stream of its own
    assert load(kind, seed=5).generate_until(requests)[4:7] != together[4:7]


def test_penalties_do_not_depend_on_the_batch_and_are_taken_from_nowhere_else(
    load: Load, tmp_path: Path
) -> None:
    texts = ["One", "Which animal barks? a dog, the old black cat"]
    penal = [prompt(text, n, repetition_penalty=5.0) for n, text in enumerate(texts)]
    lm = load(batch_size=4)
    together = lm.generate_until(penal)
    assert [lm.generate_until([request])[0] for request in penal] == together
    plain = [prompt(text, n) for n, text in enumerate(texts)]
    assert lm.generate_until(plain) != together
    # What a model's own generation_config says about penalties and sampling is left out.
    folder = tiny_models.save(tmp_path / "other", "gpt2")
    settings = {"repetition_penalty": 5.0, "do_sample": True, "temperature": 3.0}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    other = HFLM(folder, device="cpu")
    assert other.generate_until(plain) == lm.generate_until(plain)
    assert other.describe()["generation_config_not_used"] == settings


def test_a_long_prompt_leaves_room_for_the_reply(load: Load) -> None:
    lm = load("llama", max_length=24)
    text = "One two three four five. " * 9
    (reply,) = lm.generate_until([prompt(text, max_gen_toks=8)])
    kept = lm.tok_encode(text)[-16:]
    (same,) = load("llama").generate_until([prompt(lm.tok_decode(kept), max_gen_toks=8)])
    assert reply == same
    assert lm.truncated == 1


def test_special_tokens_that_end_a_text(folders: dict[str, Path], tmp_path: Path) -> None:
    """The greedy token is made the one that ends a text: by the configuration, or as a stop string."""
    lm = HFLM(folders["llama"], device="cpu")
    with torch.inference_mode():
        ids = torch.tensor([lm.tok_encode("The best")])
        top = int(lm.model(input_ids=ids).logits[0, -1].argmax())
    folder = tiny_models.save(tmp_path / "ends", "llama")
    path = folder / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [1, top]}))
    (reply,) = HFLM(folder, device="cpu").generate_until([prompt("The best")])
    assert (reply, reply.finish) == ("", "stop")


def test_chats(load: Load) -> None:
    lm = load("llama", enable_thinking=False)
    assert lm.capabilities.chat_template
    chat = Chat(
        (Message("user", "Which animal barks?"), Message("assistant", "The best answer is"))
    )
    assert lm.render(chat).endswith("<|assistant|>\nThe best answer is")
    assert lm.render(Chat(chat.messages[:1])).endswith("<think></think>")
    by_arguments = load("llama", chat_template_args='{"enable_thinking": false}')
    assert by_arguments.render(Chat(chat.messages[:1])) == lm.render(Chat(chat.messages[:1]))
    (reply,) = lm.generate_until([GenerateRequest("t", 0, 0, chat, {"max_gen_toks": 4})])
    assert reply
    assert not load("bare").capabilities.chat_template


def test_answers_come_before_all_requests_are_read(load: Load) -> None:
    """A run that dies has kept what was answered, and memory does not grow with the run."""
    read = 0

    def many() -> Any:
        nonlocal read
        for n in range(5000):
            read += 1
            yield LoglikelihoodRequest("t", n, 0, Prompt((f"Question: {n}?",)), " A")

    next(iter(load(prefix_cache=False).stream(many())))
    assert read < 1000


def test_what_identifies_a_model(load: Load) -> None:
    one = load("gpt2").identity()
    assert load("gpt2", batch_size=7, prefix_cache=False).identity() == one  # only speed
    for other in (
        load("llama"),
        load("gpt2", dtype="bfloat16"),
        load("gpt2", max_length=99),
        load("gpt2", seed=9),
        load("gpt2", add_bos_token=True),
        load("bare"),
    ):
        assert other.identity() != one
    assert (
        load("gpt2").identity()["digest"]
        == load("bare").identity()["digest"]
        != (load("llama").identity()["digest"])
    )
    json.dumps(load("gpt2").describe())


def test_bfloat16_is_near_float32(load: Load) -> None:
    requests = pairs()
    exact = [score for score, _ in load("llama").loglikelihood(requests)]
    lm = load("llama", dtype="bfloat16")
    assert lm.model.dtype == torch.bfloat16
    assert [score for score, _ in lm.loglikelihood(requests)] == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("name", ["mcqa", "generate", "cloze"])
def test_the_quick_start(folders: dict[str, Path], tmp_path: Path, name: str) -> None:
    """The three commands of the documentation's quick start, against a folder."""
    work = Workplace(tmp_path)
    work.task(formats=...)
    work.rows(count=4)
    command = f"run --tasks t@{name} --model hf --model_args pretrained={folders['gpt2']}"
    done = work.cli(*command.split(), "--include_path", ".", "--output_path", str(work.output)).ok()
    assert f"\n{name} " in done.out
    results = work.results()
    assert results["results"][f"t@{name}"]
    assert len(work.samples(f"t@{name}")) == 4
    assert results["config"]["model"] == "hf"


def test_formats_of_one_run_share_their_beginnings(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    work = Workplace(tmp_path)
    work.task(formats=..., description="One two three four five. " * 6)

    def pushed(*tasks: str) -> int:
        work.run(
            *("--include_path", str(tmp_path), "--tasks", *tasks, "--limit", "4"),
            *("--model_args", f"pretrained={folders['llama']}"),
            model="hf",
        ).ok()
        config = work.results()["config"]
        shutil.rmtree(work.output)
        assert config["model_tokens_needed"] <= config["model_tokens_pushed"]
        return int(config["model_tokens_pushed"])

    one, other = pushed("t@mcqa"), pushed("t@cloze")
    assert max(one, other) < pushed("t@mcqa", "t@cloze") < one + other - 30


def test_a_chat_run(folders: dict[str, Path], tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    work.task(formats=...)
    arguments = ("--include_path", str(tmp_path), "--tasks", "t@generate", "--limit", "2")
    arguments += ("--apply_chat_template", "--gen_kwargs", "max_gen_toks=4")
    work.run(*arguments, "--model_args", f"pretrained={folders['llama']}", model="hf").ok()
    assert "<|assistant|>\nThe best answer is" in json.dumps(
        work.samples("t@generate")[0], ensure_ascii=False
    ).replace("\\n", "\n")
    refused = work.run(*arguments, "--model_args", f"pretrained={folders['bare']}", model="hf")
    assert refused.code != 0
    assert "no chat template" in refused.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("model", "flags", "says_so"),
    [
        ("llama", (), True),
        ("llama", ("--apply_chat_template",), False),
        ("llama", ("--apply_chat_template", "false"), False),
        ("bare", (), False),
    ],
)
def test_a_model_asked_without_its_chat_template_says_so(
    folders: dict[str, Path], tmp_path: Path, model: str, flags: tuple[str, ...], says_so: bool
) -> None:
    place = Workplace(tmp_path)
    place.task()
    done = place.run(
        *(
            "--tasks",
            "t.yaml",
            "--limit",
            "2",
            "--model_args",
            f"pretrained={folders[model]}",
            *flags,
        ),
        model="hf",
    ).ok()
    assert ("has a chat template and is asked without it" in done.err) is says_so
