"""The exact prompts of every built-in format. To change them: ``python tests/golden/regenerate.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests
from tests.support.modules import module_at

golden = module_at(Path(__file__).with_name("regenerate.py"))
PROMPTS = dict(golden.golden_prompts())


@pytest.mark.parametrize("file", PROMPTS, ids=lambda file: file.stem)
def test_prompt_is_the_golden_one(file: Path) -> None:
    assert file.is_file(), f"{file.name} is missing: run `python tests/golden/regenerate.py`"
    assert PROMPTS[file] == file.read_bytes().decode()


def test_no_golden_file_is_left_over() -> None:
    assert set(golden.FOLDER.iterdir()) == set(PROMPTS)


# What document 004 shows under "What each format produces", copied from it. The target is part of it,
# so it is how a shot looks; for `cot` the document shows the question only.
DOCUMENT_004 = {
    "mcqa": """\
Question: What is the capital of France?
A. Berlin
B. Madrid
C. Paris
D. London
Answer: C""",
    "cloze": """\
Question: What is the capital of France?
Answer: Paris""",
    "generate": """\
Given the following question and 4 candidate answers (A, B, C and D), choose the best answer.
Question: What is the capital of France?
A. Berlin
B. Madrid
C. Paris
D. London
Your response should end with "The best answer is [answer_letter]" where the [answer_letter] is one of A, B, C or D.
The best answer is C""",  # noqa: E501  # as in the document
    "cot": """\
Given the following problem, reason step by step to find the final answer.
Problem: What is the capital of France?
Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.""",  # noqa: E501  # as in the document
}


@pytest.mark.parametrize("name", DOCUMENT_004)
def test_document_004_shows_the_same(name: str) -> None:
    task = golden.france_task(name)
    shot = task.joints.shot_text(task.shot_prompts.shot(golden.FRANCE))
    wanted = DOCUMENT_004[name]
    if name == "cot":
        wanted += "\nThe final answer is Paris"
    assert shot == wanted + "\n\n"
    plain = str(golden.context(name, 0, as_chat=False))
    assert plain == DOCUMENT_004[name].removesuffix(" C").removesuffix(" Paris")


@pytest.mark.parametrize(
    ("name", "as_chat", "scored"),
    [
        ("mcqa", False, [" A", " B", " C", " D"]),
        ("mcqa", True, ["A", "B", "C", "D"]),
        ("cloze", False, [" Berlin", " Madrid", " Paris", " London"]),
        ("cloze::pure", True, ["Berlin", "Madrid", "Paris", "London"]),
        ("mcq::numbered", False, [" 1", " 2", " 3", " 4"]),
    ],
)
def test_what_is_scored_after_the_prompt(name: str, as_chat: bool, scored: list[str]) -> None:
    (doc,) = build_requests(golden.france_task(name), [0], PromptOptions(as_chat=as_chat))
    requests = [r for r in doc.requests if isinstance(r, LoglikelihoodRequest)]
    assert [request.continuation for request in requests] == scored


def test_single_turn_chat_is_one_user_message_with_the_plain_text() -> None:
    options = PromptOptions(num_fewshot=2, as_chat=True, multiturn=False)
    (doc,) = build_requests(golden.france_task("generate"), [0], options)
    user, assistant = doc.context.as_dicts()
    plain = (golden.FOLDER / "generate-2shot-plain.txt").read_text()
    assert user == {"role": "user", "content": plain.removesuffix("\nThe best answer is")}
    assert assistant == {"role": "assistant", "content": "The best answer is"}


def test_server_that_cannot_prefill_gets_the_prompt_without_gen_prefix() -> None:
    options = PromptOptions(as_chat=True, can_prefill=False)
    (doc,) = build_requests(golden.france_task("generate"), [0], options)
    assert [message["role"] for message in doc.context.as_dicts()] == ["user"]
