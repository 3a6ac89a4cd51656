"""``lm-eval power``: known answers through the command line, and from runs that were stored."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from pathlib import Path
from statistics import mean, variance
from typing import Any

import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower

from lm_eval.stats.mcnemar import exact_detectable
from lm_eval.support.numbers import number
from tests.support.command_line import Workplace

NINTH, SIXTH = str(1 / 9), str(1 / 6)


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def rows(work: Workplace, *argv: str) -> list[dict[str, Any]]:
    work.cli("power", *argv, "--output_path", "plan.json").ok()
    found: list[dict[str, Any]] = json.loads((work.folder / "plan.json").read_text())["rows"]
    return found


def test_items_for_a_difference(work: Workplace) -> None:
    done = work.cli("power", "--difference", "0.03", "--variance", NINTH).ok()
    assert "in 80 % of comparisons at the 5 % level takes 969 items." in done.out
    (row,) = rows(work, "--difference", "0.03", "--variance", NINTH)
    assert (row["items"], row["power"]) == (969, 0.8)


def test_repeats_save_items(work: Workplace) -> None:
    noisy = ("--difference", "0.03", "--variance", NINTH, "--within", SIXTH)
    found = rows(work, *noisy)
    assert [(row["repeats"], row["items"]) for row in found] == [
        (1, 3876),
        (2, 2423),
        (5, 1551),
        (10, 1260),
    ]
    assert [row["items"] for row in rows(work, *noisy, "--repeats", "10")] == [1260]


def test_the_smallest_difference_of_the_items_at_hand(work: Workplace) -> None:
    noisy = ("--items", "198", "--variance", NINTH, "--within", SIXTH)
    found = {row["repeats"]: row["difference"] for row in rows(work, *noisy)}
    assert found[1] == pytest.approx(0.1327, abs=5e-5)
    assert found[10] == pytest.approx(0.0757, abs=5e-5)


def test_repeats_for_a_difference_on_the_items_at_hand(work: Workplace) -> None:
    noisy = ("--difference", "0.03", "--variance", NINTH, "--within", SIXTH)
    first, second = rows(work, *noisy, "--items", "1260")
    assert first["power"] < 0.8
    assert (second["repeats"], second["power"]) == (10, 0.8)
    done = work.cli("power", *noisy, "--items", "500")
    assert "No number of replies per item makes that 80 %" in done.out
    (enough,) = rows(work, *noisy, "--items", "3877")
    assert enough["power"] == pytest.approx(0.8, abs=1e-3)


def test_other_levels_and_assumptions(work: Workplace) -> None:
    strict = ("--difference", "0.05", "--discordant", "0.2", "--alpha", "0.01", "--power", "0.9")
    done = work.cli("power", *strict)
    assert "in 90 % of comparisons at the 1 % level" in done.out
    by_rate = rows(work, "--difference", "0.05", "--discordant", "0.21")
    by_correlation = rows(work, "--difference", "0.05", "--accuracy", ".7", "--correlation", ".5")
    assert by_rate[0]["items"] == by_correlation[0]["items"] == 689
    assert [row["difference"] for row in rows(work, "--discordant", "0.04")] == [0.01, 0.02, 0.03]


def test_few_items_are_called_rough_and_may_show_nothing(work: Workplace) -> None:
    done = work.cli("power", "--items", "3", "--variance", "0.2")
    assert "Below 30 items" in done.out
    done = work.cli("power", "--items", "3", "--discordant", "0.2")
    assert "not even the largest possible difference" in done.out


WRONG = {
    "": "It is not known how much scores vary",
    "--difference 0 --variance 1": "--difference: 0 is not a number > 0",
    "--difference x --variance 1": "'x' is not a number",
    "--variance -1": "--variance: -1 is not a number >= 0",
    "--variance 0": "Give one above 0",
    "--variance 1 --within -1": "--within: -1 is not a number >= 0",
    "--variance 1 --power 1": "--power: 1 is not a number > 0 and < 1",
    "--variance 1 --power 0.01": "no more than chance gives",
    "--variance 1 --items 0": "--items: 0 is not a number >= 1",
    "--variance 1 --repeats 3": "--repeats has no effect",
    "--variance 1 --discordant 0.1": "say the same thing",
    "--variance 1 --comparisons 0": "--comparisons: 0 is not a number >= 1 and <= 1,000,000",
    "--discordant 0.1 --difference 0.2": "is impossible",
    "--accuracy 0.7": "--accuracy needs --correlation",
    "--correlation 0.7": "--correlation needs --accuracy",
    "nowhere": "There is no 'nowhere'",
    "nowhere --variance 1": "Give runs or assumptions, not both",
    "--variance 1 --output_path docs.jsonl/plan.json": "cannot be written",
}


def test_wrong_input_is_one_message(work: Workplace) -> None:
    for command, text in WRONG.items():
        work.cli("power", *command.split()).refused(text)


def test_a_stored_run_says_what_it_can_show(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "cloze": {}})
    assert work.run("--tasks", "t.yaml@*").code == 0
    done = work.cli("power", "out").ok()
    assert "With 20 items, a true difference below" in done.out
    assert "for a difference of 0.05;" in done.out.replace("\n", " ")
    (row,) = rows(work, "out")
    assert row["label"] == "t@mcqa − t@cloze"
    scores = [[s["acc"] for s in work.samples(name)] for name in ("t@mcqa", "t@cloze")]
    discordant = sum(a != b for a, b in zip(*scores, strict=True)) / 20
    by_test = exact_detectable(20, discordant=discordant, largest=1.0)
    assert row["difference"] == pytest.approx(by_test)
    assert by_test > 2.8016 * (discordant / 20) ** 0.5
    more = work.cli("power", "out", "--difference", "0.05")
    assert "The run has 20, so" in more.out


def test_two_models_under_one_format(work: Workplace) -> None:
    task = work.task()
    for seed in ("1", "2"):
        out = str(work.folder / f"out{seed}")
        arguments = ("--model", "dummy", "--model_args", f"seed={seed}", "--output_path", out)
        assert work.cli("run", "--tasks", task, *arguments).code == 0
    path = next((work.folder / "out2").rglob("results_*.json"))
    stored = json.loads(path.read_text())
    stored["model_name"] = "another"
    path.write_text(json.dumps(stored))
    (row,) = rows(work, "out1", "out2", "--difference", "0.1")
    assert row["label"].endswith("t (another)")
    assert row["items"] > 20


def test_runs_of_one_model_with_other_arguments_are_told_apart(work: Workplace) -> None:
    task = work.task()
    for seed in ("1", "2"):
        arguments = ("--model", "dummy", "--model_args", f"seed={seed}", "--output_path", "out")
        assert work.cli("run", "--tasks", task, *arguments).code == 0
    (row,) = rows(work, "out", "--difference", "0.1")
    assert row["label"] == "t (dummy (seed=1)) − t (dummy (seed=2))"
    done = work.cli("power", "out")
    assert "! dummy was asked with different --model_args." in done.out.replace("\n", " ")


def test_formats_of_several_models_are_pairs_of_their_own(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "cloze": {}})
    for seed in ("1", "2"):
        assert work.run("--tasks", "t.yaml@*", "--model_args", f"seed={seed}").code == 0
    found = rows(work, "out")
    assert [row["label"] for row in found if "mcqa − t@cloze" in row["label"]] == [
        f"t@mcqa − t@cloze (dummy (seed={seed}))" for seed in ("1", "2")
    ]
    assert len({row["label"] for row in found}) == len(found) == 4
    plan = json.loads((work.folder / "plan.json").read_text())
    said = work.cli("power", "out").out
    for one, row in zip(plan["assumptions"], plan["rows"], strict=True):
        line = f"{number(one['variance'], 4)}       {number(row['difference'], 4)}"
        assert line in said  # each with its own variance


def test_right_or_wrong_is_planned_by_the_exact_test_that_will_be_used(work: Workplace) -> None:
    assumed = ("--difference", "0.03", "--discordant", "0.2")
    (row,) = rows(work, *assumed)
    assert (row["items"], row["power"], row["test"]) == (1800, 0.8, "exact McNemar")
    done = work.cli("power", *assumed)
    assert "takes 1,800 items. By McNemar's exact test" in done.out.replace("\n", " ")
    (chance,) = rows(work, *assumed, "--items", "1800")
    assert chance["power"] == pytest.approx(0.8, abs=1e-3)
    for other in (("--variance", "0.2"), ("--discordant", "0.2", "--within", "0.1")):
        found = rows(work, "--difference", "0.03", *other)
        assert {row["test"] for row in found} == {"normal approximation"}


def test_several_comparisons_are_planned_at_the_first_step_of_holm(work: Workplace) -> None:
    assumed = ("--difference", "0.03", "--variance", "0.2", "--comparisons", "6")
    (row,) = rows(work, *assumed)
    by_statsmodels = NormalIndPower().solve_power(
        0.03 / 0.2**0.5, alpha=0.05 / 6, power=0.8, ratio=0
    )
    assert row["items"] == math.ceil(by_statsmodels) == 2692
    said = work.cli("power", *assumed).out.replace("\n", " ")
    assert "in 80 % of comparisons at the 0.83 % level takes 2,692 items." in said
    assert "The 0.83 % level is 5 % shared among 6 comparisons" in said
    assert "finds its difference at least as often as said here" in said


def test_the_exact_test_beside_others_that_find_nothing_is_that_of_holm(work: Workplace) -> None:
    given = ("--items", "24", "--discordant", "0.6", "--difference", "0.5", "--comparisons", "3")
    (row,) = rows(work, *given)
    outcomes = stats.multinomial(24, [0.55, 0.05, 0.4])
    p_values = {
        (wins, losses): stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
        for wins in range(25)
        for losses in range(25 - wins)
    }
    ordered = sorted(set(p_values.values()))
    found_by_holm = set(ordered[: bisect_left(ordered, True, key=_is_missed_by_holm_of_three)])
    found = math.fsum(
        outcomes.pmf([wins, losses, 24 - wins - losses])
        for (wins, losses), p in p_values.items()
        if p in found_by_holm
    )
    assert row["power"] == pytest.approx(found, abs=1e-9)
    (alone,) = rows(work, *given[:-2])
    assert alone["power"] > row["power"] + 0.05


def _is_missed_by_holm_of_three(p: float) -> bool:
    # Each call collects garbage, which takes long beside many modules: a few p-values only.
    return not multipletests([p, 1.0, 1.0], alpha=0.05, method="holm")[0][0]


def test_one_comparison_is_the_default_and_several_pairs_say_so(work: Workplace) -> None:
    assumed = ("--difference", "0.03", "--discordant", "0.2")
    assert rows(work, *assumed) == rows(work, *assumed, "--comparisons", "1")
    assert "--comparisons" not in work.cli("power", *assumed).out
    work.task(
        formats={"mcqa": {}, "cloze": {}, "other": {"type": "cloze", "question_prefix": "Q: "}}
    )
    assert work.run("--tasks", "t.yaml@*").code == 0
    assert "give their number with --comparisons" in work.cli("power", "out").out.replace("\n", " ")
    assert "--comparisons" not in work.cli("power", "out", "--comparisons", "3").out


def test_a_difference_beyond_the_discordant_items_is_planned_with_as_many(work: Workplace) -> None:
    assumed = ("--accuracy", "0.9", "--correlation", "0.9", "--difference", ".05")
    (row,) = rows(work, *assumed)
    (all_one_way,) = rows(work, "--discordant", ".05", "--difference", ".05")
    assert row["items"] == all_one_way["items"]
    assert "more than the .018 assumed" in work.cli("power", *assumed).out.replace("\n", " ")


def test_a_run_with_one_format_says_how_to_add_one(work: Workplace) -> None:
    task = work.task()
    assert work.run("--tasks", task).code == 0
    work.cli("power", "out").refused("two formats of one model are needed")
    done = work.cli("power", "out", "--tasks", "tt")
    assert "Did you mean 't'?" in done.err


def test_results_and_metrics_are_chosen_as_for_a_comparison(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "cloze": {}, "other": {"type": "cloze"}})
    assert work.run("--tasks", "t.yaml@*").code == 0
    (row,) = rows(work, "out", "--formats", "mcqa,cloze")
    assert row["label"] == "t@mcqa − t@cloze"
    found = rows(work, "out", "--formats", "mcqa,cloze", "--metric", "acc_norm,acc")
    assert len(found) == 1
    assert "no metric nope" in work.cli("power", "out", "--metric", "nope").err


def test_a_run_without_samples_and_one_that_is_there_twice(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "cloze": {}})
    assert work.run("--tasks", "t.yaml@*").code == 0
    assert work.run("--tasks", "t.yaml@*").code == 0
    done = work.cli("power", "out")
    assert "are there 2 times. The newest counts" in done.out.replace("\n", " ")
    for path in [*work.output.rglob("samples_*"), *work.output.rglob("items_*")]:
        path.unlink()
    work.cli("power", "out").refused("has no samples")


def test_formats_that_never_differ_are_no_basis(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "other": {"type": "mcqa"}})
    assert work.run("--tasks", "t.yaml@*").code == 0
    work.cli("power", "out").refused("both scored the same on all 20 items")


def test_a_run_with_several_replies_tells_what_more_of_them_bring(work: Workplace) -> None:
    work.task(formats={"generate": {}, "cot": {}}, repeats=4)
    assert work.run("--tasks", "t.yaml@*").code == 0
    found = rows(work, "out")
    assert [row["repeats"] for row in found] == [1, 2, 4, 5, 10]
    assert found[0]["difference"] > found[2]["difference"] > found[4]["difference"]
    (said,) = json.loads((work.folder / "plan.json").read_text())["assumptions"]
    samples = [work.samples(name) for name in ("t@generate", "t@cot")]
    within = [
        mean(variance([float(one["right"]) for one in sample["readings"]]) for sample in some)
        for some in samples
    ]
    assert said["within"] == pytest.approx(mean(within))
    gaps = [a["acc"] - b["acc"] for a, b in zip(*samples, strict=True)]
    assert said["variance"] == pytest.approx(max(0.0, variance(gaps) - sum(within) / 4))
    done = work.cli("power", "out")
    assert "With 20 items with 4 replies each, a true difference below" in done.out.replace(
        "\n", " "
    )
    assert [row["repeats"] for row in rows(work, "out", "--repeats", "8")] == [8]


def test_other_items_are_taken_together_only_when_asked(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "cloze": {}})
    assert work.run("--tasks", "t.yaml@mcqa").code == 0
    assert work.run("--tasks", "t.yaml@cloze", "--limit", "12").code == 0
    work.cli("power", "out").refused("give --intersect")
    again = work.cli("power", "out", "--intersect").ok()
    assert "With 12 items" in again.out


def test_few_clusters_are_said_and_may_find_nothing(work: Workplace) -> None:
    work.task(formats={"mcqa": {}, "cloze": {}}, cluster="answer")
    assert work.run("--tasks", "t.yaml@*").code == 0
    (row,) = rows(work, "out")
    assert row["difference"] is None  # four clusters: no p below 2 / 2⁴
    done = work.cli("power", "out")
    assert "The items come in 4 clusters" in done.out
    (row,) = rows(work, "out", "--difference", "0.1")
    assert row["items"] > 20
