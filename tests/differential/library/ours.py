"""What the library asks about its invented rows, in the shape of the golden file.

``python -m tests.differential.library.ours`` writes ``rows.json``, which ``regenerate.py`` reads.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lm_eval.errors import LmEvalWarning
from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask

HERE = Path(__file__).parent
PAIRS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "pairs.yaml").read_text("utf-8"))
MOST_SHOTS = 5


@cache
def manager() -> TaskManager:
    return TaskManager(run_code=False, sample_rows="always")


def rows_of(name: str) -> dict[str, list[dict[str, Any]]]:
    """The rows that are asked, and those that serve as examples: the same, the first one last."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        (task,) = manager().load([name.partition("@")[0]])["tasks"].values()
    asked = task.splits[_asked(task)].to_list()
    left_out = PAIRS[name].get("without", ())
    asked = [row for at, row in enumerate(asked) if at not in left_out]
    turned = [*asked[1:], asked[0]]
    return {"train": (turned * MOST_SHOTS)[:MOST_SHOTS], "test": asked}


def format_of(name: str) -> str:
    """The format that a pair is asked under."""
    task_name, _, format_name = name.partition("@")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        config = manager().config(task_name)
    return format_name or (config.prompt_format.name if config.prompt_format else "")


def requests(name: str, shots: int) -> list[list[Any]]:
    """What is asked about the rows, under the task's default format or the one that the name has."""
    rows = rows_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        (task,) = TaskManager(run_code=False).load([name])["tasks"].values()
        task.config.fewshot_config = {"sampler": "first_n"}
        task.config.fewshot_split = "examples"
        task.config.fewshot_match = task.config.shuffle_choices = None
        task.replace_splits({"examples": rows["train"], _asked(task): rows["test"]})
        built = build_requests(task, range(len(task.eval_docs)), PromptOptions(num_fewshot=shots))
        return [
            [doc.doc_id, str(one.context), _after(one)] for doc in built for one in doc.requests
        ]


def _asked(task: ConfigurableTask) -> str:
    return str(task.config.test_split or task.config.validation_split)


def _after(request: Any) -> Any:
    """What is scored, or where a reply ends."""
    if isinstance(request, LoglikelihoodRequest):
        return request.continuation
    return {"until": list(request.gen_kwargs["until"])}


def main() -> None:
    rows = {name: rows_of(name) for name in PAIRS}
    text = json.dumps(rows, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "rows.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
