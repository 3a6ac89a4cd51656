"""Generation requests → jobs, each one HTTP request; and what requests of all kinds would cost.

Prompts of one task with equal arguments and seed are batched. Each repeat of a sampled request has its
own seed, or they would all be the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from lm_eval.errors import ModelError
from lm_eval.formats.assemble import Chat, Prompt
from lm_eval.formats.grammar import Grammar
from lm_eval.models.api.scoring import CHOICES_PER_REQUEST, Ability, SpanGroup, packed
from lm_eval.models.cost_estimates import estimated, guess_tokens
from lm_eval.models.sampling import prompt_room, repeat_number
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request
from lm_eval.requests.options import GenerationOptions
from lm_eval.requests.values import Estimated, Usage

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

_PROMPTS_AHEAD = 64


@dataclass(slots=True)
class GenerationJob:
    """One request: ``messages`` are the prompts, ``indices`` say where their replies belong."""

    task: str
    indices: tuple[int, ...]
    messages: list[Any]
    options: GenerationOptions
    seed: int
    stops: tuple[str, ...]
    """Where replies are cut if the server did not."""
    grammar: Grammar | None = None
    """What the reply to its one prompt is held to."""

    def gen_kwargs(self) -> dict[str, Any]:
        """The arguments under their usual names, as a new dict for every attempt."""
        return {
            "until": list(self.options.until),
            "max_gen_toks": self.options.max_gen_toks,
            "temperature": self.options.temperature,
            **self.options.extra,
        }


@dataclass(slots=True)
class _Asked:
    index: int
    request: GenerateRequest
    options: GenerationOptions
    seed: int
    prompt: Any


class GenerationJobs:
    """Makes jobs for one stream of requests, a few prompts ahead of what is sent.

    ``from_tokens``: prompts are tokenized, to send ids or to cut them.
    """

    def __init__(self, model: TemplateAPI, from_tokens: bool) -> None:
        self._model = model
        self._from_tokens = from_tokens
        self._last: tuple[Mapping[str, Any], GenerationOptions, int] | None = None

    def made(self, requests: Iterable[GenerateRequest]) -> Iterator[GenerationJob]:
        size = self._model.batch_size
        if size == 1:
            for asked in self._prompted(requests):
                yield self._job([asked])
            return
        open_batches: dict[Any, list[_Asked]] = {}
        for asked in self._prompted(requests):
            if asked.request.grammar is not None:
                yield self._job([asked])
                continue
            key = (asked.request.task, asked.seed, id(asked.options))
            batch = open_batches.setdefault(key, [])
            batch.append(asked)
            if len(batch) == size:
                yield self._job(open_batches.pop(key))
        for batch in open_batches.values():
            yield self._job(batch)

    def _job(self, batch: list[_Asked]) -> GenerationJob:
        first = batch[0]
        eos = self._model.eos_string
        stops = () if first.request.keeps_tail else (*first.options.until, *([eos] if eos else ()))
        return GenerationJob(
            first.request.task,
            tuple(asked.index for asked in batch),
            [asked.prompt for asked in batch],
            first.options,
            first.seed,
            stops,
            first.request.grammar,
        )

    def _prompted(self, requests: Iterable[GenerateRequest]) -> Iterator[_Asked]:
        numbered = enumerate(requests)
        model = self._model
        if model.is_chat:
            for index, request in numbered:
                yield self._asked(index, request, model.messages(request.context))
        elif not self._from_tokens:
            for index, request in numbered:
                yield self._asked(index, request, model.render(request.context))
        else:
            while ahead := list(islice(numbered, _PROMPTS_AHEAD)):
                yield from self._tokenized(ahead)

    def _tokenized(self, ahead: list[tuple[int, GenerateRequest]]) -> Iterator[_Asked]:
        model = self._model
        texts = [model.render(request.context) for _, request in ahead]
        encoded = model.encode_texts(texts)
        for (index, request), text, tokens in zip(ahead, texts, encoded, strict=True):
            options, _ = self._options(request)
            room = prompt_room(
                request, options.max_gen_toks, window=model.max_length, argument="max_length"
            )
            cut = model.planner.cut_prompt(len(tokens), room)
            if self._model.tokenized_requests:
                prompt: Any = tokens[cut:] or [model.prefix_token_id]
            else:
                prompt = model.tok_decode(tokens[cut:]) if cut else text
            yield self._asked(index, request, prompt)

    def _asked(self, index: int, request: GenerateRequest, prompt: Any) -> _Asked:
        options, seed = self._options(request)
        if options.temperature or self._model.always_samples:
            seed += repeat_number(request)
        return _Asked(index, request, options, seed, prompt)

    def _options(self, request: GenerateRequest) -> tuple[GenerationOptions, int]:
        """The arguments of a request; one object for all requests with the same arguments."""
        if request.media is not None:
            raise ModelError(
                f"Task {request.task!r} asks about images or audio, which "
                f"{type(self._model).__name__} does not send."
            )
        if self._last is None or self._last[0] is not request.gen_kwargs:
            options = GenerationOptions.from_kwargs(
                request.gen_kwargs, max_gen_toks=self._model.max_gen_toks
            )
            extra = dict(options.extra)
            seed = extra.pop("seed", None)
            seed = self._model.seed if seed is None else int(seed)
            self._last = (request.gen_kwargs, replace(options, extra=extra), seed)
        return self._last[1], self._last[2]


def estimated_for_server(model: TemplateAPI, requests: Iterable[Request]) -> Estimated:
    """What these requests would cost, from the most able server to the least able; nothing is sent."""
    estimator = _Estimator(model)
    total = Estimated(counted_with=estimator.tokenizer)
    for kind, alike in groupby(requests, key=lambda request: request.kind):
        for least, most in estimator.costs(kind, alike):
            total.least.add(least)
            total.most.add(most)
    return total


class _Estimator:
    """Counts for one model. ``tokenizer`` is the name of the tokenizer that counts, if one does."""

    def __init__(self, model: TemplateAPI) -> None:
        self._model = model
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
        longest = job.options.max_gen_toks * len(job.indices)
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
        has_top = model.defines("parse_top_logprobs") and self._model.top_logprobs != 0
        best = Ability(echo=True, top=int(has_top), batch=True)
        for pack in packed(groups, best, self._model.batch_size):
            yield self._together(pack, best), self._apart(pack)

    def _together(self, pack: list[SpanGroup], ability: Ability) -> Usage:
        """The cost with a server that takes batches and returns the likeliest next tokens."""
        size = self._model.batch_size
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
        """The cost with a server that takes one prompt at a time, or ``batch_size`` if that is more."""
        size = self._model.batch_size
        texts = [len(s.tokens) for group in pack for s in group.spans if not s.is_empty]
        return Usage(
            requests=len(texts)
            if size == 1
            else _parts(len(texts), max(size, CHOICES_PER_REQUEST)),
            tokens_in=sum(texts),
            tokens_out=len(texts),
        )


def _own_tokenizer(model: TemplateAPI) -> str | None:
    """The name of the tokenizer if it can be loaded without asking the server, else None."""
    is_named = model.tokenizer_argument is not None
    valid = ("huggingface", "tiktoken", *(["auto"] if is_named else []))
    if model.tokenizer_backend not in valid:
        return None
    try:
        return model.tokenizer_name if model.tokenizer else None
    except ModelError:
        if is_named:
            raise
        return None


def _as_text(request: GenerateRequest, *, is_chat: bool) -> GenerateRequest:
    """The request with a chat as its bare texts, if rendering it would need a tokenizer."""
    if is_chat or not isinstance(request.context, Chat):
        return request
    texts = tuple(message.content for message in request.context.messages)
    return replace(request, context=Prompt(texts))


def _parts(count: int, size: int) -> int:
    return -(-count // size)
