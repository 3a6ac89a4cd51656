"""Prompts for reading: what the model will see, on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lm_eval.formats.assemble import Chat, Context
from lm_eval.text.terminal import visible

RULE = "─" * 78


def prompt_lines(context: Context) -> list[str]:
    """A context for reading: text as it is, chat with a line for each role."""
    if not isinstance(context, Chat):
        return [RULE, visible(str(context), keep="\n\t"), RULE]
    lines = [RULE]
    for place, message in enumerate(context.messages):
        is_open = context.continues_assistant and place == len(context.messages) - 1
        lines.append(f"[{message.role}{', left open' if is_open else ''}]")
        lines.append(visible(message.content, keep="\n\t"))
    return [*lines, RULE]


def write_out(prepared: Iterable[Any]) -> None:
    """Print the first prompt of each prepared task."""
    for one in prepared:
        doc = one.docs[0]
        print(f"── {visible(one.task.name)}, doc {doc.doc_id}")
        print("\n".join(prompt_lines(doc.context)))
