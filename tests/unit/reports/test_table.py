"""The table as people see it, compared with plain text files.

To write the files anew after a change you meant: ``python tests/unit/reports/test_table.py``.
"""

import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import COT, GENERATE, GROUPS, RESULTS, result
from rich.console import Console

from lm_eval.reports.table import interval, number, percent, print_results, results_markdown
from lm_eval.scoring.results import ReadingSummary
from lm_eval.stats.intervals import Estimate, share_estimate

GOLDEN = Path(__file__).parents[2] / "golden" / "tables"
CASES = {
    "mixed": (RESULTS, GROUPS),
    "reading": ([COT, GENERATE], []),
    "plain": ([result(), result("other", right=3, n=10)], []),
}


def printed(results, groups=(), width=100):
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    print_results(results, console, groups=groups)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def golden_files():
    for name, (results, groups) in CASES.items():
        for width in (100, 80):
            yield f"{name}_{width}.txt", printed(results, groups, width)
        yield f"{name}.md", results_markdown(results, groups)


@pytest.mark.parametrize(("name", "text"), list(golden_files()))
def test_golden(name, text):
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_no_line_is_too_long_and_nothing_is_lost(width):
    text = printed(RESULTS, GROUPS, width)
    assert max(map(len, text.splitlines())) <= width
    for part in ("0.483", "[0.36, 0.61]", "0.604", "9 truncated", "0.317", "80 %", "14042"):
        assert part in text


@given(st.text(st.characters(codec=None), max_size=60))
def test_text_from_outside_is_shown_not_obeyed(text):
    hostile = result(
        f"demo@{text}",
        alias=text,
        notes=[text],
        readings=ReadingSummary(2, 1, Counter(unreadable=1), examples=[(0, "unreadable", text)]),
    )
    for output in (printed([hostile]), results_markdown([hostile])):
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert "\x07" not in output
        output.encode("utf-8")


def test_markup_is_text():
    text = printed([result("[red]x[/red]", alias="[red]x[/red] :smile:")])
    assert "[red]x[/red] :smile:" in text


def test_a_cell_of_markdown_stays_one_cell():
    text = results_markdown([result(alias="a|b<script>")])
    assert r"a\|b\<script\>" in text


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
    [(0.5123, "0.512"), (1.0, "1.000"), (12.345, "12.35"), (123456.0, "1.235e+05")],
)
def test_number(value, text):
    assert number(value) == text


def test_interval():
    assert interval(share_estimate(31, 60)) == "[0.39, 0.64]"
    assert interval(share_estimate(7168, 14042)) == "[0.502, 0.519]"
    assert interval(Estimate(0.5, None, None, None, 1, "none")) == "–"


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, text in golden_files():
        (GOLDEN / name).write_text(text, encoding="utf-8")
