"""Twelve sampled formats of the France question; ``python tests/golden/regenerate.py`` writes them.

The test beside this file compares and never writes. Each prompt is what the model sees, with the right
answer in ⟨ ⟩.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lm_eval.formats.assemble import Joints, spoken
from lm_eval.formats.compile import get_format
from lm_eval.formats.items import Item
from lm_eval.formats.list_file import ListedFormat
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.sample import sample_formats

FILE = Path(__file__).parent / "sampled_formats.txt"
FRANCE = Item(
    {}, "What is the capital of France?", ("Berlin", "Madrid", "Paris", "London"), (2,)
)  # fmt: skip
WANTED = {"mcqa": 5, "generate": 3, "mcq::gpqa": 2, "cloze": 2}
SEED = 1


def sampled() -> Iterator[ListedFormat]:
    """Twelve formats, the bases left out."""
    for name, count in WANTED.items():
        yield from sample_formats(get_format(name), count + 1, seed=SEED)[1:]


def prompt(fmt: PromptFormat) -> str:
    """The prompt with the right answer behind it."""
    turn = fmt.shot_turn(FRANCE)
    before = Joints(fmt.target_delimiter).before_answer(turn.user, turn.gen_prefix)
    return f"{turn.user}{before}{spoken(turn).removesuffix(turn.answer or '')}⟨{turn.answer}⟩"


def golden() -> str:
    """The file's text."""
    parts = []
    for one in sampled():
        slots = ", ".join(f"{slot} {value!r}" for slot, value in one.slots.items())
        parts.append(f"=== {one.name}: {slots}\n{prompt(one.format)}\n")
    return "\n".join(parts)
