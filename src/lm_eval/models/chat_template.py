"""A model's own chat template: messages in, the prompt text the model was trained on out.

Templates are Jinja, written for ``transformers``; this is the same environment: immutable sandbox,
trimmed blocks, ``break``/``continue``, ``raise_exception``, ``strftime_now``, and a ``tojson`` that
leaves HTML characters alone. Message text goes in as a value, so Jinja in it is never run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lm_eval.errors import ModelError, first_line

# Put after the last message to find where its text ends. The final space tells whether the template
# trims content, in which case the prompt must not end in white space either.
_END_MARK = "⟦lm-eval:message-ends-here⟧ "

TEMPLATE_ERRORS = (
    *(TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError),
)
"""What a template may raise for messages that it does not take."""


class ChatTemplate:
    """One compiled template. ``tokens`` are its variables such as ``bos_token``."""

    def __init__(
        self,
        source: str,
        *,
        model: str,
        tokens: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self.model = model
        self._tokens = {"bos_token": "", "eos_token": "", **(tokens or {})}
        environment = _environment(now)
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ModelError(
                f"The chat template of {model} is not valid Jinja (line {error.lineno}: "
                f"{error.message}). Run without --apply_chat_template, or use a repaired file."
            ) from error

    @property
    def sha256(self) -> str:
        """Identifies the template in results."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    def render(
        self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The chat as prompt text: with the start of a reply, or with its last message left open."""
        return self._rendered(messages) if add_generation_prompt else self._open(messages)

    def _rendered(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True
    ) -> str:
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                tools=None,
                documents=None,
                **self._tokens,
            )
        except TEMPLATE_ERRORS as error:
            raise refusal(self.model, messages, error) from error

    def _open(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The chat up to the end of its last message's text: the model goes on from there."""
        *earlier, last = messages
        marked = {**last, "content": last["content"] + _END_MARK}
        text = self._rendered([*earlier, marked], add_generation_prompt=False)
        end = text.rfind(_END_MARK.rstrip())
        if end < 0:
            raise ModelError(
                f"The chat template of {self.model} leaves out the text of a last {last['role']} "
                "message, so the model cannot continue it. Use a format without gen_prefix."
            )
        keeps_spaces = text.startswith(_END_MARK, end)
        return text[:end] if keeps_spaces else text[:end].rstrip()


def refusal(model: str, messages: Sequence[Mapping[str, str]], error: Exception) -> ModelError:
    """The error for messages that the chat template of a model does not take."""
    roles = ", ".join(message["role"] for message in messages)
    return ModelError(
        f"The chat template of {model} refuses these messages (roles: {roles}): {first_line(error)}. "
        "If it has no system role, run without --system_instruction and without a task description; "
        "else try --fewshot_as_multiturn false, or run without --apply_chat_template."
    )


def _environment(now: Callable[[], datetime]) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda layout: now().strftime(layout)
    return environment


def _raise_exception(message: str) -> str:
    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as templates expect it; Jinja's own filter would escape ``<``, ``>`` and ``&``."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


class _GenerationBlock(Extension):
    """``{% generation %}…{% endgeneration %}``, a mark for training: here, just its text."""

    tags = {"generation"}  # noqa: RUF012 - the attribute's shape is Jinja's

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
