"""What a comparison finds in measurements of known behaviour, against known answers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from lm_eval.errors import ComparisonError, UsageError
from lm_eval.lab.compare.statistics import Options, compare, pairs
from lm_eval.lab.compare.values import (
    CONFOUNDED,
    EQUAL,
    INCONCLUSIVE,
    REAL,
    Comparison,
    Pair,
)
from lm_eval.lab.stored.measurement import CHOICES_HIDDEN, CHOICES_SCORED, CHOICES_SHOWN, align
from lm_eval.stats.paired import paired
from lm_eval.support.encode import to_json
from tests.support.comparison_cases import (
    CASES,
    FAST,
    clear,
    comparison,
    grid,
    models,
    right,
    row,
    two,
    unread,
)


def block_of(case: str) -> Comparison:
    return comparison(case).blocks[0]


def pair_of(block: Comparison, first: str, second: str) -> Pair:
    return next(pair for pair in block.pairs if {pair.first, pair.second} == {first, second})


def test_known_answer_of_mcnemar_reaches_the_report() -> None:
    """7 against 1: p = 18/256."""
    a, b = [1] * 7 + [0] + [1] * 12, [0] * 7 + [1] + [1] * 12
    (pair,) = compare([row("a", a), row("b", b)], FAST).blocks[0].pairs
    assert pair.counts == (7, 1)
    assert pair.p_adjusted == pair.result.p == pytest.approx(18 / 256)
    assert pair.result.difference.value == pytest.approx(0.3)
    assert pair.verdict == INCONCLUSIVE


def test_two_formats_have_the_spread_of_their_pair() -> None:
    block = block_of("two")
    assert block.spread is not None
    assert block.spread.p == pytest.approx(block.pairs[0].result.p)
    assert block.spread.value == pytest.approx(block.pairs[0].result.difference.value)


def test_better_comes_first_whatever_the_order_of_rows() -> None:
    rows = two()
    assert [(p.first, p.second) for p in compare(rows, FAST).blocks[0].pairs] == [("mcqa", "cloze")]
    turned = compare(rows[::-1], FAST).blocks[0]
    assert [(p.first, p.second) for p in turned.pairs] == [("mcqa", "cloze")]
    assert turned.default == "cloze"


def test_less_is_better_turns_everything_round() -> None:
    block = block_of("losses")
    (pair,) = block.pairs
    assert (pair.first, pair.second) == ("short", "long")
    assert pair.result.difference.value < 0
    assert pair.counts == (40, 0)
    assert (block.best.label, block.worst.label) == ("short", "long")
    assert block.chances("short") == (1.0, 0.0)
    assert block.row("short").bounds is None


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_words_and_numbers_name_the_same_ends_where_formats_tie(higher_is_better: bool) -> None:
    ones, zeros = [1] * 20, [0] * 20
    rows = [
        replace(row(name, scores), higher_is_better=higher_is_better)
        for name, scores in (("a", zeros), ("b", ones), ("c", ones), ("d", zeros))
    ]
    (block,) = compare(rows, FAST).blocks
    assert block.spread is not None
    ends = [block.rows[place] for place in (block.spread.best, block.spread.worst)]
    assert [block.best, block.worst] == (ends if higher_is_better else ends[::-1])
    assert [one.label for one in ends] == ["b", "d"]


def test_a_lead_that_is_gone_where_answers_were_read_is_confounded() -> None:
    block = block_of("clear")
    verdicts = {(p.first, p.second): p.verdict for p in block.pairs}
    assert verdicts["mcqa", "cot"] == verdicts["generate", "cot"] == CONFOUNDED
    assert verdicts["mcqa", "cloze"] == REAL
    assert verdicts["cloze", "cot"] == INCONCLUSIVE
    for pair in block.pairs:
        lead = pair.result.difference.value
        assert pair.is_adherence == (0 < lead <= pair.gap_read)
        assert pair.p_remaining >= pair.p_adjusted


def test_a_lead_larger_than_the_gap_in_reading_is_not_real_for_that_alone() -> None:
    """30 wins to 12 losses; 8 of the wins are answers that were not read, and 22 to 12 may be luck."""
    n = 120
    a = [1] * 30 + [0] * 12 + [1] * (n - 42)
    b = [0] * 30 + [1] * 12 + [1] * (n - 42)
    read = [k >= 8 for k in range(n)]
    (pair,) = compare([row("a", a), row("b", b, read=read)], FAST).blocks[0].pairs
    assert pair.p_adjusted < 0.05
    assert pair.result.difference.value > pair.gap_read > 0
    assert pair.p_remaining == pytest.approx(paired([1] * 22 + [0] * 12, [0] * 22 + [1] * 12).p)
    assert pair.verdict == CONFOUNDED


def test_a_lead_smaller_than_the_gap_in_reading_is_real_where_it_holds_on_answers_read() -> None:
    """Half of the answers are unread, and the lead on the other half is as large."""
    n = 200
    read = [k % 2 == 0 for k in range(n)]
    b = [int(k % 8 == 0) for k in range(n)]  # a quarter of the answers read are right
    (pair,) = compare([row("a", [1, 0] * (n // 2)), row("b", b, read=read)], FAST).blocks[0].pairs
    assert pair.result.difference.value <= pair.gap_read
    assert pair.verdict == REAL


def test_unread_answers_of_the_better_row_count_as_wrong() -> None:
    """Where one row is read only if it is right, the items read under both favour it without cause."""
    knows = np.array([1, 1, 0, 0] * 100)
    also_knows = np.array([1, 0, 1, 0] * 100)
    silent = row("a", knows, read=knows == 1)
    cut_off = np.array([k // 4 % 10 > 2 for k in range(400)])
    other = row("b", also_knows * cut_off, read=cut_off)
    (pair,) = compare([silent, other], FAST).blocks[0].pairs
    assert pair.first == "a"
    assert pair.p_adjusted < 0.05
    assert pair.p_both_read is not None
    assert pair.p_both_read < 0.05
    assert pair.remaining is not None
    assert pair.remaining.difference.value == pytest.approx(0.0, abs=0.01)
    assert pair.verdict == CONFOUNDED


UNREAD = {
    "at random": lambda right, hard: np.full(len(right), 1.0),
    "hard items": lambda right, hard: hard,
    "wrong answers": lambda right, hard: 1.0 - right,
}


@pytest.mark.parametrize(
    ("first", "second", "shares"),
    [
        ("at random", "at random", (0.0, 0.1)),
        ("at random", "at random", (0.1, 0.4)),
        ("hard items", "at random", (0.2, 0.2)),
        ("at random", "wrong answers", (0.0, 0.2)),
        ("wrong answers", "at random", (0.1, 0.1)),
    ],
)
def test_equal_formats_are_seldom_called_really_different(
    first: str, second: str, shares: tuple[float, float]
) -> None:
    """In at most 1 of 20 data sets. ``benchmarks/verdicts.py`` has more of them."""
    rng = np.random.default_rng(3)
    sets, n, real = 100, 120, 0
    for _ in range(sets):
        hard = rng.random(n)
        rows = []
        for name, share in zip((first, second), shares, strict=True):
            knows = (rng.random(n) < 1.0 - 0.4 * hard).astype(float)
            odds = UNREAD[name](knows, hard)
            read = rng.random(n) >= np.clip(share * odds / odds.mean(), 0, 1)
            rows.append(row(f"f{len(rows)}", knows * read, read=read))
        (pair,) = pairs(align(rows), ["a", "b"], None, adjust="holm", seed=1, lists_flips=False)
        real += pair.verdict == REAL
    assert real <= 0.05 * sets


def test_a_lead_of_the_format_that_is_read_less_is_real() -> None:
    worse = right(200, 0.3, 2)
    better, read = unread(right(200, 0.9, 1), 0.4, 3)
    (pair,) = compare([row("a", worse), row("b", better, read=read)], FAST).blocks[0].pairs
    assert pair.first == "b"
    assert pair.gap_read < 0
    assert pair.result.difference.value < -pair.gap_read  # no larger, but the other way round
    assert pair.verdict == REAL
    # With every answer of the other read, the items read under both can only favour it more.
    assert pair.both_read is not None
    assert pair.both_read.difference.value > pair.result.difference.value


def test_where_less_is_better_unread_answers_are_no_reason_to_be_sure_either() -> None:
    """Unread answers have an error of 0 by this metric, and all of the lead comes from these."""
    read = [k % 2 == 0 for k in range(80)]
    few = [float(is_read) for is_read in read]
    rows = [
        row("a", [1.0] * 80, higher_is_better=False),
        row("b", few, read=read, higher_is_better=False),
    ]
    (pair,) = compare(rows, FAST).blocks[0].pairs
    assert pair.first == "b"
    assert pair.p_adjusted < 0.05
    assert pair.verdict == CONFOUNDED


def test_rows_that_show_other_information_are_told_apart() -> None:
    kinds = {"mcqa": CHOICES_SHOWN, "cloze": CHOICES_SCORED, "cot": CHOICES_HIDDEN, "old": None}
    rows = [
        replace(row(name, right(40, 0.5, seed)), choices=kind)
        for seed, (name, kind) in enumerate(kinds.items())
    ]
    (block,) = compare(rows, FAST).blocks
    assert [one.choices for one in block.rows] == list(kinds.values())
    assert {
        kind: [one.label for one in of_kind] for kind, of_kind in block.rows_by_choices().items()
    } == {
        CHOICES_SHOWN: ["mcqa"],
        CHOICES_SCORED: ["cloze"],
        CHOICES_HIDDEN: ["cot"],
    }
    for pair in block.pairs:
        assert pair.asks_same == ("old" in (pair.first, pair.second))
    (alike,) = compare([row("mcqa", [1, 0]), row("generate", [1, 1])], FAST).blocks
    assert alike.rows_by_choices() == {}
    assert alike.pairs[0].asks_same


def test_the_second_test_is_that_of_the_items_read_under_both() -> None:
    rows = clear()
    pair = pair_of(compare(rows, FAST).blocks[0], "mcqa", "cot")
    read = rows[3].is_read
    assert read is not None
    expected = paired(rows[0].scores[read], rows[3].scores[read])
    assert pair.both_read == expected
    assert pair_of(compare(rows, FAST).blocks[0], "mcqa", "cloze").both_read is None


def test_second_test_of_scores_between_0_and_1_is_that_of_each_pair_alone() -> None:
    """Pairs share their draws; the p-values are those of tests by themselves within their noise."""
    rng = np.random.default_rng(5)
    scores = np.clip(rng.random((3, 80)) + np.array([[0.1], [0.0], [0.0]]), 0, 1)
    read = rng.random((3, 80)) < 0.8
    rows = [row(f"f{k}", scores[k] * read[k], read=read[k]) for k in range(3)]
    for pair in compare(rows, FAST).blocks[0].pairs:
        i, j = (int(name[1]) for name in (pair.first, pair.second))
        both = read[i] & read[j]
        alone = paired(scores[i][both], scores[j][both])
        assert pair.both_read is not None
        assert pair.both_read.difference == alone.difference
        assert pair.both_read.p == pytest.approx(alone.p, abs=0.03)


def test_of_several_replies_the_unread_share_is_what_can_make_a_difference() -> None:
    """Half of the replies to each item are read, and all of those are right."""
    half = replace(
        row("b", [0.5] * 40), is_read=np.ones(40, dtype=bool), shares_read=np.full(40, 0.5)
    )
    block = compare([row("a", [1.0] * 40), half], FAST).blocks[0]
    found, pair = block.row("b"), pair_of(block, "a", "b")
    assert (found.share_read, found.num_unread, found.bounds) == (0.5, 20, (0.5, 1.0))
    assert found.score_read is not None
    assert found.score_read.value == 1.0
    assert (pair.gap_read, pair.verdict) == (0.5, CONFOUNDED)
    assert pair.both_read is not None
    assert (pair.both_read.n, pair.both_read.difference.value) == (40, 0.0)


def test_bounds_are_all_unread_wrong_and_all_unread_right() -> None:
    scores, read = unread(right(100, 0.5, 1), 0.3, 2)
    block = compare([row("a", right(100, 0.5, 1)), row("b", scores, read=read)], FAST).blocks[0]
    found = block.row("b")
    num_unread = read.count(False)
    assert found.bounds == (sum(scores) / 100, (sum(scores) + num_unread) / 100)
    assert found.share_read == pytest.approx(1 - num_unread / 100)
    assert found.score_read is not None
    assert found.score_read.value == pytest.approx(sum(scores) / read.count(True))
    assert (block.row("a").bounds, block.row("a").share_read) == (None, None)


def test_flips_are_counted_and_listed_by_doc() -> None:
    rows = [row("a", [1, 1, 0, 0, 1]), row("b", [0, 1, 1, 0, 0])]
    block = compare(rows, replace(FAST, flips=True)).blocks[0]
    (pair,) = block.pairs
    assert pair.flips is not None
    assert (pair.flips.first, pair.flips.second) == (("0", "4"), ("2",))
    assert block.flip_counts == ((0, 2), (1, 0))
    assert block.steady == (1, 1)
    assert compare(rows, FAST).blocks[0].pairs[0].flips is None


def test_few_formats_are_compared_two_by_two_and_many_with_the_first() -> None:
    rows = [row(f"f{k}", right(60, 0.5, k)) for k in range(7)]
    few = compare(rows[:6], FAST).blocks[0]
    assert {frozenset((p.first, p.second)) for p in few.pairs} == {
        frozenset(pair) for pair in combinations([f"f{k}" for k in range(6)], 2)
    }
    many = compare(rows, FAST).blocks[0]
    assert many.family == "each against f0"
    assert all("f0" in (pair.first, pair.second) for pair in many.pairs)
    assert len(many.pairs) == 6


def test_a_named_default_is_what_all_are_set_against() -> None:
    block = compare(clear(), replace(FAST, default="generate")).blocks[0]
    assert len(block.pairs) == 3
    assert all("generate" in (pair.first, pair.second) for pair in block.pairs)
    assert block.default == "generate"
    with pytest.raises(UsageError, match=r"is not a format.*Did you mean 'generate'"):
        compare(clear(), replace(FAST, default="generat"))


def test_adjustment_follows_the_method() -> None:
    plain = [pair.result.p for pair in compare(clear(), FAST).blocks[0].pairs]
    adjusted = {
        method: [
            p.p_adjusted for p in compare(clear(), replace(FAST, method=method)).blocks[0].pairs
        ]
        for method in ("holm", "bh", "by")
    }
    smallest = min(plain)
    assert min(adjusted["holm"]) == pytest.approx(6 * smallest)
    for method in ("bh", "by"):
        assert all(a >= p for a, p in zip(adjusted[method], plain, strict=True))
    assert max(adjusted["holm"]) >= max(adjusted["bh"])
    assert max(adjusted["by"]) >= max(adjusted["bh"])


def test_clusters_reach_every_number() -> None:
    block = block_of("clustered")
    assert block.num_clusters == 40
    assert block.row("mcqa").score.method == "t over 40 clusters"
    assert all(pair.result.test.endswith("sign flips") for pair in block.pairs)
    assert block.omnibus is None
    assert block.spread is not None
    assert block.spread.num_clusters == 40
    assert block.components is not None
    assert block.components.num_clusters == 40


def test_models_under_one_format_are_compared_without_a_spread() -> None:
    (block,) = compare(models(), FAST).blocks
    assert (block.compares, block.within) == ("models", "mcqa")
    assert [row.label for row in block.rows] == ["large", "small"]
    assert block.spread is None
    assert block.components is None


def test_models_and_formats_are_compared_in_every_way_and_ranked() -> None:
    found = compare(grid(), FAST)
    assert [(block.compares, block.within) for block in found.blocks] == [
        ("formats", "large"),
        ("formats", "medium"),
        ("formats", "small"),
        ("models", "mcqa"),
    ]
    (ranking,) = found.rankings
    assert ranking.models == ("large", "medium", "small")
    assert ranking.stability.flip_rate.value == pytest.approx(2 / 3)
    assert ranking.formats[ranking.stability.most_typical or 0] in ("mcqa", "generate")
    table = np.array(ranking.scores)
    assert table[0].tolist() == [block_row.score.value for block_row in found.blocks[0].rows]


def test_one_item_is_a_comparison_without_components() -> None:
    block = compare([row("a", [1]), row("b", [0])], FAST).blocks[0]
    assert block.components is None
    assert block.pairs[0].p_adjusted == 1.0


def test_equal_scores_are_no_difference() -> None:
    block = block_of("equal")
    assert {pair.verdict for pair in block.pairs} == {EQUAL}
    assert {pair.p_adjusted for pair in block.pairs} == {1.0}


@pytest.mark.parametrize("case", CASES)
def test_every_comparison_is_json_without_loss(case: str) -> None:
    found = compare(CASES[case](), replace(FAST, flips=True)).to_dict()
    text = to_json(found)
    assert "nonfinite" not in text
    assert json.loads(text)["comparisons"][0]["rows"]


def test_the_same_seed_gives_the_same_comparison() -> None:
    assert comparison("clear").to_dict() == comparison("clear").to_dict()
    other = compare(clear(), replace(FAST, seed=5))
    assert other.blocks[0].spread != block_of("clear").spread


def test_tasks_are_compared_each_by_itself() -> None:
    rows = [*two(), row("mcqa", [1, 0, 1], task="other")]
    found = compare(rows, FAST)
    assert [block.task for block in found.blocks] == ["quiz"]
    assert found.notes == (
        "Nothing to compare: one result, other@mcqa (tiny). Add a format: `lm-eval run --tasks "
        "other@mcqa,other@cloze --output_path DIR`; or give a run of another model as well.",
    )


def test_what_differs_in_model_and_format_is_not_compared() -> None:
    rows = [row("mcqa", [1, 0], model="a"), row("cloze", [0, 0], model="b")]
    with pytest.raises(ComparisonError, match=r"@mcqa \(a\) and quiz@cloze \(b\) differ in"):
        compare(rows, FAST)


def test_nothing_at_all_is_an_error() -> None:
    with pytest.raises(ComparisonError, match="hold no result"):
        compare([], Options())


def test_different_items_are_an_error_unless_the_common_ones_are_asked_for() -> None:
    rows = [row("a", [1, 0, 1, 1]), row("b", [1, 0, 0])]
    with pytest.raises(ComparisonError, match="give --intersect"):
        compare(rows, FAST)
    block = compare(rows, replace(FAST, intersect=True)).blocks[0]
    assert block.num_items == 3
    assert block.left_out == {"quiz@a (tiny)": 1}


def test_docs_without_an_answer_are_named_where_items_differ() -> None:
    rows = [row("a", [1, 0, 1]), row("b", [1, 0], missing=1)]
    with pytest.raises(ComparisonError, match=r"has 2 \(1 got no answer\).* Run again what got no"):
        compare(rows, FAST)
