"""Counts the names of lm-eval 0.4.13 in the library whose default asks and scores as that harness does.

    python scripts/same_names.py /path/to/lm_eval/tasks [NAME ...]

Both sides get the invented rows of the library and answers of one deterministic model. The other side is
that harness's task file, run by our reading of it, which the differential tests hold to the original.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
import warnings
from collections import Counter
from functools import reduce
from operator import getitem
from typing import Any
from unittest.mock import MagicMock

from lm_eval.errors import DataError
from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests
from lm_eval.requests.options import shot_count
from lm_eval.scoring.overlap import squad_em, squad_f1
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask

COLUMNS = {
    "rte": {"sentence1": "premise", "sentence2": "hypothesis"},
    "aime24": {"Problem": "problem", "Answer": "answer"},
    "pubmedqa": {"QUESTION": "question", "CONTEXTS": "context.contexts"},
}
"""Task → column of the copy of the data there → the column here."""
STUBS = (
    "transformers.data.metrics.squad_metrics",
    "evaluate",
    "rouge_score",
    "immutabledict",
    "nltk",
)
"""Modules that its helpers import for scores alone."""


def main(folder: str, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for stub in STUBS:
        for name in (stub[: at.start()] for at in re.finditer(r"\.|$", stub)):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
            sys.modules.setdefault(name, MagicMock())
    squad = sys.modules[STUBS[0]]
    squad.compute_exact = lambda gold, answer: squad_em(answer, [gold])
    squad.compute_f1 = lambda gold, answer: squad_f1(answer, [gold])
    sys.modules["transformers.data.metrics"].squad_metrics = squad
    ours = TaskManager(run_code=False, parity=True, sample_rows="always")
    theirs = TaskManager(include_path=folder, include_defaults=False, parity=True)
    shared = [name for name in ours.names("task") if name in theirs.index]
    found = {name: difference(name, ours, theirs) for name in names or shared}
    print(json.dumps(found, indent=1, ensure_ascii=False))
    kinds = Counter(text.partition(":")[0].partition(" with")[0] for text in found.values())
    print(len(found), "names:", dict(kinds.most_common()), file=sys.stderr)


def difference(name: str, ours: TaskManager, theirs: TaskManager) -> str:
    """What differs first, or ``same``."""
    try:
        (here,) = ours.load([name])["tasks"].values()
        others = list(theirs.load([name])["tasks"].values())
        return _compared(here, others[0]) if len(others) == 1 else _of_group(here, others)
    except Exception as error:
        return f"error: {type(error).__name__} {str(error)[:300]}"


def _compared(here: ConfigurableTask, other: ConfigurableTask) -> str:
    rows = _rows(here)
    shots = [shot_count(task, PromptOptions()) for task in (here, other)]
    if shots[0] != shots[1]:
        return f"shots: {shots[0]}, there {shots[1]}"
    counts = (shots[0],) if other.config.num_fewshot == 0 else (shots[0], 2)
    for count in dict.fromkeys(counts):
        kind = "prompt" if count == shots[0] else "examples"
        mine, its = (_requests(task, rows, count) for task in (here, other))
        for one, another in zip(mine, its, strict=False):
            if one != another:
                return f"{kind}: {one!r}, there {another!r}"
        if len(mine) != len(its):
            return f"{kind}: {len(mine)} requests, there {len(its)}"
    return _scored(here, other)


def _of_group(here: ConfigurableTask, others: list[ConfigurableTask]) -> str:
    """As ``_compared``, for a task that is a group there; each member has some of the rows."""
    rows = _rows(here)
    count = shot_count(here, PromptOptions())
    wanted = {shot_count(other, PromptOptions()) for other in others}
    if wanted != {count}:
        return f"shots: {count}, there {wanted}"
    asked = {request[1:] for request in _requests(here, rows, count)}
    its, member = set(), others[0]
    for other in others:
        with contextlib.suppress(DataError):  # none of the rows is of its part
            its |= {request[1:] for request in _requests(other, rows, count)}
            member = other
    if asked != its:
        return (
            f"prompt: {min(asked - its, default=None)!r}, there {min(its - asked, default=None)!r}"
        )
    return _scored(here, member)


def _rows(task: ConfigurableTask) -> list[dict[str, Any]]:
    """The invented rows, with the columns of the copy there."""
    rows = task.splits[_split(task)].to_list()
    columns = COLUMNS.get(task.name, {})
    return [
        {**row, **{there: reduce(getitem, here.split("."), row) for there, here in columns.items()}}
        for row in rows
    ]


def _scored(here: ConfigurableTask, other: ConfigurableTask) -> str:
    """What differs in the scores of one deterministic model."""
    mine, its = _scores(here), _scores(other)
    missing = sorted(its.keys() - mine.keys())
    if missing:
        return f"keys: {missing}, here {sorted(mine)}"
    differing = [
        f"{key} {mine[key]}, there {its[key]}" for key in its if abs(mine[key] - its[key]) > 1e-9
    ]
    return f"scores: {'; '.join(differing)}" if differing else "same"


def _requests(task: ConfigurableTask, rows: list[dict[str, Any]], shots: int) -> list[Any]:
    if "samples" not in (task.config.fewshot_config or {}):
        task.config.fewshot_config = {**(task.config.fewshot_config or {}), "sampler": "first_n"}
        task.config.fewshot_config.pop("split", None)
    task.config.fewshot_split = "examples"
    task.config.fewshot_match = None
    pool = [*rows[1:], rows[0]] * shots
    task.replace_splits({"examples": pool, _split(task): rows})
    docs = build_requests(task, range(len(task.eval_docs)), PromptOptions(num_fewshot=shots))
    found = [(doc.doc_id, str(one.context), _after(one)) for doc in docs for one in doc.requests]
    is_listed = task.output_type == "multiple_choice"  # in some order of the choices
    return sorted(found) if is_listed else found


def _split(task: ConfigurableTask) -> str:
    return str(task.config.test_split or task.config.validation_split)


def _after(request: Any) -> Any:
    if isinstance(request, LoglikelihoodRequest):
        return request.continuation
    return tuple(sorted(request.gen_kwargs["until"]))


def _scores(task: ConfigurableTask) -> dict[str, float]:
    from lm_eval.evaluator import simple_evaluate

    results = simple_evaluate(model="dummy", tasks=[task], bootstrap_iters=0, log_samples=False)
    (scores,) = results["results"].values()
    return {key: value for key, value in scores.items() if "," in key and "stderr" not in key}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
