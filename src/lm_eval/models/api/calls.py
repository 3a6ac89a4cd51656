"""Requests of a run → HTTP requests → answers, read with the model's own parsers.

``ServerCaller`` belongs to one ``TemplateAPI``. ``replies``, ``scores`` and ``texts`` are its streams,
one for each kind of request; below them, each method makes one request (``sender``) and reads the
reply. If a reply has another shape, the request is sent again; it has failed if every attempt
ends that way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from lm_eval.errors import LmEvalError, ModelError, RequestError
from lm_eval.formats.readers.reply import find_thinking
from lm_eval.models.api.enforcer import ServerEnforcer
from lm_eval.models.api.generation import GenerationJob, GenerationJobs
from lm_eval.models.api.replies import NextTokens, UnfitReply, choices_of, finish_of, shown
from lm_eval.models.api.scoring import CHOICES_PER_REQUEST, PromptSpan, Score, SpanGroup, packed
from lm_eval.models.api.sender import Sender
from lm_eval.models.base import TemplateLM
from lm_eval.models.http.failures import BrokenBody
from lm_eval.requests import Answered, FailedRequest, LoglikelihoodRequest, Reply, RollingRequest
from lm_eval.requests import Score as CountedScore
from lm_eval.requests.build import with_text
from lm_eval.requests.values import Usage

T = TypeVar("T")
S = TypeVar("S")
_NOT_CALLED = ("get_batched_requests", "batch_loglikelihood_requests")
_PARSING_ERRORS = (
    LmEvalError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    NotImplementedError,
)


class ServerCaller(Sender):
    """Answers the requests to one model."""

    cut_replies = 0
    """How many went on after a stop string, and were cut there."""

    def check_methods(self) -> None:
        """Refuse a subclass with methods that would not be called as it expects."""
        model: Any = self._model
        who = type(model).__name__
        if names := [name for name in _NOT_CALLED if hasattr(model, name)]:
            raise ModelError(
                f"{who} defines {names[0]}, which nothing calls here: several requests are under way at "
                "a time for every model. Override amodel_call or model_call, which send one, or "
                "_loglikelihood_tokens."
            )
        if len(model.addresses) > 1 and self.is_overridden:
            raise ModelError(
                f"{who} sends its requests itself, so base_url must be a single address, not "
                f"{len(model.addresses)}."
            )
        if not (self.is_overridden or model.defines("_create_payload")):
            raise ModelError(
                f"{who} has no _create_payload, which says what a request holds. Define it, or subclass "
                "LocalCompletionsAPI, which speaks OpenAI's protocol."
            )

    # -- streams ---------------------------------------------------------------------------------

    def replies(self, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        jobs = GenerationJobs(self._model, self._model.generates_from_tokens()).made(requests)
        for job, replies in self.transport.window(jobs, self.generate, self._model.meanwhile):
            if isinstance(replies, list):
                yield from zip(job.indices, replies, strict=True)
            else:
                yield from self._failed(job.task, job.indices, replies)

    def scores_by_methods(
        self, kind: str, requests: list[Any]
    ) -> Iterator[tuple[int, tuple[float, bool] | float]]:
        """Scores by the methods of a subclass, called in the order of the harness."""
        model: Any = self._model
        if kind == LoglikelihoodRequest.kind:
            yield from enumerate(TemplateLM.loglikelihood(model, with_text(requests, model.render)))
            return
        for index, group in enumerate(model.planner.windows(requests)):
            windows = [
                (None, span.tokens[: span.ctxlen], span.tokens[span.ctxlen :])
                for span in group.spans
            ]
            scores = model._loglikelihood_tokens(windows, disable_tqdm=True)
            yield index, sum((score[0] for score in scores), 0.0)

    def scores_of(self, spans: Sequence[PromptSpan]) -> list[Any]:
        """The score of each span, in order; raises the error of a span that failed."""
        scores: dict[int, Any] = {}
        for part in self.scored([SpanGroup("", (span,)) for span in spans]):
            scores.update(part)
        for score in scores.values():
            if isinstance(score, FailedRequest):
                raise score.error
        return [scores[index] for index in range(len(spans))]

    def scores(self, requests: Iterable[LoglikelihoodRequest]) -> Iterator[tuple[int, Answered]]:
        for scores in self.scored(self._model.planner.groups(requests, self._model.render)):
            yield from scores

    def texts(self, requests: Iterable[RollingRequest]) -> Iterator[tuple[int, Answered]]:
        for scores in self.scored(self._model.planner.windows(requests)):
            sums: dict[int, float] = {}
            for index, score in scores:
                if isinstance(score, FailedRequest):
                    sums.pop(index, None)
                    yield index, score
                    continue
                sums[index] = sums.get(index, 0.0) + score[0]
            yield from sums.items()

    def scored(self, groups: Iterable[SpanGroup]) -> Iterator[list[tuple[int, Any]]]:
        """``(index, score)`` of every span, pack by pack."""
        packs = packed(groups, self._model.ability, self._model.batch_size)
        for pack, scores in self.transport.window(packs, self.score, self._model.meanwhile):
            if isinstance(scores, list):
                yield scores
            else:
                indices = {span.index for group in pack for span in group.spans}
                yield self._failed(pack[0].task, sorted(indices), scores)

    def _failed(
        self, task: str, indices: Iterable[int], error: RequestError
    ) -> list[tuple[int, FailedRequest]]:
        self.count_failure(task, error)
        failed = FailedRequest(error)
        return [(index, failed) for index in indices]

    # -- generated text --------------------------------------------------------------------------

    async def generate(self, job: GenerationJob) -> list[Reply]:
        """The replies to a job's prompts."""
        if job.grammar is None:
            return await self._free(job)
        with self.counting(job.task):
            return [await self.enforcer.reply(job, job.grammar, self._free)]

    @cached_property
    def enforcer(self) -> ServerEnforcer:
        """What makes the server hold replies to grammars."""
        return ServerEnforcer(self, self._model, self._model.enforced_by)

    async def _free(self, job: GenerationJob) -> list[Reply]:
        with self.counting(job.task):
            try:
                replies = await self.ask(
                    job.messages,
                    lambda outputs: self.read_replies(outputs, len(job.messages)),
                    generate=True,
                    gen_kwargs=job.gen_kwargs(),
                    seed=job.seed,
                )
            except RequestError as error:
                if len(job.messages) > 1 or not self._model.is_refusal(error):
                    raise
                replies = [Reply("", finish="refused")]
        return [self.finished(reply, job) for reply in replies]

    def finished(self, reply: Reply, job: GenerationJob) -> Reply:
        """The reply without its reasoning, up to the first stop string outside of a thought."""
        reply = _without_reasoning(reply, self._model.think_end_token)
        cut = _cut(reply, job.stops)
        self.cut_replies += cut is not reply
        return cut

    # -- jobs that others send --------------------------------------------------------------------

    def payload(self, job: GenerationJob) -> dict[str, Any]:
        """The body of a request for a job, for whoever sends it."""
        gen_kwargs = job.gen_kwargs()
        if job.grammar is not None:
            gen_kwargs = self.enforcer.gen_kwargs(job, job.grammar)
        body: dict[str, Any] = self._model.request_body(
            job.messages, generate=True, gen_kwargs=gen_kwargs, seed=job.seed
        )
        return body

    def read_job(self, job: GenerationJob, outputs: Any) -> Reply:
        """The reply to a job in what somebody else received; its costs count for the job's task."""
        if job.grammar is not None:
            reply = self.enforcer.read(outputs, job.grammar)
        else:
            reply = self.finished(self.read_replies(outputs, 1)[0], job)
        usage = self.usage.setdefault(job.task, Usage())
        usage.add(self._tokens_used(outputs) or Usage())
        usage.requests += 1
        return reply

    async def reply(self, prompt: Any, gen_kwargs: Mapping[str, Any]) -> Reply:
        """The reply to one prompt, unchanged."""
        [reply] = await self.ask(
            [prompt],
            lambda outputs: self.read_replies(outputs, 1),
            generate=True,
            gen_kwargs=gen_kwargs,
        )
        return reply

    def read_replies(self, outputs: Any, count: int) -> list[Reply]:
        """The texts in a server's reply to ``count`` prompts."""
        texts = outputs
        if not is_parsed(outputs):
            texts = self._parsed(outputs, "parse_generations", self._model.parse_generations)
        self._check_count(len(texts), count)
        return [_reply(text, outputs, index) for index, text in enumerate(texts)]

    # -- scores ----------------------------------------------------------------------------------

    async def score(self, pack: Sequence[SpanGroup]) -> list[tuple[int, Score]]:
        """``(index, score)`` of every span of the pack, in as few requests as the server allows."""
        with self.counting(pack[0].task):
            done, left = await self._score_by_likeliest(pack)
            done += [(span.index, (0.0, True)) for span in left if span.is_empty]
            left = [span for span in left if not span.is_empty]
            if left and not self._model.ability.echo:
                raise ModelError(self._model.ability.why_no_echo)
            echoed = await self._in_parts(left, CHOICES_PER_REQUEST, self.echo)
        done += zip([span.index for span in left], echoed, strict=True)
        counts = {s.index: len(s.tokens) - s.ctxlen for group in pack for s in group.spans}
        return [(index, CountedScore(*score, tokens=counts[index])) for index, score in done]

    async def _score_by_likeliest(
        self, pack: Sequence[SpanGroup]
    ) -> tuple[list[tuple[int, Score]], list[PromptSpan]]:
        """``(index, score)`` of spans that are likely next tokens, and the spans that are left."""
        ability = self._model.ability
        groups = [group for group in pack if group.uses_top(ability)]
        done: list[tuple[int, Score]] = []
        left = [s for group in pack if not group.uses_top(ability) for s in group.spans]
        for group, likeliest in zip(groups, await self._in_parts(groups, 1, self.top), strict=True):
            for span, label in zip(group.spans, group.labels, strict=True):
                score = likeliest.find(span.tokens[-1], label) if likeliest else None
                if score is None:
                    left.append(span)
                else:
                    done.append((span.index, score))
        return done, left

    async def _in_parts(
        self, items: Sequence[S], size: int, ask: Callable[[Sequence[S]], Awaitable[list[T]]]
    ) -> list[T]:
        """What ``ask`` returns for the items, ``size`` or ``batch_size`` of them at a time."""
        size = max(self._model.batch_size, size) if self._model.ability.batch else 1
        parts = [items[at : at + size] for at in range(0, len(items), size)]
        return [answer for part in parts for answer in await ask(part)]

    async def echo(self, spans: Sequence[PromptSpan]) -> list[Score]:
        """The scores of spans, in one request."""
        prompts = [span.tokens if span.text is None else span.text for span in spans]
        tokens, ctxlens = [span.tokens for span in spans], [span.ctxlen for span in spans]
        arguments = with_lead(tokens, ctxlens, self._model.ability.lead)

        def read(outputs: Any) -> list[Score]:
            if is_parsed(outputs):
                scores = list(outputs)
            else:
                parse = self._model.parse_logprobs
                scores = self._parsed(outputs, "parse_logprobs", parse, **arguments)
            self._check_count(len(scores), len(spans))
            return scores

        return await self.ask(prompts, read, generate=False, ctxlens=ctxlens)

    async def top(self, groups: Sequence[SpanGroup]) -> list[NextTokens]:
        """The likeliest tokens after each group's context, in one request."""
        prompts = [
            group.context if group.context_text is None else group.context_text for group in groups
        ]
        return await self.likeliest(prompts, self._model.ability.top)

    async def likeliest(
        self, prompts: list[Any], size: int, *, wait_s: float | None = None
    ) -> list[NextTokens]:
        """The likeliest tokens after each prompt; a reply without them is asked for again."""
        options = {"until": [], "max_gen_toks": 1, "temperature": 0.0, "logprobs": size}

        def read(outputs: Any) -> list[NextTokens]:
            parse = self._model.parse_top_logprobs
            likeliest = self._parsed(outputs, "parse_top_logprobs", parse)
            self._check_count(len(likeliest), len(prompts))
            complete = [tokens for tokens in likeliest if tokens is not None]
            if len(complete) < len(likeliest):
                raise BrokenBody("it has no log-probs of the next token", wait_s=wait_s)
            return complete

        # No stop string: a reply that ends before its first token may come without log-probs.
        return await self.ask(prompts, read, generate=True, gen_kwargs=options, eos=None)

    # -- reading ---------------------------------------------------------------------------------

    def _parsed(self, outputs: Any, name: str, parse: Callable[..., T], **more: Any) -> T:
        try:
            return parse(outputs=outputs, **more)
        except UnfitReply as error:
            raise BrokenBody(str(error), error.advice) from error
        except _PARSING_ERRORS as error:
            reason = str(error) if isinstance(error, LmEvalError) else repr(error)
            raise BrokenBody(
                f"{type(self._model).__name__}.{name} does not understand it: {reason} The reply: "
                f"{shown(outputs)}",
                UnfitReply.advice,
            ) from error

    def _check_count(self, answers: int, prompts: int) -> None:
        if answers == prompts:
            return
        if prompts > 1:
            advice = (
                f"batch_size={self._model.batch_size}: if the server takes one prompt at a time, set "
                "batch_size=1."
            )
        elif answers > 1:
            advice = "If gen_kwargs asks for several (n, best_of), set repeats in the task instead."
        else:
            advice = UnfitReply.advice
        raise BrokenBody(
            f"it has {answers} answers to {prompts} {'prompts' if prompts > 1 else 'prompt'}",
            advice,
            stops_run=prompts > 1,
        )


def with_lead(tokens: Sequence[Sequence[int]], ctxlens: Sequence[int], lead: int) -> dict[str, Any]:
    """Arguments of ``parse_logprobs`` for a server that puts ``lead`` tokens before every text."""
    return {
        "tokens": [[0] * lead + list(ids) for ids in tokens],
        "ctxlens": [length + lead for length in ctxlens],
    }


def is_parsed(outputs: Any) -> bool:
    """Whether these are answers already: texts or scores, not a server's reply."""
    if isinstance(outputs, Mapping):
        return False
    return isinstance(outputs, list | tuple) and not any(isinstance(o, Mapping) for o in outputs)


def _reply(text: Any, outputs: Any, index: int) -> Reply:
    """A parser's text as a ``Reply``; why it ended is known if the reply has OpenAI's shape."""
    if isinstance(text, Reply):
        return text
    finish = None
    if isinstance(outputs, Mapping) and isinstance(outputs.get("choices"), list):
        choices = choices_of(outputs)
        finish = finish_of(choices[index]) if index < len(choices) else None
    return Reply("" if text is None else str(text), finish=finish)


def _without_reasoning(reply: Reply, mark: str | None) -> Reply:
    """What follows the last ``mark``; the whole reply if there is none."""
    if not mark or mark not in reply:
        return reply
    reasoning, _, answer = reply.rpartition(mark)
    return Reply(answer.lstrip(), finish=reply.finish, reasoning=reply.reasoning or reasoning)


def _cut(reply: Reply, stops: Sequence[str]) -> Reply:
    """The reply up to the first stop string outside of a thought; unchanged if there is none."""
    found = [stop for stop in stops if stop and stop in reply]
    if not found:
        return reply
    text = str(reply)
    thoughts = find_thinking(text).spans
    ends = [end for stop in found if (end := _first_outside(text, stop, thoughts)) is not None]
    return Reply(text[: min(ends)], finish="stop", reasoning=reply.reasoning) if ends else reply


def _first_outside(text: str, stop: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Where ``stop`` first begins in ``text`` outside of the spans."""
    at = text.find(stop)
    while at >= 0:
        inside = next((end for start, end in spans if start <= at < end), None)
        if inside is None:
            return at
        at = text.find(stop, inside)
    return None
