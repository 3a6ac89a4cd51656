"""Measured inside a process of its own, with this project's ``lm_eval``; prints one JSON object.

``build``: seconds for reading the data and for building all requests. ``read``: replies per second.
``table``: seconds for a results table. Called by ``run.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any

READ_AT_LEAST_S = 0.3
TABLE_ROWS = 400


def build(args: argparse.Namespace) -> dict[str, float]:
    from lm_eval.requests import PromptOptions, build_requests
    from lm_eval.tasks.loader import TaskManager

    start = process_time()
    [task] = TaskManager([str(args.tasks)]).load([args.task])["tasks"].values()
    docs, pool = task.eval_docs, task.fewshot_docs
    loaded = process_time()
    options = PromptOptions(
        num_fewshot=args.shots, as_chat=args.chat is not None, multiturn=args.chat != "single"
    )
    asked = list(build_requests(task, range(len(docs)), options))
    built = process_time()
    assert len(asked) == len(docs)
    assert pool
    return {"load_s": loaded - start, "build_s": built - loaded}


def read(_: argparse.Namespace) -> dict[str, float]:
    from lm_eval.formats.compile import get_format
    from lm_eval.formats.items import Item

    choices = ("a red house", "the green river", "an old bridge", "some blue birds")
    item = Item({}, "Which one?", choices, (2,))
    filler = "First we look at what is asked, then we compare the four candidates one by one. "
    long = (filler * 25)[:2000]
    replies = {
        "choice, short": ("generate", "The best answer is: C."),
        "choice, 2 KB": ("generate", f"{long}\nThe best answer is C) an old bridge"),
        "choice, 2 KB unread": ("generate", long),
        "after_last, short": ("cot", "The final answer is an old bridge."),
        "after_last, 2 KB": ("cot", f"{long}\nThe final answer is an old bridge."),
    }
    speeds = {
        name: _per_second(partial(get_format(fmt).read, reply, item))
        for name, (fmt, reply) in replies.items()
    }
    # In a run every doc has choices of its own, so that nothing is at hand from the doc before.
    items = (replace(item, choices=tuple(f"{choice} {n}" for choice in choices)) for n in count())
    fmt, reply = replies["choice, short"]
    new = _per_second(lambda: get_format(fmt).read(reply, next(items)))
    return {**speeds, "choice, short, new choices": new}


def _per_second(call: Callable[[], object]) -> float:
    calls, start = 0, process_time()
    while process_time() - start < READ_AT_LEAST_S:
        for _ in range(50):
            call()
        calls += 50
    return calls / (process_time() - start)


def table(_: argparse.Namespace) -> dict[str, float]:
    from lm_eval.scoring.results import TaskResult
    from lm_eval.screen.page import score_lines, score_rows
    from lm_eval.stats.estimates import share_estimate

    def result(number: int) -> TaskResult:
        name = f"task_{number}"
        metrics = {"acc": share_estimate(number, TABLE_ROWS)}
        better = {"acc": True}
        return TaskResult(name, name, name, "mcqa", "acc", metrics, better, 100, 100, 0)

    results = [result(number) for number in range(TABLE_ROWS)]
    start = process_time()
    score_lines(score_rows(results, names_tasks=True), width=100)
    return {"table_s": process_time() - start}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=("build", "read", "table"))
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--task")
    parser.add_argument("--shots", type=int, default=0)
    parser.add_argument("--chat", choices=("multi", "single"))
    args = parser.parse_args()
    cases: dict[str, Any] = {"build": build, "read": read, "table": table}
    json.dump(cases[args.case](args), sys.stdout)


if __name__ == "__main__":
    main()
