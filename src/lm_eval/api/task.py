"""Tasks, for Python users."""

from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask

Task = ConfigurableTask
"""The name under which older Python tasks know it."""

__all__ = ["ConfigurableTask", "Task", "TaskConfig"]
