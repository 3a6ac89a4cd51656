"""The base of models in this process: requests become spans of tokens to score and prompts to continue.

A span holds the tokens that the model reads and those it is to score. What does not fit the model's
window loses its beginning, and is counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypeVar

from lm_eval.errors import ModelError, UsageError
from lm_eval.formats.grammar import Grammar
from lm_eval.models.base import ExtensibleLM
from lm_eval.models.local.enforcer import Constraint, Enforcer
from lm_eval.models.local.token_tree import Span
from lm_eval.models.local.tokens import TokenizedLM
from lm_eval.models.sampling import Sample
from lm_eval.registry import backend_name
from lm_eval.requests import (
    Answer,
    Answered,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    RollingRequest,
    Score,
)
from lm_eval.requests.options import GenerationOptions

T = TypeVar("T")
_ENCODED_TOGETHER = 256
_LONGEST_ANSWER = 256


@dataclass(frozen=True)
class Job:
    """One prompt to continue. ``sample`` picks a token from logits; None means the likeliest."""

    index: int
    prompt: list[int]
    until: tuple[str, ...]
    max_gen_toks: int
    sample: Sample | None = None
    constrain: Callable[[], Constraint] | None = None
    """Makes what holds the reply to a grammar; None if nothing does."""
    reply_start: str = ""
    """What the model said before this prompt's end: its reply begins with it."""
    reasoning: str | None = None
    """The model's reasoning before that, if it is kept apart."""
    then: Callable[[Reply], Job] | None = field(default=None, repr=False, compare=False)
    """Makes the job that continues after this one's reply; None if the reply is the answer."""

    @property
    def cells(self) -> int:
        """The most tokens that the prompt and its reply can have."""
        return len(self.prompt) + self.max_gen_toks


class LocalLM(TokenizedLM, ExtensibleLM):
    """Base of models in this process: a tokenizer, and what scores spans and continues prompts.

    ``truncated`` counts the requests that lost their beginning, ``bounded`` the replies whose limit the
    window lowered, ``empty_continuations`` those continuations that have no token of their own.
    """

    window_argument: ClassVar[str]
    """The argument that sets the window, for messages."""
    generation_arguments: ClassVar[Sequence[str]]
    """What a request may give beside what every backend takes."""
    think_end_token: str | int | None = None
    is_encoder_decoder = False
    """Whether an encoder reads the context, so that what follows has its own window."""
    max_gen_toks: int
    truncated = 0
    bounded = 0
    empty_continuations = 0

    # -- what a subclass does --------------------------------------------------------------------

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The window: the most tokens that the model reads."""

    def _check_options(self, request: GenerateRequest, options: GenerationOptions) -> None:
        """Refuse generation arguments that the model does not know."""
        options.check_extra(self.generation_arguments, model=backend_name(self), task=request.task)

    @abstractmethod
    def _job(
        self, index: int, request: GenerateRequest, options: GenerationOptions, prompt: list[int]
    ) -> Job:
        """The job that continues the prompt of one request."""

    @abstractmethod
    def _score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""

    @abstractmethod
    def _generate(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Reply]]:
        """``(job, reply)`` as replies are complete."""

    def _enforcer(self) -> Enforcer:
        """What holds replies to grammars, for a backend whose ``capabilities`` say it can."""
        raise self._cannot("hold replies to a grammar")

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        return super().why_not_enforceable(grammar) or self._grammar_obstacle(grammar)

    def _grammar_obstacle(self, grammar: Grammar) -> str | None:
        return self._enforcer().why_not_enforceable(grammar)

    def _hold(self, job: Job, grammar: Grammar) -> Job:
        """The job with its reply held to a grammar."""
        return replace(job, constrain=partial(self._enforcer().constraint, grammar))

    def _aloud(self, reply: Reply) -> str:
        """A reply as the model wrote it: reasoning that is kept apart, its closing mark, the answer."""
        mark = self.think_end_token
        if reply.reasoning is None or mark is None:
            return str(reply)
        between = self.tok_decode([mark]) if isinstance(mark, int) else mark
        return f"{reply.reasoning}{between}\n{reply}"

    def _window_notes(self, name: str, *, trained: int) -> list[str]:
        """What a reader of the results should know about texts that did not fit the window."""
        notes = []
        if self.truncated:
            notes.append(
                f"{self.truncated} requests were longer than the window of {self.max_length} tokens and "
                f"lost their beginning. Raise {self.window_argument} in --model_args if the model "
                "allows it."
            )
        if self.bounded:
            notes.append(
                f"{self.bounded} replies were limited to what the window of {self.max_length} tokens "
                "leaves beside the prompt, which is less than max_gen_toks."
            )
        if self.max_length > trained:
            notes.append(
                f"{self.window_argument}={self.max_length} is more than the {trained} tokens that "
                f"{name} was made for. Longer texts may get poor scores."
            )
        if self.empty_continuations:
            notes.append(
                f"{self.empty_continuations} continuations have no token of their own and scored 0."
            )
        return notes

    # -- requests --------------------------------------------------------------------------------

    def _answers(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        answers: dict[str, Callable[[Any], Iterator[tuple[int, Answer]]]] = {
            LoglikelihoodRequest.kind: self._stream_scores,
            RollingRequest.kind: self._stream_texts,
            GenerateRequest.kind: self._stream_replies,
        }
        return answers[kind](requests)

    def _stream_scores(
        self, requests: Iterable[LoglikelihoodRequest]
    ) -> Iterator[tuple[int, Answer]]:
        for span in self._score(self._spans(requests)):
            yield span.index, Score(span.logprob, span.is_greedy, tokens=len(span.targets))

    def _spans(self, requests: Iterable[LoglikelihoodRequest]) -> Iterator[Span]:
        for some in batched(enumerate(requests), _ENCODED_TOGETHER):
            pairs = [(self.render(request.context), request.continuation) for _, request in some]
            for (index, request), encoded in zip(
                some, self.tokens.encode_pairs(pairs), strict=True
            ):
                yield self._span(index, *encoded, f"Task {request.task!r}, doc {request.doc_id}: ")

    def _span(
        self, index: int, context: list[int], continuation: list[int], where: str = ""
    ) -> Span:
        """What scores a continuation; a context too long for the window loses its beginning.

        The last token is only predicted, never read, so one more than the window fits; an encoder reads
        the context alone.
        """
        window = self.max_length
        if len(continuation) > window:
            raise ModelError(
                f"{where}a continuation of {len(continuation)} tokens does not fit the window of "
                f"{window}. Raise {self.window_argument} in --model_args, or leave the doc out with "
                "--samples."
            )
        self.empty_continuations += not continuation
        read = len(context) if self.is_encoder_decoder else len(context) + len(continuation) - 1
        self.truncated += read > window
        if self.is_encoder_decoder:
            return Span(index, (context[-window:] + continuation)[:-1], continuation)
        return Span(index, (context + continuation)[:-1][-window:], continuation)

    def _stream_texts(self, requests: Iterable[RollingRequest]) -> Iterator[tuple[int, Answer]]:
        """``(index, sum of its spans)`` as sums are complete."""
        sums: dict[int, float] = {}
        left: dict[int, int] = {}

        def spans() -> Iterator[Span]:
            for index, parts in self._windows(requests):
                sums[index], left[index] = 0.0, len(parts)
                yield from parts

        for span in self._score(spans()):
            sums[span.index] += span.logprob
            left[span.index] -= 1
            if not left[span.index]:
                yield span.index, sums.pop(span.index)

    def _windows(self, requests: Iterable[RollingRequest]) -> Iterator[tuple[int, list[Span]]]:
        """The index of each text, and one span for each window it needs."""
        for some in batched(enumerate(requests), _ENCODED_TOGETHER):
            texts = self.tokens.encode(
                [request.text for _, request in some]
            )  # BOS counts, as in 0.4.13
            for (index, _), text in zip(some, texts, strict=True):
                spans = rolling_spans(index, self.prefix_token_id, text, window=self.max_length)
                yield index, list(spans)

    def _stream_replies(self, requests: Iterable[GenerateRequest]) -> Iterator[tuple[int, Answer]]:
        for job, reply in self._generate(self._jobs(requests)):
            yield job.index, reply

    def _jobs(self, requests: Iterable[GenerateRequest]) -> Iterator[Job]:
        for some in batched(enumerate(requests), _ENCODED_TOGETHER):
            texts = [self.render(request.context) for _, request in some]
            for (index, request), text, prompt in zip(
                some, texts, self.tokens.encode(texts), strict=True
            ):
                options = GenerationOptions.from_kwargs(
                    request.gen_kwargs, max_gen_toks=self.max_gen_toks
                )
                self._check_options(request, options)
                grammar = request.grammar
                behind = 0 if grammar is None or not grammar.is_two_phase else answer_room(grammar)
                if self.is_encoder_decoder:
                    room = self.max_length
                else:
                    options = self._within_window(request, options, len(prompt) + behind)
                    room = self.max_length - options.max_gen_toks - behind
                self.truncated += len(prompt) > room
                kept = prompt[-room:] or [self.prefix_token_id]
                if grammar is None:
                    yield self._job(index, request, options, kept)
                else:
                    yield self._enforced_job(index, request, options, kept, text)

    def _within_window(
        self, request: GenerateRequest, options: GenerationOptions, others: int
    ) -> GenerationOptions:
        """The options; where no window holds so long a reply, with what is left beside the prompt."""
        if options.max_gen_toks < self.max_length:
            return options
        left = self.max_length - others
        if left < 1:
            raise UsageError(
                f"Task {request.task!r}, doc {request.doc_id}: the prompt has {others:,} tokens and the "
                f"window {self.max_length:,}, so that no reply fits beside it. Raise "
                f"{self.window_argument} in --model_args if the model allows it, or leave the doc out "
                "with --samples."
            )
        self.bounded += 1
        return replace(options, max_gen_toks=left)

    def _enforced_job(
        self,
        index: int,
        request: GenerateRequest,
        options: GenerationOptions,
        prompt: list[int],
        text: str,
    ) -> Job:
        """The job that answers a request with a grammar, at once or after free text."""
        grammar = request.grammar
        assert grammar is not None
        answering = replace(options, until=options.until if grammar.is_open else ())
        if grammar.opening is None:
            return self._hold(self._job(index, request, answering, prompt), grammar)

        def answer(reply: Reply) -> Job:
            aloud = grammar.before_answer(self._aloud(reply))
            (tokens,) = self.tokens.encode([text + aloud])
            limited = replace(answering, max_gen_toks=answer_room(grammar))
            room = self.max_length - limited.max_gen_toks
            job = self._hold(self._job(index, request, limited, tokens[-room:]), grammar)
            return replace(job, reply_start=grammar.before_answer(reply), reasoning=reply.reasoning)

        free = replace(options, until=(*options.until, grammar.opening))
        return replace(self._job(index, request, free, prompt), then=answer)


def answer_room(grammar: Grammar) -> int:
    """The most tokens that the end of a reply needs, from the opening of its answer on."""
    return min(grammar.longest, _LONGEST_ANSWER)


def rolling_spans(index: int, prefix: int, text: list[int], *, window: int) -> Iterator[Span]:
    """Spans that together score each token of a text once.

    The first begins with the prefix token. Each later one has as much context as fits and scores only
    tokens that no earlier one scored.
    """
    tokens = [prefix, *text]
    last = len(tokens) - 1
    if last == 0:
        yield Span(index, [], [])
    for scored in range(0, last, window):
        end = min(scored + window, last)
        yield Span(
            index, inputs=tokens[max(0, end - window) : end], targets=tokens[scored + 1 : end + 1]
        )


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most ``size``, read as they are asked for."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
