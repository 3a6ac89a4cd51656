"""Sections, labels and few-shot turns become one prompt: plain text or chat messages.

In: the rendered user text and target of each shot and of the doc itself. Out: a ``Prompt`` (text kept
as shared pieces) or a ``Chat``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union


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
    content: str


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


Context = Union[Prompt, Chat]
