"""The table as people see it, compared with plain text files.

To regenerate the files: ``REGENERATE=1 pytest``.
"""

import io
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lm_eval.reports.table import print_results, results_table
from lm_eval.requests.values import Usage
from lm_eval.scoring.results import ReadingSummary
from lm_eval.stats.estimates import Estimate, share_estimate
from lm_eval.text.numbers import amount, cost_digits, duration, interval, number, percent
from lm_eval.text.terminal import Paragraph
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN
from tests.support.report_cases import COT, COUNTED, GENERATE, GROUPS, PRICES, RESULTS, result

TABLES = GOLDEN / "tables"
CASES = {
    "mixed": (RESULTS, GROUPS, None),
    "reading": ([COT, GENERATE], [], None),
    "plain": ([result(), result("other", right=3, n=10)], [], None),
    "costs": (COUNTED, [], PRICES),
    "costs_without_prices": (COUNTED[1:2], [], None),
}


def printed(results, groups=(), width=100, prices=None):
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    print_results(results, console, groups=groups, prices=prices)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def golden_files():
    for name, (results, groups, prices) in CASES.items():
        for width in (100, 80):
            yield f"{name}_{width}.txt", printed(results, groups, width, prices)


@pytest.mark.parametrize(("name", "text"), list(golden_files()))
def test_golden(name, text):
    assert_golden(TABLES / name, text)


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_no_line_is_too_long_and_nothing_is_lost(width):
    text = printed(RESULTS, GROUPS, width)
    assert max(map(len, text.splitlines())) <= width
    for part in (".483", "[.36, .61]", ".604", "9 truncated", ".317", "80 %", "14042"):
        assert part in text


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_costs_fit_too_and_nothing_is_lost(width):
    text = printed(COUNTED, [], width, PRICES)
    assert max(map(len, text.splitlines())) <= width
    costs = text[text.index("Cost of") :]
    for part in ("14,162", "9,876,543", "1,024", "15,083", "1 h 30 min", "1.4950", "4"):
        assert part in costs
    assert ("Retries" in costs) or ("retries: 4" in costs)
    assert ("Missing" in costs) or ("missing: 2" in costs)


def test_a_run_that_counted_nothing_shows_no_costs():
    silent = [result(usage=None), result("other", usage=Usage(wall_s=3.0))]
    assert "Cost of" not in printed(silent, prices=PRICES)


def test_a_task_with_two_filters_asked_once():
    usage = Usage(requests=10, tokens_in=70)
    twice = [result(usage=usage, filter=name) for name in ("strict", "flexible")]
    text = printed([*twice, result("other", usage=usage)])
    rows = [line.split() for line in text[text.index("Cost of") :].splitlines()[2:] if line]
    assert [row[:3] for row in rows] == [
        ["demo_mcq", "10", "70"],
        ["other", "10", "70"],
        ["total", "20", "140"],
    ]


@given(st.text(st.characters(codec=None), max_size=60))
def test_text_from_outside_is_shown_not_obeyed(text):
    hostile = result(
        f"demo@{text}",
        alias=text,
        notes=[text],
        usage=Usage(requests=1),
        readings=ReadingSummary(2, 1, Counter(unreadable=1), examples=[(0, "unreadable", text)]),
    )
    output = printed([hostile])
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert "\x07" not in output
    output.encode("utf-8")


def test_markup_is_text():
    text = printed([result("[red]x[/red]", alias="[red]x[/red] :smile:")])
    assert "[red]x[/red] :smile:" in text


def test_a_cell_of_markdown_stays_one_cell():
    assert r"a\|b\<script\>" in results_table([result(alias="a|b<script>")]).markdown()[-1]


def test_few_unread_replies_are_no_warning():
    readings = ReadingSummary(100, 95, Counter(empty=5))
    assert "WARNING" not in printed([result(readings=readings)])
    readings = ReadingSummary(100, 94, Counter(empty=6))
    assert "WARNING" in printed([result(readings=readings)])


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("truncated", "max_gen_toks"),
        ("refused", "declined"),
        ("ambiguous", "several answers"),
        ("empty", "stop string"),
        ("unreadable", "another format"),
        ("of another kind", "another format"),
    ],
)
def test_each_reason_has_a_hint(reason, hint):
    readings = ReadingSummary(4, 1, Counter({reason: 3}))
    assert hint in printed([result(readings=readings)])


def test_no_replies_at_all():
    assert "WARNING" not in printed([result(readings=ReadingSummary())])
    assert printed([]) != ""


def test_a_result_without_its_primary_metric_still_prints():
    assert "–" in printed([result(metrics={})])


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (48, 60, "80 %"),
        (0, 5, "0 %"),
        (5, 5, "100 %"),
        (0, 0, "–"),
        (1, 1000, "< 1 %"),
        (999, 1000, "> 99 %"),
        (993, 1000, "99 %"),
    ],
)
def test_percent(part, whole, text):
    assert percent(part, whole) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5123, ".512"), (1.0, "1.000"), (12.345, "12.35"), (123456.0, "1.235e+05")],
)
def test_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (245, "4 min 05 s"),
        (3599.7, "1 h 00 min"),
        (90_061, "25 h 01 min"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("cost", "total", "text"),
    [
        ("0", "1", "0.0000"),
        ("0.00001", "1", "< 0.0001"),
        ("0.00006", "1", "0.0001"),
        ("0.0123", "1", "0.0123"),
        ("0.0123", "150", "0.01"),
        ("0.0023", "150", "< 0.01"),
        ("12345.678", "12345.678", "12,345.68"),
    ],
)
def test_amount(cost, total, text):
    assert amount(Fraction(cost), cost_digits(Fraction(total))) == text


def test_interval():
    assert interval(share_estimate(31, 60)) == "[.39, .64]"
    assert interval(share_estimate(7168, 14042)) == "[.502, .519]"
    assert interval(Estimate(0.5, None, None, None, 1, "none")) == ""


@pytest.mark.parametrize(
    "tied", ["96 %", "p = 0.05", "p < 0.001", "< 1 %", "05 s", "4 min", "0.3 ± 0.1", "1.5 ×"]
)
def test_no_line_is_broken_between_a_number_and_its_unit(tied):
    said = f"Of all the replies that there are, {tied} were like this."
    for width in range(24, 60):
        stream = io.StringIO()
        Console(file=stream, width=width).print(Paragraph("• ", said))
        lines = stream.getvalue().splitlines()
        assert any(tied in line for line in lines), lines
        assert max(map(len, lines)) <= width
        assert " ".join(" ".join(lines).split()) == f"• {said}"
