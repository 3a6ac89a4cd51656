"""Enforced formats with the real default model: every reply is an answer, and every file says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.formats.assemble import Prompt
from lm_eval.formats.grammar import NUMBER, Grammar, Hole
from lm_eval.models.gguf import GgufLM
from lm_eval.requests import GenerateRequest, Reply
from tests.support.command_line import Workplace

LETTERS = Grammar((Hole(choices=("A", "B", "C", "D")),))


@pytest.fixture(scope="module")
def lm() -> Iterator[GgufLM]:
    try:
        model = GgufLM(n_threads=1, n_ctx=1024)
    except MissingExtraError as error:
        pytest.skip(f"needs cyllama and the default weights: {error.install}")
    yield model
    model.close()


def asked(
    lm: GgufLM, text: str, grammar: Grammar | None, count: int = 1, **kwargs: Any
) -> list[Reply]:
    kwargs = {"max_gen_toks": 24, **kwargs}
    requests = [
        GenerateRequest("t", place, 0, Prompt((text,)), kwargs, grammar=grammar)
        for place in range(count)
    ]
    return [answer for _, answer in sorted(lm.stream(requests))]  # type: ignore[misc]


def test_a_free_reply_that_fits_is_the_enforced_one(lm: GgufLM) -> None:
    prompt = "The sky is blue. The grass is green. The colour of the sky is"
    (free,) = asked(lm, prompt, None, max_gen_toks=1)
    colours = Grammar((Hole(choices=("red", "white", "green")),))
    assert free == " white"
    assert asked(lm, prompt, colours) == [" white"]


def test_a_number_is_not_made_longer(lm: GgufLM) -> None:
    prompt = "2 + 2 = 4\n3 + 3 = 6\n4 + 4 ="
    (reply,) = asked(lm, prompt, Grammar((NUMBER,)))
    assert reply == " 8"
    assert reply.finish == "stop"


def test_two_phases_write_freely_up_to_the_opening(lm: GgufLM) -> None:
    grammar = Grammar((" ", Hole(choices=("A", "B"))), "The best answer is")
    prompt = "Question: Is snow white?\nA. yes\nB. no\n"
    (free,) = asked(lm, prompt, None)
    (reply,) = asked(lm, prompt, grammar)
    before, opening, answer = reply.rpartition(grammar.opening or "")
    assert opening
    assert before.rstrip() == free.partition(grammar.opening or "")[0].rstrip()
    assert answer in (" A", " B")
    assert reply.finish == "stop"


def test_replies_do_not_depend_on_their_neighbours(lm: GgufLM) -> None:
    grammar = Grammar((" ", Hole(choices=("A", "B"))), "Answer:")
    prompts = ["One", "Two sheep", "The moon is", "Once upon a time"]
    requests = [
        GenerateRequest(
            "t",
            place,
            0,
            Prompt((text,)),
            {"max_gen_toks": 6},
            grammar=(grammar, LETTERS)[place % 2],
        )
        for place, text in enumerate(prompts)
    ]
    together = dict(lm.stream(requests))
    for place, request in enumerate(requests):
        assert dict(lm.stream([request])) == {0: together[place]}


def test_sampled_replies_are_allowed_and_differ(lm: GgufLM) -> None:
    replies = asked(lm, "A letter:", LETTERS, count=24, do_sample=True, temperature=3.0)
    assert {reply.strip() for reply in replies} <= set("ABCD")
    assert len(set(replies)) > 1
    again = asked(lm, "A letter:", LETTERS, count=24, do_sample=True, temperature=3.0)
    assert replies == again


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, lm: GgufLM
) -> tuple[str, dict[str, Any], Path]:
    """A run of the command line: the table, the results file, the folder."""
    work = Workplace(tmp_path_factory.mktemp("enforced"))
    formats = "demo_mcq@generate,demo_mcq@generate+enforced,demo_mcq@mcq_cot+enforced"
    arguments = [
        "--limit",
        "6",
        "--gen_kwargs",
        "max_gen_toks=16",
        "--output_path",
        str(work.output),
    ]
    ran = work.cli("run", "--tasks", formats, "--model_args", "n_threads=1", *arguments).ok()
    (file,) = work.output.rglob("results_*.json")
    return ran.out, json.loads(file.read_text()), file.parent


def test_every_table_and_file_says_enforced(results: tuple[str, dict[str, Any], Path]) -> None:
    table, stored, folder = results
    assert "generate+enforced" in table
    assert "mcq_cot+enforced" in table
    formats = stored["formats"]
    assert formats["demo_mcq@generate+enforced"]["enforced"] is True
    assert "enforced" not in formats["demo_mcq@generate"]
    fingerprints = {facts["fingerprint"] for facts in formats.values()}
    assert len(fingerprints) == 3
    for name in ("generate+enforced", "mcq_cot+enforced"):
        (samples,) = folder.glob(f"samples_demo_mcq@{name}_*.jsonl")
        for row in map(json.loads, samples.read_text().splitlines()):
            assert row["enforced"]["regex"].endswith("(?:A|B|C|D)")
            assert row["reading"]["rule"] == "enforced"
            assert row["format"] == name


def test_every_enforced_reply_is_read(results: tuple[str, dict[str, Any], Path]) -> None:
    scores = results[1]["results"]
    for name in ("demo_mcq@generate+enforced", "demo_mcq@mcq_cot+enforced"):
        assert scores[name]["acc_read,none"] == scores[name]["acc,none"]
        assert scores[name]["share_read,none"] == 1.0


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("demo_mcq@mcqa+enforced", "cannot be enforced: it scores log-likelihoods"),
        ("demo_mcq@generate+enforcd", "Did you mean '+enforced'?"),
        ("demo_mcq@*+forced", "Valid: +enforced"),
        ("demo_mcq@genrate+enforced", "Did you mean 'generate'?"),
    ],
)
def test_wrong_suffixes_are_one_message(tmp_path: Path, task: str, words: str) -> None:
    ran = Workplace(tmp_path).cli("run", "--tasks", task)
    ran.refused(words)
    assert ran.err.count("\n") == 1


def test_a_backend_that_cannot_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    Workplace(tmp_path).cli("run", "--model", "dummy", "--tasks", "demo_mcq@cot+enforced").refused(
        "DummyLM cannot hold replies to", "Ask it as demo_mcq@cot, without +enforced."
    )


def test_an_order_that_is_too_long_names_its_doc(tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    work.rows(choices=list("abcdefg"), answer=[*range(7)])
    work.cli(
        "run", "--model", "dummy", "--tasks", f"{work.task(formats=...)}@ranking+enforced"
    ).refused("Task 't@ranking+enforced', doc 0: an order of 7 choices cannot be enforced")


def test_a_grammar_that_the_engine_cannot_hold_is_refused(tmp_path: Path, lm: GgufLM) -> None:
    work = Workplace(tmp_path)
    task = work.task(doc_to_choice=..., formats={"cot": {"grammar": {"regex": "(?=a)b"}}})
    work.cli("run", "--tasks", f"{task}@cot+enforced", "--model_args", "n_threads=1").refused(
        "look-around", "without +enforced"
    )
