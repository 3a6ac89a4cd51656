"""Requests of a run → HTTP requests → answers, read with the model's own parsers.

``ServerCaller`` belongs to one ``TemplateAPI``. ``replies``, ``scores`` and ``texts`` are its streams,
one for each kind of request. Below them ``ask`` makes one request, or has a subclass make it that has
its own ``amodel_call`` or ``model_call``; it counts what requests cost, and adds to errors what the user
can do. If a reply has another shape, the request is sent again; it has failed if every attempt ends
that way.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import operator
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lm_eval.errors import LmEvalError, MissingExtraError, ModelError, RequestError
from lm_eval.models.api.enforcer import ServerEnforcer
from lm_eval.models.api.generation import GenerationJob, GenerationJobs
from lm_eval.models.api.replies import (
    NextTokens,
    UnfitReply,
    as_reply,
    cut_reply,
    shown,
    without_reasoning,
)
from lm_eval.models.api.scoring import CHOICES_PER_REQUEST, PromptSpan, Score, SpanGroup, packed
from lm_eval.models.api.settings import INSTALL_EXTRA, with_endpoint
from lm_eval.models.base import TemplateLM
from lm_eval.models.http.failures import BrokenBody
from lm_eval.models.sampling import valid_text
from lm_eval.requests import Answered, FailedRequest, LoglikelihoodRequest, Reply, RollingRequest
from lm_eval.requests import Score as CountedScore
from lm_eval.requests.build import with_text
from lm_eval.requests.values import Usage
from lm_eval.support.secrets import (
    known_secrets,
    secrets_in_address,
    secrets_in_headers,
    shown_address,
)

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.http.transport import Received, Transport

T = TypeVar("T")
S = TypeVar("S")
_MOST_THREADS = 64
_WRONG_ENDPOINT = (400, 404, 405, 422)
_NOT_CALLED = ("get_batched_requests", "batch_loglikelihood_requests")
_PARSING_ERRORS = (
    LmEvalError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    NotImplementedError,
)


class ServerCaller:
    """Answers the requests to one model."""

    cut_replies = 0
    """How many went on after a stop string, and were cut there."""

    def __init__(self, model: TemplateAPI) -> None:
        self.usage: dict[str, Usage] = {}
        self._model = model
        self._secrets = known_secrets()
        for address in model.addresses:
            self._secrets.add(secrets_in_address(address))
        self._known_header: tuple[Any, dict[str, str]] | None = None
        self._session: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self.style: Style = _style_of(model)
        self.enforcer = ServerEnforcer(self, model)

    @property
    def is_overridden(self) -> bool:
        """Whether a subclass sends its requests itself."""
        return self.style != "own"

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

    # -- the connection --------------------------------------------------------------------------

    @cached_property
    def transport(self) -> Transport:
        from lm_eval.models.http.client import TransportOptions
        from lm_eval.models.http.transport import Transport

        model = self._model
        options = TransportOptions(
            num_concurrent=model.num_concurrent,
            max_retries=model.max_retries,
            timeout_s=model.timeout,
            verify_certificate=model.verify_certificate,
            ca_cert_path=model.ca_cert_path,
        )
        return Transport(options, describe_secret=self.redact, servers=len(model.addresses))

    def header(self) -> dict[str, str]:
        """The header of every request; an error if that of a subclass cannot be sent."""
        try:
            source = self._model.header
            source = source() if callable(source) else source
            if self._known_header is not None and self._known_header[0] is source:
                return self._known_header[1]
            header = {str(name): str(value) for name, value in dict(source or {}).items()}
        except LmEvalError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ModelError(str(error) or type(error).__name__) from error
        self._secrets.add(secrets_in_headers(header))
        header.setdefault("Content-Type", "application/json")
        self._known_header = (source, header)
        return header

    def redact(self, text: str) -> str:
        """The text without keys."""
        return self._secrets.hide(text)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, for synchronous code, also from a ``model_call`` in a thread."""
        try:
            transport = self.transport
        except MissingExtraError:
            coroutine.close()  # it never began
            raise
        return transport.run(coroutine)

    async def ask_beside(self, urls: Sequence[str], body: Any = None) -> Any:
        """The reply of another endpoint of the server: to a GET without a body, else to a POST."""
        content = None if body is None else encoded(body)
        try:
            return (await self.transport.request(urls, content, self.header(), decoded)).value
        except RequestError as error:
            if error.status in (401, 403):
                raise self.explained(error) from error.__cause__
            raise

    def check_endpoint(self) -> None:
        """Raise an error that every request would meet, such as a wrong address; one request is sent."""
        small = {"until": [], "max_gen_toks": 1, "temperature": 0.0}
        try:
            self.run(self.ask("", ["a"], lambda _: None, generate=True, gen_kwargs=small))
        except ModelError as error:
            if isinstance(error, RequestError) and error.stops_run:
                raise

    def close(self) -> None:
        if "transport" in vars(self):
            if self._session is not None:
                self.run(self._session.close())
            self.transport.close()
        if self._threads is not None:
            self._threads.shutdown()
        self._session = self._threads = None

    # -- one request -----------------------------------------------------------------------------

    async def ask(
        self,
        task: str,
        messages: list[Any],
        read: Callable[[Any], T],
        *,
        generate: bool,
        gen_kwargs: Mapping[str, Any] | None = None,
        ctxlens: list[int] | None = None,
        **more: Any,
    ) -> T:
        """What ``read`` makes of the server's reply, or of what a subclass returns instead.

        A request whose reply makes ``read`` raise ``BrokenBody`` is sent again, unless a subclass
        sends it. The costs count for ``task``, if it has a name. ``more`` is for ``_create_payload``.
        """
        retries = 0
        try:
            if self.style == "own":
                received = await self.send(
                    messages, read, generate=generate, gen_kwargs=gen_kwargs, **more
                )
                (outputs, value), retries = received.value, received.attempts - 1
            else:
                options = {"generate": generate, "gen_kwargs": gen_kwargs or {}}
                outputs = await self._ask_subclass(messages, ctxlens, options)
                value = read(outputs)
        except BrokenBody as error:
            where = shown_address(self._model.base_url)
            text = f"{where} sent a reply that cannot be read: {str(error).rstrip('.')}"
            raise RequestError(
                self.redact(f"{text}. {error.advice}".rstrip()),
                status=200,
                stops_run=error.stops_run,
            ) from error
        except RequestError as error:
            raise self.explained(error, messages) from error.__cause__
        except LmEvalError:
            raise
        except Exception as error:
            raise self._own_fault(error) from error
        if task:
            self._count(task, outputs, messages, retries=retries)
        return value

    async def send(
        self, messages: Sequence[Any], read: Callable[[Any], T], **options: Any
    ) -> Received[tuple[Any, T]]:
        """The server's reply to one request, and what ``read`` makes of it."""

        def decode(body: bytes) -> tuple[Any, T]:
            outputs = decoded(body)
            return outputs, read(outputs)

        model = self._model
        while True:
            payload = model.request_body(messages, **options)
            asked, body = model.addresses, encoded(payload)
            try:
                return await self.transport.request(asked, body, self.header(), decode)
            except RequestError as error:
                if not (model.adapts_to(error) or self._has_other_path(asked, error)):
                    raise

    def _has_other_path(self, asked: Sequence[str], error: RequestError) -> bool:
        """Whether requests go to another path from now on, because the server has nothing at this one,
        or another endpoint.
        """
        model = self._model
        if error.status not in _WRONG_ENDPOINT or not model.endpoint:
            return False
        right = [with_endpoint(address, model.endpoint) for address in asked]
        if right == [*asked]:
            return False
        if model.addresses == asked:
            model.move_to(right, because=f"{shown_address(asked[0])} answered {error.status}")
        return True

    async def _ask_subclass(
        self, messages: list[Any], ctxlens: list[int] | None, options: dict[str, Any]
    ) -> Any:
        if self.style == "async":
            return await self._model.amodel_call(messages, **options)
        if self.style == "harness":
            session, slots = await self._opened_session(), asyncio.Semaphore(1)
            return await self._model.amodel_call(
                session, slots, messages, ctxlens=ctxlens, cache_keys=None, **options
            )
        if self._threads is None:
            size = self._model.num_concurrent
            workers = _MOST_THREADS if size == "auto" else min(size, _MOST_THREADS)
            self._threads = ThreadPoolExecutor(workers, thread_name_prefix="lm-eval-model-call")
        call = partial(self._model.model_call, messages, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _opened_session(self) -> Any:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._model.timeout),
                connector=aiohttp.TCPConnector(ssl=self._model.verify_certificate, limit=0),
            )
        return self._session

    def _own_fault(self, error: Exception) -> LmEvalError:
        """The error for an exception in a subclass, raised when it sends or by ``_create_payload``."""
        who = type(self._model).__name__
        text = self.redact(f"{type(error).__name__}: {error}")
        if self.is_overridden:
            return RequestError(f"{who} could not get an answer: {text}")
        return ModelError(f"{who} could not make a request (_create_payload): {text}")

    def explained(self, error: RequestError, messages: Sequence[Any] = ()) -> RequestError:
        """The error, with hints at the arguments that may have caused it."""
        model, status, hints = self._model, error.status, []
        if status in (400, 413, 422, 500, 501) and not model.is_chat:
            if len(messages) > 1:
                hints.append(
                    f"This request held {len(messages)} prompts (batch_size={model.batch_size}); "
                    "if the server takes one at a time, set batch_size=1."
                )
            elif messages and isinstance(messages[0], list):
                hints.append(
                    "If the server takes no token ids as prompts, set tokenized_requests=False."
                )
        is_key = status in (401, 403) or (status == 400 and "api key" in str(error).lower())
        if is_key and model.key_variable:
            hints.append(
                f"The key comes from the environment variable {model.key_variable}."
                if model.api_key
                else f"No key was sent: set {model.key_variable} in the environment."
            )
        error.args = (" ".join([str(error), *hints]),)
        return error

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
        for part in self._scored([SpanGroup("", (span,)) for span in spans]):
            scores.update(part)
        for score in scores.values():
            if isinstance(score, FailedRequest):
                raise score.error
        return [scores[index] for index in range(len(spans))]

    def scores(self, requests: Iterable[LoglikelihoodRequest]) -> Iterator[tuple[int, Answered]]:
        for scores in self._scored(self._model.planner.groups(requests)):
            yield from scores

    def texts(self, requests: Iterable[RollingRequest]) -> Iterator[tuple[int, Answered]]:
        for scores in self._scored(self._model.planner.windows(requests)):
            sums: dict[int, float] = {}
            for index, score in scores:
                if isinstance(score, FailedRequest):
                    sums.pop(index, None)
                    yield index, score
                    continue
                sums[index] = sums.get(index, 0.0) + score[0]
            yield from sums.items()

    def _scored(self, groups: Iterable[SpanGroup]) -> Iterator[list[tuple[int, Any]]]:
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
        self.usage.setdefault(task, Usage()).retries += max(0, error.attempts - 1)
        failed = FailedRequest(error)
        return [(index, failed) for index in indices]

    # -- generated text --------------------------------------------------------------------------

    async def generate(self, job: GenerationJob) -> list[Reply]:
        """The replies to a job's prompts."""
        if job.grammar is not None and job.grammar.opening is not None:
            return [await self.enforcer.reply_in_two(job, job.grammar, job.grammar.opening)]
        try:
            return await self.ask(
                job.task,
                job.messages,
                partial(self._read, job),
                generate=True,
                gen_kwargs=self._gen_kwargs(job),
                seed=job.seed,
            )
        except RequestError as error:
            if len(job.messages) > 1 or not self._model.is_refusal(error):
                raise
            return [Reply("", finish="refused")]

    def _gen_kwargs(self, job: GenerationJob) -> dict[str, Any]:
        """The arguments of a job, as a copy that ``_create_payload`` may change."""
        if job.grammar is not None:
            return self.enforcer.gen_kwargs(job, job.grammar)
        return {**job.gen_kwargs, "until": [*job.gen_kwargs["until"]]}

    def _read(self, job: GenerationJob, outputs: Any) -> list[Reply]:
        """The replies to a job, each without its reasoning and up to the first stop string."""
        replies = self.read_replies(outputs, len(job.messages))
        if job.grammar is not None:
            return [self.enforcer.read(replies[0], job.grammar)]
        mark = self._model.think_end_token
        answers = [without_reasoning(reply, mark) for reply in replies] if mark else replies
        if not job.stops:
            return answers
        cut = [cut_reply(answer, job.stops) for answer in answers]
        self.cut_replies += sum(map(operator.is_not, cut, answers))
        return cut

    def read_replies(self, outputs: Any, count: int) -> list[Reply]:
        """The texts in a server's reply to ``count`` prompts."""
        texts = self._parsed(outputs, count, self._model.parse_generations)
        return [
            text if isinstance(text, Reply) else as_reply(text, outputs, index)
            for index, text in enumerate(texts)
        ]

    async def reply(self, task: str, prompt: Any, gen_kwargs: Mapping[str, Any]) -> Reply:
        """The reply to one prompt, unchanged."""
        read = partial(self.read_replies, count=1)
        [reply] = await self.ask(task, [prompt], read, generate=True, gen_kwargs=gen_kwargs)
        return reply

    # -- jobs that others send --------------------------------------------------------------------

    def payload(self, job: GenerationJob) -> dict[str, Any]:
        """The body of a request for a job, for whoever sends it."""
        body: dict[str, Any] = self._model.request_body(
            job.messages, generate=True, gen_kwargs=self._gen_kwargs(job), seed=job.seed
        )
        return body

    def read_job(self, job: GenerationJob, outputs: Any) -> Reply:
        """The reply to a job in what somebody else received; its costs count for the job's task."""
        (reply,) = self._read(job, outputs)
        self._count(job.task, outputs)
        return reply

    def _count(
        self, task: str, outputs: Any, messages: Sequence[Any] = (), *, retries: int = 0
    ) -> None:
        """Count a reply for a task; what was sent counts if the reply does not say what it cost."""
        replies = outputs if isinstance(outputs, list | tuple) else (outputs,)
        told = [self._model.parse_usage(reply) for reply in replies if isinstance(reply, Mapping)]
        used = Usage.total(usage for usage in told if usage is not None)
        if used == Usage():
            used.tokens_in = _tokens_in(messages)
        used.requests, used.retries = 1, retries
        self.usage.setdefault(task, Usage()).add(used)

    # -- scores ----------------------------------------------------------------------------------

    async def score(self, pack: Sequence[SpanGroup]) -> list[tuple[int, Score]]:
        """``(index, score)`` of every span of the pack, in as few requests as the server allows."""
        task = pack[0].task
        done, left = await self._score_by_likeliest(task, pack)
        done += [(span.index, (0.0, True)) for span in left if span.is_empty]
        left = [span for span in left if not span.is_empty]
        if left and not self._model.ability.echo:
            raise ModelError(self._model.ability.why_no_echo)
        echoed = await self._in_parts(left, CHOICES_PER_REQUEST, partial(self._echo, task))
        done += zip([span.index for span in left], echoed, strict=True)
        counts = {s.index: len(s.tokens) - s.ctxlen for group in pack for s in group.spans}
        return [(index, CountedScore(*score, tokens=counts[index])) for index, score in done]

    async def _score_by_likeliest(
        self, task: str, pack: Sequence[SpanGroup]
    ) -> tuple[list[tuple[int, Score]], list[PromptSpan]]:
        """``(index, score)`` of spans that are likely next tokens, and the spans that are left."""
        ability = self._model.ability
        groups = [group for group in pack if group.uses_top(ability)]
        done: list[tuple[int, Score]] = []
        left = [s for group in pack if not group.uses_top(ability) for s in group.spans]
        contexts = [
            group.context if group.context_text is None else group.context_text for group in groups
        ]
        ask = partial(self.likeliest, task, size=ability.top)
        for group, likeliest in zip(groups, await self._in_parts(contexts, 1, ask), strict=True):
            for span, label in zip(group.spans, group.labels, strict=True):
                score = likeliest.find(span.tokens[-1], label)
                if score is None:
                    left.append(span)
                else:
                    done.append((span.index, score))
        return done, left

    async def _in_parts(
        self, items: Sequence[S], size: int, ask: Callable[[list[S]], Awaitable[list[T]]]
    ) -> list[T]:
        """What ``ask`` returns for the items, ``size`` or ``batch_size`` of them at a time."""
        size = max(self._model.batch_size, size) if self._model.ability.batch else 1
        parts = [[*items[at : at + size]] for at in range(0, len(items), size)]
        return [answer for part in parts for answer in await ask(part)]

    async def _echo(self, task: str, spans: Sequence[PromptSpan]) -> list[Score]:
        """The scores of spans, in one request."""
        prompts = [span.tokens if span.text is None else span.text for span in spans]
        tokens, ctxlens = [span.tokens for span in spans], [span.ctxlen for span in spans]
        arguments = with_lead(tokens, ctxlens, self._model.ability.lead)
        parse = partial(self._model.parse_logprobs, **arguments)
        read = partial(self._parsed, count=len(spans), parse=parse)
        return await self.ask(task, prompts, read, generate=False, ctxlens=ctxlens)

    async def likeliest(
        self, task: str, prompts: list[Any], size: int, *, wait_s: float | None = None
    ) -> list[NextTokens]:
        """The likeliest tokens after each prompt; a reply without them is asked for again."""
        options = {"until": [], "max_gen_toks": 1, "temperature": 0.0, "logprobs": size}

        def read(outputs: Any) -> list[NextTokens]:
            likeliest = self._parsed(outputs, len(prompts), self._model.parse_top_logprobs)
            complete = [tokens for tokens in likeliest if tokens is not None]
            if len(complete) < len(likeliest):
                raise BrokenBody("it has no log-probs of the next token", wait_s=wait_s)
            return complete

        # No stop string: a reply that ends before its first token may come without log-probs.
        return await self.ask(task, prompts, read, generate=True, gen_kwargs=options, eos=None)

    # -- reading ---------------------------------------------------------------------------------

    def _parsed(self, outputs: Any, count: int, parse: Callable[..., Sequence[T]]) -> list[T]:
        """What a parser finds in a reply to ``count`` prompts, or what a subclass has parsed."""
        try:
            answers = list(
                outputs if self.is_overridden and is_parsed(outputs) else parse(outputs=outputs)
            )
        except UnfitReply as error:
            raise BrokenBody(str(error), error.advice) from error
        except _PARSING_ERRORS as error:
            reason = str(error) if isinstance(error, LmEvalError) else repr(error)
            name = getattr(parse, "func", parse).__name__
            raise BrokenBody(
                f"{type(self._model).__name__}.{name} does not understand it: {reason} The reply: "
                f"{shown(outputs)}",
                UnfitReply.advice,
            ) from error
        if len(answers) == count:
            return answers
        advice = UnfitReply.advice
        if count > 1:
            advice = (
                f"batch_size={self._model.batch_size}: if the server takes one prompt at a time, set "
                "batch_size=1."
            )
        elif len(answers) > 1:
            advice = "If gen_kwargs asks for several (n, best_of), set repeats in the task instead."
        raise BrokenBody(
            f"it has {len(answers)} answers to {count} {'prompts' if count > 1 else 'prompt'}",
            advice,
            stops_run=count > 1,
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


Style = Literal["own", "async", "harness", "plain"]


def _style_of(model: TemplateAPI) -> Style:
    """Which call of a model sends: our own, or the one of a subclass."""
    if model.defines("amodel_call"):
        names = [*inspect.signature(type(model).amodel_call).parameters]
        return "harness" if "session" in names[1:3] else "async"
    return "plain" if model.defines("model_call") else "own"


def _tokens_in(messages: Sequence[Any]) -> int:
    """How many token ids were sent; 0 for texts and chats."""
    sent = [ids for ids in messages if isinstance(ids, list) and ids]
    return sum(len(ids) for ids in sent if isinstance(ids[0], int))


def encoded(payload: Any) -> bytes:
    """A request's body as JSON."""
    try:
        return _orjson().dumps(payload)  # type: ignore[no-any-return]
    except TypeError:  # half a surrogate pair, or a number type of a package
        return valid_text(json.dumps(payload, ensure_ascii=False, default=_plain)).encode()


def decoded(body: bytes) -> Any:
    """A reply's JSON: an object or a list. Anything else counts as a broken reply."""
    value = _orjson().loads(body)
    if not isinstance(value, dict | list):
        raise ValueError(f"it is JSON, but neither an object nor a list: {shown(value)}")
    return value


@cache
def _orjson() -> Any:
    try:
        import orjson
    except ImportError as error:
        raise MissingExtraError(
            f"Models behind a server need orjson ({error}).", install=INSTALL_EXTRA
        ) from error
    return orjson


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise ModelError(
        f"A request cannot contain {type(value).__name__} {value!r}: use plain values."
    )
