"""What is sent to a model: frozen values, made from a task's docs and a format.

Requests of one doc share one context object, and plain contexts share their pieces, so that memory
grows neither with the number of choices nor with the number of shots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Union

from lm_eval.formats.assemble import Context, Prompt


@dataclass(frozen=True, slots=True)
class LoglikelihoodRequest:
    """Score ``continuation`` after ``context``. Answered by ``(sum of log-probs, is_greedy)``."""

    task: str
    doc_id: int
    index: int
    """Which of the doc's requests this is: for choices, the choice's place."""
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
