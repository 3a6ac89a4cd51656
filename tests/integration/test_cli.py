"""What the commands do when all is well: prompts, files, listings, and data that stays as it is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from math import exp
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from lm_eval.errors import ModelError
from lm_eval.models.base import Capabilities
from lm_eval.models.dummy import DummyLM
from lm_eval.registry import MODELS
from tests.support.command_line import (
    Workplace,
    python,
    python_started,
    subprocess_cli,
    without_progress,
)
from tests.support.paths import SOURCE

KEY = "sk-canary-123456789012"


# Data goes through unchanged

ODD_TEXTS = {
    "braces": "{{ 7*7 }} {% if x %} {# gone #} {label}. {choice} {} {0} }}",
    "html": "<b>bold</b> &amp; <script>alert('x')</script> &lt;",
    "rich markup": "[red]red[/red] :smile: [link=http://x]y[/link]",
    "percent": "%s %(name)s 100% $HOME `id` \\n \\u0041 \\",
    "emoji": "👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️",
    "right to left": "שלום עולם \u202eدرحبا\u202c مرحبا",
    "nul": "before\0after",
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J",
    "lone surrogate": "half \ud83d of a pair \udc00",
    "line breaks": "a\r\nb\rc\u2028d\u2029e\x85f\x0b\x0cg\ttab",
    "edges": "  spaces around \n",
    "zero width": "a\u200bb\ufeffc\u00add",
    "quotes": "\"double\" 'single' `back` “curly”",
    "megabyte": "long " * 210_000,
}


@pytest.fixture
def odd(place: Workplace) -> Workplace:
    rows = [
        {"question": text, "choices": [text, "plain", text + "!"], "answer": at % 3, "id": name}
        for at, (name, text) in enumerate(ODD_TEXTS.items())
    ]
    place.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return place


@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "cot", "ranking"])
def test_text_from_data_reaches_prompt_and_files_unchanged(odd: Workplace, name: str) -> None:
    if name == "ranking":
        keys: dict[str, Any] = {"doc_to_target": "{{ [0, 1, 2] }}"}
    elif name == "cot":
        keys = {"doc_to_target": "{{ 1 }}"}  # a gold of several lines is refused
    else:
        keys = {}
    outcome = odd.run("--tasks", f"{odd.task(**keys)}@{name}")
    said = [line for line in outcome.err.splitlines() if not line.startswith(f"t@{name}: ")]
    assert (outcome.code, said) == (0, [])  # a slow machine shows how far it is
    samples = odd.samples(f"t@{name}")
    for sample, text in zip(samples, ODD_TEXTS.values(), strict=True):
        assert sample["doc"]["question"] == text
        assert sample["doc"]["choices"] == [text, "plain", text + "!"]
        assert text in sample["arguments"]["gen_args_0"]["arg_0"]
    if name == "cloze":
        scored = [s["arguments"]["gen_args_0"]["arg_1"] for s in samples]
        assert scored == [f" {text}" for text in ODD_TEXTS.values()]


def test_text_from_data_under_a_raw_task(odd: Workplace) -> None:
    path = odd.task(formats=..., output_type="multiple_choice", doc_to_text="Q: {{question}}\nA:")
    assert odd.run("--tasks", path).code == 0
    for sample, text in zip(odd.samples("t"), ODD_TEXTS.values(), strict=True):
        assert sample["arguments"]["gen_args_0"] == {
            "arg_0": f"Q: {text}\nA:",
            "arg_1": f" {text}",
        }


def test_text_from_data_in_shots_and_chat(odd: Workplace) -> None:
    flags = ("--num_fewshot", "3", "--apply_chat_template")
    assert odd.run("--tasks", f"{odd.task()}@generate", *flags).code == 0
    texts = list(ODD_TEXTS.values())
    for sample in odd.samples("t@generate"):
        prompt = sample["arguments"]["gen_args_0"]["arg_0"]
        assert all(texts[shot] in prompt for shot in sample["fewshot_docs"])


@pytest.mark.parametrize("doc", range(len(ODD_TEXTS)))
def test_preview_is_safe_for_a_terminal(odd: Workplace, doc: int) -> None:
    outcome = odd.cli("preview", odd.task(), "--doc", str(doc))
    assert (outcome.code, outcome.err) == (0, "")
    outcome.out.encode("utf-8")  # no lone surrogate
    for char in "\0\x07\x1b\x9b\r\x85\u2028\u202e\u200b\ufeff":
        assert char not in outcome.out
    text = list(ODD_TEXTS.values())[doc]
    if text.isascii() and text.isprintable():
        assert text in outcome.out


def test_preview_shows_what_cannot_be_seen(odd: Workplace) -> None:
    def shown(name: str) -> str:
        return odd.cli("preview", odd.task(), "--doc", str(list(ODD_TEXTS).index(name))).out

    assert "before\\x00after" in shown("nul")
    assert "\\x1b[31mred\\x1b[0m" in shown("ansi")
    assert "half \\ud83d of a pair \\udc00" in shown("lone surrogate")
    assert "\\u202eدرحبا" in shown("right to left")
    assert "a\\u200bb\\ufeffc\\xadd" in shown("zero width")


def test_a_reply_is_not_obeyed_by_the_terminal(place: Workplace) -> None:
    reply = "\x1b[2J[bold]A[/bold]\x07 \u202eabc"
    outcome = place.run(
        "--tasks", f"{place.task()}@generate", "--model_args", f"reply={reply}"
    ).ok()
    assert "\x1b" not in outcome.out + outcome.err
    assert "\u202e" not in outcome.out + outcome.err
    assert place.samples("t@generate")[0]["resps"] == [[reply]]


# Files

RESULT_KEYS = {
    *("results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better"),
    *("n-samples", "config", "git_hash", "date", "pretty_env_info", "transformers_version"),
    *("lm_eval_version", "upper_git_hash", "task_hashes", "model_source", "model_name"),
    *("model_name_sanitized", "system_instruction", "system_instruction_sha"),
    *("fewshot_as_multiturn", "chat_template", "chat_template_sha"),
    *("start_time", "end_time", "total_evaluation_time_seconds"),
}
CONFIG_KEYS = {
    *("model", "model_args", "batch_size", "batch_sizes", "device", "use_cache", "limit"),
    *("bootstrap_iters", "gen_kwargs", "random_seed", "numpy_seed", "torch_seed", "fewshot_seed"),
}
SAMPLE_KEYS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
}


def test_files_of_a_run_under_several_formats(place: Workplace) -> None:
    task = place.task(formats={"mcqa": None, "cloze": None, "generate": None, "cot": None})
    place.run("--tasks", f"{task}@*", f"{task}@mcq::gpqa", task, "--limit", "4").ok()
    names = ["t@mcqa", "t@cloze", "t@generate", "t@cot", "t@mcq::gpqa", "t"]
    results = place.results()
    assert list(results["results"]) == names
    files = {path.name.rpartition("_")[0] for path in place.written() if path.suffix == ".jsonl"}
    assert files == {f"samples_{name.replace('::', '__')}" for name in names}
    assert {p.suffix for p in place.written() if p.is_file()} == {".json", ".jsonl"}
    assert {p.parent.name for p in place.written() if p.is_file()} == {"dummy"}


def test_the_shape_of_the_results_file(place: Workplace) -> None:
    flags = ("--limit", "4", "--gen_kwargs", "max_gen_toks=7", "--seed", "1,2,3,4")
    place.run("--tasks", f"{place.task()}@generate", *flags)
    results = place.results()
    assert set(results) >= RESULT_KEYS
    assert set(results["config"]) >= CONFIG_KEYS
    scores = results["results"]["t@generate"]
    assert scores["name"] == scores["alias"] == "t@generate"
    assert scores["sample_len"] == 4
    for metric in ("acc", "acc_read"):
        value, low_high = (
            scores[f"{metric},none"],
            results["intervals"]["t@generate"][f"{metric},none"],
        )
        assert low_high[0] <= value <= low_high[1]
        assert f"{metric}_stderr,none" in scores
    assert 0 <= scores["share_read,none"] <= 1
    assert results["n-samples"] == {"t@generate": {"original": 20, "effective": 4}}
    assert results["n-shot"] == {"t@generate": 0}
    assert results["higher_is_better"]["t@generate"]["acc"] is True
    assert results["config"]["limit"] == 4
    assert results["config"]["gen_kwargs"] == {"max_gen_toks": 7}
    seeds = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
    assert [results["config"][seed] for seed in seeds] == [1, 2, 3, 4]
    assert results["formats"]["t@generate"]["format"] == "generate"
    assert len(results["formats"]["t@generate"]["fingerprint"]) >= 8
    float(results["total_evaluation_time_seconds"])
    assert isinstance(results["total_evaluation_time_seconds"], str)
    assert "--gen_kwargs" in results["config"]["command"]


@pytest.mark.parametrize("aggregation", ["mean", "median"])
def test_graded_scores_of_a_plain_task_have_student_s_interval(
    place: Workplace, aggregation: str
) -> None:
    code = "def grade(doc, replies):\n    return {'grade': doc['answer'] / 4}\n"
    place.write("own.py", code)
    own = {"metric": "grade", "aggregation": aggregation, "higher_is_better": True}
    body = json.loads(
        Path(place.task(formats=..., output_type="multiple_choice", metric_list=[own])).read_text()
    )
    lines = [f"{key}: {json.dumps(value)}" for key, value in body.items()]
    task = place.write("t.yaml", "\n".join([*lines, "process_results: !function own.grade"]))
    place.run("--tasks", task).ok()
    results = place.results()
    scores, method = results["results"]["t"], results["interval_methods"]["t"]["grade,none"]
    interval = results["intervals"]["t"]["grade,none"]
    if aggregation == "median":  # its error comes from resampled docs, and nothing else is known
        assert method == "normal"
        return
    error = (sum((k / 4 - 0.375) ** 2 * 5 for k in range(4)) / 19 / 20) ** 0.5
    assert (scores["grade,none"], scores["grade_stderr,none"]) == pytest.approx((0.375, error))
    ends = [0.375 - 2.093024 * error, 0.375 + 2.093024 * error]  # t with 19 degrees of freedom
    assert (interval, method) == (pytest.approx(ends), "t over items, small n")


def test_the_interval_of_a_perplexity_is_that_of_its_logarithm(place: Workplace) -> None:
    """A perplexity is above 0, and so is its interval, however few items there are."""
    whole = {"output_type": "loglikelihood", "doc_to_target": "question"}
    task = place.task(doc_to_text="", doc_to_choice=..., formats=..., **whole)
    assert place.run("--tasks", task).code == 0
    logs = [sample["perplexity"] for sample in place.samples("t")]
    half = 2.093024 * stdev(logs) / 20**0.5
    results = place.results()
    scores, methods = results["results"]["t"], results["interval_methods"]["t"]
    assert scores["perplexity,none"] == pytest.approx(exp(-fmean(logs)))
    ends = [exp(-fmean(logs) - half), exp(-fmean(logs) + half)]
    assert results["intervals"]["t"]["perplexity,none"] == pytest.approx(ends, rel=1e-5)
    assert methods["perplexity,none"] == "t over items, small n"


def test_the_shape_of_a_scored_sample(place: Workplace) -> None:
    place.run("--tasks", place.task(), "--limit", "3")
    samples = place.samples("t")
    assert [sample["doc_id"] for sample in samples] == [0, 1, 2]
    sample = samples[1]
    assert set(sample) >= {*SAMPLE_KEYS, "acc", "format", "format_fingerprint"}
    assert sample["doc"] == {"question": "Q1?", "choices": ["w", "x", "y", "z"], "answer": 1}
    assert sample["target"] == "B"
    assert list(sample["arguments"]) == [f"gen_args_{at}" for at in range(4)]
    assert sample["arguments"]["gen_args_1"] == {
        "arg_0": "Question: Q1?\nA. w\nB. x\nC. y\nD. z\nAnswer:",
        "arg_1": " B",
    }
    assert [len(response) for response in sample["resps"]] == [1] * 4
    for logprob, is_greedy in sample["filtered_resps"]:
        float(logprob)
        assert is_greedy in ("True", "False")
    assert sample["filter"] == "none"
    assert sample["metrics"] == ["acc", "acc_norm"]
    assert all(len(sample[f"{part}_hash"]) == 64 for part in ("doc", "prompt", "target"))


def test_a_sample_says_how_its_answer_was_read(place: Workplace) -> None:
    flags = ("--model_args", "reply=The best answer is C.")
    place.run("--tasks", f"{place.task()}@generate", "--limit", "3", *flags)
    sample = place.samples("t@generate")[2]
    reading = sample["reading"]
    assert (reading["value"], reading["answer"], reading["no_answer"]) == (2, "y", None)
    start, end = reading["span"]
    assert "C" in "The best answer is C."[start:end]
    assert reading["rule"]
    assert sample["acc"] == 1.0
    assert sample["finish"] == "stop"
    assert sample["resps"] == [["The best answer is C."]]
    assert sample["arguments"]["gen_args_0"]["arg_1"]["until"]

    place.run("--tasks", f"{place.task()}@generate", "--limit", "3", "--model_args", "reply=???")
    reading = place.samples("t@generate")[0]["reading"]
    assert reading["no_answer"] == "unreadable"
    assert reading["value"] is None
    assert place.results()["results"]["t@generate"]["unread"] == {"unreadable": 3}


def test_two_runs_are_the_same_to_the_byte(place: Workplace) -> None:
    tasks = [f"{place.task()}@{name}" for name in ("mcqa", "generate", "cot")]
    texts = []
    for number in range(2):
        argv = ("run", "--model", "dummy", "--num_fewshot", "2", "-o", f"out/{number}", "-t")
        assert place.cli(*argv, *tasks).code == 0
        files = sorted((place.output / str(number)).rglob("samples_*.jsonl"))
        texts.append([file.read_bytes() for file in files])
    assert len(texts[0]) == 3
    assert texts[0] == texts[1]


def test_all_formats_see_the_same_docs_and_shots(place: Workplace) -> None:
    names = ("mcqa", "cloze", "generate", "cot", "mcq::mmlu")
    flags = ("--num_fewshot", "3", "--limit", "6")
    place.run("--tasks", *(f"{place.task()}@{name}" for name in names), *flags)
    seen = [
        [(s["doc_id"], s["fewshot_docs"]) for s in place.samples(f"t@{name.replace('::', '__')}")]
        for name in names
    ]
    assert all(one == seen[0] for one in seen)
    assert all(len(shots) == 3 and doc not in shots for doc, shots in seen[0])


def test_shots_follow_the_seed_and_nothing_else(place: Workplace) -> None:
    def shots(*flags: str) -> list[list[int]]:
        assert place.run("--tasks", place.task(), "--num_fewshot", "2", *flags).code == 0
        return [sample["fewshot_docs"] for sample in place.samples("t")]

    usual = shots()
    assert shots("--seed", "7,7,7,1234") == usual
    assert shots("--seed", "7") != usual
    assert shots("--limit", "5") == usual[:5]


@pytest.mark.parametrize(
    ("limit", "count"), [("0.1", 2), ("0.01", 1), ("0.99", 20), ("1", 1), ("1.0", 1), ("500", 20)]
)
def test_limit(place: Workplace, limit: str, count: int) -> None:
    place.run("--tasks", place.task(), "--limit", limit)
    assert [sample["doc_id"] for sample in place.samples("t")] == list(range(count))
    assert place.results()["n-samples"]["t"] == {"original": 20, "effective": count}


def test_samples_choose_docs_by_their_number(place: Workplace) -> None:
    task = place.task()
    place.run("--tasks", task, f"{task}@cloze", "--samples", '{"t": [7, 3, 3]}')
    for name in ("t", "t@cloze"):
        samples = place.samples(name)
        assert [(s["doc_id"], s["doc"]["question"]) for s in samples] == [(3, "Q3?"), (7, "Q7?")]
    path = place.write("chosen.json", '{"t@cloze": [5]}')
    place.run("--tasks", f"{task}@cloze", "--samples", path)
    assert [sample["doc_id"] for sample in place.samples("t@cloze")] == [5]


def test_a_task_that_samples_does_not_name_is_asked_in_full(place: Workplace) -> None:
    outcome = place.run("--tasks", place.task(), "demo_mcq", "--samples", '{"demo_mcq": [1]}').ok()
    assert "--samples does not name t, so all docs there are asked" in " ".join(outcome.err.split())
    assert len(place.samples("t")) == 20
    assert [sample["doc_id"] for sample in place.samples("demo_mcq")] == [1]


def test_predict_only_without_a_format_filters_and_bypasses(place: Workplace) -> None:
    task = place.task(formats=..., output_type="generate_until", doc_to_choice=..., repeats=2)
    place.run("--tasks", task, "--limit", "2", "--predict_only").ok()
    scores = place.results()["results"]["t"]
    assert scores["bypass,none"] == 999
    assert scores["bypass_stderr,none"] == "N/A"
    sample = place.samples("t")[0]
    assert sample["bypass"] is None
    assert list(sample["arguments"]) == ["gen_args_0"]  # a repeat is the same request
    assert len(sample["resps"][0]) == 2
    assert sample["filtered_resps"] == sample["resps"][0][:1]


def test_predict_only_saves_answers_and_no_scores(place: Workplace) -> None:
    outcome = place.run(
        "--tasks", f"{place.task()}@generate", "--limit", "3", "--predict_only"
    ).ok()
    assert "acc" not in outcome.out
    assert len(place.samples("t@generate")) == 3
    assert not [key for key in place.results()["results"]["t@generate"] if key.startswith("acc")]


def test_without_an_output_path_nothing_is_written(place: Workplace) -> None:
    before = sorted(place.folder.rglob("*"))
    outcome = place.cli("run", "--model", "dummy", "--tasks", "demo_mcq", "--limit", "2").ok()
    assert "demo_mcq" in outcome.out
    assert sorted(place.folder.rglob("*")) == before


def test_samples_are_written_with_and_without_log_samples(place: Workplace) -> None:
    place.run("--tasks", place.task(), "--limit", "2", "--log_samples")
    assert len(place.samples("t")) == 2
    assert place.results()["samples_files"]["t"].startswith("samples_t_")


def test_groups_in_the_results_file(place: Workplace) -> None:
    metrics = "aggregate_metric_list: [{metric: acc}, {metric: acc_read}]"
    group = f"group: g\ngroup_alias: Both\ntask: [demo_mcq@generate, demo_short]\n{metrics}\n"
    path = place.write("g.yaml", group)
    reply = ("--model_args", "reply=???")  # nothing is read, so acc_read has no value
    assert place.run("--tasks", path, "--limit", "3", *reply).code == 0
    results = place.results()
    assert results["group_subtasks"]["g"] == ["demo_mcq@generate", "demo_short"]
    assert results["groups"]["g"]["alias"] == "Both"
    assert results["groups"]["g"]["acc,none"] == 0
    assert results["groups"]["g"]["sample_len"] == 6
    assert results["groups"]["g"]["sample_count"] == {"acc,none": 6}
    assert results["versions"]["g"] == "N/A"
    assert "acc_read" in results["higher_is_better"]["g"]
    assert "acc_read,none" not in results["groups"]["g"]


# Prompts


def test_write_out_prints_the_prompt_that_is_sent(place: Workplace) -> None:
    outcome = place.run(
        "--tasks", place.task(), "--limit", "2", "--write_out", "--num_fewshot", "1"
    )
    prompt = place.samples("t")[0]["arguments"]["gen_args_0"]["arg_0"]
    assert prompt in outcome.out
    assert "t, doc 0" in outcome.out


def test_preview_shows_the_prompt_that_is_sent(place: Workplace) -> None:
    task = f"{place.task()}@generate"
    place.run("--tasks", task, "--num_fewshot", "2")
    sent = [sample["arguments"]["gen_args_0"]["arg_0"] for sample in place.samples("t@generate")]
    for doc in (0, 3):
        outcome = place.cli("preview", task, "--doc", str(doc), "--num_fewshot", "2")
        assert f"{sent[doc]}\n" in outcome.out
    assert "read by:" in outcome.out
    assert "right:" in outcome.out
    assert "t.yaml, line" in outcome.out
    assert "fingerprint" in outcome.out


def test_preview_needs_only_the_doc_it_shows(place: Workplace) -> None:
    place.rows(doc=7, answer="v")
    assert place.cli("preview", place.task(), "--doc", "9", "--num_fewshot", "0").code == 0
    assert place.cli("preview", place.task(), "--doc", "7").code == 1


def test_chat_flags(place: Workplace) -> None:
    def prompt(*flags: str) -> str:
        task = f"{place.task()}@generate"
        assert place.run("--tasks", task, "--limit", "1", "--num_fewshot", "1", *flags).code == 0
        sent: str = place.samples("t@generate")[0]["arguments"]["gen_args_0"]["arg_0"]
        return sent

    system = ("--system_instruction", "Be brief.")
    assert prompt(*system).startswith("Be brief.\nGiven")
    chat = prompt("--apply_chat_template", "default", *system)
    assert chat.startswith("<|system|>\nBe brief.\n<|user|>\n")
    assert chat.count("<|assistant|>") == 2
    assert chat.endswith("<|assistant|>\nThe best answer is")
    assert place.results()["system_instruction"] == "Be brief."
    assert place.results()["fewshot_as_multiturn"] is True
    single = prompt("--apply_chat_template", "--fewshot_as_multiturn", "false")
    assert single.count("<|assistant|>") == 1
    assert place.results()["fewshot_as_multiturn"] is False


def test_batch_size_and_device_where_the_model_takes_neither(place: Workplace) -> None:
    flags = ("--batch_size", "8", "--device", "cpu", "--limit", "2")
    outcome = place.run("--tasks", place.task(), *flags).ok()
    assert "takes no batch_size" in outcome.err
    assert "takes no device" in outcome.err


# Models of other kinds


class NoPrefill(DummyLM):
    capabilities = Capabilities(chat_template=True, prefill=False)


class TextOnly(DummyLM):
    capabilities = Capabilities(loglikelihood=False)


class Breaks(DummyLM):
    def stream(self, requests: Any) -> Iterator[Any]:
        for place, request in enumerate(requests):
            if "cloze" in request.task:
                raise ModelError("The server went away. Start it again.")
            yield place, self._answer(request)


class Keyed(DummyLM):
    def __init__(self, api_key: str = "", size: int = 1, **more: Any) -> None:
        if api_key and size > 1:
            raise ValueError(f"{api_key} is not good for size {size}")
        super().__init__(**more)


@pytest.mark.usefixtures("own_registries")
def test_a_model_that_cannot_continue_an_answer(place: Workplace) -> None:
    MODELS.register("no_prefill", NoPrefill)
    task = f"{place.task()}@generate"
    flags = ("--apply_chat_template", "--write_out", "--num_fewshot", "1", "--limit", "3")
    outcome = place.run("--tasks", task, *flags, model="no_prefill").ok()
    prompt = place.samples("t@generate")[0]["arguments"]["gen_args_0"]["arg_0"]
    assert prompt.endswith("<|assistant|>\n")
    assert "left open" not in outcome.out
    assert "gen_prefix" in str(place.results()["notes"]["t@generate"])
    shots = [sample["fewshot_docs"] for sample in place.samples("t@generate")]
    place.run("--tasks", task, "--num_fewshot", "1", "--limit", "3")
    assert [sample["fewshot_docs"] for sample in place.samples("t@generate")] == shots


@pytest.mark.usefixtures("own_registries")
def test_a_model_that_cannot_do_what_a_task_needs(place: Workplace) -> None:
    MODELS.register("text_only", TextOnly)
    place.run("--tasks", place.task(), model="text_only").refused("t@generate")
    place.run("--tasks", f"{place.task()}@cot", "--apply_chat_template", model="text_only").refused(
        "no chat template"
    )
    assert place.written() == []


@pytest.mark.usefixtures("own_registries")
def test_a_model_that_breaks_leaves_nothing_that_looks_finished(place: Workplace) -> None:
    MODELS.register("breaks", Breaks)
    task = place.task()
    outcome = place.run("--tasks", f"{task}@mcqa", f"{task}@cloze", model="breaks")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "lm-eval: error: The server went away. Start it again.\n"
    assert {path.suffix for path in place.written() if path.is_file()} == {".partial"}


@pytest.mark.usefixtures("own_registries")
@pytest.mark.parametrize(
    "given",
    [
        f"api_key={KEY}",
        f'{{"api_key": "{KEY}"}}',
        f"seed=3, api_key={KEY}",
        "api_key = canary7",
        "api_key='canary7'",
        "api_key=canary7 canary8",
        '{"api_key": "can\\"ary7canary"}',
    ],
)
def test_keys_reach_no_file_and_no_terminal(place: Workplace, given: str) -> None:
    MODELS.register("keyed", Keyed)
    outcome = place.run("--tasks", place.task(), "--model_args", given, model="keyed").ok()
    shown = outcome.out + outcome.err
    shown += "".join(path.read_text() for path in place.written() if path.is_file())
    assert "canary" not in shown
    assert place.results()["config"]["model_args"]["api_key"] == "***"


@pytest.mark.usefixtures("own_registries")
@pytest.mark.parametrize("key", [KEY, "canary7"])
def test_keys_are_not_in_errors(place: Workplace, key: str) -> None:
    MODELS.register("keyed", Keyed)
    given = ("--model_args", f"api_key={key},size=2")
    outcome = place.run("--tasks", place.task(), *given, model="keyed")
    assert outcome.code == 1
    assert "canary" not in outcome.err
    assert "size=2" in outcome.err


# Task code


@pytest.fixture
def coded(place: Workplace) -> Workplace:
    """A task whose Python leaves a mark when its file is read, and another when it is run."""
    place.write(
        "tasks/utils.py",
        "from pathlib import Path\n"
        "Path(__file__).with_name('imported').touch()\n"
        "def change(docs):\n"
        "    Path(__file__).with_name('ran').touch()\n"
        "    return docs\n",
    )
    text = Path(place.task("tasks/t.yaml")).read_text()
    place.write("tasks/t.yaml", text[:-1] + ', "process_docs": !function utils.change}')
    return place


def marks(place: Workplace) -> set[str]:
    return {name for name in ("imported", "ran") if (place.folder / "tasks" / name).exists()}


def test_only_run_and_run_code_run_task_code(coded: Workplace) -> None:
    folder = ("--include_path", "tasks")
    assert coded.cli("ls", "tasks", *folder).code == 0
    outcome = coded.cli("validate", "--tasks", "t", *folder).ok()
    assert "skipped  Task 't': " in outcome.out
    assert "1 not checked because they need --run_code" in outcome.out
    coded.cli("preview", "t", *folder).refused("--run_code")
    assert marks(coded) == set()

    assert coded.cli("validate", "--tasks", "t", *folder, "--run_code").code == 0
    assert marks(coded) == {"imported", "ran"}


def test_preview_runs_task_code_when_asked(coded: Workplace) -> None:
    assert coded.cli("preview", "t", "--include_path", "tasks", "--run_code").code == 0
    assert marks(coded) == {"imported", "ran"}


def test_run_runs_task_code(coded: Workplace) -> None:
    assert coded.run("--tasks", "t", "--include_path", "tasks").code == 0
    assert marks(coded) == {"imported", "ran"}
    assert "def change(docs):" in place_config(coded)["process_docs"]


def place_config(place: Workplace) -> dict[str, Any]:
    config: dict[str, Any] = place.results()["configs"]["t"]
    return config


# Listing and checking


def test_ls(place: Workplace) -> None:
    place.task("tasks/t.yaml", tag=["mine", "other"])
    place.write("tasks/g.yaml", "group: g\ntask: [t]\n")
    place.write("tasks/broken.yaml", "task: [")
    folder = ("--include_path", "tasks")
    wanted = {
        "tasks": ["demo_mcq", "demo_short", "t ", "not read: ", "broken.yaml"],
        "groups": ["demo ", "g "],
        "tags": ["mine", "other"],
        "models": ["dummy", "gguf"],
        "formats": ["mcqa", "cloze::pure", "ranking"],
    }
    for what, words in wanted.items():
        outcome = place.cli("ls", what, *folder)
        assert (outcome.code, outcome.err) == (0, "")
        assert [word for word in words if word not in outcome.out] == []


def test_validate_prints_one_line_for_the_tasks_of_a_family_that_are_ok(place: Workplace) -> None:
    asked = ("validate", "--tasks", "mmlu,mmlu_anatomy", "--sample_rows")
    lines = place.cli(*asked).out.splitlines()
    assert lines == [
        "ok       mmlu: 57 tasks, 228 docs rendered (invented rows)",
        "ok       mmlu_anatomy: 4 docs rendered (invented rows)",
        "58 checked: 58 ok, 0 with errors.",
    ]
    assert len(place.cli(*asked, "--verbose").out.splitlines()) == 59


def test_validate_all_counts_data_that_is_not_fetched_apart(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(place.folder / "cache"))
    place.write("tasks/utils.py", "def scored(doc, results):\n    return {'acc': 1}\n")
    place.write(
        "tasks/t.yaml",
        "{task: t, dataset_path: some/data, test_split: test, output_type: multiple_choice, "
        "doc_to_text: '{{q}}', doc_to_target: '{{a}}', doc_to_choice: '{{c}}', "
        "process_results: !function utils.scored}",
    )
    folder = ("--include_path", "tasks")
    done = place.cli("validate", "--all", *folder).ok()
    assert "no data  Task 't': " in done.out
    assert "0 with errors, 1 not checked because their data is not in the cache." in done.out
    assert place.cli("validate", "--tasks", "t", *folder).code == 1


def test_validate(place: Workplace) -> None:
    outcome = place.cli("validate", "--tasks", "demo_mcq@*,demo_short").ok()
    assert "ok       demo_mcq@cot: 80 docs rendered" in outcome.out
    assert "5 checked: 5 ok, 0 with errors." in outcome.out

    place.task("tasks/good.yaml", task="good")
    place.task("tasks/bad.yaml", task="bad", doc_to_text="qestion")
    place.write("tasks/broken.yaml", "task: [")
    folder = ("--include_path", "tasks")
    outcome = place.cli("validate", "--tasks", "good", "bad", "unknown", *folder)
    assert outcome.code == 1
    assert "ok       good: 20 docs rendered" in outcome.out
    assert "error    Task 'bad', doc 0" in outcome.out
    assert "error    Unknown task 'unknown'" in outcome.out
    assert "3 checked: 1 ok, 2 with errors." in outcome.out

    outcome = place.cli("validate", "--tasks", "good", *folder)
    assert outcome.code == 0, "a broken file beside it is not its fault"
    assert "broken.yaml" in outcome.out
    assert place.cli("validate", "--all", *folder).code == 1


def test_an_error_of_a_whole_family_is_printed_once(place: Workplace) -> None:
    for name in ("first", "second", "third"):
        place.task(f"{name}.yaml", task=name, dataset_kwargs={"data_files": "missing.jsonl"})
    place.task("other.yaml", task="other", doc_to_text="wrong")
    names = "first.yaml,second.yaml,other.yaml,third.yaml"
    lines = place.cli("validate", "--tasks", names).out.splitlines()
    assert [line[:21] for line in lines[::2]] == ["error    Task 'first'", "error    Task 'other'"]
    assert lines[1::2] == [
        "error    the same as first in 2 more: second, third",
        "4 checked: 0 ok, 4 with errors.",
    ]
    spelled_out = place.cli("validate", "--tasks", names, "--verbose").out
    assert spelled_out.count("missing.jsonl") >= 3
    assert "the same as" not in spelled_out


@pytest.mark.usefixtures("own_registries")
def test_a_format_of_ones_own_is_one_file(place: Workplace) -> None:
    place.write(
        "formats/brackets_in_test.yaml",
        "name: brackets_in_test\nsummary: letters in brackets\ntype: generate\n"
        'choice_format: "({label}) {choice}"\n',
    )
    folder = ("--format_path", "formats")
    task = f"{place.task()}@brackets_in_test"
    assert place.run("--tasks", task, "--limit", "2", *folder).code == 0
    assert place.results()["formats"]["t@brackets_in_test"]["format"] == "brackets_in_test"
    prompt = place.samples("t@brackets_in_test")[0]["arguments"]["gen_args_0"]["arg_0"]
    assert "(A) w\n(B) x" in prompt
    assert prompt in place.cli("preview", task, *folder).out
    listed = place.cli("ls", "formats", *folder).out
    assert "brackets_in_test" in listed
    assert "letters in brackets" in listed
    place.cli("validate", "--tasks", task, *folder).ok()


def test_a_tag_gathers_the_tasks_of_several_folders(place: Workplace) -> None:
    place.task("mine/v.yaml", task="v", tag="shared")
    place.task("more/u.yaml", task="u", tag="shared")
    folders = ("--include_path", "mine", "--include_path", "more")
    assert place.run("--tasks", "shared", *folders).code == 0
    assert list(place.results()["results"]) == ["u", "v"]


def test_one_name_in_two_folders_is_an_error_that_names_both(place: Workplace) -> None:
    place.task("mine/quiz.yaml", task="quiz")
    place.task("yours/quiz.yaml", task="quiz")
    place.run("--tasks", "quiz", "--include_path", "mine", "--include_path", "yours").refused(
        "defined twice", "mine/quiz.yaml", "yours/quiz.yaml"
    )


def test_a_task_of_the_user_takes_the_place_of_the_library(place: Workplace) -> None:
    place.task("mine/demo_mcq.yaml", task="demo_mcq")
    outcome = place.run("--tasks", "demo_mcq", "--include_path", "mine").ok()
    assert place.results()["n-samples"]["demo_mcq"]["original"] == 20  # the library's has 80
    assert "mine/demo_mcq.yaml, which hides the one of the library" in outcome.err


def test_two_files_of_one_name_do_not_hide_the_rest(place: Workplace) -> None:
    place.task("tasks/a.yaml")
    place.task("tasks/b.yaml")
    folder = ("--include_path", "tasks")
    assert place.run("--tasks", "demo_mcq", "--limit", "1", *folder).code == 0
    outcome = place.cli("ls", "tasks", *folder).ok()
    assert "defined twice" in outcome.out


def test_ways_of_naming_tasks(place: Workplace) -> None:
    place.task("with@sign/t.yaml")

    def run(*tasks: str) -> list[str]:
        outcome = place.run("--limit", "1", "--tasks", *tasks)
        assert (outcome.code, outcome.err) == (0, "")
        return list(place.results()["results"])

    assert run("with@sign/t.yaml") == ["t"]
    assert run("with@sign/t.yaml@cloze") == ["t@cloze"]
    assert run("with@sign/") == ["t"]
    assert run("demo_mcq,demo_short") == ["demo_mcq", "demo_short"]
    assert run("demo_mcq", "demo_mcq") == ["demo_mcq"]
    assert run("demo_m*") == ["demo_mcq"]
    assert run("demo@cot") == ["demo_mcq@cot", "demo_short@cot", "demo@cot"]
    assert run("demo_mcq@*") == [f"demo_mcq@{f}" for f in ("mcqa", "cloze", "generate", "cot")]


def test_an_option_file(place: Workplace) -> None:
    path = place.write(
        "options.yaml",
        "tasks: [demo_mcq@generate, demo_short]\n"
        "limit: 5\n"
        "model: dummy\n"
        "model_args: {seed: 3}\n"
        'gen_kwargs: {until: ["\\n\\n", "Q:"], max_gen_toks: 9}\n'
        "apply_chat_template: true\n"
        "fewshot_as_multiturn: false\n"
        "num_fewshot: 1\n"
        "output_path: out\n"
        "seed: [1, 2, 3, 4]\n"
        "batch_size: null\n",
    )
    assert place.cli("run", "--config", path, "--limit", "2").code == 0
    results = place.results()
    assert list(results["results"]) == ["demo_mcq@generate", "demo_short"]
    config = results["config"]
    assert config["limit"] == 2
    assert config["model_args"] == {"seed": 3}
    assert config["gen_kwargs"] == {"until": ["\n\n", "Q:"], "max_gen_toks": 9}
    assert config["fewshot_seed"] == 4
    assert results["fewshot_as_multiturn"] is False
    assert results["n-shot"] == {"demo_mcq@generate": 1, "demo_short": 1}


def test_an_alias_that_is_a_number(place: Workplace) -> None:
    assert place.run("--tasks", place.task(task_alias=2024), "--limit", "1").code == 0
    assert place.results()["results"]["t"]["alias"] == "2024"


def test_an_unknown_metric_beside_a_format_is_said(place: Workplace) -> None:
    task = place.task(metric_list=[{"metric": "acc_nrom"}, {"metric": "acc_norm"}])
    outcome = place.run("--tasks", task, "--limit", "2").ok()
    assert outcome.err.count("Did you mean 'acc_norm'?") == 1
    assert "acc_norm,none" in place.results()["results"]["t"]


def test_each_warning_once_in_every_run(place: Workplace) -> None:
    task = place.task(doc_to_text="Question: {{question}}")
    for _ in range(2):
        outcome = place.run("--tasks", task, f"{task}@mcqa", "--limit", "2")
        assert outcome.err.count("carries text of its own") == 1


# The program


def test_no_command_means_run(place: Workplace) -> None:
    outcome = place.cli("--model", "dummy", "--tasks", "demo_mcq", "--limit", "2").ok()
    assert "demo_mcq" in outcome.out


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["run", "--help"], ["--version"]])
def test_help_and_version(place: Workplace, argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        place.cli(*argv)
    assert ended.value.code == 0


def test_the_module_runs(place: Workplace) -> None:
    argv = ("run", "--model", "dummy", "--tasks", "demo_mcq@*", "--limit", "2", "-o", "out")
    done = subprocess_cli(*argv, cwd=place.folder)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert [name in done.stdout for name in ("mcqa", "cloze", "generate", "cot")] == [True] * 4
    assert len(place.written()) == 7


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("argv", [("ls", "formats"), ("validate", "--tasks", "demo_mcq")])
def test_output_that_finds_no_space(place: Workplace, argv: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval", *argv],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("lm-eval: error: The output cannot be written: ")
    assert done.stderr.count("\n") == 1, "nothing more at the end"


@pytest.mark.parametrize("columns", ["60", "80"])
def test_formats_are_listed_whole_on_a_narrow_terminal(place: Workplace, columns: str) -> None:
    done = subprocess_cli("ls", "formats", cwd=place.folder, COLUMNS=columns)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert any(line.startswith("cloze::with_options") for line in lines), "no name is cut"
    assert "multiple_choice" in done.stdout, "nor a fact"
    assert len(lines) < 200


def test_values_given_in_two_places_are_not_dropped(place: Workplace) -> None:
    for second in ("--tasks", "-t"):
        outcome = place.cli("run", "--model", "dummy", "--tasks", "demo_mcq", second, "demo_short")
        outcome.refused("--tasks is given twice")
    place.write("options.yaml", "tasks: [demo_short]\nmodel: dummy\nlimit: 2\n")
    outcome = place.cli("run", "--config", "options.yaml", "--tasks", "demo_mcq")
    assert outcome.code == 0, "what is typed takes the place of what a file says"
    assert "demo_short" not in outcome.out


def test_generation_arguments_that_nothing_uses(place: Workplace) -> None:
    words = "so --gen_kwargs has no effect"
    argv = ("--limit", "2", "--gen_kwargs", "max_gen_toks=8")
    assert words in place.run("--tasks", "demo_mcq@mcqa", *argv).err
    assert words not in place.run("--tasks", "demo_mcq@mcqa,demo_mcq@cot", *argv).err


@pytest.mark.parametrize("seed", ["-1", "0,4294967296,0,0", f"0,0,{2**64},0"])
def test_a_seed_that_a_library_cannot_take(place: Workplace, seed: str) -> None:
    outcome = place.run("--tasks", "demo_mcq", "--seed", seed)
    assert (outcome.code, "must be a whole number from 0 to" in outcome.err) == (1, True)
    assert place.written() == []


def test_help_imports_nothing_heavy(place: Workplace) -> None:
    code = (
        "import sys; from lm_eval.cli import build_parser; build_parser().format_help();"
        "print([m for m in ('jinja2', 'yaml', 'rich', 'numpy', 'torch') if m in sys.modules])"
    )
    done = python("-c", code, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.skipif(os.name == "nt", reason="pipes differ")
@pytest.mark.parametrize(
    "argv",
    [
        ["ls", "formats"],
        ["run", "--model", "dummy", "--tasks", "demo_mcq@*", "--limit", "2", "-o", "out"],
    ],
)
def test_a_closed_pipe_is_silent_and_costs_no_results(place: Workplace, argv: list[str]) -> None:
    process = python_started("-m", "lm_eval", *argv, cwd=place.folder)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stream:
        assert without_progress(stream.read()) == ""
    process.wait(timeout=240)
    if argv[0] == "run":
        assert len(place.results()["results"]) == 4


def test_fingerprints_of_task_and_format(place: Workplace) -> None:
    """The task's stays the same under every format and changes with its helper's code."""
    place.write("utils.py", "def change(docs):\n    return docs\n")
    path = place.task()
    text = Path(path).read_text()
    place.write("t.yaml", text[:-1] + ', "process_docs": !function utils.change}')
    place.run("--tasks", f"{path}@mcqa,{path}@cloze", "--limit", "1")
    first = place.results()["fingerprints"]
    assert first["t@mcqa"]["task"] == first["t@cloze"]["task"]
    assert first["t@mcqa"]["format"] != first["t@cloze"]["format"]
    place.write("utils.py", "def change(docs):\n    return docs  # another\n")
    place.run("--tasks", f"{path}@mcqa", "--limit", "1")
    second = place.results()["fingerprints"]
    assert second["t@mcqa"]["task"] != first["t@mcqa"]["task"]
    assert second["t@mcqa"]["format"] == first["t@mcqa"]["format"]


@pytest.mark.parametrize(
    ("reply", "is_named"),
    [("Let me think. The answer is w", True), ("I do not know this one.", False)],
)
def test_unread_replies_name_the_phrase_that_would_have_been_read(
    tmp_path: Path, reply: str, is_named: bool
) -> None:
    place = Workplace(tmp_path)
    place.task(
        formats={"own": {"type": "cot", "scorer": {"reader": "after_last", "phrase": "FINAL:"}}}
    )
    done = place.run("--tasks", "t.yaml@own", "--model_args", f"reply={reply}").ok()
    shown = " ".join(done.out.split())
    command = f"lm-eval reread {place.output} --tasks t@own --scorer 'after_last,phrase=answer is'"
    assert (f"Try {command}" in shown) is is_named
    if is_named:
        again = place.cli(*shlex.split(command.removeprefix("lm-eval "))).ok()
        assert "100 %" in again.out
