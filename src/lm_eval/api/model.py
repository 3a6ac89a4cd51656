"""The bases of model backends, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.models.base import LM, Capabilities, StreamingLM, TemplateLM
from lm_eval.requests import Reply, Score

__all__ = ["LM", "Capabilities", "Reply", "Score", "StreamingLM", "TemplateLM"]

__getattr__ = attributes_of(__name__)
