"""``lm-eval compare``, and the comparison at the end of a run, through the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval.registry import MODELS
from tests.support.command_line import Outcome, Workplace, subprocess_cli
from tests.support.known_model import KnownLM
from tests.support.paths import SOURCE

FORMATS = "t.yaml@mcqa,t.yaml@cloze,t.yaml@generate"


@pytest.fixture
def work(tmp_path: Path, own_registries: None) -> Workplace:
    for name in ("known", "other"):
        MODELS.register(name, KnownLM)
    place = Workplace(tmp_path)
    place.rows(count=40)
    place.task()
    return place


def run(work: Workplace, *argv: str, model: str = "known", args: str = "") -> Outcome:
    more = ("--model_args", args) if args else ()
    done = work.run(*argv, *more, model=model).ok()
    return done


def compared(work: Workplace, *argv: str) -> dict[str, Any]:
    work.cli("compare", str(work.output), *argv, "--output_path", "found.json").ok()
    found: dict[str, Any] = json.loads((work.folder / "found.json").read_text("utf-8"))
    return found


def refused(work: Workplace, *argv: str) -> str:
    done = work.cli("compare", *argv)
    done.refused("lm-eval: error: ")
    return done.err


def said(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


# The end of a run


def test_a_run_of_several_formats_ends_with_what_differs(work: Workplace) -> None:
    done = run(work, "--tasks", FORMATS, args="cloze=2,unread=4")
    text = said(done.out)
    assert done.out.startswith("t · 40 items · 0-shot · known · ")
    assert "The format matters: best − worst = .50 (by chance ≤ " in text
    assert re.search(r"\nReal +mcqa > cloze +\+\.50 \[", done.out)
    assert re.search(r"\nConfounded +generate trails mcqa by \.25 \(p = ", done.out)
    assert ", but 25 % of its replies contain no answer. Where both were parsed" in text
    assert "! Choices: shown under mcqa and generate, scored unseen under cloze." in text
    assert "! generate: 10 of 40 replies without an answer" in text
    path = next(work.output.rglob("results_*.json"))
    assert f"\nSaved    {path}\n" in done.out
    assert done.out.endswith(f"\nDetails  lm-eval compare {work.output} --flips\n")


def test_files_without_a_word_on_choices_are_compared_as_those_with_one(work: Workplace) -> None:
    """Runs of earlier versions do not say which formats show the choices."""
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze,t.yaml@cot")
    path = next(work.output.rglob("results_*.json"))
    results = json.loads(path.read_text("utf-8"))
    shown = {name.partition("@")[2]: shows for name, shows in results["shows_choices"].items()}
    assert shown == {"mcqa": True, "cloze": False, "cot": False}
    now = compared(work)["comparisons"][0]
    del results["shows_choices"]
    path.write_text(json.dumps(results), "utf-8")
    assert compared(work)["comparisons"][0] == now
    assert [row["choices"] for row in now["rows"]] == ["shown", "scored", "hidden"]
    assert not any(pair["asks_same"] for pair in now["pairs"])
    done = work.cli("compare", str(work.output))
    shown = "Choices shown under mcqa, scored unseen under cloze, hidden under cot"
    assert shown in said(done.out)


def test_the_end_of_a_run_has_the_numbers_of_compare(work: Workplace) -> None:
    done = run(work, "--tasks", FORMATS, args="unread=4,cloze=2")
    (block,) = compared(work)["comparisons"]
    for pair in block["pairs"]:
        difference = f"{pair['result']['difference']['value']:.2f}".removeprefix("0")
        assert difference in done.out
        if pair["verdict"] != "confounded":
            assert re.search(rf"{pair['first']} > {pair['second']} +\+{difference} \[", done.out)


def test_a_run_without_files_is_compared_too(work: Workplace) -> None:
    done = work.cli("run", "--model", "known", "--tasks", FORMATS, "--model_args", "cloze=2")
    assert "The format matters: " in done.out
    assert "lm-eval compare" not in done.out
    assert "Keep     add --output_path DIR to save scores, prompts and replies" in done.out


@pytest.mark.parametrize(
    "argv",
    [("t.yaml@mcqa",), (FORMATS, "--compare", "false"), (FORMATS, "--predict_only")],
    ids=["one format", "left out", "no scores"],
)
def test_runs_that_are_not_compared(work: Workplace, argv: tuple[str, ...]) -> None:
    done = run(work, "--tasks", *argv, args="cloze=2")
    assert "The format matters" not in done.out
    assert "Details" not in done.out


def test_what_cannot_be_compared_is_a_warning_and_the_run_stands(work: Workplace) -> None:
    """Docs that failed for good are missing under one format only."""
    done = run(work, "--tasks", FORMATS, "--max_failed", "2", args="fails=3+5")
    assert "generate: 2 of 40 docs got no answer from the model" in said(done.out)
    assert "Details" not in done.out
    text = said(done.err)
    assert "The formats were not compared: These runs are not about the same items" in text
    path = next(work.output.rglob("results_*.json"))
    assert f"To compare them later: `lm-eval compare {path}`." in text
    later = work.cli("compare", str(path), "--intersect")
    assert "· 38 items · 3 formats ·" in later.out
    assert "Missing       generate 2 (docs without a reply, in no score)" in later.out


def test_without_scipy_a_run_compares_and_the_lab_says_how_to_get_it(work: Workplace) -> None:
    missing = "raise ModuleNotFoundError('No module named scipy', name='scipy')\n"
    work.write("without/scipy.py", missing)
    path = f"{work.folder / 'without'}{os.pathsep}{SOURCE}"

    def call(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess_cli(*argv, cwd=work.folder, PYTHONPATH=path)

    argv = ("--model", "dummy", "--tasks", "t.yaml@mcqa,t.yaml@cloze", "--output_path", "out")
    done = call("run", *argv)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, "the screen of a run needs no scipy"
    assert "\ncloze" in done.stdout
    sweep = ["sweep", "--tasks", "t.yaml@mcqa", "--formats", "3", "--model", "dummy"]
    for command in (["compare", "out"], sweep):
        later = call(*command)
        assert later.returncode == 1
        assert "need scipy, which is not installed" in later.stderr
        assert "\n    pip install 'lm-eval-formats[lab]'\n" in later.stderr


# Stored runs


def test_formats_of_two_runs_are_put_together(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    run(work, "--tasks", "t.yaml@cloze")
    found = compared(work)
    (block,) = found["comparisons"]
    assert [row["label"] for row in block["rows"]] == ["mcqa", "cloze"]
    (pair,) = block["pairs"]
    assert (pair["counts"], pair["verdict"]) == ([20, 0], "real")
    assert pair["result"]["p"] == pytest.approx(2 / 2**20)
    assert pair["result"]["difference"]["value"] == pytest.approx(0.5)
    assert found["notes"] == []


def test_the_newest_of_several_results_counts(work: Workplace) -> None:
    run(work, "--tasks", FORMATS)
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", "--limit", "30")
    found = compared(work, "--formats", "mcqa,cloze")
    (block,) = found["comparisons"]
    assert [row["score"]["n"] for row in block["rows"]] == [30, 30]
    (note,) = found["notes"]
    assert note.startswith("t@mcqa, t@cloze (known) are there 2 times. The newest counts, ")
    done = work.cli("compare", str(work.output), "--formats", "mcqa,cloze")
    assert "! t@mcqa, t@cloze (known) are there 2 times." in said(done.out)


def test_a_model_with_other_arguments_is_another_model(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", args="cloze=2,mcqa=5")
    run(work, "--tasks", "t.yaml@cloze", args="cloze=4,mcqa=5")
    found = compared(work)
    formats, models = found["comparisons"]
    assert (formats["within"], len(formats["rows"])) == ("known (cloze=2)", 2)
    assert [row["label"] for row in models["rows"]] == ["known (cloze=2)", "known (cloze=4)"]
    assert [row["score"]["value"] for row in models["rows"]] == [0.5, 0.75]
    (note,) = found["notes"]
    assert note == (
        "known was asked with different --model_args. These count as different models: "
        "known (cloze=2), known (cloze=4)."
    )
    (alone,) = compared(work, "--models", "known (cloze=2)")["comparisons"]
    assert alone["within"] == "known (cloze=2)"
    assert len(compared(work, "--models", "known")["comparisons"]) == 2


def test_arguments_tell_models_apart_only_where_they_asked_the_same(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa", args="mcqa=5")
    run(work, "--tasks", "t.yaml@cloze", args="cloze=4")
    found = compared(work)
    (block,) = found["comparisons"]
    assert (block["within"], found["notes"]) == ("known", [])


def test_results_can_be_chosen(work: Workplace) -> None:
    run(work, "--tasks", FORMATS)
    run(work, "--tasks", FORMATS, model="other", args="mcqa=5")
    chosen = compared(work, "--formats", "mcqa,generate", "--models", "known", "--tasks", "t")
    (block,) = chosen["comparisons"]
    assert [row["label"] for row in block["rows"]] == ["mcqa", "generate"]
    (block,) = compared(work, "--formats", "mcqa")["comparisons"]
    assert (block["compares"], block["within"]) == ("models", "mcqa")
    assert [row["label"] for row in block["rows"]] == ["known", "other"]


def test_models_and_formats_are_ranked(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", args="mcqa=2,cloze=always")
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", model="other", args="mcqa=always,cloze=2")
    (ranking,) = compared(work)["rankings"]
    assert ranking["scores"] == [[0.5, 1.0], [1.0, 0.5]]
    assert ranking["stability"]["flip_rate"]["value"] == 1.0
    assert (
        "t · 40 items · ranks of 2 models under 2 formats"
        in work.cli("compare", str(work.output)).out
    )


def test_several_replies_to_a_doc_are_read_in_parts(work: Workplace) -> None:
    work.task(repeats=5, generation_kwargs={"do_sample": True, "temperature": 0.7})
    done = run(work, "--tasks", "t.yaml@generate,t.yaml@mcqa", model="dummy")
    scores = work.results()["results"]["t@generate"]
    (block,) = compared(work)["comparisons"]
    row = next(row for row in block["rows"] if row["label"] == "generate")
    assert 0.3 < row["share_read"] < 0.7
    assert row["share_read"] == pytest.approx(scores["share_read,none"])
    assert row["score_read"]["value"] == pytest.approx(scores["acc_read,none"])
    unread = 1 - row["share_read"]
    assert row["bounds"][1] == pytest.approx(row["score"]["value"] + unread)
    replies = scores["replies"]
    missed = f"{replies['total'] - replies['read']} of {replies['total']} replies without an answer"
    assert f"! generate: {missed} (" in said(done.out)
    (block,) = compared(work, "--metric", "pass@5,acc")["comparisons"]
    row = next(row for row in block["rows"] if row["label"] == "generate")
    assert row["share_read"] > 0.9  # a doc counts where any of its replies was read


def test_flipped_docs_are_listed(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", args="cloze=10")
    done = work.cli("compare", str(work.output), "--flips")
    assert "right under mcqa, not under cloze: doc 0, 10, 20, 30\n" in done.out
    done = work.cli("compare", str(work.output), "--flips", "2")
    assert "right under mcqa, not under cloze: doc 0, 10 and 2 more\n" in done.out
    (pair,) = compared(work, "--flips")["comparisons"][0]["pairs"]
    assert pair["flips"] == {"first": ["0", "10", "20", "30"], "second": []}


def test_another_metric_can_be_compared(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze")
    (block,) = compared(work, "--metric", "acc_bytes,acc")["comparisons"]
    assert [row["metric"] for row in block["rows"]] == ["acc", "acc_bytes"]
    message = refused(work, str(work.output), "--metric", "acc_bytes")
    assert "t@mcqa: there is no metric acc_bytes." in message
    assert "--metric acc_norm,acc" in message


def test_report_and_plots_are_written(work: Workplace) -> None:
    pytest.importorskip("matplotlib")
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze")
    done = work.cli(
        *("compare", str(work.output), "--plots", "plots", "--output_path", "new/report.md")
    ).ok()
    assert (
        (work.folder / "new/report.md").read_text("utf-8").startswith("## t · 40 items · 2 formats")
    )
    names = {path.name for path in (work.folder / "plots").iterdir()}
    assert names == {
        f"t_known_{what}.{suffix}"
        for what in ("scores", "flips", "spread")
        for suffix in ("svg", "png")
    }
    assert done.out.count("Written: ") == 7


def test_the_same_seed_gives_the_same_report(work: Workplace) -> None:
    run(work, "--tasks", FORMATS, args="unread=3")
    assert compared(work, "--seed", "7") == compared(work, "--seed", "7")
    assert compared(work, "--seed", "7") != compared(work, "--seed", "8")


# Wrong input


def test_one_format_is_nothing_to_compare(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    message = refused(work, str(work.output))
    assert "Nothing to compare: one result, t@mcqa (known)." in message
    assert "`lm-eval run --tasks t@mcqa,t@cloze --output_path DIR`" in message


def test_runs_of_different_tasks(work: Workplace) -> None:
    work.task("u.yaml", task="u")
    run(work, "--tasks", "t.yaml@mcqa")
    run(work, "--tasks", "u.yaml@cloze")
    message = refused(work, str(work.output))
    assert (
        "runs of different tasks, each with one result, t@mcqa (known), u@cloze (known)" in message
    )


def test_different_items(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    run(work, "--tasks", "t.yaml@cloze", "--limit", "30")
    message = refused(work, str(work.output))
    assert (
        "not about the same items: t@mcqa (known) has 40, t@cloze (known) has 30; 30 are" in message
    )
    assert "--intersect" in message
    done = work.cli("compare", str(work.output), "--intersect")
    assert "· 30 items · 2 formats ·" in done.out
    assert "Left out t@mcqa (known) 10 (not among the 30 items that all have)" in said(done.out)


def test_different_fewshot_examples(work: Workplace) -> None:
    run(work, "--tasks", "demo_mcq@mcqa", "--limit", "5", "--num_fewshot", "1", model="dummy")
    run(work, "--tasks", "demo_mcq@cloze", "--limit", "5", model="dummy")
    message = refused(work, str(work.output))
    assert "asked with different few-shot examples (5 of 5 items; 1 and 0 shots)" in message


def test_constant_scores(work: Workplace) -> None:
    done = run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", args="cloze=always")
    assert "No difference: both formats score alike on every item." in done.out
    (pair,) = compared(work)["comparisons"][0]["pairs"]
    assert (pair["result"]["p"], pair["result"]["correlation"]) == (1.0, None)


def test_three_items(work: Workplace) -> None:
    done = run(work, "--tasks", FORMATS, "--limit", "3", args="cloze=never")
    assert "3 items are too few to tell any difference from chance; that takes 7." in said(done.out)
    assert work.cli("compare", str(work.output)).code == 0


def test_all_unread(work: Workplace) -> None:
    done = run(
        work, "--tasks", "t.yaml@generate,t.yaml@cot", model="dummy", args="reply=No comment."
    )
    assert "No reply contained an answer, so these scores say nothing" in said(done.out)
    rows = compared(work)["comparisons"][0]["rows"]
    assert [(row["num_read"], row["bounds"]) for row in rows] == [(0, [0.0, 1.0])] * 2


UNUSABLE = {
    "nowhere": "There is no 'nowhere'.",
    "t.yaml": "t.yaml is not a results file",
    "out --formats clze": "--formats 'clze' is in none of these runs. Did you",
    "out --models knwn": "Did you mean 'known'?",
    "out --tasks tt": "--tasks 'tt' is in none of these runs.",
    "out --default mqca": "--default 'mqca' is not a format of these runs.",
    "out --metric ac": "there is no metric ac. Did you mean 'acc'?",
    "out --resamples 5": "--resamples: 5 is not a number >= 100 and <= 1,000,000",
    "out --seed -1": "--seed: -1 is below zero.",
    "out --flips 0": "--flips: 0 is not a number >= 1",
    "out --method bonf": "unknown value 'bonf'",
    "out -o report.txt": "name a file that ends in .json",
    "out -o t.yaml/x.json": "cannot be written",
    "": "required: RUN",
}


def test_arguments_that_cannot_be_used(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze")
    for command, message in UNUSABLE.items():
        work.cli("compare", *command.split()).refused(message)


def test_plots_without_a_folder_draw_the_scores_in_the_terminal(work: Workplace) -> None:
    run(work, "--tasks", FORMATS)
    shown = work.cli("compare", "out", "--plots").ok()
    drawn = shown.out.partition(": scores with 95 % intervals\n")[2]
    names = [line.split()[0] for line in drawn.splitlines()[:3]]
    assert names == ["mcqa", "cloze", "generate"]
    assert drawn.count("●") == len(names)
    assert "Written" not in shown.out


def test_a_reader_that_has_seen_enough_is_no_failure(work: Workplace) -> None:
    run(work, "--tasks", FORMATS)
    command = f"{sys.executable} -m lm_eval compare out | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=work.folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_two_runs_of_the_same_are_left_to_diff(work: Workplace) -> None:
    for _ in range(2):
        run(work, "--tasks", "t.yaml@mcqa")
    error = refused(work, str(work.output))
    assert "Nothing to compare: one result, t@mcqa (known)" in error
    assert "t@mcqa (known) is there 2 times" in error
    assert "`lm-eval diff`" in error


def test_scores_over_several_orders_are_not_split_by_what_one_of_them_read(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@generate", "--permute", "cyclic", model="dummy")
    (block,) = compared(work, "--metric", "acc_debiased")["comparisons"]
    assert {row["metric"] for row in block["rows"]} == {"acc_debiased"}
    assert all(row["num_read"] is row["bounds"] is None for row in block["rows"])
    (block,) = compared(work)["comparisons"]
    assert block["rows"][1]["num_read"] < 40


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"batch_size": "4", "num_concurrent": "4"}, {"batch_size": "8", "num_concurrent": "8"}),
        ({"device": "cpu"}, {"device": "cuda:0"}),
        ({"n_threads": "2"}, {}),
        ({"device": "cpu", "n_threads": "2"}, {"device": "cuda", "n_threads": "8"}),
        ("pretrained=m,device=cpu", "pretrained=m,device=cuda,gpu_memory_utilization=0.5"),
    ],
)
def test_how_fast_a_model_is_asked_makes_no_other_model_of_it(
    work: Workplace, first: Any, second: Any
) -> None:
    for model_args in (first, second):
        run(work, "--tasks", "t.yaml@mcqa")
        path = max(work.output.rglob("results_*.json"))
        stored = json.loads(path.read_text("utf-8"))
        stored["config"]["model_args"] = model_args
        path.write_text(json.dumps(stored), "utf-8")
    error = refused(work, str(work.output))
    assert "t@mcqa (known) is there 2 times" in error


def test_a_task_without_choices_is_not_sent_to_formats_that_need_them(work: Workplace) -> None:
    run(work, "--tasks", "demo_short@cot", "--limit", "4", model="dummy")
    error = refused(work, str(work.output))
    assert "Give a run of another model, or of another format, as well." in error
    assert "mcqa" not in error


def test_of_many_models_older_results_are_counted(work: Workplace) -> None:
    for number in range(10):
        run(work, "--tasks", "t.yaml@mcqa", "--limit", "8")
        path = max(work.output.rglob("results_*.json"))
        stored = json.loads(path.read_text("utf-8"))
        stored["model_name"] = f"model {number % 5}"
        path.write_text(json.dumps(stored), "utf-8")
    (note,) = compared(work)["notes"]
    assert note.startswith(
        "5 results of 5 models are there more than once. The newest of each counts"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", [[None]]),
        ("metrics", 3.5),
        ("fewshot_docs", True),
        ("doc_hash", float("nan")),
    ],
)
def test_damaged_samples_are_one_message(work: Workplace, key: str, value: object) -> None:
    run(work, "--tasks", "t.yaml@generate,t.yaml@mcqa")
    for path in work.output.rglob("items_*.json"):
        path.unlink()
    path = next(work.output.rglob("samples_t@generate_*.jsonl"))
    first, *rest = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | {key: value}), *rest]), "utf-8")
    assert f"{path} is damaged" in refused(work, str(work.output))


def test_shares_of_what_was_read_are_checked(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@generate,t.yaml@mcqa")
    (path,) = work.output.rglob("items_*.json")
    items = json.loads(path.read_text("utf-8"))
    items["items"][0]["read"][1] = float("inf")
    path.write_text(json.dumps(items), "utf-8")
    assert f"{path} is damaged" in refused(work, str(work.output))


def test_a_score_of_a_whole_data_set_is_left_out_and_named(work: Workplace) -> None:
    """A perplexity belongs to no item: it neither stops the others nor vanishes."""
    whole = {"output_type": "loglikelihood_rolling", "doc_to_target": "question"}
    work.task("w.yaml", task="w", doc_to_text="", doc_to_choice=..., formats=..., **whole)
    run(work, "--tasks", f"{FORMATS},w.yaml", model="dummy")
    found = compared(work)
    assert [block["task"] for block in found["comparisons"]] == ["t"]
    assert any(note.startswith("Left out: ") and ", w: metric " in note for note in found["notes"])
    assert "has no number for each item" in refused(work, str(work.output), "--tasks", "w")
    assert work.cli("power", str(work.output)).code == 0


# Numbers of shots


def test_shots_are_a_condition_like_the_format(work: Workplace) -> None:
    for shots in ("0", "2"):
        tasks = "t.yaml@mcqa,t.yaml@cloze"
        run(work, "--tasks", tasks, "--num_fewshot", shots, args=f"cloze={2 + int(shots)}")
    found = compared(work, "--models", "known (cloze=2)", "known (cloze=4)")
    assert len(found["comparisons"]) == 2  # other arguments are another model
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", "--num_fewshot", "2", args="cloze=2")
    (one,) = compared(work, "--models", "known (cloze=2)")["comparisons"]
    assert one["compares"] == "conditions"
    labels = [row["label"] for row in one["rows"]]
    assert labels == ["mcqa, 0-shot", "cloze, 0-shot", "mcqa, 2-shot", "cloze, 2-shot"]
    pairs = {frozenset((pair["first"], pair["second"])) for pair in one["pairs"]}
    assert pairs == {
        frozenset(("mcqa, 0-shot", "cloze, 0-shot")),
        frozenset(("mcqa, 2-shot", "cloze, 2-shot")),
        frozenset(("mcqa, 0-shot", "mcqa, 2-shot")),
        frozenset(("cloze, 0-shot", "cloze, 2-shot")),
    }
    out = said(work.cli("compare", str(work.output), "--models", "known (cloze=2)").out)
    assert "· 40 items · 4 conditions · known (cloze=2)" in out
    assert "The condition matters: best − worst = " in out


def test_two_that_differ_in_format_and_shots_are_refused(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa", "--num_fewshot", "0")
    run(work, "--tasks", "t.yaml@cloze", "--num_fewshot", "2")
    assert "so their difference would have two causes" in refused(work, str(work.output))


def test_two_models_with_different_shots_have_nothing_in_common(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa", "--num_fewshot", "0")
    run(work, "--tasks", "t.yaml@mcqa", "--num_fewshot", "2", model="other")
    message = refused(work, str(work.output))
    assert "differ in model and in number of shots (0 and 2)" in message
    assert "Run both models with the same shots." in message
