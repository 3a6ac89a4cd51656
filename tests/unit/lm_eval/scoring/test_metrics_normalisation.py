"""Which choice wins under each normalisation, computed by hand, and what must not change it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval import simple_evaluate
from lm_eval.api.registry import HARNESS_METRICS
from lm_eval.errors import AmbiguousGoldError, LmEvalWarning, ModelError
from lm_eval.formats.checks import NORMALISATIONS, leading, normalisation_of
from lm_eval.formats.gold import resolve_gold
from lm_eval.harness.metrics import NO_GOLD, gold_places, score_multiple_choice
from lm_eval.scoring.metrics import METRICS, ChoiceOutcome

# Each of the five wins under one normalisation alone:      sum    /char  /byte  /token  gain
TEXTS = (
    "ab",  # 2 characters, 2 bytes, 1 token                 -2     -1     -1     -2      0.5
    "twenty characters ok",  # 20, 20, 4                    -6     -0.3   -0.3   -1.5    0.5
    "日本語日本語日本語日",  # 10, 30, 5                       -6     -0.6   -0.2   -1.2    0.5
    "a1b2c",  # 5, 5, 10                                    -5     -1     -1     -0.5    0.5
    "four",  # 4, 4, 2                                      -7     -1.75  -1.75  -3.5    13
)
LOGPROBS = (-2.0, -6.0, -6.0, -5.0, -7.0)
TOKENS = (1, 4, 5, 10, 2)
ALONE = (-2.5, -6.5, -6.5, -5.5, -20.0)
WINNERS = {"acc": 0, "acc_norm": 1, "acc_bytes": 2, "acc_tokens": 3, "acc_mutual_info": 4}


def outcome(gold: int, **changed: object) -> ChoiceOutcome:
    facts: dict[str, object] = {"logprobs": LOGPROBS, "tokens": TOKENS, "alone": ALONE, **changed}
    return ChoiceOutcome(greedy=(False,) * 5, texts=TEXTS, gold=(gold,), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("gold", range(5))
@pytest.mark.parametrize(("metric", "winner"), WINNERS.items())
def test_each_normalisation_picks_its_own(metric: str, winner: int, gold: int) -> None:
    expected = float(gold == winner)
    assert METRICS.get(metric).value(outcome(gold)) == expected
    plain = score_multiple_choice(
        LOGPROBS,
        [False] * 5,
        TEXTS,
        gold,
        unconditional_lls=ALONE,
        tokens=TOKENS,
        metrics=list(WINNERS),
    )
    assert plain[metric] == expected


def test_every_normalisation_has_a_metric_for_formats_and_for_plain_tasks() -> None:
    under_formats = [one.metric for one in NORMALISATIONS.values()]
    assert under_formats == [*WINNERS, "acc_calibrated"]
    assert METRICS.get("acc_calibrated").fits(reads_text=False)
    for metric in WINNERS:
        assert METRICS.get(metric).fits(reads_text=False)
        assert "multiple_choice" in HARNESS_METRICS.get(metric).output_types
        found = normalisation_of(metric)
        assert found is not None
        assert leading(["acc", "f1_macro"], found.name)[0] == metric


CONTENT_FREE = (
    tuple(map(math.log, (0.10, 0.30, 0.20, 0.20, 0.20))),
    tuple(map(math.log, (0.50, 0.10, 0.20, 0.10, 0.10))),
    tuple(math.log(share) - 40 for share in (0.30, 0.20, 0.20, 0.15, 0.15)),  # another scale
)


def test_calibration_divides_by_the_mean_share_without_content() -> None:
    shares = (0.33, 0.26, 0.15, 0.14, 0.12)  # ÷ (0.3, 0.2, 0.2, 0.15, 0.15): 1.1 < 1.3
    logprobs = tuple(math.log(share) - 3 for share in shares)
    metric = METRICS.get("acc_calibrated")
    for gold in range(5):
        found = outcome(gold, logprobs=logprobs, content_free=CONTENT_FREE)
        assert METRICS.get("acc").value(found) == float(gold == 0)
        assert metric.value(found) == float(gold == 1)


def test_the_metric_of_the_normalisation_comes_first_and_once() -> None:
    assert leading(["acc", "acc_norm"], "character") == ("acc_norm", "acc")
    assert leading(["acc"], "pmi") == ("acc_mutual_info", "acc")
    assert leading(["acc", "acc_norm"], None) == ("acc", "acc_norm")


@pytest.mark.parametrize("tokens", [(), (1, 4, None, 10, 2), (None,) * 5])
def test_without_token_counts_nothing_is_guessed(tokens: tuple[int | None, ...]) -> None:
    with pytest.raises(ModelError, match=r"acc_tokens .* acc_norm"):
        METRICS.get("acc_tokens").value(outcome(0, tokens=tokens))
    with pytest.raises(ModelError, match=r"acc_tokens .* acc_norm"):
        score_multiple_choice(
            LOGPROBS, [False] * 5, TEXTS, 0, tokens=tokens, metrics=["acc_tokens"]
        )


# Whole numbers, so that sums and differences are exact.
five = st.tuples(*[st.integers(-1000, 0).map(float)] * 5)


@given(logprobs=five, count=st.integers(1, 9))
def test_equal_token_counts_change_nothing(logprobs: tuple[float, ...], count: int) -> None:
    one = outcome(0, logprobs=logprobs, tokens=(count,) * 5)
    assert one.picked(one.token_counts()) == one.picked()


@given(logprobs=five, prior=st.integers(-1000, 0))
def test_equal_priors_change_nothing(logprobs: tuple[float, ...], prior: int) -> None:
    one = outcome(0, logprobs=logprobs, alone=(float(prior),) * 5)
    assert one.picked_by_gain() == one.picked()


@given(logprobs=five, alone=five, shift=five)
def test_what_moves_a_choice_and_its_prior_alike_changes_nothing(
    logprobs: tuple[float, ...], alone: tuple[float, ...], shift: tuple[float, ...]
) -> None:
    moved = [tuple(a + b for a, b in zip(one, shift, strict=True)) for one in (logprobs, alone)]
    before = outcome(0, logprobs=logprobs, alone=alone)
    after = outcome(0, logprobs=moved[0], alone=moved[1])
    assert before.picked_by_gain() == after.picked_by_gain()


# One computation for formats and for plain tasks

logprob = st.one_of(st.integers(-40, 0).map(float), st.floats(-80, 0), st.just(-math.inf))
text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@st.composite
def scored_choices(draw: st.DrawFn) -> ChoiceOutcome:
    """Choices of any script and length, with ties and impossible ones among them."""
    count = draw(st.integers(2, 6))

    def each(values: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return draw(st.tuples(*[values] * count))

    gold = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
    return ChoiceOutcome(
        each(logprob),
        each(st.booleans()),
        each(text),
        tuple(gold),
        tokens=each(st.integers(1, 9)),
        alone=each(st.integers(-40, 0).map(float)),
    )


def as_plain_task(outcome: ChoiceOutcome, metrics: Sequence[str]) -> dict[str, Any]:
    gold = outcome.gold[0] if len(outcome.gold) == 1 else list(outcome.gold)
    return score_multiple_choice(
        outcome.logprobs,
        outcome.greedy,
        outcome.texts,
        gold,
        unconditional_lls=outcome.alone,
        tokens=outcome.tokens,
        metrics=metrics,
    )


@given(outcome=scored_choices())
def test_formats_and_plain_tasks_score_choices_alike(outcome: ChoiceOutcome) -> None:
    metrics = [*WINNERS, "exact_match"]
    plain = as_plain_task(outcome, metrics)
    assert plain == {name: METRICS.get(name).value(outcome) for name in plain}
    assert sorted(plain) == sorted(metrics)


def test_an_empty_choice_is_one_unit_long_under_a_format_and_infinite_in_a_plain_task() -> None:
    empty = ChoiceOutcome((-3.0, -4.0), (False, False), ("", "ab"), (0,))
    assert METRICS.get("acc_norm").value(empty) == 0.0  # -3 / 1 < -4 / 2
    likely = ChoiceOutcome((-1.0, -4.0), (False, False), ("", "ab"), (0,))
    assert METRICS.get("acc_norm").value(likely) == 1.0  # -1 / 1 > -4 / 2
    assert as_plain_task(likely, ["acc_norm"]) == {"acc_norm": 0.0}  # -1 / 0 is minus infinity
    certain = ChoiceOutcome((-4.0, 0.0), (False, False), ("ab", ""), (1,))
    assert as_plain_task(certain, ["acc_norm"]) == {"acc_norm": 1.0}  # 0 / 0 is NaN, the highest


@pytest.mark.parametrize("impossible", [0, 1])
def test_a_choice_impossible_with_and_without_the_question_gains_nothing(impossible: int) -> None:
    """The harness takes the first NaN for the highest; under a format the place must not matter."""
    logprobs, alone = [-2.0, -2.0], [-5.0, -5.0]
    logprobs[impossible] = alone[impossible] = -math.inf
    found = ChoiceOutcome(
        tuple(logprobs), (False, False), ("a", "b"), (1 - impossible,), alone=tuple(alone)
    )
    assert METRICS.get("acc_mutual_info").value(found) == 1.0
    assert as_plain_task(found, ["acc_mutual_info"]) == {"acc_mutual_info": 0.0}


@given(choices=st.lists(text, min_size=2, max_size=6, unique_by=str.strip), data=st.data())
def test_formats_and_plain_tasks_resolve_an_index_or_exact_text_alike(
    choices: list[str], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(choices) - 1))
    for target in (place, choices[place]):
        assert gold_places(target, choices) == place
        try:
            assert resolve_gold(target, choices) == place
        except AmbiguousGoldError:  # a text that is digits or a letter may mean another choice
            assert target == choices[place]


def test_letters_digits_and_blanks_are_resolved_under_formats_only() -> None:
    for target in ("B", "(B)", " y ", "Y"):
        assert resolve_gold(target, ["x", "y"]) == 1
        with pytest.warns(LmEvalWarning, match="not one of the 2 choices"):
            assert gold_places(target, ["x", "y"]) == NO_GOLD


def test_bits_per_byte_of_the_right_answer() -> None:
    results = simple_evaluate(model="dummy", tasks=["demo_mcq@bpb"], limit=20, log_samples=True)
    assert results is not None
    bits = []
    for sample in results["samples"]["demo_mcq@bpb"]:
        [(_, scored)], [[(loglikelihood, _)]] = sample["arguments"], sample["resps"]
        assert scored == f" {sample['target']}"
        bits.append(-loglikelihood / len(sample["target"].encode()) / math.log(2))
    measured = results["results"]["demo_mcq@bpb"]["bits_per_byte,none"]
    assert measured == pytest.approx(sum(bits) / 20)
