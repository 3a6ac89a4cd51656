"""Numbers as people read them."""

from fractions import Fraction

import pytest

from lm_eval.stats.estimates import Estimate, share_estimate
from lm_eval.support.numbers import amount, cost_digits, duration, interval, number, percent


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
