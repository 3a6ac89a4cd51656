"""The GGUF backend with the real default model, against a naive one-by-one computation."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError, ModelError, UsageError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.gguf import GgufLM
from lm_eval.models.llama_cpp.engine import BatchEntry, Engine
from lm_eval.models.llama_cpp.generation import Scorer
from lm_eval.models.llama_cpp.tokens import GgufTokens
from lm_eval.models.local.token_tree import Span
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Reply, RollingRequest
from tests.support.command_line import Workplace

# Log-probs are equal to the last bits here, because the backend keeps llama.cpp on one summation
# order. Another release or CPU may not, and quantised weights then differ by some hundredths.
CLOSE = 1e-2
ROUNDING = 1e-6

QUESTIONS = ("What is the capital of France?", "Which animal barks?", "How many legs has a spider?")
CHOICES = ((" Paris", " New York"), (" a dog", " the old black cat"), (" eight", " 8"))


@pytest.fixture(scope="module")
def lm() -> Iterator[GgufLM]:
    model = _default_model(n_ctx=1024)
    yield model
    model.close()


def _default_model(**arguments: Any) -> GgufLM:
    try:
        return GgufLM(n_threads=1, **arguments)  # one thread: other jobs disturb less
    except MissingExtraError as error:
        pytest.skip(f"needs cyllama and the default weights: {error.install}")


def _pairs(prefix: str = "") -> list[LoglikelihoodRequest]:
    requests = []
    for doc_id, (question, choices) in enumerate(zip(QUESTIONS, CHOICES, strict=True)):
        context = Prompt((prefix, f"Question: {question}\nAnswer:"))
        for index, choice in enumerate(choices):
            requests.append(LoglikelihoodRequest("t", doc_id, index, context, choice))
    return requests


def _prompt(text: str, doc_id: int = 0, **gen_kwargs: object) -> GenerateRequest:
    return GenerateRequest("t", doc_id, 0, Prompt((text,)), gen_kwargs)


def pair_of(lm: GgufLM, context: str, continuation: str) -> tuple[list[int], list[int]]:
    (pair,) = lm.tokens.encode_pairs([(context, continuation)])
    return pair


def _rows(engine: Engine, tokens: list[int], last: int = 1) -> list[list[float]]:
    """The logits after each of the ``last`` tokens, from an empty cache."""
    engine.reserve(len(tokens))
    engine.clear()
    rows = []
    for start in range(0, len(tokens), engine.n_batch):
        part = tokens[start : start + engine.n_batch]
        wanted = [start + i >= len(tokens) - last for i in range(len(part))]
        engine.decode([BatchEntry(t, start + i, [0], wanted[i]) for i, t in enumerate(part)])
        rows += [engine.logits(i).tolist() for i in range(len(part)) if wanted[i]]
    return rows


def _naive_score(engine: Engine, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    rows = _rows(engine, (context + continuation)[:-1], len(continuation))
    total, is_greedy = 0.0, True
    for row, token in zip(rows, continuation, strict=True):
        top = max(row)
        total += row[token] - top - math.log(math.fsum(math.exp(x - top) for x in row))
        is_greedy = is_greedy and row.index(top) == token
    return total, is_greedy


def _check_scores(lm: GgufLM, requests: list[LoglikelihoodRequest]) -> None:
    answers = lm.loglikelihood(requests)
    for request, (score, is_greedy) in zip(requests, answers, strict=True):
        pair = pair_of(lm, str(request.context), request.continuation)
        expected, expected_greedy = _naive_score(lm.engine, *pair)
        assert score == pytest.approx(expected, abs=CLOSE)
        assert is_greedy == expected_greedy


def test_scores_equal_a_naive_computation(lm: GgufLM) -> None:
    _check_scores(lm, _pairs())


def test_scores_equal_with_a_shared_few_shot_text(lm: GgufLM) -> None:
    shots = "".join(f"Question: What is {n} plus {n}?\nAnswer: {2 * n}\n\n" for n in range(10))
    _check_scores(lm, _pairs(shots)[1:4])


def _apart(scores: list[float], others: list[float]) -> tuple[float, float]:
    """How far scores are from others: at most, and on average."""
    differences = [abs(one - other) for one, other in zip(scores, others, strict=True)]
    return max(differences), sum(differences) / len(differences)


def test_the_tree_moves_scores_no_more_than_another_n_ubatch() -> None:
    """Each text by itself, from an empty cache, is what scores were before there was a tree."""
    shots = "".join(f"Question: What is {n} plus {n}?\nAnswer: {2 * n}\n" for n in range(4))
    requests = _pairs(shots)
    lm = _default_model(batch_size=32)  # so that the tree is several pieces
    other = Engine(lm.engine.path, n_threads=1, n_batch=252, n_ubatch=128)
    try:
        with_tree = [score for score, _ in lm.loglikelihood(requests)]
        pairs = [pair_of(lm, str(request.context), request.continuation) for request in requests]
        before, with_other_layout = (
            [_naive_score(engine, *pair)[0] for pair in pairs] for engine in (lm.engine, other)
        )
    finally:
        lm.close()
        other.close()
    largest, mean = _apart(with_tree, before)
    yardstick, mean_yardstick = _apart(with_other_layout, before)
    assert yardstick < 1  # or more than a layout differs, and nothing is measured by it
    assert largest <= max(yardstick, ROUNDING)
    assert mean <= max(mean_yardstick, ROUNDING)


def test_scores_do_not_depend_on_the_batch(lm: GgufLM) -> None:
    requests = _pairs()
    together = lm.loglikelihood(requests)
    alone = [lm.loglikelihood([request])[0] for request in reversed(requests)]
    assert [score for score, _ in together] == pytest.approx(
        [score for score, _ in reversed(alone)], abs=CLOSE
    )


def test_the_greedy_token_is_flagged_and_probabilities_sum_to_one(lm: GgufLM) -> None:
    tokens = lm.tok_encode("The capital of France is")
    _rows(lm.engine, tokens)
    scores = lm.engine.score(len(tokens) - 1, range(49152))
    assert math.fsum(math.exp(score) for score, _ in scores) == pytest.approx(1.0, abs=1e-6)
    assert sum(is_top for _, is_top in scores) == 1


def test_white_space_belongs_to_the_continuation(lm: GgufLM) -> None:
    assert pair_of(lm, "Answer: ", "Paris") == pair_of(lm, "Answer:", " Paris")


def test_empty_context_and_empty_continuation(lm: GgufLM) -> None:
    before = lm.empty_continuations
    requests = [
        LoglikelihoodRequest("t", 0, 0, Prompt(("",)), "Paris"),
        LoglikelihoodRequest("t", 0, 1, Prompt(("",)), ""),
    ]
    (score, _), nothing = lm.loglikelihood(requests)
    expected, _ = _naive_score(lm.engine, [lm.prefix_token_id], lm.engine.tokenize("Paris"))
    assert score == pytest.approx(expected, abs=CLOSE)
    assert nothing == (0.0, True)
    assert lm.empty_continuations == before + 1


@pytest.fixture
def narrow(lm: GgufLM, monkeypatch: pytest.MonkeyPatch) -> GgufLM:
    """The same model with a window of 16 tokens."""
    monkeypatch.setattr(lm, "n_ctx", 16)
    monkeypatch.setattr(lm, "truncated", 0)
    return lm


def test_a_long_context_loses_its_beginning_and_is_counted(narrow: GgufLM) -> None:
    context = "one two three four five six seven eight nine ten " * 4 + "and"
    ((score, _),) = narrow.loglikelihood(
        [LoglikelihoodRequest("t", 0, 0, Prompt((context,)), " so on")]
    )
    start, continuation = pair_of(narrow, context, " so on")
    kept = start[-(16 + 1 - len(continuation)) :]
    assert score == pytest.approx(_naive_score(narrow.engine, kept, continuation)[0], abs=CLOSE)
    assert narrow.describe()["truncated_requests"] == 1
    assert "lost their beginning" in narrow.warnings[0]


def test_a_continuation_longer_than_the_window_is_an_error(narrow: GgufLM) -> None:
    with pytest.raises(ModelError, match=r"doc 7: a continuation of \d+ tokens .* Raise n_ctx"):
        narrow.loglikelihood([LoglikelihoodRequest("t", 7, 0, Prompt(("x",)), " word" * 40)])


def test_rolling_windows_score_each_token_once(narrow: GgufLM) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen " * 2
    tokens = [narrow.prefix_token_id, *narrow.engine.tokenize(text)]
    expected = 0.0
    for scored in range(0, len(tokens) - 1, 16):
        end = min(scored + 16, len(tokens) - 1)
        window = tokens[max(0, end - 16) : end + 1]
        new = end - scored
        expected += _naive_score(narrow.engine, window[:-new], window[-new:])[0]
    texts = [RollingRequest("t", 0, 0, text), RollingRequest("t", 1, 0, "")]
    assert narrow.loglikelihood_rolling(texts) == pytest.approx([expected, 0.0], abs=CLOSE * 3)


def test_greedy_generation_equals_a_naive_loop(lm: GgufLM) -> None:
    tokens = lm.tok_encode("The capital of France is")
    generated: list[int] = []
    for _ in range(6):
        row = _rows(lm.engine, tokens + generated)[-1]
        generated.append(row.index(max(row)))
    expected = b"".join(lm.engine.piece(token) for token in generated).decode()
    (reply,) = lm.generate_until([_prompt("The capital of France is", max_gen_toks=6)])
    assert reply == expected
    assert isinstance(reply, Reply)
    assert reply.finish == "length"


def test_parallel_replies_equal_single_ones(lm: GgufLM, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        GenerateRequest("t", n, 0, Chat((Message("user", question),)), {"max_gen_toks": 10 + n})
        for n, question in enumerate(QUESTIONS)
    ]
    sampled = [_prompt("Once upon", n, max_gen_toks=6, temperature=1.0) for n in range(2)]
    together = lm.generate_until(requests + sampled)
    monkeypatch.setattr(lm, "n_parallel", 1)
    assert lm.generate_until(requests + sampled) == together
    assert together[3] != together[4]  # each request has a random stream of its own


def test_stop_strings_cut_before_themselves(lm: GgufLM) -> None:
    (full,) = lm.generate_until([_prompt("1 2 3 4 5", max_gen_toks=8)])
    stop = full[3:6]  # wherever tokens begin and end
    (cut,) = lm.generate_until([_prompt("1 2 3 4 5", max_gen_toks=8, until=[stop])])
    assert cut == full[: full.index(stop)]
    assert isinstance(cut, Reply)
    assert cut.finish == "stop"


def test_chat_ends_at_the_end_of_the_turn(lm: GgufLM) -> None:
    chat = Chat((Message("user", "Say only: yes"), Message("assistant", "The best answer is")))
    text = lm.render(chat)
    assert text.endswith("<|im_start|>assistant\nThe best answer is")
    assert lm.tok_encode(text)[0] == lm.engine.bos
    short = Chat((Message("user", "What is 1+1? Answer with one number."),))
    (reply,) = lm.generate_until([GenerateRequest("t", 0, 0, short, {"max_gen_toks": 64})])
    assert "<|im_end|>" not in reply
    assert isinstance(reply, Reply)
    assert reply.finish == "stop"


def test_bos_is_added_once(lm: GgufLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm, "_tokens", GgufTokens(lm.engine, adds_bos=True))
    bos = lm.engine.bos
    assert lm.tok_encode("x")[0] == bos
    assert lm.tok_encode("<|im_start|>x").count(bos or 0) == 1


def test_unicode_survives(lm: GgufLM) -> None:
    text = "naïve 🦙 中文 ½\x00 ok"
    tokens = lm.engine.tokenize(text)
    assert b"".join(lm.engine.piece(token) for token in tokens).decode() == text
    assert lm.engine.tokenize("a\ud800b") == lm.engine.tokenize("a\ufffdb")


def test_wrong_generation_arguments(lm: GgufLM) -> None:
    with pytest.raises(UsageError, match=r"top_q=0.5 .*Did you mean 'top_[pk]'.*Valid: until"):
        lm.generate_until([_prompt("x", top_q=0.5)])
    long = _prompt("word " * lm.max_length, max_gen_toks=lm.max_length)
    with pytest.raises(UsageError, match="no reply fits beside it"):
        lm.generate_until([long])


def test_an_interrupted_stream_leaves_no_trace(lm: GgufLM) -> None:
    requests = _pairs()
    expected = lm.loglikelihood(requests)
    next(iter(lm.stream(requests)))
    assert lm.loglikelihood(requests) == expected


def test_wrong_files(tmp_path: Path, lm: GgufLM) -> None:
    (tmp_path / "text.gguf").write_text("hello")
    (tmp_path / "cut.gguf").write_bytes(lm.engine.path.read_bytes()[:4096])
    wrong = {
        "nowhere.gguf": "There is no file .*nowhere.gguf. Check the path given with --model_args path=",
        "text.gguf": "not a GGUF file",
        "cut.gguf": "cannot",
    }
    for name, message in wrong.items():
        with pytest.raises(ModelError, match=message):
            GgufLM(path=tmp_path / name)
    with pytest.raises(ModelError, match=r"is a folder.*cut\.gguf, text\.gguf"):
        GgufLM(path=str(tmp_path))
    with pytest.raises(UsageError, match="n_ctx must be a whole number"):
        GgufLM(n_ctx=0)


def test_a_kv_budget_bounds_what_is_kept_at_a_time(lm: GgufLM) -> None:
    small = GgufLM(n_threads=1, kv_budget=2**24)
    try:
        assert small.engine.most_cells == lm.engine.most_cells // 64
        assert small.describe()["kv_budget"] == 2**24
    finally:
        small.close()
    with pytest.raises(
        UsageError, match="kv_budget must be a whole number of bytes above 0, not 'much'"
    ):
        GgufLM(kv_budget="much")  # type: ignore[arg-type]


def test_the_layout_is_recorded_and_no_argument_changes_it(lm: GgufLM) -> None:
    """How many tokens go together moves scores a little, so runs must not differ in it unseen."""
    other = GgufLM(n_threads=1, n_ctx=512, batch_size=504)
    try:
        layout, also = lm.describe(), other.describe()
        assert layout["n_ubatch"] == also["n_ubatch"] == 63
        assert (layout["n_batch"], also["n_batch"]) == (252, 504)
        requests = _pairs()
        assert other.loglikelihood(requests) == lm.loglikelihood(requests)
    finally:
        other.close()


def test_each_beginning_is_evaluated_once(lm: GgufLM) -> None:
    spans = []
    for place, request in enumerate(_pairs("Some shots. " * 30)):
        context, choice = pair_of(lm, str(request.context), request.continuation)
        spans.append(Span(place, (context + choice)[:-1], choice))
    texts = [tuple(span.inputs) for span in spans]
    scorer = Scorer(lm.engine)
    assert len(list(scorer.score(spans))) == len(spans)
    beginnings = {text[:end] for text in texts for end in range(1, len(text) + 1)}
    assert scorer.tokens_pushed == scorer.tokens_needed == len(beginnings)


def test_nothing_is_printed_and_close_frees(lm: GgufLM) -> None:
    code = (
        "from lm_eval.models.gguf import GgufLM\n"
        "lm = GgufLM(n_threads=1); lm.engine.reserve(10); lm.close(); lm.close()\n"
        "try: lm.engine\nexcept Exception as e: assert 'closed' in str(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("flags", "task", "as_chat"),
    [
        ((), {}, True),
        (("--model", "gguf"), {}, True),
        (("--apply_chat_template", "false"), {}, False),
        (("--parity",), {}, False),
        ((), {"formats": ..., "output_type": "multiple_choice"}, False),
    ],
)
def test_the_embedded_model_is_asked_through_its_chat_template(
    lm: GgufLM, tmp_path: Path, flags: tuple[str, ...], task: dict[str, Any], as_chat: bool
) -> None:
    """Unless a flag says otherwise, or the task is one of the harness, which has no format."""
    place = Workplace(tmp_path)
    place.task(**task)
    done = place.cli(
        *("run", "--tasks", "t.yaml", "--limit", "1", "--output_path", str(place.output), *flags)
    ).ok()
    assert (place.results()["chat_template"] is not None) is as_chat
    (sample,) = place.samples("t")
    assert ("<|im_start|>" in str(sample["arguments"])) is as_chat
    is_said = "has a chat template and is asked without it" in done.err
    assert is_said is (not as_chat and "false" not in flags)
