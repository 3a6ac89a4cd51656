"""``Instance``: one request of a task with what became of it, as scripts and Python tasks see it.

The evaluator itself works on frozen requests; what is here serves code that builds, sends and filters a
task's requests by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lm_eval.errors import UsageError
from lm_eval.formats.assemble import Chat, Context, Prompt
from lm_eval.requests import PromptOptions, Request, choose_docs, generation_kwargs
from lm_eval.requests.build import DocRef, ask_in, build_contexts, build_requests, with_text

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask

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
    """Name of the filter pipeline → what it left of ``resps``."""
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
    """The requests of a task's docs, or of those that fall to one of ``world_size`` processes."""
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
    """A doc's prompt; where the question is the choice, one prompt for each."""
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
    """The requests about a doc in a prompt that is made already; several for choices."""
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
