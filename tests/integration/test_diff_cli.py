"""``lm-eval diff``: two real runs that differ in one thing, which is found and named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import peer_files
from tests.support.command_line import Outcome, Workplace, python
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN

SCREENS = GOLDEN / "lab"


def run(place: Workplace, out: str, *argv: str, fmt: str = "generate", **task: Any) -> None:
    """A run of the task ``t`` whose files go to the folder ``out``."""
    name = place.task(**{"formats": ..., **task})
    tasks = ",".join(f"{name}@{one}" for one in fmt.split(","))
    place.cli("run", "--model", "dummy", "--output_path", out, "--tasks", tasks, *argv).ok()


def diff(place: Workplace, *argv: str) -> tuple[Outcome, dict[str, Any]]:
    """What is printed, and the first result of the JSON."""
    done = place.cli("diff", "a", "b", "--output_path", "diff.json", *argv).ok()
    found = json.loads((place.folder / "diff.json").read_text("utf-8"))
    result = found["results"][0]
    facts = [*found["findings"], *result["findings"]]
    result["changes"] = {one["topic"]: one["changes"] for one in facts if one["changes"]}
    result["said"] = " ".join(done.out.split())
    return done, result


def samples_of(place: Workplace, out: str) -> Path:
    (path,) = (place.folder / out).rglob("samples_*.jsonl")
    return path


def stored_samples(place: Workplace, out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples_of(place, out).read_text("utf-8").splitlines()]


def rewrite(path: Path, change: Any) -> None:
    """Apply ``change`` to the list of stored samples."""
    samples = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(json.dumps(one) + "\n" for one in change(samples)), "utf-8")


def test_a_run_and_its_repetition(place: Workplace) -> None:
    run(place, "a")
    run(place, "b")
    done, found = diff(place)
    assert found["changes"] == {}
    assert found["counts"]["same_answers"] == 20
    assert set(found["parts"].values()) == {0.0}
    assert "There is no difference to explain" in done.out


def test_another_seed_of_the_model(place: Workplace) -> None:
    run(place, "a")
    run(place, "b", "--model_args", "seed=7")
    _, found = diff(place)
    assert found["changes"] == {
        "model": {"model_seed": [1234, 7]},
        "arguments": {"seed": [None, 7]},
    }
    assert found["counts"]["prompts"] == 0
    assert found["counts"]["answers"] > 0
    assert "Answers differ because of: model, arguments." in found["said"]
    first, second = stored_samples(place, "a"), stored_samples(place, "b")
    higher = [a["doc_id"] for a, b in zip(first, second, strict=True) if a["acc"] > b["acc"]]
    assert found["higher_in_a"] == higher
    assert found["parts"]["answers"] == pytest.approx(found["difference"])


def test_few_shot_examples(place: Workplace) -> None:
    run(place, "a")
    run(place, "b", "--num_fewshot", "2")
    done, found = diff(place)
    assert found["changes"] == {"settings": {"num_fewshot": [0, 2]}}
    assert (found["counts"]["shots"], found["counts"]["prompts"]) == (20, 20)
    assert "20 of 20 differ" in done.out
    assert "doc 0, from character" in done.out
    assert "Prompts differ because of: few-shot examples, settings." in found["said"]


def test_items_that_one_run_lacks(place: Workplace) -> None:
    run(place, "a", "--model_args", "reply=C")  # right on docs 2, 6, …
    run(place, "b", "--model_args", "reply=C", "--limit", "3")
    _, found = diff(place)
    assert found["counts"]["only_a"] == 17
    assert [one["value"] for one in found["scores"]] == [0.25, pytest.approx(1 / 3)]
    assert found["parts"]["items"] == pytest.approx(0.25 - 1 / 3)
    assert sum(found["parts"].values()) == pytest.approx(found["difference"])
    assert (
        "−.083 from items that only one run has. Items differ because of: limit." in found["said"]
    )


def test_parts_add_up_where_everything_differs(place: Workplace) -> None:
    run(place, "a", "--limit", "16")
    run(place, "b", "--model_args", "seed=3", "--num_fewshot", "1")
    rewrite(samples_of(place, "b"), lambda samples: samples[5:])
    _, found = diff(place)
    assert found["counts"]["only_a"] == 5
    assert found["counts"]["only_b"] == 4
    assert sum(found["parts"].values()) == pytest.approx(
        _mean(stored_samples(place, "a")) - _mean(stored_samples(place, "b"))
    )


def _mean(samples: list[dict[str, Any]]) -> float:
    return sum(one["acc"] for one in samples) / len(samples)


def test_a_doc_with_other_content(place: Workplace) -> None:
    run(place, "a")
    place.rows(doc=3, question="Q3, really?")
    run(place, "b")
    done, found = diff(place)
    assert found["counts"]["changed"] == 1
    assert found["counts"]["shared"] == 19
    assert "doc 3, question: “Q3?” → “Q3, really?”" in done.out


def test_docs_that_moved(place: Workplace) -> None:
    run(place, "a")
    rows = (place.folder / "docs.jsonl").read_text().splitlines()
    place.write("docs.jsonl", "\n".join([*rows[1:], rows[0]]) + "\n")
    run(place, "b")
    done, found = diff(place)
    assert found["counts"]["moved"] == 20
    assert "20 of these are in the other run under another number" in " ".join(done.out.split())


def test_the_same_answers_read_otherwise(place: Workplace) -> None:
    reply = ("--model_args", json.dumps({"reply": "Hm. zqCqz"}))
    run(place, "a", *reply, fmt="mine", formats={"mine": {"type": "generate"}})
    own = {"type": "generate", "scorer": {"reader": "regex", "pattern": "zq(.)qz"}}
    run(place, "b", *reply, fmt="mine", formats={"mine": own})
    done, found = diff(place)
    assert list(found["changes"]) == ["reader"]
    assert found["counts"]["readings"] == 20
    assert found["parts"]["readings"] == pytest.approx(-0.25)
    assert "Readings differ because of: the reader." in found["said"]
    assert "read as nothing (unreadable) → “y” by regex" in done.out


def test_an_invisible_character_in_a_prompt(place: Workplace) -> None:
    run(place, "a", fmt="mine", formats={"mine": {"type": "generate", "question_prefix": "Q: "}})
    changed = {"type": "generate", "question_prefix": "Q:\u200b "}
    run(place, "b", fmt="mine", formats={"mine": changed})
    done, found = diff(place)
    assert found["changes"]["format"] == {"question_prefix": ["Q: ", "Q:\u200b "]}
    assert "»\\u200b" in done.out
    assert "\u200b" not in done.out
    assert found["parts"]["prompts"] == pytest.approx(found["difference"])


def test_the_same_prompts_answered_otherwise_by_the_same_model(place: Workplace) -> None:
    """What a run on other hardware, or with sampling, leaves behind."""
    run(place, "a", "--model_args", "reply=A")
    run(place, "b", "--model_args", "reply=A")

    def changed(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for one in samples[:2]:
            one |= {"resps": [["B"]], "acc": 1.0 - one["acc"]}
        return samples

    rewrite(samples_of(place, "b"), changed)
    _, found = diff(place)
    assert found["counts"]["answers"] == 2
    assert "are not repeatable: sampling, batching or hardware" in found["said"]


def test_log_likelihoods(place: Workplace) -> None:
    run(place, "a", fmt="mcqa")
    run(place, "b", fmt="mcqa")

    def shifted(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for one in samples:
            one["resps"][0][0][0] = str(float(one["resps"][0][0][0]) - 0.25)
        return samples

    rewrite(samples_of(place, "b"), shifted)
    done, found = diff(place)
    assert found["counts"]["answers"] == 20
    assert "log-likelihoods are at most .250 apart" in done.out


def test_scores_of_the_same_readings(place: Workplace) -> None:
    run(place, "a", "--model_args", "reply=A")
    run(place, "b", "--model_args", "reply=A")
    rewrite(
        samples_of(place, "b"),
        lambda samples: [one | {"acc": 1.0, "target": "A"} for one in samples],
    )
    _, found = diff(place)
    assert found["parts"]["scoring"] == pytest.approx(-0.75)
    assert "Scoring differs because of: the targets." in found["said"]


def test_one_item_is_counted_as_one_and_a_limit_shown_as_given(place: Workplace) -> None:
    run(place, "a", "--limit", "1", "--model_args", "seed=3")
    run(place, "b", "--limit", "1", "--model_args", "seed=3")
    run(place, "c", "--model_args", "seed=3")
    text = plain(place.cli("diff", "a", "b").out)
    assert "on 1 item, B" in text
    assert "On the item of both:" in text
    assert "prompts       the same\n" in text
    assert "arguments     same: seed=3\n" in text
    assert "limit: 1 → not given" in place.cli("diff", "a", "c").out


def test_screens(place: Workplace) -> None:
    """The whole screen, as plain text. To change it: run with ``REGENERATE=1`` and read the diff."""
    run(place, "a", fmt="generate,mcqa")
    run(place, "b", "--num_fewshot", "1", "--limit", "15", fmt="generate,mcqa")
    done = place.cli("diff", "a", "b")
    assert_golden(SCREENS / "diff.txt", plain(done.out))
    again = place.cli("reread", "a", "--scorer", "first_label", "--show", "2")
    assert_golden(SCREENS / "reread.txt", plain(again.out))


def plain(screen: str) -> str:
    """Without what differs between machines and moments: times, versions, fingerprints."""
    screen = re.sub(r"results_\S+\.json", "results_TIME.json", screen)
    screen = re.sub(r"same: lm_eval \S+", "same: lm_eval VERSION", screen)
    screen = re.sub(r"fingerprint [0-9a-f]{12}", "fingerprint 0123456789ab", screen)
    return "".join(f"{line.rstrip()}\n" for line in screen.splitlines())


def test_files_in_any_order(place: Workplace) -> None:
    run(place, "a")
    run(place, "b", "--model_args", "seed=7")
    _, before = diff(place)
    rewrite(samples_of(place, "b"), lambda samples: samples[::-1])
    _, after = diff(place)
    assert after == before


def test_a_gap_in_answers_read_is_told(place: Workplace) -> None:
    """Right where it is read, but read only in one run: not a matter of ability."""
    run(place, "a", "--model_args", "reply=C")
    run(place, "b", "--model_args", json.dumps({"reply": "Hm. zqCqz"}))
    done, found = diff(place)
    assert (found["counts"]["read_a"], found["counts"]["read_b"]) == (20, 0)
    assert "parsed        100 % → 0 %" in done.out
    assert (
        "Replies without an answer may explain it: it is no larger than the gap in parsed replies "
        "(+1.000)." in found["said"]
    )


def test_answers_without_scores_are_compared(place: Workplace) -> None:
    run(place, "a", "--predict_only")
    run(place, "b", "--predict_only", "--model_args", "seed=7")
    _, found = diff(place)
    assert found["scores"] == [None, None]
    assert found["counts"]["answers"] > 0
    assert "No item has a score in both runs" in found["said"]


def test_a_score_that_is_no_number_counts_nowhere(place: Workplace) -> None:
    """EleutherAI's harness writes NaN."""
    run(place, "a")
    run(place, "b")
    rewrite(
        samples_of(place, "b"),
        lambda samples: [samples[0] | {"acc": float("nan")}, *samples[1:]],
    )
    _, found = diff(place)
    assert found["counts"]["unscored"] == 1
    assert found["paired"]["n"] == 19


def test_keys_in_the_files_of_others_are_not_shown(place: Workplace) -> None:
    for name, key in (("a", "hf_abcdefghijklmnopqrst"), ("b", "hf_bbbbbbbbbbbbbbbbbbbbbb")):
        path = peer_files.write_peer_run(place.folder / name, replies=["#### 2"])
        results = json.loads(path.read_text())
        results["config"]["model_args"] = f"pretrained=m,token={key}"
        path.write_text(json.dumps(results))
    done, _ = diff(place)
    assert "hf_" not in done.out + (place.folder / "diff.json").read_text()


def test_two_formats(place: Workplace) -> None:
    run(place, "a", fmt="generate,mcqa")
    run(place, "b", fmt="cot,mcqa")
    _, found = diff(place, "--formats", "generate,cot")
    assert found["names"] == ["t@generate", "t@cot"]
    assert set(found["changes"]) == {"format", "reader"}
    assert found["changes"]["format"]["name"] == ["generate", "cot"]


def test_many_results_fit_one_screen(place: Workplace) -> None:
    run(place, "a", fmt="generate,cot,mcqa,cloze")
    run(place, "b", "--num_fewshot", "2", fmt="generate,cot,mcqa,cloze")
    done, _ = diff(place)
    assert "In full: " in done.out
    assert len(done.out.splitlines()) <= 48
    assert max(map(len, done.out.splitlines()[2:])) <= 100


def test_results_of_one_run_alone_are_named(place: Workplace) -> None:
    run(place, "a", fmt="generate,mcqa")
    run(place, "b", fmt="generate")
    done, _ = diff(place)
    assert "Only in A: t@mcqa." in done.out


def test_without_samples_the_settings_are_compared(place: Workplace) -> None:
    run(place, "a")
    run(place, "b", "--num_fewshot", "2")
    samples_of(place, "b").unlink()
    _, found = diff(place)
    assert found["changes"] == {"settings": {"num_fewshot": [0, 2]}}
    assert found["paired"] is None
    assert "Item by item nothing is known" in found["said"]


def test_a_run_of_the_harness_and_one_of_ours(place: Workplace) -> None:
    peer_files.write_peer_run(place.folder / "a", replies=["#### 2", "#### 3", "4", "#### 5"])
    data = place.write("g.jsonl", "".join(json.dumps(doc) + "\n" for doc in peer_files.docs(4)))
    name = place.write("g.yaml", json.dumps(peer_files.task(data)))
    reply = json.dumps({"reply": "#### 3"})
    place.cli(
        *("run", "--model", "dummy", "--model_args", reply, "--tasks", name, "--output_path", "b")
    ).ok()
    done, found = diff(place)
    assert [one["value"] for one in found["scores"]] == [0.75, 0.25]
    assert found["counts"]["prompts"] == 0
    assert found["counts"]["answers"] == 3
    assert found["parts"]["answers"] == pytest.approx(0.5)
    assert found["changes"]["versions"]["lm_eval_version"][0] == "0.4.13"
    assert "examples      not stored separately" in done.out


# ------------------------------------------------------------------------------- wrong input


WRONG = {
    "a": ["RUN_B"],
    "a nowhere": ["There is no 'nowhere'"],
    "a b --formats generate": ["give two names"],
    "a b --formats generat,mcqa": ["Did you mean 'generate'"],
    "a b": ["share tasks (t) but no result", "--formats generate,mcqa"],
    "a b --tasks u": ["--tasks 'u' is in none", "t@generate"],
    "a other": ["runs of different tasks"],
    "a a --show -2": ["below zero"],
    "a a --output_path t.yaml/x.json": ["cannot be written"],
    "t.yaml a": ["is not a results file"],
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("stored"))
    run(place, "a", "--limit", "4")
    run(place, "b", "--limit", "4", fmt="mcqa,cloze")
    run(place, "other", "--limit", "4", task="u")
    return place


def test_wrong_input(stored: Workplace) -> None:
    for command, said in WRONG.items():
        stored.cli("diff", *command.split()).refused("lm-eval: error: ", *said)


def test_no_examples_are_asked_for(place: Workplace) -> None:
    run(place, "a", fmt="generate,cot")
    done = place.cli("diff", "a", "a", "--formats", "generate,cot", "--show", "0").ok()
    assert "20 of 20 differ" in done.out


def test_a_damaged_samples_file_is_an_error(place: Workplace) -> None:
    run(place, "a")
    run(place, "b")
    path = samples_of(place, "b")
    path.write_text(path.read_text("utf-8")[:-30], "utf-8")
    place.cli("diff", "a", "b").refused("line 20 is not JSON. The file is damaged")


def test_samples_that_do_not_make_the_score(place: Workplace) -> None:
    run(place, "a", "--model_args", "reply=C")
    run(place, "b", "--model_args", "reply=C")
    rewrite(samples_of(place, "b"), lambda samples: [{**one, "acc": 1.0} for one in samples])
    _, found = diff(place)
    assert "+.750 is left over: a score in the files is not the mean" in found["said"]
    samples_of(place, "b").write_text("")
    assert "the runs share no item." in " ".join(place.cli("diff", "a", "b").out.split())


def test_answers_without_scores(place: Workplace) -> None:
    run(place, "a", fmt="generate,cot")
    run(place, "b", "--predict_only", fmt="generate,cot")
    done = place.cli("diff", "a", "b")
    assert "In full: t@generate, the first." in done.out
    assert "verdicts" not in done.out
    assert "items … scoring" not in done.out


def test_one_character_far_inside_a_doc(place: Workplace) -> None:
    start = "word " * 60
    place.rows(doc=2, question=start + "here is it?")
    run(place, "a", "--model_args", "reply=C")
    place.rows(doc=2, question=start + "here ls it?")
    run(place, "b", "--model_args", "reply=C")
    rewrite(samples_of(place, "b"), lambda samples: [one for one in samples if one["doc_id"] != 6])
    _, found = diff(place)
    assert (
        "doc 2, question, from character 305 on: “…word word word word here »is it?”"
        in found["said"]
    )
    assert "from items that are not the same in both runs." in found["said"]
    assert "On the items of both there is no difference." in found["said"]


def test_long_names_of_arguments_are_cut(place: Workplace) -> None:
    run(place, "a")
    run(place, "b")
    (path,) = (place.folder / "b").rglob("results_*.json")
    stored = json.loads(path.read_text("utf-8"))
    stored["config"]["model_args"] = {"k" * 500: "v" * 500}
    path.write_text(json.dumps(stored), "utf-8")
    assert place.cli("diff", "a", "b").out.count("k") < 100


def without_scipy(place: Workplace, *argv: str) -> Outcome:
    """A command where scipy is not installed."""
    missing = "import sys; sys.modules['scipy'] = None"
    code = f"{missing}; from lm_eval.cli import main; sys.exit(main({list(argv)!r}))"
    done = python("-c", code, cwd=place.folder)
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_right_or_wrong_needs_no_scipy(place: Workplace) -> None:
    run(place, "a")
    run(place, "b", "--num_fewshot", "1")
    done, _ = diff(place)
    bare = without_scipy(place, "diff", "a", "b", "--output_path", "diff.json")
    assert (bare.code, bare.out) == (0, done.out), bare.err
    assert "(exact McNemar)" in " ".join(bare.out.split())
    again = without_scipy(place, "reread", "a", "--as", "cot").ok()
    assert "(exact McNemar)" in " ".join(again.out.split())


def test_clusters_need_scipy_for_their_test_alone(place: Workplace) -> None:
    lines = (place.folder / "docs.jsonl").read_text().splitlines()
    docs = [{**json.loads(line), "book": f"b{at // 3}"} for at, line in enumerate(lines)]
    place.write("docs.jsonl", "".join(json.dumps(doc) + "\n" for doc in docs))
    run(place, "a", cluster="book")
    run(place, "b", "--num_fewshot", "1", cluster="book")
    _, full = diff(place)
    bare = without_scipy(place, "diff", "a", "b", "--output_path", "bare.json").ok()
    found = json.loads((place.folder / "bare.json").read_text("utf-8"))["results"][0]
    assert (found["parts"], found["scores"]) == (full["parts"], full["scores"])
    assert found["paired"] is None
    assert "pip install 'lm-eval-formats[lab]'" in " ".join(bare.out.split())
    assert "verdicts" in bare.out
    without_scipy(place, "reread", "a", "--as", "cot").refused("pip install 'lm-eval-formats[lab]'")


def test_of_several_replies_all_are_counted_as_read_or_not(place: Workplace) -> None:
    run(place, "a", repeats=3)
    run(place, "b", "--num_fewshot", "1", repeats=3)
    _, found = diff(place)
    read = [
        [
            one["no_answer"] is None
            for sample in stored_samples(place, out)
            for one in sample["readings"]
        ]
        for out in "ab"
    ]
    counts = found["counts"]
    assert counts["replies_a"] == counts["replies_b"] == 60
    assert [counts["read_a"], counts["read_b"]] == [sum(one) for one in read]


def test_scored_choices_count_as_read_beside_answers_that_are_read(place: Workplace) -> None:
    run(place, "a", fmt="mcqa")
    run(place, "b", fmt="generate")
    _, found = diff(place, "--formats", "mcqa,generate")
    assert re.search(r"parsed nothing to parse → \d+ %", found["said"])
    assert 0 < found["difference"] <= 1 - found["counts"]["read_b"] / 20
    assert "Replies without an answer may explain it" in found["said"]


def test_orders_of_choices_are_a_setting(place: Workplace) -> None:
    run(place, "a", fmt="mcqa")
    run(place, "b", "--permute", "cyclic", fmt="mcqa")
    _, found = diff(place)
    assert found["changes"] == {"settings": {"permute": [None, "cyclic"]}}
