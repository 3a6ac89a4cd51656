"""Formats to start from: every built-in one, and some as tasks write them."""

from __future__ import annotations

from lm_eval.formats.compile import compile_format, general_names, get_format
from lm_eval.formats.items import Item
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.registry import FORMATS

BUILT_IN = [name for name in general_names() if FORMATS.place(name) == "built in"]
OWN = {
    "arrows": {
        "type": "mcqa",
        "question_prefix": "Q -> ",
        "answer_prompt": "A -> ",
        "target_delimiter": "",
        "section_separator": "\n\n",
        "question_choice_delimiter": "\n",
    },
    "subject": {
        "type": "generate",
        "instruction": "A question about {{ subject }}.\n",
        "choice_format": "* {label}: {choice};",
    },
    "spelt_out": {"type": "mcqa", "instruction": "Answer with A, B, C or D.\n"},
    "one_letter": {"type": "mcqa", "instruction": "Answer with one letter.\n"},
    "one_line": {
        "type": "mcqa",
        "output_type": "generate_until",
        "scorer": "first_label",
        "generation_kwargs": {"until": ["\n"]},
    },
    "worded": {"type": "mcqa", "choice_format": "Option {label}: {choice}"},
    "sentence": {"type": "mcqa", "choice_format": "{label} stands for {choice}."},
    "sentiment": {
        "type": "mcqa",
        "choice_labels": ["yes", "no"],
        "choices_prefix": "Options: ",
        "answer_prompt": "Your answer -",
    },
}


def base(name: str) -> PromptFormat:
    """The base of that name."""
    return compile_format(OWN[name], name=name) if name in OWN else get_format(name)


BASES = [*BUILT_IN, *OWN]


def item_for(fmt: PromptFormat, question: str, choices: tuple[str, ...], gold: int) -> Item:
    """An item that the format can ask, with as many choices as it has labels for."""
    limit = len(fmt.choice_labels) if isinstance(fmt.choice_labels, tuple) else len(choices)
    kept = choices[:limit]
    right: object = gold % len(kept)
    if fmt.answers == "order":
        right = (*range(gold % len(kept), len(kept)), *range(gold % len(kept)))
    elif fmt.answers == "text":
        right = kept[gold % len(kept)]
    if fmt.fills_blank:
        question = f"{question} {fmt.blank_marker} jjzj"
    return Item({"subject": "geography"}, question, kept, (right,))
