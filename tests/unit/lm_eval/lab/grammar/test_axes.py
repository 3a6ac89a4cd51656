"""Wording, shots and reasoning: axes of their own, each with its own list."""

from __future__ import annotations

from math import prod

import pytest

from lm_eval.errors import UsageError
from lm_eval.formats.assemble import spoken
from lm_eval.formats.compile import compile_format, get_format
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.axes import DIRECT, STEPS
from lm_eval.lab.grammar.sample import FormatList, sample_formats
from tests.support.lab_bases import BUILT_IN, base, item_for


def whole(name: str, axis: str) -> FormatList:
    """All formats that a base has on an axis."""
    return sample_formats(base(name), 200, axes=(axis,), allow_fewer=True)


LAYOUT_FIELDS = (
    *("question_prefix", "question_choice_delimiter", "choices_prefix", "choice_labels"),
    *("choice_format", "choice_delimiter", "section_separator", "fewshot_delimiter"),
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_other_words_leave_the_layout_alone(name: str) -> None:
    sampled = whole(name, "wording")
    assert sampled.axis == "wording"
    assert len(sampled) >= 4
    assert len(sampled) == prod(sampled.sizes.values())  # no wording fails a check
    for one in sampled:
        for field in LAYOUT_FIELDS:
            assert getattr(one.format, field) == getattr(base(name), field)
        assert set(one.slots) <= {"instruction", "answer_prompt"}
        assert str(one.format.instruction or "\n").endswith("\n")
        assert one.options == {}


@pytest.mark.parametrize("name", [name for name in BUILT_IN if base(name).reads_text])
def test_other_words_ask_for_what_is_read(name: str) -> None:
    for one in whole(name, "wording"):
        fmt = one.format
        item = item_for(fmt, "Which?", ("red", "blue", "green", "white"), 2)
        right = list(item.gold[0]) if fmt.answers == "order" else item.gold[0]
        assert fmt.read(spoken(fmt.shot_turn(item)), item, is_prefilled=False).value == right
        assert fmt.scorer is not None
        last = fmt.question_turn(item).user.rpartition("\n")[2]
        if fmt.scorer.name != "whole_reply":  # which reads an echo too
            assert fmt.read(last, item).value is None, last
        phrase = dict(fmt.scorer.options).get("phrase")
        assert phrase is None or str(phrase) in str(fmt.answer_prompt)


def test_stop_strings_follow_the_words() -> None:
    for one in whole("generate", "wording"):
        question, instruction = one.format.generation_kwargs["until"]
        assert question == "\nQuestion:"
        assert str(one.format.instruction).startswith(instruction.strip())
        assert instruction.startswith("\n")
        assert "{{" not in instruction


def test_an_instruction_where_there_was_none_is_a_place_to_stop() -> None:
    plain = compile_format(
        {
            "type": "mcqa",
            "output_type": "generate_until",
            "scorer": "first_label",
            "generation_kwargs": {"until": ["\nQuestion:"]},
        },
        name="plain",
    )
    for one in sample_formats(plain, 20, axes=("wording",)):
        stops = one.format.generation_kwargs["until"]
        assert stops[0] == "\nQuestion:"
        if one.format.instruction is None:
            assert stops == ["\nQuestion:"]
        else:
            assert one.format.instruction.startswith(stops[1].strip())


def test_shots_are_run_options_and_no_fields() -> None:
    sampled = whole("mcqa", "shots")
    assert len(sampled) == 1 + 1 + 4 * 21  # as the task says; none; 1, 2, 4 or 8 in 21 orders
    assert sampled[0].options == {}
    assert all(one.format.fingerprint == get_format("mcqa").fingerprint for one in sampled)
    assert len({tuple(one.options.items()) for one in sampled}) == len(sampled)
    for one in sampled[1:]:
        shots, seed = one.options["num_fewshot"], one.options.get("fewshot_seed")
        assert one.name == f"mcqa-{shots}shot" + ("" if seed is None else f"-seed{seed}")
        assert shots or seed is None


def reasoned(name: str) -> tuple[PromptFormat, PromptFormat]:
    """The two formats of the axis: without reasoning, and with it."""
    sampled = whole(name, "reasoning")
    found = {one.slots["reasoning"]: one.format for one in sampled}
    assert len(sampled) == len(found) == 2
    assert sampled[0].format == base(name)
    return found[DIRECT], found[STEPS]


@pytest.mark.parametrize("name", ["generate", "ranking", "cot"])
def test_reasoning_comes_before_the_answer_or_not_at_all(name: str) -> None:
    direct, steps = reasoned(name)
    assert direct.gen_prefix is not None
    assert steps.gen_prefix is None
    item = item_for(direct, "Which?", ("red", "blue", "green", "white"), 1)
    assert "step by step" not in direct.question_turn(item).user
    assert "step by step" in steps.question_turn(item).user
    assert spoken(direct.shot_turn(item)) == spoken(steps.shot_turn(item))
    right = list(item.gold[0]) if direct.answers == "order" else item.gold[0]
    reply = f"First I look at each. {spoken(steps.shot_turn(item))}"
    assert steps.read(reply, item).value == right
    assert direct.read(f" {direct.target_text(item)}", item).value == right
    assert steps.generation_kwargs["max_gen_toks"] >= 1024


@pytest.mark.parametrize("name", ["mcqa", "cloze", "classification"])
def test_where_nothing_is_written_nobody_can_reason(name: str) -> None:
    with pytest.raises(UsageError, match=r"nothing to vary on the axis 'reasoning': .*`generate`"):
        sample_formats(base(name), 2, axes=("reasoning",))
