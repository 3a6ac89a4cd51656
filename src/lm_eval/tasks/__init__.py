"""Tasks: what is asked. YAML files, their docs, few-shot examples, groups.

Read in this order: prompts, fewshot, checks, config, methods, docs, fitness, task, groups, index,
definitions, loader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.tasks.loader import TaskManager, get_task_dict

__all__ = ["TaskManager", "get_task_dict"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late, so that `import lm_eval.tasks` stays cheap
        from lm_eval.tasks import loader

        return getattr(loader, name)
    raise AttributeError(f"module 'lm_eval.tasks' has no attribute {name!r}")
