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
        (
            {"gpu_memory_utilization": 0},
            "gpu_memory_utilization must be a number above 0, at most 1",
        ),
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


def test_an_error_of_the_engine_is_shown_as_it_is_below_one_line() -> None:
    own = (
        "Free memory on device cuda:0 (10.1/24.0 GiB) on startup is less than desired.\nReduce it."
    )
    first, _, rest = str(_not_loaded(ValueError(own), "", "org/m")).partition("\n")
    assert first.startswith("vLLM could not load org/m")
    assert rest == own


def test_an_error_that_points_elsewhere_is_the_one_that_was_printed() -> None:
    printed = (
        "(EngineCore pid=7) ERROR [core.py:9] ValueError: 16.0 GiB KV cache is needed.\n"
        "(APIServer pid=6) RuntimeError: Engine core initialization failed.\n"
    )
    error = RuntimeError("Engine core initialization failed. See root cause above.")
    message = str(_not_loaded(error, printed, "org/m"))
    assert message.endswith("\nValueError: 16.0 GiB KV cache is needed.")
