"""Tasks: what is asked. YAML files, their docs, few-shot examples, groups."""

from __future__ import annotations

from typing import Any

__all__ = ["TaskManager"]


def __getattr__(name: str) -> Any:
    if name == "TaskManager":  # late, so that `import lm_eval.tasks` stays cheap
        from lm_eval.tasks.loader import TaskManager

        return TaskManager
    raise AttributeError(f"module 'lm_eval.tasks' has no attribute {name!r}")
