"""A judge behind a real socket that really judges: a nugget is supported if the passage contains it.

``ToyJudge`` is the ``answer(path, body)`` of a ``FaultyServer``. ``style`` turns its labels into a
reply, well or badly; what it was asked is in ``asked``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nugget_eval.prompts import Data, cut_out
from tests.support.nuggets.workplace import TOPICS, Workplace

Style = Callable[["Question"], "str | dict[str, Any]"]


@dataclass(frozen=True)
class Question:
    """What the server was asked, and the labels that it thinks right."""

    data: Data
    labels: tuple[str, ...]
    body: dict[str, Any]
    prompt: str

    @property
    def is_again(self) -> bool:
        return "An earlier reply" in self.prompt


def plain(question: Question) -> str:
    return json.dumps(list(question.labels))


def reasoned(question: Question) -> str:
    """A reply to a prompt that asks for reasoning, with snippets from the passage."""
    items = [
        f'{k}.\n  nugget="{nugget}"\n  snippet="{nugget if label == "support" else ""}"\n'
        f'  rationale="read"\n  decision="{label}"\n'
        for k, (nugget, label) in enumerate(
            zip(question.data.nuggets, question.labels, strict=True), 1
        )
    ]
    return f"<reasoning>\n{''.join(items)}</reasoning>\n{plain(question)}"


def better_with_reasoning(question: Question) -> str:
    """Right where reasoning is asked for, else everything is supported."""
    if "<reasoning>" in question.body["messages"][0]["content"]:
        return reasoned(question)
    return json.dumps(["support"] * len(question.labels))


def judged(data: Data) -> tuple[str, ...]:
    text = data.passage.lower()

    def label(nugget: str) -> str:
        if nugget.lower() in text:
            return "support"
        words = [word for word in nugget.lower().split() if len(word) > 3]
        return "partial_support" if any(word in text for word in words) else "not_support"

    return tuple(label(nugget.rstrip(".")) for nugget in data.nuggets)


def gold(work: Workplace) -> str:
    """Write ``gold.jsonl``, the labels that the judge thinks right; its name."""
    rows = [
        {
            "qid": qid,
            "run_id": "r1",
            "nuggets": [
                {"text": text, "assignment": label}
                for text, label in zip(texts, judged(Data("", passage, tuple(texts))), strict=True)
            ],
        }
        for qid, (passage, texts) in TOPICS.items()
    ]
    return work.rows("gold.jsonl", rows)


@dataclass
class ToyJudge:
    """Answers chat requests as ``style`` says."""

    style: Style = plain
    judges: Callable[[Data], Sequence[str]] = judged
    asked: list[Question] = field(default_factory=list)

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        prompt = body["messages"][-1]["content"]
        data = cut_out(prompt)
        question = Question(data, tuple(self.judges(data)), body, prompt)
        self.asked.append(question)
        said = self.style(question)
        choice = said if isinstance(said, dict) else {"message": {"content": said}}
        if "status" in choice:
            return choice["status"], {"error": {"message": choice["error"]}}
        choice = {"index": 0, "finish_reason": "stop", **choice}
        tokens = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 9}
        return 200, {"choices": [choice], "usage": tokens}
