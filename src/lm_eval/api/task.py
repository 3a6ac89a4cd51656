"""Tasks, for Python users."""

from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask

__all__ = ["ConfigurableTask", "TaskConfig"]
