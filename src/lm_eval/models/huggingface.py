"""The documented address of ``HFLM``; its home is ``lm_eval.models.hf``."""

from lm_eval.models.hf.model import HFLM

__all__ = ["HFLM"]
