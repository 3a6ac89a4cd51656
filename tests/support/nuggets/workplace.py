"""A folder with nuggets and answers, and ``nugget-eval`` run in it: what tests of the judge share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nugget_eval.cli import main
from tests.support.command_line import Outcome, run_inside

CHAT = "/v1/chat/completions"
TOPICS: dict[str, tuple[str, list[str]]] = {
    "t1": (
        "Air scatters blue light more strongly than red light. Sunsets look red.",
        ["Air scatters blue light", "Sunsets look red", "Snow is white", "Light has no weight"],
    ),
    "t2": (
        "Water boils at 100 degrees. Ice floats on water because it is less dense.",
        ["Ice floats on water", "Water freezes at 0 degrees", "Mercury is a metal"],
    ),
}


@dataclass
class Workplace:
    """A folder with ``nuggets.jsonl`` and ``answers.jsonl``, whose files tests overwrite at will."""

    folder: Path

    def __post_init__(self) -> None:
        self.topics(TOPICS)

    def topics(self, topics: Mapping[str, tuple[str, list[str]]]) -> None:
        """Write both files: topic → answer and nuggets, the first two of which are vital."""
        nuggets = [
            {
                "qid": qid,
                "query": f"what about {qid}",
                "nuggets": [
                    {"text": text, "importance": "vital" if place < 2 else "okay"}
                    for place, text in enumerate(texts)
                ],
            }
            for qid, (_, texts) in topics.items()
        ]
        answers = [answer("r1", qid, passage) for qid, (passage, _) in topics.items()]
        self.rows("nuggets.jsonl", nuggets)
        self.rows("answers.jsonl", answers)

    def rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def cli(self, *argv: str) -> Outcome:
        """Run a command in this process, inside the folder."""
        return run_inside(self.folder, main, argv)

    def run(self, url: str, *argv: str, data: Sequence[str] | None = None) -> Outcome:
        """``nugget-eval run`` against a server; files go to ``out``."""
        return self.cli("run", *(DATA if data is None else data), *self.model(url), *argv)

    def model(self, url: str) -> list[str]:
        pairs = f"model=toy,base_url={url}{CHAT},num_concurrent=4,max_retries=1"
        model = ["--model", "local-chat-completions", "--model_args", pairs]
        return [*model, "--output_path", "out", "--prompt_type", "no_reasoning"]

    def labels(self, folder: str = "out") -> dict[str, list[str | None]]:
        """Topic → labels, as the assignments file has them."""
        rows = self.read(f"{folder}/assignments.jsonl")
        return {row["qid"]: [one["assignment"] for one in row["nuggets"]] for row in rows}

    def replies(self) -> list[dict[str, Any]]:
        return self.read("out/replies.jsonl")

    def summary(self, folder: str = "out") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            (self.folder / folder / "summary.json").read_text("utf-8")
        )
        return found

    def read(self, name: str) -> list[dict[str, Any]]:
        text = (self.folder / name).read_text("utf-8")
        return [json.loads(line) for line in text.split("\n") if line]


DATA = ("--nuggets", "nuggets.jsonl", "--answers", "answers.jsonl")


def answer(run_id: str, qid: str, text: str) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "topic_id": qid,
        "topic": f"what about {qid}",
        "references": ["d1"],
        "response_length": len(text.split()),
        "answer": [{"text": text, "citations": [0]}],
    }
