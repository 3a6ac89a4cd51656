"""A task of questions with choices, as a file and as an object, for tests that bring their own rows."""

from __future__ import annotations

from typing import Any

from lm_eval.api.task import ConfigurableTask, TaskConfig

CHOICE_TASK = """\
task: capitals
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""


def choice_config(docs: Any = (), **keys: Any) -> TaskConfig:
    """Task ``t`` over docs with question, choices and answer; ``keys`` come before its own."""
    own = {
        "task": "t",
        "custom_dataset": lambda: {"test": docs},
        "test_split": "test",
        "doc_to_text": "question",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
    }
    return TaskConfig(**{**own, **keys})


def choice_task(docs: Any = (), format_name: str | None = None, **keys: Any) -> ConfigurableTask:
    """The same under a format."""
    return ConfigurableTask(choice_config(docs, **keys), format_name=format_name)
