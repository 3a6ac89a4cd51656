"""Which docs stand before a question: drawn by the task, the same under every format."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.api.task import ConfigurableTask
from lm_eval.errors import LmEvalError, UsageError
from lm_eval.formats.compile import format_names
from lm_eval.requests import PromptOptions, build_requests
from tests.support.choice_task import choice_task


def rows(name: str, count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"{name}{n}?", "choices": ["x", "y", "z"], "answer": n % 3, "order": [0, 1, 2]}
        for n in range(count)
    ]


def task(format_name: str | None = "mcqa", **keys: Any) -> ConfigurableTask:
    fields: dict[str, Any] = {
        "custom_dataset": lambda: {"test": rows("t", 12), "train": rows("s", 9)},
        "training_split": "train",
        "doc_to_target": "order" if format_name == "ranking" else "answer",
    }
    return choice_task(format_name=format_name, **{**fields, **keys})


def shots(a_task: ConfigurableTask, count: int, seed: int = 1234) -> list[tuple[int, ...]]:
    a_task.set_fewshot_seed(seed)
    docs = build_requests(a_task, range(len(a_task.eval_docs)), PromptOptions(num_fewshot=count))
    return [doc.shots for doc in docs]


def test_no_shot_twice_and_docs_differ() -> None:
    drawn = shots(task(), 4)
    assert all(len(set(places)) == 4 for places in drawn)
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("name", [name for name in format_names() if name != "fill"])
def test_all_formats_see_the_same_shots(name: str) -> None:
    assert shots(task(name), 3) == shots(task(None), 3)


def test_first_n() -> None:
    drawn = shots(task(fewshot_config={"sampler": "first_n"}), 3)
    assert set(drawn) == {(0, 1, 2)}


def test_fixed_samples() -> None:
    fixed = [
        {"question": "F1?", "choices": ["x", "y"], "answer": 1},
        {"question": "F2?", "choices": ["x", "y"], "answer": "x"},
    ]
    for samples in (fixed, lambda: fixed):
        with_samples = task(fewshot_config={"sampler": "first_n", "samples": samples})
        (doc,) = build_requests(with_samples, [0], PromptOptions(num_fewshot=2))
        assert str(doc.context) == (
            "Question: F1?\nA. x\nB. y\nAnswer: B\n\n"
            "Question: F2?\nA. x\nB. y\nAnswer: A\n\n"
            "Question: t0?\nA. x\nB. y\nC. z\nAnswer:"
        )


@pytest.mark.parametrize("sampler", ["default", "first_n"])
def test_a_doc_is_never_its_own_example(sampler: str) -> None:
    same = task(training_split=None, fewshot_split="test", fewshot_config={"sampler": sampler})
    for doc_id, places in enumerate(shots(same, 5)):
        assert doc_id not in places
        assert len(places) == 5


def test_nor_a_copy_of_it() -> None:
    docs = [*rows("t", 3), *rows("t", 3)]
    same = task(custom_dataset=lambda: {"test": docs}, training_split=None, fewshot_split="test")
    for doc_id, places in enumerate(shots(same, 2)):
        assert all(docs[place] != docs[doc_id] for place in places)


def test_too_few_left_when_copies_are_dropped_is_an_error() -> None:
    """Six docs, but only two of them are another question."""
    docs = [*rows("t", 1), *rows("t", 1), *rows("t", 1), *rows("t", 1), *rows("u", 2)]
    for sampler in ("default", "first_n"):
        same = task(
            custom_dataset=lambda: {"test": docs},
            training_split=None,
            fewshot_split="test",
            fewshot_config={"sampler": sampler},
        )
        with pytest.raises(LmEvalError, match="num_fewshot"):
            shots(same, 4)


def test_pool_too_small() -> None:
    with pytest.raises(UsageError, match=r"num_fewshot is 10, but its few-shot pool holds 9"):
        shots(task(), 10)
    assert len(shots(task(), 9)[0]) == 9
    with pytest.raises(UsageError, match=r"holds 11 usable docs \(the doc itself is left out\)"):
        shots(task(training_split=None), 12)


def test_the_pool() -> None:
    splits = {name: rows(name, 5) for name in ("test", "train", "dev", "shots")}

    def pool(**keys: Any) -> str:
        drawn = task(custom_dataset=lambda: splits, **keys).shot_pool[0]["question"]
        return str(drawn).rstrip("0123456789?")

    assert pool() == "train"
    assert pool(validation_split="dev") == "train"
    assert pool(training_split=None, validation_split="dev") == "dev"
    assert pool(fewshot_split="shots") == "shots"
    assert pool(fewshot_split="dev", fewshot_config={"split": "shots"}) == "shots"
    assert pool(training_split=None) == "test"


def test_number_of_shots() -> None:
    def count(own: int | None, asked: int | None) -> int:
        some = task(num_fewshot=own)
        (doc,) = build_requests(some, [0], PromptOptions(num_fewshot=asked))
        return len(doc.shots)

    assert count(None, None) == 0
    assert count(2, None) == 2
    assert count(2, 3) == 3
    assert count(None, 3) == 3
    assert count(0, 3) == 0  # a task that says 0 means it


def test_fields_of_the_shots_may_differ() -> None:
    changed = task(
        None,
        output_type="multiple_choice",
        fewshot_config={"sampler": "first_n", "doc_to_text": "Shot {{ question }}"},
    )
    (doc,) = build_requests(changed, [0], PromptOptions(num_fewshot=1))
    assert str(doc.context) == "Shot s0? x\n\nt0?"


def test_shots_are_built_once() -> None:
    """Memory and time do not grow with docs × shots: docs share the text of a shot."""
    docs = list(build_requests(task(), range(12), PromptOptions(num_fewshot=3)))
    by_place: dict[int, set[int]] = {}
    for doc in docs:
        for place, part in zip(doc.shots, doc.context.parts, strict=False):
            by_place.setdefault(place, set()).add(id(part))
    assert all(len(ids) == 1 for ids in by_place.values())


def test_what_a_helper_does_to_a_doc_is_not_seen_in_the_examples() -> None:
    def shout(doc: dict[str, Any]) -> str:
        doc["question"] += "!"
        return str(doc["question"])

    data = {"custom_dataset": lambda: {"test": rows("t", 12)}, "training_split": None}
    shouting = task(None, **data, doc_to_text=shout, output_type="multiple_choice")
    prompts = build_requests(shouting, range(12), PromptOptions(num_fewshot=2))
    assert [str(doc.context).count("!") for doc in prompts] == [3] * 12


def test_description_comes_once_and_instruction_in_every_shot() -> None:
    both = task(
        None,
        description="Read well.\n\n",
        formats={"type": "cloze", "instruction": "Say it.\n"},
        fewshot_config={"sampler": "first_n"},
    )
    (doc,) = build_requests(both, [0], PromptOptions(num_fewshot=2))
    text = str(doc.context)
    assert text.startswith("Read well.\n\nSay it.\nQuestion: s0?")
    assert text.count("Read well.") == 1
    assert text.count("Say it.\n") == 3
    chat = PromptOptions(num_fewshot=1, as_chat=True, system_instruction="Be brief.")
    (doc,) = build_requests(both, [0], chat)
    assert doc.context.as_dicts() == [
        {"role": "system", "content": "Be brief.\n\nRead well.\n\n"},
        {"role": "user", "content": "Say it.\nQuestion: s0?\nAnswer:"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "Say it.\nQuestion: t0?\nAnswer:"},
    ]
