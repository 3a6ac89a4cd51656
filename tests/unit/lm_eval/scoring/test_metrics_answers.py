"""When two free-text answers are the same: tables to read, and what holds for any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.formats.assemble import spoken
from lm_eval.formats.compile import general_names, get_format
from lm_eval.formats.items import build_item
from lm_eval.formats.readers import NO_ANSWER
from lm_eval.scoring.metrics import (
    TextOutcome,
    as_number,
    is_right_leniently,
    normal_form,
    only_number,
    same_answer,
)

SAME = """
# what is written | gold
Paris | Paris
paris. | Paris
**Paris** | Paris
"Paris" | Paris
  Paris   | Paris
New   York | new york
# articles in front
the heart | heart
A dog | dog
heart | The heart
The Hague | the Hague
# yes and no
YES | yes
No. | no
Yes. It rises in the east. | yes
No. The sun does not. | no
# a remark in a sentence of its own
Paris. I hope it is correct. | Paris
Paris! That was easy. | Paris
Paris. It is the capital. It is large. | Paris
St. Louis. I hope it is correct. | St. Louis
the U.S. | U.S.
東京。これは首都です。 | 東京
It sat. Then it ran. | It sat. Then it ran.
It sat. Then it ran. I hope it is correct. | It sat. Then it ran.
42. I hope it is correct. | 42
42 apples. That took 3 steps. | 42
I counted them all. There are 42. | 42
# numbers
42 | 42.0
042 | 42
+42 | 42
-5 | −5
.5 | 0.5
1e3 | 1000
1.5 × 10^3 | 1500
1,234,567 | 1234567
1 234 567 | 1234567
1,234.50 | 1234.5
４２ | 42
٤٢ | 42
It is 42. | 42
x = 42 | 42
about 42 | 42
42 more | 42
42 times | 42
# units
42 apples | 42
42 km | 42
42km | 42 km
1,234 km | 1234 km
20 °C | 20°C
# currencies and percent
$5 | 5
5 | $5
$5.00 | $5
5 dollars | $5
$5 | 5 dollars
5 € | €5
50% | 50
50 | 50%
50 percent | 50%
# fractions
3/4 | 0.75
0.75 | 3/4
6/8 | 3/4
\\frac{3}{4} | 3/4
1/3 | 2/6
1 1/2 | 1.5
3/4 cup | 0.75
# Unicode forms
Café | Cafe\u0301
Ｐａｒｉｓ | Paris
ﬁsh | fish
straße | STRASSE
don’t | don't
1914–1918 | 1914-1918
10² | 10²
# dates
July 4, 1776 | july 4, 1776
1776-07-04 | 1776-07-04
in 1776 | 1776
3:30 | 3:30
"""

DIFFERENT = """
# what is written | gold
London | Paris
Parisian | Paris
# what continues the sentence belongs to the answer
Paris or London | Paris
Paris is wrong | Paris
Paris, or maybe London | Paris
Paris, France | Paris
not Paris | Paris
Not Paris. I hope it is correct. | Paris
It is not Paris. | Paris
yes and no | yes
Yes, it is | yes
# what is taken back, or doubted
Paris. No, London. | Paris
Paris. Wait, that's wrong. | Paris
Paris. It is large. Actually, London. | Paris
Paris. Or London. | Paris
Paris. Maybe London. | Paris
42. No, wait. | 42
# the gold is more, or an abbreviation's start
It sat. | It sat. Then it ran.
St. Louis | St
J. K. Rowling | J
No. 5 | no
Paris. | Paris. It is large.
# numbers: denied, compared, scaled, several
not 42 | 42
it isn't 42 | 42
between 40 and 42 | 42
40 or 42 | 42
40-42 | 42
more than 42 | 42
at least 42 | 42
over 42 | 42
<42 | 42
≥ 42 | 42
x > 42 | 42
42 million | 42
2 dozen | 2
42½ | 42
3½ | 3
10² | 102
10^2 | 10
2x | 2
5k | 5
-42 | 42
minus 42 | 42
4.2 | 42
H2O | 2
# words are not digits, and a decimal comma may be a list
forty-two | 42
42 | forty-two
1,5 | 1.5
# units and currencies
42 km | 42 miles
42 | 42 km
€5 | $5
5 euros | $5
0.5 | 50%
# fractions
0.33 | 1/3
3/4 | 4/3
# dates are compared as written
4 July 1776 | July 4, 1776
07/04/1776 | 1776-07-04
July 4, 1776 | 1776
1776-07-04 | 4
3:30 | 3
# letters are not their look-alikes
naive | naïve
"""


def rows(table: str) -> list[tuple[str, str]]:
    lines = (line for line in table.splitlines() if line and not line.startswith("#"))
    return [(written, gold) for written, gold in (line.split(" | ") for line in lines)]


@pytest.mark.parametrize(("written", "gold"), rows(SAME))
def test_same(written: str, gold: str) -> None:
    assert same_answer(written, gold)


@pytest.mark.parametrize(("written", "gold"), rows(DIFFERENT))
def test_different(written: str, gold: str) -> None:
    assert not same_answer(written, gold)


@pytest.mark.parametrize("sign", ["?", "...", "$", "()"])
def test_signs_alone_are_compared_as_written(sign: str) -> None:
    assert same_answer(f" {sign} ", sign)
    assert not same_answer("!", sign)
    assert not same_answer("", sign)


def test_numbers_in_plain_form() -> None:
    assert as_number("$1,234.50") == "1234.5"
    assert as_number("3%") == "3"
    assert as_number("3 apples") is None
    assert as_number("") is None
    assert only_number("3 apples") == "3"
    assert only_number("3 apples, 4 pears") is None
    assert normal_form("The 1,234 km.") == "1234km"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_text_is_the_same_as_itself(text: str) -> None:
    assert same_answer(text, text)


@given(st.text(max_size=80), st.text(max_size=20))
def test_any_two_texts_are_compared(written: str, gold: str) -> None:
    assert same_answer(written, gold) in (True, False)


SENTENCE = st.lists(st.text("bcdefghjklmnopqrstuvwxyzäöüßéñ", min_size=3, max_size=9), min_size=1)
GOLD = st.lists(SENTENCE.map(" ".join).map(str.capitalize), min_size=1, max_size=4).map(". ".join)


@settings(max_examples=200)
@given(gold=GOLD, end=st.sampled_from(["", ".", "!"]))
def test_a_gold_of_several_sentences_is_read_back(gold: str, end: str) -> None:
    """A gold of several lines is not: an answer is one line, and its other lines stay unread."""
    cot = get_format("cot")
    item = build_item({}, "q", None, gold + end, answers="text")
    written = cot.shot_turn(item).answer
    reading = cot.read(f"I think. {written}", item)
    assert same_answer(str(reading.value), gold + end)


TEXT_FORMATS = [name for name in general_names() if get_format(name).reads_text]


@pytest.mark.parametrize("name", TEXT_FORMATS)
@given(choices=st.lists(GOLD, min_size=2, max_size=5, unique_by=str.casefold), data=st.data())
def test_choices_of_several_sentences_are_read_back(
    name: str, choices: list[str], data: st.DataObject
) -> None:
    fmt = get_format(name)
    places = list(range(len(choices)))
    gold = data.draw(st.sampled_from(places))
    target = places[gold:] + places[:gold] if fmt.answers == "order" else gold
    item = build_item({}, "q", [f"{choice}." for choice in choices], target, answers=fmt.answers)
    shot = fmt.shot_turn(item)
    reading = fmt.read(spoken(shot), item, is_prefilled=False)
    if fmt.answers == "text":
        assert same_answer(str(reading.value), str(item.gold[0]))
    elif fmt.answers == "order":
        assert tuple(reading.value) in item.gold
    else:
        assert reading.value in item.gold


def test_only_the_first_line_of_a_gold_is_read() -> None:
    cot = get_format("cot")
    item = build_item({}, "q", None, "one\ntwo", answers="text")
    assert cot.read(str(cot.shot_turn(item).answer), item).value == "one"
    assert not same_answer("one", "one\ntwo")
    assert same_answer("one two", "one\ntwo")


@pytest.mark.parametrize("piece", ["A. B", "aa. Aa ", "1 ", "$5 ", "½", "no. No, ", "٤"])
def test_a_long_answer_is_compared_without_a_detour(piece: str) -> None:
    """In linear time: what is quadratic would not come back."""
    assert not same_answer(piece * 100_000, "42")
    assert not same_answer(piece * 100_000, "Paris")


LENIENT = r"""
#### $694 | 694
#### \$694 | 694
#### 694 dollars for 3 days | 694
#### **1,234** | 1234
#### 1,234.50 units | 1234.5
#### 20% | 20
#### x = 18 | 18
#### $694 (rounded from $694.35) | 694
#### £1 200 | 1200
####18 | 18
A: 3.5 billion | 3500000000
The answer is 18 eggs in 2 baskets. | 18
So she makes $18 every day. | 18
It takes 3 days, so \boxed{18} for all of 2 weeks | 18
"""
NOT_LENIENT = r"""
#### 18 | 19
#### 18 or 19 | 19
#### 3 hours 20 minutes | 20
She has 18 eggs. The answer is 5. | 18
no number | 18
<think>#### 18</think> | 18
"""


def test_lenient_numbers():
    rows = [(row, True) for row in LENIENT.strip().split("\n")]
    rows += [(row, False) for row in NOT_LENIENT.strip().split("\n")]
    wrong = []
    for row, expected in rows:
        reply, gold = row.split(" | ")
        outcome = TextOutcome(reply, NO_ANSWER, (gold,), "text")
        if is_right_leniently(outcome) is not expected:
            wrong.append(row)
    assert not wrong


def test_answers_of_signs_alone_are_compared_sign_by_sign():
    for answer, gold, same in [("] )", "] )", True), ("> ]", ">", False), (")", ") )", False)]:
        assert same_answer(answer, gold) is same
