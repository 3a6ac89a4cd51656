"""``math_equal``: what is equal, what is not, and laws that hold for all answers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.errors import LmEvalWarning
from lm_eval.scoring.mathematics import equal
from lm_eval.scoring.mathematics.equal import math_equal

EQUAL = [
    # as texts and numbers, without math-verify
    ("1,000", "1000"),
    ("1{,}000", "1000"),
    (r"10,\!000", "10000"),
    ("5.", "5"),
    (r"$\frac{1}{2}$", r"\frac{1}{2}"),
    (r"\(5\)", "5"),
    (r"\boxed{5}", "5"),
    (r"**5**", "5"),
    (r"\text{Evelyn}", "evelyn"),
    (r"\$3.50", "$3.5"),
    ("50 percent", "50%"),
    # by math-verify: of each kind one, and what is changed on the way to it
    (r"\frac12", "0.5"),
    (r"3\frac{1}{2}", "7/2"),
    (r"1.5\cdot10^{-3}", "0.0015"),
    ("10²", "100"),
    ("−5", "-5"),
    ("√2", r"\sqrt{2}"),
    (r"\frac{\pi}{2}", r"\frac12π"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\log_2 8", "3"),
    (r"12\text{ cm}", "12"),
    ("90°", r"90^\circ"),
    ("x = 10/2 = 5", "5"),
    ("1,2", "2, 1"),
    ("(1,2)", "( 1 , 2 )"),
    (r"(-\infty, 3]", "(-∞,3]"),
    ("x>5", r"(5,\infty)"),
    (r"\pm 3", "3, -3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{array}{c} 1 \\ 2 \\ \end{array}"),
]
DIFFERENT = [
    (r"\frac{1}{2}", r"\frac{2}{1}"),
    ("3.14", r"\pi"),
    ("1000000000000000001", "1000000000000000000"),
    ("1.0", "10"),
    ("1, 000", "1000"),
    ("5", ""),
    ("50", "0.5"),
    (r"50\%", r"0.5\%"),
    (r"\sqrt{x^2}", "x"),
    (r"3\frac{1}{2}", r"\frac{3}{2}"),
    ("x=5", "y=5"),
    ("(1,2)", "(2,1)"),
    ("[0,1)", "(0,1]"),
    ("1,2", "1,2,3"),
    (r"\text{Evelyn}", "Briana"),
    ("not 5", "5"),
    ("5 or 6", "5"),
    ("9" * 5000, "8" * 5000),
    ("2^{999999999}", "2^{999999998}"),
]


@pytest.fixture(autouse=True)
def grader():
    pytest.importorskip("math_verify")


def test_equal_and_different():
    rows = [(pair, True) for pair in EQUAL] + [(pair, False) for pair in DIFFERENT]
    rows += [((text, text), True) for pair in EQUAL for text in pair]
    wrong = [(pair, expected) for pair, expected in rows if math_equal(*pair) is not expected]
    assert not wrong


RATIONALS = st.fractions(-1000, 1000, max_denominator=1000)


def ways_to_write(number: Fraction) -> list[str]:
    over, under = number.numerator, number.denominator
    ways = [
        f"{over}/{under}",
        rf"\frac{{{over}}}{{{under}}}",
        rf"\dfrac{{{2 * over}}}{{{2 * under}}}",
        rf"$x = {over} \div {under}$",
        rf"\boxed{{\tfrac{{{over}}}{{{under}}}}}",
    ]
    if under == 1:
        ways += [str(over), f"{over}.0", rf"{over}\text{{ apples}}", f"{over:,}"]
    return ways


@given(RATIONALS, RATIONALS, st.data())
@settings(max_examples=100, deadline=None)
def test_rationals_are_equal_where_the_numbers_are(one, other, data):
    left = data.draw(st.sampled_from(ways_to_write(one)))
    right = data.draw(st.sampled_from(ways_to_write(other)))
    assert math_equal(left, right) == (one == other)
    assert math_equal(left, data.draw(st.sampled_from(ways_to_write(one))))


SIGNS = r"1 2 x + - / ^ { } ( ) , = \frac \sqrt \pi \text{cm} % [ ] \{ \} _ ! . | \cup < \pm $ e"


@given(st.lists(st.sampled_from([" ", *SIGNS.split()]), max_size=12).map("".join), st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_has_a_verdict(formula, text):
    assert math_equal(formula, "5") in (True, False)
    assert math_equal(formula, text) in (True, False)


HOSTILE = ["9^{9^{9^{9}}}", "99999999!", "(9^{99999})^{99999}", "{" * 1900, "x" * 1_000_000]


def test_hostile_formulas_are_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(equal, "MAX_S", 0.5)
    mark = tmp_path / "run"
    for text in [*HOSTILE, f"__import__('pathlib').Path('{mark}').touch()"]:
        assert not math_equal(text, "5")
        assert math_equal(text, text)
        assert math_equal(r"\sqrt{25}", "5")
    assert not mark.exists()


def test_without_math_verify_plain_numbers_and_texts_are_compared(monkeypatch):
    monkeypatch.setattr(equal, "find_spec", lambda _name: None)
    equal._is_installed.cache_clear()
    math_equal.cache_clear()
    try:
        assert math_equal("1/2", "0.5")
        assert math_equal(r"\text{Evelyn}", "evelyn")
        with pytest.warns(LmEvalWarning, match=r"pip install 'lm-eval-formats\[math\]'"):
            assert not math_equal(r"\sqrt{4}", "2")
        assert not math_equal(r"\sqrt{9}", "3")
    finally:
        equal._is_installed.cache_clear()
        math_equal.cache_clear()
