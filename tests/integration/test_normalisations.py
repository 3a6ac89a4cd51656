"""Normalisations through whole runs: what is asked of the model, and which score is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.model import LM, Score
from lm_eval.api.registry import register_model
from lm_eval.requests import LoglikelihoodRequest
from tests.support.command_line import Workplace
from tests.support.servers.faulty import FaultyServer
from tests.support.servers.toy_openai import ToyServer, write_tokenizer

pytestmark = pytest.mark.usefixtures("own_registries")

CHOICES = ["ab", "twenty characters ok", "日本語日本語日本語日", "a1b2c", "four"]
LOGPROBS = dict(zip(CHOICES, (-2.0, -6.0, -6.0, -5.0, -7.0), strict=True))
ALONE = dict(zip(CHOICES, (-2.5, -6.5, -6.5, -5.5, -20.0), strict=True))
TOKENS = dict(zip(CHOICES, (1, 4, 5, 10, 2), strict=True))
METRICS = ["acc", "acc_norm", "acc_bytes", "acc_tokens", "acc_mutual_info"]
"""In the order of the choices: each metric picks the choice at its place."""

asked: list[tuple[Any, str]] = []


class TableLM(LM):
    """Scores from the table above; labels get a fixed one. Counts tokens unless told not to."""

    counts = True

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        asked.extend(request.args for request in requests)
        return [self._score(*request.args) for request in requests]

    def _score(self, context: str, continuation: str) -> tuple[float, bool]:
        text = continuation.strip()
        scores = LOGPROBS if "Which" in context else ALONE
        if text not in scores:
            return Score(-1.0 - ord(text[0]), False, tokens=1)
        return Score(scores[text], False, tokens=TOKENS[text] if self.counts else None)


class CountlessLM(TableLM):
    counts = False


class PairLM(TableLM):
    """As models written for the harness answer: plain pairs."""

    def _score(self, context: str, continuation: str) -> tuple[float, bool]:
        logprob, is_greedy = super()._score(context, continuation)
        return logprob, is_greedy


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    asked.clear()
    for model in (TableLM, CountlessLM, PairLM):
        register_model(model.__name__)(model)
    place = Workplace(tmp_path)
    rows = [{"question": f"Which{n}?", "choices": CHOICES, "answer": n % 5} for n in range(5)]
    place.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    place.task(formats=..., output_type="multiple_choice")
    return place


def run(place: Workplace, task: str, *argv: str, model: str = "TableLM") -> dict[str, Any]:
    place.run("--tasks", task, "--log_samples", *argv, model=model).ok()
    return place.results()


def scores_by_gold(place: Workplace, name: str, metric: str) -> list[float]:
    return [sample[metric] for sample in place.samples(name)]


def test_all_five_side_by_side_under_a_format(place: Workplace) -> None:
    place.task(formats={"cloze": {"metrics": METRICS}})
    results = run(place, "t.yaml")
    for choice, metric in enumerate(METRICS):
        assert scores_by_gold(place, "t", metric) == [float(n == choice) for n in range(5)]
        assert results["results"]["t"][f"{metric},none"] == pytest.approx(0.2)
    assert place.samples("t")[0]["tokens"] == list(TOKENS.values())


def test_all_five_in_the_metric_list_of_a_plain_task(place: Workplace) -> None:
    place.task(
        formats=...,
        output_type="multiple_choice",
        metric_list=[{"metric": metric} for metric in METRICS],
    )
    run(place, "t.yaml")
    for choice, metric in enumerate(METRICS):
        assert scores_by_gold(place, "t", metric) == [float(n == choice) for n in range(5)]


def test_metric_list_adds_to_a_format(place: Workplace) -> None:
    place.task(formats="cloze", metric_list=[{"metric": "acc_mutual_info"}])
    run(place, "t.yaml")
    assert scores_by_gold(place, "t", "acc_mutual_info") == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("normalization", "metric"),
    list(zip(["none", "character", "byte", "token", "pmi"], METRICS, strict=True)),
)
def test_a_task_names_the_normalisation_of_its_score(
    place: Workplace, normalization: str, metric: str
) -> None:
    place.task(formats=..., output_type="multiple_choice", normalization=normalization)
    results = run(place, "t.yaml,t.yaml@cloze,t.yaml@mcqa")
    shown = {metric + ",none": normalization}
    assert results["primary_metrics"] == {
        "t": shown,
        "t@cloze": shown,
        "t@mcqa": {"acc,none": "none"},  # labels are alike: their sums are compared
    }
    assert f"{metric},none" in results["results"]["t"]


def test_a_format_has_the_first_word(place: Workplace) -> None:
    place.task(formats={"cloze": {"normalization": "byte"}, "mcqa": {}}, normalization="pmi")
    out = place.run("--tasks", "t.yaml@cloze,t.yaml@mcqa", model="TableLM").ok()
    assert place.results()["primary_metrics"]["t@cloze"] == {"acc_bytes,none": "byte"}
    assert "acc_bytes (per byte)" in " ".join(out.out.split())
    assert not any(context == "Answer:" for context, _ in asked)  # nothing asked for nothing


def test_generated_answers_have_no_normalisation_to_name(place: Workplace) -> None:
    place.task(formats="generate", normalization="pmi")
    run(place, "t.yaml", model="dummy")
    assert place.results()["primary_metrics"] == {"t": {"acc,none": None}}


PRIORS = [
    ({"type": "cloze"}, (), "Answer:"),
    ({"type": "cloze", "answer_prompt": "A:", "gen_prefix": "It is"}, (), "A: It is"),
    ({"type": "cloze::pure"}, (), ""),
    ({"type": "cloze"}, ("--num_fewshot", "2", "--system_instruction", "Be good."), "Answer:"),
]


@pytest.mark.parametrize(("fmt", "flags", "context"), PRIORS)
def test_the_prior_is_asked_after_the_words_that_ask_for_the_answer(
    place: Workplace, fmt: dict[str, Any], flags: tuple[str, ...], context: str
) -> None:
    place.task(formats={**fmt, "normalization": "pmi"})
    run(place, "t.yaml", *flags)
    alone = [pair for pair in asked if "Which" not in pair[0]]
    assert alone == [(context, f" {text}") for text in CHOICES] * 5
    assert len(asked) == 2 * len(alone)


def test_the_prior_in_chat(place: Workplace) -> None:
    place.task(formats={"type": "cloze", "normalization": "pmi"})
    run(place, "t.yaml", "--apply_chat_template", model="dummy")
    pairs = [tuple(one.values()) for one in place.samples("t")[0]["arguments"].values()]
    assert pairs[5:] == [("<|user|>\nAnswer:\n<|assistant|>\n", text) for text in CHOICES]


CALIBRATING = [
    (
        {"type": "mcqa"},
        (),
        "Question: {0}\nA. {0}\nB. {0}\nC. {0}\nD. {0}\nE. {0}\nAnswer:",
        [" A", " B", " C", " D", " E"],
    ),
    (
        {"type": "cloze"},
        ("--system_instruction", "Be good."),
        "Be good.\nQuestion: {0}\nAnswer:",
        [f" {text}" for text in CHOICES],
    ),
]


@pytest.mark.parametrize(("fmt", "flags", "context", "texts"), CALIBRATING)
def test_calibration_asks_without_content(
    place: Workplace, fmt: dict[str, Any], flags: tuple[str, ...], context: str, texts: list[str]
) -> None:
    place.task(formats={**fmt, "normalization": "calibrated"})
    results = run(place, "t.yaml", *flags)
    empty = [pair for pair in asked if "Which" not in pair[0]]
    assert len(asked) == len(empty) + 25
    expected = [(context.format(w), text) for w in ("N/A", "", "[MASK]") for text in texts]
    assert empty == expected * 5
    assert results["primary_metrics"] == {"t": {"acc_calibrated,none": "calibrated"}}


def test_calibration_keeps_the_shots_of_each_doc(place: Workplace) -> None:
    place.task(formats="mcqa", metric_list=[{"metric": "acc_calibrated"}])
    run(place, "t.yaml", "--num_fewshot", "2", "--limit", "2")
    for sample in place.samples("t"):
        prompts = [one["arg_0"] for one in sample["arguments"].values()]
        shots, last = prompts[0].rsplit("Question: ", 1)
        assert shots.count("Which") == 2
        assert last.startswith("Which")
        assert len(prompts) == 5 + 15
        assert all(text.startswith(f"{shots}Question: ") for text in prompts)
        assert all(text.count("Which") == 2 for text in prompts[5:])


def test_calibration_changes_the_pick(place: Workplace) -> None:
    """Scores are LOGPROBS, and ALONE without a question: the last choice gains most."""
    place.task(formats={"type": "cloze", "normalization": "calibrated"})
    run(place, "t.yaml")
    assert scores_by_gold(place, "t", "acc_calibrated") == [0, 0, 0, 0, 1]


def test_both_priors_side_by_side(place: Workplace) -> None:
    metrics = ["acc", "acc_mutual_info", "acc_calibrated"]
    place.task(formats={"type": "cloze", "metrics": metrics})
    run(place, "t.yaml")
    assert len(asked) == 5 * 5 * (1 + 1 + 3)
    for metric in metrics[1:]:
        assert scores_by_gold(place, "t", metric) == [0, 0, 0, 0, 1]
    out = place.cli("preview", "t.yaml").out
    assert "alone:     each again after 'Answer:', for acc_mutual_info" in out
    assert "each again with 'N/A', '', '[MASK]' as the question, for acc_calibrated" in out


def test_calibration_needs_a_format(place: Workplace) -> None:
    place.task(formats=..., output_type="multiple_choice", normalization="calibrated")
    place.run("--tasks", "t.yaml", model="TableLM").refused(
        "only a format knows where that is", "t@cloze"
    )
    place.task(
        formats=..., output_type="multiple_choice", metric_list=[{"metric": "acc_calibrated"}]
    )
    place.run("--tasks", "t.yaml", model="TableLM").refused("acc_calibrated")
    assert asked == []


@pytest.mark.parametrize("model", ["CountlessLM", "PairLM"])
@pytest.mark.parametrize("task", ["t.yaml", "t.yaml@cloze"])
def test_a_backend_without_token_counts_is_an_error(
    place: Workplace, task: str, model: str
) -> None:
    place.task(formats=..., output_type="multiple_choice", normalization="token")
    found = place.run("--tasks", task, model=model)
    assert found.code == 1
    name = task.replace(".yaml", "")
    assert f"Task '{name}'" in found.err
    assert "acc_tokens divides by the number of tokens" in found.err
    assert "acc_norm" in found.err


def test_the_dummy_counts_words(place: Workplace) -> None:
    place.task(formats={"type": "cloze", "normalization": "token"})
    run(place, "t.yaml", model="dummy")
    assert place.samples("t")[0]["tokens"] == [1, 3, 1, 1, 1]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"normalization": "tokens"}, "Did you mean 'token'?"),
        (
            {"normalization": ["pmi"]},
            "must be one of none, character, byte, token, pmi, calibrated",
        ),
        ({"formats": {"cloze": {"normalization": "chars"}}}, "one of none, character"),
        ({"formats": {"generate": {"normalization": "pmi"}}}, "normalization compares texts"),
        ({"formats": {"cloze": {"normalisation": "pmi"}}}, "Did you mean 'normalization'?"),
    ],
)
def test_a_wrong_normalization_is_explained(
    place: Workplace, keys: dict[str, Any], said: str
) -> None:
    place.task(**{"formats": ..., "output_type": "multiple_choice", **keys})
    place.run("--tasks", "t.yaml", model="TableLM").refused(said, "t.yaml")


@pytest.mark.parametrize("fmt", ["cloze", "mcqa"])
def test_models_behind_a_server_count_tokens_too(place: Workplace, fmt: str) -> None:
    tokenizer = write_tokenizer(place.folder / "toy")
    place.task(formats={"type": fmt, "normalization": "token", "choice_labels": CUSTOM[fmt]})
    with FaultyServer(ToyServer()) as server:
        arguments = f"model=toy,base_url={server.url}/v1/completions,tokenizer={tokenizer}"
        run(place, "t.yaml", "--model_args", arguments, model="local-completions")
    sizes = [len(f" {text}".encode()) for text in CHOICES]  # a byte is a token there
    assert place.samples("t")[0]["tokens"] == (sizes if fmt == "cloze" else [1, 1, 1, 1, 3])


CUSTOM = {"cloze": None, "mcqa": ["A", "B", "C", "D", "no"]}
