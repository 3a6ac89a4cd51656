"""What is said of arguments and of engines that could not be made; vLLM itself is not needed."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.errors import LmEvalError
from lm_eval.models.vllm.model import VLLM
from lm_eval.models.vllm.options import _not_loaded


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Model 'vllm' needs pretrained."),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization is a number above 0, at most 1"),
        ({"tensor_parallel_size": "two"}, "tensor_parallel_size must be a whole number above 0"),
        ({"data_parallel_size": 0}, "data_parallel_size must be a whole number above 0"),
        ({"max_length": 4, "max_model_len": 4}, "are the same. Give one of them."),
        ({"batch_size": "many"}, "batch_size must be a whole number above 0"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"chat_template_args": "{"}, "is not a JSON object"),
        ({"trust_remote_code": "perhaps"}, "trust_remote_code must be true or false"),
    ],
)
def test_wrong_values_are_refused_without_loading(arguments: dict[str, Any], words: str) -> None:
    given = {"pretrained": "m", **arguments} if arguments else {}
    with pytest.raises(LmEvalError) as caught:
        VLLM.check_args(given, name="vllm")
    assert words in str(caught.value)


def test_arguments_of_other_harnesses_are_taken() -> None:
    given = {
        **{"pretrained": "m", "dtype": "auto", "tensor_parallel_size": 2, "swap_space": 4},
        **{"gpu_memory_utilization": 0.8, "max_model_len": 4096, "quantization": "awq"},
        **{"lora_local_path": "adapter", "max_lora_rank": 32, "enable_thinking": False},
        **{
            "batch_size": "auto",
            "device": "cuda",
            "max_num_seqs": 64,
            "think_end_token": "</think>",
        },
    }
    VLLM.check_args(given, name="vllm")


@pytest.mark.parametrize(
    ("error", "said", "words"),
    [
        (
            RuntimeError("Engine core initialization failed. See root cause above."),
            "(EngineCore pid=7) ERROR [core.py:9] ValueError: To serve at least one request with the "
            "model's max seq len (131072), (16.0 GiB KV cache is needed, which is larger than the "
            "available KV cache memory (4.0 GiB). Based on the available memory, the estimated maximum "
            "model length is 32768. Try increasing `gpu_memory_utilization` (which also controls CPU "
            "memory on the CPU backend) or decreasing `max_model_len` when initializing the engine. See "
            "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.\n",
            "the available KV cache memory (4.0 GiB). The weights fit, but not the KV cache of one text "
            "as long as the window: lower max_model_len (32768 fits), or make room",
        ),
        (
            ValueError(
                "Free memory on device cuda:0 (10.1/24.0 GiB) on startup is less than desired GPU "
                "memory utilization (0.9, 21.6 GiB). Decrease GPU memory utilization or "
                "reduce GPU memory used by other processes."
            ),
            "",
            "(0.9, 21.6 GiB). Something else uses this memory: lower gpu_memory_utilization",
        ),
        (
            ValueError(
                "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
                "initializing the engine."
            ),
            "",
            "cache blocks. The weights leave no memory for the KV cache: raise gpu_memory_utilization",
        ),
        (
            ValueError(
                "Available memory on node 0 (3.0/23.0 GiB) on kv cache allocation is less than "
                "requested memory for kv (40.0 GiB). Decrease --kv-cache-memory-bytes, "
                "VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes."
            ),
            "",
            "(40.0 GiB). Lower kv_cache_memory_bytes or VLLM_CPU_KVCACHE_SPACE",
        ),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
            "",
            "Tried to allocate 2.00 GiB. The model does not fit: take weights of fewer bits",
        ),
        (
            ValueError("Model architectures ['FooForCausalLM'] are not supported for now."),
            "",
            "are not supported for now. --model hf runs what transformers runs.",
        ),
    ],
)
def test_an_engine_that_could_not_be_made_is_one_message(
    error: Exception, said: str, words: str
) -> None:
    message = str(_not_loaded(error, said, "org/m"))
    assert message.startswith("vLLM could not load org/m: ")
    assert words in message
    assert "root cause above" not in message
    assert "https://" not in message
    assert "--" not in message.replace("--model", "")
