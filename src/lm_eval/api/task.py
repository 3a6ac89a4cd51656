"""Tasks, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask, Task

__all__ = ["ConfigurableTask", "Task", "TaskConfig"]

__getattr__ = attributes_of(__name__)
