"""Formulas as objects of sympy, for what needs an identity: ``sin²x + cos²x`` is 1.

sympy's own parsers run the text as Python; here each node of a tree becomes an object. A comparison may
take ``MAX_CPU_S``; one that takes longer proves nothing.
"""

from __future__ import annotations

from typing import Any

from lm_eval.config.budget import BudgetError, bounded
from lm_eval.errors import MissingExtraError
from lm_eval.scoring.mathematics.parse import Term

MAX_CPU_S = 3.0
MOST_NODES = 120
LARGEST = 10_000
"""Of an exponent or a factorial: sympy computes such powers at once."""

_FUNCTIONS = {
    **{name: name for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")},
    **{"arcsin": "asin", "arccos": "acos", "arctan": "atan", "exp": "exp", "ln": "log"},
    **{"abs": "Abs", "floor": "floor", "ceil": "ceiling", "binom": "binomial", "max": "Max"},
    **{"min": "Min"},
}


class _NotSymbolicError(Exception):
    """A part of a formula that is not taken to sympy."""


def load_sympy() -> Any:
    """The module; an error with the line that installs it if it is missing."""
    try:
        import sympy
    except ModuleNotFoundError:
        raise MissingExtraError(
            "math_equal with `sympy: true` needs the library sympy, which is not installed.",
            install="pip install 'lm-eval-formats[math]'",
        ) from None
    return sympy


def equal_by_sympy(left: Term, right: Term) -> bool:
    """Whether sympy finds that the difference is 0, in the time it is given."""
    sympy = load_sympy()
    if max(_size(left), _size(right)) > MOST_NODES:
        return False
    try:
        return bool(bounded(_difference_is_zero, sympy, left, right, max_cpu_s=MAX_CPU_S))
    except (BudgetError, _NotSymbolicError):
        return False
    except Exception:  # sympy fails in many ways, and none of them is a proof
        return False


def _difference_is_zero(sympy: Any, left: Term, right: Term) -> bool:
    difference = _object(sympy, left) - _object(sympy, right)
    if difference == 0:
        return True
    if difference.is_number and abs(difference.evalf(30)) > 1e-20:
        return False
    return bool(sympy.simplify(difference) == 0)


def _size(node: Term) -> int:
    total = 0
    waiting: list[Any] = [node]
    while waiting:
        item = waiting.pop()
        total += 1
        parts = item.parts if isinstance(item, Term) else item
        waiting += [part for part in parts if isinstance(part, tuple)]
    return total


def _object(sympy: Any, node: Term) -> Any:
    parts = node.parts
    if node.kind == "number":
        return sympy.Rational(parts[0].numerator, parts[0].denominator)
    if node.kind == "name":
        constants = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infty": sympy.oo}
        return constants[parts[0]] if parts[0] in constants else sympy.Symbol(parts[0], real=True)
    if node.kind == "call":
        return _call(sympy, parts[0], [_object(sympy, part) for part in parts[1]])
    makers = {
        **{"add": sympy.Add, "mul": sympy.Mul, "neg": lambda value: -value},
        **{"div": lambda over, under: over / under, "pow": sympy.Pow, "root": sympy.real_root},
        **{"factorial": sympy.factorial},
    }
    if node.kind not in makers:
        raise _NotSymbolicError(node.kind)
    values = [_object(sympy, part) for part in parts]
    if node.kind in ("factorial", "pow"):
        for value in values:
            _check_small(value)
    return makers[node.kind](*values)


def _check_small(value: Any) -> None:
    if value.is_number and not abs(value) <= LARGEST:
        raise _NotSymbolicError("too large")


def _call(sympy: Any, name: str, values: list[Any]) -> Any:
    if name in ("log", "lg"):
        base = values[1] if len(values) > 1 else 10
        return sympy.log(values[0]) / sympy.log(base)
    if name == "exp":
        _check_small(values[0])
    if name == "binom":
        for value in values:
            _check_small(value)
    if name not in _FUNCTIONS:
        raise _NotSymbolicError(name)
    return getattr(sympy, _FUNCTIONS[name])(*values)
