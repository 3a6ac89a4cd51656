"""Runs for tests of the viewer: real ones of the dummy model, and such with text that means harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.command_line import Workplace

HOSTILE = (
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "\u202eright to left\u202c, zero\u200bwidth",
    "NUL \x00, escape \x1b[31mred\x1b[0m",
    "{{ 7 * 7 }} ${7*7} <!-- --> ]]> &lt;b&gt;",
    "a\U0001f600b 中文 עברית",
    "lone \ud800 surrogate",
)
"""Replies and questions that a page must show as they are."""


def four_formats(folder: Path, limit: int = 12) -> Workplace:
    """The demo task under four formats, asked of the dummy model, in ``folder/out``."""
    place = Workplace(folder)
    tasks = ",".join(f"demo_mcq@{name}" for name in ("mcqa", "cloze", "generate", "cot"))
    place.run("--tasks", tasks, "--limit", str(limit)).ok()
    return place


def rewritten(path: Path, change: Any) -> None:
    """Replace each sample of a file by what ``change`` makes of it and its place."""
    samples = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for place, sample in enumerate(samples):
        change(place, sample)
    path.write_text("".join(json.dumps(one) + "\n" for one in samples), "utf-8")


def hostile(folder: Path) -> Workplace:
    """Questions and replies that are markup, control characters and turned text."""
    place = Workplace(folder)
    place.rows(count=len(HOSTILE))
    name = place.task(task="<img src=x onerror=alert(1)>", formats=...)
    place.run("--tasks", f"{name}@mcqa", f"{name}@generate").ok()

    def change(at: int, sample: dict[str, Any]) -> None:
        sample["doc"]["question"] = HOSTILE[at]
        if sample["format"] == "generate":
            sample["resps"] = sample["filtered_resps"] = [[f"A {HOSTILE[at]}"]]
            value = {"value": 0, "answer": "w", "rule": "choice:label", "span": [0, 1]}
            sample["reading"] = {**value, "no_answer": None}
        else:
            for arguments in sample["arguments"].values():
                arguments["arg_0"] = HOSTILE[at]

    for path in place.output.rglob("samples_*.jsonl"):
        rewritten(path, change)
    return place
