"""The base of model backends, for Python users."""

from lm_eval.models.base import LM, Capabilities, StreamingLM
from lm_eval.requests import Reply

__all__ = ["LM", "Capabilities", "Reply", "StreamingLM"]
