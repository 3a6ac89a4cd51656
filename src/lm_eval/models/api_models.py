"""``TemplateAPI``: the base of models behind an HTTP server.

A subclass says how a request looks (``_create_payload``), how replies are read (``parse_generations``,
``parse_logprobs``) and who asks (``headers``, ``api_key``). Sending, retries, concurrency, batching,
scoring plans and accounting are done here, the same for all.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.errors import LmEvalWarning, ModelError, RequestError, UsageError
from lm_eval.formats.assemble import Chat, Context
from lm_eval.formats.grammar import Grammar
from lm_eval.models.api.calls import ServerCaller
from lm_eval.models.api.enforcer import Dialect
from lm_eval.models.api.facts import description_of, identity_of, warnings_of
from lm_eval.models.api.probe import ServerCheck, probe
from lm_eval.models.api.replies import NextTokens, tokens_used
from lm_eval.models.api.scoring import Ability, Planner
from lm_eval.models.api.settings import (
    Concurrency,
    TokenizerBackend,
    Window,
    check_addresses,
)
from lm_eval.models.api.tokenizers import ServerTokenizer, load_tokenizer
from lm_eval.models.base import (
    LM,
    Capabilities,
    EncodedPair,
    ExtensibleLM,
    TemplateLM,
    overridden,
    peek,
)
from lm_eval.models.cost_estimates import estimated, guess_tokens
from lm_eval.models.overrides import kept_as
from lm_eval.models.settings import (
    MAX_GEN_TOKS,
    BatchSize,
    Count,
    FromZero,
    Seconds,
    accepted_arguments,
    checked,
)
from lm_eval.registry import backend_name
from lm_eval.requests import Answered, LoglikelihoodRequest, Request, RollingRequest
from lm_eval.requests.values import Estimated, Usage
from lm_eval.support.secrets import shown_address

if TYPE_CHECKING:
    from lm_eval.models.batches.protocols import BatchProtocol
    from lm_eval.models.batches.stream import BatchStream
    from lm_eval.models.http.pacing import Meanwhile

_SCORING = {
    LoglikelihoodRequest.kind: ("_encode_pair", "_loglikelihood_tokens"),
    RollingRequest.kind: ("_loglikelihood_tokens",),
}
"""Kind of request → methods that a subclass of the harness may have for it, which are then called."""
_LOCAL_ONLY = ("device", "max_batch_size")
"""Flags for local models, which runs pass to every backend."""
_UNSUPPORTED = re.compile(
    r"(?i)not (?:supported|permitted|allowed)|unsupported|does not support|deprecated|unknown"
)


class TemplateAPI(ExtensibleLM, TemplateLM):
    """Base of models behind a server.

    Prompts longer than ``max_length`` lose their beginning; ``warnings`` and ``describe()`` count them.
    """

    is_light = True
    meanwhile: Meanwhile | None = None
    """What is done while the server works; set by the caller."""
    endpoint = ""
    """The usual path of such an endpoint, for messages about an address that lacks it."""
    is_chat = False
    """Whether the endpoint takes messages instead of a prompt."""
    enforced_by: tuple[Dialect, ...] = ()
    """The fields of a request with which such servers hold replies to a grammar, tried in order."""
    batch_protocol: type[BatchProtocol] | None = None
    """How the provider takes batches; None if it does not."""
    batches: BatchStream | None = None
    """What answers requests for text if the run hands in batches; else None."""
    key_variable = ""
    """The environment variable that ``api_key`` reads, for messages."""
    may_refuse: tuple[str, ...] = ()
    """Fields of a request that some models refuse; one that is refused is left out from then on."""
    _left_out: frozenset[str] = frozenset()
    base_url: str
    """The address of the server; of several, the first, under which answers are stored."""
    _calls: ServerCaller
    _given: Mapping[str, Any]
    """The constructor's arguments: one that only a subclass knows may decide its answers."""
    _loaded: ServerTokenizer | None = None
    planner: Planner
    """What turns requests into prompts, by the current values of the arguments."""

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

    def __new__(cls, *_: Any, **kwargs: Any) -> Any:
        model = super().__new__(cls)
        model._given = kwargs
        return model

    @checked
    def __init__(
        self,
        model: Annotated[
            str | None, "the model's name on the server; overrides `pretrained`"
        ] = None,
        pretrained: Annotated[str | None, "the same"] = None,
        base_url: Annotated[
            str | Sequence[str] | None, "the full address of the endpoint, path included"
        ] = None,
        tokenizer: Annotated[
            str | None, "a folder or a repository of the hub; by default the model's name"
        ] = None,
        tokenizer_backend: Annotated[
            TokenizerBackend, "where tokens come from: see [tokenizers](#tokenizers)"
        ] = "huggingface",
        truncate: Annotated[
            bool, "also cut prompts for generation that are sent as text to `max_length`"
        ] = False,
        num_concurrent: Annotated[Concurrency, "requests in flight, or `auto`"] = 1,
        max_retries: Annotated[FromZero, "attempts beyond the first"] = 3,
        max_gen_toks: Annotated[Count, MAX_GEN_TOKS] = 256,
        batch_size: Annotated[BatchSize, "prompts in one request; `auto` is 1"] = 1,
        seed: Annotated[
            FromZero, "sent with each request; repeats of a sampled request count up from it"
        ] = 1234,
        max_length: Annotated[Window, "prompt and answer together, in tokens"] = 2048,
        add_bos_token: Annotated[bool, "put the prefix token before every prompt, once"] = False,
        custom_prefix_token_id: Annotated[
            int | None,
            "the prefix token; by default BOS, else EOS. It also replaces an empty context",
        ] = None,
        tokenized_requests: Annotated[
            bool, "send token ids, not text. No effect for chats or without a tokenizer"
        ] = True,
        trust_remote_code: Annotated[bool, "let a tokenizer run its own code"] = False,
        revision: Annotated[str | None, "the version of a tokenizer on the hub"] = "main",
        use_fast_tokenizer: Annotated[
            bool, "read `tokenizer.json`; otherwise only `transformers` is tried"
        ] = True,
        verify_certificate: Annotated[bool, "whether the server's certificate is checked"] = True,
        ca_cert_path: Annotated[
            str | None, "a file with a certificate authority of your own"
        ] = None,
        auth_token: Annotated[str | None, "a bearer token if the environment has no key"] = None,
        eos_string: Annotated[
            str | None, "a text that ends generation, besides a task's own"
        ] = None,
        timeout: Annotated[Seconds, "seconds for one whole attempt"] = 30,
        header: Annotated[
            Mapping[str, str] | None, "the whole header of every request, as a mapping"
        ] = None,
        top_logprobs: Annotated[
            FromZero | None,
            "how many likeliest tokens to ask for; by default as many as the server returns",
        ] = None,
        think_end_token: Annotated[
            str | None, "a text in replies after which the answer begins; before it is reasoning"
        ] = None,
    ) -> None:
        who = backend_name(self)
        self._served_model = self._model_name(model, pretrained)
        self.base_url, *others = check_addresses(who, base_url, f"http://HOST:PORT{self.endpoint}")
        self._other_addresses = tuple(others)
        if tokenizer_backend == "auto" and tokenizer is not None:
            tokenizer_backend = "huggingface"
        self.tokenizer_backend = None if self.is_chat else tokenizer_backend
        self.tokenized_requests = tokenized_requests and self.tokenizer_backend is not None
        self._truncate = truncate
        self._concurrent = num_concurrent
        self.max_retries = max_retries
        self._max_gen_toks = max_gen_toks
        self._batch_size = int(batch_size or 1)  # nothing here can tell how much a server takes
        self._seed = seed
        self._max_length = max_length
        self.add_bos_token = add_bos_token
        self.custom_prefix_token_id = custom_prefix_token_id
        self.verify_certificate = verify_certificate
        self.ca_cert_path = ca_cert_path
        self.timeout = timeout
        self.top_logprobs = top_logprobs
        self.think_end_token = None if think_end_token is None else str(think_end_token)
        self._auth_token = auth_token
        self._header = None if header is None else dict(header)
        self._eos_string = eos_string
        self.tokenizer_files: dict[str, Any] = {
            "revision": revision or "main",
            "use_fast": use_fast_tokenizer,
            "trust_remote_code": trust_remote_code,
        }
        self.tokenizer_argument = tokenizer
        self._calls = ServerCaller(self)
        self.planner = Planner(self)
        self._ability: Ability | None = None
        self._notes: dict[str, str] = {}
        self._servers: ServerCheck | None = None
        self._calls.check_methods()
        if self.is_chat and self.batch_size > 1:
            raise UsageError(
                f"{who}: a chat endpoint takes one conversation a request, so batch_size must be 1, "
                f"not {self.batch_size}. Raise num_concurrent to send more at a time."
            )

    def _model_name(self, model: str | None, pretrained: str | None) -> str:
        name = model or pretrained
        if not name:
            raise UsageError(
                f"{backend_name(self)} needs the model's name as the server knows it: "
                "`--model_args model=NAME,…`."
            )
        return str(name)

    def defines(self, name: str) -> bool:
        """Whether a subclass has its own method of this name."""
        return getattr(type(self), name) is not getattr(TemplateAPI, name)

    # -- what a subclass says --------------------------------------------------------------------

    def _create_payload(
        self,
        messages: Any,
        *,
        generate: bool = True,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The body of a request as JSON values.

        ``messages`` are token lists, texts (a bare one if it is alone), or a chat's messages.
        ``gen_kwargs`` holds ``until`` (a list), ``max_gen_toks``, ``temperature`` and what else the
        task asked for; it is the method's own copy. ``generate=False`` asks for log-probs.
        """
        raise NotImplementedError

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        """The generated texts in a reply, in the order of the prompts; a ``Reply`` may say more."""
        raise NotImplementedError

    @staticmethod
    def parse_usage(outputs: Any) -> Usage | None:
        """What one reply cost in tokens: in, out, and how many of them were cached or reasoning.

        None if it does not say. By default a ``usage`` block of OpenAI's shape is read.
        """
        return tokens_used(outputs)

    @staticmethod
    def parse_logprobs(
        outputs: Any,
        tokens: list[list[int]] | None = None,
        ctxlens: list[int] | None = None,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        """For each prompt, ``(sum of log-probs from ctxlen on, whether all are the likeliest)``."""
        raise NotImplementedError

    @staticmethod
    def parse_top_logprobs(outputs: Any) -> list[NextTokens | None]:
        """For each prompt the likeliest next tokens, if the server returns them."""
        raise NotImplementedError

    @cached_property
    def api_key(self) -> str:
        """The key, from the environment; empty if none is needed."""
        return ""

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The header of every request: the argument ``header``, else the key as a bearer token."""
        if self._header is not None:
            return self._header
        key = self.api_key or self._auth_token
        return {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def header(self) -> Any:
        """What is sent; by default ``headers``. Either may be overridden, as a property or a method."""
        headers: Any = self.headers
        return headers() if callable(headers) else headers

    @property
    def always_samples(self) -> bool:
        """Whether the model samples whatever temperature a task asks for."""
        return "temperature" in self._left_out

    def move_to(self, addresses: Sequence[str], *, because: str) -> None:
        """Send further requests to these addresses, and say so."""
        self.base_url, *others = addresses
        self._other_addresses = tuple(others)
        where = shown_address(self.base_url)
        self._notes["path"] = f"{because}, so requests went to {where}. Give that as base_url."

    def adapts_to(self, error: RequestError) -> bool:
        """Whether an error refuses a field of ``may_refuse``, so that another try leaves it out."""
        if error.status != 400 or not _UNSUPPORTED.search(str(error)):
            return False
        refused = {name for name in self.may_refuse if re.search(rf"\b{name}\b", str(error))}
        new = refused - self._left_out
        self._left_out |= new
        for name in new:
            self._notes[f"no {name}"] = f"{self.model} takes no {name}, which was left out" + (
                ", so that replies may differ from run to run." if name == "temperature" else "."
            )
        return bool(new)

    def is_refusal(self, error: RequestError) -> bool:
        """Whether an error says that the prompt was refused: then that is the reply."""
        del error
        return False

    @property
    def eos_string(self) -> str | None:
        """A text that ends generation: the argument, else the tokenizer's if one is loaded."""
        if self._eos_string is None and self._loaded:
            return self._loaded.eos_text
        return self._eos_string

    def create_message(self, messages: Sequence[Any], generate: bool = False) -> Any:
        """Prompts as a payload carries them: a chat's messages, one text bare, else a list."""
        if self.is_chat:
            return messages[0]
        if len(messages) == 1 and isinstance(messages[0], str):
            return messages[0]
        return list(messages)

    def request_body(
        self,
        messages: Sequence[Any],
        *,
        generate: bool,
        gen_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """The body of a request, without the fields that the model refuses."""
        payload = self._create_payload(
            self.create_message(messages, generate),
            generate=generate,
            gen_kwargs=dict(gen_kwargs or {}),
            **{"seed": self.seed, "eos": self.eos_string, **options},
        )
        if not self._left_out:
            return payload
        return {name: value for name, value in payload.items() if name not in self._left_out}

    async def amodel_call(
        self,
        *call: Any,
        generate: bool = True,
        gen_kwargs: Mapping[str, Any] | None = None,
        ctxlens: list[int] | None = None,
        cache_keys: Any = None,
        **kwargs: Any,
    ) -> Any:
        """The server's reply to ``messages``, as JSON values.

        Subclasses of the harness call it as ``(session, sem, messages)``; they get parsed answers.
        """
        messages = call[-1]
        received = await self._calls.send(
            messages, lambda _: None, generate=generate, gen_kwargs=gen_kwargs, **kwargs
        )
        outputs, _ = received.value
        if len(call) == 1:
            return outputs
        if generate:
            return self.parse_generations(outputs=outputs)
        return self.parse_logprobs(outputs=outputs, tokens=messages, ctxlens=ctxlens)

    def model_call(
        self,
        messages: Sequence[Any],
        *,
        generate: bool = True,
        gen_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As ``amodel_call``, for plain code."""
        return self._calls.run(
            self.amodel_call(messages, generate=generate, gen_kwargs=gen_kwargs, **kwargs)
        )

    # -- what the model is -----------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # known only for an instance
        """A chat template is assumed until the tokenizer is loaded."""
        ability = self._ability
        return Capabilities(
            loglikelihood=self._scores_text,
            generation=self._calls.is_overridden or self.defines("parse_generations"),
            chat_template=not self.is_chat and self._may_have_template,
            chat_only=self.is_chat,
            prefill=not self.is_chat,
            top_logprobs=bool(ability and ability.top),
            batch=ability.batch if ability else self.batch_size > 1,
            enforces=bool(self.enforced_by) and not self._calls.is_overridden,
        )

    @property
    def _scores_text(self) -> bool:
        has_parser = self._calls.is_overridden or self.defines("parse_logprobs")
        return has_parser and not self.is_chat and self.tokenizer_backend is not None

    @property
    def usage(self) -> Mapping[str, Usage]:
        return self._calls.usage

    def identity(self) -> Mapping[str, Any]:
        return identity_of(self)

    def describe(self) -> dict[str, Any]:
        return description_of(self)

    @property
    def warnings(self) -> list[str]:
        return warnings_of(self)

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        self._calls.header()  # a missing key is noticed before anything else
        return super().why_not_enforceable(grammar) or self._calls.enforcer.why_not_enforceable(
            grammar
        )

    def __repr__(self) -> str:
        address = shown_address(self.base_url)
        return f"{type(self).__name__}(model={self.model!r}, base_url={address!r})"

    def estimate(self, requests: Iterable[Request]) -> Estimated:
        """Tokens are counted if that needs no server. A server may take several prompts at a time."""
        can_count = False
        try:
            can_count = self.tokenizes_here and bool(self._known_tokenizer)
        except ModelError:
            if self.tokenizer_argument is not None:
                raise
        total = estimated(
            requests,
            max_reply=self.max_reply,
            count=self._count_tokens if can_count else guess_tokens,
            counted_with=self.tokenizer_name if can_count else None,
            shares_requests=True,
        )
        total.least.requests = -(-total.least.requests // self.batch_size)
        return total

    def _count_tokens(self, text: Context | str) -> int:
        options = {"add_special_tokens": False} if isinstance(text, str) else {}
        (tokens,) = self.encode_texts(
            [text if isinstance(text, str) else self.render(text)], **options
        )
        return min(len(tokens), int(self.max_length))

    def close(self) -> None:
        self._calls.close()

    @classmethod
    def from_args(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        arguments = dict(model_args)
        accepted = accepted_arguments(cls)
        for flag in _LOCAL_ONLY:
            if flag in arguments and accepted is not None and flag not in accepted:
                warnings.warn(
                    f"Model {name!r} runs on a server, so {flag} has no effect.",
                    LmEvalWarning,
                    stacklevel=2,
                )
                del arguments[flag]
        return super().from_args(arguments, name=name)

    # -- the tokenizer ---------------------------------------------------------------------------

    @property
    def tokenizer(self) -> ServerTokenizer | None:
        return None if self.tokenizer_backend is None else self._known_tokenizer

    @property
    def _known_tokenizer(self) -> ServerTokenizer:
        """The tokenizer, loaded once; an error if there is none."""
        if self._loaded is None:
            self._loaded = load_tokenizer(self)
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
        is_folder = self.tokenizes_here and Path(self._tokenizer_source).expanduser().is_dir()
        if self._loaded is None and not is_folder:
            return True
        return self._known_tokenizer.template is not None

    @property
    def tokenizes_here(self) -> bool:
        """Whether tokens are made on this machine; otherwise each text costs a request."""
        return self.tokenizer_backend in ("huggingface", "tiktoken")

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
        return template.render(chat_history, add_generation_prompt)

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
        return self.tok_encode if self.tokenizes_here else None

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
        if not self.tokenizes_here:
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

    # -- requests --------------------------------------------------------------------------------

    def _answers(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        first, requests = peek(requests)
        if first is None:
            return
        self._calls.header()  # a missing key is noticed before anything else
        self._compare_servers(first.task)
        if kind in _SCORING:
            if overridden(self, _SCORING[kind]):
                yield from self._calls.scores_by_methods(kind, list(requests))
                return
            self._probe(first.task)
            score = self._calls.scores if kind == "loglikelihood" else self._calls.texts
            yield from score(requests)  # type: ignore[arg-type]
        else:
            source: Any = self._calls if self.batches is None else self.batches
            yield from source.replies(requests)

    @property
    def ability(self) -> Ability:
        """What the probe found; an error before it ran."""
        assert self._ability is not None, "scores are asked for after the probe"
        return self._ability

    def _compare_servers(self, task: str) -> None:
        """Refuse a server that serves another model than the first, before anything is asked."""
        if self._other_addresses and self._servers is None:
            self._servers = ServerCheck(self._calls, self, task)
            self._servers.run()

    def _probe(self, task: str) -> None:
        """Find out what the server can do, before the first score."""
        if self._ability is None:
            if self.is_chat:
                raise ModelError(
                    "A chat endpoint cannot score text. Ask for text with a format such as @generate, "
                    "or use a completions endpoint (--model local-completions)."
                )
            if not self._scores_text:
                raise self._cannot("score text: it has no parse_logprobs, or no tokenizer")
            self._ability = probe(self._calls, self, task)

    def _loglikelihood_tokens(
        self, requests: list[EncodedPair], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        self._compare_servers("")
        self._probe("")
        spans = [self.planner.span(index, *pair[1:]) for index, pair in enumerate(requests)]
        return self._calls.scores_of(spans)


__all__ = ["TemplateAPI"]

__getattr__ = attributes_of(__name__)
