"""Text to tokens for models behind a server: files of a tokenizer, tiktoken, or the server itself.

Every backend is a ``ServerTokenizer``. None of them adds special tokens: what stands before a prompt is
decided in one place, by ``TemplateAPI``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

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
