"""Names for models, formats, readers, metrics and templates, for Python users."""

from lm_eval.registry import (
    FORMATS,
    METRICS,
    MODELS,
    READERS,
    TEMPLATES,
    Registry,
    get_model,
    register_model,
    register_reader,
    register_template,
)

__all__ = [
    "FORMATS",
    "METRICS",
    "MODELS",
    "READERS",
    "TEMPLATES",
    "Registry",
    "get_model",
    "register_model",
    "register_reader",
    "register_template",
]
