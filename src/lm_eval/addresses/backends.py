"""Model backends of EleutherAI's harness that are not here, and what to use instead.

``lm-eval run --model sglang``, ``get_model("sglang")`` and ``from … import SGLangLM`` answer from here.
"""

from __future__ import annotations

_SERVED = (
    "Start its server ({start}) and use --model local-completions --model_args "
    "model=NAME,base_url=http://localhost:{port}/v1/completions, or local-chat-completions with "
    "/v1/chat/completions."
)
_SPOKEN = (
    "Use --model local-chat-completions --model_args model=NAME,base_url={url}, with the key in "
    "OPENAI_API_KEY; an API of another kind is a subclass of TemplateAPI (docs/api-models.md)."
)
_OBJECT = (
    "Load the model with {package} and give the object to the nearest backend, in Python: "
    "HFLM(pretrained=model, tokenizer=tokenizer)."
)
_OWN_API = (
    "Use --model local-chat-completions with the base_url of a gateway that speaks OpenAI's API, or "
    "write a subclass of TemplateAPI (docs/api-models.md)."
)
_PICTURES = (
    "Models that look at images or listen are not run here. Their text tasks run with --model hf."
)
_LLAMA_SERVER = (
    "For a llama.cpp server, use --model local-completions with its base_url. For a .gguf file, "
    "--model gguf --model_args path=FILE runs it without a server."
)
_VLLM = _SERVED.format(start="vllm serve MODEL", port=8000)
_SGLANG = _SERVED.format(start="python -m sglang.launch_server --model-path MODEL", port=30000)
_TENSORRT = _SERVED.format(start="trtllm-serve MODEL", port=8000)
_ANTHROPIC = "That API takes no new models. Use --model anthropic-chat --model_args model=NAME."
_LITELLM = "Start LiteLLM's proxy. " + _SPOKEN.format(
    url="http://localhost:4000/v1/chat/completions"
)
_CONVERTED = "Convert the checkpoint for transformers and use --model hf, or serve it. " + _VLLM

ADVICE = {
    "anthropic-completions": _ANTHROPIC,
    "ggml": _LLAMA_SERVER,
    "habana": _OBJECT.format(package="optimum-habana"),
    "hf-audiolm-qwen": _PICTURES,
    "hf-mistral3": "Use --model hf for its text tasks.",
    "hf-multimodal": _PICTURES,
    "ipex": _OBJECT.format(package="optimum-intel"),
    "litellm": _LITELLM,
    "litellm-chat": _LITELLM,
    "litellm-chat-completions": _LITELLM,
    "mamba_ssm": "Use --model hf: transformers runs Mamba models.",
    "megatron_lm": _CONVERTED,
    "nemo_lm": _CONVERTED,
    "neuronx": _OBJECT.format(package="optimum-neuron"),
    "onnxruntime": _OBJECT.format(package="optimum-onnx"),
    "onnxruntime-genai": _OBJECT.format(package="optimum-onnx"),
    "openvino": _OBJECT.format(package="optimum-intel"),
    "sglang": _SGLANG,
    "sglang-generate": _SGLANG,
    "steered": "Add your hooks to the model and give it to HFLM(pretrained=model), in Python.",
    "textsynth": _OWN_API,
    "trtllm": _TENSORRT,
    "vllm-vlm": _PICTURES,
    "watsonx_llm": _OWN_API,
    "winml": _OBJECT.format(package="optimum-onnx"),
}
"""Backend → what to use here."""

CLASSES = {
    "AnthropicLM": "anthropic-completions",
    "GGUFLM": "ggml",
    "HFAUDIOLMQWEN": "hf-audiolm-qwen",
    "HFMultimodalLM": "hf-multimodal",
    "HabanaLM": "habana",
    "IPEXLM": "ipex",
    "LiteLLMChatCompletion": "litellm",
    "MambaLMWrapper": "mamba_ssm",
    "MegatronLMEval": "megatron_lm",
    "Mistral3LM": "hf-mistral3",
    "NEURON_HF": "neuronx",
    "NeMoLM": "nemo_lm",
    "ONNXRuntimeGenAILM": "onnxruntime-genai",
    "ONNXRuntimeLM": "onnxruntime",
    "OptimumLM": "openvino",
    "SGLANGGENERATEAPI": "sglang-generate",
    "SGLangLM": "sglang",
    "SteeredModel": "steered",
    "TRTLLM": "trtllm",
    "TextSynthLM": "textsynth",
    "VLLM_VLM": "vllm-vlm",
    "WatsonxLLM": "watsonx_llm",
    "WindowsML": "winml",
}
"""Class → the backend that it was."""

LOGGERS = ("TrackioLogger", "WandbLogger")
"""Classes that send results to a service."""
LOGGING_ADVICE = "Results are files here: log them from the folder that output_path names."


def advice_for(backend: str) -> str:
    """What to use instead of a backend that is not here; empty for a name the harness did not have."""
    return ADVICE.get(backend, "")
