"""Write all golden files, for review: ``python tests/golden/regenerate.py``.

Prompts of the built-in formats (below), of the judge (``regenerate_nuggets``), sampled formats
(``regenerate_sampled``), and what tests compare with ``tests.support.golden``: tables and screens.

Every format × 0 and 2 shots × plain and chat, for the France question of document 004; every format with
a passage before the question, and with reasons in the example where it asks for them. The test beside
this file compares and never writes; run this by hand after a change that is meant, and read the diff.

A plain prompt's file is what the model sees, byte for byte, without a newline at its end. A chat's
file has a line ``[role]`` before each message, ``[assistant, left open]`` where the model goes on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.formats.assemble import Chat, Context
from lm_eval.formats.compile import general_names, get_format
from lm_eval.registry import FORMATS
from lm_eval.requests import PromptOptions, build_requests

FOLDER = Path(__file__).parent / "prompts"
SHOTS = (0, 2)
FRANCE = {
    "question": "What is the capital of France?",
    "sentence": "The capital of France is _ and lies on the Seine.",
    "choices": ["Berlin", "Madrid", "Paris", "London"],
    "answer": 2,
    "order": [2, 3, 1, 0],
}
EXAMPLES = [
    {
        "question": "Which planet is known as the Red Planet?",
        "sentence": "The planet _ is known as the Red Planet.",
        "choices": ["Venus", "Mars", "Jupiter", "Saturn"],
        "answer": 1,
        "order": [1, 0, 2, 3],
    },
    {
        "question": "How many legs does a spider have?",
        "sentence": "A spider has _ legs.",
        "choices": ["Eight", "Six", "Four", "Ten"],
        "answer": 0,
        "order": [0, 3, 1, 2],
    },
]


PASSAGE = {
    **FRANCE,
    "passage": "France has 68 million people. Two million of them live in its capital.",
}
PASSAGE_EXAMPLE = {**EXAMPLES[0], "passage": "Iron oxide colours the soil of Mars."}


def reasons_prompt(format_name: str) -> str:
    """The France question after one example with worked reasoning."""
    example = {**EXAMPLES[0], "why": "Venus is white, and the soil of Mars is red with iron oxide."}
    task = france_task(
        format_name,
        doc_to_rationale="why",
        fewshot_config={"sampler": "first_n", "samples": [example]},
    )
    (doc,) = build_requests(task, [0], PromptOptions(num_fewshot=1))
    return shown(doc.context)


def passage_prompt(format_name: str) -> str:
    """The France question about a passage, after one example about another."""
    task = france_task(
        format_name,
        custom_dataset=lambda: {"test": [PASSAGE]},
        doc_to_context="passage",
        fewshot_config={"sampler": "first_n", "samples": [PASSAGE_EXAMPLE]},
    )
    (doc,) = build_requests(task, [0], PromptOptions(num_fewshot=1))
    return shown(doc.context)


def france_task(format_name: str, **keys: Any) -> ConfigurableTask:
    """The France question under a format, with two fixed examples."""
    fmt = get_format(format_name)
    fields: dict[str, Any] = {
        "task": "france",
        "custom_dataset": lambda: {"test": [FRANCE]},
        "test_split": "test",
        "doc_to_text": "sentence" if fmt.fills_blank else "question",
        "doc_to_choice": "choices",
        "doc_to_target": "order" if fmt.answers == "order" else "answer",
        "fewshot_config": {"sampler": "first_n", "samples": EXAMPLES},
    }
    return ConfigurableTask(TaskConfig(**{**fields, **keys}), format_name=format_name)


def context(format_name: str, shots: int, *, as_chat: bool) -> Context:
    """The France question's context, as it goes to a model."""
    options = PromptOptions(num_fewshot=shots, as_chat=as_chat)
    (doc,) = build_requests(france_task(format_name), [0], options)
    return doc.context


def shown(context: Context) -> str:
    """A context as its golden file shows it."""
    if not isinstance(context, Chat):
        return str(context)
    last = len(context.messages) - 1
    lines = []
    for place, message in enumerate(context.messages):
        is_open = place == last and context.continues_assistant
        lines.append(f"[{message.role}{', left open' if is_open else ''}]\n{message.content}\n")
    return "".join(lines)


def builtin_names() -> list[str]:
    """The general formats of the package; a new YAML file is among them at once.

    Conventions are compared with their originals: ``tests/differential/test_conventions.py``.
    """
    return [name for name in general_names() if FORMATS.place(name) == "built in"]


def golden_prompts() -> Iterator[tuple[Path, str]]:
    """File and text of every golden prompt."""
    for name in builtin_names():
        for shots in SHOTS:
            for kind in ("plain", "chat"):
                file = FOLDER / f"{name.replace('::', '__')}-{shots}shot-{kind}.txt"
                yield file, shown(context(name, shots, as_chat=kind == "chat"))
        yield FOLDER / f"{name.replace('::', '__')}-passage.txt", passage_prompt(name)
        if get_format(name).reasons_first:
            yield FOLDER / f"{name.replace('::', '__')}-reasons.txt", reasons_prompt(name)


def write(folder: Path, wanted: dict[Path, str]) -> None:
    """Make these the only texts in a folder."""
    for file in set(folder.glob("*.txt")) - set(wanted):
        file.unlink()
    for file, text in wanted.items():
        file.write_bytes(text.encode())
    print(f"{len(wanted)} prompts written to {folder}")


def main() -> int:
    import regenerate_nuggets
    import regenerate_sampled

    write(FOLDER, dict(golden_prompts()))
    write(regenerate_nuggets.FOLDER, dict(regenerate_nuggets.golden_prompts()))
    regenerate_sampled.FILE.write_text(regenerate_sampled.golden(), encoding="utf-8")
    print(f"12 formats written to {regenerate_sampled.FILE}")
    tests = Path(__file__).parents[1]
    users = [
        str(file)
        for file in sorted(tests.rglob("test_*.py"))
        if "from tests.support.golden import" in file.read_text(encoding="utf-8")
    ]
    print(f"pytest   {len(users)} modules, for tables and screens")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *users],
        cwd=tests.parent,
        env={**os.environ, "REGENERATE": "1"},
        check=False,
    )
    print("Read the diff before committing it.")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
