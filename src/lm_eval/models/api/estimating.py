"""What requests to a server would cost: the same plans that are sent, counted instead.

Tokens are counted where the tokenizer is at hand. The server's own is not asked, as that would be a
request for each prompt; they are guessed then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.formats.assemble import Chat, Prompt
from lm_eval.models.api.generation import GenerationJob, GenerationJobs
from lm_eval.models.api.scoring import CHOICES_PER_REQUEST, Ability, SpanGroup, packed
from lm_eval.models.api.settings import SendingSettings, ServerModel, TokenizerSettings
from lm_eval.models.estimating import estimated, guess_tokens
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request
from lm_eval.requests.values import Estimated, Usage


def estimated_for_server(model: ServerModel, requests: Iterable[Request]) -> Estimated:
    """What these requests would cost, from the most able server to the least able; nothing is sent."""
    estimator = _Estimator(model)
    whole = Estimated(counted_with=estimator.tokenizer)
    for kind, alike in groupby(requests, key=lambda request: request.kind):
        for least, most in estimator.costs(kind, alike):
            whole.least.add(least)
            whole.most.add(most)
    return whole


class _Estimator:
    """Counts for one model. ``tokenizer`` is the name of the tokenizer that counts, if one does."""

    def __init__(self, model: ServerModel) -> None:
        self._model = model
        self._settings = SendingSettings.of(model)
        self.tokenizer = _own_tokenizer(model)

    def costs(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[Usage, Usage]]:
        """The least and the most that parts of the requests would cost."""
        if kind == GenerateRequest.kind:
            for job in self._jobs(requests):
                yield self._generation(job)
        elif self.tokenizer is None:
            guessed = estimated(requests, max_reply=lambda _: 0, shares_requests=True)
            yield guessed.least, guessed.most
        else:
            yield from self._scores(kind, requests)

    # -- generated text --------------------------------------------------------------------------

    def _jobs(self, requests: Iterable[GenerateRequest]) -> Iterator[GenerationJob]:
        model = self._model
        if self.tokenizer is not None:
            return GenerationJobs(model, model.generates_from_tokens()).made(requests)
        texts = (_as_text(request, is_chat=model.is_chat) for request in requests)
        return GenerationJobs(model, from_tokens=False).made(texts)

    def _generation(self, job: GenerationJob) -> tuple[Usage, Usage]:
        tokens_in = sum(map(self._count, job.messages))
        longest = job.options.max_gen_toks * len(job.places)
        least = Usage(requests=1, tokens_in=tokens_in)
        return least, replace(least, tokens_out=longest)

    def _count(self, message: Any) -> int:
        """The tokens of a prompt: ids, a text, or the messages of a chat."""
        if isinstance(message, str):
            known = self.tokenizer is not None
            return len(self._model.tok_encode(message)) if known else guess_tokens(message)
        if message and isinstance(message[0], Mapping):
            return sum(guess_tokens(turn["content"]) for turn in message)
        return len(message)

    # -- scores ----------------------------------------------------------------------------------

    def _scores(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[Usage, Usage]]:
        model = self._model
        planner = replace(model.planner)  # its counts are not those of a run
        if kind == LoglikelihoodRequest.kind:
            groups = planner.groups(requests, model.render)
        else:
            groups = planner.windows(requests)
        has_top = model.brings("parse_top_logprobs") and self._settings.top_logprobs != 0
        best = Ability(echo=True, top=int(has_top), batch=True)
        for pack in packed(groups, best, self._settings.batch_size):
            yield self._together(pack, best), self._apart(pack)

    def _together(self, pack: list[SpanGroup], ability: Ability) -> Usage:
        """From a server that takes batches and tells the likeliest next tokens."""
        size = self._settings.batch_size
        contexts = [len(group.context) for group in pack if group.uses_top(ability)]
        texts = [
            len(span.tokens)
            for group in pack
            if not group.uses_top(ability)
            for span in group.spans
            if not span.is_empty
        ]
        return Usage(
            requests=_parts(len(contexts), size)
            + _parts(len(texts), max(size, CHOICES_PER_REQUEST)),
            tokens_in=sum(contexts) + sum(texts),
            tokens_out=len(contexts) + len(texts),
        )

    def _apart(self, pack: list[SpanGroup]) -> Usage:
        """From a server that takes one prompt at a time, or, where more were asked for, these."""
        size = self._settings.batch_size
        texts = [len(s.tokens) for group in pack for s in group.spans if not s.is_empty]
        return Usage(
            requests=len(texts)
            if size == 1
            else _parts(len(texts), max(size, CHOICES_PER_REQUEST)),
            tokens_in=sum(texts),
            tokens_out=len(texts),
        )


def _own_tokenizer(model: ServerModel) -> str | None:
    """The name of the tokenizer, if it can be loaded without asking the server."""
    settings = TokenizerSettings.of(model)
    is_named = settings.tokenizer_argument is not None
    valid = ("huggingface", "tiktoken", *(["auto"] if is_named else []))
    if settings.tokenizer_backend not in valid:
        return None
    try:
        return model.tokenizer_name if model.tokenizer else None
    except ModelError:
        if is_named:
            raise
        return None


def _as_text(request: GenerateRequest, *, is_chat: bool) -> GenerateRequest:
    """The request with a chat as its bare texts, where rendering it would take a tokenizer."""
    if is_chat or not isinstance(request.context, Chat):
        return request
    texts = tuple(message.content for message in request.context.messages)
    return replace(request, context=Prompt(texts))


def _parts(count: int, size: int) -> int:
    return -(-count // size)
