"""Whether a model can be asked what a task asks; if not, what to ask or whom instead."""

from __future__ import annotations

import warnings

from lm_eval.errors import FormatError, LmEvalError, ModelError
from lm_eval.formats.compile import format_names, get_format
from lm_eval.models.base import LM
from lm_eval.run.prepare import RunOptions
from lm_eval.tasks.task import ConfigurableTask

GENERATED = "generate_until"
_NEAREST = {True: ("generate", "cot"), False: ("mcqa", "cloze")}
"""Formats to try first: those that generate text, and those that score what is given."""


def check_capable(task: ConfigurableTask, model: LM, options: RunOptions) -> None:
    """Refuse a task that needs more than the backend can do, before anything is sent."""
    able = model.capabilities
    name = type(model).__name__
    if task.has_media and not (able.media or getattr(model, "MULTIMODAL", False)):
        raise ModelError(
            f"Task {task.name!r} asks about images or audio, which model backend {name} cannot take. "
            "Use a model whose `capabilities` say `media=True`."
        )
    if options.prompt.as_chat and not (able.chat_template or able.chat_only):
        raise ModelError(
            f"Model {model.tokenizer_name or name} has no chat template. Run without "
            "--apply_chat_template, or use a model that has one, such as one tuned for chats."
        )
    if task.output_type != GENERATED and not able.loglikelihood:
        backend = "local-completions" if able.chat_only else "gguf"
        raise FormatError(
            f"Task {task.name!r} scores log-likelihoods, which model backend {name} cannot: "
            f"{_ask_as(task, generates=True)}use a backend that can, such as --model {backend}."
        )
    if task.output_type == GENERATED and not able.generation:
        raise FormatError(
            f"Task {task.name!r} generates text, which model backend {name} cannot: "
            f"{_ask_as(task, generates=False)}use a backend that can, such as --model gguf."
        )


def _ask_as(task: ConfigurableTask, *, generates: bool) -> str:
    found = nearest_format(task, generates=generates)
    how = "as generated text" if generates else "by log-likelihood"
    return "" if found is None else f"ask it {how}, as {task.task_name}@{found}, or "


def nearest_format(task: ConfigurableTask, *, generates: bool) -> str | None:
    """A format that generates text (or does not) and that the task's fields can fill."""
    own = task.config.own_formats
    names = dict.fromkeys((*own, *_NEAREST[generates], *format_names()))
    for name in names:
        fmt = own.get(name) or get_format(name)
        if (fmt.output_type == GENERATED) == generates and _fits(task, name):
            return name
    return None


def _fits(task: ConfigurableTask, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            asked = ConfigurableTask(task.config, format_name=name)
            asked.ask(0)
            asked.check_fitness([0])
        except LmEvalError:
            return False
    return True
