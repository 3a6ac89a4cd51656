"""A backend's name and its arguments → a model that is ready to answer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval.config.arguments import plain_value
from lm_eval.errors import LmEvalError, UsageError
from lm_eval.models.base import LM
from lm_eval.registry import MODELS
from lm_eval.support.secrets import redacted

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
RAY_ARGUMENTS = (
    *("backend", "replicas", "num_gpus", "num_cpus", "address", "timeout", "backend_args"),
)
"""Arguments of ``--model ray`` itself; all others are those of the backend in its replicas."""


@contextmanager
def opened_model(model: str | LM | None, model_args: Mapping[str, Any]) -> Iterator[LM]:
    """The model, ready to answer. It is closed at the end, unless it was passed in as an object."""
    if isinstance(model, LM):
        if model.world_size > 1:
            raise UsageError(
                f"{type(model).__name__} says that it runs in {model.world_size} processes. A run "
                "here is one process: let the model split the work behind its methods."
            )
        yield model
        return
    loaded = load_model(model, model_args)
    try:
        yield loaded
    finally:
        loaded.close()


def model_class(name: str | None) -> type[LM]:
    """The backend's class; without a name, that of the embedded model."""
    backend = name or "gguf"
    registered = MODELS.get(backend)
    if not (isinstance(registered, type) and issubclass(registered, LM)):
        raise UsageError(f"Model {backend!r} is registered but is not a subclass of LM.")
    return registered


def answering(
    name: str | None, model_args: Mapping[str, Any]
) -> tuple[str | None, Mapping[str, Any]]:
    """The backend that answers and its arguments: behind ``ray``, those of the replicas."""
    is_behind = name == "ray" and "backend" in model_args
    return behind_ray(model_args) if is_behind else (name, model_args)


def behind_ray(model_args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The backend in the replicas of ``ray``, and its arguments."""
    arguments = {key: value for key, value in model_args.items() if key not in RAY_ARGUMENTS}
    more = model_args.get("backend_args")
    return str(model_args["backend"]), {**arguments, **(more if isinstance(more, Mapping) else {})}


def model_parameters(name: str | None, model_args: Mapping[str, Any]) -> list[str] | None:
    """The arguments a backend takes; None if it takes any."""
    name, _ = answering(name, model_args)
    parameters = inspect.signature(model_class(name).__init__).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return None if takes_any else list(parameters)


def load_model(name: str | None, model_args: Mapping[str, Any], *, for_tokens: bool = False) -> LM:
    """The backend, ready to answer; ``for_tokens``: perhaps only its tokenizer."""
    backend = name or "gguf"
    try:
        backend_class = model_class(name)
        make = backend_class.for_tokens if for_tokens else backend_class.from_args
        return make(model_args, name=backend)
    except LmEvalError:
        raise
    except (TypeError, ValueError) as error:
        arguments = ", ".join(f"{k}={v!r}" for k, v in redacted(model_args).items()) or "none"
        raise UsageError(
            f"Model {backend!r} cannot be made from these arguments ({arguments}): "
            f"{type(error).__name__}: {error}. Check --model_args."
        ) from error


def name_of(backend: str | None, model_args: Mapping[str, Any]) -> str:
    """The model's name in file names and results, the same with and without Ray."""
    backend, model_args = answering(backend, model_args)
    for key in ("model", "pretrained", "path", "engine"):
        if value := str(plain_value(model_args.get(key)) or ""):
            if value.startswith("."):  # a relative path would make a hidden folder of results
                value = Path(value).resolve().name
            return Path(value).stem if key == "path" else value
    return EMBEDDED_MODEL if backend in (None, "gguf") else str(backend)
