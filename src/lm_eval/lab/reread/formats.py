"""The replies of a task under a format, read again with another reader and scored by the same metric.

What a reader needs besides the reply is in the samples (``read_with``); for samples without it, the
task is loaded by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from lm_eval.errors import ComparisonError
from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import BoundReader, Reading, fitted, read
from lm_eval.lab.reread.items import (
    ReadAgain,
    Rereading,
    Verdict,
    answered_samples,
    first_reply,
    in_words,
)
from lm_eval.lab.reread.reader_spec import stored_reader
from lm_eval.lab.reread.tasks import lacking, loaded_task
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import StoredRun
from lm_eval.registry import METRICS
from lm_eval.scoring.metrics import Metric, TextOutcome
from lm_eval.tasks.prompts import FormatPrompts
from lm_eval.tasks.task import ConfigurableTask

FALLBACK_METRIC = "acc"


@dataclass(frozen=True)
class StoredQuestion:
    """What a reader and a metric need to know of a doc."""

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


class UnderFormat:
    """The replies of a task under a format, to the choices in the order of the data."""

    def __init__(
        self,
        run: StoredRun,
        name: str,
        reader: BoundReader,
        include_path: Sequence[str] | None,
    ) -> None:
        self._run, self._name, self._reader = run, name, reader
        self._include_path = include_path
        fingerprint = str(run.results.get("fingerprints", {}).get(name, {}).get("format", ""))
        self._is_prefilled = not fingerprint.endswith("-without-gen_prefix")
        self._task: ConfigurableTask | None = None
        self._metric = _item_metric(run, name)

    def rereading(self) -> Rereading:
        facts = self._run.results["formats"][self._name]
        found = Rereading(self._metric.name, (), before=stored_reader(facts))
        found.items = self._items(found.notes)
        return found

    def _items(self, notes: list[str]) -> Iterator[ReadAgain]:
        most, has_labels, num_read = 1, False, 0
        for sample in answered_samples(self._run, self._name, None):
            replies, asked = self._known(sample)
            most = max(most, len(replies))
            has_labels = has_labels or bool(asked.labels)
            for number, reply in enumerate(replies, start=1):
                is_part = len(replies) > 1
                words = f"reply {number}" if is_part else ""
                stored = None if is_part else sample.get(self._metric.name)
                item = self._item(sample, asked, reply, self._again(asked, reply), words, stored)
                num_read += item.after.is_read
                yield item
        if not has_labels and not num_read:
            notes.append(
                "the prompts of this format show no labels, so that a letter in a reply names no "
                "choice; only the text of a choice does"
            )
        if most > 1:
            notes.append(
                f"each doc has {most} replies, all of which are read; its score is their mean"
            )

    def _known(self, sample: Mapping[str, Any]) -> tuple[list[ReplyRead], StoredQuestion]:
        """What a sample says of its replies and of its doc."""
        try:
            return _replies(sample), self._asked(sample)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise damaged_sample(sample, "holds no reading that can be understood") from None

    def _again(self, asked: StoredQuestion, reply: ReplyRead) -> Reading:
        """The new reader's reading of a reply."""
        shown = asked.choices[: len(asked.labels)] if asked.labels else asked.choices
        reading = read(
            reply.text,
            (self._reader,),
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
        """One reply; ``part`` says which of several, ``stored`` is its score where that is known."""
        doc_id, cluster = int(sample["doc_id"]), sample.get("cluster")
        if stored is not None and not (isinstance(stored, int | float) and isfinite(stored)):
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
        """With the stored score where there is one, as other code may have made it."""
        outcome = TextOutcome(text, reading, asked.gold, asked.answers, asked.choices)
        score = self._metric.value(outcome) if stored is None else stored
        return Verdict(
            float(score),
            in_words(reading.value, asked.answers, asked.choices),
            reading.rule,
            reading.span,
            reading.reason,
        )

    def _asked(self, sample: Mapping[str, Any]) -> StoredQuestion:
        given = sample.get("read_with") or self._from_task(sample)
        if not given["gold"]:
            raise ValueError(given)
        return StoredQuestion(
            given.get("answers", "choice"),
            tuple(given.get("labels", ())),
            tuple(given.get("choices", ())),
            tuple(tuple(one) if isinstance(one, list) else one for one in given["gold"]),
            given.get("prefix"),
        )

    def _from_task(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """What older samples do not hold, from the task as it is now."""
        if self._task is None:
            self._task = loaded_task(self._run, self._name, self._include_path)
        task = self._task
        if not isinstance(task.prompts, FormatPrompts) or task.format is None:
            raise ComparisonError(lacking(self._run, self._name, "it has no such format now"))
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
    found: Metric = METRICS.get(metric if metric in METRICS else FALLBACK_METRIC)
    fallback: Metric = METRICS.get(FALLBACK_METRIC)
    if found.of_text is None:
        return fallback
    tried = [
        found.value(TextOutcome("", reading, (0,), "choice", ("",)))
        for reading in (Reading(0, "", (0, 0)), Reading.unread("empty"))
    ]
    is_number = all(isinstance(value, float) for value in tried)
    return found if is_number else fallback


def _replies(sample: Mapping[str, Any]) -> list[ReplyRead]:
    """Every reply to a doc: several where the task has repeats."""
    several = sample.get("readings")
    if isinstance(several, list) and several:
        texts = sample["resps"][0]
        return [
            ReplyRead(str(text), one.get("finish"), stored_reading(one, sample))
            for text, one in zip(texts, several, strict=True)
        ]
    reading = stored_reading(sample.get("reading"), sample)
    return [ReplyRead(first_reply(sample) or "", sample.get("finish"), reading)]


def damaged_sample(sample: Mapping[str, Any], what: str) -> ComparisonError:
    """The error about a sample that cannot be understood."""
    return ComparisonError(
        f"Doc {sample.get('doc_id')} of these samples {what}: the file is damaged, or made by other "
        "code. Run again with --output_path."
    )


_WORDS = ("rule", "no_answer")


def stored_reading(stored: Any, sample: Mapping[str, Any]) -> Reading:
    """How a reply was read, as a sample says it."""
    if not isinstance(stored, Mapping):
        raise damaged_sample(sample, "has no `reading`")
    value, span = stored.get("value"), stored.get("span")
    value = tuple(value) if isinstance(value, list) else value
    words: list[Any] = [None if one is None else str(one) for one in map(stored.get, _WORDS)]
    if span is not None:
        start, end = span
        span = int(start), int(end)
    return Reading(value, words[0], span, words[1])
