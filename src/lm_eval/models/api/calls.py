"""From prompts to answers: what is asked of a server, and its replies read with the model's parsers.

``ServerCaller`` belongs to one ``TemplateAPI``. Each of its methods makes one request
(``api_sending``) and turns what comes into replies, scores or likeliest tokens; another shape is a
failed request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from lm_eval.errors import LmEvalError, ModelError, RequestError
from lm_eval.models.api.generation import GenerationJob, GenerationJobs
from lm_eval.models.api.probe import probe
from lm_eval.models.api.replies import NextTokens, choices_of, finish_of, shown
from lm_eval.models.api.scoring import Ability, PromptSpan, Score, ServerScorer, SpanGroup, packed
from lm_eval.models.api.sending import Sender
from lm_eval.models.api.settings import ServerModel
from lm_eval.models.sampling import cut_at_stop
from lm_eval.requests import Answered, FailedRequest, LoglikelihoodRequest, Reply, RollingRequest
from lm_eval.text.secrets import shown_address

T = TypeVar("T")
_SHAPE = (LmEvalError, LookupError, TypeError, ValueError, AttributeError, NotImplementedError)


class ServerCaller(Sender):
    """Asks for one model."""

    # -- generated text --------------------------------------------------------------------------

    async def generate(self, job: GenerationJob) -> list[Reply]:
        """The replies to a job's prompts."""
        with self.counting(job.task):
            outputs = await self.ask(
                job.messages, generate=True, gen_kwargs=job.gen_kwargs(), seed=job.seed
            )
            return [_cut(reply, job.stops) for reply in self._replies(outputs, len(job.messages))]

    def _replies(self, outputs: Any, count: int) -> list[Reply]:
        found = outputs
        if not _is_parsed(outputs):
            found = self._read(outputs, "parse_generations", self._model.parse_generations)
        self._check_count(len(found), count)
        return [_reply(text, outputs, place) for place, text in enumerate(found)]

    def _read(self, outputs: Any, name: str, parse: Callable[..., T], **more: Any) -> T:
        try:
            return parse(outputs=outputs, **more)
        except _SHAPE as error:
            said = str(error) if isinstance(error, LmEvalError) else repr(error)
            where = shown_address(self.settings.base_url)
            raise RequestError(
                self.redact(
                    f"The reply of {where} has a shape that {type(self._model).__name__}.{name} "
                    f"cannot read: {said} The reply: {shown(outputs)}"
                )
            ) from error

    def _check_count(self, found: int, asked: int) -> None:
        if found != asked:
            where = shown_address(self.settings.base_url)
            raise RequestError(
                f"{where} gave {found} answers to {asked} prompts in one request "
                f"(batch_size={self.settings.batch_size}). If the server takes one prompt at a time, "
                "set batch_size=1.",
                stops_run=asked > 1,
            )

    # -- scores ----------------------------------------------------------------------------------

    def scoring(self, scorer: ServerScorer) -> Callable[[Sequence[SpanGroup]], Awaitable[Any]]:
        async def work(pack: Sequence[SpanGroup]) -> list[tuple[int, Score]]:
            with self.counting(pack[0].task):
                return await scorer.score(pack)

        return work

    async def echo(self, spans: Sequence[PromptSpan]) -> list[Score]:
        """The scores of spans, in one request."""
        prompts = [span.tokens if span.text is None else span.text for span in spans]
        tokens, ctxlens = [span.tokens for span in spans], [span.ctxlen for span in spans]
        outputs = await self.ask(prompts, generate=False, ctxlens=ctxlens)
        scores = self._scores(outputs, tokens, ctxlens, self._model.ability.lead)
        self._check_count(len(scores), len(spans))
        return scores

    def _scores(
        self, outputs: Any, tokens: Sequence[Sequence[int]], ctxlens: Sequence[int], lead: int
    ) -> list[Score]:
        if _is_parsed(outputs):
            return list(outputs)
        return self._read(
            outputs,
            "parse_logprobs",
            self._model.parse_logprobs,
            tokens=[[0] * lead + list(ids) for ids in tokens],
            ctxlens=[length + lead for length in ctxlens],
        )

    async def top(self, groups: Sequence[SpanGroup]) -> list[NextTokens | None]:
        """The likeliest tokens after each group's context, in one request."""
        prompts = [
            group.context if group.context_text is None else group.context_text for group in groups
        ]
        found = await self.likeliest(prompts, self._model.ability.top)
        self._check_count(len(found), len(groups))
        return found

    async def likeliest(self, prompts: list[Any], size: int) -> list[NextTokens | None]:
        wanted = {"until": [], "max_gen_toks": 1, "temperature": 0.0, "logprobs": size}
        # No stop string: a reply that ends before its first token may come without log-probs.
        outputs = await self.ask(prompts, generate=True, gen_kwargs=wanted, eos=None)
        return self._read(outputs, "parse_top_logprobs", self._model.parse_top_logprobs)

    def probe(self, task: str) -> Ability:
        """What the server can do. Requests of the probe count for the first task."""
        model, settings = self._model, self.settings
        if self._style == "harness":  # it gives scores, not replies that could be looked into
            return Ability(echo=True, batch=settings.batch_size > 1)
        with self.counting(task):
            found = probe(
                _Prober(self, model),
                top_logprobs=settings.top_logprobs,
                can_top=model.brings("parse_top_logprobs") and not self.is_overridden,
            )
        if found.echo and not found.batch and settings.batch_size > 1:
            raise RequestError(
                f"{shown_address(settings.base_url)} takes one prompt in a request, but "
                f"batch_size is {settings.batch_size}. Set batch_size=1; num_concurrent sends several "
                "requests at a time.",
                stops_run=True,
            )
        return found


class _Prober:
    """The probe's hands: plain calls, each one request."""

    def __init__(self, caller: ServerCaller, model: ServerModel) -> None:
        self._caller = caller
        self._model = model
        self.where = shown_address(caller.settings.base_url)
        self.sends_tokens = caller.settings.tokenized_requests

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._model.tok_encode(list(texts))  # type: ignore[no-any-return]

    def only_text(self, token: int) -> str | None:
        return self._model.only_text(token)

    def _prompts(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        if self.sends_tokens:
            return [list(prompt) for prompt in prompts]
        return [self._model.tok_decode(prompt) for prompt in prompts]

    def echo(self, prompts: Sequence[Sequence[int]]) -> Any:
        ask = self._caller.ask(self._prompts(prompts), generate=False, ctxlens=[1] * len(prompts))
        return self._caller.transport.run(ask)

    def scores(
        self, outputs: Any, prompts: Sequence[Sequence[int]], ctxlens: Sequence[int], lead: int
    ) -> list[Score]:
        if _is_parsed(outputs):
            raise ModelError("the subclass gives scores where replies were expected")
        found = self._model.parse_logprobs(
            outputs=outputs,
            tokens=[[0] * lead + list(ids) for ids in prompts],
            ctxlens=[length + lead for length in ctxlens],
        )
        if len(found) != len(prompts):
            raise ModelError(f"it answered {len(found)} of {len(prompts)} prompts")
        return found

    def top(self, prompt: Sequence[int], size: int) -> NextTokens | None:
        return self._caller.transport.run(self._caller.likeliest(self._prompts([prompt]), size))[0]


def _is_parsed(outputs: Any) -> bool:
    """Whether these are answers already: texts or scores, not a server's reply."""
    if isinstance(outputs, Mapping):
        return False
    return isinstance(outputs, list | tuple) and not any(isinstance(o, Mapping) for o in outputs)


def _reply(text: Any, outputs: Any, place: int) -> Reply:
    """A parser's text as a ``Reply``; why it ended is known where a reply has OpenAI's shape."""
    if isinstance(text, Reply):
        return text
    finish = None
    if isinstance(outputs, Mapping) and isinstance(outputs.get("choices"), list):
        choices = choices_of(outputs)
        finish = finish_of(choices[place]) if place < len(choices) else None
    return Reply("" if text is None else str(text), finish=finish)


def _cut(reply: Reply, stops: Sequence[str]) -> Reply:
    """The reply before the first stop string, also where a server takes no notice of them."""
    text = cut_at_stop(str(reply), stops)
    if len(text) == len(reply):
        return reply
    return Reply(text, finish="stop", reasoning=reply.reasoning)


class Streams:
    """The streams of one model, one for each kind of request."""

    def __init__(self, model: ServerModel, caller: ServerCaller) -> None:
        self._model = model
        self._caller = caller

    def replies(self, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        jobs = GenerationJobs(self._model, self._model.generates_from_tokens()).made(requests)
        for job, answers in self._model.transport.window(jobs, self._caller.generate):
            if isinstance(answers, list):
                yield from zip(job.places, answers, strict=True)
            else:
                self._caller.count_failure(job.task, answers)
                failed = FailedRequest(answers)
                yield from ((place, failed) for place in job.places)

    def scores(
        self, requests: Iterable[LoglikelihoodRequest], ability: Ability
    ) -> Iterator[tuple[int, Answered]]:
        groups = self._model.planner.groups(requests, self._model.render)
        for scores in self.scored(groups, ability):
            yield from scores

    def texts(
        self, requests: Iterable[RollingRequest], ability: Ability
    ) -> Iterator[tuple[int, Answered]]:
        for scores in self.scored(self._model.planner.windows(requests), ability):
            sums: dict[int, float] = {}
            for place, score in scores:
                if isinstance(score, FailedRequest):
                    sums.pop(place, None)
                    yield place, score
                    continue
                sums[place] = sums.get(place, 0.0) + score[0]
            yield from sums.items()

    def scored(self, groups: Iterable[Any], ability: Ability) -> Iterator[list[tuple[int, Any]]]:
        batch_size = self._caller.settings.batch_size
        packs = packed(groups, ability, batch_size)
        work = self._caller.scoring(ServerScorer(self._caller, ability, batch_size))
        for pack, scores in self._model.transport.window(packs, work):
            if isinstance(scores, list):
                yield scores
            else:
                self._caller.count_failure(pack[0].task, scores)
                failed = FailedRequest(scores)
                places = {span.place for group in pack for span in group.spans}
                yield [(place, failed) for place in sorted(places)]
