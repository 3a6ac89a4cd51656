"""What can be varied about a format, one axis at a time.

``layout`` changes form and no words. ``wording``, ``shots`` and ``reasoning`` change what is said, shown
or asked for; what they move is another effect, so none of them is ever mixed with layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.equivalence import BASE_CHECKS, CHECKS
from lm_eval.lab.grammar.layout import Layout
from lm_eval.lab.grammar.reading_side import phrase_of, with_reading_side
from lm_eval.lab.grammar.wordings import wordings

AXES = ("layout", "wording", "shots", "reasoning")
WORDED = (*BASE_CHECKS, "empty separator")
"""The checks of an axis that changes words: the others compare the layout with the base's."""
NUM_FEWSHOT = ("as the task says", "0", "1", "2", "4", "8")
FEWSHOT_SEEDS = ("as the run says", *map(str, range(1, 21)))
DIRECT, STEPS = "direct", "step by step"
_THINK = "Think step by step before you answer."
_REASON = "reason step by step to find"
_ROOM_FOR_REASONS = 1024


@dataclass(frozen=True)
class Variant:
    """A format and the run options that go with it; these are not fields of a format."""

    format: PromptFormat
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Axis:
    """Slots with their values, the base's own first, and what a choice of values gives."""

    name: str
    slots: Mapping[str, Sequence[str]]
    fill: Callable[[Mapping[str, str]], Variant]
    checks: Sequence[str]
    lack: str
    """Why a base may have no slot here, for the error that says so."""


def axis_of(name: str, base: PromptFormat) -> Axis:
    """The axis of that name for a base format."""
    return {
        "layout": _layout_axis,
        "wording": _wording_axis,
        "shots": _shots_axis,
        "reasoning": _reasoning_axis,
    }[name](base)


def _layout_axis(base: PromptFormat) -> Axis:
    layout = Layout(base)
    return Axis(
        "layout",
        layout.slots,
        lambda values: Variant(layout.fill(values)),
        tuple(CHECKS),
        "it has no descriptor such as `Question:`, no choices that are shown, and one part only; start "
        "from another format",
    )


def _wording_axis(base: PromptFormat) -> Axis:
    def fill(values: Mapping[str, str]) -> Variant:
        changes: dict[str, Any] = {name: text or None for name, text in values.items()}
        return Variant(with_reading_side(replace(base, **changes), base))

    lack = "there are no other words for what it asks; start from another format"
    return Axis("wording", wordings(base), fill, WORDED, lack)


def _shots_axis(base: PromptFormat) -> Axis:
    def fill(values: Mapping[str, str]) -> Variant:
        if not values["num_fewshot"].isdigit():
            return Variant(base)
        options = {"num_fewshot": int(values["num_fewshot"])}
        if options["num_fewshot"] and values["fewshot_seed"].isdigit():
            options["fewshot_seed"] = int(values["fewshot_seed"])
        return Variant(base, options)

    slots = {"num_fewshot": NUM_FEWSHOT, "fewshot_seed": FEWSHOT_SEEDS}
    return Axis("shots", slots, fill, BASE_CHECKS, "")


def _reasoning_axis(base: PromptFormat) -> Axis:
    other = _other_reasoning(base)
    slots: dict[str, tuple[str, ...]] = {}
    if other is not None:
        slots["reasoning"] = (STEPS, DIRECT) if base.gen_prefix is None else (DIRECT, STEPS)

    def fill(values: Mapping[str, str]) -> Variant:
        is_own = not slots or values["reasoning"] == slots["reasoning"][0]
        return Variant(base if is_own or other is None else other)

    lack = (
        "the model writes nothing, so that it cannot reason"
        if not base.reads_text
        else "it neither begins the answer (gen_prefix) nor asks to reason step by step"
    )
    return Axis("reasoning", slots, fill, WORDED, f"{lack}; start from `generate` or `cot`")


def _other_reasoning(base: PromptFormat) -> PromptFormat | None:
    """The base with reasoning before the answer, or without the reasoning it asks for."""
    if not base.reads_text:
        return None
    if base.gen_prefix is not None:
        room = max(_ROOM_FOR_REASONS, base.generation_kwargs.get("max_gen_toks", 0))
        return replace(
            base,
            gen_prefix=None,
            answer_instruction=_THINK,
            target_format=f"{base.gen_prefix} {base.target_format}",
            generation_kwargs={**base.generation_kwargs, "max_gen_toks": room},
        )
    phrase = phrase_of(base.scorer)
    if phrase is None or _REASON not in (base.instruction or ""):
        return None
    changed = replace(
        base,
        instruction=(base.instruction or "").replace(_REASON, "find"),
        gen_prefix=phrase,
        target_format=base.target_format.removeprefix(phrase).lstrip(),
    )
    return with_reading_side(changed, base)
