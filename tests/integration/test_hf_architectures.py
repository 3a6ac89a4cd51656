"""Every architecture scores as its own plain forward does: by trees where it can, else it says why."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import pytest

from lm_eval.formats.assemble import Prompt
from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.endings import BatchJob, Endings
from lm_eval.models.hf.forward import PlainScorer, find_rope_switch
from lm_eval.models.hf.generation import BatchGenerator
from lm_eval.models.hf.tree_forward import refusal
from lm_eval.models.hf.tree_scoring import TreeScorer
from lm_eval.models.huggingface import HFLM
from lm_eval.models.local.token_tree import Span, TokenTree
from lm_eval.requests import GenerateRequest
from tests.support import tiny_models
from tests.support.scored_spans import assert_scores, spans_of

torch = pytest.importorskip("torch", reason="needs torch: pip install 'lm-eval-formats[hf]'")
transformers = pytest.importorskip(
    "transformers", reason="needs transformers: pip install 'lm-eval-formats[hf]'"
)

VOCABULARY = 48
WINDOW = 20  # some texts are shorter, some longer
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
_OWN_HEADS = {name: size for name, size in _SIZES.items() if name != "num_key_value_heads"}
_GPT = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1, "n_layer": 2, "n_head": 4}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
_EXPERTS |= {"moe_intermediate_size": 16, "sliding_window": WINDOW}
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
_LATENT |= {"v_head_dim": 8, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 1}
_LATENT |= {"topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
_LONG = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4}
_LONG |= {"long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": WINDOW}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
_YARN |= {"original_max_position_embeddings": WINDOW}
_GROWING = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}

# How each is made small, and what its note says of what goes through as a whole ("" if nothing does).
KINDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "bart, a decoder alone": (
        "Bart",
        {"vocab_size": VOCABULARY, "d_model": 32, "decoder_layers": 2, "decoder_ffn_dim": 48}
        | {"decoder_attention_heads": 4, "max_position_embeddings": 256, "is_decoder": True}
        | {"is_encoder_decoder": False},
        "was off by",
    ),
    "bloom": ("Bloom", _GPT | {"hidden_size": 32}, "ALiBi"),
    "cohere2": ("Cohere2", _SIZES | {"sliding_window": WINDOW}, ""),
    "deepseek_v3": ("DeepseekV3", _SIZES | _LATENT | {"first_k_dense_replace": 1}, ""),
    "deepseek_v32, some tokens": (
        "DeepseekV32",
        _SIZES
        | _LATENT
        | {"first_k_dense_replace": 1, "index_topk": 8, "index_n_heads": 2, "index_head_dim": 16},
        "layers of the kind indexed",
    ),
    "doge, all tokens": ("Doge", _SIZES, ""),
    "doge, some tokens": ("Doge", _SIZES | {"keep_window_size": WINDOW}, "was off by"),
    "falcon": ("Falcon", _OWN_HEADS, ""),
    "falcon, alibi": ("Falcon", _OWN_HEADS | {"alibi": True}, "ALiBi"),
    "gemma": ("Gemma", _SIZES | {"head_dim": 8}, ""),
    "gemma3": (
        "Gemma3Text",
        _SIZES | {"head_dim": 8, "sliding_window": WINDOW, "layer_types": _LAYERS},
        "",
    ),
    "gemma4, layers of two widths": (
        "Gemma4Text",
        _SIZES
        | {"head_dim": 8, "global_head_dim": 16, "sliding_window": WINDOW, "layer_types": _LAYERS}
        | {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY}
        | {"num_kv_shared_layers": 0},
        "",
    ),
    "glm4": ("Glm4", _SIZES | {"head_dim": 8}, ""),
    "gpt_neo": (
        "GPTNeo",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
        | {"attention_types": [[["global", "local"], 1]], "window_size": WINDOW}
        | {"max_position_embeddings": 256},
        "places in the cache for its local attention",
    ),
    "gpt_neox": ("GPTNeoX", _OWN_HEADS, ""),
    "gpt_oss": ("GptOss", _SIZES | _EXPERTS | {"head_dim": 8, "layer_types": _LAYERS}, ""),
    "gptj": ("GPTJ", _GPT | {"n_embd": 32, "n_positions": 256, "rotary_dim": 4}, ""),
    "granite": ("Granite", _SIZES, ""),
    "lfm2": (
        "Lfm2",
        _SIZES | {"layer_types": ["conv", "full_attention", "conv"]},
        "layers of the kind conv",
    ),
    "llama, growing positions": (
        "Llama",
        _SIZES | {"max_position_embeddings": WINDOW, "rope_parameters": _GROWING},
        "beyond 20 tokens it encodes positions differently",
    ),
    "llama, yarn": ("Llama", _SIZES | {"rope_parameters": _YARN}, ""),
    "llama4": ("Llama4Text", _SIZES | _EXPERTS | {"head_dim": 8}, "chunked_attention"),
    "mamba": (
        "Mamba",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2},
        "one state from token to token",
    ),
    "mixtral": ("Mixtral", _SIZES | _EXPERTS, ""),
    "mpt": ("Mpt", {"vocab_size": VOCABULARY, "d_model": 32, "n_heads": 4, "n_layers": 2}, "ALiBi"),
    "olmo2": ("Olmo2", _SIZES, ""),
    "olmo3": ("Olmo3", _SIZES | {"sliding_window": WINDOW, "layer_types": _LAYERS}, ""),
    "opt": ("OPT", _OWN_HEADS | {"ffn_dim": 48, "word_embed_proj_dim": 32}, ""),
    "phi": ("Phi", _SIZES, ""),
    "phi3, positions of long texts": (
        "Phi3",
        _SIZES
        | {"rope_parameters": _LONG, "original_max_position_embeddings": WINDOW}
        | {"sliding_window": None},
        "beyond 20 tokens it encodes positions differently",
    ),
    "qwen3": ("Qwen3", _SIZES | {"head_dim": 8}, ""),
    "qwen3_moe": ("Qwen3Moe", _SIZES | _EXPERTS | {"head_dim": 8}, ""),
    "rwkv": ("Rwkv", {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}, "state"),
    "smollm3": ("SmolLM3", _SIZES, ""),
    "stablelm": ("StableLm", _SIZES, ""),
    "starcoder2": ("Starcoder2", _SIZES | {"sliding_window": WINDOW}, ""),
}  # fmt: skip


@functools.cache
def make_model(kind: str) -> Any:
    """A model with random weights large enough that what a token sees matters."""
    name, sizes, _ = KINDS[kind]
    config_class = getattr(transformers, f"{name}Config", None)
    model_class = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM", None)
    if config_class is None or model_class is None:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    torch.manual_seed(11)
    model = model_class(config_class(**sizes))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0.0, 0.25)
    return model.eval()


def texts() -> list[Span]:
    """Questions of several lengths after the same examples, with choices of several lengths."""
    shots = list(range(2, 13))
    questions = [[13 + doc, *range(20, 22 + 3 * (doc % 5))] for doc in range(10)]
    choices = [[40], [41, 42], [41, 43, 44]]
    return spans_of([([*shots, *question], choices) for question in questions])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")  # of kernels that are not installed
def test_scores_are_those_of_plain_forwards(kind: str) -> None:
    model, note = make_model(kind), KINDS[kind][2]
    for tokens_at_once in (24, 512):
        spans = texts()
        tree = TreeScorer(
            model,
            device="cpu",
            plain=PlainScorer(model, device="cpu", batch=AutoBatch(4)).score_together,
            kv_budget=2**24,
            tokens_at_once=tokens_at_once,
        )
        assert_scores(model, list(tree.score(TokenTree(spans))), spans)
        assert [note in text for text in tree.notes] == ([True] if note else [])
        assert bool(tree.fallbacks) == bool(note)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_scores_are_the_same_beside_longer_texts(kind: str) -> None:
    """Padding goes unseen; where a model sees it from a length on, texts go one at a time."""
    model = make_model(kind)
    plain = PlainScorer(model, device="cpu", batch=AutoBatch(4))
    for spans in (spans_of([([5, 4], [[3], [3, 3]]), ([9], [[8]])]), texts()):
        assert_scores(model, list(plain.score(spans)), spans)
    assert any("one at a time" in note for note in plain.notes) == kind.endswith("some tokens")


def test_replies_of_long_prompts_do_not_change_those_beside_them(tmp_path: Path) -> None:
    """Some cross the length from which positions are encoded otherwise, some while they are written."""
    tokenizer = tiny_models.make_tokenizer()
    sizes = KINDS["phi3, positions of long texts"][1] | {"vocab_size": len(tokenizer)}
    torch.manual_seed(11)
    model = transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0.0, 0.25)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    asked = [("One", 4), ("Which animal", 30), ("The best", 8), ("One two three. " * 9, 6)]
    requests = [
        GenerateRequest("t", doc_id, 0, Prompt((text,)), {"max_gen_toks": length})
        for doc_id, (text, length) in enumerate(asked)
    ]
    together = HFLM(tmp_path, device="cpu", batch_size=8).generate_until(requests)
    lm = HFLM(tmp_path, device="cpu", batch_size=1)
    assert together == [lm.generate_until([request])[0] for request in requests]


class _Numbers:
    """Tokens shown as their numbers."""

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))


def replies(
    model: Any, prompts: list[list[int]], *, rows: int, prefix_cache: bool
) -> tuple[list[str], int, list[str]]:
    """What follows each prompt, the tokens that went through the model, and notes."""
    pushed = []

    def count(_: Any, args: Any, given: dict[str, Any]) -> None:
        pushed.append((given.get("input_ids") if not args else args[0]).numel())

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    generator = BatchGenerator(
        model,
        _Numbers(),  # type: ignore[arg-type]
        Endings(frozenset({0, 1, 2}), {}, None, None),
        device="cpu",
        batch=AutoBatch(rows),
        prefix_cache=prefix_cache,
    )
    jobs = (BatchJob(n, ids, (), 6) for n, ids in enumerate(prompts))
    found = {job.index: str(reply) for job, reply in generator.generate(jobs)}
    hook.remove()
    return [found[n] for n in range(len(prompts))], sum(pushed), generator.notes


@pytest.mark.parametrize("kind", KINDS)
def test_replies_are_the_same_behind_a_shared_beginning(kind: str) -> None:
    """Examples that all prompts share go through the model once, where its layers see everything."""
    model = make_model(kind)
    draw = random.Random(3)
    shots = [draw.randrange(2, VOCABULARY) for _ in range(150)]
    prompts = [
        [*shots, 2 + n, *(draw.randrange(2, VOCABULARY) for _ in range(n % 7))] for n in range(10)
    ] + [[5, 4], [9], [*shots[:30], 3, 3]]
    whole, all_tokens, _ = replies(model, prompts, rows=1, prefix_cache=False)
    begun, tokens, notes = replies(model, prompts, rows=4, prefix_cache=True)
    assert begun == whole
    sees_padding = kind.startswith("bart") or kind.endswith("some tokens")
    assert any("padding" in note for note in notes) == sees_padding
    is_said = any("share a beginning" in note for note in notes)
    is_said |= refusal(model) is not None or find_rope_switch(model.config) is not None
    assert is_said == (tokens >= all_tokens)
    if not is_said:
        assert tokens < 0.5 * all_tokens
