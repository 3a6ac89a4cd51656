"""The reader of numbers: ``1,234``, ``$12.50``, ``3/4``, ``1.5 × 10^3`` → a plain form."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from lm_eval.formats.readers.language import Vocabulary, vocabulary
from lm_eval.formats.readers.phrase import LINE, announced, displayed, set_apart
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, lowered

_SIGN = r"(?:(?<![\w)\]}.])[-+])?"
_NUMBER = re.compile(
    rf"""(?P<odd>√|\\sqrt\s?\{{?)?  # a root is not a plain number
    (?<![A-Za-z_])(?<![\d.])(?P<sign>{_SIGN})\s?[$€£¥₹]?(?<!\d\s)
    (?:
      (?:(?P<mixed>\d{{1,300}})\s?)?\\[dt]?frac(?:\{{(?P<top>-?\d{{1,300}})\}}\{{(?P<bottom>\d{{1,300}})\}}
        |\s?(?P<short_top>\d)(?P<short_bottom>\d))
      | (?P<whole>\d{{1,300}})[ ](?P<over>\d{{1,300}})/(?P<under>\d{{1,300}})(?![\d/.,])
      | (?P<num>\d{{1,300}})\s?/\s?(?P<den>\d{{1,300}})(?![\d/.,]\d)
      | (?P<digits>\d{{1,3}}(?:(?:\{{,\}}|\\,)\d{{3}})+(?!\d)(?:\.\d+)?
          |\d{{1,3}}(?:[ ]\d{{3}})+(?![\d ]*\d)(?:[.,]\d+)?|\d+(?:[.,:'/-]\d+)*|\.\d+)
        (?P<exponent>[eE][-+]?\d{{1,9}}(?!\w)
          |\s?(?:×|\\times|\\cdot|·|⋅|\*|x)\s?10(?:\s?\^\s?[{{(]?[-+]?\d{{1,9}}[}})]?|[⁻⁺]?[⁰¹²³⁴-⁹]{{1,9}}|\*\*-?\d{{1,9}}))?
    )
    (?P<power>\{{,\}}\d|\s?\^\s?[{{(]?-?\w{{0,20}}|\*\*\d{{1,20}}|[⁰¹²³⁴-⁹⁻]|\s?(?:π|\\pi)|!(?!\w|=)
      |\s(?:squared|cubed|factorial|to\sthe\s(?:power|\w{{1,10}}\spower))\b)?""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_POINTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?")  # 1.234.567,89
_GROUPED = re.compile(r"\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?")
_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_CALCULATION = re.compile(r"\s*(?:[+×÷*=]|\\times|\\cdot|-\s)\s*[\d$(\\-]")
_TERM = re.compile(r"(?<![A-Za-z\\])[A-Za-z][)\s]{0,2}[-+*/×÷·^]\s?\Z")
_SIGNED_TERM = re.compile(r"(?<![A-Za-z\\])[A-Za-z][)\s]{0,2}\Z")
_TERM_BEHIND = re.compile(r"[xyzn](?![\w'])|\s?[-+*/×÷·^]\s?[A-Za-z](?![\w'])")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
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
        return _number_after(folded, phrase).with_rule("number")
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
    values = [
        None if "-" in (match["digits"] or "") else _value(match)
        for match in _NUMBER.finditer(fold(text))
    ]
    plain = [value for value in values if value is not None]
    return plain if len(plain) == len(values) else None


def _number_after(text: str, phrase: str) -> Reading:
    """The number on the line behind the phrase; if the line is a calculation, its result."""
    text, cue_span = announced(text, phrase)
    if cue_span is None:
        span = set_apart(text, phrase)
    else:
        line = LINE.match(text, cue_span[1])
        span = displayed(text, cue_span[1]) or (line.span(1) if line else None)
    return _stated(text, *span) if span else NO_ANSWER


def _stated(text: str, start: int, end: int) -> Reading:
    """The number between two positions, unless the words around it deny it or name another."""
    match = _NUMBER.search(text, start, end)
    if match is not None and _CALCULATION.match(text, match.end(), end):
        equals = text.rfind("=", start, end)
        match = _NUMBER.search(text, equals, end) if equals >= 0 else None
        if match is None:
            return AMBIGUOUS
    if match is None:
        return NO_ANSWER
    low = lowered(text)
    words = vocabulary()
    clause = max(low.rfind(mark, start, match.start()) for mark in ",:;–—")
    if words.denies(low, max(start, clause), match.start()):
        but = words.but.match(low, match.end(), end)
        return _stated(text, but.end(), end) if but else NO_ANSWER
    reading = _reading(match)
    if not reading.is_answer or reading.span is None:
        return reading
    if _is_unsolved(match, start) or words.another.match(low, reading.span[1]):
        return AMBIGUOUS
    return _corrected(words, text, low, reading.span[1]) or reading


def _is_unsolved(match: re.Match[str], start: int) -> bool:
    """True if the number is a term beside a variable: ``x + 2``, ``2x``, ``3 - y``."""
    text = match.string
    before = text[max(start, match.start() - 8) : match.start()]
    term = _SIGNED_TERM if match[0][:1] in ("+", "-") and match[0][1:2] == " " else _TERM
    return bool(term.search(before) or _TERM_BEHIND.match(text, match.end()))


def _corrected(words: Vocabulary, text: str, low: str, end: int) -> Reading | None:
    """What replaces the number that ended at ``end``, as in "12. No, 14"; None if nothing does."""
    taken_back = words.taken_back.match(low, end)
    if taken_back is None:
        return None
    bridge = words.bridge.match(low, taken_back.end())
    start = bridge.end() if bridge else taken_back.end()
    start -= text[start - 1] == "-"
    later = _NUMBER.match(text, start)
    if later is not None:
        return _corrected(words, text, low, later.end()) or _reading(later)
    return AMBIGUOUS if taken_back["hard"] else None


def _reading(match: re.Match[str]) -> Reading:
    """The number with the power of ten that follows it, as in ``3 million``."""
    value = _value(match)
    text, (start, end) = match.string, match.span()
    after = lowered(text[end : end + _LONGEST_WORD])
    words = vocabulary()
    power, length = _power_of_ten(words, text[end : end + 2], after)
    if value is None and power and _DECIMAL_COMMA.fullmatch(match[0].strip()):
        value = match[0].strip().replace(",", ".")  # "2,5 Millionen" is one number
    if value is None:
        return AMBIGUOUS
    if power:
        value = _scaled("", value.lstrip("-"), f"e{power}") if "/" not in value else None
        if value is None:
            return AMBIGUOUS
        value = f"-{value}" if match["sign"] == "-" else value
    padding = len(match[0]) - len(match[0].lstrip())
    return Reading(value, span=(start + padding, end + length))


def _power_of_ten(words: Vocabulary, written: str, after: str) -> tuple[int, int]:
    """The power of ten that the word behind a number means, and the length of that word; else 0."""
    if written[:1] in ("M", "B") and not written[1:2].isalnum():
        return (6 if written[0] == "M" else 9), 1
    scale = words.scale.match(after)
    if scale is None or scale.lastgroup is None or scale.group() == " k":  # 300 K is a temperature
        return 0, 0
    return int(scale.lastgroup[1:]), scale.end()


def _value(match: re.Match[str]) -> str | None:
    """The number in plain form; None if it can be understood in two ways."""
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
    whole = int(match["whole"] or match["mixed"] or 0)
    top = match["top"] or match["short_top"] or match["over"] or match["num"]
    bottom = int(match["bottom"] or match["short_bottom"] or match["under"] or match["den"])
    if not bottom:
        return None
    value = whole + Fraction(int(top), bottom)
    return fraction_text(-value if sign else value)


def _ungrouped(digits: str) -> str | None:
    """Digits without thousands separators, with a point; None if they can mean two things."""
    if _PLAIN.fullmatch(digits):
        return digits
    digits = digits.replace("{,}", ",").replace("\\,", ",")
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
    """``value`` as a decimal if it has a finite one, else as ``p/q``."""
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
