"""What is wrong with a task's keys and can be seen without a doc."""

from __future__ import annotations

from lm_eval.config.fields import compile_field, compile_template, is_jinja
from lm_eval.errors import FieldError, UnsupportedError
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.fewshot import check_sampler


def check_supported(config: TaskConfig, *, task: str) -> None:
    """Refuse keys that would change the prompt, and that are not followed here."""
    if config.use_prompt is not None:
        raise UnsupportedError(
            f"Task {task!r} sets `use_prompt`, and prompts of the promptsource library are not "
            "supported in this release. Remove the key to ask about the text alone, or leave the "
            "task out.",
            key="use_prompt",
            path=config.source,
        )


def check_keys(config: TaskConfig, *, task: str) -> None:
    """Refuse a sampler or cluster that no doc could make right."""
    check_sampler((config.fewshot_config or {}).get("sampler"), task=task)
    if isinstance(config.cluster, str):
        compile_field(config.cluster)


def check_templates(config: TaskConfig) -> None:
    """Refuse Jinja that does not compile, in the fields that the harness's rules read."""
    raw = config.raw
    specs = {
        **{"doc_to_text": raw.text, "doc_to_choice": raw.choice},
        **{"doc_to_target": raw.target, "gen_prefix": config.gen_prefix},
        "description": config.description,
        **{f"fewshot_config.{key}": value for key, value in (config.fewshot_config or {}).items()},
    }
    for field, spec in specs.items():
        if isinstance(spec, str) and is_jinja(spec):
            try:
                compile_template(spec)
            except FieldError as error:
                raise error.located(field=field) from None
