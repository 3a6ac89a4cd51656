"""The reader of numbers: ``1,234``, ``$12.50``, ``3/4``, ``1.5 × 10^3`` → one plain form."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, last_cue, phrase_pattern

_SIGN = r"(?:(?<![\w)\]}.])[-+])?"
_NUMBER = re.compile(
    rf"""(?P<odd>√|\\sqrt\s?\{{?)?  # a root is not a plain number
    (?<![A-Za-z_])(?<![\d.])(?P<sign>{_SIGN})\s?[$€£¥₹]?(?<!\d\s)
    (?:
      \\[dt]?frac\{{(?P<top>-?\d{{1,300}})\}}\{{(?P<bottom>\d{{1,300}})\}}
      | (?P<whole>\d{{1,300}})[ ](?P<over>\d{{1,300}})/(?P<under>\d{{1,300}})(?![\d/.,])
      | (?P<num>\d{{1,300}})\s?/\s?(?P<den>\d{{1,300}})(?![\d/.,]\d)
      | (?P<digits>\d{{1,3}}(?:[ ]\d{{3}})+(?![\d ]*\d)(?:[.,]\d+)?|\d+(?:[.,:'/-]\d+)*|\.\d+)
        (?P<exponent>[eE][-+]?\d{{1,9}}(?!\w)
          |\s?(?:×|\\times|\*|x)\s?10\s?\^\s?\{{?[-+]?\d{{1,9}}\}}?)?
    )
    (?P<power>\s?\^\s?[{{(]?-?\w*|\*\*\d+|[²³]|\s?(?:π|\\pi))?""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_POINTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?")  # 1.234.567,89
_GROUPED = re.compile(r"\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?")
_PLAIN = re.compile(r"\d*\.?\d+")
_CALCULATION = re.compile(r"\s*(?:[+×÷*=]|\\times|\\cdot|-\s)\s*[\d$(\\-]")
_LARGEST_EXPONENT = 400


@register_reader("number")
def number(
    text: str, *, phrase: str | None = None, which: Literal["last", "first"] = "last"
) -> Reading:
    """Read a number in plain form: ``$1,234.50`` → ``1234.5``, ``3/4`` → ``0.75``, ``5%`` → ``5``.

    With ``phrase``, the number on the line behind its last occurrence; ``which`` is for replies
    read as a whole. A fraction without a finite decimal form stays one: ``1/3``. What may be two
    numbers or one (``1,5``, ``3:30``) and what is not a number yet (``2^3``, ``3π``) is ambiguous.
    """
    folded = fold(text)
    if phrase and phrase.strip():
        return _number_after(folded, phrase).by("number")
    numbers = list(_NUMBER.finditer(folded))
    return _reading(numbers[-1 if which == "last" else 0]).by("number") if numbers else NO_ANSWER


def numbers_in(text: str) -> list[str] | None:
    """Every number in ``text``, in plain form; None if one of them can be understood in two ways.

    A range or a date (``40-42``, ``1969-07-20``) is not a number.
    """
    values = [
        None if "-" in (match["digits"] or "") else _value(match)
        for match in _NUMBER.finditer(fold(text))
    ]
    plain = [value for value in values if value is not None]
    return plain if len(plain) == len(values) else None


def _number_after(text: str, phrase: str) -> Reading:
    """The number on the line behind the phrase; the result, where the line is a calculation."""
    text, cue_span = last_cue(text, phrase_pattern(phrase))
    line = re.compile(r"[\s:*_]*([^\n]*)").match(text, cue_span[1]) if cue_span else None
    if line is None:
        return NO_ANSWER
    start, end = line.span(1)
    match = _NUMBER.search(text, start, end)
    if match is not None and _CALCULATION.match(text, match.end(), end):
        equals = text.rfind("=", start, end)
        match = _NUMBER.search(text, equals, end) if equals >= 0 else None
        if match is None:
            return AMBIGUOUS
    return _reading(match) if match is not None else NO_ANSWER


def _reading(match: re.Match[str]) -> Reading:
    value = _value(match)
    if value is None:
        return AMBIGUOUS
    start, end = match.span()
    padding = len(match[0]) - len(match[0].lstrip())
    return Reading(value, span=(start + padding, end))


def _value(match: re.Match[str]) -> str | None:
    """The number in plain form, or None where the digits can be understood in two ways."""
    if match["odd"] or match["power"]:
        return None
    sign = "-" if match["sign"] == "-" else ""
    if match["digits"] is None:
        return _of_fraction(match, sign)
    digits = _ungrouped(match["digits"])
    if digits is None:
        return None
    return _scaled(sign, digits, match["exponent"]) if match["exponent"] else _plain(sign, digits)


def _of_fraction(match: re.Match[str], sign: str) -> str | None:
    whole = int(match["whole"] or 0)
    top = match["top"] or match["over"] or match["num"]
    bottom = int(match["bottom"] or match["under"] or match["den"])
    if not bottom:
        return None
    value = whole + Fraction(int(top), bottom)
    return fraction_text(-value if sign else value)


def _ungrouped(digits: str) -> str | None:
    """Digits without thousands separators, with a point; None if they can mean two things."""
    if _PLAIN.fullmatch(digits):
        return digits
    if _THOUSANDS.fullmatch(digits):
        return digits.replace(",", "")
    if _POINTS.fullmatch(digits):
        return digits.replace(".", "").replace(",", ".")
    if _GROUPED.fullmatch(digits):
        return re.sub("[ ']", "", digits).replace(",", ".")
    if "-" in digits and not set(digits) & set(",:'/"):  # a range or date: its last part
        return digits.rsplit("-", 1)[1]
    return None


def _plain(sign: str, digits: str) -> str:
    """Digits of any length without superfluous zeros."""
    whole, _, decimals = digits.partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    text = f"{whole}.{decimals}" if decimals else whole
    return text if text == "0" else sign + text


def _scaled(sign: str, digits: str, exponent: str) -> str | None:
    power = int(re.findall(r"[-+]?\d+", exponent)[-1])
    if abs(power) > _LARGEST_EXPONENT or len(digits) > _LARGEST_EXPONENT:
        return None
    value = Fraction(digits) * Fraction(10) ** power
    return fraction_text(-value if sign else value)


def fraction_text(value: Fraction) -> str:
    """``value`` as a decimal where it has a finite one, else as ``p/q``."""
    twos = _times(value.denominator, 2)
    fives = _times(value.denominator, 5)
    if value.denominator != 2**twos * 5**fives:
        return str(value)
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).zfill(places + 1)
    sign = "-" if value < 0 else ""
    return _plain(sign, f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}")


def _times(number: int, prime: int) -> int:
    count = 0
    while number % prime == 0:
        number, count = number // prime, count + 1
    return count
