"""What a run cost, and what a dry run would cost, compared with plain text files.

To regenerate the files: ``REGENERATE=1 pytest``.
"""

import pytest

from lm_eval.reports.costs import Forecast, print_costs, print_forecasts
from lm_eval.requests.values import Estimated, Usage
from tests.support.consoles import printed_by
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN
from tests.support.report_cases import COUNTED as RESULTS
from tests.support.report_cases import PRICES, result

TABLES = GOLDEN / "tables"


def estimated(requests, tokens_in, tokens_out, counted_with=None):
    (fewest, most), (low, high) = requests, tokens_in
    return Estimated(
        least=Usage(requests=fewest, tokens_in=low),
        most=Usage(requests=most, tokens_in=high, tokens_out=tokens_out),
        counted_with=counted_with,
    )


GUESSED = [
    Forecast("demo_mcq@cot", 80, estimated((80, 80), (4_793, 4_793), 81_920)),
    Forecast("demo_mcq@cloze", 80, estimated((320, 320), (5_856, 5_856), 0)),
]
COUNTED = [
    Forecast(
        "mmlu_all_subjects_together",
        14_042,
        estimated((14_042, 56_168), (9_876_543, 39_618_508), 56_168, "gpt2"),
    ),
    Forecast("demo_mcq@generate", 80, estimated((80, 80), (6_462, 6_462), 20_480, "gpt2")),
]
CASES = {
    "forecast_guessed": (GUESSED, None),
    "forecast_counted": (COUNTED, PRICES),
    "forecast_one": (GUESSED[:1], PRICES),
}


def printed(forecasts, prices=None, width=100):
    return printed_by(lambda console: print_forecasts(forecasts, console, prices=prices), width)


def printed_costs(results, prices=None, width=100):
    return printed_by(lambda console: print_costs(results, console, prices), width)


def golden_files():
    for name, (forecasts, prices) in CASES.items():
        for width in (100, 80):
            yield f"{name}_{width}.txt", printed(forecasts, prices, width)
    for width in (100, 80):
        yield f"costs_{width}.txt", printed_costs(RESULTS, PRICES, width)
        yield f"costs_without_prices_{width}.txt", printed_costs(RESULTS[1:2], None, width)


@pytest.mark.parametrize(("name", "text"), list(golden_files()))
def test_golden(name, text):
    assert_golden(TABLES / name, text)


@pytest.mark.parametrize("width", [60, 70, 140])
def test_no_line_is_too_long_and_nothing_is_lost(width):
    text = printed(COUNTED, PRICES, width)
    assert max(map(len, text.splitlines())) <= width
    for part in ("14,122", "14,042", "9,876,543", "76,648", "1.4825", "gpt2"):
        assert part in text


def test_what_is_counted_and_what_is_guessed_is_said():
    mixed = printed([*GUESSED, *COUNTED])
    assert "gpt2" in mixed
    assert "guessed" in mixed
    rows = {line.split("  ")[0]: line for line in mixed.splitlines()}
    assert "≈" in rows["demo_mcq@cot"]
    assert "≈" not in rows["demo_mcq@generate"]
    assert "≈" in rows["total"]
    assert "≈" not in printed(COUNTED)


def test_names_are_shown_not_obeyed():
    hostile = Forecast("a\x1b[31m[red]x", 1, estimated((1, 1), (1, 1), 0, "t\x1bk"))
    assert "\x1b" not in printed([hostile])
    assert "[red]x" in printed([hostile])


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_costs_fit_and_nothing_is_lost(width):
    text = printed_costs(RESULTS, PRICES, width)
    assert max(map(len, text.splitlines())) <= width
    for part in ("14,162", "9,876,543", "1,024", "15,083", "1 h 30 min", "1.4950", "4"):
        assert part in text
    assert ("Retries" in text) or ("retries: 4" in text)
    assert ("Missing" in text) or ("missing: 2" in text)


def test_a_run_that_counted_nothing_shows_no_costs():
    silent = [result(usage=None), result("other", usage=Usage(wall_s=3.0))]
    assert printed_costs(silent, PRICES) == ""


def test_a_task_with_two_filters_asked_once():
    usage = Usage(requests=10, tokens_in=70)
    twice = [result(usage=usage, filter=name) for name in ("strict", "flexible")]
    text = printed_costs([*twice, result("other", usage=usage)])
    rows = [line.split() for line in text.splitlines()[3:] if line]
    assert [row[:3] for row in rows] == [
        ["demo_mcq", "10", "70"],
        ["other", "10", "70"],
        ["total", "20", "140"],
    ]
