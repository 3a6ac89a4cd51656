"""What is sent to a model: frozen values, and how they are made from a task's docs.

Requests of one doc share one context object, and contexts share the texts and messages of their shots,
so that memory grows neither with the number of choices nor with the number of shots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union

from lm_eval.config.fields import shorten
from lm_eval.errors import ConfigError, DataError, RequestError, UsageError, listing
from lm_eval.formats.assemble import (
    Context,
    Prompt,
    Turn,
    join_system,
    multiturn_chat,
    plain_prompt,
    single_turn_chat,
)
from lm_eval.formats.normalisation import CONTENT_FREE
from lm_eval.formats.orders import Order, Permutation

if TYPE_CHECKING:
    from lm_eval.tasks.prompts import Asked
    from lm_eval.tasks.task import ConfigurableTask


class _HarnessNames:
    """What models written for the harness read of a request, under the names it has there."""

    __slots__ = ()

    kind: ClassVar[str]
    task: str
    doc_id: int
    index: int
    repeats: int

    @property
    def request_type(self) -> str:
        return self.kind

    @property
    def task_name(self) -> str:
        return self.task

    @property
    def idx(self) -> int:
        """Which of the doc's requests this is; the repeats of one request share its number."""
        return self.index // max(self.repeats, 1)

    @property
    def metadata(self) -> tuple[str, int, int]:
        return self.task, self.doc_id, self.repeats

    @property
    def args(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.args


def _doc_field() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LoglikelihoodRequest(_HarnessNames):
    """Score ``continuation`` after ``context``. Answered by a ``Score``: ``(log-prob, is_greedy)``."""

    task: str
    doc_id: int
    index: int
    """Which of the doc's requests this is: for choices that are asked once, the choice's place."""
    context: Context
    continuation: str
    doc: Mapping[str, Any] = _doc_field()
    repeats: int = 1
    media: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    kind: ClassVar[str] = "loglikelihood"

    @property
    def args(self) -> tuple[Any, ...]:
        """``(context, continuation)``, the shape that models written for the harness expect.

        Images and audio are a third element: ``{"visual": …}``, ``{"audio": …}``.
        """
        return _with_media((_plain(self.context), self.continuation), self.media)


@dataclass(frozen=True, slots=True)
class RollingRequest(_HarnessNames):
    """Score a whole text. Answered by the sum of its log-probs."""

    task: str
    doc_id: int
    index: int
    text: str
    doc: Mapping[str, Any] = _doc_field()
    repeats: int = 1

    kind: ClassVar[str] = "loglikelihood_rolling"

    @property
    def args(self) -> tuple[str]:
        return (self.text,)


@dataclass(frozen=True, slots=True)
class GenerateRequest(_HarnessNames):
    """Continue ``context`` until a stop string or the token limit. Answered by a ``Reply``."""

    task: str
    doc_id: int
    index: int
    context: Context
    gen_kwargs: Mapping[str, Any]
    """Shared by all requests of a task: copy before taking keys out."""
    doc: Mapping[str, Any] = _doc_field()
    repeats: int = 1
    """How often this request is sent, in a row; each sending has its own ``index``."""
    media: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    kind: ClassVar[str] = "generate_until"

    @property
    def args(self) -> tuple[Any, ...]:
        return _with_media((_plain(self.context), dict(self.gen_kwargs)), self.media)


Request = Union[LoglikelihoodRequest, RollingRequest, GenerateRequest]


class Reply(str):
    """Generated text, with why it ended where the backend knows.

    A plain ``str`` works wherever a reply does; ``finish`` is then unknown.
    """

    finish: Literal["stop", "length", "refused"] | None
    reasoning: str | None

    def __new__(
        cls,
        text: str,
        *,
        finish: Literal["stop", "length", "refused"] | None = None,
        reasoning: str | None = None,
    ) -> Reply:
        reply = super().__new__(cls, text)
        reply.finish = finish
        reply.reasoning = reasoning
        return reply


class Score(tuple[float, bool]):
    """``(sum of log-probs, is_greedy)``, with how many tokens were summed where the backend knows.

    A plain pair works wherever a score does; ``tokens`` is then unknown, and what is computed per
    token cannot be had.
    """

    tokens: int | None

    def __new__(cls, logprob: float, is_greedy: bool, *, tokens: int | None = None) -> Score:
        score = super().__new__(cls, (logprob, is_greedy))
        score.tokens = tokens
        return score

    def __getnewargs__(self) -> tuple[float, bool]:  # what __new__ takes, for copies
        return self[0], self[1]


Answer = Union[tuple[float, bool], float, Reply, str]


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """Stands where an answer would: the request failed for good. Never scored, never kept."""

    error: RequestError


Answered = Union[Answer, FailedRequest]


def _with_media(arguments: tuple[Any, ...], media: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return arguments if media is None else (*arguments, dict(media))


def _plain(context: Context) -> str | list[dict[str, str]]:
    return str(context) if isinstance(context, Prompt) else context.as_dicts()


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """How a run puts its questions, the same for every task in it."""

    num_fewshot: int | None = None
    """None: as the task says."""
    as_chat: bool = False
    multiturn: bool = True
    """In chat: shots as turns of their own, not as one long message."""
    system_instruction: str | None = None
    can_prefill: bool = True
    """Whether the model can continue a started assistant turn; if not, ``gen_prefix`` is left out."""
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Generation arguments that overrule the task's and the format's."""
    permute: Permutation | None = None
    """In which other orders the choices of each doc are asked; None: as in the data alone."""


@dataclass(frozen=True, slots=True)
class DocRequests:
    """One doc, asked: its requests share one context."""

    doc_id: int
    asked: Asked
    shots: tuple[int, ...]
    context: Context
    requests: tuple[Request, ...]
    repeats: int = 1
    """How often each request stands in ``requests``, one after the other."""
    reordered: tuple[DocRequests, ...] = ()
    """The doc with its choices in other orders; those requests stand behind its own."""
    order: Order = ()
    """For each position in the prompt, the place of its choice in the data; empty: as in the data."""
    left_in_place: str | None = None
    """Why the choices stay in their order, where the run asks for others."""

    @property
    def own(self) -> DocRequests:
        """The doc in the order of the data, alone."""
        if not self.reordered:
            return self
        count = len(self.requests) - sum(len(one.requests) for one in self.reordered)
        return replace(self, requests=self.requests[:count], reordered=())

    @property
    def distinct(self) -> tuple[Request, ...]:
        """The requests without their repeats."""
        return self.requests[:: self.repeats]


def build_requests(
    task: ConfigurableTask, doc_ids: Iterable[int], options: PromptOptions
) -> Iterator[DocRequests]:
    """The requests of each doc, in order. Few-shot examples come from one stream over all docs."""
    count = shot_count(task, options)
    gen_kwargs = generation_kwargs(task, options)
    for doc_id in doc_ids:
        asked = task.ask(doc_id)
        shots: tuple[int, ...] = ()
        contexts: list[Context]
        if task.overrides("fewshot_context"):  # it draws its examples itself
            contexts = [Prompt((str(task.fewshot_context(task.eval_docs[doc_id], count)),))]
        else:
            shots = task.shots(doc_id, count)
            contexts = build_contexts(task, asked, shots, task.description(doc_id), options)
        if task.overrides("construct_requests"):
            requests = _own_requests(task, doc_id, contexts[0], gen_kwargs, options)
        else:
            given = Given(task.name, doc_id, task.eval_docs[doc_id])
            requests = ask_in(contexts, task, given, asked, gen_kwargs, options, shots)
        if task.has_media:
            requests = showing(requests, task.media(doc_id))
        repeats = _repeats(task)
        requests = repeated(requests, repeats)
        yield DocRequests(doc_id, asked, shots, contexts[0], requests, repeats)


def choose_docs(
    task: ConfigurableTask, *, limit: float | None = None, samples: Sequence[int] | None = None
) -> Sequence[int]:
    """The docs to ask, by their place in the data: the first ``limit``, those named, or all."""
    total = len(task.eval_docs)
    if samples is not None:
        wanted = sorted(set(samples))
        outside = [index for index in wanted if not 0 <= index < total]
        if outside:
            raise DataError(
                f"Task {task.name!r}: --samples names doc {listing(map(str, outside))}, but its "
                f"docs are numbered 0 to {total - 1}."
            )
        return wanted
    if limit is None:
        return range(total)
    check_limit(limit)
    count = math.ceil(total * limit) if limit < 1 else int(limit)
    return range(min(count, total))


def check_limit(limit: float) -> None:
    """Refuse a limit that is neither a number of docs nor a share of them."""
    if limit > 0 and (limit < 1 or float(limit).is_integer()):
        return
    problem = "asks for no docs" if not limit > 0 else "is no whole number of docs"
    raise UsageError(
        f"--limit {limit:g} {problem}. Give a whole number from 1 up, or a share between 0 and 1."
    )


def _repeats(task: ConfigurableTask) -> int:
    """How often a request is sent; scored choices of a format would only be the same again."""
    is_repeated = task.format is None or task.output_type == "generate_until"
    return max(task.config.repeats, 1) if is_repeated else 1


def repeated(requests: tuple[Request, ...], times: int) -> tuple[Request, ...]:
    """Each request so many times in a row, numbered through: a sampled reply differs by number."""
    if times == 1:
        return requests
    copies = (request for request in requests for _ in range(times))
    return tuple(
        replace(request, index=index, repeats=times) for index, request in enumerate(copies)
    )


def shot_count(task: ConfigurableTask, options: PromptOptions) -> int:
    """How many examples stand before each doc: the run's number, except where the task says 0."""
    own = task.config.num_fewshot
    if options.num_fewshot is None or own == 0:
        return own or 0
    return options.num_fewshot


def generation_kwargs(task: ConfigurableTask, options: PromptOptions) -> Mapping[str, Any]:
    """A task's generation arguments: harness defaults, its own, and the run's as they were given."""
    own = task.config.generation_kwargs
    if own is None:
        own = {"do_sample": False, "temperature": 0.0, "max_gen_toks": 256}
    merged = {"until": [task.config.fewshot_delimiter], **own, **options.gen_kwargs}
    for name, (is_good, expected) in _GENERATION_VALUES.items():
        value = merged.get(name)
        if value is not None and not is_good(value):
            raise ConfigError(
                f"Task {task.name!r}: the generation argument {name} is {shorten(value)}, but must "
                f"be {expected}. It comes from the task's generation_kwargs or from --gen_kwargs."
            )
    if merged.get("temperature") is not None and "temperature" not in options.gen_kwargs:
        merged["temperature"] = float(merged["temperature"])
    return MappingProxyType(merged)


def _is_stop(value: Any) -> bool:
    stops = [value] if isinstance(value, str) else value
    return isinstance(stops, list | tuple) and all(isinstance(stop, str) for stop in stops)


def _is_count(value: Any) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return (is_whole or (isinstance(value, str) and value.isdecimal())) and int(value) > 0


def _is_temperature(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and 0 <= float(value) < math.inf
    except (TypeError, ValueError):
        return False


_COUNT = (_is_count, "a whole number from 1 up")
_GENERATION_VALUES = {
    "until": (_is_stop, "a text or a list of texts"),
    "max_gen_toks": _COUNT,
    "max_new_tokens": _COUNT,
    "max_tokens": _COUNT,
    "max_completion_tokens": _COUNT,
    "temperature": (_is_temperature, "a number from 0 up"),
    "do_sample": (lambda value: isinstance(value, bool), "true or false"),
}


def build_contexts(
    task: ConfigurableTask,
    asked: Asked,
    shots: tuple[int, ...],
    description: str,
    options: PromptOptions,
) -> list[Context]:
    """What stands before the answer: one context, or where the question is the choice, one for each."""
    turns = [replace(asked.turn, user=user) for user in asked.inputs] or [asked.turn]
    return [_context(task, turn, shots, description, options) for turn in turns]


def _context(
    task: ConfigurableTask,
    turn: Turn,
    shots: tuple[int, ...],
    description: str,
    options: PromptOptions,
) -> Context:
    joints = task.joints
    system = join_system(options.system_instruction, description, joints.fewshot_delimiter)
    if not options.as_chat:
        return plain_prompt(system, [task.shot_text(place) for place in shots], turn, joints)
    if turn.gen_prefix is not None and not options.can_prefill:
        turn = replace(turn, gen_prefix=None)
    if not options.multiturn:
        return single_turn_chat(system, [task.shot_text(place) for place in shots], turn)
    shown = [message for place in shots for message in task.shot_messages(place)]
    return multiturn_chat(system, shown, turn)


@dataclass(frozen=True, slots=True)
class Given:
    """Whose requests are built: names for results, and the doc."""

    name: str
    doc_id: int
    doc: Mapping[str, Any]


def ask_in(
    contexts: Sequence[Context],
    task: ConfigurableTask,
    given: Given,
    asked: Asked,
    gen_kwargs: Mapping[str, Any],
    options: PromptOptions,
    shots: tuple[int, ...] = (),
) -> tuple[Request, ...]:
    """The requests that a task of this output type asks about a doc, in contexts that are made.

    ``shots`` are the examples in them, which also stand before questions without content.
    """
    kind, name, doc_id, doc = task.output_type, given.name, given.doc_id, given.doc
    if kind == "multiple_choice":
        return _choice_requests(contexts, task, given, asked, options, shots)
    if kind == "loglikelihood":
        return (LoglikelihoodRequest(name, doc_id, 0, contexts[0], asked.continuations[0], doc),)
    if kind == "loglikelihood_rolling":
        return (RollingRequest(name, doc_id, 0, asked.continuations[0], doc),)
    return (GenerateRequest(name, doc_id, 0, contexts[0], gen_kwargs, doc),)


def _choice_requests(
    contexts: Sequence[Context],
    task: ConfigurableTask,
    given: Given,
    asked: Asked,
    options: PromptOptions,
    shots: tuple[int, ...],
) -> tuple[Request, ...]:
    """One request for each choice; where a metric asks for it, each again without the question.

    The choice is what continues the one context, or the context before the one continuation.
    """
    before = _delimiter(task, asked.turn, options)
    texts = [before + text for text in asked.continuations]
    many = contexts if asked.inputs else [contexts[0]] * len(texts)
    scored: list[tuple[Context, str]] = list(zip(many, texts, strict=True))
    if task.scores_without_question and not asked.inputs:
        alone = _without_question(task, asked, options)
        scored += [(alone, text) for text in texts]
    if task.scores_content_free:
        for context in _content_free(task, given, asked, options, shots):
            scored += [(context, text) for text in texts]
    return tuple(
        LoglikelihoodRequest(given.name, given.doc_id, index, context, text, given.doc)
        for index, (context, text) in enumerate(scored)
    )


def _without_question(task: ConfigurableTask, asked: Asked, options: PromptOptions) -> Context:
    """What stands before a choice that is scored alone: the words that ask for the answer.

    Under a format, its ``answer_prompt`` (and ``gen_prefix``) without shots; by the harness's rules,
    nothing.
    """
    if task.format is None or asked.item is None:
        return Prompt(("",))
    turn = task.format.questionless_turn(asked.item)
    return _context(task, turn, (), "", replace(options, system_instruction=None))


def _content_free(
    task: ConfigurableTask,
    given: Given,
    asked: Asked,
    options: PromptOptions,
    shots: tuple[int, ...],
) -> list[Context]:
    """The doc's prompt without its content: the same shots, labels and words around them."""
    if task.format is None or asked.item is None:
        return []
    description = task.description_for(given.doc)
    turns = [task.format.content_free_turn(asked.item, words) for words in CONTENT_FREE]
    return [_context(task, turn, shots, description, options) for turn in turns]


def showing(requests: Sequence[Request], media: Mapping[str, Any]) -> tuple[Request, ...]:
    """The requests with the doc's images or audio beside the text."""
    return tuple(
        request if isinstance(request, RollingRequest) else replace(request, media=media)
        for request in requests
    )


def with_text(requests: Sequence[Request], render: Callable[[Context], str]) -> list[Request]:
    """The requests with every chat rendered: a context that many share, once."""
    found: list[Request] = []
    last: tuple[Context | None, Prompt] = (None, Prompt(()))
    for request in requests:
        if isinstance(request, RollingRequest) or isinstance(request.context, Prompt):
            found.append(request)
            continue
        if request.context is not last[0]:
            last = (request.context, Prompt((render(request.context),)))
        found.append(replace(request, context=last[1]))
    return found


def _own_requests(
    task: ConfigurableTask,
    doc_id: int,
    context: Context,
    gen_kwargs: Mapping[str, Any],
    options: PromptOptions,
) -> tuple[Request, ...]:
    """The requests that a Python task makes itself."""
    text = str(context) if isinstance(context, Prompt) else f"chat of doc {doc_id}"
    made = task.construct_requests(
        task.eval_docs[doc_id],
        text,
        metadata=(task.task_name, doc_id, task.config.repeats),
        apply_chat_template=options.as_chat,
        chat_template=None,
    )
    requests: list[Request] = []
    for index, instance in enumerate(made if isinstance(made, list | tuple) else [made]):
        arguments = instance.args
        # A chat has no text before a model renders it: what the task passed on stands for it.
        asked = context if arguments[0] == text else Prompt((str(arguments[0]),))
        doc = instance.doc
        if instance.request_type == "loglikelihood_rolling":
            requests.append(RollingRequest(task.name, doc_id, index, str(arguments[0]), doc))
        elif instance.request_type == "generate_until":
            given = arguments[1] if len(arguments) > 1 else gen_kwargs
            requests.append(GenerateRequest(task.name, doc_id, index, asked, given, doc))
        else:
            requests.append(
                LoglikelihoodRequest(task.name, doc_id, index, asked, str(arguments[1]), doc)
            )
    return tuple(requests)


def _delimiter(task: ConfigurableTask, turn: Turn, options: PromptOptions) -> str:
    """What stands before a scored continuation; in chat the assistant's turn starts bare."""
    if not options.as_chat:
        return task.joints.target_delimiter
    prefix = turn.gen_prefix
    is_open = prefix is not None and not prefix[-1:].isspace()
    return task.joints.target_delimiter if is_open else ""
