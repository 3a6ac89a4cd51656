"""Write the samples of a run as a log of inspect: the same items for both viewers.

    /path/to/inspect/python benchmarks/inspect_log.py SAMPLES.jsonl LOG.eval

Runs in an environment with ``inspect_ai`` and imports nothing of ours; ``viewer_inspect.py`` starts it.
A sample gets what inspect records of a model call and its viewer shows: the question, the whole prompt
and the reply as messages, the target, the fields of the doc as metadata, and a score with the answer.
Events are left out, so a real log of inspect is larger.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score

WHEN = "2026-01-02T03:04:05+00:00"


def sample_of(row: dict[str, Any]) -> EvalSample:
    """A line of a samples file, as inspect keeps it."""
    prompt = row["arguments"]["gen_args_0"]["arg_0"]
    reply = row["resps"][0][0]
    reading = row["reading"]
    answer = None if reading["value"] is None else "ABCD"[reading["value"]]
    score = Score(
        value="C" if row["acc"] == 1.0 else "I",
        answer=answer,
        explanation=reading["rule"] or reading["no_answer"],
    )
    return EvalSample(
        id=row["doc_id"],
        epoch=1,
        input=row["doc"]["question"],
        target=row["target"],
        messages=[ChatMessageUser(content=prompt), ChatMessageAssistant(content=reply)],
        output=ModelOutput.from_content("model", reply),
        scores={"choice": score},
        metadata=row["doc"],
    )


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    with source.open(encoding="utf-8") as lines:
        samples = [sample_of(json.loads(line)) for line in lines]
    right = sum(sample.scores["choice"].value == "C" for sample in samples if sample.scores)
    accuracy = EvalMetric(name="accuracy", value=right / len(samples))
    score = EvalScore(name="choice", scorer="choice", metrics={"accuracy": accuracy})
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=WHEN,
            task="big",
            dataset=EvalDataset(name="big", samples=len(samples)),
            model="model",
            config=EvalConfig(),
        ),
        results=EvalResults(
            total_samples=len(samples), completed_samples=len(samples), scores=[score]
        ),
        stats=EvalStats(started_at=WHEN, completed_at=WHEN),
        samples=samples,
    )
    write_eval_log(log, target)


if __name__ == "__main__":
    main()
