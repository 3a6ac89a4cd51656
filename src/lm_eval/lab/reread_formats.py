"""The replies of a task under a format, read again with another reader and scored by the same metric.

What a reader needs beside the reply stands in the samples (``read_with``); for samples without it, the
task is loaded by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.errors import ComparisonError
from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import BoundReader, Reading, fitted, read
from lm_eval.lab.measured import primary_metric
from lm_eval.lab.reader_spec import stored_reader
from lm_eval.lab.reread_items import (
    ReadAgain,
    Rereading,
    Verdict,
    answered_samples,
    first_reply,
    in_words,
)
from lm_eval.lab.reread_tasks import lacking, loaded_task
from lm_eval.lab.stored import StoredRun
from lm_eval.registry import METRICS
from lm_eval.scoring.metrics import Metric
from lm_eval.scoring.outcomes import TextOutcome
from lm_eval.tasks.prompts import FormatPrompts
from lm_eval.tasks.task import ConfigurableTask

FALLBACK_METRIC = "acc"


class UnderFormat:
    """The replies of a task under a format."""

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
        found.items = self._items()
        return found

    def _items(self) -> Iterator[ReadAgain]:
        for sample in answered_samples(self._run, self._name, None):
            yield self._item(sample)

    def _item(self, sample: Mapping[str, Any]) -> ReadAgain:
        reply = first_reply(sample) or ""
        given = sample.get("read_with") or self._from_task(sample)
        answers: AnswerKind = given.get("answers", "choice")
        labels, choices = tuple(given.get("labels", ())), tuple(given.get("choices", ()))
        gold = tuple(tuple(one) if isinstance(one, list) else one for one in given["gold"])
        shown = choices[: len(labels)] if labels else choices
        reading = read(
            reply,
            (self._reader,),
            labels=labels,
            choices=shown,
            prefix=given.get("prefix") if self._is_prefilled else None,
            finish=sample.get("finish"),
        )
        after = fitted(reading, answers, labels, shown)
        before = _stored_reading(sample)
        return ReadAgain(
            f"doc {sample['doc_id']}",
            int(sample["doc_id"]),
            reply,
            in_words(gold[0], answers, choices),
            self._verdict(TextOutcome(reply, before, gold, answers, choices), sample),
            self._verdict(TextOutcome(reply, after, gold, answers, choices), None),
            None if sample.get("cluster") is None else str(sample["cluster"]),
        )

    def _verdict(self, outcome: TextOutcome, sample: Mapping[str, Any] | None) -> Verdict:
        """With the stored score where there is one, as other code may have made it."""
        stored = None if sample is None else sample.get(self._metric.name)
        score = self._metric.value(outcome) if stored is None else stored
        reading = outcome.reading
        return Verdict(
            float(score),
            in_words(reading.value, outcome.answers, outcome.choices),
            reading.rule,
            reading.span,
            reading.reason,
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
    empty = TextOutcome("", Reading(0, "", (0, 0)), (0,), "choice", ("",))
    is_number = found.of_text is not None and isinstance(found.value(empty), float)
    return found if is_number else METRICS.get(FALLBACK_METRIC)


def _stored_reading(sample: Mapping[str, Any]) -> Reading:
    stored = sample.get("reading")
    if not isinstance(stored, Mapping):
        raise ComparisonError(
            f"Doc {sample.get('doc_id')} of these samples has no `reading`: the file is damaged, or "
            "made by other code. Run again with --output_path."
        )
    value, span = stored.get("value"), stored.get("span")
    value = tuple(value) if isinstance(value, list) else value
    return Reading(
        value, stored.get("rule"), None if span is None else tuple(span), stored.get("no_answer")
    )
