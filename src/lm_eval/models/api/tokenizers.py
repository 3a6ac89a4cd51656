"""Text to tokens for models behind a server: files of a tokenizer, tiktoken, or the server itself.

Each kind is a ``ServerTokenizer``. None of them adds special tokens: what comes before a prompt is
decided in one place, by ``TemplateAPI``.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from lm_eval.errors import MissingExtraError, ModelError, RequestError
from lm_eval.models.api.calls import ServerCaller
from lm_eval.models.api.settings import INSTALL_EXTRA, server_root
from lm_eval.models.chat_template import ChatTemplate
from lm_eval.models.sampling import valid_text
from lm_eval.support.secrets import shown_address

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

T = TypeVar("T")
HOW_ELSE = (
    "Name a folder with tokenizer.json as tokenizer=FOLDER, let the server tokenize with "
    "tokenizer_backend=remote, or, for tasks that only generate text, set tokenizer_backend=None."
)
_ABSENT = (400, 404, 405, 415, 422, 500, 501)
"""Replies of a server that lacks an endpoint."""
_AT_A_TIME = 16
_HUB_PATIENCE_S = 5.0


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
        """The text of a token, or None if another token has the same text."""

    def _configure(self, config: Mapping[str, Any], token_id: Callable[[str], int | None]) -> None:
        """Read special tokens and the chat template from the values of tokenizer_config.json."""
        bos, eos = (_token_text(config.get(key)) for key in ("bos_token", "eos_token"))
        self.bos, self.eos = (token_id(text) if text else None for text in (bos, eos))
        self.eos_text = eos or None
        source = config.get("chat_template")
        if isinstance(source, list):  # several, by name
            named = {o.get("name"): o.get("template") for o in source if isinstance(o, dict)}
            source = named.get("default")
        if isinstance(source, str):
            tokens = {"bos_token": bos, "eos_token": eos}
            self.template = ChatTemplate(source, model=self.name, tokens=tokens)


class _LocalTokenizer(ServerTokenizer):
    """A tokenizer whose vocabulary is on this machine."""

    _tokenizer: Any

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def only_text(self, token: int) -> str | None:
        text = self.decode([token])
        return text if self._counts[text] == 1 else None

    @cached_property
    def _counts(self) -> Counter[str]:
        """How many tokens have each text."""
        return Counter(self._texts())

    @abstractmethod
    def _texts(self) -> Iterable[str]:
        """The text of every token."""


class FileTokenizer(_LocalTokenizer):
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
        self._configure(config, self._tokenizer.token_to_id)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast(
            list(map(valid_text, texts)), add_special_tokens=False
        )
        return [list(encoding.ids) for encoding in encodings]

    def _texts(self) -> list[str]:
        singles = [[token] for token in self._tokenizer.get_vocab(with_added_tokens=True).values()]
        return self._tokenizer.decode_batch(singles, skip_special_tokens=False)  # type: ignore[no-any-return]


class TransformersTokenizer(_LocalTokenizer):
    """A tokenizer of ``transformers``, for models that have no tokenizer.json."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name = name
        self._tokenizer = tokenizer
        names = ("bos_token", "eos_token", "chat_template")
        self._configure({key: getattr(tokenizer, key, None) for key in names}, self._token_id)

    def _token_id(self, text: str) -> int | None:
        return self._tokenizer.convert_tokens_to_ids(text)  # type: ignore[no-any-return]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self._tokenizer(list(map(valid_text, texts)), add_special_tokens=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def _texts(self) -> Iterable[str]:
        return (self.decode([token]) for token in self._tokenizer.get_vocab().values())


class TiktokenTokenizer(ServerTokenizer):
    """An encoding of OpenAI's ``tiktoken``. It has an end-of-text token and no chat template."""

    def __init__(self, name: str, encoding: Any) -> None:
        self.name = name
        self._encoding = encoding
        self.eos = int(encoding.eot_token)
        self.eos_text = self.decode([self.eos])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self._encoding.encode_batch(list(map(valid_text, texts)), allowed_special="all")
        return [list(ids) for ids in encoded]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._encoding.decode(list(tokens)))

    def only_text(self, token: int) -> str | None:
        # Tokens are distinct strings of bytes; only parts of characters share a text.
        try:
            return bytes(self._encoding.decode_single_token_bytes(token)).decode("utf-8")
        except (UnicodeDecodeError, KeyError):
            return None


class RemoteTokenizer(ServerTokenizer):
    """The server's own tokenizer: ``/tokenize``, ``/detokenize``, and an endpoint of its settings.

    ``model`` is the name of the model there. Each text costs a request; ``ModelError`` if the server
    has no such endpoint.
    """

    def __init__(
        self, name: str, model: str, addresses: Sequence[str], sender: ServerCaller
    ) -> None:
        self.name = name
        self._model = model
        self._sender = sender
        self._roots = tuple(map(server_root, addresses))
        if not self._if_present(lambda: self.encode(["a b"])[0]):
            self._sender.check_endpoint()  # a wrong address lacks /tokenize too
            raise ModelError(
                f"{shown_address(self._roots[0])}/tokenize does not answer with tokens, so the "
                "server's own tokenizer cannot be used. Set tokenizer_backend=huggingface and "
                "tokenizer=NAME."
            )
        # Special tokens and chat template: vLLM's endpoint, or llama.cpp's.
        for path in ("/tokenizer_info", "/props"):
            config = self._if_present(partial(self._get, path))
            if isinstance(config, Mapping):
                self._configure(config, self._token_id)
                break

    def _if_present(self, ask: Callable[[], T]) -> T | None:
        """What ``ask`` returns; None if the server lacks the endpoint that it asks."""
        try:
            return ask()
        except RequestError as error:
            if error.status not in _ABSENT:
                raise
            return None

    def _get(self, path: str) -> Any:
        return self._sender.run(self._ask(path))

    async def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._sender.ask_beside([root + path for root in self._roots], body)

    def _token_id(self, text: str) -> int | None:
        tokens = self.encode([text])[0]
        return tokens[0] if len(tokens) == 1 else None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text; equal texts are sent once."""
        asked = list(dict.fromkeys(map(valid_text, texts)))
        tokens = dict(zip(asked, self._sender.run(self._tokenize(asked)), strict=True))
        return [list(tokens[valid_text(text)]) for text in texts]

    async def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        slots = asyncio.Semaphore(_AT_A_TIME)

        async def tokenize(text: str) -> list[int]:
            async with slots:
                reply = await self._ask("/tokenize", _question(self._model, text))
                return [int(token) for token in reply["tokens"]]

        tasks = [asyncio.ensure_future(tokenize(text)) for text in texts]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:  # after an error the others would run on
                task.cancel()

    def decode(self, tokens: Sequence[int]) -> str:
        body = {"model": self._model, "tokens": list(tokens)}
        reply = self._sender.run(self._ask("/detokenize", body))
        text = reply.get("prompt", reply.get("content", reply.get("text")))
        if not isinstance(text, str):
            raise ModelError(f"{shown_address(self._roots[0])}/detokenize answered without a text.")
        return text

    def only_text(self, token: int) -> str | None:
        """The text, unless the same text with or without a blank before it is another token.

        The server does not give its whole vocabulary. Tokens have equal text if they differ only in
        a blank that decoding drops.
        """
        text = self.decode([token])
        bare = text.strip()
        for tokens in self.encode([bare, f" {bare}", f"x{bare}", f"x {bare}"]):
            if tokens and tokens[-1] != token and self.decode(tokens[-1:]) == text:
                return None
        return text


def _question(model: str, text: str) -> dict[str, Any]:
    # vLLM reads ``prompt`` and ``add_special_tokens``, llama.cpp ``content`` and ``add_special``.
    special = {"add_special_tokens": False, "add_special": False, "parse_special": True}
    return {"model": model, "prompt": text, "content": text, **special}


def _token_text(value: Any) -> str:
    """The text of a special token, which configurations write as a text or as an object."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def import_package(package: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs the package {package} ({error}).", install=INSTALL_EXTRA
        ) from error


def load_tokenizer(model: TemplateAPI) -> ServerTokenizer:
    """The tokenizer that the arguments of a model name."""
    backend, name = model.tokenizer_backend, model._tokenizer_source
    if backend is None:
        raise ModelError(
            f"{type(model).__name__} has tokenizer_backend=None, so nothing can be "
            "tokenized. Log-likelihoods and chat templates need a tokenizer: leave the argument "
            "out, or set huggingface, tiktoken or remote."
        )
    if backend == "tiktoken":
        return load_tiktoken(name)
    no_server = None
    if not model.tokenizes_here:
        try:
            return RemoteTokenizer(name, model.model, model.addresses, model._calls)
        except ModelError as error:
            if backend == "remote" or isinstance(error, RequestError | MissingExtraError):
                raise
            no_server = error
    is_named = model.tokenizer_argument is not None
    why = "from tokenizer=…" if is_named else "the model's name, because no tokenizer=… was given"
    try:
        return load_files(name, why=why, **model.tokenizer_files)
    except ModelError as error:
        if no_server is None:
            raise
        raise ModelError(f"{error} The server was asked as well: {no_server}") from error


def load_files(
    name: str, *, revision: str, use_fast: bool, trust_remote_code: bool, why: str
) -> ServerTokenizer:
    """The tokenizer in a folder, a tokenizer.json, or a repository of the hub."""
    path = Path(name).expanduser()
    fetch = partial(_in_folder, path) if path.exists() else partial(_in_hub, name, revision)
    tried: list[str] = []
    if use_fast:
        try:
            source = path if path.is_file() else fetch("tokenizer.json")
            if source is None:
                raise LookupError("there is none")
            return FileTokenizer(name, source, _config(fetch))
        except LookupError as error:
            tried.append(f"tokenizer.json: {error}")
    try:
        return _from_transformers(name, revision, trust_remote_code, use_fast)
    except LookupError as error:
        tried.append(f"transformers: {error}")
    raise ModelError(
        f"The tokenizer {name!r} ({why}) cannot be loaded ({'; '.join(tried)}). {HOW_ELSE}"
    )


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
            f"tiktoken has no model or encoding {name!r}. Name one with tokenizer=NAME "
            f"(encodings: {known}), or choose another tokenizer_backend."
        ) from None
    except Exception as error:  # it downloads its files, and raises whatever that raises
        raise ModelError(
            f"tiktoken cannot load the encoding of {name!r}: {_brief(error)}. It fetches its files "
            "from the network on first use; TIKTOKEN_CACHE_DIR may name a folder that has them."
        ) from error
    return TiktokenTokenizer(name, encoding)


def _config(fetch: Callable[[str], Path | None]) -> dict[str, Any]:
    """tokenizer_config.json, with the chat template if that is a separate file."""
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


def _in_folder(path: Path, name: str) -> Path | None:
    file = (path if path.is_dir() else path.parent) / name
    return file if file.is_file() else None


def _in_hub(repository: str, revision: str, name: str) -> Path | None:
    """A file of a repository; None if it has none of this name, LookupError without a repository."""
    hub = import_package("huggingface_hub", "a tokenizer from the hub")
    from huggingface_hub import errors

    download = partial(hub.hf_hub_download, repository, name, revision=revision)
    with suppress(Exception):  # files that were downloaded before need no network
        return Path(download(local_files_only=True))
    if not is_hub_reachable():
        if name == "tokenizer.json":
            raise LookupError("it is not in the local cache, and the hub cannot be reached")
        return None
    try:
        return Path(download())
    except errors.RemoteEntryNotFoundError:
        return None
    except Exception as error:  # no such repository, or no access to it
        raise LookupError(_brief(error)) from error


def is_hub_reachable() -> bool:
    """Whether the hub can be connected to; its own client would try for half a minute."""
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
