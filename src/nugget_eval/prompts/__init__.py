"""Prompts for a judge of nuggets: five prompt types × ten output formats, as YAML data.

``build_template_prompt`` gives the chat messages. Texts are in ``builtin/``; ``catalogue`` defines them,
``fence`` keeps data apart from instructions, ``formats`` assembles the whole.

Read in this order: catalogue, fence, examples, formats, selection.
"""

from __future__ import annotations

from nugget_eval.prompts.catalogue import (
    DOMAINS,
    LANGUAGES,
    PROMPT_TYPES,
    domain_names,
    get_output_format,
    get_prompt_type,
    language_names,
    prompt_type_names,
    register_prompt,
    register_prompt_folder,
)
from nugget_eval.prompts.examples import Example, LeftOut, load_examples, without_leaks
from nugget_eval.prompts.fence import Data, cut_out, mark_for
from nugget_eval.prompts.formats import (
    NuggetFormat,
    PromptInfo,
    TemplatePrompt,
    build_template_prompt,
    compose_prompt,
    nugget_format,
    prompt_info,
)
from nugget_eval.prompts.selection import select_prompt_type
from nugget_eval.reading.outcome import FORMAT_TYPES

__all__ = [
    "DOMAINS",
    "FORMAT_TYPES",
    "LANGUAGES",
    "PROMPT_TYPES",
    "Data",
    "Example",
    "LeftOut",
    "NuggetFormat",
    "PromptInfo",
    "TemplatePrompt",
    "build_template_prompt",
    "compose_prompt",
    "cut_out",
    "domain_names",
    "get_output_format",
    "get_prompt_type",
    "language_names",
    "load_examples",
    "mark_for",
    "nugget_format",
    "prompt_info",
    "prompt_type_names",
    "register_prompt",
    "register_prompt_folder",
    "select_prompt_type",
    "without_leaks",
]
