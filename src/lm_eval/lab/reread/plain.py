"""The replies of a task without a format, read again: the reader replaces its filter.

What the reader leaves of a reply is scored by the task's own metrics, as in EleutherAI's harness.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.errors import ComparisonError, LmEvalError
from lm_eval.formats.items import labels_for
from lm_eval.formats.readers import BoundReader, fitted, read
from lm_eval.harness.scorer import INVALID, HarnessScorer
from lm_eval.lab.reread.items import (
    ReadAgain,
    Rereading,
    Verdict,
    answered_samples,
    first_reply,
)
from lm_eval.lab.reread.tasks import built_task
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import StoredRun


class Plain:
    """The replies of a task without a format; the reader replaces its filter."""

    def __init__(
        self,
        run: StoredRun,
        name: str,
        reader: BoundReader,
        include_path: Sequence[str] | None,
    ) -> None:
        self._run, self._name, self._reader = run, name, reader
        self._include_path = include_path
        self._metric, self._filter = primary_metric(run.results, name, str(run.path))
        self._scorer: HarnessScorer | None = None

    def rereading(self) -> Rereading:
        found = Rereading(self._metric, (), before=f"filter {self._filter}")
        found.items = self._items(found.notes)
        return found

    def _items(self, notes: list[str]) -> Iterator[ReadAgain]:
        repeats = 1
        for sample in answered_samples(self._run, self._name, self._filter):
            repeats = max(repeats, *(len(one) for one in sample["resps"] if isinstance(one, list)))
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
            (self._reader,),
            labels=labels if asked.choices else (),
            choices=asked.choices,
            prefix=asked.turn.gen_prefix,
            finish=sample.get("finish"),
        )
        after = fitted(reading, "text", labels, asked.choices)
        left = str(after.value) if after.is_answer else INVALID
        before = self._before(sample, reply)
        return ReadAgain(
            f"doc {sample['doc_id']}",
            int(sample["doc_id"]),
            reply,
            str(sample.get("target")),
            before,
            Verdict(
                self._number(self._values(scorer, doc, left).get(self._metric)),
                str(after.value) if after.is_answer else None,
                after.rule,
                after.span,
                after.reason,
            ),
            None if sample.get("cluster") is None else str(sample["cluster"]),
        )

    def _before(self, sample: Mapping[str, Any], reply: str) -> Verdict:
        kept = sample.get("filtered_resps") or [reply]
        left = kept[0] if isinstance(kept, list) else kept
        while isinstance(left, list | tuple) and left:
            left = left[0]
        score = self._number(sample.get(self._metric))
        if left == INVALID:
            return Verdict(score, None, reason="unreadable")
        return Verdict(score, str(left), f"filter {self._filter}")

    def _values(self, scorer: HarnessScorer, doc: Mapping[str, Any], left: str) -> Any:
        own = scorer.task.own_process_results
        return own(doc, [left]) if own is not None else scorer.values_of(doc, [left])

    def _problem(self, sample: Mapping[str, Any], what: str) -> str:
        return (
            f"{self._run.path}: doc {sample['doc_id']} of {self._name!r} cannot be read again with what "
            f"the files hold of its task: {what}"
        )

    def _number(self, value: Any) -> float:
        if isinstance(value, bool | int | float) and math.isfinite(value):
            return float(value)
        raise ComparisonError(
            f"{self._name}: metric {self._metric!r} has no number for each item, so answers cannot be "
            "scored again one by one."
        )

    def _scorer_for(self, doc: Mapping[str, Any]) -> HarnessScorer:
        """What scores this task."""
        if self._scorer is None:
            task = built_task(self._run, self._name, self._include_path)
            task.eval_docs = [
                doc
            ]  # its fields are all that is asked of the task; no data is loaded
            self._scorer = HarnessScorer(task)
        return self._scorer
