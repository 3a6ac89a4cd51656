"""A task's docs → requests: the context before the answer, and what is scored or generated after it.

The requests of one doc share one context object, a plain prompt or a chat with its shots.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lm_eval.errors import FormatError, LmEvalError
from lm_eval.formats.assemble import (
    Context,
    Prompt,
    Turn,
    join_system,
    multiturn_chat,
    plain_prompt,
    single_turn_chat,
)
from lm_eval.formats.checks import CONTENT_FREE
from lm_eval.requests.options import PromptOptions, SkippedDocs, generation_kwargs, shot_count
from lm_eval.requests.values import (
    DocRequests,
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    RollingRequest,
)

if TYPE_CHECKING:
    from lm_eval.formats.grammar import Grammar
    from lm_eval.tasks.prompts import DocPrompt
    from lm_eval.tasks.task import ConfigurableTask


def build_requests(
    task: ConfigurableTask,
    doc_ids: Iterable[int],
    options: PromptOptions,
    skipped: SkippedDocs | None = None,
    left_out: Container[int] = (),
) -> Iterator[DocRequests]:
    """The requests of each doc, in order. Few-shot examples come from one stream over all docs.

    A doc that cannot be asked goes into ``skipped``, and is an error if that is not given. Those
    ``left_out`` only draw their examples.
    """
    name, count, repeats = task.name, shot_count(task, options), _repeats(task)
    gen_kwargs = generation_kwargs(task, options)
    has_own_context = task.overrides("fewshot_context")  # which draws its examples itself
    has_own_requests = task.overrides("construct_requests")
    has_media = task.has_media
    if count and not has_own_context:
        task.shot_pool  # noqa: B018 (read before helpers can change docs of the same split)
    for doc_id in doc_ids:
        if doc_id in left_out:
            task.shots(doc_id, count)
            continue
        try:
            asked = task.ask(doc_id)
        except LmEvalError as error:
            if skipped is None or not skipped.add(doc_id, error):
                raise
            if not has_own_context:
                task.shots(doc_id, count)  # so that later docs keep their examples
            continue
        shots: tuple[int, ...] = ()
        contexts: list[Context]
        if has_own_context:
            contexts = [Prompt((str(task.fewshot_context(task.eval_docs[doc_id], count)),))]
        else:
            shots = task.shots(doc_id, count) if count else ()
            contexts = build_contexts(task, asked, shots, task.description(doc_id), options)
        if has_own_requests:
            requests = _own_requests(task, doc_id, contexts[0], gen_kwargs, options)
        else:
            ref = DocRef(name, doc_id, task.eval_docs[doc_id])
            requests = ask_in(contexts, task, ref, asked, gen_kwargs, options, shots)
        if has_media:
            requests = showing(requests, task.media(doc_id))
        if repeats > 1:
            requests = repeated(requests, repeats)
        yield DocRequests(doc_id, asked, shots, contexts[0], requests, repeats)


@dataclass(frozen=True, slots=True)
class DocRef:
    """The task name, doc id and doc that a request belongs to."""

    name: str
    doc_id: int
    doc: Mapping[str, Any]


def ask_in(
    contexts: Sequence[Context],
    task: ConfigurableTask,
    ref: DocRef,
    asked: DocPrompt,
    gen_kwargs: Mapping[str, Any],
    options: PromptOptions,
    shots: tuple[int, ...] = (),
) -> tuple[Request, ...]:
    """The requests that a task of this output type asks about a doc, after the given contexts.

    ``shots`` are the examples in them, which also precede questions without content.
    """
    kind, name, doc_id, doc = task.output_type, ref.name, ref.doc_id, ref.doc
    if kind == "multiple_choice":
        return _choice_requests(contexts, task, ref, asked, options, shots)
    if kind == "loglikelihood":
        text = asked.continuations[0]
        if task.format is not None and not text[:1].isspace():
            text = delimiter_before(task, asked.turn, options) + text
        return (LoglikelihoodRequest(name, doc_id, 0, contexts[0], text, doc),)
    if kind == "loglikelihood_rolling":
        return (RollingRequest(name, doc_id, 0, asked.continuations[0], doc),)
    grammar, keeps = _grammar(task, ref, asked), task.format is None
    of_doc = (name, doc_id, 0, contexts[0], gen_kwargs, doc)
    return (GenerateRequest(*of_doc, grammar=grammar, keeps_tail=keeps),)


def _grammar(task: ConfigurableTask, ref: DocRef, asked: DocPrompt) -> Grammar | None:
    """What the reply about a doc is held to, under an enforced format."""
    fmt = task.format
    if fmt is None or asked.item is None or not fmt.enforced:
        return None
    try:
        return fmt.grammar_for(asked.item)
    except FormatError as error:
        raise FormatError(f"Task {ref.name!r}, doc {ref.doc_id}: {error}") from None


def _choice_requests(
    contexts: Sequence[Context],
    task: ConfigurableTask,
    ref: DocRef,
    asked: DocPrompt,
    options: PromptOptions,
    shots: tuple[int, ...],
) -> tuple[Request, ...]:
    """One request for each choice; if a metric needs it, each again without the question.

    The choice is what continues the one context, or the context before the one continuation.
    """
    before = delimiter_before(task, asked.turn, options)
    texts = [before + text for text in asked.continuations]
    many = contexts if asked.inputs else [contexts[0]] * len(texts)
    scored: list[tuple[Context, str]] = list(zip(many, texts, strict=True))
    if task.scores_without_question and not asked.inputs:
        alone = without_question(task, asked, options)
        scored += [(alone, text) for text in texts]
    if task.scores_content_free:
        for context in content_free(task, ref.doc, asked, options, shots):
            scored += [(context, text) for text in texts]
    return tuple(
        LoglikelihoodRequest(ref.name, ref.doc_id, index, context, text, ref.doc)
        for index, (context, text) in enumerate(scored)
    )


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
        apply_chat_template=bool(options.as_chat),
        chat_template=None,
    )
    requests: list[Request] = []
    for index, instance in enumerate(made if isinstance(made, list | tuple) else [made]):
        arguments = instance.args
        # A chat has no text before a model renders it: the text passed on represents it.
        asked = context if arguments[0] == text else Prompt((str(arguments[0]),))
        doc = instance.doc
        if instance.request_type == "loglikelihood_rolling":
            requests.append(RollingRequest(task.name, doc_id, index, str(arguments[0]), doc))
        elif instance.request_type == "generate_until":
            own_kwargs = arguments[1] if len(arguments) > 1 else gen_kwargs
            of_doc = (task.name, doc_id, index, asked, own_kwargs, doc)
            requests.append(GenerateRequest(*of_doc, keeps_tail=True))
        else:
            requests.append(
                LoglikelihoodRequest(task.name, doc_id, index, asked, str(arguments[1]), doc)
            )
    return tuple(requests)


def showing(requests: Sequence[Request], media: Mapping[str, Any]) -> tuple[Request, ...]:
    """The requests with the doc's images or audio beside the text."""
    return tuple(
        request if isinstance(request, RollingRequest) else replace(request, media=media)
        for request in requests
    )


def _repeats(task: ConfigurableTask) -> int:
    """How often a request is sent; scored choices of a format would only be the same again."""
    is_repeated = task.format is None or task.output_type == "generate_until"
    return max(task.config.repeats, 1) if is_repeated else 1


def repeated(requests: tuple[Request, ...], times: int) -> tuple[Request, ...]:
    """Each request this many times in a row, numbered through: a sampled reply differs by number."""
    if times == 1:
        return requests
    copies = (request for request in requests for _ in range(times))
    return tuple(
        replace(request, index=index, repeats=times) for index, request in enumerate(copies)
    )


def build_contexts(
    task: ConfigurableTask,
    asked: DocPrompt,
    shots: tuple[int, ...],
    description: str,
    options: PromptOptions,
) -> list[Context]:
    """The context of the answer; if the question is the choice, one for each choice."""
    if not asked.inputs:
        return [_context(task, asked.turn, shots, description, options)]
    turns = [replace(asked.turn, user=user) for user in asked.inputs]
    return [_context(task, turn, shots, description, options) for turn in turns]


def _context(
    task: ConfigurableTask,
    turn: Turn,
    shots: tuple[int, ...],
    description: str,
    options: PromptOptions,
) -> Context:
    """A turn with its context, as text or as a chat."""
    joints = task.joints
    system = join_system(options.system_instruction, description, joints.fewshot_delimiter)
    if not options.as_chat:
        if task.format is not None and system and not description and not system[-1].isspace():
            system += "\n"
        return plain_prompt(system, [task.shot_text(place) for place in shots], turn, joints)
    if turn.gen_prefix is not None and not options.can_prefill:
        turn = Turn(turn.user, turn.answer)
    if not options.multiturn:
        return single_turn_chat(system, [task.shot_text(place) for place in shots], turn)
    shown = [message for place in shots for message in task.shot_messages(place)]
    return multiturn_chat(system, shown, turn)


def without_question(task: ConfigurableTask, asked: DocPrompt, options: PromptOptions) -> Context:
    """The context of a choice without its question: the words that ask for the answer.

    Under a format, its ``answer_prompt`` (and ``gen_prefix``) without shots; by the harness's rules,
    nothing.
    """
    if task.format is None or asked.item is None:
        return Prompt(("",))
    turn = task.format.questionless_turn(asked.item)
    return _context(task, turn, (), "", replace(options, system_instruction=None))


def content_free(
    task: ConfigurableTask,
    doc: Mapping[str, Any],
    asked: DocPrompt,
    options: PromptOptions,
    shots: tuple[int, ...],
) -> list[Context]:
    """The doc's prompt without its content: the same shots, labels and words around them."""
    if task.format is None or asked.item is None:
        return []
    description = task.description_for(doc)
    turns = [task.format.content_free_turn(asked.item, words) for words in CONTENT_FREE]
    return [_context(task, turn, shots, description, options) for turn in turns]


def delimiter_before(task: ConfigurableTask, turn: Turn, options: PromptOptions) -> str:
    """What separates a context from a scored continuation; nothing at the start of a chat turn."""
    if not options.as_chat:
        return task.joints.target_delimiter
    prefix = turn.gen_prefix
    is_open = prefix is not None and not prefix[-1:].isspace()
    return task.joints.target_delimiter if is_open else ""


def as_request(item: Any, kind: str) -> Request:
    """A request as it is; an ``Instance`` of the harness as a request of this kind."""
    if isinstance(item, LoglikelihoodRequest | RollingRequest | GenerateRequest):
        return item
    task, doc_id = getattr(item, "task_name", None) or "", getattr(item, "doc_id", None) or 0
    first, *rest = item.args
    if kind == RollingRequest.kind:
        return RollingRequest(task, doc_id, item.idx, str(first))
    media, context = rest[1] if len(rest) > 1 else None, Prompt((str(first),))
    if kind == LoglikelihoodRequest.kind:
        return LoglikelihoodRequest(task, doc_id, item.idx, context, rest[0], media=media)
    return GenerateRequest(task, doc_id, item.idx, context, rest[0], media=media, keeps_tail=True)


def with_text(requests: Sequence[Request], render: Callable[[Context], str]) -> list[Request]:
    """The requests with every chat rendered, a shared context only once."""
    rendered: list[Request] = []
    last: tuple[Context | None, Prompt] = (None, Prompt(()))
    for request in requests:
        if isinstance(request, RollingRequest) or isinstance(request.context, Prompt):
            rendered.append(request)
            continue
        if request.context is not last[0]:
            last = (request.context, Prompt((render(request.context),)))
        rendered.append(replace(request, context=last[1]))
    return rendered
