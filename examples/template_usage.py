"""Every prompt type × output format for one made-up item, then how replies are read. Needs no model.

python examples/template_usage.py                          each type in full, then its output formats
python examples/template_usage.py --prompt_type short_cot --format_type xml       one prompt in full
python examples/template_usage.py --all                    all fifty prompts in full
"""

from __future__ import annotations

import argparse

from lm_eval.errors import LmEvalError
from nugget_eval.common import read_labels
from nugget_eval.prompts import (
    FORMAT_TYPES,
    PROMPT_TYPES,
    build_template_prompt,
    get_output_format,
    nugget_format,
    prompt_info,
    select_prompt_type,
)

QUERY = "when was the Brinmoor tunnel opened"
PASSAGE = (
    "The Brinmoor tunnel was dug from 1897 on and opened to trains four years later. It is just under "
    "three kilometres long."
)
NUGGETS = [
    "The Brinmoor tunnel opened in 1901",
    "The Brinmoor tunnel is exactly three kilometres long",
    "The Brinmoor tunnel is used by road traffic",
    "Digging began in 1897",
]
LABELS = ["support", "partial_support", "not_support", "support"]
ODD_REPLIES = {
    "reasoning before the answer": (
        '<think>Maybe ["support","support"]?</think>\n'
        '["support","partial_support","not_support","support"]'
    ),
    "numbered, one missing": "1. support\n2. partial_support\n4. support",
    "one label too few": '["support", "partial_support", "not_support"]',
    "prose that only mentions labels": "I would say that the first nugget has some support.",
    "two answers that differ": "support, support, not_support, support\n\n"
    "support, partial_support, not_support, support",
}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--prompt_type", help=f"one of {', '.join(PROMPT_TYPES)}")
    options.add_argument("--format_type", help=f"one of {', '.join(FORMAT_TYPES)}")
    options.add_argument("--all", action="store_true", help="all fifty prompts in full")
    chosen = options.parse_args()
    try:
        if chosen.prompt_type or chosen.format_type:
            show(chosen.prompt_type or "short_cot", chosen.format_type or "json")
        else:
            show_types(in_full=chosen.all)
            show_selection()
            show_reading()
    except LmEvalError as error:
        raise SystemExit(f"Error: {error}") from None


def show_types(*, in_full: bool) -> None:
    for prompt_type in PROMPT_TYPES:
        show(prompt_type, "json")
        for format_type in FORMAT_TYPES[1:]:
            if in_full:
                show(prompt_type, format_type)
            else:
                show_output(prompt_type, format_type)


def show(prompt_type: str, format_type: str) -> None:
    """One prompt in full, as chat messages."""
    info = prompt_info(prompt_type, format_type)
    heading(f"{prompt_type} × {format_type}", f"version {info.version}, {info.fingerprint}")
    print(f"{info.summary} Best for: {info.best_for}\n")
    for message in build_template_prompt(prompt_type, QUERY, PASSAGE, NUGGETS, format_type):
        print(f"[{message['role']}]\n{message['content']}\n")


def show_output(prompt_type: str, format_type: str) -> None:
    """What a prompt says about the output: all that differs from the one for json."""
    how = nugget_format(prompt_type, format_type)
    heading(f"{prompt_type} × {format_type}", f"as for json, but: ({how.fingerprint})")
    print(how.said(how.prompt_type.output_words, len(NUGGETS)) + "\n")


def show_selection() -> None:
    heading("A prompt type for these nuggets", "select_prompt_type")
    print(f"{select_prompt_type(NUGGETS)}\n")


def show_reading() -> None:
    """A right reply in each format, and replies that are not quite right."""
    heading("How replies are read", "read_labels")
    for format_type in FORMAT_TYPES:
        reply = get_output_format(format_type).write(LABELS)
        show_reply(f"a right reply in {format_type}", reply, format_type)
    for what, reply in ODD_REPLIES.items():
        show_reply(what, reply, "json")


def show_reply(what: str, reply: str, format_type: str) -> None:
    reading = read_labels(reply, len(NUGGETS), format_type=format_type)
    print(f"{what}:")
    print("".join(f"    | {line}\n" for line in reply.splitlines()), end="")
    labels = ", ".join(label or "(missing)" for label in reading.labels)
    trouble = f"; {reading.error_type}: {reading.reason}" if reading.error_type else ""
    print(f"  → {labels}\n    read as {reading.format_used}{trouble}\n")


def heading(title: str, note: str) -> None:
    print(f"{'─' * 100}\n{title}   {note}\n{'─' * 100}")


if __name__ == "__main__":
    main()
