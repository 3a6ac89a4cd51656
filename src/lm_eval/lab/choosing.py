"""The documented address of ``chosen``; the home is ``lm_eval.lab.stored.select``."""

from lm_eval.lab.stored.select import Choice, chosen

__all__ = ["Choice", "chosen"]
