"""A formula as a quotient of sums of products, exact: equal quotients are equal numbers.

Rational numbers, roots of rationals, π, e, i, variables and functions of such quotients are multiplied
out and compared term by term. Two formulas that come out equal are equal; a few that are equal by an
identity of functions do not (``sin²x + cos²x`` and 1). Nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from lm_eval.scoring.mathematics.parse import Term

MOST_TERMS = 300
MOST_BITS = 20_000
MOST_POWER = 40
MOST_FACTORIAL = 500
_TRIAL = 10_000

Monomial = tuple[tuple[str, Fraction], ...]
"""Factors and their exponents, in order. ``#2`` is the number 2 under a root."""
Poly = dict[Monomial, Fraction]


class AlgebraError(ValueError):
    """A formula without a value here: a list, a division by zero, or one too large to multiply out."""


class Quotient(NamedTuple):
    """A sum of terms over another."""

    over: Poly
    under: Poly

    def equals(self, other: Quotient) -> bool:
        return _times(self.over, other.under) == _times(other.over, self.under)

    @property
    def rational(self) -> Fraction | None:
        """The number, if it is rational."""
        if self.under != ONE or set(self.over) - {()}:
            return None
        return self.over.get((), Fraction(0))

    @property
    def key(self) -> str:
        """One text for each form."""
        over = _key(self.over)
        return over if self.under == ONE else f"({over})/({_key(self.under)})"


ONE: Poly = {(): Fraction(1)}
_POLYS: dict[str, Poly] = {}


def constant(value: Fraction | int) -> Quotient:
    return Quotient({(): Fraction(value)} if value else {}, ONE)


def _atom(name: str, exponent: Fraction | int = 1) -> Quotient:
    return Quotient({((name, Fraction(exponent)),): Fraction(1)}, ONE)


def _key(poly: Poly) -> str:
    def term(monomial: Monomial) -> str:
        factors = "*".join(f"{name}^{power}" for name, power in monomial)
        return f"{poly[monomial]}*{factors}" if factors else str(poly[monomial])

    return " + ".join(term(monomial) for monomial in sorted(poly)) or "0"


# Sums and products


def _plus(left: Poly, right: Poly) -> Poly:
    total = dict(left)
    for monomial, factor in right.items():
        total[monomial] = total.get(monomial, Fraction(0)) + factor
        if not total[monomial]:
            del total[monomial]
    return total


def _times(left: Poly, right: Poly) -> Poly:
    if len(left) * len(right) > MOST_TERMS**2:
        raise AlgebraError("too many terms")
    total: Poly = {}
    for monomial, factor in left.items():
        for other, by in right.items():
            total = _plus(total, _product(monomial, other, factor * by))
            if len(total) > MOST_TERMS:
                raise AlgebraError("too many terms")
    return total


def _product(left: Monomial, right: Monomial, factor: Fraction) -> Poly:
    """The product of two monomials: roots that meet become numbers, i² becomes −1."""
    powers: dict[str, Fraction] = dict(left)
    for name, power in right:
        powers[name] = powers.get(name, Fraction(0)) + power
    expanded: list[Poly] = []
    for name, power in list(powers.items()):
        if name.startswith("#") and not 0 < power < 1:
            whole = math.floor(power)
            factor *= _checked_power(Fraction(int(name[1:])), whole)
            powers[name] = power - whole
        elif name == "i" and power.denominator == 1:
            factor *= -1 if power % 4 >= 2 else 1
            powers[name] = power % 2
        elif name in _POLYS and power >= 1:
            expanded.append(_whole_power(_POLYS[name], math.floor(power)))
            powers[name] = power - math.floor(power)
        if not powers[name]:
            del powers[name]
    result: Poly = {tuple(sorted(powers.items())): factor} if factor else {}
    for poly in expanded:
        result = _times(result, poly)
    return result


def _whole_power(poly: Poly, exponent: int) -> Poly:
    if len(poly) == 1:
        ((monomial, factor),) = poly.items()
        powers = tuple((name, power * exponent) for name, power in monomial)
        return _product(powers, (), _checked_power(factor, exponent))
    if exponent > MOST_POWER:
        raise AlgebraError("the power of a sum is too high")
    result = ONE
    for _ in range(exponent):
        result = _times(result, poly)
    return result


def _checked_power(base: Fraction, exponent: int) -> Fraction:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > MOST_BITS:
        raise AlgebraError("the number is too large")
    if not base and exponent < 0:
        raise AlgebraError("division by zero")
    return base**exponent


def _reduced(over: Poly, under: Poly) -> Quotient:
    """A quotient with a single term below the line has none there at all."""
    if not under:
        raise AlgebraError("division by zero")
    if len(under) == 1:
        ((monomial, factor),) = under.items()
        inverse = _product(tuple((name, -power) for name, power in monomial), (), 1 / factor)
        return Quotient(_times(over, inverse), ONE)
    first = under[min(under)]
    scale: Poly = {(): 1 / first}
    return Quotient(_times(over, scale), _times(under, scale))


def add(left: Quotient, right: Quotient) -> Quotient:
    if left.under == right.under:
        return _reduced(_plus(left.over, right.over), left.under)
    crossed = _plus(_times(left.over, right.under), _times(right.over, left.under))
    return _reduced(crossed, _times(left.under, right.under))


def multiply(left: Quotient, right: Quotient) -> Quotient:
    return _reduced(_times(left.over, right.over), _times(left.under, right.under))


def divide(left: Quotient, right: Quotient) -> Quotient:
    return _reduced(_times(left.over, right.under), _times(left.under, right.over))


def negate(value: Quotient) -> Quotient:
    return Quotient({monomial: -factor for monomial, factor in value.over.items()}, value.under)


# Powers and roots


def power(base: Quotient, exponent: Quotient) -> Quotient:
    """``base`` to the power of ``exponent``."""
    value = exponent.rational
    if value is None:
        return _symbolic_power(base, exponent)
    if value.denominator == 1:
        if not base.over and value <= 0:
            raise AlgebraError("0 to a power that is not positive")
        over = _whole_power(base.over, abs(int(value)))
        under = _whole_power(base.under, abs(int(value)))
        return _reduced(over, under) if value >= 0 else _reduced(under, over)
    number = base.rational
    if number is not None and number < 0 and value.denominator % 2 == 0:
        turns = _atom("i") if value.denominator == 2 else None
        if turns is not None:
            return multiply(power(turns, constant(value.numerator)), _root_power(-number, value))
    if number is not None and number >= 0:
        return _root_power(number, value)
    return _opaque_power(base, value)


def root(base: Quotient, degree: Quotient) -> Quotient:
    """The real root if there is one: the cube root of −8 is −2."""
    n = degree.rational
    if n is None or n.denominator != 1 or n < 1:
        raise AlgebraError("the degree of a root is not a whole number")
    number = base.rational
    if number is not None and number < 0 and n % 2:
        return negate(_root_power(-number, 1 / n))
    return power(base, constant(1 / n))


def _root_power(number: Fraction, exponent: Fraction) -> Quotient:
    """A rational number from 0 up to a rational power, as roots of primes."""
    if not number:
        if exponent <= 0:
            raise AlgebraError("0 to a power that is not positive")
        return constant(0)
    result: Poly = ONE
    for value, sign in ((number.numerator, 1), (number.denominator, -1)):
        for prime, times in _factors(value).items():
            term = _product(((f"#{prime}", sign * times * exponent),), (), Fraction(1))
            result = _times(result, term)
    return Quotient(result, ONE)


def _factors(value: int) -> dict[int, int]:
    """Prime factors; what is left beyond small ones stays whole, unless it is a square."""
    factors: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= value and divisor < _TRIAL:
        while value % divisor == 0:
            factors[divisor] = factors.get(divisor, 0) + 1
            value //= divisor
        divisor += 1 if divisor == 2 else 2
    if value > 1:
        side = math.isqrt(value)
        if side * side == value:
            factors[side] = factors.get(side, 0) + 2
        else:
            factors[value] = factors.get(value, 0) + 1
    return factors


_POSITIVE = ("pi", "e")


def _opaque_power(base: Quotient, exponent: Fraction) -> Quotient:
    """A broken power of what is not a number: of constants by factors, else as a thing of its own."""
    if base.under == ONE and len(base.over) == 1:
        ((monomial, factor),) = base.over.items()
        is_positive = all(name in _POSITIVE or name.startswith("#") for name, _ in monomial)
        if is_positive and factor > 0:
            powers = tuple((name, power * exponent) for name, power in monomial)
            return multiply(
                Quotient(_product(powers, (), Fraction(1)), ONE), _root_power(factor, exponent)
            )
    if base.under != ONE:
        return _atom(f"[{base.key}]^{exponent}")
    content = _content(base.over)
    inner = {monomial: factor / content for monomial, factor in base.over.items()}
    name = f"[{_key(inner)}]"
    if len(_POLYS) > 10_000:
        _POLYS.clear()
    _POLYS[name] = inner
    return multiply(_root_power(content, exponent), _atom(name, exponent))


def _content(poly: Poly) -> Fraction:
    """The positive number that all terms can be divided by."""
    over = math.gcd(*(factor.numerator for factor in poly.values()))
    under = math.lcm(*(factor.denominator for factor in poly.values()))
    return Fraction(over, under)


def _symbolic_power(base: Quotient, exponent: Quotient) -> Quotient:
    """``2^{x+1}`` as 2 · 2^x."""
    if exponent.under != ONE:
        return _atom(f"({base.key})^[{exponent.key}]")
    number = base.rational
    if number is not None and number > 0:
        bases = {str(prime): times for prime, times in _factors(number.numerator).items()}
        for prime, times in _factors(number.denominator).items():
            bases[str(prime)] = bases.get(str(prime), 0) - times
    else:
        bases = {base.key: 1}
    result = power(base, constant(exponent.over.get((), Fraction(0))))
    for monomial, factor in exponent.over.items():
        for name, times in bases.items():
            if monomial:
                named = f"({name})^[{_key({monomial: Fraction(1)})}]"
                result = multiply(result, _atom(named, factor * times))
    return result


# Trees


def value_of(node: Term) -> Quotient:
    """The quotient of a formula; ``AlgebraError`` if it is not one number or term."""
    value: Quotient = _VALUES.get(node.kind, _no_value)(*node.parts)
    return value


def _no_value(*_: Any) -> Quotient:
    raise AlgebraError("not a number")


def _called(name: str, arguments: tuple[Term, ...]) -> Quotient:
    values = [value_of(argument) for argument in arguments]
    numbers = [value.rational for value in values]
    if name == "exp":
        return power(_atom("e"), values[0])
    if name in ("log", "ln", "lg"):
        return _logarithm(name, values)
    if all(number is not None for number in numbers) and numbers:
        known = _of_numbers(name, [number for number in numbers if number is not None])
        if known is not None:
            return constant(known)
    return _atom(f"{name}({', '.join(value.key for value in values)})")


_OF_ONE: dict[str, Callable[[Fraction], Fraction | int]] = {
    **{"abs": abs, "floor": math.floor, "ceil": math.ceil},
}


def _of_numbers(name: str, numbers: list[Fraction]) -> Fraction | int | None:
    whole = [int(number) for number in numbers if number.denominator == 1 and number >= 0]
    if name in _OF_ONE:
        return _OF_ONE[name](numbers[0])
    if name in ("max", "min"):
        return max(numbers) if name == "max" else min(numbers)
    if len(whole) < len(numbers):
        return None
    if name == "binom" and len(whole) == 2 and whole[0] <= MOST_FACTORIAL:
        return math.comb(*whole)
    if name in ("gcd", "lcm"):
        return math.gcd(*whole) if name == "gcd" else math.lcm(*whole)
    return None


def _logarithm(name: str, values: list[Quotient]) -> Quotient:
    if len(values) == 2:  # to a base
        return divide(_logarithm("ln", values[:1]), _logarithm("ln", values[1:]))
    number = values[0].rational
    if name != "ln" or number is None or number <= 0:
        return constant(0) if number == 1 else _atom(f"{name}({values[0].key})")
    total = constant(0)
    for value, sign in ((number.numerator, 1), (number.denominator, -1)):
        for prime, times in _factors(value).items():
            total = add(total, multiply(constant(sign * times), _atom(f"ln({prime})")))
    return total


def _factorial(node: Term) -> Quotient:
    value = value_of(node)
    number = value.rational
    if number is not None and number.denominator == 1 and 0 <= number <= MOST_FACTORIAL:
        return constant(math.factorial(int(number)))
    return _atom(f"factorial({value.key})")


_VALUES: dict[str, Any] = {
    "number": constant,
    "name": _atom,
    "add": lambda left, right: add(value_of(left), value_of(right)),
    "mul": lambda left, right: multiply(value_of(left), value_of(right)),
    "div": lambda left, right: divide(value_of(left), value_of(right)),
    "neg": lambda node: negate(value_of(node)),
    "pow": lambda base, exponent: power(value_of(base), value_of(exponent)),
    "root": lambda base, degree: root(value_of(base), value_of(degree)),
    "factorial": _factorial,
    "call": _called,
}
