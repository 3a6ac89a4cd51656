"""``Instance``: one request of a task with what became of it, as Python tasks and models see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

OutputType = Literal["loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice"]


@dataclass
class Instance:
    """A request for ``doc``. ``metadata`` is (task name, doc id, repeats)."""

    request_type: OutputType
    doc: dict[str, Any]
    arguments: Any
    """What the model gets: (context, continuation), (context, generation_kwargs) or (text,)."""
    idx: int
    """Which request of its doc this is, from 0."""
    metadata: tuple[str | None, int | None, int | None] = (None, None, None)
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
