"""Text to tokens for models behind a server: files of a tokenizer, tiktoken, or the server itself.

Every backend is a ``ServerTokenizer``. None of them adds special tokens: what stands before a prompt is
decided in one place, by ``TemplateAPI``.
"""

from __future__ import annotations

import json
import os
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lm_eval.errors import MissingExtraError, ModelError
from lm_eval.models.chat_template import ChatTemplate

INSTALL_EXTRA = "pip install 'lm-eval-formats[api]'"
HOW_ELSE = (
    "Point to a folder with tokenizer.json by tokenizer=FOLDER, let the server tokenize with "
    "tokenizer_backend=remote, or, for tasks that only generate text, set tokenizer_backend=None."
)


class ServerTokenizer(ABC):
    """What turns text into the model's tokens and back."""

    name: str
    bos: int | None = None
    eos: int | None = None
    eos_text: str | None = None
    template: ChatTemplate | None = None

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, nothing added; special tokens written out become those tokens."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones written out."""

    @abstractmethod
    def only_text(self, token: int) -> str | None:
        """The text of a token, or None where another token has the same text."""


class FileTokenizer(ServerTokenizer):
    """``tokenizer.json`` through the ``tokenizers`` package; ``config`` is tokenizer_config.json."""

    def __init__(self, name: str, source: Path, config: Mapping[str, Any]) -> None:
        tokenizers = import_package("tokenizers", "tokenizer_backend=huggingface")
        self.name = name
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(source))
        except Exception as error:  # the package raises bare Exception
            raise ModelError(
                f"The tokenizer file {source} cannot be read: {error}. {HOW_ELSE}"
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        texts = {key: token_text(config.get(key)) for key in ("bos_token", "eos_token")}
        self.bos, self.eos = (self._number(texts[key]) for key in ("bos_token", "eos_token"))
        self.eos_text = texts["eos_token"] or None
        self.template = make_template(name, config, texts)

    def _number(self, text: str) -> int | None:
        number = self._tokenizer.token_to_id(text) if text else None
        return None if number is None else int(number)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        whole = [valid_text(text) for text in texts]
        found = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        return [list(one.ids) for one in found]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def only_text(self, token: int) -> str | None:
        text = self.decode([token])
        return text if self._same_text[text] == 1 else None

    @cached_property
    def _same_text(self) -> Counter[str]:
        """How many tokens have each text."""
        singles = [[token] for token in self._tokenizer.get_vocab(with_added_tokens=True).values()]
        return Counter(self._tokenizer.decode_batch(singles, skip_special_tokens=False))


class TransformersTokenizer(ServerTokenizer):
    """A tokenizer of ``transformers``, for models that have no tokenizer.json."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self.bos, self.eos = tokenizer.bos_token_id, tokenizer.eos_token_id
        texts = {"bos_token": tokenizer.bos_token or "", "eos_token": tokenizer.eos_token or ""}
        self.eos_text = texts["eos_token"] or None
        config = {"chat_template": getattr(tokenizer, "chat_template", None)}
        self.template = make_template(name, config, texts)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        whole = [valid_text(text) for text in texts]
        return [list(ids) for ids in self._tokenizer(whole, add_special_tokens=False)["input_ids"]]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def only_text(self, token: int) -> str | None:
        text = self.decode([token])
        return text if self._same_text[text] == 1 else None

    @cached_property
    def _same_text(self) -> Counter[str]:
        return Counter(self.decode([token]) for token in self._tokenizer.get_vocab().values())


class TiktokenTokenizer(ServerTokenizer):
    """An encoding of OpenAI's ``tiktoken``. It has an end-of-text token and no chat template."""

    def __init__(self, name: str, encoding: Any) -> None:
        self.name = name
        self._encoding = encoding
        self.eos = int(encoding.eot_token)
        self.eos_text = self.decode([self.eos])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._encoding.encode_batch(
            [valid_text(text) for text in texts], allowed_special="all"
        )
        return [list(ids) for ids in found]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._encoding.decode(list(tokens)))

    def only_text(self, token: int) -> str | None:
        # Tokens are distinct strings of bytes; only parts of characters share a text.
        try:
            return bytes(self._encoding.decode_single_token_bytes(token)).decode("utf-8")
        except (UnicodeDecodeError, KeyError):
            return None


@dataclass(frozen=True)
class Server:
    """How the server's own tokenizer is asked: each call is one request."""

    name: str
    tokenize: Callable[[Sequence[str]], list[list[int]]]
    detokenize: Callable[[Sequence[int]], str]
    config: Mapping[str, Any]


class RemoteTokenizer(ServerTokenizer):
    """The server's ``/tokenize`` and ``/detokenize``; names of tokens come from ``/tokenizer_info``."""

    def __init__(self, server: Server) -> None:
        self.name = server.name
        self._server = server
        self._texts: dict[int, str | None] = {}
        texts = {key: token_text(server.config.get(key)) for key in ("bos_token", "eos_token")}
        self.bos, self.eos = (self._number(texts[key]) for key in ("bos_token", "eos_token"))
        self.eos_text = texts["eos_token"] or None
        self.template = make_template(server.name, server.config, texts)

    def _number(self, text: str) -> int | None:
        tokens = self.encode([text])[0] if text else []
        return tokens[0] if len(tokens) == 1 else None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._server.tokenize([valid_text(text) for text in texts])

    def decode(self, tokens: Sequence[int]) -> str:
        return self._server.detokenize(list(tokens))

    def only_text(self, token: int) -> str | None:
        if token not in self._texts:
            self._texts[token] = self._find_text(token)
        return self._texts[token]

    def _find_text(self, token: int) -> str | None:
        """The text, unless a spelling with or without a blank before it is another token of that text.

        The whole vocabulary cannot be asked for. Tokens of equal text are those that differ in a
        blank which decoding drops.
        """
        text = self.decode([token])
        bare = text.strip()
        for tokens in self.encode([bare, f" {bare}", f"x{bare}", f"x {bare}"]):
            if tokens and tokens[-1] != token and self.decode(tokens[-1:]) == text:
                return None
        return text


def make_template(
    name: str, config: Mapping[str, Any], tokens: Mapping[str, str]
) -> ChatTemplate | None:
    """The chat template of a tokenizer's configuration; of several, the one called default."""
    source = config.get("chat_template")
    if isinstance(source, list):
        named = {one.get("name"): one.get("template") for one in source if isinstance(one, dict)}
        source = named.get("default")
    return ChatTemplate(source, model=name, tokens=tokens) if isinstance(source, str) else None


def token_text(value: Any) -> str:
    """A special token as configurations write it: a text, or an object with its content."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def valid_text(text: str) -> str:
    """The text with half surrogate pairs, which are no characters, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def import_package(package: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs the package {package} ({error}).", install=INSTALL_EXTRA
        ) from error


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
