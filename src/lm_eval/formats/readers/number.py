"""The reader of numbers: ``1,234``, ``$12.50``, ``3/4``, ``1.5 × 10^3`` → one plain form."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from lm_eval.formats.readers.free_text import announced
from lm_eval.formats.readers.language import Vocabulary, vocabulary_of
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, lowered

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
          |\s?(?:×|\\times|\\cdot|·|⋅|\*|x)\s?10(?:\s?\^\s?[{{(]?[-+]?\d{{1,9}}[}})]?|[⁻⁺]?[⁰¹²³⁴-⁹]{{1,9}}|\*\*-?\d{{1,9}}))?
    )
    (?P<power>\s?\^\s?[{{(]?-?\w{{0,20}}|\*\*\d{{1,20}}|[⁰¹²³⁴-⁹⁻]|\s?(?:π|\\pi)|!(?!\w|=)
      |\s(?:squared|cubed|factorial|to\sthe\s(?:power|\w{{1,10}}\spower))\b)?""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_POINTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?")  # 1.234.567,89
_GROUPED = re.compile(r"\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?")
_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_CALCULATION = re.compile(r"\s*(?:[+×÷*=]|\\times|\\cdot|-\s)\s*[\d$(\\-]")
_LARGEST_EXPONENT = 400
_LONGEST_WORD = 40  # characters before and behind a number in which its unit is looked for
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")


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
    text, cue_span = announced(text, phrase)
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
    """The number with the power of ten that follows it, as in ``3 million``.

    Ambiguous where it is one part of a quantity, like the 20 of ``3 hours 20 minutes``.
    """
    value = _value(match)
    text, (start, end) = match.string, match.span()
    after = lowered(text[end : end + _LONGEST_WORD])
    before = lowered(text[max(0, start - _LONGEST_WORD) : start])
    words = vocabulary_of(before + after)
    if value is None or _is_part(words, before, after):
        return AMBIGUOUS
    power, length = _power_of_ten(words, text[end : end + 2], after)
    if power:
        value = _scaled("", value.lstrip("-"), f"e{power}") if "/" not in value else None
        if value is None:
            return AMBIGUOUS
        value = f"-{value}" if match["sign"] == "-" else value
    padding = len(match[0]) - len(match[0].lstrip())
    return Reading(value, span=(start + padding, end + length))


def _power_of_ten(words: Vocabulary, written: str, after: str) -> tuple[int, int]:
    """The exponent of ten in the word behind a number, and the length of that; 0 if there is none."""
    if written[:1] in ("M", "B") and not written[1:2].isalnum():
        return (6 if written[0] == "M" else 9), 1
    scale = words.scale.match(after)
    if scale is None or scale.lastgroup is None or scale.group() == " k":  # 300 K is a temperature
        return 0, 0
    return int(scale.lastgroup[1:]), scale.end()


def _is_part(words: Vocabulary, before: str, after: str) -> bool:
    """True if a number and its unit come right before, or right behind the unit of this one."""
    behind, ahead = words.units
    unit = behind.match(after)
    if unit is None:
        return False
    if ahead.search(before):
        return True
    following = re.compile(r"[\s,]{0,3}(?:\w{1,3}\s)?\d{1,9}").match(after, unit.end())
    return following is not None and behind.match(after, following.end()) is not None


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
    raised = exponent[1:] if exponent[0] in "eE" else exponent.partition("10")[2]
    power = int(re.findall(r"[-+]?\d+", raised.translate(_RAISED))[-1])
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
