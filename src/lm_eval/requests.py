"""What is sent to a model: frozen values, and how they are made from a task's docs.

Requests of one doc share one context object, and contexts share the texts and messages of their shots,
so that memory grows neither with the number of choices nor with the number of shots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union

from lm_eval.config.fields import shorten
from lm_eval.errors import ConfigError
from lm_eval.formats.assemble import (
    Context,
    Prompt,
    Turn,
    join_system,
    multiturn_chat,
    plain_prompt,
    single_turn_chat,
)

if TYPE_CHECKING:
    from lm_eval.tasks.prompts import Asked
    from lm_eval.tasks.task import ConfigurableTask


@dataclass(frozen=True, slots=True)
class LoglikelihoodRequest:
    """Score ``continuation`` after ``context``. Answered by ``(sum of log-probs, is_greedy)``."""

    task: str
    doc_id: int
    index: int
    """Which of the doc's requests this is: for choices that are asked once, the choice's place."""
    context: Context
    continuation: str

    kind: ClassVar[str] = "loglikelihood"

    @property
    def args(self) -> tuple[str | list[dict[str, str]], str]:
        """``(context, continuation)``, the shape that models written for the harness expect."""
        return _plain(self.context), self.continuation


@dataclass(frozen=True, slots=True)
class RollingRequest:
    """Score a whole text. Answered by the sum of its log-probs."""

    task: str
    doc_id: int
    index: int
    text: str

    kind: ClassVar[str] = "loglikelihood_rolling"

    @property
    def args(self) -> tuple[str]:
        return (self.text,)


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Continue ``context`` until a stop string or the token limit. Answered by a ``Reply``."""

    task: str
    doc_id: int
    index: int
    context: Context
    gen_kwargs: Mapping[str, Any]
    """Shared by all requests of a task: copy before taking keys out."""

    kind: ClassVar[str] = "generate_until"

    @property
    def args(self) -> tuple[str | list[dict[str, str]], dict[str, Any]]:
        return _plain(self.context), dict(self.gen_kwargs)


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


Answer = Union[tuple[float, bool], float, Reply, str]


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
        shots = task.shots(doc_id, count)
        context = _context(task, doc_id, asked.turn, shots, options)
        if task.overrides("fewshot_context"):
            context = Prompt((str(task.fewshot_context(task.eval_docs[doc_id], count)),))
        if task.overrides("construct_requests"):
            requests = _own_requests(task, doc_id, context, gen_kwargs, options)
        elif asked.inputs:
            requests = _input_requests(task, doc_id, asked, shots, options)
        else:
            requests = _doc_requests(task, doc_id, asked, context, gen_kwargs, options)
        repeats = _repeats(task)
        yield DocRequests(doc_id, asked, shots, context, _repeated(requests, repeats), repeats)


def _repeats(task: ConfigurableTask) -> int:
    """How often a request is sent; scored choices of a format would only be the same again."""
    is_repeated = task.format is None or task.output_type == "generate_until"
    return max(task.config.repeats, 1) if is_repeated else 1


def _repeated(requests: tuple[Request, ...], times: int) -> tuple[Request, ...]:
    """Each request so many times in a row, numbered through: a sampled reply differs by number."""
    if times == 1:
        return requests
    copies = (request for request in requests for _ in range(times))
    return tuple(replace(request, index=index) for index, request in enumerate(copies))


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


def _context(
    task: ConfigurableTask, doc_id: int, turn: Turn, shots: tuple[int, ...], options: PromptOptions
) -> Context:
    joints = task.joints
    system = join_system(
        options.system_instruction, task.description(doc_id), joints.fewshot_delimiter
    )
    if not options.as_chat:
        return plain_prompt(system, [task.shot_text(place) for place in shots], turn, joints)
    if turn.gen_prefix is not None and not options.can_prefill:
        turn = replace(turn, gen_prefix=None)
    if not options.multiturn:
        return single_turn_chat(system, [task.shot_text(place) for place in shots], turn)
    shown = [message for place in shots for message in task.shot_messages(place)]
    return multiturn_chat(system, shown, turn)


def _doc_requests(
    task: ConfigurableTask,
    doc_id: int,
    asked: Asked,
    context: Context,
    gen_kwargs: Mapping[str, Any],
    options: PromptOptions,
) -> tuple[Request, ...]:
    name = task.name
    if task.output_type == "multiple_choice":
        return _choice_requests(task, doc_id, asked, context, options)
    if task.output_type == "loglikelihood":
        return (LoglikelihoodRequest(name, doc_id, 0, context, asked.continuations[0]),)
    if task.output_type == "loglikelihood_rolling":
        return (RollingRequest(name, doc_id, 0, asked.continuations[0]),)
    return (GenerateRequest(name, doc_id, 0, context, gen_kwargs),)


def _choice_requests(
    task: ConfigurableTask, doc_id: int, asked: Asked, context: Context, options: PromptOptions
) -> tuple[Request, ...]:
    """One request for each choice; where a metric asks for it, each again without the question."""
    before = _delimiter(task, asked.turn, options)
    texts = [before + text for text in asked.continuations]
    requests = [
        LoglikelihoodRequest(task.name, doc_id, index, context, text)
        for index, text in enumerate(texts)
    ]
    if task.scores_without_question:
        for text in texts:
            requests.append(
                LoglikelihoodRequest(task.name, doc_id, len(requests), Prompt(("",)), text)
            )
    return tuple(requests)


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
        if instance.request_type == "loglikelihood_rolling":
            requests.append(RollingRequest(task.name, doc_id, index, str(arguments[0])))
        elif instance.request_type == "generate_until":
            given = arguments[1] if len(arguments) > 1 else gen_kwargs
            requests.append(GenerateRequest(task.name, doc_id, index, asked, given))
        else:
            requests.append(
                LoglikelihoodRequest(task.name, doc_id, index, asked, str(arguments[1]))
            )
    return tuple(requests)


def _input_requests(
    task: ConfigurableTask,
    doc_id: int,
    asked: Asked,
    shots: tuple[int, ...],
    options: PromptOptions,
) -> tuple[Request, ...]:
    """One request for each input: the question changes, the continuation stays."""
    before = _delimiter(task, asked.turn, options)
    contexts = [
        _context(task, doc_id, replace(asked.turn, user=user), shots, options)
        for user in asked.inputs
    ]
    return tuple(
        LoglikelihoodRequest(task.name, doc_id, index, context, before + text)
        for index, (context, text) in enumerate(zip(contexts, asked.continuations, strict=True))
    )


def _delimiter(task: ConfigurableTask, turn: Turn, options: PromptOptions) -> str:
    """What stands before a scored continuation; in chat the assistant's turn starts bare."""
    if not options.as_chat:
        return task.joints.target_delimiter
    prefix = turn.gen_prefix
    is_open = prefix is not None and not prefix[-1:].isspace()
    return task.joints.target_delimiter if is_open else ""
