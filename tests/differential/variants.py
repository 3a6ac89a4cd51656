"""What the differential test runs: every task file, under every way of asking.

Shared by ``regenerate.py``, which runs the peer, and by the tests, which run us.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIMIT = 6
SEED = 1234
BOOTSTRAP_ITERS = 200

VARIANTS: dict[str, dict[str, Any]] = {
    "0shot": {"num_fewshot": 0},
    "2shot": {"num_fewshot": 2},
    "chat_multi": {"num_fewshot": 2, "apply_chat_template": True, "fewshot_as_multiturn": True},
    "chat_single": {"num_fewshot": 2, "apply_chat_template": True, "fewshot_as_multiturn": False},
    "own": {},
    "system": {"num_fewshot": 1, "system_instruction": "You are terse."},
    "system_blank": {"num_fewshot": 1, "system_instruction": "You are terse.\n"},
    "chat_system": {
        "num_fewshot": 1,
        "system_instruction": "You are terse.",
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
    },
    "chat_0shot": {"num_fewshot": 0, "apply_chat_template": True, "fewshot_as_multiturn": False},
    "seed": {"num_fewshot": 2, "fewshot_random_seed": 7},
    "share": {"limit": 0.4},
    "one": {"limit": 1.0},
    "samples": {"limit": None, "samples": {"boolq": [1, 3], "arc": [0, 4, 6]}},
    "samples_of_one": {"limit": None, "samples": {"arc": [0, 4, 6]}},
    "gen_kwargs": {"gen_kwargs": "temperature=1,top_p=0.9,do_sample=true,until=;"},
    "boot": {"bootstrap_iters": 2500},
    "no_boot": {"bootstrap_iters": 0},
    "predict": {"predict_only": True},
}
EVERYWHERE = ("0shot", "2shot", "chat_multi", "chat_single")
SYSTEM = ("system", "system_blank", "chat_system")

ONLY: dict[str, tuple[str, ...]] = {
    "mmlu": ("0shot", "2shot", "chat_multi"),
    "mmlu_flat": ("own", "2shot"),
    "mixed": ("0shot", "2shot", "samples"),
    "plain_group": ("0shot",),
    "overriding": ("own", "2shot"),
    "filtered_group": ("own",),
    "outer_over_inner": ("own", "2shot"),
    "inner_with_keys": ("own",),
    "inner_with_keys_too": ("own", "2shot"),
    "science": ("0shot",),
    "mmlu_stem_tasks": ("0shot",),
    "mmlu_stem": ("0shot",),
    "mmlu_humanities": ("0shot",),
    "mmlu_anatomy": (),  # runs in the group
    "mmlu_astronomy": (),
    "mmlu_philosophy": ("chat_single",),
    "wikitext": ("0shot", "2shot", "chat_multi"),
    "wikitext_detokenized": ("0shot",),
    "class_plain": ("0shot",),
    "default_everything": ("0shot", "2shot"),
    "default_metrics": ("0shot",),
    "odd_aggregations": ("0shot", "boot", "no_boot"),
    "unlisted_result": ("0shot",),
    "several_scores": ("0shot",),
    "two_metrics_many_targets": ("0shot",),
    "repeated_choice": ("0shot", "2shot"),
    "list_gold": ("0shot", "chat_0shot"),
    "digits_target": ("0shot", "2shot"),
    "dict_choices": ("0shot", "2shot"),
    "case_filters": ("0shot",),
    "map_filter": ("0shot",),
    "spans": ("0shot",),
    "gold_outside": ("0shot",),
    "gold_negative": ("0shot",),
    "many_targets_then_more": ("0shot",),
    "registered_filter": ("0shot", "2shot"),
    "null_target": ("0shot", "2shot", "chat_single"),
    "pos_tags": ("0shot",),
    "date_strings": ("0shot",),
    "sparse_rows": ("0shot", "2shot"),
}
"""Selectors that run under these variants instead of ``EVERYWHERE``."""

ALSO: dict[str, tuple[str, ...]] = {
    "arc": (*SYSTEM, "seed", "share", "one", "samples_of_one", "boot", "predict"),
    "hellaswag": ("seed",),
    "boolq": ("share", "no_boot"),
    "gsm8k": ("own", "gen_kwargs", "predict"),
    "gsm8k_cot": ("own",),
    "bbh_logic": ("own", *SYSTEM),
    "cola": ("boot",),
    "mrpc": ("boot",),
    "lambada": ("boot", *SYSTEM),
    "translation": ("boot",),
    "first_n": ("own",),
    "samples_list": ("own",),
    "truthfulqa_mc1": ("own",),
    "description_jinja": SYSTEM,
    "description_field": SYSTEM,
    "gen_prefix_bare": ("chat_0shot", "chat_system"),
    "gen_prefix_blank": ("chat_0shot",),
    "gen_prefix_field": ("chat_0shot",),
    "gen_prefix_choice": ("chat_0shot",),
    "gen_prefix_choice_blank": ("chat_0shot",),
    "winogrande_jinja": ("chat_0shot", "chat_system"),
    "empty_target": ("gen_kwargs",),
}

OWN_SHOT = "no doc is its own few-shot example, where the pool falls back to the docs asked"
DELIBERATE: dict[str, dict[str, tuple[str, ...] | None]] = {
    OWN_SHOT: {
        "class_task": ("2shot", "chat_multi", "chat_single"),
        "default_everything": ("2shot",),
        "dict_choices": ("2shot",),
        "digits_target": ("2shot",),
        "empty_target": ("2shot", "chat_multi", "chat_single"),
        "lambada": ("2shot", "chat_multi", "chat_single", *SYSTEM),
        "overriding": ("2shot",),
        "pass_at_k": ("2shot", "chat_multi", "chat_single"),
        "squad": ("2shot", "chat_multi", "chat_single"),
    },
    "a bare word that is no column is an error, not literal text": {"literal_text": None},
    "a gold answer outside the choices is an error, not a wrong answer": {
        "gold_outside": None,
        "gold_negative": None,
    },
    "date strings stay strings": {"date_strings": None, "null_target": None, "sparse_rows": None},
}
"""Why a run differs from the peer's unless ``parity`` is on → selectors, and the variants that show it.

None: every variant. ``null_target`` and ``sparse_rows`` print no date, but hash docs that hold one.
"""

WRITTEN_AS_TEXT = ("number_target",)
"""Tasks whose few-shot answers are numbers: the peer stops with an error, we write them as text."""

TAGS = ("science", "mmlu_stem_tasks")


def selectors() -> list[str]:
    """Every task, group and tag: a file is named after what it defines, a group's with ``_`` before."""
    files = sorted(HERE.glob("tasks/**/*.yaml"), key=lambda path: path.name)
    return [*(path.stem.removeprefix("_") for path in files), *TAGS]


def cases() -> list[tuple[str, str]]:
    """Every ``(selector, variant)`` of the test, in order."""
    return [
        (selector, variant)
        for selector in selectors()
        for variant in (*ONLY.get(selector, EVERYWHERE), *ALSO.get(selector, ()))
    ]


def options_of(variant: str) -> dict[str, Any]:
    """The arguments of ``simple_evaluate`` for a variant, in full."""
    return {
        "limit": LIMIT,
        "bootstrap_iters": BOOTSTRAP_ITERS,
        "fewshot_random_seed": SEED,
        **VARIANTS[variant],
    }


def deliberate(selector: str, variant: str) -> str | None:
    """Why this run equals the peer's only with ``parity``; None where it always does."""
    for reason, selectors in DELIBERATE.items():
        if selector in selectors:
            variants = selectors[selector]
            if variants is None or variant in variants:
                return reason
    return None


def golden_path(selector: str, variant: str) -> Path:
    return HERE / "golden" / f"{selector}__{variant}.json"
