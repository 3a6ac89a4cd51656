"""``compare``, ``score``, ``agree``, ``preview`` and ``formats`` of ``nugget-eval``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.nuggets.toy_judge import Question, ToyJudge, better_with_reasoning, gold, plain
from tests.support.nuggets.workplace import DATA, TOPICS, Workplace
from tests.support.servers.faulty import FaultyServer

pytest.importorskip("aiohttp")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Workplace(tmp_path)


def test_compare_prompt_types_with_gold(work: Workplace) -> None:
    work.write("prices.yaml", "toy: {input: 1, output: 2}\n")
    with FaultyServer(ToyJudge(better_with_reasoning)) as server:
        model = work.model(server.url)[:-2]  # without --prompt_type
        done = work.cli(
            *("compare", *DATA, *model, "--gold", gold(work), "--prices", "prices.yaml"),
            *("--prompt_types", "short_cot,no_reasoning", "--format_types", "json,adaptive"),
        ).ok()
    found = json.loads((work.folder / "out/comparison.json").read_text())
    assert found["trials"] == {
        "short_cot×json": "short_cot_json",
        "short_cot×adaptive": "short_cot_adaptive",
        "no_reasoning×json": "no_reasoning_json",
        "no_reasoning×adaptive": "no_reasoning_adaptive",
    }
    accuracy = []
    for folder in found["trials"].values():
        summary = json.loads((work.folder / "out" / folder / "summary.json").read_text())
        accuracy.append(summary["agreement"]["measures"]["accuracy"]["value"])
        assert summary["judges"][0]["usage"]["cost"] > 0
        assert (work.folder / "out" / folder / "replies.jsonl").is_file()
    assert accuracy == [1.0, 1.0, pytest.approx(3 / 7), pytest.approx(3 / 7)]
    (comparison,) = found["comparisons"]
    assert [row["score"]["value"] for row in comparison["rows"]] == accuracy
    assert len(comparison["pairs"]) == 6
    assert "nuggets · 7 items in 2 clusters · 4 formats · toy" in done.out


def test_compare_without_gold_or_folder(work: Workplace) -> None:
    with FaultyServer(ToyJudge(better_with_reasoning)) as server:
        model = work.model(server.url)[:-4]
        done = work.cli("compare", *DATA, *model, "--prompt_types", "optimized,legacy").ok()
    assert "optimized×json" in done.out
    assert "gain" in done.out


def test_compare_where_one_prompt_gives_nothing(work: Workplace) -> None:
    def only_reasoning(question: Question) -> str:
        says = "<reasoning>" in question.body["messages"][0]["content"]
        return plain(question) if says else "no idea"

    with FaultyServer(ToyJudge(only_reasoning)) as server:
        model = work.model(server.url)[:-2]
        done = work.cli("compare", *DATA, *model, "--prompt_types", "short_cot,legacy").ok()
    assert "confounded" in done.out


def test_blocks_are_judged_and_compared_with_gold_of_topics(work: Workplace) -> None:
    passage, texts = TOPICS["t1"]
    blocks = [
        {
            "qid": "t1",
            "query": "what about t1",
            "block": [part],
            "block_nuggets_assignment": [{"text": text} for text in texts],
        }
        for part in passage.split(". ")
    ]
    work.rows("blocks.jsonl", blocks)
    labels = ["support", "support", "not_support", "partial_support"]
    pairs = [{"text": t, "assignment": x} for t, x in zip(texts, labels, strict=True)]
    work.rows("gold.jsonl", [{"qid": "t1", "global_nuggets_assignment": pairs}])
    with FaultyServer(ToyJudge()) as server:
        done = work.run(server.url, data=["--items", "blocks.jsonl", "--gold", "gold.jsonl"]).ok()
    rows = work.read("out/assignments.jsonl")
    first = [one["assignment"] for one in rows[0]["block_nuggets_assignment"]]
    assert first == ["support", "not_support", "not_support", "partial_support"]
    summary = work.summary()
    assert summary["agreement"]["measures"]["accuracy"]["value"] == 1.0
    assert summary["agreement"]["compared"] == 4
    done = work.cli("agree", "gold.jsonl", "out/assignments.jsonl").ok()
    assert "accuracy" in done.out


def test_score_and_agree_on_the_files_of_a_run(work: Workplace) -> None:
    with FaultyServer(ToyJudge()) as server:
        assert work.run(server.url, "--gold", gold(work)).code == 0
    work.cli("score", "out/assignments.jsonl", "--per_topic", "--output_path", "scored").ok()
    assert work.read("scored/metrics.jsonl") == work.read("out/metrics.jsonl")
    work.cli("agree", "gold.jsonl", "out/assignments.jsonl", "--json", "agreed.json").ok()
    agreed: dict[str, Any] = json.loads((work.folder / "agreed.json").read_text())
    ours = agreed["out/assignments.jsonl"]["measures"]
    assert ours["accuracy"]["value"] == 1.0
    assert ours == work.summary()["agreement"]["measures"]


def test_two_runs_are_ranked(work: Workplace) -> None:
    from tests.support.nuggets.workplace import answer

    answers = [answer("r1", qid, passage) for qid, (passage, _) in TOPICS.items()]
    work.rows("answers.jsonl", [*answers, *(answer("r2", qid, "Nothing.") for qid in TOPICS)])
    with FaultyServer(ToyJudge()) as server:
        done = work.run(server.url).ok()
    assert {path.name for path in (work.folder / "out").glob("metrics*")} == {
        "metrics_r1.jsonl",
        "metrics_r2.jsonl",
    }
    done = work.cli("score", "out/assignments.jsonl", "--rank", "all_score").ok()
    assert "Rank" in done.out
    work.cli("score", "out/assignments.jsonl", "--rank", "al_score").refused(
        "Did you mean 'all_score'?"
    )


def test_preview_shows_what_is_sent(work: Workplace) -> None:
    judge = ToyJudge()
    with FaultyServer(judge) as server:
        assert work.run(server.url, "--log_prompts").code == 0
    done = work.cli("preview", *DATA, "--prompt_type", "no_reasoning").ok()
    sent = next(one for one in judge.asked if "t1" in one.data.query)
    for message in sent.body["messages"]:
        assert message["content"] in done.out
    logged = next(row for row in work.replies() if row["qid"] == "t1")
    assert logged["prompt"] == sent.body["messages"]
    assert work.cli("preview", "--domain", "legal", "--language", "de").code == 0


def test_formats_lists_everything(work: Workplace) -> None:
    done = work.cli("formats").ok()
    for name in ("no_reasoning", "optimized", "python_list", "biomedical", "zh"):
        assert name in done.out


def test_compare_tells_the_costs_first(work: Workplace) -> None:
    judge = ToyJudge()
    with FaultyServer(judge) as server:
        model = work.model(server.url)[:-2]
        done = work.cli(
            "compare", *DATA, *model, "--prompt_types", "short_cot,legacy", "--dry_run"
        ).ok()
    assert judge.asked == []
    assert "legacy×json" in done.out
    assert not (work.folder / "out").exists()
