"""``lm-eval sweep``: which cells are asked, what is kept, what comes out, and what is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lm_eval.formats.compile import get_format
from lm_eval.lab.grammar.sample import FormatList, sample_formats
from lm_eval.support.numbers import number
from tests.support import logged_model, planted_model
from tests.support.command_line import Outcome, Workplace
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN, SOURCE

ITEMS = 40
FORMATS = 12
CHOICES = 4
CELLS = ITEMS * FORMATS


@pytest.fixture
def place(tmp_path: Path, own_registries: None, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    logged_model.register()
    planted_model.register()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Workplace(tmp_path)
    made.rows(count=ITEMS)
    made.task()
    return made


def sweep(
    place: Workplace,
    *more: str,
    model: str = "dummy",
    formats: str = str(FORMATS),
    output: str | None = "out",
    **arguments: Any,
) -> Outcome:
    """A sweep of the task ``t``, with all its formats; model arguments by name."""
    flags = ["--formats", formats, "--model", model, "--table", "full"]
    if arguments:
        flags += ["--model_args", ",".join(f"{name}={value}" for name, value in arguments.items())]
    if output is not None:
        flags += ["--output_path", str(place.folder / output)]
    tasks = [] if "--tasks" in more else ["--tasks", "t.yaml"]
    return place.cli("sweep", *tasks, *flags, *more)


def logged(place: Workplace, *more: str, **arguments: Any) -> Outcome:
    return sweep(place, *more, model="logged", log=place.folder / "asked.log", **arguments)


def asked(place: Workplace) -> list[str]:
    """The cells asked since the last look, one for each request: task@format and doc."""
    log = place.folder / "asked.log"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [line.rpartition(" ")[0] for line in lines]


def summary(place: Workplace, output: str = "out") -> dict[str, Any]:
    path = max((place.folder / output).rglob("sweep_*.json"), key=lambda path: path.name)
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def words(outcome: Outcome) -> str:
    """What was printed, on one line; nothing may have gone wrong."""
    assert outcome.code == 0, outcome.err
    return " ".join(outcome.out.split())


def names(count: int = FORMATS, seed: int = 0) -> list[str]:
    return [one.name for one in sample_formats(get_format("mcqa"), count, seed=seed)]


def test_the_screens_of_a_sweep(place: Workplace) -> None:
    """Every line that a sweep prints: of all cells, of some, and of a dry run."""
    model = ["--model", "planted", "--model_args", "by_label=0.95", "--output_path", "out"]
    screens = []
    for flags in (
        ("--formats", "20"),
        ("--formats", "20", "--table", "full"),
        ("--formats", "20", "--budget", "3n"),
        ("--formats", "20", "--budget", "3n", "--table", "full"),
        ("--formats", "12", "--plots"),
        ("--formats", "12", "--budget", "2n", "--dry_run"),
    ):
        done = place.cli("sweep", "--tasks", "t.yaml", *model, *flags).ok()
        screens.append(f"$ lm-eval sweep {' '.join(flags)}\n{done.out}")
    screen = re.sub(r"(results|sweep)_\d\S+\.json", r"\1_TIME.json", "\n".join(screens))
    shown = "".join(f"{line}\n" for line in screen.splitlines())
    assert_golden(GOLDEN / "lab" / "sweep.txt", shown)


@pytest.mark.parametrize("flags", [(), ("--budget", "3n")])
def test_a_narrow_screen(
    place: Workplace, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    model = ["--model", "planted", "--model_args", "by_label=0.95", "--formats", "12"]
    done = place.cli("sweep", "--tasks", "t.yaml", *model, *flags).ok()
    lines = [line for line in done.out.splitlines() if f"{place.folder}" not in line]
    assert max(map(len, lines)) <= 60
    assert len(lines) <= 80


# All cells


def test_a_full_sweep_says_how_much_is_the_format(place: Workplace) -> None:
    said = words(sweep(place, "--tasks", "t.yaml", model="planted", by_label=0.95, formats="30"))
    found = summary(place)
    assert "The format matters: best − worst = " in said
    assert "Slots numbering (" in said
    result = found["result"]
    assert result["spread"]["p"] < 0.01
    assert result["slots"][0]["slot"] == "numbering"
    assert result["slots"][0]["adjusted"] < 0.01
    assert result["slots"][1]["adjusted"] > 0.05
    top = next(iter(result["slots"][0]["means"]))
    assert top == "numbers"
    assert found["cells"] == found["all_cells"] == 30 * ITEMS


def test_scores_are_those_of_the_results_file(place: Workplace) -> None:
    words(sweep(place))
    found, results = summary(place), place.results()["results"]
    rows = found["formats"]
    assert [row["name"] for row in rows] == names()
    scores = {row["name"]: one for row, one in zip(rows, found["result"]["scores"], strict=True)}
    assert len(results) == FORMATS
    for name, score in scores.items():
        assert results[f"t@{name}"]["acc,none"] == pytest.approx(score["value"])
    best, worst = (rows[found["result"][end]]["name"] for end in ("best", "worst"))
    values = {name: score["value"] for name, score in scores.items()}
    assert values[best] == max(values.values())
    assert values[worst] == min(values.values())
    assert found["result"]["spread"]["value"] == pytest.approx(values[best] - values[worst])
    base = values["mcqa"]
    for name, pair in zip(values, found["result"]["against_base"], strict=True):
        assert pair is None or pair["difference"]["value"] == pytest.approx(values[name] - base)


def test_a_comparison_says_the_same_of_the_same_scores(place: Workplace) -> None:
    """Spread, noise floor, chances and tests, whatever seed drew the formats."""
    words(sweep(place, "--seed", "3"))
    swept = summary(place)["result"]
    place.cli("compare", "out", "--method", "bh", "--output_path", "c.json").ok()
    (found,) = json.loads((place.folder / "c.json").read_text())["comparisons"]
    assert found["spread"] == swept["spread"]
    assert found["omnibus"]["p"] == pytest.approx(swept["omnibus"]["p"])
    assert [row["score"] for row in found["rows"]] == swept["scores"]
    adjusted = sorted(pair["p_adjusted"] for pair in found["pairs"])
    assert adjusted == pytest.approx(sorted(filter(None, swept["adjusted_p"])))


def test_no_difference_and_nothing_read_are_said(place: Workplace) -> None:
    said = words(sweep(place, "--base", "generate", reply="?!?"))
    assert "No reply contained an answer, so these scores say nothing" in said
    assert "No reply under any of these formats contained an answer" in words(
        sweep(place, "--base", "generate", "--budget", "2n", output="few", reply="?!?")
    )


def test_equal_scores_on_different_items_are_not_called_no_difference(place: Workplace) -> None:
    said = words(sweep(place, "--limit", "6", formats="2", seed=3))
    assert re.search(r"Inconclusive mcqa > mcqa-\w+ \.00 \[−", said)
    assert "No difference" not in said


def test_unread_answers_make_no_spread_where_there_is_none(place: Workplace) -> None:
    said = words(sweep(place, "--base", "cot"))
    assert "No difference" in said
    assert "Replies without an answer count as not right" in said
    assert "Confounded" not in said


def test_two_formats_are_said_to_be_two_and_no_more(place: Workplace) -> None:
    said = words(sweep(place, formats="2"))
    assert "2 formats (layout)" in said
    for needless in ("Half of the formats", "How sure the extremes are", "Picked on one half"):
        assert needless not in said


def test_half_of_the_items_choose_and_the_other_half_scores(place: Workplace) -> None:
    said = words(sweep(place, model="planted", by_label=0.95, formats="30"))
    apart = summary(place)["result"]["spread"]["split_half"]
    assert apart > 0.3
    assert f"; {number(apart, 2)} on held-out halves)." in said
    for seed in range(5):  # formats that make no difference
        words(sweep(place, seed=seed, output=f"seed{seed}"))
        found = summary(place, f"seed{seed}")["result"]["spread"]
        assert found["value"] > found["split_half"] + 0.1


def test_clusters_are_said_and_one_is_too_few(place: Workplace) -> None:
    place.task(cluster="{{question | length}}")
    said = words(sweep(place))
    assert "The items come in 2 clusters, which all of this takes into account; fewer than" in said
    place.task(cluster="{{choices | length}}")
    logged(place).refused("all 40 items belong to one cluster")
    assert asked(place) == []


def test_a_spread_of_unread_answers_is_called_confounded(place: Workplace) -> None:
    said = words(sweep(place, "--base", "generate", reply="B"))
    assert "The format matters: best − worst = .25 (" in said
    assert "It may matter only for how many replies contain an answer." in said
    assert re.search(r"Confounded generate-[^.]* trails? generate by \.25", said)
    assert "but all of their replies contain no answer." in said
    assert "Real:" not in said
    assert "No difference" not in said


def test_a_spread_that_may_be_luck_is_not_called_confounded(place: Workplace) -> None:
    more = ("--base", "generate", "--axis", "wording", "--limit", "12")
    for seed in range(4):
        said = words(sweep(place, *more, formats="4", seed=seed))
        assert "No sign that the format matters" in said
        assert "Confounded" not in said
        assert "Replies without an answer count as not right" in said


def test_the_choice_of_format_does_not_take_a_share_below_0(place: Workplace) -> None:
    found = words(sweep(place, "--base", "generate", "--limit", "12", reply="B"))
    assert re.search(r"with the choice of format ± \.\d\d \[\.00, ", found)
    more = ("--base", "generate", "--axis", "wording", "--limit", "12")
    for seed in range(4):
        said = words(sweep(place, *more, formats="4", seed=seed))
        assert "[−" not in said.partition("Std. error")[2].partition("]")[0]


def test_the_list_is_saved_and_the_same_for_every_model(place: Workplace) -> None:
    words(sweep(place, seed=1))
    words(sweep(place, output="other", seed=2))
    (first,) = (place.folder / "out").glob("formats_*.yaml")
    (second,) = (place.folder / "other").glob("formats_*.yaml")
    assert first.read_text("utf-8") == second.read_text("utf-8")
    before = [row["fingerprint"] for row in summary(place)["formats"]]
    words(sweep(place, formats=str(first), output="again", seed=3))
    assert [row["fingerprint"] for row in summary(place, "again")["formats"]] == before
    listed = FormatList.load(first)
    assert [one.format.fingerprint for one in listed] == before
    assert len(set(before)) == FORMATS


def test_another_seed_samples_another_list(place: Workplace) -> None:
    words(sweep(place, "--seed", "7"))
    found = [row["name"] for row in summary(place)["formats"]]
    assert found == names(seed=7) != names()


def test_without_an_output_path_the_list_is_in_the_cache(place: Workplace) -> None:
    said = words(sweep(place, output=None))
    (path,) = (place.folder / "cache").rglob("formats_*.yaml")
    assert path.name in said.replace(" ", "")


# A few cells, and what was paid for


def test_a_budget_says_that_it_knows_no_clusters(place: Workplace) -> None:
    assert "clusters" not in words(sweep(place, "--budget", "2n"))
    rows = [json.loads(line) for line in (place.folder / "docs.jsonl").read_text().splitlines()]
    for index, row in enumerate(rows):
        row["passage"] = index // 4
    place.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    place.task(cluster="passage")
    said = words(sweep(place, "--budget", "2n", output="clustered"))
    assert "The items come in clusters." in said
    assert "its intervals may be a little too narrow" in said


def test_a_budget_asks_so_many_cells_evenly(place: Workplace) -> None:
    said = words(logged(place, "--budget", "2n"))
    cells = Counter(asked(place))
    assert len(cells) == 2 * ITEMS
    assert set(cells.values()) == {CHOICES}
    by_format = Counter(cell.split()[0] for cell in cells)
    by_item = Counter(cell.split()[1] for cell in cells)
    assert len(by_format) == FORMATS
    assert len(by_item) == ITEMS
    assert max(by_format.values()) - min(by_format.values()) <= 1
    assert set(by_item.values()) == {2}
    assert f"80 of {CELLS} cells (17 %)" in said
    assert summary(place)["result"]["cells"] == 2 * ITEMS


def test_compare_says_what_a_sweep_of_few_cells_is(place: Workplace) -> None:
    words(sweep(place, "--budget", "2n"))
    refused = place.cli("compare", str(place.folder / "out"))
    refused.refused("asks only some items under each format")
    [path] = (place.folder / "out").rglob("sweep_*.json")
    assert f"What it found out about the formats is in {path}." in refused.err
    assert "give the sweep again without --budget" in refused.err
    words(sweep(place, output="whole"))
    assert place.cli("compare", str(place.folder / "whole")).code == 0


def test_later_commands_reuse_what_was_paid_for(place: Workplace) -> None:
    logged(place, "--budget", "2n")
    first = set(asked(place))
    said = words(logged(place, "--budget", "4n"))
    second = set(asked(place))
    assert len(second) == 2 * ITEMS
    assert not first & second
    assert f"{2 * ITEMS * CHOICES} reused" in said
    said = words(logged(place))
    third = set(asked(place))
    assert len(third) == CELLS - 4 * ITEMS
    assert not third & (first | second)
    assert f"{4 * ITEMS * CHOICES} reused" in said
    words(logged(place))
    assert asked(place) == []


def test_answers_are_kept_without_an_output_path_too(place: Workplace) -> None:
    logged(place, formats="3", output=None)
    assert len(set(asked(place))) == 3 * ITEMS
    said = words(logged(place, formats="3", output=None))
    assert asked(place) == []
    assert f"{3 * ITEMS * CHOICES} reused" in said


def test_a_model_does_not_get_the_answers_of_another(place: Workplace) -> None:
    logged(place, formats="3", seed=1)
    asked(place)
    logged(place, formats="3", seed=2)
    assert len(set(asked(place))) == 3 * ITEMS


def test_a_doc_keeps_its_examples_whichever_docs_are_asked(place: Workplace) -> None:
    logged(place, "--budget", "2n", "--num_fewshot", "2")
    first = set(asked(place))
    assert 0 < len(first) < CELLS
    words(logged(place, "--num_fewshot", "2"))
    assert not first & set(asked(place)), "other examples would be other prompts, asked again"


def test_a_whole_run_finds_the_answers_of_a_sweep(place: Workplace) -> None:
    logged(place, "--num_fewshot", "2")
    asked(place)
    place.run(
        *("--tasks", "t.yaml@mcqa", "--num_fewshot", "2", "--use_cache", "out/answers.sqlite"),
        *("--model_args", f"log={place.folder / 'asked.log'}"),
        model="logged",
    ).ok()
    assert asked(place) == [], "the same docs have the same examples in a run"


def test_a_sweep_that_was_killed_goes_on(place: Workplace) -> None:
    log = place.folder / "asked.log"
    argv = [
        *("sweep", "--tasks", "t.yaml", "--formats", str(FORMATS), "--model", "logged"),
        *("--output_path", "out", "--model_args", f"log={log},pause_s=0.002"),
    ]
    script = Path(logged_model.__file__)
    process = subprocess.Popen(
        [sys.executable, str(script), *argv],
        cwd=place.folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HOLD_AT": "200"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not log.exists() or len(log.read_text("utf-8").splitlines()) < 200:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = len(asked(place))
    words(logged(place))
    after = len(asked(place))
    assert CELLS * CHOICES <= before + after <= CELLS * CHOICES + logged_model.WINDOW
    went_on = summary(place)["result"]
    words(sweep(place, output="whole"))
    assert went_on == summary(place, "whole")["result"], (
        "the dummy answers as the logged model does"
    )


def test_the_estimate_holds_the_planted_distribution(place: Workplace) -> None:
    place.rows(count=100)
    planted = {"model": "planted", "apart": 0.2, "formats": "40"}
    words(sweep(place, "--budget", "4n", **planted))
    guess = summary(place)["result"]
    words(sweep(place, **planted))
    truth = summary(place)["result"]
    assert guess["cells"] == 400
    assert guess["num_items"] == 100
    for q, one in guess["quantiles"].items():
        assert one["low"] <= truth["quantiles"][q] <= one["high"], q
    assert guess["spread"]["low"] <= truth["spread"]["value"] <= guess["spread"]["high"]
    mean = truth["components"]["mean"]
    assert guess["mean"]["low"] <= mean <= guess["mean"]["high"]
    scores = [one["value"] for one in truth["scores"]]
    inside = [
        one["low"] <= score <= one["high"]
        for one, score in zip(guess["per_format"], scores, strict=True)
    ]
    assert sum(inside) >= 34, "a nominal 38 of 40"


# Other axes, several tasks, missing answers


@pytest.mark.parametrize(
    ("axis", "flags", "said"),
    [
        ("wording", (), "ask in different words"),
        ("shots", (), "the few-shot examples, not the layout"),
        ("reasoning", ("--base", "generate"), "whether the model reasons first"),
    ],
)
def test_other_axes_are_not_called_layout(
    place: Workplace, axis: str, flags: tuple[str, ...], said: str
) -> None:
    count = "2" if axis == "reasoning" else "4"
    printed = words(sweep(place, "--axis", axis, *flags, formats=count))
    assert said in printed
    assert f"formats ({axis})" in printed
    found = summary(place)
    assert found["axis"] == axis
    assert len(found["formats"]) == int(count)


def test_the_axis_shots_gives_each_format_its_examples(place: Workplace) -> None:
    words(sweep(place, "--axis", "shots", formats="5"))
    rows, shots = summary(place)["formats"], place.results()["n-shot"]
    for row in rows:
        assert shots[f"t@{row['name']}"] == row["options"].get("num_fewshot", 0)


def test_several_tasks_and_bases(place: Workplace) -> None:
    place.task("u.yaml", task="u")
    said = words(sweep(place, "--tasks", "t.yaml@mcqa,t.yaml@cloze,u.yaml", formats="3"))
    for name in ("t@mcqa", "t@cloze", "u@mcqa"):
        assert f"{name} · 3 formats (layout) · {ITEMS} items" in said
    found = [json.loads(path.read_text("utf-8")) for path in place.output.rglob("sweep_*.json")]
    assert sorted(one["task"] for one in found) == ["t@cloze", "t@mcqa", "u@mcqa"]
    assert len(list(place.output.glob("formats_*.yaml"))) == 2


def test_items_without_an_answer_are_left_out_and_counted(place: Workplace) -> None:
    said = words(logged(place, "--max_failed", "10%", fails="3"))
    assert "1 of 40 items are left out" in said
    assert f"{FORMATS} cells got no answer" in said
    assert summary(place)["result"]["spread"]["num_items"] == ITEMS - 1


def test_many_choices_have_labels_in_every_format(place: Workplace) -> None:
    place.rows(count=ITEMS, choices=[f"c{number}" for number in range(24)])
    said = words(sweep(place, formats="30"))
    assert "t@mcqa · 30 formats" in said
    (path,) = place.output.glob("formats_*_24choices_*.yaml")
    listed = FormatList.load(path)
    assert listed.rejected["labels"] > 0
    assert {one.slots["numbering"] for one in listed} == {"letters", "small letters", "numbers"}
    assert [row["share_read"] for row in summary(place)["formats"]] == [None] * 30


def test_what_is_wrong_with_the_last_task_is_found_before_the_first_is_asked(
    place: Workplace,
) -> None:
    place.write("other.jsonl", '{"question": "Q?", "choices": ["x", "x"], "answer": "x"}\n' * 3)
    place.task("u.yaml", task="u", dataset_kwargs={"data_files": {"test": "other.jsonl"}})
    logged(place, "--tasks", "t.yaml,u.yaml").refused(
        "Task 'u', doc 0: target 'x' is the text of more than one choice"
    )
    assert asked(place) == []


def test_limit_and_samples_choose_the_items(place: Workplace) -> None:
    words(logged(place, "--limit", "10", formats="3"))
    assert {line.split()[1] for line in asked(place)} == {str(doc) for doc in range(10)}
    words(logged(place, "--samples", '{"t": [3, 5, 8]}', formats="3", output="some"))
    assert {line.split()[1] for line in asked(place)} == {"3", "5", "8"}


def test_results_of_a_sweep_are_read_as_a_run(place: Workplace) -> None:
    from lm_eval.lab.stored.run import open_runs
    from lm_eval.lab.stored.select import chosen

    words(sweep(place))
    (run,) = open_runs([place.output])
    assert len(chosen([run])[0]) == FORMATS


@pytest.mark.parametrize(("flags", "count"), [((), 4), (("--budget", "60"), 2)])
def test_plots_are_files(place: Workplace, flags: tuple[str, ...], count: int) -> None:
    said = words(sweep(place, "--plots", "plots", *flags))
    files = sorted((place.folder / "plots").iterdir())
    assert len(files) == count
    assert all(file.stat().st_size > 1000 and file.name in said for file in files)
    assert b"<svg" in files[-1].read_bytes()


def test_plots_without_a_folder_draw_the_scores(place: Workplace) -> None:
    outcome = sweep(place, "--plots").ok()
    assert outcome.out.count("●") == FORMATS


# Before anything is asked


def test_a_dry_run_counts_and_writes_nothing(place: Workplace) -> None:
    said = words(logged(place, "--budget", "2n", "--dry_run"))
    assert f"{FORMATS} formats (layout) × {ITEMS} items = {CELLS} cells; 80 would be asked." in said
    assert "320" in said, "four requests for each cell"
    assert asked(place) == []
    assert not place.output.exists()
    assert not list(place.folder.rglob("formats_*.yaml"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--formats", "1"), "it needs at least 2"),
        (("--formats", "0"), "it needs at least 2"),
        (("--formats", "-3"), "it needs at least 2"),
        (("--formats", "many"), "neither a number of formats, such as 50, nor a file"),
        (("--formats", "docs.jsonl"), "docs.jsonl"),
        (("--formats", "99999999", "--axis", "wording"), "distinct formats"),
        (("--budget", "5"), "12 formats need at least 12"),
        (("--budget", "481"), "have only 480"),
        (("--budget", "99n"), "have only 480"),
        (("--budget", "much"), "neither a number of cells"),
        (("--budget", "-3"), "neither a number of cells"),
        (("--search", "best"), "no longer has --search. Sample a list with --formats 20"),
        (("--axis", "colour"), "Values: layout"),
        (("--axis", "reasoning"), "the model writes nothing, so it cannot reason"),
        (("--axis", "shots", "--num_fewshot", "2"), "--num_fewshot cannot be given"),
        (("--base", "mcqu"), "Did you mean 'mcqa'?"),
        (("--tasks", "t.yaml@mcqa", "--base", "cloze"), "both name the format"),
        (("--tasks", "plain.yaml"), "is asked without a format"),
        (("--tasks", "nowhere.yaml"), "does not exist"),
        (("--limit", "1"), "at least 2 items; there is 1"),
        (("--seed=-1",), "must be 0 or more"),
        (("--samples", '{"u": [1, 2]}'), "and no task of this run"),
        (("--plots", "docs.jsonl"), "is not a folder"),
        (("--predict_only",), "has no option '--predict_only'"),
        (("--model", "dumy"), "Did you mean 'dummy'?"),
    ],
)
def test_wrong_input_is_one_clear_message(
    place: Workplace, flags: tuple[str, ...], message: str
) -> None:
    place.task("plain.yaml", task="plain", formats=..., output_type="multiple_choice")
    outcome = sweep(place, *flags)
    assert outcome.code == 1
    assert message in " ".join(outcome.err.split()), outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.err.count("lm-eval: error:") == 1
    assert not list(place.output.rglob("sweep_*")) if place.output.exists() else True


def test_missing_arguments_are_said(place: Workplace) -> None:
    assert "How many formats?" in place.cli("sweep", "--tasks", "t.yaml").err
    assert "No tasks" in place.cli("sweep", "--formats", "3").err


def test_a_list_of_another_base_or_axis_is_refused(place: Workplace) -> None:
    words(sweep(place))
    (path,) = place.output.glob("formats_*.yaml")
    sweep(place, "--base", "cloze", formats=str(path)).refused("varies the format 'mcqa'")
    sweep(place, "--axis", "wording", formats=str(path)).refused(
        "varies the axis 'layout', not 'wording'"
    )


def test_a_list_says_what_it_starts_from(place: Workplace) -> None:
    words(sweep(place, "--base", "cloze", formats="4"))
    (path,) = place.output.glob("formats_*.yaml")
    said = words(sweep(place, formats=str(path), output="again"))
    assert f"t@cloze · 4 formats (layout) · {ITEMS} items" in said
    assert summary(place, "again")["base"] == "cloze"


def test_a_list_without_its_base_in_the_first_place_is_refused(place: Workplace) -> None:
    words(sweep(place))
    (path,) = place.output.glob("formats_*.yaml")
    start, first, *others = path.read_text("utf-8").split("- name: ")
    moved = place.write("moved.yaml", "- name: ".join([start, *others, first]))
    sweep(place, formats=moved).refused("does not begin with its base format 'mcqa'")


def test_a_task_without_choices_says_how_many_formats_there_are(place: Workplace) -> None:
    place.task(
        "free.yaml", task="free", doc_to_choice=..., doc_to_target="question", formats="cloze"
    )
    sweep(place, "--tasks", "free.yaml").refused("doc_to_choice")
    bare = {"type": "cloze", "question_prefix": "", "answer_prompt": None}
    place.task("bare.yaml", task="bare", formats=bare)
    sweep(place, "--tasks", "bare.yaml").refused("'cloze' has nothing to vary on the axis 'layout'")
