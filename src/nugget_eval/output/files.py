"""An evaluation → its files: assignments, metrics, every reply, and a summary. Text stays data.

``replies.jsonl`` holds, line by line, what was asked, what came back and how it was read;
``scripts/interactive_analysis.py`` shows it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.support.encode import plain
from lm_eval.support.files import remove_abandoned, unique_name, write_output, write_whole
from lm_eval.support.secrets import known_secrets, redacted
from nugget_eval.data.files import write_records, write_rows
from nugget_eval.data.items import NuggetItem
from nugget_eval.files import ASSIGNMENTS, REPLIES, SUMMARY
from nugget_eval.judge.evaluation import Evaluation
from nugget_eval.judge.judge import Judged, JudgedReply
from nugget_eval.reading.outcome import LabelReading
from nugget_eval.reading.spellings import LABELS, Label
from nugget_eval.scores.scores import RunScores


def write_files(folder: Path, done: Evaluation, runs: Iterable[RunScores]) -> list[Path]:
    """Write everything about an evaluation below ``folder``; the files, the summary last."""
    runs = list(runs)
    written = [folder / ASSIGNMENTS]
    write_records(written[0], done.records())
    for name, run in metrics_names(runs).items():
        write_rows(folder / name, run.to_metrics())
        written.append(folder / name)
    secrets = known_secrets()
    write_rows(folder / REPLIES, map(secrets.cleaned, reply_rows(done)))
    content = secrets.cleaned(summary_dict(done, runs))
    summary = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    write_whole(folder / SUMMARY, f"{_clean(summary)}\n")
    remove_abandoned(folder)
    return [*written, folder / REPLIES, folder / SUMMARY]


def metrics_names(runs: Sequence[RunScores]) -> dict[str, RunScores]:
    """File name → run; the name of the run is in it if there are several."""
    if len(runs) == 1:
        return {"metrics.jsonl": runs[0]}
    taken: list[str] = []
    for run in runs:
        taken.append(unique_name(run.run_id or "unnamed", taken))
    return {f"metrics_{name}.jsonl": run for name, run in zip(taken, runs, strict=True)}


def _clean(text: str) -> str:
    """``text`` with lone surrogates escaped, so that it can be encoded."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write one JSON file; an error if it cannot be written."""
    write_output(path, f"{json.dumps(known_secrets().cleaned(value), indent=2, default=str)}\n")


# Replies


def reply_rows(done: Evaluation) -> Iterator[dict[str, Any]]:
    """What ``replies.jsonl`` holds: one object for each reply."""
    for judged in done.judged:
        for reply in judged.replies:
            row = reply_row(judged.name, done.items[reply.call.item], reply)
            row["format_type"] = done.config.model.format_type
            if judged.held_by is not None:
                row["held_by"] = judged.held_by
            if reply.prompt is not None:
                row["prompt"] = reply.prompt.as_dicts()
            yield row


def reply_row(judge: str, item: NuggetItem, reply: JudgedReply) -> dict[str, Any]:
    """A reply, what was asked, and how it was read."""
    call, reading = reply.call, reply.reading
    row: dict[str, Any] = {
        "judge": judge,
        "item": call.item,
        "qid": item.qid,
        "unit": item.unit,
        "stage": call.stage,
        "permutation": call.permutation,
        "nuggets": [number + 1 for number in call.numbers],
        "texts": [item.nuggets[number].text for number in call.numbers],
        "asked_again_because": call.problem,
        "labels": list(reply.labels),
        "problem": reply.problem,
        "reply": reply.text,
        "finish": reply.finish,
        "max_tokens": call.max_tokens,
        "expected_count": call.count,
    }
    if item.gold:
        row["gold"] = [item.gold[number] for number in call.numbers]
    if reading is not None:
        row |= {
            "format_used": reading.format_used,
            "conforms": reading.conforms,
            "error_type": reading.error_type,
            "reason": reading.reason,
            "rule": reading.rule,
            "span": reading.span,
        }
    if reply.scores is not None:
        row["log_likelihoods"] = dict(reply.scores)
    if reply.evidence is not None:
        row["evidence"] = plain(reply.evidence)
    if any(reply.verdicts):
        row["snippets"] = list(reply.verdicts)
    if reply.thinking is not None:
        row["thinking"] = reply.thinking
    if reply.failed is not None:
        row["failed"] = reply.failed
    return row


# Summary


def summary_dict(done: Evaluation, runs: Iterable[RunScores]) -> dict[str, Any]:
    """Everything about an evaluation but its labels and replies, ready for JSON."""
    agreed, raters = done.agreement(), done.raters()
    return {
        "version": lm_eval.VERSION,
        "command": list(done.command),
        "config": done.config.to_dict(),
        "prompts": {
            name: {key: getattr(info, key) for key in ("version", "fingerprint", "reasons")}
            for name, info in done.prompts.items()
        },
        "coverage": {"labelled": done.labelled, "total": done.total, "share": done.share},
        "labels": label_counts(done.flat_labels),
        "judges": [judge_dict(judged, done) for judged in done.judged],
        "scores": plain(list(runs)),
        "agreement": plain(agreed),
        "between_judges": plain(raters),
        "notes": list(done.loaded.notes),
        "seconds": round(done.seconds, 3),
    }


def judge_dict(judged: Judged, done: Evaluation) -> dict[str, Any]:
    """What one judge did: replies by kind, costs, and whether the order of nuggets matters to it."""
    usage: dict[str, Any] = judged.usage.as_dict()
    prices = done.prices.get(judged.name)
    if prices is not None:
        usage["cost"] = float(prices.cost(judged.usage))
        usage["currency"] = prices.currency
    return {
        "name": judged.name,
        "model": redacted(judged.facts),
        "labels": label_counts(judged.flat_labels),
        "replies": plain(count_replies(judged)),
        "order": order_dict(judged),
        "usage": usage,
    }


@dataclass(frozen=True)
class ReplyCounts:
    """How the replies of a judge were read."""

    total: int
    complete: int
    """Replies with a label for every nugget that was asked."""
    by_stage: Mapping[str, int]
    problems: Mapping[str, int]
    """Why labels were missing → replies."""
    formats: Mapping[str, int]
    conforming: int | None
    """Replies with an answer in the format that was asked for; None if any format would do."""
    failed: int
    snippets: Mapping[str, int]


def count_replies(judged: Judged) -> ReplyCounts:
    """The replies of a judge by how they were read."""
    replies = judged.replies
    readings = [reply.reading for reply in replies if reply.reading is not None]
    return ReplyCounts(
        len(replies),
        sum(reply.problem is None for reply in replies),
        dict(Counter(reply.call.stage for reply in replies)),
        dict(Counter(reply.problem for reply in replies if reply.problem is not None)),
        dict(Counter(reading.format_used for reading in readings)),
        _conforming(readings),
        judged.failed,
        dict(Counter(v for reply in replies for v in reply.verdicts if v is not None)),
    )


def _conforming(readings: Sequence[LabelReading]) -> int | None:
    told = [reading.conforms for reading in readings if reading.conforms is not None]
    return sum(told) if told else None


def order_dict(judged: Judged) -> dict[str, Any] | None:
    """Whether labels depend on the order: nuggets with one label in all orders, and labels by place.

    None if each batch was asked in one order.
    """
    asked = [votes for item in judged.votes for votes in item if len(votes) > 1]
    if not asked:
        return None
    complete = [votes for votes in asked if None not in votes]
    places: dict[int, Counter[str]] = {}
    for reply in judged.replies:
        for place, label in enumerate(reply.labels, 1):
            if reply.call.stage == "ask":
                places.setdefault(place, Counter())[label or "missing"] += 1
    return {
        "nuggets": len(complete),
        "same_in_all_orders": sum(len(set(votes)) == 1 for votes in complete),
        "labels_by_place": {place: dict(counts) for place, counts in sorted(places.items())},
    }


def label_counts(labels: Iterable[Label | None]) -> dict[str, int]:
    """How often each label occurs, missing ones last."""
    counts = Counter(labels)
    return {**{label: counts[label] for label in LABELS}, "missing": counts[None]}
