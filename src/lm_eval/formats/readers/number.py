"""The reader of numbers: ``1,234``, ``$12.50``, ``3/4``, ``1.5 × 10^3`` → a plain form."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from lm_eval.formats.readers.language import vocabulary
from lm_eval.formats.readers.phrase import stated
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, lowered

_SIGN = r"(?:(?<![\w)\]}.])[-+])?"
_NUMBER = re.compile(
    rf"""(?P<odd>√|\\sqrt\s?\{{?)?  # a root is not a plain number
    (?<![A-Za-z_])(?<![\d.])(?P<sign>{_SIGN})\s?[$€£¥₹]?(?<!\d\s)
    (?:
      (?:(?P<mixed>\d{{1,300}})\s?)?\\[dt]?frac\{{?(?P<top>-?\d{{1,300}})\}}?\{{?(?P<bottom>\d{{1,300}})\}}?
      | (?:(?P<whole>\d{{1,300}})[ ])?(?P<over>\d{{1,300}})\s?/\s?(?P<under>\d{{1,300}})(?![\d/.,]\d)
      | (?P<digits>\d{{1,3}}(?:(?:\{{,\}}|\\,)\d{{3}})+(?!\d)(?:\.\d+)?
          |\d{{1,3}}(?:[ ]\d{{3}})+(?![\d ]*\d)(?:[.,]\d+)?|\d+(?:[.,:'/-]\d+)*|\.\d+)
        (?P<exponent>[eE][-+]?\d{{1,9}}(?!\w)
          |\s?(?:×|\\times|\\cdot|·|⋅|\*|x)\s?10(?:\s?\^\s?[{{(]?[-+]?\d{{1,9}}[}})]?|[⁻⁺]?[⁰¹²³⁴-⁹]{{1,9}}|\*\*-?\d{{1,9}}))?
    )
    (?P<power>\{{,\}}\d|\s?\^\s?[{{(]?-?\w{{0,20}}|\*\*\d{{1,20}}|[⁰¹²³⁴-⁹⁻]|\s?(?:π|\\pi)|!(?!\w|=)
      |\s(?:squared|cubed|factorial|to\sthe\s(?:power|\w{{1,10}}\spower))\b)?""",
    re.VERBOSE,
)
_GROUPED = re.compile(r"\d{1,3}(?P<mark>[ ,'])\d{3}(?:(?P=mark)\d{3})*(?:\.\d+)?")
_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_CALCULATION = re.compile(r"\s*(?:[+×÷*=]|\\times|\\cdot|-\s)\s*[\d$(\\-]")
_TERM = re.compile(r"(?<![A-Za-z\\])[A-Za-z][)\s]{0,2}[-+*/×÷·^]\s?\Z")
_TERM_BEHIND = re.compile(r"[xyzn](?![\w'])|\s?[-+*/×÷·^]\s?[A-Za-z](?![\w'])")
_LARGEST_EXPONENT = 400
_LONGEST_WORD = 40
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
        folded, span = stated(folded, phrase)
        return _stated(folded, *span).with_rule("number") if span else NO_ANSWER
    numbers = list(_NUMBER.finditer(folded))
    return (
        _reading(numbers[-1 if which == "last" else 0]).with_rule("number")
        if numbers
        else NO_ANSWER
    )


def numbers_in(text: str) -> list[str] | None:
    """Every number in ``text``, in plain form; None if one of them can be understood in two ways.

    A range or a date (``40-42``, ``1969-07-20``) is not a number.
    """
    values = [_value(match) for match in _NUMBER.finditer(fold(text))]
    plain = [value for value in values if value is not None]
    return plain if len(plain) == len(values) else None


def _stated(text: str, start: int, end: int) -> Reading:
    """The number between two positions: of a calculation its result, of a denial what replaces it."""
    match = _NUMBER.search(text, start, end)
    if match is None:
        return NO_ANSWER
    if _CALCULATION.match(text, match.end(), end):
        equals = text.rfind("=", start, end)
        return _stated(text, equals + 1, end) if equals >= 0 else AMBIGUOUS
    low = lowered(text)
    words = vocabulary()
    clause = max(low.rfind(mark, start, match.start()) for mark in ",:;–—")
    if words.denies(low, max(start, clause), match.start()):
        but = words.but.match(low, match.end(), end)
        return _stated(text, but.end(), end) if but else NO_ANSWER
    return _confirmed(text, low, match, start)


def _confirmed(text: str, low: str, match: re.Match[str], start: int) -> Reading:
    """The number, unless it is a term beside a variable, one of two, or taken back."""
    reading, words = _reading(match), vocabulary()
    if reading.span is None:
        return reading
    before = text[max(start, match.start() - 8) : match.end("sign")]
    is_unsolved = _TERM.search(before) or _TERM_BEHIND.match(text, match.end())  # x + 2, 2x, 3 - y
    if is_unsolved or words.another.match(low, reading.span[1]):
        return AMBIGUOUS
    taken_back = words.taken_back.match(low, reading.span[1])
    bridge = words.bridge.match(low, taken_back.end()) if taken_back else None
    if taken_back is None or bridge is None:
        return reading
    later = _NUMBER.match(text, bridge.end() - text.startswith("-", bridge.end() - 1))
    if later is not None:
        return _reading(later)  # the 14 of "12. No, 14"
    return AMBIGUOUS if taken_back["hard"] else reading


def _reading(match: re.Match[str]) -> Reading:
    """The number with the power of ten that follows it, as in ``3 million``."""
    text, (start, end) = match.string, match.span()
    power, length = _power_of_ten(text[end : end + 2], lowered(text[end : end + _LONGEST_WORD]))
    value = _value(match, power)
    if value is None:
        return AMBIGUOUS
    padding = len(match[0]) - len(match[0].lstrip())
    return Reading(value, span=(start + padding, end + length))


def _power_of_ten(written: str, after: str) -> tuple[int, int]:
    """The power of ten that the word behind a number means, and the length of that word; else 0."""
    if written[:1] in ("M", "B") and not written[1:2].isalnum():
        return (6 if written[0] == "M" else 9), 1
    scale = vocabulary().scale.match(after)
    if scale is None or scale.lastgroup is None or scale.group() == " k":  # 300 K is a temperature
        return 0, 0
    return int(scale.lastgroup[1:]), scale.end()


def _value(match: re.Match[str], power: int = 0) -> str | None:
    """The number, times a power of ten, in plain form; None if it can be understood in two ways."""
    if match["odd"] or match["power"]:
        return None
    sign = "-" if match["sign"] == "-" else ""
    if match["digits"] is None:
        bottom = int(match["bottom"] or match["under"])
        if not bottom:
            return None
        value = Fraction(int(match["top"] or match["over"]), bottom)
        value += int(match["whole"] or match["mixed"] or 0)
    else:
        digits, exponent = _ungrouped(match["digits"]), match["exponent"]
        if digits is None:
            return None
        if exponent:
            raised = exponent[1:] if exponent[0] in "eE" else exponent.partition("10")[2]
            power += int(re.findall(r"[-+]?\d+", raised.translate(_RAISED))[-1])
        if not power:
            return _plain(sign, digits)
        if abs(power) > _LARGEST_EXPONENT or len(digits) > _LARGEST_EXPONENT:
            return None
        value = Fraction(digits)
    return _written(sign, value * Fraction(10) ** power)


def _ungrouped(digits: str) -> str | None:
    """Digits without thousands separators, with a point; None if they can mean two things."""
    digits = digits.replace("{,}", ",").replace("\\,", ",")
    if _GROUPED.fullmatch(digits):
        return re.sub("[ ,']", "", digits)
    return digits if _PLAIN.fullmatch(digits) else None


def _plain(sign: str, digits: str) -> str:
    """Digits of any length without superfluous zeros."""
    whole, _, decimals = digits.partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    text = f"{whole}.{decimals}" if decimals else whole
    return text if text == "0" else sign + text


def _written(sign: str, value: Fraction) -> str:
    """``value`` as a decimal if it has a finite one, else as ``p/q``."""
    fits = (n for n in range(2 * _LARGEST_EXPONENT) if 10**n % value.denominator == 0)
    places = next(fits, None)
    if places is None:
        return f"{sign}{value}"
    digits = str(value.numerator * 10**places // value.denominator).zfill(places + 1)
    return _plain(sign, f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}")
