"""Tasks: what is asked. YAML files, their docs, few-shot examples, groups.

Read in this order: keys, prompts, fewshot, checks, config, methods, docs, format_fit, task, groups,
families, index, listed, definitions, loader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval.addresses.finder import attributes_of

if TYPE_CHECKING:
    from lm_eval.tasks.loader import TaskManager, get_task_dict

__all__ = ["TaskManager", "get_task_dict"]
__getattr__ = attributes_of(__name__)  # both too, late: `import lm_eval.tasks` stays cheap
