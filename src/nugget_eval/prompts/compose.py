"""Prompt type × output format × domain × language × data → chat messages.

The system message comes from the definitions alone; query, passage and nuggets are in the user's
message, between marks, and no text of theirs is ever taken for a template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.formats.assemble import Chat, Message
from nugget_eval.errors import PromptError
from nugget_eval.prompts.examples import Example, LeftOut, as_example, without_leaks
from nugget_eval.prompts.fence import Data
from nugget_eval.prompts.formats import NuggetFormat, nugget_format


@dataclass(frozen=True)
class TemplatePrompt:
    """A prompt and what has to be known about it afterwards."""

    chat: Chat
    mark: str
    format: NuggetFormat
    examples: tuple[Example, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as ``{"role": …, "content": …}`` messages, the system's first."""
        return self.chat.as_dicts()


def compose_prompt(
    prompt_type: str,
    query: str,
    passage: str,
    nuggets: Sequence[str],
    format_type: str = "json",
    *,
    seed: object = 0,
    domain: str | None = None,
    language: str = "en",
    examples: Sequence[Example | Mapping[str, Any]] = (),
    retry_reason: str | None = None,
) -> TemplatePrompt:
    """As ``build_template_prompt``, with the mark, the fingerprint and the examples left out.

    ``retry_reason`` says why an earlier reply could not be used; it ends the prompt.
    """
    how = nugget_format(prompt_type, format_type, domain=domain, language=language)
    data = _checked_data(query, passage, nuggets)
    shots = [as_example(one, where=f"Example {k}") for k, one in enumerate(examples, 1)]
    kept, left_out = without_leaks(shots, data)
    messages = [Message("system", how.system_text(len(data.nuggets)))]
    for example in kept:
        messages.append(Message("user", how.user_turn(example.data, seed)[0]))
        messages.append(Message("assistant", how.reply(example)))
    user, mark = how.user_turn(data, seed, retry_reason=retry_reason)
    chat = Chat((*messages, Message("user", user)))
    return TemplatePrompt(chat, mark, how, kept, left_out)


def build_template_prompt(
    prompt_type: str,
    query: str,
    passage: str,
    nuggets: Sequence[str],
    format_type: str = "json",
    *,
    seed: object = 0,
    domain: str | None = None,
    language: str = "en",
    examples: Sequence[Example | Mapping[str, Any]] = (),
) -> list[dict[str, str]]:
    """The chat messages that ask a judge for one label per nugget: system, then user.

    Query, passage and nuggets are enclosed by lines with a mark that occurs nowhere in them and follows
    from ``seed`` and the data, so the same call gives the same prompt. ``examples`` come in between, as
    turns of user and assistant; one that shares text with the item is left out and logged.
    """
    return compose_prompt(
        prompt_type,
        query,
        passage,
        nuggets,
        format_type,
        seed=seed,
        domain=domain,
        language=language,
        examples=examples,
    ).messages


def _checked_data(query: object, passage: object, nuggets: object) -> Data:
    for name, value in (("query", query), ("passage", passage)):
        if not isinstance(value, str):
            raise PromptError(f"The {name} must be a text, not {shorten(value)}.")
    if isinstance(nuggets, str) or not isinstance(nuggets, Sequence):
        raise PromptError(f"Nuggets must be a list of texts, not {shorten(nuggets)}.")
    if not nuggets:
        raise PromptError(
            f"There are no nuggets to judge (query {shorten(query, 60)}). Leave this item out."
        )
    for number, nugget in enumerate(nuggets, 1):
        if not isinstance(nugget, str):
            raise PromptError(f"Nugget {number} must be a text, not {shorten(nugget)}.")
        if not nugget.strip():
            raise PromptError(f"Nugget {number} of {len(nuggets)} is empty. Give it a text.")
    return Data(str(query), str(passage), tuple(nuggets))
