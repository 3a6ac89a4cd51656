"""The replies of one result, read again with another reader and scored by the same metric.

In: a ``StoredRun`` and a reader. Out: a ``Rereading``, from ``UnderFormat`` for a task under a format
and from ``Plain`` for one without. What a reader needs besides the reply is in the samples
(``read_with``); for samples without it, the task is loaded by its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import ComparisonError, LmEvalError
from lm_eval.formats.items import AnswerKind, labels_for
from lm_eval.formats.readers import BoundReader, Reading, fitted, read
from lm_eval.harness.scorer import INVALID, HarnessScorer
from lm_eval.lab.reread.items import (
    ReadAgain,
    Rereading,
    Verdict,
    answered_samples,
    in_words,
    runs_programs,
    stored_reader,
)
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import StoredRun
from lm_eval.lab.stored.view import first_reply
from lm_eval.registry import METRICS, Metric
from lm_eval.scoring.metrics import TextOutcome
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.prompts import FormatPrompts
from lm_eval.tasks.task import ConfigurableTask

FALLBACK_METRIC = "acc"


@dataclass(frozen=True)
class StoredQuestion:
    """What a reader and a metric need to know about a doc."""

    answers: AnswerKind
    labels: tuple[str, ...]
    choices: tuple[str, ...]
    gold: tuple[Any, ...]
    prefix: str | None


@dataclass(frozen=True)
class ReplyRead:
    """One reply to a doc, as it was read before."""

    text: str
    finish: str | None
    reading: Reading


@dataclass
class StoredReplies:
    """The replies of one result, and the reader that reads them again."""

    run: StoredRun
    name: str
    reader: BoundReader
    include_path: Sequence[str] | None


@dataclass
class UnderFormat(StoredReplies):
    """The replies of a task under a format, to the choices in the order of the data."""

    def __post_init__(self) -> None:
        fingerprints = self.run.results.get("fingerprints", {}).get(self.name, {})
        format_print = str(fingerprints.get("format", ""))
        self._is_prefilled = not format_print.endswith("-without-gen_prefix")
        self._task: ConfigurableTask | None = None
        self._metric = _item_metric(self.run, self.name)

    def rereading(self) -> Rereading:
        facts = self.run.results["formats"][self.name]
        if runs_programs(facts):
            raise ComparisonError(
                f"{self.run.path}, {self.name}: the answers are programs, and another reading of them "
                "would have to be run. Run the task again with the other reader; with --use_cache no "
                "answer is asked for again."
            )
        rereading = Rereading(self._metric.name, (), before=stored_reader(facts))
        rereading.items = self._items(rereading.notes)
        return rereading

    def _items(self, notes: list[str]) -> Iterator[ReadAgain]:
        most, has_labels, num_read = 1, False, 0
        for sample in answered_samples(self.run, self.name, None):
            replies, asked = self._known(sample)
            most = max(most, len(replies))
            has_labels = has_labels or bool(asked.labels)
            for number, reply in enumerate(replies, start=1):
                is_part = len(replies) > 1
                part = f"reply {number}" if is_part else ""
                stored = None if is_part else sample.get(self._metric.name)
                item = self._item(sample, asked, reply, self._again(asked, reply), part, stored)
                num_read += item.after.is_read
                yield item
        if not has_labels and not num_read:
            notes.append(
                "the prompts of this format show no labels, so a letter in a reply names no choice; "
                "only the text of a choice does"
            )
        if most > 1:
            notes.append(
                f"each doc has {most} replies, all of which are read; its score is their mean"
            )

    def _known(self, sample: Mapping[str, Any]) -> tuple[list[ReplyRead], StoredQuestion]:
        """What a sample says about its replies and its doc."""
        try:
            return _replies(sample), self._asked(sample)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise damaged_sample(sample, "holds no reading that can be understood") from None

    def _again(self, asked: StoredQuestion, reply: ReplyRead) -> Reading:
        """The new reader's reading of a reply."""
        shown = asked.choices[: len(asked.labels)] if asked.labels else asked.choices
        reading = read(
            reply.text,
            (self.reader,),
            labels=asked.labels,
            choices=shown,
            prefix=asked.prefix if self._is_prefilled else None,
            finish=reply.finish,
        )
        return fitted(reading, asked.answers, asked.labels, shown)

    def _item(
        self,
        sample: Mapping[str, Any],
        asked: StoredQuestion,
        reply: ReplyRead,
        after: Reading,
        part: str,
        stored: Any,
    ) -> ReadAgain:
        """One reply; ``part`` says which of several, ``stored`` is its score if that is known."""
        doc_id, cluster = int(sample["doc_id"]), sample.get("cluster")
        if stored is not None and not (isinstance(stored, int | float) and math.isfinite(stored)):
            raise damaged_sample(sample, f"has no number as its `{self._metric.name}`")
        return ReadAgain(
            f"doc {doc_id}, {part}" if part else f"doc {doc_id}",
            doc_id,
            reply.text,
            in_words(asked.gold[0], asked.answers, asked.choices),
            self._verdict(asked, reply.text, reply.reading, stored),
            self._verdict(asked, reply.text, after, None),
            None if cluster is None else str(cluster),
            is_part=bool(part),
        )

    def _verdict(self, asked: StoredQuestion, text: str, reading: Reading, stored: Any) -> Verdict:
        """A reading and its score; a stored score is kept, as other code may have made it."""
        outcome = TextOutcome(
            text,
            reading,
            asked.gold,
            asked.answers,
            asked.choices,
            labels=asked.labels,
            lead="" if self._is_prefilled else asked.prefix or "",
        )
        score = self._metric.value(outcome) if stored is None else stored
        return Verdict(
            float(score),
            in_words(reading.value, asked.answers, asked.choices),
            reading.rule,
            reading.span,
            reading.reason,
        )

    def _asked(self, sample: Mapping[str, Any]) -> StoredQuestion:
        facts = sample.get("read_with") or self._from_task(sample)
        if not facts["gold"]:
            raise ValueError(facts)
        return StoredQuestion(
            facts.get("answers", "choice"),
            tuple(facts.get("labels", ())),
            tuple(facts.get("choices", ())),
            tuple(tuple(gold) if isinstance(gold, list) else gold for gold in facts["gold"]),
            facts.get("prefix"),
        )

    def _from_task(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """What older samples do not hold, from the task as it is now."""
        if self._task is None:
            self._task = loaded_task(self.run, self.name, self.include_path)
        task = self._task
        if not isinstance(task.prompts, FormatPrompts) or task.format is None:
            raise ComparisonError(lacking(self.run, self.name, "it has no such format now"))
        item = task.prompts.item(sample["doc"])
        return {
            "answers": task.format.answers,
            "labels": task.format.labels(item),
            "choices": item.choices,
            "gold": item.gold,
            "prefix": task.format.question_turn(item).gen_prefix,
        }


def _item_metric(run: StoredRun, name: str) -> Metric:
    """The metric shown as the score, if it has a value for each reply; else ``acc``."""
    try:
        metric, _ = primary_metric(run.results, name, str(run.path))
    except ComparisonError:  # answers alone were saved, with --predict_only
        metric = FALLBACK_METRIC
    fallback: Metric = METRICS.get(FALLBACK_METRIC)
    known = METRICS.get(metric, fallback)
    if not isinstance(known, Metric) or known.of_text is None:
        return fallback
    tried = [
        known.value(TextOutcome("", reading, (0,), "choice", ("",)))
        for reading in (Reading(0, "", (0, 0)), Reading.unread("empty"))
    ]
    is_number = all(isinstance(value, float) for value in tried)
    return known if is_number else fallback


def _replies(sample: Mapping[str, Any]) -> list[ReplyRead]:
    """Every reply to a doc: several if the task has repeats."""
    readings = sample.get("readings")
    if isinstance(readings, list) and readings:
        return replies_read(sample["resps"][0], readings, sample)
    reading = stored_reading(sample.get("reading"), sample)
    return [ReplyRead(first_reply(sample) or "", sample.get("finish"), reading)]


def replies_read(
    texts: Sequence[Any], readings: Sequence[Mapping[str, Any]], sample: Mapping[str, Any]
) -> list[ReplyRead]:
    """Replies, and how each of them was read."""
    return [
        ReplyRead(str(text), reading.get("finish"), stored_reading(reading, sample))
        for text, reading in zip(texts, readings, strict=True)
    ]


def damaged_sample(sample: Mapping[str, Any], flaw: str) -> ComparisonError:
    """The error about a sample that cannot be understood."""
    return ComparisonError(
        f"Doc {sample.get('doc_id')} of these samples {flaw}: the file is damaged, or made by other "
        "code. Run again with --output_path."
    )


def stored_reading(stored: Any, sample: Mapping[str, Any]) -> Reading:
    """How a reply was read, from what its sample holds."""
    if not isinstance(stored, Mapping):
        raise damaged_sample(sample, "has no `reading`")
    value, span = stored.get("value"), stored.get("span")
    texts = stored.get("rule"), stored.get("no_answer")
    words: list[Any] = [None if text is None else str(text) for text in texts]
    if span is not None:
        start, end = span
        span = int(start), int(end)
    value = tuple(value) if isinstance(value, list) else value
    return Reading(value, words[0], span, words[1])


def loaded_task(run: StoredRun, name: str, include_path: Sequence[str] | None) -> ConfigurableTask:
    """The task of that name as it is now, under the same format."""
    try:
        tasks = TaskManager(include_path).load([name])["tasks"]
    except LmEvalError as error:
        raise ComparisonError(lacking(run, name, str(error))) from None
    task: ConfigurableTask = next(iter(tasks.values()))
    return task


def built_task(run: StoredRun, name: str, include_path: Sequence[str] | None) -> ConfigurableTask:
    """The task from its stored config; if that holds code, from its file as it is now."""
    config = run.results["configs"][name]
    if any(_is_code(value) for value in _leaves(config)):
        return loaded_task(run, name, include_path)
    try:
        return ConfigurableTask({key: config[key] for key in _SCORING_KEYS if key in config})
    except LmEvalError as error:
        raise ComparisonError(lacking(run, name, str(error))) from None


_SCORING_KEYS = (
    *("task", "output_type", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix"),
    *("metric_list", "generation_kwargs", "metadata", "test_split", "process_results"),
)
"""The keys of a stored config that say how an answer is scored."""


def lacking(run: StoredRun, name: str, problem: str) -> str:
    """The message if neither samples nor task say what is needed."""
    return (
        f"{run.path}: the samples of {name!r} do not hold the choices and the gold that a reader needs, "
        f"and the task itself cannot be asked: {problem} Give the folder of its YAML with "
        "--include_path, or run it again."
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _is_code(value: Any) -> bool:
    """Whether a text of a config is the source of a function, as these files hold them."""
    return isinstance(value, str) and value.lstrip().startswith(("def ", "lambda ", "<function "))


@dataclass
class Plain(StoredReplies):
    """The replies of a task without a format; the reader replaces its filter."""

    def __post_init__(self) -> None:
        self._metric, self._filter = primary_metric(self.run.results, self.name, str(self.run.path))
        self._scorer: HarnessScorer | None = None

    def rereading(self) -> Rereading:
        rereading = Rereading(self._metric, (), before=f"filter {self._filter}")
        rereading.items = self._items(rereading.notes)
        return rereading

    def _items(self, notes: list[str]) -> Iterator[ReadAgain]:
        repeats = 1
        for sample in answered_samples(self.run, self.name, self._filter):
            several = [replies for replies in sample["resps"] if isinstance(replies, list)]
            repeats = max([repeats, *map(len, several)])
            yield self._item(sample)
        if repeats > 1:
            notes.append(f"each doc has {repeats} replies; the first is read")

    def _item(self, sample: Mapping[str, Any]) -> ReadAgain:
        reply, doc = first_reply(sample) or "", sample.get("doc")
        if not isinstance(doc, Mapping):
            raise ComparisonError(self._problem(sample, "the sample does not hold the doc."))
        scorer = self._scorer_for(doc)
        try:
            asked = scorer.task.prompts.ask(doc)
        except LmEvalError as error:
            raise ComparisonError(self._problem(sample, str(error))) from None
        labels = labels_for("letters", asked.choices, cuts=False, format_name="")
        reading = read(
            reply,
            (self.reader,),
            labels=labels if asked.choices else (),
            choices=asked.choices,
            prefix=asked.turn.gen_prefix,
            finish=sample.get("finish"),
        )
        after = fitted(reading, "text", labels, asked.choices)
        kept = str(after.value) if after.is_answer else INVALID
        before = self._before(sample, reply)
        return ReadAgain(
            f"doc {sample['doc_id']}",
            int(sample["doc_id"]),
            reply,
            str(sample.get("target")),
            before,
            Verdict(
                self._number(self._values(scorer, doc, kept).get(self._metric)),
                str(after.value) if after.is_answer else None,
                after.rule,
                after.span,
                after.reason,
            ),
            None if sample.get("cluster") is None else str(sample["cluster"]),
        )

    def _before(self, sample: Mapping[str, Any], reply: str) -> Verdict:
        kept = sample.get("filtered_resps") or [reply]
        while isinstance(kept, list | tuple) and kept:
            kept = kept[0]
        score = self._number(sample.get(self._metric))
        if kept == INVALID:
            return Verdict(score, None, reason="unreadable")
        return Verdict(score, str(kept), f"filter {self._filter}")

    def _values(self, scorer: HarnessScorer, doc: Mapping[str, Any], kept: str) -> Any:
        own = scorer.task.own_process_results
        return own(doc, [kept]) if own is not None else scorer.values_of(doc, [kept])

    def _problem(self, sample: Mapping[str, Any], problem: str) -> str:
        return (
            f"{self.run.path}: doc {sample['doc_id']} of {self.name!r} cannot be read again with what "
            f"the files hold of its task: {problem}"
        )

    def _number(self, value: Any) -> float:
        if isinstance(value, bool | int | float) and math.isfinite(value):
            return float(value)
        raise ComparisonError(
            f"{self.name}: metric {self._metric!r} has no number for each item, so answers cannot be "
            "scored again one by one."
        )

    def _scorer_for(self, doc: Mapping[str, Any]) -> HarnessScorer:
        """The scorer of this task."""
        if self._scorer is None:
            task = built_task(self.run, self.name, self.include_path)
            task.eval_docs = [doc]  # its fields are all that is needed; no data is loaded
            self._scorer = HarnessScorer(task)
        return self._scorer
