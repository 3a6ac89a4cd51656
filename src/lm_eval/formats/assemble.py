"""Joins few-shot turns and the turn of the doc into one context: plain text or chat messages.

In: user text and answer of each shot and of the doc. Out: a ``Prompt`` (text kept as shared pieces)
or a ``Chat``. The format decides what a turn says; this module only joins turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Prompt:
    """A plain-text context, kept as pieces; ``str(prompt)`` joins them."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat turn. ``role`` is ``system``, ``user`` or ``assistant``."""

    role: Literal["system", "user", "assistant"]
    text: str | Prompt
    """Long texts are kept as pieces, so that the messages of many docs share their shots."""

    @property
    def content(self) -> str:
        return str(self.text)


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat context. When the last message is the assistant's, the model continues it (a prefill)."""

    messages: tuple[Message, ...]

    @property
    def continues_assistant(self) -> bool:
        return bool(self.messages) and self.messages[-1].role == "assistant"

    def as_dicts(self) -> list[dict[str, str]]:
        """The messages as ``{"role": …, "content": …}``, the shape chat templates and servers take."""
        return [{"role": m.role, "content": m.content} for m in self.messages]


Context = Prompt | Chat


@dataclass(frozen=True, slots=True)
class Turn:
    """One doc as a prompt shows it.

    ``answer`` is None for the doc being asked and for a shot without a target, which has no assistant
    turn. ``gen_prefix`` starts the assistant's reply.
    """

    user: str
    answer: str | None = None
    gen_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Joints:
    """The strings between the turns of a prompt."""

    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"

    def before_answer(self, user: str, gen_prefix: str | None) -> str:
        """Between user text and answer; with a gen_prefix, nothing if either side has white space."""
        if gen_prefix is None:
            return self.target_delimiter
        return self.target_delimiter if _is_bare_seam(user, gen_prefix) else ""

    def shot_text(self, shot: Turn) -> str:
        """A whole shot in a plain prompt, with the delimiter that ends it."""
        if not shot.answer:
            return shot.user
        before = self.before_answer(shot.user, shot.gen_prefix)
        return f"{shot.user}{before}{spoken(shot)}{self.fewshot_delimiter}"


def spoken(turn: Turn) -> str:
    """What the assistant says in a shot: gen_prefix, a space if the seam needs one, the answer."""
    answer = turn.answer or ""
    if not turn.gen_prefix:
        return answer
    space = " " if _is_bare_seam(turn.gen_prefix, answer) else ""
    return f"{turn.gen_prefix}{space}{answer}"


def join_system(system_instruction: str | None, description: str, delimiter: str) -> str:
    """The text at the very start: system instruction and description, with white space between them."""
    if not system_instruction or not description:
        return f"{system_instruction or ''}{description}"
    seam = delimiter if _is_bare_seam(system_instruction, description) else ""
    return f"{system_instruction}{seam}{description}"


def plain_prompt(system: str, shots: Sequence[str], turn: Turn, joints: Joints) -> Prompt:
    """The context as text. ``shots`` come from ``Joints.shot_text``, so that docs share them."""
    parts = [system] if system else []
    parts.extend(shots)
    parts.append(turn.user)
    if turn.gen_prefix is not None:
        parts.append(f"{joints.before_answer(turn.user, turn.gen_prefix)}{turn.gen_prefix}")
    return Prompt(tuple(parts))


def shot_messages(shot: Turn) -> tuple[Message, ...]:
    """A shot as separate turns: the user's and, if there is an answer, the assistant's."""
    user = Message("user", shot.user)
    return (user, Message("assistant", spoken(shot))) if shot.answer else (user,)


def multiturn_chat(system: str, shots: Iterable[Message], turn: Turn) -> Chat:
    """The context as messages. ``shots`` come from ``shot_messages``, so that docs share them."""
    return _chat(system, [*shots, Message("user", turn.user)], turn.gen_prefix)


def single_turn_chat(system: str, shots: Sequence[str], turn: Turn) -> Chat:
    """The context as one user message that holds all shots, as ``plain_prompt`` has them."""
    text = Prompt((*shots, turn.user)) if shots else turn.user
    return _chat(system, [Message("user", text)], turn.gen_prefix)


def _chat(system: str, messages: list[Message], gen_prefix: str | None) -> Chat:
    if system:
        messages.insert(0, Message("system", system))
    if gen_prefix is not None:
        messages.append(Message("assistant", gen_prefix))
    return Chat(tuple(messages))


def _is_bare_seam(left: str, right: str) -> bool:
    """Whether two texts meet without white space, so that something must separate them."""
    return bool(left and right) and not (left[-1].isspace() or right[0].isspace())
