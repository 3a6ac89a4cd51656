"""A task whose YAML names a Python class: the class is found, checked and made."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef, missing_package
from lm_eval.errors import ConfigError, HelperError, LmEvalError, UsageError
from lm_eval.tasks.task import ConfigurableTask


@dataclass
class PythonTask:
    """A task whose YAML names a class."""

    data: Mapping[str, Any]
    source: str

    def build(self, format_name: str | None, *, parity: bool) -> ConfigurableTask:
        name = str(self.data["task"])
        if format_name is not None:
            raise UsageError(
                f"Task {name!r} is a Python class ({self.source}), which lays out its own prompts; "
                "@format works on tasks whose YAML names their fields."
            )
        task = self._made(self.task_class())
        task.config.task = name
        task.config.source = task.config.source or self.source
        task.parity = parity
        return task

    def task_class(self) -> type[ConfigurableTask]:
        """The class itself, which must be one of ours."""
        made = self.data["class"]
        found = made.resolve() if isinstance(made, FunctionRef) else made
        if not (isinstance(found, type) and issubclass(found, ConfigurableTask)):
            raise ConfigError(
                f"{self.source}: `class` gives {shorten(found)}, which is no subclass of "
                "lm_eval.api.task.ConfigurableTask.",
                path=self.source,
            )
        return found

    def _made(self, task_class: type[ConfigurableTask]) -> ConfigurableTask:
        apart = ("class", "task", "tag", "group")
        settings = {key: value for key, value in self.data.items() if key not in apart}
        takes_config = "config" in inspect.signature(task_class.__init__).parameters
        try:
            return task_class(config=settings) if takes_config else task_class()
        except LmEvalError:
            raise
        except Exception as error:  # whatever a stranger's constructor raises
            reason = f"{type(error).__name__}: {error}"
            raise HelperError(
                f"{self.source}: the class {task_class.__name__} of task {self.data['task']!r} "
                f"cannot be made: {reason}",
                path=self.source,
                reason=reason,
                package=missing_package(error),
            ) from error
