"""Groups of tasks, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.tasks.groups import Group, GroupConfig
from lm_eval.tasks.groups import Group as ConfigurableGroup

__all__ = ["ConfigurableGroup", "Group", "GroupConfig"]

__getattr__ = attributes_of(__name__)
