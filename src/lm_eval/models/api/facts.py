"""What a model behind a server says of itself: its identity, a description, warnings; never a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lm_eval.models.base import overridden
from lm_eval.support.secrets import (
    is_header_name,
    is_secret_header,
    is_secret_name,
    masked_values,
    secret_digest,
    shown_address,
)

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

_HOW_FAST = (
    *("num_concurrent", "max_retries", "timeout", "batch_size", "verify_certificate"),
    *("ca_cert_path", "auth_token", "header", "top_logprobs"),
)
"""Arguments that change no answer, or hold secrets."""


def identity_of(model: TemplateAPI) -> dict[str, Any]:
    """What decides the answers of a model behind a server, besides the request."""
    arguments = {
        name: value
        for name, value in model._given.items()
        if name not in _HOW_FAST and not (is_secret_name(name) or is_header_name(name))
    }
    routed = list(_routing(model))
    return {
        **arguments,
        **({"routing": secret_digest(routed)} if routed else {}),
        "backend": f"{type(model).__module__}.{type(model).__qualname__}",
        "base_url": shown_address(model.base_url),
        "model": model.model,
        "tokenizer": model._tokenizer_source,
        "tokenizer_backend": model.tokenizer_backend,
        "tokenized_requests": model.tokenized_requests,
        "max_length": model.max_length,
        "max_gen_toks": model.max_gen_toks,
        "seed": model.seed,
        "add_bos_token": model.add_bos_token,
        "custom_prefix_token_id": model.custom_prefix_token_id,
        "eos_string": model._eos_string,
        "truncate": model.truncate,
    }


def _routing(model: TemplateAPI) -> Iterator[str]:
    """What else may decide who answers: the hidden parts of the address, and headers.

    A header that holds the key alone is left out: a new key does not make a new model.
    """
    yield from masked_values(model.base_url)
    key = model.api_key or model._auth_token
    for name, value in model._calls.header().items():
        if is_secret_header(name) and value.rpartition(" ")[2] != key:
            yield f"{name}: {value}"


def description_of(model: TemplateAPI) -> dict[str, Any]:
    """Facts about a model behind a server for the results file."""
    planner = model.planner
    return {
        **model.identity(),
        "num_concurrent": model.num_concurrent,
        "batch_size": model.batch_size,
        "timeout_s": model.timeout,
        "max_retries": model.max_retries,
        "truncated_requests": planner.truncated,
        "truncated_tokens": planner.cut_tokens,
        "empty_continuations": planner.empty,
        **({"cut_replies": cut} if (cut := model._calls.cut_replies) else {}),
        **({"enforced_by": held_by} if (held_by := model._calls.enforcer.dialects) else {}),
        **({"servers": _server_facts(model)} if model._other_addresses else {}),
    }


def _server_facts(model: TemplateAPI) -> list[dict[str, Any]]:
    return [
        {
            "base_url": shown_address(address),
            "answered": server.answered,
            "taken_out": server.times_out,
            "is_out": not server.is_in,
        }
        for address, server in zip(model.addresses, model._calls.transport.servers.all, strict=True)
    ]


def warnings_of(model: TemplateAPI) -> list[str]:
    """What a reader of the results should know."""
    notes = list(model._notes.values())
    planner = model.planner
    if planner.truncated:
        notes.append(
            f"{planner.truncated} prompts were longer than max_length {model.max_length} allows "
            f"and lost their beginning, {planner.cut_tokens} tokens in all. Raise max_length in "
            "--model_args if the model allows it."
        )
    if planner.empty:
        notes.append(f"{planner.empty} continuations have no token of their own and scored 0.")
    if cut := model._calls.cut_replies:
        notes.append(f"{cut} replies went on after a stop string and were cut there.")
    servers = model._calls.transport.servers.all if model._other_addresses else ()
    for server, address in zip(servers, model.addresses, strict=False):
        if server.times_out:
            end = "came back" if server.is_in else "did not come back"
            times = {1: "once"}.get(server.times_out, f"{server.times_out} times")
            notes.append(
                f"{shown_address(address)} was taken out {times} and {end}; it gave "
                f"{server.answered:,} answers. The reason: {server.last_why}"
            )
    if overridden(model, ["eot_token_id"]):
        notes.append(
            f"eot_token_id of {type(model).__name__} is not sent: replies end at the task's stop "
            "strings and at eos_string."
        )
    return notes
