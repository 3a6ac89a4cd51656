"""What people read of a comparison, compared with plain text files.

To regenerate the files: ``REGENERATE=1 pytest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from lm_eval.lab.compare.findings import fewest_units
from lm_eval.lab.compare.statistics import compare
from lm_eval.lab.compare.tables import (
    pictures,
    ranking_sentences,
    sections,
)
from lm_eval.lab.compare.values import ComparisonReport
from lm_eval.lab.report import print_report, to_markdown
from lm_eval.lab.show.phrases import chance, round_up
from lm_eval.lab.show.plots import FlipsPlot
from lm_eval.lab.words import sentences
from lm_eval.support.numbers import joined, listed, number, signed
from tests.support.comparison_cases import CASES, FAST, clear, comparison, grid, right, row, two
from tests.support.consoles import printed_by
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN

COMPARISONS = GOLDEN / "comparisons"


def printed(
    found: ComparisonReport, *, width: int = 100, flips: int | None = None, explains: bool = True
) -> str:
    show = partial(print_report, sections(found, flips=flips, explains=explains))
    return printed_by(show, width)


def golden_files() -> Iterator[tuple[str, str]]:
    for case in CASES:
        yield f"{case}.txt", printed(comparison(case), explains=False)


@pytest.mark.parametrize(("name", "text"), list(golden_files()))
def test_golden(name: str, text: str) -> None:
    assert_golden(COMPARISONS / name, text)


def test_no_golden_file_is_left_over() -> None:
    assert {file.name for file in COMPARISONS.iterdir()} == {f"{case}.txt" for case in CASES}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_console(case: str, width: int) -> None:
    text = printed(compare(CASES[case](), replace(FAST, flips=True)), width=width, flips=5)
    wide = [line for line in text.splitlines() if len(line) > width]
    assert not wide


def test_four_formats_fit_on_a_screen() -> None:
    for case in ("clear", "noise", "unclear"):
        lines = printed(comparison(case), explains=False).splitlines()
        assert len(lines) <= 30, case
        assert not any("resamples in which" in line for line in lines)


def test_where_no_table_fits_every_number_stands_on_lines_of_its_own() -> None:
    found = comparison("clear")
    text = printed(found, width=40)
    said = " ".join(text.split())
    for one in found.blocks[0].rows:
        assert f"{one.label} acc {number(one.score.value)}, 95 % CI [" in said
    for pair in found.blocks[0].pairs:
        assert f"{pair.first} > {pair.second} Difference" in said
    assert max(map(len, text.splitlines())) <= 40


def test_few_clusters_do_not_hide_that_the_format_matters() -> None:
    clusters = tuple(str(place // 30) for place in range(180))
    rows = [
        row(name, right(180, share, 1), clusters=clusters)
        for name, share in zip("abc", (0.9, 0.5, 0.1), strict=True)
    ]
    first, *others = sentences(compare(rows, FAST).blocks[0])
    assert first.startswith("The format matters: best − worst = ")
    assert any("6 clusters are too few to tell any difference from chance" in one for one in others)


def test_an_explained_report_has_every_number() -> None:
    text = printed(compare(clear(), replace(FAST, flips=True)), flips=2)
    for part in (
        "Format     acc  95 % CI     Parsed  acc if parsed  At most   Best",
        "cot       .420  [.35, .49]    64 %           .651     .775    0 %",
        "Best − worst  .245 [.154, .320]; by chance .047 on average, ≤ .085 in 95 % of cases;",
        "All together  Cochran Q",
        "Items         57 right under all, 62 under none, 81 depend on the format",
        "Intervals     scores wilson; differences tango",
        "Flipped       right under mcqa, not under generate: doc ",
        " and 14 more\n",
    ):
        assert part in text


def test_notes_are_said_once() -> None:
    text = printed(compare(grid(), FAST), width=200)
    assert text.count("Flips         items right under the first alone") == 1
    assert text.count("The format matters: best − worst = ") == 3


def test_markdown_has_the_words_and_the_tables() -> None:
    text = to_markdown(sections(comparison("clear")))
    assert text.startswith("## quiz · 200 items · 4 formats · tiny\n\n| Format | acc | 95 % CI |")
    assert "\n\n- The format matters: best − worst = " in text
    assert "\n- Real: mcqa \\> cloze +" in text
    assert "| mcqa \\> cot | +.24 \\[.18, .31\\] | \\< .001 |" in text
    assert "\n- All together: Cochran Q = " in text


def test_names_of_conditions_keep_their_commas_apart() -> None:
    kinds = (("mcqa", "shown"), ("generate", "shown"), ("cot", "hidden"))
    rows = [
        replace(
            row(name, right(40, 0.2 + 0.02 * shots, 7)),
            num_fewshot=shots,
            condition=f"{name}, {shots}-shot",
            choices=kind,
        )
        for name, kind in kinds
        for shots in (0, 5)
    ]
    text = " ".join(printed(compare(rows, FAST), width=80).split())
    assert (
        "Choices shown under mcqa, 0-shot; mcqa, 5-shot; generate, 0-shot; 1 more; hidden" in text
    )
    assert "mcqa, 5-shot > mcqa, 0-shot better: " in text


def test_names_are_data() -> None:
    rows = [row("[bold]\x1b[31m", right(30, 0.5, 1)), row("b|*", right(30, 0.9, 2))]
    text = printed(compare(rows, FAST))
    assert "[bold]\\x1b[31m" in text
    assert "\x1b" not in text
    assert "b\\|\\*" in to_markdown(sections(compare(rows, FAST)))


def test_costs_stand_beside_the_scores() -> None:
    usage = {"requests": 1200, "tokens_in": 54321, "tokens_out": 99, "wall_s": 75.0, "cost": 0.0123}
    rows = [replace(one, usage=usage) for one in two()]
    text = printed(compare(rows, FAST), width=140)
    assert "1,200  54,321 + 99  1 min 15 s  0.0123" in text


def test_metrics_of_different_names_are_named() -> None:
    first, second = two()
    text = printed(compare([first, replace(second, metric="acc_norm")], FAST))
    assert "cloze   acc_norm   .458" in text


@pytest.mark.parametrize(("pairs", "fewest"), [(1, 6), (3, 7), (6, 8), (15, 10)])
def test_fewest_items_are_those_with_which_a_difference_can_be_real(
    pairs: int, fewest: int
) -> None:
    """All items favour one side: just so many make it real, one fewer does not."""
    num_rows = next(k for k in range(2, 9) if k * (k - 1) // 2 == pairs)
    for n in (fewest - 1, fewest):
        ones, zeros = [1] * n, [0] * n
        rows = [row("a", ones)] + [row(f"b{k}", zeros) for k in range(num_rows - 1)]
        block = compare(rows, FAST).blocks[0]
        assert fewest_units(block) == fewest
        assert any(pair.is_significant for pair in block.pairs) == (n >= fewest)


def test_one_item_is_counted_as_one() -> None:
    rows = [row("mcqa", [1]), row("cloze", [0]), row("cot", [0])]
    text = printed(compare(rows, FAST))
    assert "quiz · 1 item · 3 formats · tiny" in text
    rows = [row("mcqa", [1, 1, 0]), row("cloze", [0, 1, 0]), row("cot", [0, 1, 0])]
    text = printed(compare(rows, FAST))
    assert "Items         1 right under all, 1 under none, 1 depends on the format\n" in text


def test_methods_of_intervals_are_named_once_and_few_clusters_apart() -> None:
    clusters = tuple(f"p{place // 5}" for place in range(40))
    scores = right(40, 0.5, 1), right(40, 0.5, 1), right(40, 0.6, 2)
    rows = [row(f"f{k}", one, clusters=clusters) for k, one in enumerate(scores)]
    text = " ".join(printed(compare(rows, FAST)).split())
    over = "t over 8 clusters"
    assert f"Intervals scores {over}; differences {over} Clusters 8 are few: below 30" in text


def test_of_two_formats_none_is_more_like_the_others() -> None:
    three = compare(grid(), FAST).rankings[0]
    assert any("most like the other formats" in one for one in ranking_sentences(three))
    names = list(dict.fromkeys(one.format for one in grid()))[:2]
    two_of_them = compare([one for one in grid() if one.format in names], FAST).rankings[0]
    assert two_of_them.stability.flip_rate.value != 0
    assert not any("most like" in one for one in ranking_sentences(two_of_them))


def test_answers_are_given_under_a_format_and_with_a_model() -> None:
    some = [place % 2 == 0 for place in range(40)]
    rows = [
        replace(row("cot", [1] * 40), model="large"),
        replace(row("cot", [1 if one else 0 for one in some], read=some), model="small"),
    ]
    (block,) = (found := compare(rows, replace(FAST, flips=True))).blocks
    text = " ".join(printed(found, flips=2).split())
    assert (block.compares, " under " in text) == ("models", False)
    for part in (
        "Confounded small trails large by .50 (p < .001), but 50 % of its replies contain no answer.",
        "Flips items right with the first alone – with the second alone",
        "Both parsed difference and p on the items parsed with both",
        "over those parsed with the second",
        "Items 20 right with all, 0 with none, 20 depend on the model",
        "Flipped right with large, not with small: doc ",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("gap", "says"), [(0.05, "Chance in the items can still change the order"), (0.6, "")]
)
def test_an_order_that_no_format_changes_is_not_said_to_change_with_formats(
    gap: float, says: str
) -> None:
    rows = [
        row(name, right(60, share, seed), model=model)
        for model, share, seed in (("large", 0.3 + gap, 3), ("small", 0.3, 4))
        for name in ("mcqa", "cloze")
    ]
    (ranking,) = compare(rows, FAST).rankings
    text = " ".join(ranking_sentences(ranking))
    assert text.startswith("Every format ranks the models alike")
    assert "the format does" not in text
    assert ("between halves" in text) == bool(says)
    assert says in text


def test_what_is_detectable_is_said_of_one_comparison() -> None:
    """Adjusting for several makes every single difference harder to find."""
    for case, count in (("two_alike", 1), ("noise", 6)):
        found = comparison(case)
        assert len(found.blocks[0].pairs) == count
        text = " ".join(printed(found).split())
        assert text.count("4 of 5 such runs find") == 1
        assert ("4 of 5 such runs find (of one comparison)" in text) == (count > 1)


@pytest.mark.parametrize("method", ["bh", "by"])
def test_the_share_of_false_findings_is_an_upper_bound(method: str) -> None:
    text = " ".join(printed(compare(clear(), replace(FAST, method=method))).split())
    assert "of the pairs with p < .05, at most 1 in 20 on average is chance" in text


def test_pieces_of_sentences() -> None:
    assert [chance(value) for value in (0.0, 1e-6, 0.25, 0.9999, 1.0)] == [
        *("0 %", "< 1 %", "25 %", "> 99 %", "100 %"),
    ]
    assert [joined(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        *("", "a", "a and b", "a, b and c"),
    ]
    assert [listed(names) for names in (["a", "b", "c"], ["a, 0-shot", "a, 5-shot", "b"])] == [
        *("a, b and c", "a, 0-shot; a, 5-shot; b"),
    ]
    assert [signed(value) for value in (0.244, -0.1, 0.0, -0.001, 1.5, None)] == [
        *("+.24", "−.10", ".00", ".00", "+1.50", "–"),
    ]
    assert [round_up(count) for count in (0.2, 7.5, 99, 101, 1234.5)] == [1, 8, 99, 110, 1300]


def test_where_less_is_better_nothing_is_called_right() -> None:
    rows = [row("a", [0] * 30, higher_is_better=False), row("b", [1] * 30, higher_is_better=False)]
    rows[1] = replace(rows[1], is_read=np.array([False] * 3 + [True] * 27))
    text = printed(compare(rows, replace(FAST, flips=True)), flips=2)
    said = " ".join(text.split())
    assert "Real a > b −1.00 [" in said
    assert "items better under the first alone" in said
    assert "better under a, not under b: doc 0, 1 and 28 more" in said
    assert "Items 0 of score 1 under all, 0 under none" in said
    assert "Lower is better: “>” means better." in said


@pytest.mark.parametrize(
    ("case", "rows", "columns"),
    [
        ("two", "right under this format …", "… and wrong under this one"),
        ("models", "right with this model …", "… and wrong with this one"),
        ("losses", "better under this format …", "… and worse under this one"),
    ],
)
def test_the_flip_matrix_says_what_its_sides_are(case: str, rows: str, columns: str) -> None:
    plots = dict(pictures(comparison(case)))
    (flips,) = [plot for plot in plots.values() if isinstance(plot, FlipsPlot)]
    assert flips.sides == (rows, columns)
