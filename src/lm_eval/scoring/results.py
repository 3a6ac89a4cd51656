"""The results of a task: ``TaskResult``, and the columns of values by doc that it is made from.

Columns hold the values of one metric in as little memory as they need. ``Clusters`` collects which docs
belong together, if a task says so with ``cluster``.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lm_eval.formats.checks import Normalisation, normalisation_of
from lm_eval.formats.readers import bind_reader
from lm_eval.requests.values import Usage
from lm_eval.scoring.metrics import TextOutcome
from lm_eval.stats.estimates import Estimate

if TYPE_CHECKING:
    from lm_eval.formats.prompt_format import PromptFormat
    from lm_eval.orders.results import ChoiceOrder
    from lm_eval.scoring.score import ScoredDoc
    from lm_eval.tasks.task import ConfigurableTask


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
    by_phrase: Counter[str] = field(default_factory=Counter)
    """Another phrase of the format's reader → how many unread replies it would have read."""
    reader: str = ""
    """The name of the format's reader."""

    @property
    def share_read(self) -> float:
        return self.read / self.total if self.total else 0.0


@dataclass
class ChoiceTally:
    """How often each label was chosen, and how often it is right; and what guessing would score."""

    chosen: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    total: int = 0
    """Docs with choices."""
    guessed: float = 0.0
    """The sum over these docs of the share of choices that are right."""

    @property
    def chance(self) -> float | None:
        """The score of someone who guesses; None if docs have no choices."""
        return self.guessed / self.total if self.total else None

    def add(self, labels: Sequence[str], picked: int | None, gold: Sequence[Any]) -> None:
        """Count a doc whose choices have these labels; ``picked`` is None if nothing was read."""
        if picked is not None:
            self.chosen[labels[picked]] += 1
        for place in gold:
            self.right[labels[place]] += 1

    def add_chance(self, num_right: int, num_choices: int) -> None:
        """Count the doc for ``chance``."""
        self.total += 1
        self.guessed += num_right / num_choices


@dataclass
class TaskResult:
    """Scores of one task under one format."""

    name: str
    """``task@format``, or the plain task name if no format was asked for."""
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
    rows_total: int | None = None
    """Rows of the split, if a task's ``where`` keeps only some of them."""
    readings: ReadingSummary | None = None
    """None if nothing is read from text (log-likelihood formats)."""
    version: Any = None
    config: Callable[[], Mapping[str, Any]] = field(default=dict, compare=False)
    """Gives the keys of the task: a format makes some of them, when they are read."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] | None = None
    """The commit and files of a data set of the hub that was asked."""
    notes: list[str] = field(default_factory=list)
    filter: str = "none"
    missing: int = 0
    """Docs without an answer because their request failed for good: in no denominator."""
    guessed: float | None = None
    """What guessing scores in a plain task with choices; under formats ``tally`` has it."""
    parts: Parts = field(default_factory=dict)
    """The scores of parts of the docs, by the fields that the task's ``score_by`` names."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Why docs could not be asked → how many: in no denominator."""
    format_version: Any = None
    format_yaml: str | None = None
    """The format as it was used, overrides included, as YAML."""
    scores_choices: bool = False
    """Whether the score is that of choices compared by log-likelihood."""
    shows_choices: bool | None = None
    """Whether the prompts show the choices; None for a task without choices."""
    tally: ChoiceTally | None = None
    """Which labels were chosen, and the score of guessing; None if docs have no choices."""
    choice_order: ChoiceOrder | None = None
    """What the order of choices changes, if docs were asked in several orders."""
    usage: Usage | None = None
    """What the answers cost, those of an interrupted run that this one went on from included. The
    filters of one task share it."""

    @property
    def chance(self) -> float | None:
        """What guessing scores; None if docs have no choices."""
        return self.guessed if self.tally is None else self.tally.chance

    @property
    def normalisation(self) -> Normalisation | None:
        """How choices were compared for the score shown; None if none were scored."""
        return normalisation_of(self.primary) if self.scores_choices else None


@dataclass
class GroupResult:
    """A group: which results belong to it and, if it aggregates, their common scores."""

    name: str
    alias: str
    members: list[str]
    """Names of the ``TaskResult``s and ``GroupResult``s in it, in order."""
    primary: str | None = None
    metrics: dict[str, Estimate] = field(default_factory=dict)
    """Empty if the group only gathers tasks."""
    higher_is_better: Mapping[str, bool | None] = field(default_factory=dict)
    """Of every metric of the tasks it names itself; None if these disagree."""
    version: Any = None
    filter: str = "none"
    num_docs: int = 0
    """Docs of all tasks below it."""
    num_fewshot: int | None = None
    """None if the tasks it names itself differ, or if it names none."""
    suite: dict[str, Any] = field(default_factory=dict)
    """The parts of the mean of its members' scores, if it has one."""


class ValueColumn:
    """Values of docs, added in any order; ``in_order`` has them in the order of the docs."""

    __slots__ = ("_places", "_values")

    def __init__(self) -> None:
        self._places = array("L")
        self._values: Any = array("d")

    def add(self, place: int, value: Any) -> None:
        """The value of the doc at ``place``."""
        if type(value) is not float and isinstance(self._values, array):
            self._values = list(self._values)  # from here on whatever values there are
        self._places.append(place)
        self._values.append(value)

    def in_order(self) -> list[Any]:
        """All values, by the places of their docs."""
        places, values = self._places, self._values
        order = order_of(places)
        return list(values) if isinstance(order, range) else [values[at] for at in order]

    def places(self) -> list[int]:
        """The places that have a value, in the order of ``in_order``."""
        return [self._places[at] for at in order_of(self._places)]

    def __len__(self) -> int:
        return len(self._places)


_PLACES_AT_ONCE = 65536


def order_of(places: Sequence[int]) -> Sequence[int]:
    """The index of the smallest of ``places``, then of the next; a range if they are in order.

    Equal ones stay in their order. Those of a run are the numbers of its docs, each once: they are
    sorted without a Python object for each.
    """
    if _are_in_order(places):
        return range(len(places))
    if min(places) < 0 or max(places) >= 4 * len(places):
        return sorted(range(len(places)), key=places.__getitem__)
    index_of = array("q", [-1]) * (max(places) + 1)
    for index, place in enumerate(places):
        if index_of[place] >= 0:
            return sorted(range(len(places)), key=places.__getitem__)
        index_of[place] = index
    return array("q", (index for index in index_of if index >= 0))


def _are_in_order(places: Sequence[int]) -> bool:
    """Whether none is smaller than the one before, by sorting a part at a time, which is quickest."""
    for start in range(0, len(places), _PLACES_AT_ONCE):
        part = list(places[start : start + _PLACES_AT_ONCE + 1])
        if part != sorted(part):
            return False
    return True


class DocLabels:
    """Which of a few texts each doc has, by the docs' places."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._places = array("L")
        self._code_of_doc = array("L")

    def add(self, place: int, label: str) -> None:
        self._places.append(place)
        self._code_of_doc.append(self.codes.setdefault(label, len(self.codes)))

    def code_at(self) -> dict[int, int]:
        """Place → the code of the doc's label."""
        return dict(zip(self._places, self._code_of_doc, strict=True))


class Clusters:
    """The clusters of a task's docs; nothing if the task names none."""

    def __init__(self, task: ConfigurableTask) -> None:
        self._task = task
        self._labels = DocLabels()
        self._plain: list[str] = []

    def __bool__(self) -> bool:
        return self._task.config.cluster is not None

    def add(self, place: int, doc_id: int) -> None:
        """Note the cluster of the doc at ``place``."""
        name = self._task.cluster_of(doc_id)
        if name is not None:
            self._labels.add(place, name)

    def estimate(self, values: Sequence[float], places: Sequence[int]) -> Estimate:
        """The mean of the values of the docs at ``places``, with its interval over clusters."""
        from lm_eval.stats.clusters import clustered_estimate

        code_at = self._labels.code_at()
        return clustered_estimate(values, [code_at[place] for place in places])

    def left_plain(self, metric: str) -> None:
        """Note a metric whose interval does not know of clusters."""
        if self and metric not in self._plain:
            self._plain.append(metric)

    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        from lm_eval.stats.clusters import FEW_CLUSTERS

        if not self._labels.codes:
            return []
        notes, count = [], len(self._labels.codes)
        if count < FEW_CLUSTERS:
            notes.append(
                f"docs come in {count} cluster{'s' if count > 1 else ''} (`cluster` of the task): with "
                f"fewer than {FEW_CLUSTERS}, intervals over clusters tend to be too narrow"
            )
        if self._plain:
            notes.append(
                f"the interval of {', '.join(self._plain)} takes docs as independent: it is not a mean, "
                "so clusters are not in it"
            )
        return notes


# How replies were read


EXAMPLES_KEPT = 3
OTHER_PHRASES = ("answer is", "Answer:", "answer:", "####")
"""Phrases that models write instead of the one they were asked for."""
_PHRASE_MISSING = ("unreadable", "truncated")
"""Reasons for no answer that another phrase may mend."""


_STOPPED = re.compile(r"[:：][\s*_]*\Z|(?:\A|\n)[ \t]*(?:[-*•]|\d{1,2}[.)])[\s*_]*\Z")


class Readings:
    """Counts how replies were read; what depends on the order of docs does not on that of answers."""

    def __init__(self, fmt: PromptFormat) -> None:
        self._format = fmt
        self._summary = ReadingSummary()
        self._stopped = 0
        self._first: dict[str, int] = {}
        self._examples: list[tuple[int, int, str, str]] = []

    def add(self, place: int, doc: ScoredDoc) -> None:
        """Count every reply to the doc at ``place``."""
        assert isinstance(doc.outcome, TextOutcome)
        for answer, outcome in zip(doc.answers, doc.replies or [doc.outcome], strict=False):
            self._summary.total += 1
            if getattr(answer, "finish", None) == "length":
                self._summary.cut_off += 1
            elif self._is_stopped(outcome):
                self._stopped += 1
            if outcome.reading.is_answer:
                self._summary.read += 1
            else:
                self._add_unread(place, doc.requests.doc_id, outcome)
                self._try_other_phrases(doc, outcome)

    def _try_other_phrases(self, doc: ScoredDoc, outcome: TextOutcome) -> None:
        """Count the phrases that this reply has instead of the one it was asked for."""
        item = doc.requests.asked.item
        if outcome.reading.reason in _PHRASE_MISSING and item is not None:
            for phrase, fmt in self._other_formats.items():
                if phrase in outcome.reply and fmt.read(outcome.reply, item).is_answer:
                    self._summary.by_phrase[phrase] += 1

    @cached_property
    def _other_formats(self) -> dict[str, PromptFormat]:
        """The format with each of the other phrases; none if its reader does not look for a phrase."""
        scorer = self._format.scorer
        if scorer is None or "phrase" not in dict(scorer.options):
            return {}
        return {
            phrase: replace(
                self._format,
                gen_prefix=None,
                scorer=bind_reader(
                    {"reader": scorer.name, **dict(scorer.options), "phrase": phrase}
                ),
            )
            for phrase in OTHER_PHRASES
        }

    def _add_unread(self, place: int, doc_id: int, outcome: TextOutcome) -> None:
        reason = str(outcome.reading.reason)
        self._summary.unread[reason] += 1
        self._first[reason] = min(place, self._first.get(reason, place))
        if len(self._examples) < EXAMPLES_KEPT or place < self._examples[-1][0]:
            example = (place, doc_id, reason, outcome.reply)
            self._examples = sorted([*self._examples, example])[:EXAMPLES_KEPT]

    def _is_stopped(self, outcome: TextOutcome) -> bool:
        """True if a stop string seems to have ended a reply before its answer."""
        if outcome.reading.is_answer and self._format.answers == "choice":
            return False
        until = self._format.generation_kwargs.get("until")
        return bool(until and _STOPPED.search(outcome.reply[-80:]))

    def notes(self) -> list[str]:
        """Whether stop strings end replies that go on."""
        if not self._stopped:
            return []
        return [
            f"{self._stopped:,} of {self._summary.total:,} replies end at a stop string right after a "
            "colon or the mark of a list, before their answer. Use the format `open`, or stop later "
            "with --gen_kwargs until=…"
        ]

    def summary(self) -> ReadingSummary:
        unread = self._summary.unread
        ordered = sorted(unread, key=lambda reason: self._first[reason])
        return replace(
            self._summary,
            unread=Counter({reason: unread[reason] for reason in ordered}),
            examples=[example[1:] for example in self._examples],
            reader=self._format.scorer.name if self._format.scorer else "",
        )


# Scores of parts of a task's docs, such as its subjects: what ``score_by`` in a task asks for


Parts = dict[str, dict[str, dict[str, Estimate]]]
"""Field → value → metric → estimate."""
Values = Mapping[str, tuple[Sequence[Any], Sequence[int]]]
"""Metric → the docs' values, and the places of these docs."""
Estimator = Callable[[str, Sequence[Any], Sequence[int]], Estimate]
"""Metric, values and places of docs → an estimate."""


class DocParts:
    """Which part each doc belongs to; nothing if the task has no ``score_by``."""

    def __init__(self, task: ConfigurableTask) -> None:
        self._task = task
        self._fields: dict[str, DocLabels] = {}

    def __bool__(self) -> bool:
        return self._task.config.score_by is not None

    def add(self, place: int, doc_id: int) -> None:
        """Note the parts of the doc at ``place``."""
        for name, value in self._task.parts_of(doc_id).items() if self else ():
            self._fields.setdefault(name, DocLabels()).add(place, value)

    def estimates(self, values: Values, estimate: Estimator) -> Parts:
        """The estimates of every part, by field; the parts in alphabetical order."""
        return {name: _by_part(known, values, estimate) for name, known in self._fields.items()}


def _by_part(
    labels: DocLabels, values: Values, estimate: Estimator
) -> dict[str, dict[str, Estimate]]:
    code_at = labels.code_at()
    parts: dict[str, dict[str, Estimate]] = {}
    for part, code in sorted(labels.codes.items()):
        parts[part] = {}
        for metric, (of_metric, places) in values.items():
            inside = [at for at, place in enumerate(places) if code_at[place] == code]
            if inside:
                parts[part][metric] = estimate(
                    metric, [of_metric[at] for at in inside], [places[at] for at in inside]
                )
    return parts


class DocValues:
    """The values of a task's docs by metric, with their clusters and parts; no doc is held.

    ``names`` are metrics that are known before; others come in the order in which docs name them.
    """

    def __init__(self, task: ConfigurableTask, names: Iterable[str] = ()) -> None:
        self.clusters = Clusters(task)
        self.count = 0
        self._parts = DocParts(task)
        self._columns: dict[str, ValueColumn] = {}
        self._first = {name: (-1, order) for order, name in enumerate(names)}

    def add(self, place: int, doc_id: int, values: Mapping[str, Any]) -> None:
        """Add the values of the doc at ``place`` among the docs asked."""
        self.count += 1
        self.clusters.add(place, doc_id)
        self._parts.add(place, doc_id)
        for order, (name, value) in enumerate(values.items()):
            if name not in self._columns:
                self._columns[name] = ValueColumn()
                self._first.setdefault(name, (place, order))
            elif place < self._first[name][0]:
                self._first[name] = (place, order)
            self._columns[name].add(place, value)

    def estimates(self, estimate: Estimator) -> tuple[dict[str, Estimate], Parts]:
        """The estimate of every metric, over all docs and over each part of them."""
        names = sorted(self._columns, key=self._first.__getitem__)
        whole = {name: estimate(name, *self._column(name)) for name in names}
        if not self._parts:
            return whole, {}
        return whole, self._parts.estimates({name: self._column(name) for name in names}, estimate)

    def _column(self, name: str) -> tuple[list[Any], list[int]]:
        """The values of a metric and, if these are needed, the places of their docs, in order."""
        column = self._columns[name]
        return column.in_order(), column.places() if self.clusters or self._parts else []
