"""Scores by token trees, against a plain forward of each text, on tiny models of many kinds."""

from __future__ import annotations

import functools
import random
from threading import active_count, current_thread, main_thread
from time import sleep
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.models.hf.engine import EngineOptions, HFEngine
from lm_eval.models.hf.tree_forward import runs_beside_itself
from lm_eval.models.hf.tree_scoring import TreeScorer
from lm_eval.models.local.token_tree import Span, TokenTree
from tests.support.scored_spans import assert_scores, plain_scores, spans_of

torch = pytest.importorskip("torch", reason="needs torch: pip install 'lm-eval-formats[hf]'")
transformers = pytest.importorskip(
    "transformers", reason="needs transformers: pip install 'lm-eval-formats[hf]'"
)

VOCABULARY = 48
WINDOW = 10
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
_GPT = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1}

# How each model class is made small. Windows are shorter than the texts.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", _GPT | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}),
    "llama, grouped queries": ("Llama", _SIZES),
    "mistral, windows": ("Mistral", _SIZES | {"sliding_window": WINDOW}),
    "qwen2, some windows": (
        "Qwen2",
        _SIZES | {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "gemma2, windows and soft caps": (
        "Gemma2",
        _SIZES
        | {"head_dim": 8, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}
        | {"final_logit_softcapping": 3.0, "attn_logit_softcapping": 5.0},
    ),
}
CLASSES = {"GPT2": "GPT2LMHeadModel"}
TREES = tuple(KINDS)


@functools.cache
def make_model(kind: str, attention: str) -> Any:
    """A model with random weights large enough that what a token sees matters."""
    name, sizes = KINDS[kind]
    torch.manual_seed(11)
    config = getattr(transformers, f"{name}Config")(**sizes)
    config._attn_implementation = attention
    model = getattr(transformers, CLASSES.get(name, f"{name}ForCausalLM"))(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0.0, 0.25)
    return model.eval()


def scorer(model: Any, **options: Any) -> TreeScorer:
    options = {"device": "cpu", "kv_budget": 2**24, **options}
    return TreeScorer(model, plain=functools.partial(plain_scores, model), **options)


TOKENS = st.integers(2, VOCABULARY - 1)
DOCS = st.builds(
    lambda shots, docs: [([*shots[doc[0] % len(shots)], *doc], choices) for doc, choices in docs],
    st.lists(st.lists(TOKENS, max_size=20), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.lists(TOKENS, min_size=1, max_size=12),
            st.lists(st.lists(TOKENS, min_size=1, max_size=5), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=6,
    ),
)
MANY_DOCS = [
    ([*range(2, 22), 2 + doc, 30 + doc % 3], [[40], [41, 2 + doc], [41, 43, 44]])
    for doc in range(20)
]


@pytest.mark.parametrize("kind", TREES)
@settings(max_examples=15)
@given(docs=DOCS, tokens_at_once=st.sampled_from([8, 24, 512]))
def test_scores_equal_plain_forwards(
    kind: str, docs: list[tuple[list[int], list[list[int]]]], tokens_at_once: int
) -> None:
    model = make_model(kind, "eager" if "soft" in kind else "sdpa")
    spans = spans_of(docs)
    tree = scorer(model, tokens_at_once=tokens_at_once)
    assert_scores(model, list(tree.score(TokenTree(spans))), spans)
    assert tree.tokens_pushed - tree.tokens_checked == tree.tokens_needed
    assert (tree.fallbacks, tree.notes) == (0, [])


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("tokens_at_once", [16, 512])
def test_eager_attention_takes_trees_too(kind: str, tokens_at_once: int) -> None:
    model = make_model(kind, "eager")
    spans = spans_of(MANY_DOCS)
    tree = scorer(model, tokens_at_once=tokens_at_once)
    assert_scores(model, list(tree.score(TokenTree(spans))), spans)
    assert tree.fallbacks == 0
    assert tree.tokens_pushed - tree.tokens_checked == tree.tokens_needed < 250


def test_what_is_compared_shares_the_beginning_of_all_texts() -> None:
    """Checking the tree against an ordinary pass costs one text's own part, not its examples."""
    model = make_model("llama, grouped queries", "sdpa")
    spans = spans_of(MANY_DOCS)
    tree = scorer(model, tokens_at_once=32)
    assert_scores(model, list(tree.score(TokenTree(spans))), spans)
    shared = 20
    assert 0 < tree.tokens_checked <= max(len(span.inputs) for span in spans) - shared


def test_wrong_scores_are_found_and_not_used() -> None:
    """A model whose code looks at the tokens of the whole sequence, as none should."""
    model = make_model("llama, grouped queries", "sdpa")

    class Meddling(type(model)):  # type: ignore[misc]  # known at run time only
        def forward(self, input_ids: Any, **arguments: Any) -> Any:
            output = super().forward(input_ids, **arguments)
            if input_ids.shape[1] > 30:
                output.logits[..., 5] += 1.0
            return output

    meddling = Meddling(model.config).eval()
    meddling.load_state_dict(model.state_dict())
    spans = spans_of(MANY_DOCS)
    tree = scorer(meddling)
    assert_scores(meddling, list(tree.score(TokenTree(spans))), spans)
    assert tree.fallbacks == len(spans)
    (note,) = tree.notes
    assert "The prefix cache was not used: with it, the score of a text was off by" in note


def test_no_answer_is_given_before_the_check() -> None:
    """Trees that go wrong only for long texts serve no text, and each is answered once."""
    model = make_model("gpt2", "sdpa")

    class Confused(type(model)):  # type: ignore[misc]  # known at run time only
        def forward(self, input_ids: Any, position_ids: Any = None, **arguments: Any) -> Any:
            if position_ids is not None and int(position_ids.max()) >= 32:
                position_ids = position_ids // 2
            return super().forward(input_ids, position_ids=position_ids, **arguments)

    confused = Confused(model.config).eval()
    confused.load_state_dict(model.state_dict())
    long = [([*range(2, 42), 2 + doc], [[40], [41, 7]]) for doc in range(4)]
    spans = spans_of([*MANY_DOCS, *long])
    tree = scorer(confused, tokens_at_once=64)
    assert_scores(confused, list(tree.score(TokenTree(spans))), spans)
    assert tree.fallbacks == len(spans)


def test_texts_that_do_not_fit_the_budget_fall_back() -> None:
    model = make_model("llama, grouped queries", "sdpa")
    bytes_per_token = 3 * 2 * 2 * 8 * 4
    spans = spans_of([([3, 4], [[5], [6, 7]]), (list(range(2, 40)), [[8, 9]])])
    tree = scorer(model, kv_budget=bytes_per_token * (16 + 30), tokens_at_once=16)
    assert_scores(model, list(tree.score(TokenTree(spans))), spans)
    assert tree.fallbacks == 1
    assert "1 texts" in tree.notes[0]
    assert "Raise it in --model_args" in tree.notes[0]


def test_a_small_budget_makes_passes_smaller_before_texts_fall_back() -> None:
    model = make_model("llama, grouped queries", "sdpa")
    bytes_per_token = 3 * 2 * 2 * 8 * 4
    spans = spans_of(MANY_DOCS)
    longest = max(len(span.inputs) for span in spans)
    lengths: list[int] = []
    model.register_forward_pre_hook(
        lambda _, args, given: lengths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    tree = scorer(model, kv_budget=bytes_per_token * (longest + 64))
    scored = list(tree.score(TokenTree(spans)))
    assert max(lengths) <= 64 < tree.tokens_needed
    assert_scores(model, scored, spans)
    assert (tree.fallbacks, tree.notes) == (0, [])
    assert tree.tokens_pushed - tree.tokens_checked == tree.tokens_needed


def test_answers_come_before_all_work_is_done() -> None:
    model = make_model("gpt2", "sdpa")
    spans = spans_of(MANY_DOCS)
    tree = scorer(model, tokens_at_once=16)
    answers = tree.score(TokenTree(spans))
    first = next(answers)
    assert first.missing == 0
    assert tree.tokens_pushed - tree.tokens_checked < tree.tokens_needed / 2
    assert len(list(answers)) == 59


def passes_of(model: Any, spans: list[Span]) -> tuple[HFEngine, list[int], list[Span]]:
    """What an engine scores, and how many tokens each of its passes had, padding included."""
    passes: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, given: passes.append(given["input_ids"].numel()), with_kwargs=True
    )
    options = EngineOptions(torch.device("cpu"), None, 64, False, True, 2**24)
    engine = HFEngine(model, None, None, options)  # type: ignore[arg-type]  # replies need those
    done = list(engine.score(iter(spans)))
    hook.remove()
    return engine, passes, done


def test_texts_that_share_nothing_go_in_few_padded_passes_and_others_as_a_tree() -> None:
    """As many tokens as a tree would have, without a pass to check it; empty ones cost nothing."""
    model = make_model("llama, grouped queries", "sdpa")
    draw = random.Random(1)
    docs = [
        ([draw.randrange(2, 40) for _ in range(10 + doc % 9)], [[40], [41], [42], [43]])
        for doc in range(300)
    ]
    spans = [*spans_of(docs), Span(1200, [3], [])]
    engine, passes, done = passes_of(model, spans)
    assert_scores(model, done, spans)
    needed = sum(len(context) for context, _ in docs)
    assert len(passes) < 12
    assert sum(passes) < 1.1 * needed
    assert engine.tree_scorer
    assert engine.tree_scorer.tokens_pushed == 0
    spans = spans_of(MANY_DOCS)
    engine, passes, done = passes_of(model, spans)
    assert_scores(model, done, spans)
    assert engine.tree_scorer
    assert engine.tree_scorer.tokens_pushed == sum(passes) < 300


def test_half_precision_is_checked_with_room_for_rounding() -> None:
    model = make_model("llama, grouped queries", "sdpa")
    half = type(model)(model.config).to(torch.bfloat16).eval()
    half.load_state_dict(model.state_dict())
    spans = spans_of(MANY_DOCS)
    tree = scorer(half)
    assert len(list(tree.score(TokenTree(spans)))) == len(spans)
    assert tree.fallbacks == 0


@pytest.mark.parametrize("kind", TREES)
@settings(max_examples=15)
@given(docs=DOCS, lanes=st.integers(2, 4), tokens_at_once=st.sampled_from([8, 24]))
def test_scores_in_lanes_equal_plain_forwards(
    kind: str, docs: list[tuple[list[int], list[list[int]]]], lanes: int, tokens_at_once: int
) -> None:
    model = make_model(kind, "eager" if "soft" in kind else "sdpa")
    spans = spans_of(docs)
    tree = scorer(model, tokens_at_once=tokens_at_once, lanes=lanes)
    assert_scores(model, list(tree.score(TokenTree(spans))), spans)
    longest = max(len(span.inputs) for span in spans)
    evaluated_again = tree.tokens_pushed - tree.tokens_checked - tree.tokens_needed
    assert 0 <= evaluated_again <= (lanes - 1) * longest
    assert (tree.fallbacks, tree.notes) == (0, [])


def in_lanes(model: Any, spans: list[Span], **options: Any) -> tuple[TreeScorer, list[Span]]:
    tree = scorer(model, tokens_at_once=32, lanes=3, **options)
    return tree, list(tree.score(TokenTree(spans)))


def test_lanes_use_threads_of_their_own_share_the_shots_and_repeat_to_the_bit() -> None:
    model = make_model("gpt2", "sdpa")
    threads: set[str] = set()
    hook = model.register_forward_pre_hook(lambda *_: threads.add(current_thread().name))
    spans, cores = spans_of(MANY_DOCS), torch.get_num_threads()
    tree, done = in_lanes(model, spans)
    hook.remove()
    assert len(threads) > 2  # the main one, which checks before the others begin, and those
    assert torch.get_num_threads() == cores
    assert tree.tokens_pushed - tree.tokens_checked == tree.tokens_needed
    _, again = in_lanes(model, spans_of(MANY_DOCS))
    assert {span.index: span.logprob for span in done} == {
        span.index: span.logprob for span in again
    }


@pytest.mark.parametrize("error", [RuntimeError("not made for this"), MemoryError()])
def test_a_lane_that_fails_leaves_every_span_scored_once(error: Exception) -> None:
    model = make_model("gpt2", "sdpa")

    def fail_in_a_lane(_: Any, __: Any, given: Any) -> None:
        if current_thread() is not main_thread() and int(given["position_ids"].max()) > 20:
            raise error

    hook = model.register_forward_pre_hook(fail_in_a_lane, with_kwargs=True)
    spans = spans_of(MANY_DOCS)
    tree, done = in_lanes(model, spans)
    hook.remove()
    assert_scores(model, done, spans)
    assert tree.fallbacks > 0
    assert "memory ran out" in tree.notes[0] or "not made for this" in tree.notes[0]


def test_closing_early_ends_the_threads() -> None:
    model = make_model("gpt2", "sdpa")
    hook = model.register_forward_pre_hook(
        lambda *_: sleep(0.0 if current_thread() is main_thread() else 0.02)
    )
    before = active_count()
    answers = scorer(model, tokens_at_once=8, lanes=2).score(TokenTree(spans_of(MANY_DOCS)))
    while active_count() == before:
        next(answers)
    answers.close()
    hook.remove()
    assert active_count() == before


def test_lanes_are_only_for_models_that_nothing_changes_while_they_work() -> None:
    model = make_model("llama, grouped queries", "sdpa")
    model._forward_pre_hooks.clear()  # of other tests
    assert runs_beside_itself(model)
    hook = model.model.layers[0].register_forward_hook(lambda *_: None)
    assert not runs_beside_itself(model)
    hook.remove()
    model.lm_head.forward = model.lm_head.forward
    assert not runs_beside_itself(model)
    del model.lm_head.forward
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    growing = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_SIZES, rope_parameters=rope)
    )
    assert not runs_beside_itself(growing)
