"""Where tokenizers come from: a folder, a file, the hub, ``transformers`` or ``tiktoken``."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lm_eval.errors import ModelError
from lm_eval.models.api.tokenizers import (
    HOW_ELSE,
    FileTokenizer,
    ServerTokenizer,
    TiktokenTokenizer,
    TransformersTokenizer,
    import_package,
)

_HUB_PATIENCE_S = 5.0


def load_files(
    name: str, *, revision: str, use_fast: bool, trust_remote_code: bool, why: str
) -> ServerTokenizer:
    """The tokenizer in a folder, a tokenizer.json, or a repository of the hub."""
    path = Path(name).expanduser()
    tried: list[str] = []
    if use_fast:
        try:
            return _from_files(name, path, _from_hub(name, revision))
        except LookupError as error:
            tried.append(f"tokenizer.json: {error}")
    try:
        return _from_transformers(name, revision, trust_remote_code, use_fast)
    except LookupError as error:
        tried.append(f"transformers: {error}")
    raise ModelError(
        f"The tokenizer {name!r} ({why}) cannot be loaded ({'; '.join(tried)}). {HOW_ELSE}"
    )


def _from_files(name: str, path: Path, hub: Callable[[str], Path | None]) -> ServerTokenizer:
    """From a folder, a file, or else the hub; without a tokenizer.json, a LookupError."""

    def fetch(file: str) -> Path | None:
        folder = path if path.is_dir() else path.parent
        return _existing(folder / file) if path.exists() else hub(file)

    source = path if path.is_file() else fetch("tokenizer.json")
    if source is None:
        raise LookupError("there is none")
    return FileTokenizer(name, source, _config(fetch))


def load_tiktoken(name: str) -> ServerTokenizer:
    """The tiktoken encoding of a model, or the encoding of that name."""
    tiktoken = import_package("tiktoken", "tokenizer_backend=tiktoken")
    try:
        try:
            encoding = tiktoken.encoding_for_model(name)
        except KeyError:
            encoding = tiktoken.get_encoding(name)
    except ValueError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise ModelError(
            f"tiktoken knows no model or encoding {name!r}. Name one with tokenizer=NAME "
            f"(encodings: {known}), or choose another tokenizer_backend."
        ) from None
    except Exception as error:  # it downloads its files, and raises whatever that raises
        raise ModelError(
            f"tiktoken cannot load the encoding of {name!r}: {_brief(error)}. It fetches its files "
            "from the network on first use; TIKTOKEN_CACHE_DIR may name a folder that has them."
        ) from error
    return TiktokenTokenizer(name, encoding)


def _config(fetch: Callable[[str], Path | None]) -> dict[str, Any]:
    """tokenizer_config.json, with a chat template that stands in a file of its own."""
    config: dict[str, Any] = {}
    path = fetch("tokenizer_config.json")
    if path is not None:
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} cannot be read: {error}. {HOW_ELSE}") from error
    template = fetch("chat_template.jinja")
    if template is not None:
        config["chat_template"] = template.read_text(encoding="utf-8")
    return config


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def _from_hub(name: str, revision: str) -> Callable[[str], Path | None]:
    """Fetch files of a repository; a file that is not there is None, no repository a LookupError."""

    def fetch(file: str) -> Path | None:
        hub = import_package("huggingface_hub", "a tokenizer from the hub")
        from huggingface_hub import errors

        with suppress(Exception):  # what was downloaded before needs no network
            return Path(hub.hf_hub_download(name, file, revision=revision, local_files_only=True))
        if not is_hub_reachable():
            if file == "tokenizer.json":
                raise LookupError("it is not in the local cache, and the hub cannot be reached")
            return None
        try:
            return Path(hub.hf_hub_download(name, file, revision=revision))
        except errors.RemoteEntryNotFoundError:
            return None
        except Exception as error:  # no such repository, or no right to it
            raise LookupError(_brief(error)) from error

    return fetch


def is_hub_reachable() -> bool:
    """Whether a connection to the hub comes about; its own client would try for half a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    port = host.port or (80 if host.scheme == "http" else 443)
    try:
        socket.create_connection((host.hostname or "", port), timeout=_HUB_PATIENCE_S).close()
    except OSError:
        return False
    return True


def _from_transformers(
    name: str, revision: str, trust_remote_code: bool, use_fast: bool
) -> ServerTokenizer:
    try:
        import transformers
    except ImportError:
        raise LookupError("not installed") from None
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            name,
            revision=revision,
            trust_remote_code=trust_remote_code,
            use_fast=use_fast,
            local_files_only=not is_hub_reachable(),
        )
    except Exception as error:  # anything may be wrong with a repository or its code
        raise LookupError(_brief(error)) from error
    return TransformersTokenizer(name, tokenizer)


def _brief(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    return f"{type(error).__name__}: {text[:200]}".rstrip(". :")
