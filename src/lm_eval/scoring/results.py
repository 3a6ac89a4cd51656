"""What scoring hands to the reports: one ``TaskResult`` for each task × format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lm_eval.formats.normalisation import Normalisation, normalisation_of
from lm_eval.orders.results import ChoiceOrder
from lm_eval.requests.values import Usage
from lm_eval.stats.estimates import Estimate


@dataclass
class ReadingSummary:
    """How many generated answers could be read, and why the others could not."""

    total: int = 0
    read: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    """Reason → count."""
    cut_off: int = 0
    """Replies that hit the token limit, read or not."""
    examples: list[tuple[int, str, str]] = field(default_factory=list)
    """The first few unread replies: (doc id, reason, text)."""

    @property
    def share_read(self) -> float:
        return self.read / self.total if self.total else 0.0


@dataclass
class TaskResult:
    """Scores of one task under one format."""

    name: str
    """``task@format``, or the plain task name where no format was asked for."""
    task: str
    alias: str
    format: str | None
    primary: str
    """The metric shown as the score."""
    metrics: dict[str, Estimate]
    higher_is_better: dict[str, bool]
    num_docs: int
    num_docs_total: int
    num_fewshot: int
    readings: ReadingSummary | None = None
    """None where nothing is read from text (log-likelihood formats)."""
    version: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    filter: str = "none"
    missing: int = 0
    """Docs without an answer because their request failed for good: in no denominator."""
    format_version: Any = None
    format_yaml: str | None = None
    """The format as it was used, overrides included, as YAML."""
    scores_choices: bool = False
    """Whether the score is that of choices compared by log-likelihood."""
    choice_order: ChoiceOrder | None = None
    """What the order of choices does, where docs were asked in several orders."""
    usage: Usage | None = None
    """What the answers cost, those of an interrupted run that this one went on from included. The
    filters of one task share it."""

    @property
    def normalisation(self) -> Normalisation | None:
        """How choices were compared for the score shown; None where none were scored."""
        return normalisation_of(self.primary) if self.scores_choices else None


@dataclass
class GroupResult:
    """A group: which results belong to it and, where it aggregates, their common scores."""

    name: str
    alias: str
    members: list[str]
    """Names of the ``TaskResult``s and ``GroupResult``s in it, in order."""
    primary: str | None = None
    metrics: dict[str, Estimate] = field(default_factory=dict)
    """Empty where the group only gathers tasks."""
    higher_is_better: Mapping[str, bool | None] = field(default_factory=dict)
    """Of every metric of the tasks it names itself; None where these disagree."""
    version: Any = None
    filter: str = "none"
    num_docs: int = 0
    """Docs of all tasks below it."""
    num_fewshot: int | None = None
    """None where the tasks it names itself differ, or where it names none."""
