"""``lm-eval reread``: stored answers of real runs, read again; known numbers, odd files, wrong input."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from statistics import mean
from typing import Any

import pytest

from lm_eval.formats.readers import bind_reader
from lm_eval.lab.reread.corpus import corpus, read_corpus
from lm_eval.support.numbers import number
from tests.support.command_line import Outcome, Workplace
from tests.support.peer_files import write_peer_run

BRACKETS = "regex,pattern=zq(\\w)qz"


def run(place: Workplace, reply: str, fmt: str = "generate", **task: Any) -> None:
    """Twenty questions, all answered with ``reply``; C is right five times."""
    name = place.task(**{"formats": ..., **task})
    place.run("--tasks", f"{name}@{fmt}", "--model_args", json.dumps({"reply": reply})).ok()


def reread(place: Workplace, *argv: str) -> tuple[Outcome, list[dict[str, Any]]]:
    """What is printed, and the readings."""
    done = place.cli("reread", "out", "--output_path", "again.jsonl", *argv).ok()
    text = (place.folder / "again.jsonl").read_text("utf-8")
    return done, [json.loads(line) for line in text.splitlines()]


def rewrite(place: Workplace, change: Any) -> None:
    """Apply ``change`` to every stored sample."""
    (path,) = place.output.rglob("samples_*.jsonl")
    samples = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(json.dumps(change(one)) + "\n" for one in samples), "utf-8")


def test_a_reader_that_finds_what_the_other_did_not(place: Workplace) -> None:
    run(place, "Hm. zqCqz, as it were.")
    done, rows = reread(place, "--scorer", BRACKETS)
    assert len(rows) == 20
    assert {row["before"]["no_answer"] for row in rows} == {"unreadable"}
    assert [row["after"]["score"] for row in rows] == [0, 0, 1, 0] * 5
    assert all(row["after"]["answer"] == "y" and row["after"]["span"] == [6, 7] for row in rows)
    # five discordant pairs on one side: 2 × 2⁻⁵
    assert "+.250" in done.out
    assert "5 higher, 0 lower, 15 the same; p = .062 (exact McNemar)" in " ".join(done.out.split())
    assert "doc 2         wrong → right (right: y)" in done.out
    assert "“Hm. zq«C»qz, as it were.”" in done.out
    assert "not parsed: unreadable 20" in done.out


def test_a_reader_of_labels_where_none_were_shown_says_so(place: Workplace) -> None:
    run(place, "B", fmt="cot")
    outcome, _ = reread(place, "--scorer", "choice")
    assert "show no labels" in " ".join(outcome.out.split())


def test_a_text_that_was_read_needs_no_such_note(place: Workplace) -> None:
    run(place, "The final answer is x", fmt="cot")
    outcome, _ = reread(place, "--scorer", "choice")
    assert "show no labels" not in " ".join(outcome.out.split())


def test_the_reader_of_another_format(place: Workplace) -> None:
    run(place, "I choose y", fmt="cot")
    done, rows = reread(place, "--format", "cot", "--as", "generate")
    assert sum(row["before"]["score"] for row in rows) == 0
    assert sum(row["after"]["score"] for row in rows) == 5
    assert "choice (phrase: 'The best answer is')" in done.out
    assert "after_last (phrase: 'The final answer is')" in done.out  # how it was read before


def test_what_the_model_continued_is_read_with_the_reply(place: Workplace) -> None:
    """The reply is ``C`` alone; the phrase before it stands in the prompt."""
    run(place, " C")
    _, rows = reread(place, "--scorer", "label_after,phrase=The best answer is")
    assert [row["after"]["answer"] for row in rows] == ["y"] * 20


def test_several_readers_are_tried_in_order(place: Workplace) -> None:
    run(place, "zqCqz")
    _, rows = reread(place, "--scorer", "marked_label", "--scorer", BRACKETS)
    assert {row["after"]["rule"] for row in rows} == {"regex"}


def test_yaml_as_in_a_format(place: Workplace) -> None:
    run(place, "Take this: C")
    _, rows = reread(place, "--scorer", "{reader: label_after, phrase: 'Take this:'}")
    assert {row["after"]["answer"] for row in rows} == {"y"}


def test_the_same_reader_flips_nothing(place: Workplace) -> None:
    """Over all kinds of replies that the dummy model gives."""
    name = place.task(formats=...)
    assert place.run("--tasks", f"{name}@generate,{name}@cot").code == 0
    for fmt in ("generate", "cot"):
        done, rows = reread(place, "--format", fmt, "--as", fmt)
        stored = place.samples(f"t@{fmt}")
        assert [row["after"]["score"] for row in rows] == [one["acc"] for one in stored]
        assert [row["after"]["rule"] for row in rows] == [one["reading"]["rule"] for one in stored]
        assert [row["after"]["no_answer"] for row in rows] == [
            one["reading"]["no_answer"] for one in stored
        ]
        assert "Verdicts that flip" not in done.out


@pytest.mark.parametrize(
    "spec",
    [
        {"reader": "regex", "pattern": r"\b([A-D]|[w-z])\b"},
        {"reader": "after_last", "phrase": "The best answer is"},
        "number",
        "choice_text",
        "ranking",
        ["marked_label", "first_label"],
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["generate", "cot"])
def test_rereading_gives_what_a_run_with_that_reader_gives(
    place: Workplace, kind: str, spec: Any
) -> None:
    name = place.task(formats={"old": {"type": kind}, "new": {"type": kind, "scorer": spec}})
    assert place.run("--tasks", f"{name}@old,{name}@new").code == 0
    _, rows = reread(place, "--format", "old", "--scorer", json.dumps([spec]))
    real = place.samples("t@new")
    assert [row["after"]["score"] for row in rows] == [one["acc"] for one in real]
    assert [row["after"]["rule"] for row in rows] == [one["reading"]["rule"] for one in real]


def test_samples_without_what_a_reader_needs_ask_the_task(place: Workplace) -> None:
    name = place.task(formats=...)
    reply = json.dumps({"reply": "zqCqz"})
    assert place.run("--tasks", f"{name}@generate", "--model_args", reply).code == 0
    rewrite(place, lambda one: {k: v for k, v in one.items() if k != "read_with"})
    place.cli("reread", "out", "--scorer", BRACKETS).refused("--include_path")
    _, rows = reread(place, "--scorer", BRACKETS, "--include_path", str(place.folder))
    assert sum(row["after"]["score"] for row in rows) == 5


def test_answers_that_were_only_saved(place: Workplace) -> None:
    """With ``--predict_only`` there is no score; both readings get one now."""
    name = place.task(formats=...)
    reply = json.dumps({"reply": "The best answer is C"})
    argv = ("--tasks", f"{name}@generate", "--model_args", reply, "--predict_only")
    assert place.run(*argv).code == 0
    _, rows = reread(place, "--as", "generate")
    assert [row["before"]["score"] for row in rows] == [0, 0, 1, 0] * 5
    assert [row["after"]["score"] for row in rows] == [0, 0, 1, 0] * 5


def test_text_is_data(place: Workplace) -> None:
    run(place, "\x1b[31m[bold]\u202ezqCqz")
    done, _ = reread(place, "--scorer", BRACKETS)
    assert r"\x1b[31m[bold]\u202ezq«C»qz" in done.out
    assert "\x1b" not in done.out


def test_flips_are_limited_and_counted(place: Workplace) -> None:
    run(place, "zqCqz")
    done, _ = reread(place, "--scorer", BRACKETS, "--show", "2")
    assert done.out.count("wrong → right") == 2
    assert "… and 3 more: --show 5." in done.out


def test_clusters_are_kept_together(place: Workplace) -> None:
    run(place, "zqCqz")
    rewrite(place, lambda one: one | {"cluster": f"c{one['doc_id'] // 4}"})
    done, _ = reread(place, "--scorer", BRACKETS)
    assert "p = .062 (exact sign flips)" in " ".join(done.out.split())  # five clusters: 2 × 2⁻⁵


def test_repeats_are_all_read_and_docs_are_their_clusters(place: Workplace) -> None:
    run(place, "zqCqz", repeats=3)

    def with_one_readable(sample: dict[str, Any]) -> dict[str, Any]:
        assert len(sample["resps"][0]) == len(sample["readings"]) == 3
        sample["resps"][0][1] = "no idea"
        return sample

    rewrite(place, with_one_readable)
    done, rows = reread(place, "--scorer", BRACKETS)
    assert len(rows) == 60
    assert rows[1]["item"] == "doc 0, reply 2"
    assert sum(row["after"]["score"] for row in rows) == 10  # two of three, on five docs
    assert "each doc has 3 replies, all of which are read" in done.out
    assert "p = .062 (exact sign flips)" in " ".join(done.out.split())  # five docs: 2 × 2⁻⁵


def test_the_score_of_what_was_read_is_that_of_the_run(place: Workplace) -> None:
    name = place.task(formats=..., repeats=3)
    assert place.run("--tasks", f"{name}@generate").code == 0
    done = place.cli("reread", "out", "--as", "generate")
    (stored,) = json.loads(next(place.output.rglob("results_*.json")).read_text())[
        "results"
    ].values()
    before = next(line for line in done.out.splitlines() if line.startswith("before"))
    assert before.split()[1] == number(stored["acc,none"])
    assert f" {number(stored['acc_read,none'])}  choice" in before


def test_every_order_of_the_choices_is_read(place: Workplace) -> None:
    name = place.task(formats=...)
    assert place.run("--tasks", f"{name}@generate", "--permute", "cyclic").code == 0
    done, rows = reread(place, "--as", "generate")
    assert len(rows) == 80
    assert rows[5]["item"] == "doc 1, order 2"
    assert [row["after"] for row in rows] == [row["before"] for row in rows]
    stored = json.loads(next(place.output.rglob("results_*.json")).read_text())["results"]
    scores = {key.partition(",")[0]: value for key, value in stored["t@generate"].items()}
    said = " ".join(done.out.split())
    assert "in the order of the data: acc of 20 stored answers" in said
    assert "in all orders of the choices: acc_over_orders of 80 stored answers to 20 docs" in said
    assert mean(row["before"]["score"] for row in rows) == pytest.approx(scores["acc_over_orders"])
    debiased = number(scores["acc_debiased"])
    assert f"most orders name: {debiased} before, {debiased} after" in said


def test_labels_name_the_choices_of_their_own_order(place: Workplace) -> None:
    name = place.task(formats=...)
    assert place.run("--tasks", f"{name}@generate", "--permute", "cyclic").code == 0
    _, rows = reread(place, "--scorer", "regex,pattern=\\b([A-D])\\b")
    read = {row["item"]: row["after"] for row in rows if row["after"]["no_answer"] is None}
    assert any("order 3" in item for item in read)
    for sample in place.samples("t@generate"):
        for at, one in enumerate(sample["choice_order"]["orders"], start=1):
            found = read.get(f"doc {sample['doc_id']}, order {at}")
            if found is None:
                continue
            letter = re.search(r"\b([A-D])\b", (one.get("resps") or sample["resps"])[0][0])
            assert letter is not None
            place_in_data = one["order"]["ABCD".index(letter[1])]
            assert found["answer"] == sample["doc"]["choices"][place_in_data]
            assert found["score"] == (place_in_data == sample["doc"]["answer"])


def test_orders_of_older_samples_are_read_as_far_as_they_are_known(place: Workplace) -> None:
    name = place.task(formats=...)
    assert place.run("--tasks", f"{name}@generate", "--permute", "cyclic").code == 0
    _, rows = reread(place, "--scorer", "first_label")
    (path,) = place.output.rglob("samples_*.jsonl")
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    for sample in samples:
        for one in sample["choice_order"]["orders"]:
            one.pop("readings", None)
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    _, older = reread(place, "--scorer", "first_label")
    assert [row["after"] for row in older] == [row["after"] for row in rows]
    kept = ("score", "answer", "no_answer")
    assert [[row["before"][key] for key in kept] for row in older] == [
        [row["before"][key] for key in kept] for row in rows
    ]


@pytest.mark.parametrize(
    "damage",
    [
        {"choice_order": [1]},
        {"choice_order": {"orders": [7, 8]}},
        {"choice_order": {"orders": [{"order": [0, 1]}, {"order": [1, 1], "resps": [["A"]]}]}},
        {"choice_order": {"orders": [{"order": [0, 1]}, {"order": [1, 0], "resps": []}]}},
        {"choice_order": {"orders": [{"order": list(range(9))}]}},
    ],
)
def test_damaged_orders_are_one_message(place: Workplace, damage: dict[str, Any]) -> None:
    name = place.task(formats=...)
    assert place.run("--tasks", f"{name}@generate", "--permute", "cyclic").code == 0
    rewrite(place, lambda sample: sample | damage)
    place.cli("reread", "out", "--scorer", "first_label").refused(
        "Doc 0 of these samples holds no orders that can be understood"
    )


def test_several_replies_in_several_orders_are_all_read(place: Workplace) -> None:
    name = place.task(formats=..., repeats=2)
    assert place.run("--tasks", f"{name}@generate", "--permute", "cyclic").code == 0
    done, rows = reread(place, "--as", "generate")
    assert len(rows) == 160
    assert rows[3]["item"] == "doc 0, order 2, reply 2"
    stored = json.loads(next(place.output.rglob("results_*.json")).read_text())["results"]
    scores = {key.partition(",")[0]: value for key, value in stored["t@generate"].items()}
    assert mean(row["after"]["score"] for row in rows) == pytest.approx(scores["acc_over_orders"])
    assert f"most orders name: {number(scores['acc_debiased'])} before" in " ".join(
        done.out.split()
    )


def test_a_run_of_the_harness(place: Workplace) -> None:
    """Its own metric scores what the reader leaves, in the place of its filter."""
    write_peer_run(place.folder / "peer", replies=["It is 3.", "#### 3", "no", "So 5"])
    done = place.cli("reread", "peer", "--scorer", "number", "--output_path", "again.jsonl").ok()
    rows = [json.loads(line) for line in (place.folder / "again.jsonl").read_text().splitlines()]
    assert [row["before"]["score"] for row in rows] == [0, 1, 0, 0]
    assert [row["after"]["score"] for row in rows] == [0, 1, 0, 1]  # the targets are 2, 3, 4, 5
    assert [row["before"]["no_answer"] for row in rows] == [
        "unreadable",
        None,
        "unreadable",
        "unreadable",
    ]
    assert "filter strict" in done.out


def test_a_run_of_the_harness_with_code_needs_its_task(place: Workplace) -> None:
    code = "def target(doc):\n    return doc['answer']\n"
    write_peer_run(place.folder / "peer", replies=["It is 3."], doc_to_target=code)
    place.cli("reread", "peer", "--scorer", "number").refused("cannot be asked", "--include_path")


# ------------------------------------------------------------------------------- odd answers


@pytest.mark.parametrize("name", [name for name in corpus() if name != "reply"])
def test_a_table_is_read_as_expected_by_its_own_reader(name: str) -> None:
    table = corpus()[name]
    read = [row for row in read_corpus(bind_reader(table["reader"])) if row.table == name]
    own = [row for row, given in zip(read, table["rows"], strict=True) if "reader" not in given]
    assert own
    assert [row for row in own if row.outcome != "as expected"] == []


def test_corpus(place: Workplace) -> None:
    done = place.cli(
        "reread", "--corpus", "--scorer", "first_label", "--output_path", "c.jsonl"
    ).ok()
    assert "Written: c.jsonl" in done.out
    rows = [json.loads(line) for line in (place.folder / "c.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == sum(len(table["rows"]) for table in corpus().values())
    by_text = {(row["table"], row["text"]): row["outcome"] for row in rows}
    assert by_text["choice", "(C)"] == "as expected"
    assert by_text["choice", "The best answer is: C"] == "not parsed"
    assert by_text["choice", "A good question"] == "as expected"  # nothing to be read, nothing read
    outcomes = Counter(row["outcome"] for row in rows)
    shown = [line for line in done.out.splitlines() if line.startswith("all ")]
    numbers = [len(rows), *(outcomes[one] for one in ("as expected", "otherwise", "not parsed"))]
    assert shown[0].split()[1:] == list(map(str, numbers))
    assert f"{len(rows)} odd answers, read by first_label" in done.out
    assert "Not parsed" in done.out


# ------------------------------------------------------------------------------- wrong input


def wrong() -> Iterator[tuple[list[str], list[str]]]:
    yield ["out"], ["Name one way of reading", "--as"]
    yield ["out", "--scorer", "choice", "--as", "cot"], ["Name one way of reading"]
    yield ["out", "--scorer", "choise"], ["Unknown reader 'choise'", "Did you mean 'choice'"]
    yield ["out", "--scorer", "after_last"], ["--scorer", "needs `phrase`"]
    yield (
        ["out", "--scorer", "after_last,prase=x"],
        ["unknown key 'prase'", "Did you mean 'phrase'"],
    )
    yield ["out", "--scorer", "after_last,The answer"], ["has no '='"]
    yield ["out", "--scorer", "regex,pattern=("], ["--scorer"]
    yield ["out", "--scorer", "{reader: choice"], ["is not YAML"]
    yield ["out", "--as", "mcqa"], ["scores choices and reads no text"]
    yield ["out", "--as", "generat"], ["Did you mean 'generate'"]
    yield ["out", "--scorer", "choice", "--format", "mcqa"], ["read no text", "t@generate"]
    yield ["out", "--scorer", "choice", "--format", "generat"], ["Did you mean 'generate'"]
    yield ["out", "--scorer", "choice", "--tasks", "t@generato"], ["Did you mean 't@generate'"]
    yield ["nowhere", "--scorer", "choice"], ["There is no 'nowhere'"]
    yield ["--scorer", "choice"], ["Give a run", "--corpus"]
    yield ["out", "--corpus", "--scorer", "choice"], ["Give a run"]
    yield ["--corpus", "--scorer", "choice", "--tasks", "t"], ["--corpus is read as a whole"]
    yield ["out", "--scorer", "choice", "--show", "-1"], ["below zero"]
    yield ["out", "--scorer", "choice", "--output_path", "x.csv"], [".jsonl"]
    yield ["out", "--scorer", "choice", "--output_path", "t.yaml/x.jsonl"], ["cannot be written"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("stored"))
    name = place.task(formats=...)
    assert place.run("--tasks", f"{name}@generate,{name}@mcqa", "--limit", "4").code == 0
    return place


def test_wrong_input(stored: Workplace) -> None:
    for argv, said in wrong():
        stored.cli("reread", *argv).refused("lm-eval: error: ", *said)


def test_a_run_without_samples(place: Workplace) -> None:
    run(place, "C")
    for path in place.output.rglob("samples_*.jsonl"):
        path.unlink()
    place.cli("reread", "out", "--scorer", "choice").refused("has no samples of 't@generate'")


def test_a_failure_leaves_the_file_of_before(place: Workplace) -> None:
    run(place, "C")
    _, rows = reread(place, "--scorer", "choice")
    for path in place.output.rglob("samples_*.jsonl"):
        path.write_text(path.read_text() + "{\n")
    place.cli("reread", "out", "--scorer", "choice", "--output_path", "again.jsonl").refused(
        "line 21 is not JSON"
    )
    assert len((place.folder / "again.jsonl").read_text().splitlines()) == len(rows)
    assert not list(place.folder.glob("*.partial"))


def test_two_runs_in_one_folder(place: Workplace) -> None:
    run(place, "C")
    run(place, "D")
    done = place.cli("reread", "out", "--scorer", "choice")
    done.refused("holds 2 runs")
    newest = max(place.output.rglob("results_*.json"), key=lambda path: path.name)
    assert str(newest.relative_to(place.folder)) in done.err
    place.cli("reread", str(newest), "--scorer", "choice").ok()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("acc", "high", "has no number as its `acc`"),
        ("acc", float("inf"), "has no number as its `acc`"),
        ("read_with", {"labels": 3}, "holds no reading that can be understood"),
        ("read_with", {"gold": []}, "holds no reading that can be understood"),
        ("reading", {"value": 1, "span": 4}, "holds no reading that can be understood"),
        ("reading", {"span": [1]}, "holds no reading that can be understood"),
    ],
)
def test_a_damaged_sample_is_named(place: Workplace, field: str, value: object, said: str) -> None:
    run(place, "C")
    (path,) = place.output.rglob("samples_*.jsonl")
    samples = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    samples[3][field] = value
    path.write_text("".join(json.dumps(one) + "\n" for one in samples), "utf-8")
    place.cli("reread", "out", "--scorer", "first_label").refused(f"Doc 3 of these samples {said}")


def test_flips_without_their_text(place: Workplace) -> None:
    run(place, "The best answer is C.")
    done = place.cli("reread", "out", "--scorer", "first_label", "--show", "0")
    assert "Verdicts that flip: 5\n\n… and 5 more: --show 5." in done.out
    again = place.cli("reread", "out", "--scorer", "choice", "--show", "0")
    assert "No verdict flips." in again.out


def test_a_stored_config_without_its_question_says_where(place: Workplace) -> None:
    write_peer_run(place.folder / "peer", replies=["2", "3"], doc_to_text=None)
    place.cli("reread", "peer", "--scorer", "number").refused(
        "doc 0 of 'g' cannot be read again", "doc_to_text"
    )
