"""Tiny models with random weights and a tiny tokenizer, written as folders that ``hf`` can load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = (
    "Question: What is the capital of France? Answer: Paris Berlin Madrid London. The best answer is "
    "A B C D. (A) (B) Given the following question and candidate answers, choose one. Which animal "
    "barks? a dog, the old black cat. How many legs has a spider? eight. One two three four five."
)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}"
)


def make_tokenizer(*, chat_template: str | None = None, adds_bos: bool = False) -> Any:
    """A byte-level BPE tokenizer with some merges, ``<s>`` and ``</s>``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>", "<think_end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS] * 4, trainer)
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<think_end>"],
    )
    fast.chat_template = chat_template
    return fast


def make_model(kind: str, vocabulary: int, *, window: int = 512, width: int = 32) -> Any:
    """A model of two layers; the seed makes it the same every time."""
    import torch
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        T5Config,
        T5ForConditionalGeneration,
    )

    torch.manual_seed(7)
    if kind == "gpt2":
        gpt2 = GPT2Config(
            vocab_size=vocabulary, n_positions=window, n_embd=32, n_layer=2, n_head=4,
            bos_token_id=0, eos_token_id=1, initializer_range=0.3,
        )  # fmt: skip
        return GPT2LMHeadModel(gpt2)
    if kind == "llama":
        llama = LlamaConfig(
            vocab_size=vocabulary, max_position_embeddings=window, hidden_size=width,
            intermediate_size=2 * width, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, bos_token_id=0, eos_token_id=1, initializer_range=0.3,
        )  # fmt: skip
        return LlamaForCausalLM(llama)
    t5 = T5Config(
        vocab_size=vocabulary, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, initializer_factor=3.0,
    )  # fmt: skip
    return T5ForConditionalGeneration(t5)


def save(
    folder: Path, kind: str = "gpt2", *, window: int = 512, width: int = 32, **tokenizer: Any
) -> Path:
    """A folder with a model and its tokenizer."""
    made = make_tokenizer(**tokenizer)
    make_model(kind, len(made) + 5, window=window, width=width).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder
