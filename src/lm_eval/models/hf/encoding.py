"""Requests to ``hf`` → tokens: spans to score, and prompts to continue.

Many are encoded at a time. What does not fit the model's window loses its beginning, and is counted.
``HFVocabulary`` is the tokenizer of a model as a backend that answers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lm_eval.formats.assemble import Context
from lm_eval.models.base import LM, Capabilities, GenerationOptions
from lm_eval.models.borders import Border
from lm_eval.models.hf.generation import BatchJob, Endings
from lm_eval.models.hf.loading import find_tokenizer, import_torch, load_config, load_tokenizer
from lm_eval.models.hf.options import PENALTIES, check_options, read_backend
from lm_eval.models.hf.sources import converted, find_source
from lm_eval.models.hf.tokens import Tokens
from lm_eval.models.sampling import request_sampler
from lm_eval.models.spans import (
    check_continuation,
    chunks,
    continuation_span,
    prompt_room,
    rolling_spans,
)
from lm_eval.models.token_tree import Span
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, RollingRequest

_ENCODED_TOGETHER = 256


class Encoding:
    """Encodes the requests to one model. ``is_pair``: an encoder reads the context, apart."""

    def __init__(
        self,
        tokens: Tokens,
        endings: Endings,
        *,
        render: Callable[[Context], str],
        window: int,
        is_pair: bool,
        max_gen_toks: int,
        seed: int,
    ) -> None:
        self._tokens = tokens
        self._endings = endings
        self._render = render
        self._window = window
        self._is_pair = is_pair
        self._max_gen_toks = max_gen_toks
        self._seed = seed
        self.truncated = 0
        """Requests that lost their beginning."""
        self.empty_continuations = 0
        """Continuations without a token of their own."""

    def spans(self, requests: Iterable[LoglikelihoodRequest]) -> Iterator[Span]:
        """What scores each continuation."""
        encode = self._tokens.separate if self._is_pair else self._tokens.borders
        for some in chunks(enumerate(requests), _ENCODED_TOGETHER):
            pairs = [(self._render(request.context), request.continuation) for _, request in some]
            for (place, request), border in zip(some, encode(pairs), strict=True):
                yield self._span(place, request, border)

    def _span(self, place: int, request: LoglikelihoodRequest, border: Border) -> Span:
        context, continuation = list(border.context), list(border.scored)
        check_continuation(request, len(continuation), window=self._window, argument="max_length")
        self.empty_continuations += not continuation
        if self._is_pair:  # two windows: one for the encoder, one for the decoder
            self.truncated += len(context) > self._window
            return Span(place, (context[-self._window :] + continuation)[:-1], continuation)
        span, is_cut = continuation_span(place, context, continuation, window=self._window)
        self.truncated += is_cut
        return span

    def texts(self, requests: Iterable[RollingRequest]) -> Iterator[tuple[int, list[Span]]]:
        """Each text's place and its spans, as many as it needs windows."""
        for some in chunks(enumerate(requests), _ENCODED_TOGETHER):
            texts = self._tokens.tokenize([request.text for _, request in some])
            for (place, _), text in zip(some, texts, strict=True):
                yield (
                    place,
                    list(rolling_spans(place, self._tokens.prefix, text, window=self._window)),
                )

    def jobs(self, requests: Iterable[GenerateRequest]) -> Iterator[BatchJob]:
        """Each prompt to continue, and where to stop."""
        for some in chunks(enumerate(requests), _ENCODED_TOGETHER):
            prompts = self._tokens.encode([self._render(request.context) for _, request in some])
            for (place, request), prompt in zip(some, prompts, strict=True):
                yield self._job(place, request, prompt or [self._tokens.prefix])

    def _job(self, place: int, request: GenerateRequest, prompt: list[int]) -> BatchJob:
        options = GenerationOptions.from_kwargs(request.gen_kwargs, max_gen_toks=self._max_gen_toks)
        check_options(request, options)
        reply = 0 if self._is_pair else options.max_gen_toks
        room = prompt_room(request, reply, window=self._window, argument="max_length")
        self.truncated += len(prompt) > room
        return BatchJob(
            place,
            prompt[-room:],
            until=self._endings.stops(options.until),
            max_gen_toks=options.max_gen_toks,
            stop_tokens=self._endings.stop_tokens(options.until),
            sample=request_sampler(request, options, self._seed),
            penalties=tuple(
                (name, options.extra[name]) for name in PENALTIES if name in options.extra
            ),
        )


class HFVocabulary(LM):
    """Encodes, decodes and renders chats as ``hf`` does with these arguments; answers nothing."""

    def __init__(
        self,
        pretrained: str,
        *,
        revision: str | None = None,
        tokenizer: str | None = None,
        backend: str = "default",
        trust_remote_code: bool = False,
        add_bos_token: bool | None = None,
        chat_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        import_torch()  # a missing package is reported before a missing model
        source = converted(find_source(str(pretrained), revision))
        trusts = bool(trust_remote_code)
        config = load_config(source, trust_remote_code=trusts)
        self.backend = read_backend(backend, config)
        loaded = load_tokenizer(find_tokenizer(tokenizer, source), trust_remote_code=trusts)
        self.tokens = Tokens(
            loaded,
            model_name=source.given,
            known=len(loaded),
            add_bos_token=add_bos_token,
            encloses=self.backend == "seq2seq",
        )
        self._chat_arguments = dict(chat_arguments or {})
        self.capabilities = Capabilities(
            loglikelihood=False,
            generation=False,
            chat_template=self.tokens.chat_template is not None,
        )

    def tok_encode(self, string: str) -> list[int]:
        return self.tokens.encode([string])[0]

    def tok_decode(self, tokens: Sequence[int]) -> str:
        return self.tokens.decode(tokens, keeps_special=True)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return self.tokens.render_chat(
            chat_history,
            add_generation_prompt=add_generation_prompt,
            arguments=self._chat_arguments,
        )
