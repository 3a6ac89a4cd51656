"""What stands before the answer: a plain prompt or a chat, with its shots.

In: a doc as it is asked, its examples, and the run's options. Out: contexts, which share the texts and
messages of their shots, so that memory does not grow with the number of shots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from lm_eval.requests.options import PromptOptions
from lm_eval.requests.values import Request, RollingRequest

if TYPE_CHECKING:
    from lm_eval.tasks.prompts import Asked
    from lm_eval.tasks.task import ConfigurableTask


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
    """A turn with what stands before it, as text or as a chat."""
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


def without_question(task: ConfigurableTask, asked: Asked, options: PromptOptions) -> Context:
    """What stands before a choice that is scored alone: the words that ask for the answer.

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
    asked: Asked,
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
    """What stands before a scored continuation; in chat the assistant's turn starts bare."""
    if not options.as_chat:
        return task.joints.target_delimiter
    prefix = turn.gen_prefix
    is_open = prefix is not None and not prefix[-1:].isspace()
    return task.joints.target_delimiter if is_open else ""


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
