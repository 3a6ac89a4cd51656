"""What can be varied about a format, one axis at a time.

``layout`` changes the form and no words. ``wording``, ``shots`` and ``reasoning`` change what is said,
shown or asked for; these effects differ in kind, so they are never mixed with that of layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.formats.list_file import ListedFormat
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.equivalence import BASE_CHECKS, CHECKS
from lm_eval.lab.grammar.layout import (
    Layout,
    descriptors,
    label_word,
    phrase_of,
    with_own,
    with_reading_side,
)

AXES = ("layout", "wording", "shots", "reasoning")
WORDED = (*BASE_CHECKS, "empty separator")
"""The checks of an axis that changes words; the other checks compare the layout with the base's."""
NUM_FEWSHOT = ("as the task says", "0", "1", "2", "4", "8")
FEWSHOT_SEEDS = ("as the run says", *map(str, range(1, 21)))
DIRECT, STEPS = "direct", "step by step"
_THINK = "Think step by step before you answer."
_REASON = "reason step by step to find"
_ROOM_FOR_REASONS = 1024


@dataclass(frozen=True)
class Axis:
    """Slots with their values, the base's own first, and how to make a format from chosen values."""

    name: str
    slots: Mapping[str, Sequence[str]]
    fill: Callable[[Mapping[str, str]], ListedFormat]
    checks: Sequence[str]
    lack: str
    """Why a base may have no slot on this axis, for the error message."""


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
        lambda values: ListedFormat(layout.fill(values), values),
        tuple(CHECKS),
        "it has no descriptor such as `Question:`, no choices that are shown, and one part only; start "
        "from another format",
    )


def _wording_axis(base: PromptFormat) -> Axis:
    def fill(values: Mapping[str, str]) -> ListedFormat:
        changes: dict[str, Any] = {name: text or None for name, text in values.items()}
        return ListedFormat(with_reading_side(replace(base, **changes), base), values)

    lack = "there are no other words for what it asks; start from another format"
    return Axis("wording", wordings(base), fill, WORDED, lack)


def _shots_axis(base: PromptFormat) -> Axis:
    def fill(values: Mapping[str, str]) -> ListedFormat:
        if not values["num_fewshot"].isdigit():
            return ListedFormat(base, values)
        options = {"num_fewshot": int(values["num_fewshot"])}
        if options["num_fewshot"] and values["fewshot_seed"].isdigit():
            options["fewshot_seed"] = int(values["fewshot_seed"])
        return ListedFormat(base, values, options)

    slots = {"num_fewshot": NUM_FEWSHOT, "fewshot_seed": FEWSHOT_SEEDS}
    return Axis("shots", slots, fill, BASE_CHECKS, "")


def _reasoning_axis(base: PromptFormat) -> Axis:
    other = _other_reasoning(base)
    slots: dict[str, tuple[str, ...]] = {}
    if other is not None:
        slots["reasoning"] = (STEPS, DIRECT) if base.gen_prefix is None else (DIRECT, STEPS)

    def fill(values: Mapping[str, str]) -> ListedFormat:
        is_own = not slots or values["reasoning"] == slots["reasoning"][0]
        return ListedFormat(base if is_own or other is None else other, values)

    lack = (
        "the model writes nothing, so it cannot reason"
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


_CHOOSE = (
    "Choose the correct answer to the following question.\n",
    "Answer the following multiple-choice question.\n",
    "Read the question and choose the correct option.\n",
    "Select the option that answers the question correctly.\n",
    "Pick the right answer from the options below.\n",
)
_ANSWER = (
    "Answer the following question.\n",
    "Answer the question below.\n",
    "Read the question and answer it.\n",
    "Give the correct answer to the following question.\n",
)
_FILL = (
    "Fill in the blank.\n",
    "Complete the following sentence.\n",
    "Find what belongs in the blank.\n",
    "Replace the blank with the right words.\n",
)
_CANDIDATES = (
    "Below is a question with {{ _num_choices }} candidate answers ({{ _choice_list_and }}). "
    "Choose the best answer.\n",
    "Read the following question and its {{ _num_choices }} candidate answers "
    "({{ _choice_list_and }}), and choose the best answer.\n",
    "Choose the best answer to the question below; there are {{ _num_choices }} candidates "
    "({{ _choice_list_and }}).\n",
    "Of the {{ _num_choices }} candidate answers ({{ _choice_list_and }}) to the following question, "
    "choose the best.\n",
)
_WORDING_REASON = (
    "Solve the following problem step by step to find the final answer.\n",
    "Reason step by step about the problem below to find the final answer.\n",
    "Work through the following problem step by step until you have the final answer.\n",
    "Find the final answer to the following problem by reasoning step by step.\n",
)
_CLASSIFY = (
    "Label the following text as {{ _choice_list_or }}.\n",
    "Decide whether the following text is {{ _choice_list_or }}.\n",
    "Say whether the text below is {{ _choice_list_or }}.\n",
)
_RANK = (
    "Order the following {{ _num_choices }} options from best to worst.\n",
    "Rank the following {{ _num_choices }} options, best first.\n",
    "Arrange the {{ _num_choices }} options below so that the best comes first.\n",
)
_SHORT_PROMPTS = (
    "Answer:",
    "The answer is",
    "The answer is:",
    "Correct answer:",
    "The correct answer is",
)
_CLASS_PROMPTS = ("Label:", "The label is", "The label is:", "Correct label:")
_ENDINGS = (
    'Your response should end with "{said}" where {meaning}.',
    'End your response with "{said}", where {meaning}.',
    'Close your response with the sentence "{said}", where {meaning}.',
    'The last sentence of your response should be "{said}", where {meaning}.',
)


def wordings(fmt: PromptFormat) -> dict[str, tuple[str, ...]]:
    """Slot → texts, the format's own first; an empty text means that there is none."""
    values = {"instruction": with_own(fmt.instruction or "", _instructions(fmt))}
    prompts = _prompts(fmt)
    if fmt.answer_prompt is not None and prompts:
        values["answer_prompt"] = with_own(fmt.answer_prompt, prompts)
    return {name: texts for name, texts in values.items() if len(texts) > 1}


def _instructions(fmt: PromptFormat) -> tuple[str, ...]:
    if fmt.answers == "order":
        return _RANK
    if fmt.answers == "text":
        return _WORDING_REASON if "step by step" in (fmt.instruction or "") else _ANSWER
    if fmt.choice_labels == "choices":
        return _CLASSIFY
    if fmt.blank_marker is not None:
        return _FILL
    if not fmt.shows_labels:
        return _ANSWER
    return _CANDIDATES if fmt.reads_text else _CHOOSE


def _prompts(fmt: PromptFormat) -> tuple[str, ...]:
    if any(descriptor.field == "answer_prompt" for descriptor in descriptors(fmt)):
        return _CLASS_PROMPTS if fmt.choice_labels == "choices" else _SHORT_PROMPTS
    phrase = phrase_of(fmt.scorer)
    if phrase is None or phrase not in (fmt.answer_prompt or ""):
        return ()
    placeholder, meaning = _wanted(fmt)
    said = f"{phrase} {placeholder}"
    return tuple(ending.format(said=said, meaning=meaning) for ending in _ENDINGS)


def _wanted(fmt: PromptFormat) -> tuple[str, str]:
    """The placeholder of an answer, and what replaces it."""
    if fmt.answers == "order":
        names = "names each of {{ _choice_list_and }} once, separated by commas"
        return "[order]", f"[order] {names}"
    if fmt.answers == "text":
        return "[answer]", "[answer] is the response to the problem"
    placeholder = f"[answer_{label_word(fmt)}]"
    return placeholder, f"the {placeholder} is one of {{{{ _choice_list_or }}}}"
