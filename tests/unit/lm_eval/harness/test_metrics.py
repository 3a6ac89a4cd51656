"""Scores, aggregations and errors equal those of lm_eval 0.4.13; wrong metric lists are explained."""

import math
import random
import sys
import warnings
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval import utils
from lm_eval.api import metrics as api_metrics
from lm_eval.api.registry import (
    AGGREGATIONS,
    HARNESS_METRICS,
    get_aggregation,
    get_metric_aggregation,
    is_higher_better,
    register_aggregation,
    register_metric,
)
from lm_eval.config.functions import FunctionRef
from lm_eval.errors import ConfigError, DataError, GoldError, LmEvalWarning, MissingExtraError
from lm_eval.harness import stderr as harness_errors
from lm_eval.harness.aggregation import f1_score, mean, median
from lm_eval.harness.metrics import (
    get_metric,
    parse_metric_list,
    score_generation,
    score_loglikelihood,
    score_multiple_choice,
    score_rolling,
    softmax,
)
from lm_eval.harness.stderr import bootstrap_stderr, stderr_for_metric, value_and_stderr
from lm_eval.registry import Metric
from lm_eval.stats.estimates import Estimate, pooled_estimate

CORPUS = ("bleu", "chrf", "chrf++", "ter")


def same(found, wanted):
    """Equal to rounding, with tuples for lists."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=1e-9, abs=1e-12, nan_ok=True)
    return found == wanted


def names(case):
    return [entry["metric"] for entry in case["metrics"]]


# Equal to the peer


def test_choices(cases, golden):
    for case, wanted in zip(cases.CHOICE_CASES, golden["choices"], strict=True):
        results, n = case["results"], len(case["choices"])
        lls = [ll for ll, _ in results]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LmEvalWarning)
            found = score_multiple_choice(
                lls[:n],
                [greedy for _, greedy in results[:n]],
                case["choices"],
                case["gold"],
                unconditional_lls=lls[n:] or None,
                metrics=names(case),
            )
        assert same(found, wanted), case
        assert list(found) == list(wanted)


def test_loglikelihood_and_rolling(cases, golden):
    for case, wanted in zip(cases.LOGLIKELIHOOD, golden["loglikelihood"], strict=True):
        assert score_loglikelihood(*case["results"][0], metrics=names(case)) == wanted
    for case, wanted in zip(cases.ROLLING, golden["rolling"], strict=True):
        assert same(score_rolling(case["results"][0], case["gold"], metrics=names(case)), wanted)


def test_generated_texts(cases, golden):
    for case, wanted in zip(cases.TEXT_CASES, golden["texts"], strict=True):
        specs = [
            Metric(
                entry["metric"],
                options={key: value for key, value in entry.items() if key != "metric"},
                function=get_metric(entry["metric"]),
            )
            for entry in case["metrics"]
        ]
        found = score_generation(
            case["results"][0],
            case["gold"],
            specs,
            choices=case.get("choices"),
            multiple_target=case.get("multiple_target", False),
        )
        assert same(found, wanted), case


def test_aggregations_and_their_errors(cases, golden):
    checked = 0
    for case, wanted in zip(cases.AGGREGATIONS, golden["aggregations"], strict=True):
        if case["aggregation"] in CORPUS:
            continue
        checked += 1
        assert same(aggregated(cases, case), wanted), case
    assert checked > 30


def test_corpus_scores_and_their_errors(cases, golden):
    pytest.importorskip("sacrebleu")
    for case, wanted in zip(cases.AGGREGATIONS, golden["aggregations"], strict=True):
        if case["aggregation"] in CORPUS:
            # Bit for bit on the Python that wrote the file; sum() is more exact from 3.12 on.
            assert same(aggregated(cases, case), wanted), case


def aggregated(cases, case):
    values = cases.expand(case["values"])
    aggregation = get_aggregation(case["aggregation"])
    value, error = value_and_stderr(case["metric"], values, aggregation, case["iters"])
    return [value, "N/A" if error is None else error, len(values)]


def test_group_scores(cases, golden):
    for case, wanted in zip(cases.GROUPS, golden["groups"], strict=True):
        members = [
            Estimate(score, None if error == "N/A" else error, None, None, size, "normal")
            for score, error, size in zip(
                case["scores"], case["errors"], case["sizes"], strict=True
            )
        ]
        pooled = [pooled_estimate(members, weight_by_size=weighted) for weighted in (True, False)]
        found = [part for one in pooled for part in (one.value, one.stderr)]
        assert same(["N/A" if part is None else part for part in found], wanted)
        assert pooled[0].n == sum(case["sizes"])


def test_utils(cases, golden):
    wanted, some = golden["utils"], cases.UTILS
    found = {
        "weighted_f1_score": [utils.weighted_f1_score(cases.expand(v)) for v in some["pairs"]],
        "general_detokenize": [utils.general_detokenize(text) for text in some["texts"]],
        "simple_parse_args_string": [utils.simple_parse_args_string(a) for a in some["arguments"]],
        "handle_arg_string": [utils.handle_arg_string(text) for text in some["values"]],
        "acc_all": [api_metrics.acc_all(v) for v in some["acc_all"]],
        "acc_all_stderr": [api_metrics.acc_all_stderr(v) for v in some["acc_all"]],
    }
    for name, values in wanted.items():
        assert same(found[name], values), name


# Speed and resamples


@given(n=st.integers(1, 300), seed=st.integers(0, 99))
def test_numpy_draws_what_the_generator_draws(n, seed):
    rng = random.Random(seed)
    plain = [rng.choices(range(n), k=n) for _ in range(3)]
    assert [row.tolist() for row in harness_errors._chunk(seed, 3, n)] == plain


def test_errors_over_many_docs():
    rng = random.Random(0)
    pairs = [(rng.randrange(2), rng.randrange(2)) for _ in range(14_000)]
    assert bootstrap_stderr(f1_score, pairs, 2000) > 0
    assert bootstrap_stderr(median, [rng.random() for _ in range(14_000)], 2000) > 0


def test_no_error_where_there_is_none():
    assert stderr_for_metric(mean, 0) is None
    assert stderr_for_metric(max, 100) is None
    assert value_and_stderr("x", [1.0], mean, 100) == (1.0, None)
    assert value_and_stderr("x", [1.0, 0.0], mean, 0) == (0.5, None)


def test_f1_of_more_classes_says_what_to_use():
    with pytest.raises(DataError, match="weighted_f1_score"):
        f1_score([(0, 1), (2, 1)])
    with pytest.raises(DataError, match="one gold among"):
        AGGREGATIONS.get("brier_score")([(-100, (0.5, 0.5))])


# Docs


@given(
    lls=st.lists(st.floats(-100, 0), min_size=1, max_size=6),
    gold=st.integers(0, 9) | st.text(max_size=2) | st.lists(st.integers(0, 9), max_size=3),
)
def test_choice_scores_are_0_or_1(lls, gold):
    choices = ["", "a", "é", "abc", "b", "c"][: len(lls)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        found = score_multiple_choice(
            lls,
            [True] * len(lls),
            choices,
            gold,
            metrics=("acc", "acc_norm", "acc_bytes", "exact_match"),
        )
    assert set(found.values()) <= {0, 1}
    assert math.isclose(sum(softmax(lls)), 1)


def test_a_gold_outside_the_choices():
    with pytest.warns(LmEvalWarning, match=r"doc 3: the target 7 is not one of the 2 choices"):
        found = score_multiple_choice([-1, -2], [True, True], ["a", "b"], 7, where="doc 3")
    assert found == {"acc": 0.0, "acc_norm": 0.0}
    with pytest.raises(GoldError, match="--parity"):
        score_multiple_choice([-1, -2], [True, True], ["a", "b"], [0, 7], strict=True)
    with pytest.raises(GoldError, match="doc_to_choice"):
        score_generation("a", "z", parse_metric_list(None, "generate_until").metrics, choices=["a"])


@given(response=st.text() | st.lists(st.text(), max_size=3), gold=st.text() | st.lists(st.text()))
def test_exact_match_never_fails(response, gold):
    for options in ({}, {"ignore_case": True, "ignore_punctuation": True, "ignore_numbers": True}):
        spec = Metric("exact_match", options=options, function=get_metric("exact_match"))
        for several in (False, True):
            found = score_generation(response, gold, [spec], multiple_target=several)
            assert 0 <= found["exact_match"] <= 1


def test_a_metric_that_gives_several_scores():
    def both(references, predictions, k):
        return {"pass@1": 1.0, f"pass@{k}": 0.5}

    metrics = parse_metric_list(
        [{"metric": both, "aggregation": "median", "higher_is_better": False, "k": 3}],
        "generate_until",
    )
    found = score_generation("a", "b", metrics.metrics, sources=metrics.sources)
    assert found == {"pass@1": 1.0, "pass@3": 0.5}
    assert metrics.aggregation_of("pass@3") is median
    assert metrics.aggregation_of("unheard of") is mean
    assert metrics.higher_is_better() == {"both": False, "pass@1": False, "pass@3": False}


def test_a_function_of_one_pair_gets_the_pair():
    metrics = parse_metric_list([{"metric": lambda items: items[0] == items[1]}], "generate_until")
    assert score_generation("a", "a", metrics.metrics) == {"<lambda>": True}


def test_a_function_reference_keeps_its_type_errors(tmp_path):
    tmp_path.joinpath("helper_metrics.py").write_text("def own(items):\n    return len(items)\n")
    ref = FunctionRef.parse("helper_metrics.own", folder=str(tmp_path))
    metrics = parse_metric_list([{"metric": ref, "aggregation": "mean"}], "generate_until")
    assert metrics.names == ("own",)
    assert score_generation("a", "b", metrics.metrics) == {"own": 2}
    unseen = FunctionRef.parse("helper_metrics.own", folder=str(tmp_path), allowed=False)
    assert parse_metric_list([{"metric": unseen}], "generate_until").names == ("own",)


# Metric lists


def test_defaults():
    for output_type, wanted in {
        "multiple_choice": ("acc", "acc_norm"),
        "generate_until": ("exact_match",),
        "loglikelihood": ("perplexity", "acc"),
        "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    }.items():
        assert parse_metric_list(None, output_type).names == wanted
    assert parse_metric_list(None, "loglikelihood").higher_is_better() == {
        "perplexity": False,
        "acc": True,
    }
    assert is_higher_better("ter") is False
    assert get_metric_aggregation("mcc") is AGGREGATIONS.get("matthews_corrcoef")


def test_with_process_results_names_are_free():
    metrics = parse_metric_list(
        [{"metric": "my_score", "aggregation": "mean"}, {"metric": "bleu"}],
        "multiple_choice",
        has_process_results=True,
    )
    assert metrics.names == ("my_score", "bleu")


def test_pairs_for_a_function_fit_generated_text():
    metrics = parse_metric_list(
        [{"metric": "acc", "aggregation": len, "average": "macro"}], "generate_until"
    )
    assert score_generation("a", "b", metrics.metrics) == {"acc": ["b", "a"]}
    assert metrics.aggregation_of("acc") is len


@pytest.mark.parametrize(
    ("metric_list", "output_type", "message"),
    [
        ("acc", "multiple_choice", "metric_list must be a list"),
        ([{"aggregation": "mean"}], "multiple_choice", "metric_list[1] needs `metric`"),
        (
            [{"metric": 3}],
            "multiple_choice",
            "metric must be the name of a metric or a !function, not 3",
        ),
        ([{"metric": "bleu"}], "multiple_choice", "'bleu' cannot be computed for output_type mult"),
        ([{"metric": "acc"}], "generate_until", "'acc' cannot be computed for output_type gener"),
        ([{"metric": "acc_norm"}], "loglikelihood", "Those that can: acc, perplexity, bypass"),
        ([{"metric": "rouge"}], "loglikelihood_rolling", "cannot be computed"),
        (
            [{"metric": "acc", "aggregation": "maen"}],
            "multiple_choice",
            "aggregation must be an aggregation, such as mean, or a !function, not 'maen'. Did you "
            "mean 'mean'?",
        ),
        (
            [{"metric": "acc", "aggregation": 3}],
            "multiple_choice",
            "metric_list[1].aggregation must be",
        ),
        (
            [{"metric": "exact_match", "ignore_cases": True}],
            "generate_until",
            "no option 'ignore_cases'. Did you mean 'ignore_case'?",
        ),
        (
            [{"metric": "exact_match", "regexes_to_ignore": ["a)"]}],
            "generate_until",
            "'a)' in regexes_to_ignore is not a regular expression: unbalanced parenthesis at "
            "position 1",
        ),
    ],
)
def test_wrong_input(metric_list, output_type, message):
    with pytest.raises(ConfigError) as caught:
        parse_metric_list(metric_list, output_type, task="my_task")
    assert message in str(caught.value)
    assert str(caught.value).startswith("Task 'my_task': ")


def test_a_slip_that_the_peer_ignores_is_shown():
    with pytest.warns(LmEvalWarning, match="'high_is_better'. Did you mean 'higher_is_better'"):
        parse_metric_list([{"metric": "acc", "high_is_better": True}], "multiple_choice")


def test_unknown_metrics_belong_to_the_evaluate_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "evaluate", None)
    metrics = parse_metric_list([{"metric": "exact_mach"}], "generate_until")
    with pytest.raises(MissingExtraError, match=r"Did you mean 'exact_match'\?[^$]*hub-metrics"):
        score_generation("a", "b", metrics.metrics)
    loaded = SimpleNamespace(
        load=lambda name: SimpleNamespace(compute=lambda **kw: {name: len(kw["references"])})
    )
    monkeypatch.setitem(sys.modules, "evaluate", loaded)
    metrics = parse_metric_list([{"metric": "f1", "hf_evaluate": True}], "generate_until")
    assert score_generation("a", "b", metrics.metrics) == {"f1": 1}


def test_registered_metrics_and_aggregations():
    @register_aggregation("test_largest")
    def largest(items):
        return max(items)

    @register_metric(
        metric="test_same_length",
        higher_is_better=True,
        output_type="generate_until",
        aggregation="test_largest",
    )
    def same_length(references, predictions):
        return float(len(references[0]) == len(predictions[0]))

    metrics = parse_metric_list([{"metric": "test_same_length"}], "generate_until")
    assert score_generation("ab", "cd", metrics.metrics) == {"test_same_length": 1.0}
    assert metrics.aggregation_of("test_same_length") is largest
    assert HARNESS_METRICS.get("test_same_length").higher_is_better is True


def test_addresses():
    for name in api_metrics.__all__:
        assert callable(getattr(api_metrics, name))
    for name in utils.__all__:
        assert hasattr(utils, name)
    assert api_metrics.metric_max_over_ground_truths(lambda a, b: a == b, "x", ["y", "x"]) is True
    assert utils.pattern_match("a*", ["ab", "b", "aa"]) == ["aa", "ab"]
    assert utils.sanitize_list([1, (2.0, ["x"])]) == ["1", ("2.0", ["x"])]
