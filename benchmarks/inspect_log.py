"""Write the samples of a run as a log of inspect: the same items for both viewers.

    /path/to/inspect/python benchmarks/inspect_log.py SAMPLES.jsonl LOG.eval

Runs in an environment with ``inspect_ai`` and imports nothing of ours; ``viewer_inspect.py`` starts it.
A sample gets what inspect records of a model call and its viewer shows: the question, the whole prompt
and the reply as messages, the target, the fields of the doc as metadata, and a score with the answer.
Events are left out, so a real log of inspect is larger.

The values are inspect's, and its own functions read the log back. The archive is written here, since
``write_eval_log`` compares each sample with all before it: 10,000 samples took it 50 CPU seconds, and
100,000 were not done after 15 CPU minutes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import zipfile_zstd  # noqa: F401  (inspect needs it: teaches zipfile to compress as inspect does)
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
    read_eval_log,
    read_eval_log_sample,
)
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score
from pydantic import BaseModel

ZSTANDARD = 93
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
    summaries, right = [], 0
    with ZipFile(target, "w", ZSTANDARD) as archive, source.open(encoding="utf-8") as lines:
        for line in lines:
            sample = sample_of(json.loads(line))
            archive.writestr(f"samples/{sample.id}_epoch_1.json", compact(sample))
            summaries.append(sample.summary())
            right += bool(sample.scores and sample.scores["choice"].value == "C")
        archive.writestr("summaries.json", f"[{','.join(map(compact, summaries))}]")
        archive.writestr("header.json", compact(header(len(summaries), right)))
    assert read_eval_log(str(target), header_only=True).status == "success"
    assert read_eval_log_sample(str(target), len(summaries) - 1).target == sample.target


def compact(value: BaseModel) -> str:
    return value.model_dump_json(exclude_none=True)


def header(samples: int, right: int) -> EvalLog:
    accuracy = EvalMetric(name="accuracy", value=right / samples)
    score = EvalScore(name="choice", scorer="choice", metrics={"accuracy": accuracy})
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=WHEN,
            task="big",
            dataset=EvalDataset(name="big", samples=samples),
            model="model",
            config=EvalConfig(),
        ),
        results=EvalResults(total_samples=samples, completed_samples=samples, scores=[score]),
        stats=EvalStats(started_at=WHEN, completed_at=WHEN),
    )


if __name__ == "__main__":
    main()
