"""``math_equal``: whether an answer is the gold, as mathematics has it.

First as texts, then by rules: both are parsed and compared exactly, part by part if they are lists,
intervals, sets or matrices. Units, degrees and dollar signs that only one of them has do not count. With
``sympy: true`` what the rules leave open is put to sympy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from lm_eval.errors import ConfigError
from lm_eval.registry import HarnessMetric
from lm_eval.scoring.functions import TEXT, OfGolds
from lm_eval.scoring.mathematics.algebra import AlgebraError, Quotient, constant, multiply, value_of
from lm_eval.scoring.mathematics.notation import (
    FUNCTIONS,
    LONGEST,
    NotationError,
    bare_answer,
    uniform,
)
from lm_eval.scoring.mathematics.parse import Term, number, parse
from lm_eval.scoring.metrics import Metric

Compare = Callable[[Term, Term], bool]


def math_equal(answer: str, gold: str, *, sympy: bool = False) -> bool:
    """Whether two answers are equal: ``\\dfrac{1}{2}``, ``0.5``, ``\\frac12`` and ``x = 1/2`` are."""
    ours, theirs = _written(answer), _written(gold)
    if not ours.text or not theirs.text:
        return False
    if ours.form == theirs.form and ours.form:
        return True
    if ours.tree is None or theirs.tree is None:
        return False
    if ours.unit and theirs.unit and ours.unit != theirs.unit:
        return False
    scalars = _equal_or_proved if sympy else _equal_scalars
    if _Comparison(scalars).same(ours.tree, theirs.tree):
        return True
    return ours.is_percent != theirs.is_percent and _equal_percent(ours, theirs)


# Answers as they are written


@dataclass(frozen=True)
class _Written:
    """An answer, taken apart."""

    text: str
    form: str
    """As a text, without what does not matter in one; empty if it has a unit."""
    unit: str
    is_percent: bool
    tree: Term | None
    """None for what is not a formula."""


_UNIT = re.compile(
    r"(?P<value>.*?[^\s⟪])\s*⟪(?P<unit>[^⟫]*)⟫\s*(?:\^\s?\{?\s?(?P<power>[0-9])\s?\}?)?(?P<more>.*)",
    re.DOTALL,
)
_PLAIN_UNIT = re.compile(
    r"(?P<value>.*?\d[\d\s.,/{}()\\^*+-]*?(?:pi\s?)?)\s*"
    r"(?<!\\)(?P<unit>[a-zA-Z]{2,}\.?(?:[ -](?:[a-zA-Z]{2,}|\d)\.?)*)(?:\^\s?\{?(?P<power>[0-9])\}?)?"
)
_SHORT_UNITS = frozenset(
    ("mm", "cm", "dm", "km", "kg", "mg", "ml", "cl", "ft", "in", "yd", "mi", "oz", "lb", "hr", "sq")
)
_UNIT_NAMES = {
    **{"cm": "centimeter centimetre", "mm": "millimeter millimetre", "m": "meter metre"},
    **{"km": "kilometer kilometre", "in": "inch inche inches", "ft": "foot feet", "mi": "mile"},
    **{"yd": "yard", "lb": "pound", "oz": "ounce", "g": "gram", "kg": "kilogram"},
    **{"h": "hour hr", "min": "minute min", "s": "second sec"},
}
_SYNONYMS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
_POWERS = {"square": "^2", "sq": "^2", "squared": "^2", "cubic": "^3", "cu": "^3", "cubed": "^3"}
_DIGIT_GAP = re.compile(r"(?<=\d)\s+(?=\d)")
_NOISE = re.compile(r"[\s⟪⟫{}]|\\[!,;: ]|\\(?:left|right)(?![a-zA-Z])")


@lru_cache(maxsize=4096)
def _written(answer: str) -> _Written:
    text = bare_answer(answer[: LONGEST + 1])
    if len(answer) > LONGEST:
        return _Written(text, " ".join(answer.split()), "", False, None)
    plain = uniform(text)
    form = _text_form(plain)
    value, unit = _without_unit(plain)
    is_percent = "%" in value or unit in ("percent", "per cent")
    value = re.sub(r"[%$°]", " ", value).strip()
    if unit in ("percent", "per cent", "degree", "dollar"):
        unit = ""
    tree = _tree(value)
    return _Written(text, form, unit if tree else "", is_percent, tree)


def _tree(text: str) -> Term | None:
    try:
        return parse(text)
    except (NotationError, RecursionError, ValueError, ZeroDivisionError):
        return None


def _text_form(plain: str) -> str:
    """A text without case, blanks, braces, and the brackets around all of it."""
    form = _NOISE.sub("", _DIGIT_GAP.sub("_", plain)).casefold().strip(".")
    inner = re.fullmatch(r"\(([^()]*)\)", form)
    is_word = inner is not None and "," not in inner[1]
    return inner[1] if inner and is_word else form


def _without_unit(plain: str) -> tuple[str, str]:
    """The value, and the words behind it in one form; numbers alone have units, not names."""
    match = _UNIT.fullmatch(plain) or _PLAIN_UNIT.fullmatch(plain)
    if match is None or not re.search(r"[\da-zA-Z]", match["value"]):
        return plain, ""
    words = match["unit"].strip().lower().rstrip(".")
    more = match["more"].strip() if "more" in match.re.groupindex else ""
    first = re.split(r"[ -]", words)[0]
    is_name = first in FUNCTIONS or first == "pi" or (len(first) < 3 and first not in _SHORT_UNITS)
    if "more" not in match.re.groupindex and is_name:
        return plain, ""
    power = f"^{match['power']}" if match["power"] else ""
    rest = "".join(more.split()).replace("⟪", "").replace("⟫", "")
    return match["value"], _unit_form(words) + power + rest


def _unit_form(words: str) -> str:
    names, power = [], ""
    for word in re.split(r"[\s-]+", words.replace(".", "")):
        if word in _POWERS:
            power = _POWERS[word]
            continue
        single = _SYNONYMS.get(word) or word.removesuffix("s")
        names.append(_SYNONYMS.get(single, single))
    return " ".join(names) + power


# Parts


def _equal_scalars(left: Term, right: Term) -> bool:
    try:
        return value_of(left).equals(value_of(right))
    except (AlgebraError, RecursionError, ZeroDivisionError, OverflowError):
        return False


def _equal_or_proved(left: Term, right: Term) -> bool:
    from lm_eval.scoring.mathematics.symbolic import equal_by_sympy

    return _equal_scalars(left, right) or equal_by_sympy(left, right)


def _equal_percent(ours: _Written, theirs: _Written) -> bool:
    """``50 %`` is also 0.5."""
    percent, plain = (ours, theirs) if ours.is_percent else (theirs, ours)
    try:
        share = multiply(_scalar(percent.tree), constant(Fraction(1, 100)))
        return share.equals(_scalar(plain.tree))
    except (AlgebraError, RecursionError, ZeroDivisionError, OverflowError):
        return False


def _scalar(tree: Term | None) -> Quotient:
    if tree is None:
        raise AlgebraError("not a number")
    return value_of(_solved(tree))


class _Comparison:
    """Compares trees part by part, and single values by ``scalars``."""

    def __init__(self, scalars: Compare) -> None:
        self.scalars = scalars

    def same(self, left: Term, right: Term) -> bool:
        left, right = _opened(left), _opened(right)
        if "relation" in (left.kind, right.kind):
            return self.same_relations(left, right)
        if "based" in (left.kind, right.kind):
            return self.same_digits(left, right)
        kinds = {left.kind, right.kind}
        if kinds <= _GROUPS:
            return self.same_groups(left, right)
        if kinds & _GROUPS:
            return False
        return self.scalars(left, right)

    def same_groups(self, left: Term, right: Term) -> bool:
        if "matrix" in (left.kind, right.kind):
            return left.kind == right.kind and self.same_matrices(left, right)
        ours, theirs = _items(left), _items(right)
        if left.kind == right.kind == "sequence":
            return left.parts[0] == right.parts[0] and self.in_order(ours, theirs)
        if "sequence" in (left.kind, right.kind):  # x = 1, y = 2 and (1, 2)
            other, sequence = (left, right) if right.kind == "sequence" else (right, left)
            return (
                other.kind == "list" and sequence.parts[0] == "()" and self.in_order(ours, theirs)
            )
        if "union" in (left.kind, right.kind) and left.kind != right.kind:
            return False
        return self.in_any_order(ours, theirs)

    def same_matrices(self, left: Term, right: Term) -> bool:
        (is_determinant, rows), (is_other, others) = left.parts, right.parts
        return (
            is_determinant == is_other
            and [len(row) for row in rows] == [len(row) for row in others]
            and all(map(self.in_order, rows, others))
        )

    def in_order(self, left: Sequence[Term], right: Sequence[Term]) -> bool:
        return len(left) == len(right) and all(map(self.same, left, right))

    def in_any_order(self, left: Sequence[Term], right: Sequence[Term]) -> bool:
        waiting = list(right)
        for node in left:
            place = next((at for at, other in enumerate(waiting) if self.same(node, other)), None)
            if place is None:
                return False
            del waiting[place]
        return not waiting

    def same_digits(self, left: Term, right: Term) -> bool:
        """``1011_2`` and ``1011``: a base that only one of them names does not count."""
        if left.kind == right.kind:
            return left.parts == right.parts
        based, other = (left, right) if left.kind == "based" else (right, left)
        return self.scalars(number(int(based.parts[0])), other)

    def same_relations(self, left: Term, right: Term) -> bool:
        if left.kind == right.kind:
            return self.same_equations(left, right) or self.same_signs(left, right)
        relation, other = (left, right) if left.kind == "relation" else (right, left)
        solved = _solved(relation)
        if solved is relation:
            solved = _interval(relation)
        return solved.kind != "relation" and self.same(solved, other)

    def same_equations(self, left: Term, right: Term) -> bool:
        """Equations that differ by a factor: ``y = 2x + 1`` and ``2x - y = -1``."""
        try:
            ours, theirs = (_difference(node) for node in (left, right))
            return ours is not None and theirs is not None and ours == theirs
        except (AlgebraError, RecursionError, ZeroDivisionError, OverflowError):
            return False

    def same_signs(self, left: Term, right: Term) -> bool:
        ours, theirs = _forward(left), _forward(right)
        if ours.parts[0] == theirs.parts[0] and self.in_order(ours.parts[1], theirs.parts[1]):
            return True
        intervals = _interval(left), _interval(right)
        return all(node.kind == "sequence" for node in intervals) and self.same(*intervals)


_GROUPS = {"list", "set", "union", "sequence", "matrix"}


def _items(node: Term) -> Sequence[Term]:
    items: Sequence[Term] = node.parts[1] if node.kind == "sequence" else node.parts
    return items


def _opened(node: Term) -> Term:
    """± as a list of two, a set of one as what is in it, and no value that is solved for twice."""
    if _has_either(node):
        return Term("list", (_branch(node, 0), _branch(node, 1)))
    if node.kind == "sequence" and node.parts[0] == "<<>>":
        return Term("sequence", ("()", node.parts[1]))
    if node.kind == "set" and len(node.parts) == 1:
        return node.parts[0]  # type: ignore[no-any-return]
    if node.kind == "list":
        return Term("list", tuple(_flat(node.parts)))
    return node


def _flat(items: Iterable[Term]) -> Iterable[Term]:
    for item in items:
        if _has_either(item):
            yield from (_branch(item, 0), _branch(item, 1))
        else:
            yield item


def _has_either(node: Any) -> bool:
    if isinstance(node, Term):
        if node.kind == "either":
            return True
        return node.kind != "list" and any(map(_has_either, node.parts))
    return isinstance(node, tuple) and any(map(_has_either, node))


def _branch(node: Any, sign: int) -> Any:
    """The upper or the lower of ±."""
    if isinstance(node, Term):
        if node.kind == "either":
            return _branch(node.parts[sign], sign)
        return Term(node.kind, tuple(_branch(part, sign) for part in node.parts))
    return tuple(_branch(part, sign) for part in node) if isinstance(node, tuple) else node


def _solved(node: Term) -> Term:
    """``x = 5`` and ``f(x) = 5`` as 5, ``x ∈ S`` as S; what is not solved as it is."""
    if node.kind != "relation" or set(node.parts[0]) - {"=", "in"}:
        return node
    first = node.parts[1][0]
    is_function = (
        first.kind == "mul"
        and first.parts[0].kind == "name"
        and first.parts[1].kind in ("name", "sequence")
    )
    return node.parts[1][-1] if first.kind == "name" or is_function else node


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def _forward(relation: Term) -> Term:
    """The relation with its signs pointing to the left: ``5 > x`` as ``x < 5``."""
    signs, sides = relation.parts
    if all(sign in (">", ">=") for sign in signs):
        return Term("relation", (tuple(_MIRRORED[sign] for sign in signs[::-1]), sides[::-1]))
    return relation


def _interval(relation: Term) -> Term:
    """The interval that inequalities of one variable say; the relation itself if they do not."""
    signs, sides = _forward(relation).parts
    if set(signs) - {"<", "<="}:
        return relation
    infinity = Term("name", ("infty",))
    opening = {"<": "(", "<=": "["}
    closing = {"<": ")", "<=": "]"}
    if len(sides) == 2 and sides[0].kind == "name":
        ends = (Term("neg", (infinity,)), sides[1])
        return Term("sequence", (f"({closing[signs[0]]}", ends))
    if len(sides) == 2 and sides[1].kind == "name":
        return Term("sequence", (f"{opening[signs[0]]})", (sides[0], infinity)))
    if len(sides) == 3 and sides[1].kind == "name":
        brackets = opening[signs[0]] + closing[signs[1]]
        return Term("sequence", (brackets, (sides[0], sides[2])))
    return relation


def _difference(node: Term) -> Any:
    """Left side minus right side of an equation, divided by its first factor; None without one."""
    signs, sides = node.parts
    if signs != ("=",):
        return None
    difference = value_of(Term("add", (sides[0], Term("neg", (sides[1],))))).over
    if not difference:
        return None
    first = difference[max(difference)]
    return {monomial: factor / first for monomial, factor in difference.items()}


# As a metric


def _best(answer: str, golds: Sequence[str], *, sympy: bool = False) -> float:
    return float(any(math_equal(answer, gold, sympy=sympy) for gold in golds))


def math_equal_metric(
    references: Sequence[Any], predictions: Sequence[Any], sympy: bool = False
) -> float:
    """``math_equal`` as task files call it; ``sympy`` asks it what the rules leave open."""
    return OfGolds(partial(_best, sympy=sympy))(references, predictions)


def _check_options(sympy: Any = False, **others: Any) -> None:
    """Refuse unknown options, and sympy if it is not installed, before anything is asked."""
    if others:
        raise ConfigError(
            f"metric 'math_equal' has no option {next(iter(others))!r}. Option: sympy."
        )
    if not isinstance(sympy, bool):
        raise ConfigError(f"metric 'math_equal': sympy is true or false, not {sympy!r}.")
    if sympy:
        from lm_eval.scoring.mathematics.symbolic import load_sympy

        load_sympy()


math_equal_metric.takes_all_golds = True  # type: ignore[attr-defined]
math_equal_metric.check_options = _check_options  # type: ignore[attr-defined]

MATH_EQUAL = Metric(
    "math_equal",
    "the answer is mathematically equal to a gold",
    of_text=OfGolds(_best).of_text,
    compares_texts=True,
    same=math_equal,
)
MATH_EQUAL_FUNCTION = HarnessMetric(
    "math_equal", math_equal_metric, "mean", True, (TEXT,), is_built_in=True
)
