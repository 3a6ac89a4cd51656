"""Generation requests → jobs, each one HTTP request.

Prompts of one task with equal arguments and seed are batched. Each repeat of a sampled request has its
own seed, or they would all be the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lm_eval.errors import ModelError
from lm_eval.formats.grammar import Grammar
from lm_eval.models.sampling import prompt_room, repeat_number
from lm_eval.requests import GenerateRequest
from lm_eval.requests.options import GenerationOptions

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

_PROMPTS_AHEAD = 64


@dataclass(slots=True)
class GenerationJob:
    """One request: ``messages`` are the prompts, ``indices`` say where their replies belong."""

    task: str
    indices: tuple[int, ...]
    messages: list[Any]
    gen_kwargs: Mapping[str, Any]
    """The arguments under their usual names: ``until``, ``max_gen_toks``, ``temperature`` and others."""
    seed: int
    stops: tuple[str, ...]
    """Where replies are cut if the server did not."""
    grammar: Grammar | None = None
    """What the reply to its one prompt is held to."""


class GenerationJobs:
    """Makes jobs for one stream of requests, a few prompts ahead of what is sent.

    ``from_tokens``: prompts are tokenized, to send ids or to cut them.
    """

    def __init__(self, model: TemplateAPI, from_tokens: bool) -> None:
        self._model = model
        self._from_tokens = from_tokens
        self._eos = model.eos_string
        self._last: tuple[Mapping[str, Any], Mapping[str, Any], int] | None = None

    def made(self, requests: Iterable[GenerateRequest]) -> Iterator[GenerationJob]:
        size = self._model.batch_size
        batches: dict[Any, GenerationJob] = {}
        for job in self._single(requests):
            if size == 1 or job.grammar is not None:
                yield job
                continue
            key = (job.task, job.seed, id(job.gen_kwargs))
            batch = batches.setdefault(key, job)
            if batch is not job:
                batch.indices += job.indices
                batch.messages += job.messages
            if len(batch.indices) == size:
                yield batches.pop(key)
        yield from batches.values()

    def _single(self, requests: Iterable[GenerateRequest]) -> Iterator[GenerationJob]:
        """A job for each request."""
        numbered = enumerate(requests)
        model = self._model
        if self._from_tokens and not model.is_chat:
            while ahead := list(islice(numbered, _PROMPTS_AHEAD)):
                yield from self._tokenized(ahead)
            return
        for index, request in numbered:
            prompt = (model.messages if model.is_chat else model.render)(request.context)
            yield self._job(index, request, prompt)

    def _tokenized(self, ahead: list[tuple[int, GenerateRequest]]) -> Iterator[GenerationJob]:
        model = self._model
        texts = [model.render(request.context) for _, request in ahead]
        encoded = model.encode_texts(texts)
        for (index, request), text, tokens in zip(ahead, texts, encoded, strict=True):
            limit = self._options(request)[0]["max_gen_toks"]
            room = prompt_room(request, limit, window=model.max_length, argument="max_length")
            cut = model.planner.cut_prompt(len(tokens), room)
            if model.tokenized_requests:
                prompt: Any = tokens[cut:] or [model.prefix_token_id]
            else:
                prompt = model.tok_decode(tokens[cut:]) if cut else text
            yield self._job(index, request, prompt)

    def _job(self, index: int, request: GenerateRequest, prompt: Any) -> GenerationJob:
        gen_kwargs, seed = self._options(request)
        number = repeat_number(request)
        if number and (gen_kwargs["temperature"] or self._model.always_samples):
            seed += number
        stops = (*gen_kwargs["until"], self._eos)
        cut_at = () if request.keeps_tail else tuple(stop for stop in stops if stop)
        return GenerationJob(
            request.task, (index,), [prompt], gen_kwargs, seed, cut_at, request.grammar
        )

    def _options(self, request: GenerateRequest) -> tuple[Mapping[str, Any], int]:
        """The arguments of a request and its seed; one object for all with the same arguments."""
        if request.media is not None:
            raise ModelError(
                f"Task {request.task!r} asks about images or audio, which "
                f"{type(self._model).__name__} does not send."
            )
        if self._last is None or self._last[0] is not request.gen_kwargs:
            options = GenerationOptions.from_kwargs(
                request.gen_kwargs, max_gen_toks=self._model.max_gen_toks
            )
            gen_kwargs = {
                "until": list(options.until),
                "max_gen_toks": options.max_gen_toks,
                "temperature": options.temperature,
                **options.extra,
            }
            seed = gen_kwargs.pop("seed", None)
            seed = self._model.seed if seed is None else int(seed)
            self._last = (request.gen_kwargs, gen_kwargs, seed)
        return self._last[1], self._last[2]
