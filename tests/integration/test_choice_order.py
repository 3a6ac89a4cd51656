"""``--permute`` through whole runs, with models whose bias is known because it is built in."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest
from lm_eval.simple import simple_evaluate
from tests.support import logged_model
from tests.support.command_line import Outcome, Workplace
from tests.support.servers.faulty import FaultyServer
from tests.support.servers.toy_openai import ToyServer, write_tokenizer

PRIOR = (0.5, 0.2, 0.2, 0.1)
BELIEFS = (0.28, 0.36, 0.20, 0.16)
LINE = re.compile(r"^([A-E])\. (\w+) ([\d.]+)$", re.MULTILINE)
asked: list[Any] = []


class BiasedLM(LM):
    """p(label) = prior of its position × belief in the choice, which stands in the choice's text."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        asked.extend(request.args for request in requests)
        return [(self.logprob(*request.args), False) for request in requests]

    def logprob(self, context: str, label: str) -> float:
        shown = choices_shown(context)
        place = "ABCDE".index(label.strip())
        return math.log(self.prior(place, len(shown)) * self.belief(shown[place])) - 7

    def prior(self, place: int, count: int) -> float:
        return PRIOR[place] / sum(PRIOR[:count])

    def belief(self, choice: tuple[str, str, str]) -> float:
        return float(choice[2])

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        asked.extend(request.args for request in requests)
        return [self.reply(choices_shown(request.args[0])) for request in requests]

    def reply(self, shown: list[tuple[str, str, str]]) -> str:
        """The label that ``loglikelihood`` likes best."""
        weighed = [self.prior(at, len(shown)) * self.belief(one) for at, one in enumerate(shown)]
        return f" {shown[weighed.index(max(weighed))][0]}"


class FirstLM(BiasedLM):
    """Sees positions only, and likes the first."""

    def belief(self, choice: tuple[str, str, str]) -> float:
        return 1.0


class FairLM(BiasedLM):
    """Sees choices only."""

    def prior(self, place: int, count: int) -> float:
        return 1.0


class SilentLM(FairLM):
    """Says nothing that could be read unless the choice it likes stands first."""

    def reply(self, shown: list[tuple[str, str, str]]) -> str:
        reply = super().reply(shown)
        return reply if reply == " A" else "?!"


def choices_shown(context: str) -> list[tuple[str, str, str]]:
    """Label, name and belief of each choice of the last question."""
    return LINE.findall(re.split(r"Q\d+\?", context)[-1])


@pytest.fixture
def place(tmp_path: Path, own_registries: None, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    asked.clear()
    for model in (BiasedLM, FirstLM, FairLM, SilentLM):
        register_model(model.__name__)(model)
    logged_model.register()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Workplace(tmp_path)
    write_rows(made, [{"answer": n % 4} for n in range(20)])
    made.task()
    return made


def write_rows(place: Workplace, rows: Sequence[dict[str, Any]]) -> None:
    """Questions whose gold is the choice with the second of the beliefs, wherever that stands."""
    written = []
    for number, row in enumerate(rows):
        beliefs = list(BELIEFS)
        beliefs.insert(row["answer"], beliefs.pop(1))
        choices = [f"{'wxyz'[at]}{number} {belief}" for at, belief in enumerate(beliefs)]
        written.append({"question": f"Q{number}?", "choices": choices, **row})
    place.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in written))


def run(place: Workplace, mode: str, *argv: str, model: str, task: str = "t.yaml") -> Outcome:
    found = place.run("--tasks", task, "--permute", mode, *argv, model=model).ok()
    return found


def order_of(place: Workplace, name: str = "t") -> dict[str, Any]:
    found: dict[str, Any] = place.results()["choice_order"][name]
    return found


def scores(place: Workplace, name: str = "t") -> dict[str, Any]:
    found: dict[str, Any] = place.results()["results"][name]
    return found


@pytest.mark.parametrize(("mode", "orders"), [("cyclic", 4), ("full", 24)])
def test_what_the_model_believes_and_prefers_is_recovered(
    place: Workplace, mode: str, orders: int
) -> None:
    run(place, mode, model="BiasedLM")
    found, score = order_of(place), scores(place)
    assert len(asked) == 20 * orders * 4
    assert found["orders_per_doc"] == orders
    assert found["docs"] == {"permuted": 20, "asked_once": 0, "left_in_place": {}}
    assert score["acc_debiased,none"] == 1.0
    assert score["acc,none"] == 0.25  # right where the gold stands first, which the model likes
    ends = place.results()["intervals"]["t"]["acc_debiased,none"]
    assert ends == pytest.approx([0.8389, 1.0], abs=1e-4)  # Wilson
    assert place.results()["interval_methods"]["t"]["acc_debiased,none"] == "wilson"
    assert found["priors"] == {"4": pytest.approx(list(PRIOR), abs=1e-12)}
    assert found["recall_debiased"] == [1.0] * 4
    assert (found["rstd_debiased"], found["ties"]) == (0.0, 0)
    for sample in place.samples("t"):
        beliefs = [float(text.split()[1]) for text in sample["doc"]["choices"]]
        assert sample["choice_order"]["probabilities"] == pytest.approx(beliefs, abs=1e-12)
        assert sample["choice_order"]["debiased"] == [sample["doc"]["answer"]]


def test_the_specified_example(place: Workplace) -> None:
    write_rows(place, [{"answer": 1}])
    run(place, "cyclic", model="BiasedLM")
    (sample,) = place.samples("t")
    assert sample["choice_order"]["orders"][0]["picked"] == 0  # raw: wrong
    assert sample["choice_order"]["debiased"] == [1]
    assert (sample["acc"], sample["acc_debiased"]) == (0.0, 1.0)


def test_raw_scores_are_those_of_a_run_without_it(place: Workplace) -> None:
    run(place, "none", "--log_samples", model="BiasedLM")
    plain, samples = place.results(), place.samples("t")
    assert "choice_order" not in plain
    assert "choice_order" not in samples[0]
    assert len(asked) == 80
    run(place, "cyclic", model="BiasedLM")
    permuted, with_orders = place.results(), place.samples("t")
    for key, value in plain["results"]["t"].items():
        assert permuted["results"]["t"][key] == value
    for before, after in zip(samples, with_orders, strict=True):
        kept = {key: after[key] for key in before if key != "metrics"}
        assert kept == {key: value for key, value in before.items() if key != "metrics"}
    assert permuted["fingerprints"]["t"] == {**plain["fingerprints"]["t"], "choice_order": "cyclic"}
    assert permuted["config"]["permute"] == "cyclic"
    assert permuted["task_hashes"] == plain["task_hashes"]


def test_a_model_that_sees_positions_only_is_left_with_chance(place: Workplace) -> None:
    out = run(place, "cyclic", model="FirstLM").out
    found, score = order_of(place), scores(place)
    assert score["acc,none"] == 0.25  # the gold of a quarter of the docs stands first
    assert score["acc_debiased,none"] == 0.25
    assert score["acc_over_orders,none"] == 0.25
    assert found["ties"] == 20
    assert found["picked"] == found["picked_over_orders"] == [1.0, 0.0, 0.0, 0.0]
    assert found["recall"] == [1.0, 0.0, 0.0, 0.0]
    assert found["rstd"] == pytest.approx(100 * statistics.pstdev([1, 0, 0, 0]))
    assert found["recall_debiased"] == [0.25] * 4
    assert [one["value"] for one in found["acc_if_gold_at"]] == [1.0, 0.0, 0.0, 0.0]
    assert found["acc_if_gold_at"][0]["method"] == "wilson"
    assert found["answer_changes"]["value"] == 1.0
    said = " ".join(out.split())
    assert "The answer changes with the order in 20 of 20 docs (1.000 [.84, 1.00])." in said
    assert "(RStd) of 43.3 points, debiased 0.0." in said
    assert "In 20 docs choices tie without the positions: they count as right in part." in said


def test_a_model_without_bias_has_none(place: Workplace) -> None:
    run(place, "full", model="FairLM")
    found, score = order_of(place), scores(place)
    assert {score[f"{name},none"] for name in ("acc", "acc_debiased", "acc_over_orders")} == {1.0}
    assert found["priors"]["4"] == pytest.approx([0.25] * 4)
    assert found["picked_over_orders"] == [0.25] * 4
    assert found["answer_changes"]["value"] == 0.0
    assert (found["rstd"], found["ties"]) == (0.0, 0)


# PriDe


def test_pride_learns_on_a_few_docs_and_debiases_all(place: Workplace) -> None:
    write_rows(place, [{"answer": n % 4} for n in range(200)])
    out = run(place, "pride", model="BiasedLM").out
    found, score = order_of(place), scores(place)
    assert found["mode"] == "pride=0.05"
    assert found["docs"] == {"permuted": 10, "asked_once": 190, "left_in_place": {}}
    assert found["orders_per_doc"] == pytest.approx(1 + 0.05 * 3)
    assert len(asked) == (190 + 10 * 4) * 4
    assert found["priors"]["4"] == pytest.approx(list(PRIOR), abs=1e-12)
    assert score["acc,none"] < 1
    assert score["acc_debiased,none"] == 1.0
    assert "acc_over_orders,none" not in score  # most docs have one order
    samples = place.samples("t")
    assert [sample["doc_id"] for sample in samples] == list(range(200))
    assert all(sample["acc_debiased"] == 1.0 for sample in samples)
    assert "190 once and debiased by the prior of the positions" in " ".join(out.split())


def test_pride_takes_another_share_and_chooses_by_the_seed(place: Workplace) -> None:
    def chosen(*argv: str, task: str = "t.yaml") -> list[int]:
        run(place, "pride=0.3", *argv, model="BiasedLM", task=task)
        name = task.replace(".yaml", "")
        several = [s["doc_id"] for s in place.samples(name) if len(s["choice_order"]["orders"]) > 1]
        assert len(several) == 6
        return several

    place.task(formats={"one": {"type": "mcqa"}, "two": {"type": "mcqa", "answer_prompt": "A:"}})
    first = chosen()
    assert chosen() == first
    assert chosen(task="t.yaml@two") == first  # whatever the format
    assert chosen("--seed", "0,1,2,3") != first


def test_pride_asks_at_least_a_few(place: Workplace) -> None:
    write_rows(place, [{"answer": 0}] * 3)
    run(place, "pride", model="BiasedLM")
    assert order_of(place)["docs"]["permuted"] == 3
    write_rows(place, [{"answer": 0}] * 8)
    run(place, "pride", model="BiasedLM")
    assert order_of(place)["docs"]["permuted"] == 5


# Answers read from text


def test_generated_answers_vote(place: Workplace) -> None:
    place.task(formats="generate")
    out = run(place, "cyclic", model="FirstLM").out
    found, score = order_of(place), scores(place)
    assert score["acc,none"] == score["acc_debiased,none"] == 0.25
    assert (found["debiased_by"], found["ties"], found["priors"]) == ("vote", 20, {})
    assert "In 20 docs votes tie" in " ".join(out.split())
    run(place, "cyclic", model="FairLM")
    assert scores(place)["acc_debiased,none"] == 1.0
    assert order_of(place)["answer_changes"]["value"] == 0.0


def test_what_was_not_read_does_not_vote(place: Workplace) -> None:
    place.task(formats="generate")
    run(place, "cyclic", model="SilentLM")
    found, score = order_of(place), scores(place)
    assert score["acc_debiased,none"] == 1.0  # each choice stands first once
    assert score["acc_over_orders,none"] == 0.25  # unread is not right
    assert score["share_read,none"] == 0.25  # of the order of the data, as ever
    assert found["picked"] == [1.0, 0.0, 0.0, 0.0]
    assert found["answer_changes"]["value"] == 0.0
    orders = place.samples("t")[0]["choice_order"]["orders"]
    assert [one["no_answer"] for one in orders] == [None] + ["unreadable"] * 3
    assert [one["picked"] for one in orders] == [0, None, None, None]


def test_no_order_read_is_not_right_and_is_said(place: Workplace) -> None:
    place.task(formats="generate")
    found = run(place, "cyclic", "--model_args", "reply=nothing", model="dummy")
    assert scores(place)["acc_debiased,none"] == 0.0
    assert order_of(place)["unanswered"] == 20
    assert "In 20 docs no order gave an answer that could be read." in " ".join(found.out.split())


def test_repeated_answers_all_vote(place: Workplace) -> None:
    place.task(formats="generate", repeats=3)
    run(place, "cyclic", model="FairLM")
    assert len(asked) == 20 * 4 * 3
    assert scores(place)["acc_debiased,none"] == scores(place)["acc_over_orders,none"] == 1.0
    (replies,) = place.samples("t")[0]["choice_order"]["orders"][1]["resps"]
    assert len(replies) == 3


def test_intervals_of_scores_know_clusters(place: Workplace) -> None:
    place.task(cluster="answer")
    run(place, "cyclic", model="BiasedLM")
    methods = place.results()["interval_methods"]["t"]
    for metric in ("acc", "acc_debiased"):
        assert "over 4 clusters" in methods[f"{metric},none"]


def test_a_group_has_the_debiased_score_beside_its_own(place: Workplace) -> None:
    place.task("u.yaml", task="u")
    group = {
        "group": "g",
        "task": ["t", "u"],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
    }
    place.write("g.yaml", json.dumps(group))
    run(place, "cyclic", "--include_path", ".", model="BiasedLM", task="g")
    found = place.results()["groups"]["g"]
    assert (found["acc,none"], found["acc_debiased,none"]) == (0.25, 1.0)
    assert found["sample_count"]["acc_debiased,none"] == 40


# Which docs, which prompts


def test_docs_with_choices_about_choices_are_left_in_place(place: Workplace) -> None:
    rows: list[dict[str, Any]] = [{"answer": n % 4} for n in range(20)]
    for doc, text in ((3, "All of the above"), (7, "both A and B")):
        rows[doc]["choices"] = ["w 0.3", "x 0.2", "y 0.1", text]
    write_rows(place, rows)
    out = run(place, "cyclic", model="dummy").out
    found = order_of(place)
    why = "a choice names other choices"
    assert found["docs"] == {"permuted": 18, "asked_once": 0, "left_in_place": {why: 2}}
    samples = place.samples("t")
    assert [s["doc_id"] for s in samples if s["choice_order"]["left_in_place"] == why] == [3, 7]
    assert all(samples[doc]["acc_debiased"] == samples[doc]["acc"] for doc in (3, 7))
    assert f"2 in their own order: {why}" in " ".join(out.split())
    assert scores(place)["sample_len"] == 20


def test_items_may_have_different_numbers_of_choices(place: Workplace) -> None:
    rows: list[dict[str, Any]] = [{"answer": n % 4} for n in range(8)]
    rows += [{"answer": 1, "choices": ["a 0.4", "b 0.6"]}] * 6
    rows += [{"answer": 2, "choices": ["a 0.3", "b 0.3", "c 0.4"]}] * 6
    write_rows(place, rows)
    run(place, "cyclic", model="BiasedLM")
    found = order_of(place)
    assert len(asked) == 8 * 16 + 6 * 4 + 6 * 9
    assert sorted(found["priors"]) == ["2", "3", "4"]
    assert found["priors"]["2"] == pytest.approx([5 / 7, 2 / 7])
    assert found["positions"] == ["A", "B", "C", "D"]
    assert [one["n"] for one in found["acc_if_gold_at"]] == [20, 20, 14, 8]
    assert scores(place)["acc_debiased,none"] == 1.0
    run(place, "pride", model="BiasedLM")
    assert order_of(place)["docs"]["permuted"] == 15  # five of each kind
    assert scores(place)["acc_debiased,none"] == 1.0


def test_choices_that_the_format_cuts_off_stay_out(place: Workplace) -> None:
    rows = [{"answer": 1, "choices": ["a 0.3", "b 0.4", "c 0.2", "d 0.1", "never 0.9"]}]
    write_rows(place, rows)
    found = run(place, "full", model="BiasedLM", task="t.yaml@mcq::mmlu")
    assert "choices beyond them are not shown" in " ".join(found.err.split())
    assert len(asked) == 24 * 4
    assert not any("never" in context for context, _ in asked)


def test_examples_stay_as_they_are(place: Workplace) -> None:
    run(place, "cyclic", "--num_fewshot", "2", "--limit", "3", model="BiasedLM")
    for sample in place.samples("t"):
        first = sample["arguments"]["gen_args_0"]["arg_0"]
        shots = first[: first.rindex("Question: ")]
        assert shots.count("Question: ") == 2
        others = [
            one["arguments"]["gen_args_0"]["arg_0"] for one in sample["choice_order"]["orders"][1:]
        ]
        assert len({first, *others}) == 4
        assert all(text.startswith(shots) and text.count("Question: ") == 3 for text in others)


def test_each_order_is_written_down(place: Workplace) -> None:
    run(place, "cyclic", "--limit", "1", model="BiasedLM")
    (sample,) = place.samples("t")
    first, second, *_ = sample["choice_order"]["orders"]
    assert first == {"order": [0, 1, 2, 3], "picked": 0}
    assert second["order"] == [1, 2, 3, 0]
    prompt = second["arguments"]["gen_args_3"]["arg_0"]
    assert [text for _, *text in choices_shown(prompt)] == [
        sample["doc"]["choices"][place].split() for place in (1, 2, 3, 0)
    ]
    assert second["arguments"]["gen_args_3"]["arg_1"] == " D"
    assert len(second["resps"]) == 4
    assert sample["metrics"] == ["acc", "acc_norm", "acc_debiased", "acc_over_orders"]


def test_a_prompt_without_choices_has_no_order(place: Workplace) -> None:
    out = run(place, "cyclic", model="dummy", task="t.yaml@cloze,t.yaml@mcqa").out
    found = order_of(place, "t@cloze")
    assert found["docs"]["left_in_place"] == {"the prompt does not show the choices": 20}
    assert (found["positions"], found["answer_changes"]) == ([], None)
    score = scores(place, "t@cloze")
    assert score["acc_debiased,none"] == score["acc,none"]
    assert "no bias of positions can be seen" in " ".join(out.split())


def test_choices_that_are_not_shown_are_never_too_many(place: Workplace) -> None:
    place.rows(choices=[f"choice {number}" for number in range(26)])
    run(place, "full", model="dummy", task="t.yaml@cloze")
    found = order_of(place, "t@cloze")
    assert found["docs"]["left_in_place"] == {"the prompt does not show the choices": 20}


def test_choices_that_are_their_own_labels(place: Workplace) -> None:
    place.task(formats="classification")
    run(place, "cyclic", "--limit", "4", model="dummy")
    found = order_of(place)
    assert found["docs"]["permuted"] == 4  # the instruction lists them
    assert found["positions"] == ["1", "2", "3", "4"]


def test_calibration_is_not_asked_again_in_every_order(place: Workplace) -> None:
    place.task(formats={"type": "mcqa", "metrics": ["acc", "acc_mutual_info", "acc_calibrated"]})
    found = place.run("--tasks", "t.yaml", "--permute", "cyclic", "--dry_run")
    assert re.search(r"t +20 +640 ", found.out)  # 4 orders, once alone, 3 without content
    run(place, "cyclic", model="dummy")
    assert scores(place)["sample_len"] == 20


def test_a_dry_run_counts_every_order(place: Workplace) -> None:
    counts = {"cyclic": 320, "full": 1920, "pride": 140}
    for mode, count in counts.items():
        found = place.run("--tasks", "t.yaml", "--permute", mode, "--dry_run")
        assert re.search(rf"t +20 +{count:,} ", found.out)


def test_preview_shows_every_order(place: Workplace) -> None:
    out = place.cli("preview", "t.yaml", "--permute", "cyclic").out
    assert "orders:    4 (below)" in out
    assert "t, doc 0, choices in the order 4 1 2 3" in out
    assert out.count("Question: Q0?") == 4
    assert [line for line in out.splitlines() if line.startswith("right:")] == [
        f"right:     '{label}'" for label in "ADCB"
    ]
    assert (
        "orders:    1 (the prompt" in place.cli("preview", "t.yaml@cloze", "--permute", "full").out
    )


def test_a_server_tells_all_labels_of_an_order_at_once(place: Workplace) -> None:
    tokenizer = write_tokenizer(place.folder / "toy")
    with FaultyServer(ToyServer()) as server:
        arguments = f"model=toy,base_url={server.url}/v1/completions,tokenizer={tokenizer}"
        run(place, "cyclic", "--limit", "4", "--model_args", arguments, model="local-completions")
    found = place.results()
    assert found["choice_order"]["t"]["docs"]["permuted"] == 4
    assert found["accounting"]["total"]["requests"] < 2 * 4 * 4  # not one for each label


# Durability


def flags(place: Workplace, *more: str, fails: str | int = "") -> list[str]:
    arguments = f"log={place.folder / 'asked.log'},fails={fails}"
    return ["--tasks", "t.yaml@mcqa", "t.yaml@generate", "--model_args", arguments, *more]


def lines(place: Workplace) -> list[str]:
    log = place.folder / "asked.log"
    found = log.read_text("utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return found


def test_a_run_that_died_sends_no_order_twice(place: Workplace) -> None:
    total = 20 * 16 + 20 * 4
    place.run(*flags(place, "--permute", "cyclic"), model="logged").ok()
    assert len(set(lines(place))) == total
    expected = place.results(), place.samples("t@mcqa"), place.samples("t@generate")
    died = place.run(*flags(place, "--permute", "cyclic", fails=13), model="logged")
    assert died.code == 1
    kept = int(re.search(r"(\d+) of 400 answers are kept", died.err)[1])  # type: ignore[index]
    assert kept > 0
    lines(place)
    place.run(*flags(place, "--permute", "cyclic"), model="logged").ok()
    assert len(lines(place)) == total - kept
    assert (place.samples("t@mcqa"), place.samples("t@generate")) == expected[1:]
    for key in ("results", "choice_order", "fingerprints", "notes"):
        assert place.results()[key] == expected[0][key]


def test_orders_are_shared_through_a_cache(place: Workplace) -> None:
    cache = ("--use_cache", str(place.folder / "answers.sqlite"))
    place.run(*flags(place, *cache), model="logged")
    assert len(lines(place)) == 20 * 4 + 20
    place.run(*flags(place, *cache, "--permute", "cyclic"), model="logged")
    assert len(lines(place)) == 20 * 12 + 20 * 3  # the order of the data is known
    place.run(*flags(place, *cache, "--permute", "cyclic"), model="logged")
    assert lines(place) == []


def test_from_python(place: Workplace) -> None:
    results = simple_evaluate(FirstLM(), tasks=[str(place.folder / "t.yaml")], permute="cyclic")
    assert results["choice_order"]["t"]["recall"] == [1.0, 0.0, 0.0, 0.0]
    assert len(results["samples"]["t"][0]["choice_order"]["orders"]) == 4


def test_saving_answers_alone_keeps_every_order(place: Workplace) -> None:
    run(place, "pride", "--predict_only", model="BiasedLM")
    samples = place.samples("t")
    assert len(samples) == 20
    assert sorted({len(sample["choice_order"]["orders"]) for sample in samples}) == [1, 4]


# Wrong input


@pytest.mark.parametrize(
    ("task", "mode", "said"),
    [
        ("t.yaml", "cycle", "Did you mean 'cyclic'?"),
        ("t.yaml", "pride=2", "not a share of the docs"),
        ("t.yaml@cot", "cyclic", "answers under format 'cot' are texts"),
        ("t.yaml@generate", "pride", "'generate' generates its answers. Use --permute cyclic"),
        ("t.yaml@cloze", "pride", "'cloze' scores the choices' own texts. Use --permute cyclic"),
        ("plain.yaml", "cyclic", "Task 'plain' has no format"),
        ("many.yaml", "full", "Task 'many', doc 1: 5 choices have 120 orders"),
    ],
)
def test_what_cannot_be_permuted_is_said_before_anything_is_asked(
    place: Workplace, task: str, mode: str, said: str
) -> None:
    place.task("plain.yaml", task="plain", formats=..., output_type="multiple_choice")
    rows = [{"question": "Q?", "choices": list("wxyz")[:n], "answer": 0} for n in (3, 4)]
    rows.insert(1, {"question": "Q?", "choices": list("vwxyz"), "answer": 0})
    data = place.data("many.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    place.task("many.yaml", task="many", dataset_kwargs=data)
    place.run("--tasks", task, "--permute", mode, model="BiasedLM").refused(said)
    assert asked == []
    assert place.written() == []
