"""The task of a stored result, loaded by name or built from what the results file holds of it.

Needed for samples that do not say themselves what a reader and a score want to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.errors import ComparisonError, LmEvalError
from lm_eval.lab.stored.run import StoredRun
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


def loaded_task(run: StoredRun, name: str, include_path: Sequence[str] | None) -> ConfigurableTask:
    """The task of that name as it is now, under the same format."""
    try:
        found = TaskManager(include_path).load([name])["tasks"]
    except LmEvalError as error:
        raise ComparisonError(lacking(run, name, str(error))) from None
    task: ConfigurableTask = next(iter(found.values()))
    return task


def built_task(run: StoredRun, name: str, include_path: Sequence[str] | None) -> ConfigurableTask:
    """The task as its stored config has it; where that holds code, as its file has it now."""
    config = run.results["configs"][name]
    if any(_is_code(value) for value in _leaves(config)):
        return loaded_task(run, name, include_path)
    try:
        return ConfigurableTask({key: config[key] for key in _SCORING_KEYS if key in config})
    except LmEvalError as error:
        raise ComparisonError(lacking(run, name, str(error))) from None


_SCORING_KEYS = (
    *("task", "output_type", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix"),
    *("metric_list", "generation_kwargs", "metadata", "test_split", "process_results"),
)
"""What of a stored config says how an answer is scored."""


def lacking(run: StoredRun, name: str, problem: str) -> str:
    """The message where neither samples nor task say what is needed."""
    return (
        f"{run.path}: the samples of {name!r} do not hold the choices and the gold that a reader needs, "
        f"and the task itself cannot be asked: {problem} Give the folder of its YAML with "
        "--include_path, or run it again."
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _is_code(value: Any) -> bool:
    """Whether a text of a config is the source of a function, as these files hold them."""
    return isinstance(value, str) and value.lstrip().startswith(("def ", "lambda ", "<function "))
