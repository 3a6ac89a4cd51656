"""Tokens, special tokens and chat template of a model behind a server, and how it describes itself.

``ServerFacts`` is the base of ``TemplateAPI``: contexts become messages, text or token ids. The
tokenizer is loaded when it is first needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, RequestError
from lm_eval.formats.assemble import Chat, Context
from lm_eval.formats.grammar import Grammar
from lm_eval.models.api.calls import ServerCaller
from lm_eval.models.api.scoring import Planner
from lm_eval.models.api.tokenizers import (
    RemoteTokenizer,
    ServerTokenizer,
    load_files,
    load_tiktoken,
)
from lm_eval.models.base import TemplateLM, overridden
from lm_eval.models.overrides import kept_as
from lm_eval.text.secrets import (
    is_header_name,
    is_secret_header,
    is_secret_name,
    masked_values,
    secret_digest,
    shown_address,
)

_HOW_FAST = (
    *("num_concurrent", "max_retries", "timeout", "batch_size", "verify_certificate"),
    *("ca_cert_path", "auth_token", "header", "top_logprobs"),
)
"""Arguments that change no answer, or hold secrets."""


class ServerFacts(TemplateLM, ABC):
    """The tokens, identity and description of a model behind a server. None of it contains a key."""

    tokenizer_backend: str | None
    tokenizer_argument: str | None
    """The tokenizer that was named; None: the model's name is used."""
    tokenized_requests: bool
    add_bos_token: bool
    custom_prefix_token_id: int | None
    base_url: str
    """The address of the server; of several, the first, under which answers are stored."""
    _other_addresses: tuple[str, ...] = ()
    timeout: float
    max_retries: int
    tokenizer_files: dict[str, Any]
    _calls: ServerCaller
    _notes: dict[str, str]
    _eos_string: str | None
    _given: Mapping[str, Any]
    """The constructor's arguments: one that only a subclass knows may decide its answers."""
    _auth_token: str | None
    think_end_token: str | None = None
    """A text in replies after which the answer begins; what comes before it is reasoning."""
    _loaded: ServerTokenizer | None = None
    _planner: Planner | None = None
    _header: Mapping[str, str] | None

    # Each is stored under its name in the harness. A subclass may define it as a property.
    model = kept_as("_served_model", "The model's name as the server knows it.")
    max_length = kept_as("_max_length", "Prompt and answer together, in tokens.")
    max_gen_toks = kept_as("_max_gen_toks", "The limit for generated tokens where a task has none.")
    batch_size = kept_as("_batch_size", "Prompts in one request.")
    num_concurrent = kept_as("_concurrent", "Requests in flight, or ``auto``.")
    seed = kept_as("_seed", "Sent along with requests.")
    truncate = kept_as("_truncate", "Whether prompts that are sent as text are truncated as well.")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all servers."""
        return (self.base_url, *self._other_addresses)

    # -- the tokenizer ---------------------------------------------------------------------------

    @property
    def tokenizer(self) -> ServerTokenizer | None:
        return None if self.tokenizer_backend is None else self._known_tokenizer

    @property
    def _known_tokenizer(self) -> ServerTokenizer:
        """The tokenizer, loaded once; an error if there is none."""
        if self._loaded is None:
            self._loaded = self._load_tokenizer()
        return self._loaded

    @property
    def tokenizer_name(self) -> str:
        return "" if self.tokenizer_backend is None else self._tokenizer_source

    @property
    def _tokenizer_source(self) -> str:
        return self.tokenizer_argument or self.model

    @property
    def _may_have_template(self) -> bool:
        """Whether there is a chat template, as far as that is known without a request."""
        if self.tokenizer_backend in (None, "tiktoken"):
            return False
        if self._loaded is None and not self._is_at_hand:
            return True
        return self._known_tokenizer.template is not None

    @property
    def _is_at_hand(self) -> bool:
        """Whether the tokenizer is a folder on this machine, so that loading it sends no request."""
        return not self._asks_server and Path(self._tokenizer_source).expanduser().is_dir()

    @property
    def _asks_server(self) -> bool:
        backend, name = self.tokenizer_backend, self.tokenizer_argument
        return backend == "remote" or (backend == "auto" and name is None)

    def _load_tokenizer(self) -> ServerTokenizer:
        backend = self.tokenizer_backend
        if backend is None:
            raise ModelError(
                f"{type(self).__name__} has tokenizer_backend=None, so nothing can be "
                "tokenized. Log-likelihoods and chat templates need a tokenizer: leave the argument "
                "out, or set huggingface, tiktoken or remote."
            )
        if backend == "tiktoken":
            return load_tiktoken(self._tokenizer_source)
        if not self._asks_server:
            return self._load_files()
        try:
            return RemoteTokenizer(self._tokenizer_source, self.model, self.addresses, self._calls)
        except ModelError as error:
            if backend == "remote" or isinstance(error, RequestError | MissingExtraError):
                raise
            no_server = error
        try:
            return self._load_files()
        except ModelError as error:
            raise ModelError(f"{error} The server was asked as well: {no_server}") from error

    def _load_files(self) -> ServerTokenizer:
        is_named = self.tokenizer_argument is not None
        why = (
            "from tokenizer=…" if is_named else "the model's name, because no tokenizer=… was given"
        )
        return load_files(self._tokenizer_source, why=why, **self.tokenizer_files)

    # -- special tokens and chats ----------------------------------------------------------------

    @property
    def chat_template(self) -> str | None:
        """The source of the tokenizer's chat template, if one is loaded."""
        template = self._loaded.template if self._loaded else None
        return template.source if template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        template = self.tokenizer.template if self.tokenizer else None
        if template is None:
            raise ModelError(
                f"The tokenizer {self.tokenizer_name!r} of {type(self).__name__} has no chat "
                "template. Run without --apply_chat_template, name a tokenizer that has one with "
                "tokenizer=…, or use a chat endpoint (--model local-chat-completions)."
            )
        return template.apply(chat_history, add_generation_prompt)

    @property
    def eot_token_id(self) -> int:
        return self._token("an EOS", self._known_tokenizer.eos)

    @property
    def prefix_token_id(self) -> int:
        """The token put before a text that has no context: the argument, else BOS, else EOS."""
        if self.custom_prefix_token_id is not None:
            return self.custom_prefix_token_id
        tokenizer = self._known_tokenizer
        token = tokenizer.eos if tokenizer.bos is None else tokenizer.bos
        return self._token("a BOS or EOS", token)

    def _token(self, what: str, token: int | None) -> int:
        if token is None:
            raise ModelError(
                f"The tokenizer {self.tokenizer_name!r} does not name {what} token. Give one with "
                "custom_prefix_token_id=NUMBER."
            )
        return token

    def tok_encode(  # type: ignore[override]  # the harness's own order of arguments
        self,
        string: str | Sequence[str],
        left_truncate_len: int | None = None,
        add_special_tokens: bool | None = None,
        truncation: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The tokens of a text, or of each of a list of texts, the last ``left_truncate_len`` of them.

        With special tokens (by default as ``add_bos_token`` says) they begin with the prefix token,
        once.
        """
        tokens = self._known_tokenizer.encode([string] if isinstance(string, str) else [*string])
        if self.add_bos_token if add_special_tokens is None else add_special_tokens:
            first = self.prefix_token_id
            tokens = [ids if ids[:1] == [first] else [first, *ids] for ids in tokens]
        if left_truncate_len:
            tokens = [ids[-left_truncate_len:] for ids in tokens]
        return tokens[0] if isinstance(string, str) else tokens

    def encode_texts(self, texts: Sequence[str], **options: Any) -> list[list[int]]:
        """The tokens of each text, encoded together, or one by one by a subclass's ``tok_encode``."""
        if overridden(self, ["tok_encode"]):
            return [list(self.tok_encode(text, **options)) for text in texts]
        encoded: list[list[int]] = self.tok_encode(texts, **options)
        return encoded

    @property
    def encoder(self) -> Callable[[str], Sequence[int]] | None:
        """None if only the server could tell, at the cost of a request for each text."""
        is_here = self.tokenizer_backend in ("huggingface", "tiktoken")
        return self.tok_encode if is_here else None

    def only_text(self, token: int) -> str | None:
        """The text of a token, or None if another token has the same text."""
        return self._known_tokenizer.only_text(token)

    def tok_decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self._known_tokenizer.decode(tokens)

    def decode_batch(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of tokens, for prompts that are sent as text."""
        return [self.tok_decode(ids) for ids in tokens]

    def generates_from_tokens(self) -> bool:
        """Whether prompts for generation are tokenized: to send ids, or to cut them.

        With the server's own tokenizer each would cost a request, and the server makes the same
        tokens from text. Text is also sent if no tokenizer was named and none has the model's name.
        """
        if self.tokenizer_backend not in ("huggingface", "tiktoken"):
            return self.truncate and self.tokenizer_backend is not None
        if not self.tokenized_requests and not self.truncate:
            return False
        try:
            return bool(self._known_tokenizer)
        except ModelError as error:
            if self.tokenizer_argument is not None or self.truncate:
                raise
            self._notes["text"] = f"prompts for generation were sent as text. {error}"
            return False

    def messages(self, context: Context) -> list[dict[str, str]]:
        """The context as a chat endpoint takes it; a plain prompt becomes a user message."""
        if isinstance(context, Chat):
            return context.as_dicts()
        return [{"role": "user", "content": str(context)}]

    @property
    def planner(self) -> Planner:
        """What turns requests into prompts, by the current values of the arguments."""
        if self._planner is None:
            self._planner = Planner(
                encode=self.encode_texts,
                encode_bare=lambda texts: self.encode_texts(texts, add_special_tokens=False),
                decode=None,
                only_text=self.only_text,
                prefix=lambda: self.prefix_token_id,
                window=0,
            )
        is_text = not self.tokenized_requests
        self._planner.decode = self._text_of if is_text else None
        self._planner.window = self.max_length - 1
        return self._planner

    def _text_of(self, tokens: list[int]) -> str:
        return self.decode_batch([tokens])[0]

    # -- what the model is -----------------------------------------------------------------------

    @property
    @abstractmethod
    def api_key(self) -> str:
        """The key, from the environment; empty if none is needed."""

    def identity(self) -> Mapping[str, Any]:
        arguments = {
            name: value
            for name, value in self._given.items()
            if name not in _HOW_FAST and not (is_secret_name(name) or is_header_name(name))
        }
        routed = list(self._routing())
        return {
            **arguments,
            **({"routing": secret_digest(routed)} if routed else {}),
            "backend": f"{type(self).__module__}.{type(self).__qualname__}",
            "base_url": shown_address(self.base_url),
            "model": self.model,
            "tokenizer": self._tokenizer_source,
            "tokenizer_backend": self.tokenizer_backend,
            "tokenized_requests": self.tokenized_requests,
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "seed": self.seed,
            "add_bos_token": self.add_bos_token,
            "custom_prefix_token_id": self.custom_prefix_token_id,
            "eos_string": self._eos_string,
            "truncate": self.truncate,
        }

    def _routing(self) -> Iterator[str]:
        """What else may decide who answers: the hidden parts of the address, and headers.

        A header that holds the key alone is left out: a new key does not make a new model.
        """
        yield from masked_values(self.base_url)
        key = self.api_key or self._auth_token
        for name, value in self._calls.header().items():
            if is_secret_header(name) and value.rpartition(" ")[2] != key:
                yield f"{name}: {value}"

    def cannot_hold(self, grammar: Grammar) -> str | None:
        self._calls.header()  # a missing key is noticed before anything else
        return super().cannot_hold(grammar) or self._calls.enforcer.cannot_hold(grammar)

    def describe(self) -> dict[str, Any]:
        planner = self.planner
        return {
            **self.identity(),
            "num_concurrent": self.num_concurrent,
            "batch_size": self.batch_size,
            "timeout_s": self.timeout,
            "max_retries": self.max_retries,
            "truncated_requests": planner.truncated,
            "truncated_tokens": planner.cut_tokens,
            "empty_continuations": planner.empty,
            **({"cut_replies": cut} if (cut := self._calls.cut_replies) else {}),
            **({"enforced_by": held_by} if (held_by := self._calls.enforcer.dialects) else {}),
            **({"servers": self._server_facts()} if self._other_addresses else {}),
        }

    def _server_facts(self) -> list[dict[str, Any]]:
        return [
            {
                "base_url": shown_address(address),
                "answered": server.answered,
                "taken_out": server.times_out,
                "is_out": not server.is_in,
            }
            for address, server in zip(
                self.addresses, self._calls.transport.servers.all, strict=True
            )
        ]

    @property
    def warnings(self) -> list[str]:
        notes = list(self._notes.values())
        planner = self.planner
        if planner.truncated:
            notes.append(
                f"{planner.truncated} prompts were longer than max_length {self.max_length} allows "
                f"and lost their beginning, {planner.cut_tokens} tokens in all. Raise max_length in "
                "--model_args if the model allows it."
            )
        if planner.empty:
            notes.append(f"{planner.empty} continuations have no token of their own and scored 0.")
        if cut := self._calls.cut_replies:
            notes.append(f"{cut} replies went on after a stop string and were cut there.")
        servers = self._calls.transport.servers.all if self._other_addresses else ()
        for server, address in zip(servers, self.addresses, strict=False):
            if server.times_out:
                end = "came back" if server.is_in else "did not come back"
                times = {1: "once"}.get(server.times_out, f"{server.times_out} times")
                notes.append(
                    f"{shown_address(address)} was taken out {times} and {end}; it gave "
                    f"{server.answered:,} answers. The reason: {server.last_why}"
                )
        if overridden(self, ["eot_token_id"]):
            notes.append(
                f"eot_token_id of {type(self).__name__} is not sent: replies end at the task's stop "
                "strings and at eos_string."
            )
        return notes

    def __repr__(self) -> str:
        address = shown_address(self.base_url)
        return f"{type(self).__name__}(model={self.model!r}, base_url={address!r})"
