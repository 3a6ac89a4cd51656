"""Templates and formats, for Python users."""

from lm_eval.config.fields import process_field
from lm_eval.formats.compile import get_format, register_format
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.templates import (
    ClozeTemplate,
    MCQTemplate,
    TemplateConfig,
    TemplateFactory,
    cloze_template,
    gpqa_template,
    mmlu_template,
    numbered_template,
    pure_cloze_template,
)
from lm_eval.registry import register_template

__all__ = [
    "ClozeTemplate",
    "MCQTemplate",
    "PromptFormat",
    "TemplateConfig",
    "TemplateFactory",
    "cloze_template",
    "get_format",
    "gpqa_template",
    "mmlu_template",
    "numbered_template",
    "process_field",
    "pure_cloze_template",
    "register_format",
    "register_template",
]
