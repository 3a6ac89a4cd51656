"""The judge over a real socket: batches, asking again, snippets, orders, several judges."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.nuggets.toy_judge import Question, ToyJudge, judged, plain, reasoned
from tests.support.nuggets.workplace import TOPICS, Workplace
from tests.support.servers.faulty import FaultyServer, always

pytest.importorskip("aiohttp")

RIGHT = {
    "t1": ["support", "support", "not_support", "partial_support"],
    "t2": ["support", "partial_support", "not_support"],
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Workplace(tmp_path)


def test_every_label_arrives_in_its_place(work: Workplace) -> None:
    judge = ToyJudge()
    with FaultyServer(judge) as server:
        done = work.run(server.url, "--batch_size", "2", "--per_topic").ok()
    assert work.labels() == RIGHT
    assert sorted(len(one.data.nuggets) for one in judge.asked) == [1, 2, 2, 2]
    summary = work.summary()
    assert summary["coverage"] == {"labelled": 7, "total": 7, "share": 1.0}
    assert summary["judges"][0]["usage"]["requests"] == 4
    metrics = {row["qid"]: row for row in work.read("out/metrics.jsonl")}
    assert metrics["t1"]["strict_vital_score"] == 1.0
    assert metrics["all"]["all_score"] == pytest.approx((2.5 / 4 + 1.5 / 3) / 2)
    assert "t1" in done.out
    assert "100 %" in done.out


def test_only_what_is_missing_is_asked_again_with_the_reason(work: Workplace) -> None:
    def forgets_the_second(question: Question) -> str:
        if question.is_again:
            return plain(question)
        lines = [f"{k}. {label}" for k, label in enumerate(question.labels, 1) if k != 2]
        return "\n".join(lines)

    judge = ToyJudge(forgets_the_second)
    with FaultyServer(judge) as server:
        work.run(server.url).ok()
    assert work.labels() == RIGHT
    again = [one for one in judge.asked if one.is_again]
    assert sorted(one.data.nuggets for one in again) == [
        ("Sunsets look red",),
        ("Water freezes at 0 degrees",),
    ]
    assert all("it left out some nuggets" in one.prompt for one in again)
    stages = [row["stage"] for row in work.replies()]
    assert stages == ["ask", "ask", "again 1", "again 1"]


def test_after_the_last_question_a_label_is_missing_and_never_invented(work: Workplace) -> None:
    """Nothing at all for one topic: the other is scored, and the coverage says so."""

    def silent_about_t2(question: Question) -> str:
        return "" if "t2" in question.data.query else plain(question)

    judge = ToyJudge(silent_about_t2)
    with FaultyServer(judge) as server:
        done = work.run(server.url, "--retries", "2").ok()
    assert work.labels() == {"t1": RIGHT["t1"], "t2": [None, None, None]}
    # One batch, twice again, then each nugget by itself.
    sizes = [len(one.data.nuggets) for one in judge.asked if "t2" in one.data.query]
    assert sizes == [3, 3, 3, 1, 1, 1]
    summary = work.summary()
    assert summary["coverage"] == {"labelled": 4, "total": 7, "share": 4 / 7}
    assert summary["judges"][0]["replies"]["problems"] == {"empty": 6}
    mean = summary["scores"][0]["means"]["all_score"]
    assert (mean["worst_case"], mean["best_case"]) == (pytest.approx(0.3125), pytest.approx(0.8125))
    assert "3 of 7 labels are missing" in done.out


def test_an_unnumbered_list_that_is_too_short_gives_no_label(work: Workplace) -> None:
    judge = ToyJudge(lambda question: json.dumps(list(question.labels[:-1])))
    with FaultyServer(judge) as server:
        work.run(server.url, "--retries", "0", "--singles", "false").ok()
    assert work.labels() == {"t1": [None] * 4, "t2": [None] * 3}


def test_a_reply_that_was_cut_off_may_be_longer_once(work: Workplace) -> None:
    def needs_room(question: Question) -> str | dict[str, Any]:
        if question.body["max_tokens"] < 100:
            return {"message": {"content": '["supp'}, "finish_reason": "length"}
        return plain(question)

    judge = ToyJudge(needs_room)
    with FaultyServer(judge) as server:
        assert work.run(server.url, "--max_tokens", "60").code == 0
        assert work.labels() == RIGHT
        assert sorted(one.body["max_tokens"] for one in judge.asked) == [60, 60, 120, 120]
        judge.asked.clear()
        assert work.run(server.url, "--max_tokens", "20").code == 0
    assert {one.body["max_tokens"] for one in judge.asked} == {20, 40}
    assert work.summary()["coverage"]["labelled"] == 0


@pytest.mark.parametrize("what", ["flag", "downgrade", "drop", "off"])
def test_a_snippet_must_stand_in_the_passage(work: Workplace, what: str) -> None:
    def invents(question: Question) -> str:
        return reasoned(question).replace('snippet="Sunsets look red"', 'snippet="Sunsets glow"')

    judge = ToyJudge(invents)
    with FaultyServer(judge) as server:
        work.run(
            server.url, "--prompt_type", "short_cot", "--snippet_check", what, "--limit", "1"
        ).ok()
    first, second, third, fourth = work.labels()["t1"]
    assert (first, third) == ("support", "not_support")
    expected = {"flag": "support", "off": "support", "downgrade": "partial_support", "drop": None}
    assert second == expected[what]
    # The toy quotes nothing for a partial label.
    assert fourth == {"downgrade": "not_support", "drop": None}.get(what, "partial_support")
    counts = work.summary()["judges"][0]["replies"]["snippets"]
    if what == "off":
        assert counts == {}
    if what == "flag":
        assert counts == {"found": 1, "not_found": 1, "none": 1}


def test_orders_of_the_nuggets_are_combined_by_median(work: Workplace) -> None:
    def first_is_always_right(data: Any) -> tuple[str, ...]:
        """A judge that prefers whatever stands first."""
        return ("support", *judged(data)[1:])

    judge = ToyJudge(judges=first_is_always_right)
    with FaultyServer(judge) as server:
        work.run(server.url, "--permutations", "3").ok()
    assert work.labels() == RIGHT  # outvoted, one order against two
    orders = {one.data.nuggets for one in judge.asked if "t2" in one.data.query}
    texts = TOPICS["t2"][1]
    assert orders == {tuple(texts[k:] + texts[:k]) for k in range(3)}
    order = work.summary()["judges"][0]["order"]
    assert order["nuggets"] == 7
    assert order["same_in_all_orders"] < 7


def test_several_judges(work: Workplace) -> None:
    wrong = ToyJudge(judges=lambda data: ("not_support",) * len(data.nuggets))
    with (
        FaultyServer(ToyJudge()) as one,
        FaultyServer(ToyJudge()) as two,
        FaultyServer(wrong) as bad,
    ):
        judges = [
            f"local-chat-completions:model=m{k},base_url={server.url}/v1/chat/completions"
            for k, server in enumerate((one, two, bad))
        ]
        for how in ("median", "dawid_skene"):
            done = work.run(one.url, "--judges", *judges, "--combine", how).ok()
            assert work.labels() == RIGHT
    summary = work.summary()
    assert [judge["name"] for judge in summary["judges"]] == ["m0", "m1", "m2"]
    assert summary["between_judges"]["measures"]["fleiss"]["value"] < 1
    assert "alpha_ordinal" in done.out


def holding(judge: ToyJudge) -> Callable[[str, Any], tuple[int, Any]]:
    """A judge's server that holds replies to the schema it is given, whatever is asked."""

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if body and body["messages"][-1]["content"] == "Say hello.":
            said = '{"answer": "12"}' if "response_format" in body else "Hello!"
            return 200, {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]}
        return judge(path, body)

    return answer


def test_constrained_output(work: Workplace) -> None:
    def held(question: Question) -> str:
        if "response_format" not in question.body:  # the reasons that come first
            return "<reasoning>\nAll is said.\n</reasoning>"
        return json.dumps({str(n): label for n, label in enumerate(question.labels, 1)})

    judge = ToyJudge(held)
    with FaultyServer(holding(judge)) as server:
        done = work.run(server.url, "--constrain", "on").ok()
        assert work.labels() == RIGHT
        assert "(enforced)" in done.out
        shape = judge.asked[0].body["response_format"]["json_schema"]["schema"]
        count = len(judge.asked[0].data.nuggets)
        assert list(shape["properties"]) == [str(place + 1) for place in range(count)]
        assert all(row["held_by"] == "enforced" for row in work.replies())
        assert work.summary()["judges"][0]["model"]["labels"] == "enforced"


def test_a_server_without_constrained_output(work: Workplace) -> None:
    def knows_no_schema(question: Question) -> str | dict[str, Any]:
        assert "response_format" not in question.body
        return plain(question)

    judge = ToyJudge(knows_no_schema)

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if body and body["messages"][-1]["content"] == "Say hello.":
            if "response_format" in body:
                return 400, {"error": {"message": "unknown field response_format"}}
            said = {"message": {"content": "Hello!"}, "finish_reason": "stop"}
            return 200, {"choices": [said]}
        return judge(path, body)

    with FaultyServer(answer) as server:
        done = work.run(server.url, "--constrain", "auto").ok()
        assert "--constrain auto: replies are not held to the labels" in done.err
        assert work.labels() == RIGHT
        assert "(enforced)" not in done.out
        done = work.run(server.url, "--constrain", "on")
        done.refused("--constrain on is not possible", "Use --constrain off")


@pytest.mark.parametrize("how", ["likelihood", "evidence"])
def test_texts_cannot_be_scored_by_a_chat_server(work: Workplace, how: str) -> None:
    with FaultyServer(ToyJudge()) as server:
        work.run(server.url, "--constrain", how).refused(
            f"--constrain {how} is not possible: ", "cannot score text"
        )


@pytest.mark.parametrize(("topics", "is_said"), [(2, True), (1, False)])
def test_a_judge_that_gives_one_label_to_all_is_remarked_on(
    work: Workplace, topics: int, is_said: bool
) -> None:
    passage, texts = TOPICS["t1"]
    work.topics({f"t{n}": (passage, texts) for n in range(topics)})
    yes = ToyJudge(lambda question: json.dumps(["support"] * len(question.labels)))
    with FaultyServer(yes) as server:
        done = work.run(server.url).ok()
    said = " ".join((done.out + done.err).split())
    assert (
        "every label is support. A judge that tells nothing apart may not read" in said
    ) == is_said


def test_requests_that_fail_for_good_are_missing_and_asked_by_the_next_run(work: Workplace) -> None:
    with FaultyServer(ToyJudge(), faults=always(500)) as server:
        work.run(server.url, "--max_failed", "100%").ok()
        assert work.summary()["coverage"]["labelled"] == 0
        assert work.summary()["judges"][0]["replies"]["failed"] == 2
        done = work.run(server.url)
        assert done.code == 1
        assert "Traceback" not in done.err


def test_thinking_is_no_answer(work: Workplace) -> None:
    def thinks(question: Question) -> dict[str, Any]:
        wrong = json.dumps(["not_support"] * len(question.labels))
        return {"message": {"content": plain(question), "reasoning_content": wrong}}

    with FaultyServer(ToyJudge(thinks)) as server:
        assert work.run(server.url).code == 0
    assert work.labels() == RIGHT
    assert "not_support" in work.replies()[0]["thinking"]


def test_prompt_type_by_complexity(work: Workplace) -> None:
    topics = dict(TOPICS)
    hard = "In 1987 and 1991 neither the 14 pilots nor the crew, but not the owners, were paid, and left"
    topics["t2"] = (TOPICS["t2"][0], [hard, hard.replace("14", "15")])
    work.topics(topics)
    with FaultyServer(ToyJudge(reasoned)) as server:
        work.run(server.url, "--prompt_type", "auto").ok()
    assert set(work.summary()["prompts"]) == {"no_reasoning", "optimized"}


def test_dry_run_asks_nothing_and_tells_the_costs(work: Workplace) -> None:
    work.write("prices.yaml", "default: {input: 1.0, output: 2.0}\n")
    judge = ToyJudge()
    with FaultyServer(judge) as server:
        done = work.run(
            server.url, "--dry_run", "--prices", "prices.yaml", "--batch_size", "3"
        ).ok()
        assert judge.asked == []
        assert "3 calls" in done.out
        assert "USD" in done.out
        assert not (work.folder / "out").exists()
        done = work.run(server.url, "--prices", "prices.yaml", "--batch_size", "3")
    assert work.summary()["judges"][0]["usage"]["cost"] > 0
    assert len(judge.asked) == 3
    assert "USD" in done.out


def test_a_cache_is_shared_between_runs(work: Workplace) -> None:
    judge = ToyJudge()
    with FaultyServer(judge) as server:
        assert work.run(server.url, "--use_cache", "replies.sqlite").code == 0
        assert len(judge.asked) == 2
        work.run(server.url, "--use_cache", "replies.sqlite", "--retries", "1").ok()
        assert len(judge.asked) == 2
        assert work.labels() == RIGHT
        assert work.run(server.url, "--use_cache", "replies.sqlite", "--seed", "5").code == 0
    assert len(judge.asked) == 4  # other fences are other prompts


def test_examples_domain_and_language_reach_the_judge(work: Workplace) -> None:
    judge = ToyJudge()
    with FaultyServer(judge) as server:
        work.run(server.url, "--examples", "builtin", "--domain", "legal", "--language", "de").ok()
    assert work.labels() == RIGHT
    roles = [message["role"] for message in judge.asked[0].body["messages"]]
    assert roles[:3] == ["system", "user", "assistant"]
    assert work.summary()["config"]["model"]["domain"] == "legal"


# ---------------------------------------------------------------------- a judge that cannot judge


def many_topics(work: Workplace, number: int) -> None:
    work.topics({f"t{k}": (f"Fact {k} is known.", [f"Fact {k} is known"]) for k in range(number)})


def test_a_judge_that_gives_no_label_is_asked_no_further(work: Workplace) -> None:
    many_topics(work, 60)
    judge = ToyJudge(lambda question: "Bees are wonderful animals.")
    with FaultyServer(judge) as server:
        work.run(server.url).refused(
            "no label in the first 8 replies",
            "'Bees are wonderful animals.'",
            "--format_type adaptive",
            "--give_up_after 0",
        )
    assert len(judge.asked) < 30  # of 60 calls, each asked again twice, and those in flight


def test_a_cut_reply_is_given_as_the_reason(work: Workplace) -> None:
    many_topics(work, 9)

    def endless(question: Question) -> dict[str, Any]:
        return {"message": {"content": "Let me think about bees"}, "finish_reason": "length"}

    with FaultyServer(ToyJudge(endless)) as server:
        work.run(server.url, "--max_tokens", "20").refused("more than --max_tokens 20")


def test_one_label_at_the_start_is_enough_to_go_on(work: Workplace) -> None:
    many_topics(work, 12)

    def reads_one(question: Question) -> str:
        return plain(question) if question.data.query.endswith("t0") else "I am not sure."

    with FaultyServer(ToyJudge(reads_one)) as server:
        done = work.run(
            server.url, "--retries", "0", "--singles", "false", "--give_up_after", "12"
        ).ok()
    assert work.summary()["coverage"]["labelled"] == 1
    assert "For example, no list of labels: 'I am not sure.'" in done.out.replace("\n  ", " ")


def test_giving_up_can_be_switched_off(work: Workplace) -> None:
    many_topics(work, 9)
    judge = ToyJudge(lambda question: "I am not sure.")
    with FaultyServer(judge) as server:
        work.run(server.url, "--give_up_after", "0", "--retries", "0", "--singles", "false").ok()
    assert len(judge.asked) == 9
    assert work.summary()["coverage"]["labelled"] == 0


def test_comparing_warns_instead(work: Workplace) -> None:
    many_topics(work, 9)
    judge = ToyJudge(
        lambda question: (
            "I am not sure."
            if "JSON" in question.body["messages"][0]["content"]
            else "\n".join(question.labels)
        )
    )
    with FaultyServer(judge) as server:
        argv = [
            argument
            for argument in work.model(server.url)
            if argument not in ("--prompt_type", "no_reasoning")
        ]
        done = work.cli(
            *("compare", "--nuggets", "nuggets.jsonl", "--answers", "answers.jsonl", *argv),
            *("--prompt_types", "no_reasoning", "--format_types", "json,csv"),
        ).ok()
    assert "no label in the first 8 replies" in done.err
