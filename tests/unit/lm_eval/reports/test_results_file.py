"""The results file holds what readers of EleutherAI's files look for, and no secret."""

import json
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest

from lm_eval.reports.results_file import RunInfo, results_dict
from lm_eval.scoring.results import ReadingSummary
from lm_eval.stats.estimates import mean_estimate, share_estimate
from lm_eval.support.encode import text_hash, to_json
from tests.support.report_cases import CLOZE, COT, COUNTED, GROUPS, PRICES, RESULTS, result

RUN = RunInfo(
    model="gguf",
    model_name="org/tiny",
    model_args={"pretrained": "org/tiny", "api_key": "very-secret", "tokenizer": "org/tok"},
    model_facts={"num_parameters": 135, "tokenizer_bos_token": "<s>", "max_length": 2048},
    system_instruction="Be brief.",
    options={
        "gen_kwargs": {"max_gen_toks": 64},
        "command": ["lm-eval", "run", "--model_args", "pretrained=x,api_key=very-secret"],
    },
    start_time=100.0,
    end_time=107.5,
)


@pytest.fixture(scope="module")
def content():
    return results_dict(RESULTS, run=RUN, groups=GROUPS)


def test_scores_of_a_format_that_reads_text(content):
    scores = content["results"]["demo_mcq@cot"]
    acc = share_estimate(29, 60)
    assert scores["name"] == "demo_mcq@cot"
    assert scores["sample_len"] == 60
    assert scores["acc,none"] == acc.value
    assert scores["acc_stderr,none"] == acc.stderr
    assert content["intervals"]["demo_mcq@cot"]["acc,none"] == [acc.low, acc.high]
    assert scores["share_read,none"] == 0.8
    assert scores["unread"] == {"refused": 1, "truncated": 9, "unreadable": 2}
    assert content["interval_methods"]["demo_mcq@cot"]["acc,none"] == "wilson"


def test_scores_of_a_format_that_does_not(content):
    assert "unread" not in content["results"]["demo_mcq@cloze"]
    assert content["results"]["wikitext"]["missing"] == 2


def test_a_score_without_stderr_says_so_as_the_harness_does():
    one = result(metrics={"acc": mean_estimate([0.3])}, n=1, right=1)
    scores = results_dict([one], run=RUN)["results"]["demo_mcq"]
    assert scores["acc_stderr,none"] == "N/A"
    assert scores["acc_ci95,none"] is None


def test_intervals_are_read_beside_the_scores_but_are_not_among_them(content):
    """Scripts take every ``metric,filter`` for a number with a standard error beside it."""
    acc = share_estimate(29, 60)
    for scores in (
        content["results"]["demo_mcq@cot"],
        deepcopy(content)["results"]["demo_mcq@cot"],
    ):
        assert scores["acc_ci95,none"] == scores.get("acc_ci95,none") == [acc.low, acc.high]
        assert scores.get("bleu_ci95,none", 3) == 3
        with pytest.raises(KeyError):
            scores["bleu_ci95,none"]
    for scores in (*content["results"].values(), *content["groups"].values()):
        for key in (key for key in scores if "," in key and "_stderr," not in key):
            assert float(scores[key]) == scores[key]
            assert key.replace(",", "_stderr,") in scores


def test_filters_of_one_task_share_an_entry():
    some = [result(filter=name, right=k) for name, k in (("strict", 10), ("flexible", 20))]
    content = results_dict(some, run=RUN)
    scores = content["results"]["demo_mcq"]
    assert scores["acc,strict"] < scores["acc,flexible"]
    assert content["configs"] == {"demo_mcq": {}}


def test_groups(content):
    assert list(content["groups"]) == ["all_formats"]
    assert content["groups"]["all_formats"]["sample_count"] == {"acc,none": 180}
    assert content["group_subtasks"]["all_formats"] == [r.name for r in RESULTS[:3]]
    assert "wikitext" not in content["group_subtasks"]
    assert "groups" not in results_dict([CLOZE], run=RUN)


def test_the_run(content):
    assert content["total_evaluation_time_seconds"] == "7.5"
    assert content["model_name_sanitized"] == "org__tiny"
    assert content["system_instruction_sha"] == text_hash("Be brief.")
    assert content["chat_template_sha"] is None
    assert content["config"]["gen_kwargs"] == {"max_gen_toks": 64}
    assert content["config"]["model_num_parameters"] == 135
    assert content["tokenizer_bos_token"] == "<s>"
    assert content["max_length"] == 2048


def test_no_secret_is_in_it(content):
    keys = {"dataset_kwargs": {"token": "very-secret"}, "doc_to_text": "key=x"}
    task = result(config=lambda: keys)
    text = to_json([content, results_dict([task], run=RUN)])
    assert "very-secret" not in text
    assert '"tokenizer": "org/tok"' in text
    assert '"doc_to_text": "key=x"' in text


def test_formats_carry_fingerprint_version_and_yaml():
    one = result("t@cot", fingerprints={"format": "f00"}, format_version=2, format_yaml="name: cot")
    assert results_dict([one, result()], run=RUN)["formats"] == {
        "t@cot": {"format": "cot", "fingerprint": "f00", "version": 2, "yaml": "name: cot"}
    }


def test_task_hashes_come_from_the_caller():
    assert results_dict([result()], run=RUN)["task_hashes"] == {}
    given = {"demo_mcq": "x"}
    assert results_dict([result()], run=RUN, task_hashes=given)["task_hashes"] == given


def test_the_same_results_give_the_same_bytes():
    def bytes_of(unread):
        readings = ReadingSummary(total=5, read=2, unread=Counter(unread))
        content = results_dict([result(readings=readings)], run=RUN)
        return to_json(content, indent=2)

    first = bytes_of({"truncated": 2, "empty": 1})
    assert first == bytes_of({"empty": 1, "truncated": 2})
    assert json.loads(first)["results"]["demo_mcq"]["unread"] == {"empty": 1, "truncated": 2}


def test_cases_are_not_changed():
    before = repr(COT)
    results_dict([COT], run=RUN)
    assert repr(COT) == before


def test_costs_have_a_block_of_their_own():
    content = results_dict(COUNTED, run=replace(RUN, prices=PRICES))
    block = content["accounting"]
    assert list(block["tasks"]) == [one.name for one in COUNTED if one.usage is not None]
    assert block["tasks"]["demo_mcq@cot"] == {
        "requests": 60,
        "retries": 4,
        "tokens_in": 8412,
        "tokens_out": 14903,
        "tokens_cached": 1024,
        "wall_s": 63.2,
        "cost": pytest.approx((7388 * 0.15 + 1024 * 0.075 + 14903 * 0.6) / 1e6),
    }
    assert block["total"]["requests"] == 14_162
    assert block["total"]["cost"] == pytest.approx(
        sum(one["cost"] for one in block["tasks"].values())
    )
    assert block["prices"]["currency"] == "USD"
    assert block["prices"]["entry"] == "gpt-4o-mini"


def test_nothing_else_depends_on_what_it_cost():
    with_costs = results_dict(COUNTED, run=replace(RUN, prices=PRICES))
    silent = [replace(one, usage=None) for one in COUNTED]
    with_costs.pop("accounting")
    assert to_json(with_costs) == to_json(results_dict(silent, run=RUN))


def test_what_a_model_counts_while_it_is_asked_stands_with_the_costs():
    facts = {"num_parameters": 135, "truncated_requests": 3, "empty_continuations": 0}
    content = results_dict(COUNTED, run=replace(RUN, model_facts=facts))
    assert content["accounting"]["model"] == {"truncated_requests": 3, "empty_continuations": 0}
    assert content["config"]["model_num_parameters"] == 135
    assert not [key for key in content["config"] if "truncated" in key or "empty" in key]


def test_without_prices_there_is_no_cost():
    block = results_dict(COUNTED, run=RUN)["accounting"]
    assert "prices" not in block
    assert "cost" not in block["total"]
