"""A doc's prompt and requests by the rules of EleutherAI's harness.

``HarnessPrompts`` asks the docs of a task with neither ``formats`` nor ``template``. Its prompts are the
same, byte for byte, as release 0.4.13 makes from the same YAML. The rules differ from a format's:
templates always render to text, digits become places of choices, printed lists are read back, and the
first doc decides whether a task has several inputs or several targets.

``Instance`` is one request with its responses, as scripts and Python tasks see it. The evaluator
itself works on frozen requests; instances serve code that builds, sends and filters them by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lm_eval.config.fields import BARE_WORD, compile_field, compile_template, is_jinja, shorten
from lm_eval.errors import FieldError, FormatError, UsageError, did_you_mean, listing
from lm_eval.formats.assemble import Chat, Context, Prompt, Turn
from lm_eval.requests import PromptOptions, Request, choose_docs, generation_kwargs
from lm_eval.requests.build import DocRef, ask_in, build_contexts, build_requests, with_text
from lm_eval.tasks.prompts import DocPrompt, RawFields

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask

Doc = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """A field's value, and whether a template printed it: printed text is interpreted further."""

    value: Any
    is_printed: bool = False


class HarnessPrompts:
    """How one harness task turns docs into turns.

    ``columns`` are those of the docs to be asked. ``parity`` reads a bare word that is not a column as
    literal text, as the harness does, instead of refusing it.
    """

    def __init__(
        self,
        raw: RawFields,
        *,
        output_type: str,
        columns: frozenset[str],
        gen_prefix: Any = None,
        parity: bool = False,
    ) -> None:
        self._output_type = output_type
        self._columns = columns
        self._parity = parity
        self._has_choices = raw.choice is not None
        self._text = self._extractor(raw.text, "doc_to_text")
        self._choice = self._extractor(raw.choice, "doc_to_choice")
        self._target = self._extractor(raw.target, "doc_to_target")
        self._gen_prefix = gen_prefix
        self._prefix_template = _template(gen_prefix, "gen_prefix")

    def ask(self, doc: Doc) -> DocPrompt:
        text, choices, target = self.text(doc), self.choices(doc), self.target(doc)
        turn = Turn(self._user(text, choices), None, self.gen_prefix(doc))
        continuations: tuple[str, ...] = ()
        inputs: tuple[str, ...] = ()
        if self._output_type == "multiple_choice":
            if isinstance(text, int):
                inputs, continuations = choices, (str(target),) * len(choices)
            else:
                continuations = choices
        elif self._output_type.startswith("loglikelihood"):
            continuations = (str(target),)
        gold = text if inputs else target
        accepted = tuple(gold) if isinstance(gold, list) else (gold,)
        return DocPrompt(
            turn,
            continuations,
            choices,
            accepted,
            str(target),
            target_value=target,
            inputs=inputs,
        )

    def shot(self, doc: Doc) -> Turn:
        text, choices, target = self.text(doc), self.choices(doc), self.target(doc)
        answer = target
        if isinstance(target, int) and choices:
            answer = choices[target]
        elif isinstance(target, list):
            answer = target[0] if target else None
        if isinstance(answer, list | tuple | dict):
            raise FormatError(
                f"doc_to_target gives {shorten(answer)} for a few-shot example; expected a text, a "
                "list of texts, or the place of a choice."
            )
        answer = None if answer is None else str(answer)
        return Turn(self._user(text, choices), answer, self.gen_prefix(doc))

    # Fields

    def text(self, doc: Doc) -> Any:
        """The question's text; for a task with several inputs, the place of the right one."""
        field = self._text(doc)
        if field.is_printed and self._has_choices:
            return _place_or_text(field.value)
        return field.value

    def target(self, doc: Doc) -> Any:
        """The target: a text, a list of texts, or the place of a choice."""
        field = self._target(doc)
        if not field.is_printed:
            return field.value
        value = _place_or_text(field.value) if self._has_choices else field.value
        if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
            return _python_literal(value)
        return value

    def choices(self, doc: Doc) -> tuple[str, ...]:
        """The choices: a list, the values of a mapping, or a printed list read back."""
        if not self._has_choices:
            return ()
        field = self._choice(doc)
        value = _python_literal(field.value) if field.is_printed else field.value
        if isinstance(value, Mapping):
            value = list(value.values())
        if not isinstance(value, list | tuple):
            raise FormatError(
                f"doc_to_choice gives {shorten(value)}, which is not a list. Give a field or template "
                "that holds the list of choices."
            )
        return tuple([choice if isinstance(choice, str) else str(choice) for choice in value])

    def scored(self, doc: Doc) -> list[str]:
        return list(self.choices(doc))

    def gen_prefix(self, doc: Doc) -> str | None:
        """What starts the assistant's words: a field of the doc, or a template."""
        if self._gen_prefix is None:
            return None
        if isinstance(self._gen_prefix, str) and self._gen_prefix in doc:
            value = doc[self._gen_prefix]
            return str(value) if value else None
        return self._prefix_template(doc) or None

    # Inside

    def _user(self, text: Any, choices: tuple[str, ...]) -> str:
        if isinstance(text, int) and not isinstance(text, bool) and choices:
            return choices[text]
        if text is None or isinstance(text, list | tuple | dict):
            raise FormatError(
                f"doc_to_text gives {shorten(text)} where text is expected. Name the field that "
                "holds the text."
            )
        return str(text)

    def _extractor(self, spec: Any, name: str) -> Callable[[Doc], Value]:
        if callable(spec) and not isinstance(spec, str):
            return lambda doc: Value(_called(spec, doc, name))
        if not isinstance(spec, str):
            return lambda _: Value(spec)
        if spec in self._columns:
            return lambda doc: Value(_column(doc, spec, name))
        if not self._parity and BARE_WORD.fullmatch(spec):
            raise FieldError(
                f"{spec!r} is not a column of the docs.{did_you_mean(spec, self._columns)} Columns: "
                f"{listing(sorted(self._columns))}. For literal text, write "
                f"{'{{ ' + repr(spec) + ' }}'!r}.",
                field=name,
            )
        template = _template(spec, name)
        return lambda doc: Value(template(doc), is_printed=True)


def media_of(doc: Doc, spec: Any, name: str) -> Any:
    """A doc's images or audio: of a field, several fields, a printed list, or a function.

    ``name`` is the task's key that holds ``spec``, for errors.
    """
    if isinstance(spec, list):
        return [media_of(doc, part, name) for part in spec]
    if isinstance(spec, str) and spec in doc:
        return doc[spec]
    if isinstance(spec, str):
        return _python_literal(_template(spec, name)(doc))
    if callable(spec):
        return _called(spec, doc, name)
    raise FieldError(f"{shorten(spec)} does not name an image or audio of a doc.", field=name)


def _template(spec: Any, name: str) -> Callable[[Doc], str]:
    if not isinstance(spec, str) or not is_jinja(spec):
        text = str(spec)
        return lambda _: text
    try:
        render = compile_template(spec)
    except FieldError as error:
        raise error.located(field=name) from None

    def rendered(doc: Doc) -> str:
        try:
            return render(doc)
        except FieldError as error:
            raise error.located(field=name) from None

    return rendered


def _called(function: Callable[[Doc], Any], doc: Doc, name: str) -> Any:
    try:
        return compile_field(function)(doc)
    except FieldError as error:
        raise error.located(field=name) from error.__cause__


def _column(doc: Doc, column: str, name: str) -> Any:
    if column not in doc:
        raise FieldError(
            f"this doc has no field {column!r}. Its fields: {listing(doc)}.", field=name
        )
    return doc[column]


def _place_or_text(text: str) -> Any:
    """Printed digits as the place of a choice; anything else stays text."""
    try:
        return int(text) if text.isdigit() else text
    except ValueError:  # a superscript digit is a digit, but not a number
        return text


def _python_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return text


# Requests that a program builds, sends and filters itself


OutputType = Literal["loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice"]
Metadata = tuple["str | None", "int | None", "int | None"]


@dataclass
class Instance:
    """A request for ``doc``. ``metadata`` is (task name, doc id, repeats)."""

    request_type: OutputType
    doc: Mapping[str, Any]
    arguments: Any
    """What the model gets: (context, continuation), (context, generation_kwargs) or (text,)."""
    idx: int
    """Which request of its doc this is, from 0."""
    metadata: Metadata = (None, None, None)
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    """Name of the filter pipeline → the filtered ``resps``."""
    task_name: str | None = None
    doc_id: int | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        self.task_name, self.doc_id, self.repeats = self.metadata

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments as a tuple."""
        return self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)


@dataclass(frozen=True, kw_only=True)
class ChatSettings:
    """How a prompt is laid out, under the names of the harness."""

    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: Callable[..., str] | None = None
    """The model's ``apply_chat_template``."""

    def options(self, num_fewshot: int | None = None) -> PromptOptions:
        if self.apply_chat_template and self.chat_template is None:
            raise UsageError(
                "apply_chat_template=True needs chat_template=lm.apply_chat_template: the function "
                "that turns messages into the model's prompt."
            )
        return PromptOptions(
            num_fewshot=num_fewshot,
            as_chat=self.apply_chat_template,
            multiturn=self.fewshot_as_multiturn,
            system_instruction=self.system_instruction,
        )

    def render(self, context: Context) -> str:
        if isinstance(context, Chat):
            assert self.chat_template is not None
            return self.chat_template(
                context.as_dicts(), add_generation_prompt=not context.continues_assistant
            )
        return str(context)


def build_instances(
    task: ConfigurableTask,
    chat: ChatSettings,
    *,
    limit: float | None = None,
    samples: Sequence[int] | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> list[Instance]:
    """The requests of a task's docs, or of the share of one of ``world_size`` processes."""
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} is not below world_size {world_size}, counted from 0.")
    chosen = choose_docs(task, limit=limit, samples=samples)[rank::world_size]
    return [
        _instance(request, task.task_name)
        for doc in build_requests(task, chosen, chat.options())
        for request in with_text(doc.distinct, chat.render)
    ]


def build_context(
    task: ConfigurableTask,
    doc: Mapping[str, Any],
    num_fewshot: int,
    chat: ChatSettings,
    *,
    gen_prefix: str | None = None,
) -> str | list[str]:
    """A doc's prompt; if the question is the choice, one prompt for each choice."""
    asked = task.prompts.ask(doc)
    asked = replace(asked, turn=replace(asked.turn, gen_prefix=gen_prefix))
    shots = task.shots_for(doc, num_fewshot)
    options = chat.options(num_fewshot)
    contexts = build_contexts(task, asked, shots, task.description_for(doc), options)
    texts = [chat.render(context) for context in contexts]
    return texts if asked.inputs else texts[0]


def construct(
    task: ConfigurableTask,
    doc: Mapping[str, Any],
    ctx: str | Sequence[str],
    *,
    metadata: Metadata = (None, None, None),
    apply_chat_template: bool = False,
) -> Instance | list[Instance]:
    """The requests about a doc after a ready prompt; several for choices."""
    options = PromptOptions(as_chat=apply_chat_template)
    contexts = [Prompt((text,)) for text in ([ctx] if isinstance(ctx, str) else ctx)]
    ref = DocRef(task.name, -1, doc)
    asked = task.prompts.ask(doc)
    if asked.inputs and len(contexts) != len(asked.inputs):
        raise UsageError(
            f"Task {task.name!r} puts each choice into the question, so construct_requests needs "
            f"{len(asked.inputs)} contexts, not {len(contexts)}: fewshot_context returns them."
        )
    requests = ask_in(contexts, task, ref, asked, generation_kwargs(task, options), options)
    made = [
        Instance(_kind(request), doc, request.args, request.idx, metadata) for request in requests
    ]
    return made if task.output_type == "multiple_choice" else made[0]


def _instance(request: Request, task_name: str) -> Instance:
    metadata = (task_name, request.doc_id, request.repeats)
    return Instance(_kind(request), request.doc, request.args, request.idx, metadata)


def _kind(request: Request) -> Any:
    return request.kind
