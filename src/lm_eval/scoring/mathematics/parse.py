"""The tokens of an answer → a tree: numbers, names, sums, products, powers, lists, sets, matrices.

Nothing is evaluated and no code is run. What does not follow the grammar is a ``NotationError``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

from lm_eval.scoring.mathematics.notation import (
    CONSTANTS,
    FUNCTIONS,
    NAMES,
    NotationError,
    Token,
    tokens_of,
)

MOST_NESTED = 40
MOST_TOKENS = 600


class Term(NamedTuple):
    """A part of a formula; ``parts`` are nodes, or what the kind says.

    ``number`` Fraction · ``name`` text · ``add``, ``mul``, ``div``, ``pow`` two nodes · ``neg``,
    ``factorial`` node · ``root`` node, degree · ``call`` name, nodes · ``list``, ``set``,
    ``union`` nodes · ``sequence`` brackets, nodes · ``matrix`` whether it is a determinant,
    rows of nodes · ``relation`` signs, nodes · ``based`` digits, base · ``either`` the two nodes of ±.
    """

    kind: str
    parts: tuple[Any, ...]


def number(value: Fraction | int) -> Term:
    return Term("number", (Fraction(value),))


def parse(text: str) -> Term:
    """The tree of an answer in uniform notation."""
    tokens = tokens_of(text)
    if not tokens or len(tokens) > MOST_TOKENS:
        raise NotationError("nothing to read, or too much")
    parser = _Parser(tokens)
    tree = parser.answer()
    if parser.at < len(tokens):
        raise NotationError(f"{tokens[parser.at].text!r} is not expected here")
    return tree


_RELATIONS = ("=", "<", ">", "<=", ">=", "!=", "in")
_ENDS = (
    *(",", ";", ")", "]", "}", r"\}", ">>", "|", "&", "\\\\", ":", "cup", "cap", "minus", "->"),
    *(*_RELATIONS, "+", "-", "+-", "-+", "*", "/", ")floor", ")ceil", "||"),
)
_CLOSING = {"(": (")", "]"), "[": ("]", ")"), "<<": (">>",)}
_THOUSANDS = re.compile(r"\d{3}")


class _Parser:
    """Reads tokens from left to right; each method reads one kind of thing."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.brackets = 0

    # Tokens

    def peek(self, ahead: int = 0) -> Token:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else Token("end", "", False)

    def take(self, *texts: str) -> str | None:
        """The next token's text if it is one of these signs, which is then behind us."""
        token = self.peek()
        if token.kind in ("sign", "command") and token.text in texts:
            self.at += 1
            return token.text
        return None

    def expect(self, *texts: str) -> str:
        taken = self.take(*texts)
        if taken is None:
            raise NotationError(f"{self.peek().text!r} where {texts[0]!r} was expected")
        return taken

    # Lists, relations, sets

    def answer(self) -> Term:
        """Items between commas."""
        items = self.items()
        return items[0] if len(items) == 1 else Term("list", tuple(items))

    def items(self) -> list[Term]:
        items = [self.relation()]
        while self.take(",", ";"):
            items.append(self.relation())
        return items

    def relation(self) -> Term:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise NotationError("nested too deeply")
        sides, signs = [self.union()], []
        while sign := self.take(*_RELATIONS):
            signs.append(sign)
            sides.append(self.union())
        self.depth -= 1
        return Term("relation", (tuple(signs), tuple(sides))) if signs else sides[0]

    def union(self) -> Term:
        parts = [self.sum()]
        while self.take("cup"):
            parts.append(self.sum())
        return Term("union", tuple(parts)) if len(parts) > 1 else parts[0]

    # Arithmetic

    def sum(self) -> Term:
        sign = self.take("+", "-", "+-", "-+")
        term = self.product()
        total = _signed(None, sign, term) if sign else term
        while sign := self.take("+", "-", "+-", "-+"):
            total = _signed(total, sign, self.product())
        return total

    def product(self) -> Term:
        left = self.factor()
        while True:
            if self.take("*"):
                left = Term("mul", (left, self.signed_factor()))
            elif self.take("/"):
                left = Term("div", (left, self.signed_factor()))
            elif self.starts_factor():
                left = self.times(left)
            else:
                return left

    def times(self, left: Term) -> Term:
        """A product without a sign: ``2x``, ``3(x+1)``; a mixed number: ``3\\frac{1}{2}``, ``3 1/2``."""
        token = self.peek()
        previous = self.peek(-1)
        if token.kind == "number" and previous.kind == "number":
            whole = left.parts[0] if left.kind == "number" else None
            if whole is None or whole.denominator != 1 or not token.has_gap:
                raise NotationError("two numbers side by side")
            return self.mixed(whole)
        right = self.factor()
        is_mixed = (
            previous.kind == "number"
            and left.kind == "number"
            and left.parts[0].denominator == 1
            and token.text == "frac"
            and right.kind == "div"
            and all(part.kind == "number" for part in right.parts)
        )
        return Term("add" if is_mixed else "mul", (left, right))

    def mixed(self, whole: Fraction) -> Term:
        """``3 1/2``; ``10 000`` is one number."""
        following = self.peek()
        if _THOUSANDS.fullmatch(following.text) and whole:
            self.at += 1
            return number(whole * 1000 + int(following.text))
        if self.peek(1).text == "/" and self.peek(2).kind == "number" and following.text.isdigit():
            below = self.peek(2).text
            if below.isdigit() and int(below) > int(following.text):
                self.at += 3
                return number(whole + Fraction(int(following.text), int(below)))
        raise NotationError("two numbers side by side")

    def starts_factor(self) -> bool:
        token = self.peek()
        if token.kind == "sign":
            if token.text == "|":
                return False
            return token.text not in (*_ENDS, "^", "_", "!", "'", "%", "$", "...", "°")
        return token.kind != "end" and token[:2] != ("command", "end")

    def signed_factor(self) -> Term:
        sign = self.take("+", "-")
        factor = self.factor()
        return Term("neg", (factor,)) if sign == "-" else factor

    def factor(self) -> Term:
        base = self.base()
        while True:
            if self.take("!"):
                base = Term("factorial", (base,))
            elif self.take("^"):
                base = Term("pow", (base, self.script()))
            elif self.take("'"):
                base = _renamed(base, "'")
            else:
                return base

    def script(self) -> Term:
        """What follows ``^``: a group, or one sign with its own sign, as in ``x^-1``."""
        if self.take("{"):
            inner = self.sum()
            self.expect("}")
            return inner
        sign = self.take("-", "+")
        inner = self.base()
        return Term("neg", (inner,)) if sign == "-" else inner

    # The smallest parts

    def base(self) -> Term:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise NotationError("nested too deeply")
        node = self.base_node()
        self.depth -= 1
        return node

    def base_node(self) -> Term:
        token = self.peek()
        self.at += 1
        if token.kind == "number":
            return self.number_from(token.text)
        if token.kind == "name":
            return self.named(token.text)
        if token.kind == "command":
            return self.command(token.text)
        if token.kind == "sign":
            return self.group(token.text)
        raise NotationError(f"{token.text!r} is not expected here")

    def number_from(self, text: str) -> Term:
        while (
            not self.brackets
            and self.peek().text == ","
            and self.peek(1).kind == "number"
            and not self.peek(1).has_gap
            and re.fullmatch(r"\d{3}(?:\.\d*)?", self.peek(1).text)
            and re.fullmatch(r"[1-9]\d{0,2}|[1-9]\d{0,2}(?:\d{3})+", text)
        ):
            text += self.peek(1).text
            self.at += 2
        if self.peek().text == "_":
            return self.based(text)
        if "." in text and self.peek() == Token("command", "overline", False):
            self.at += 1
            return self.repeating(text)
        if self.peek().text in ("e", "E") and not self.peek().has_gap and not self.peek(1).has_gap:
            return self.scientific(text)
        return number(Fraction(text.rstrip(".") or "0"))

    def scientific(self, text: str) -> Term:
        """``1.5e3``; without digits behind it the ``e`` is a name."""
        sign = self.peek(1).text if self.peek(1).text in ("+", "-") else ""
        power = self.peek(2 if sign else 1)
        if power.kind != "number" or not power.text.isdigit() or len(power.text) > 3:
            return number(Fraction(text))
        self.at += 3 if sign else 2
        return number(Fraction(text) * Fraction(10) ** int(f"{sign}{power.text}"))

    def repeating(self, text: str) -> Term:
        """``0.1\\overline{6}``"""
        self.expect("{")
        digits = self.peek().text
        self.at += 1
        self.expect("}")
        if not digits.isdigit():
            raise NotationError("a repeating decimal without digits")
        places = len(text.partition(".")[2])
        repeated = Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)
        return number(Fraction(text.rstrip(".") or "0") + repeated)

    def based(self, digits: str) -> Term:
        """``1011_2``: digits with the base they are written in."""
        self.expect("_")
        base = self.script()
        if base.kind != "number" or not digits.isdigit():
            raise NotationError("a subscript that is not a base")
        return Term("based", (digits.lstrip("0") or "0", int(base.parts[0])))

    def named(self, name: str) -> Term:
        if name in FUNCTIONS:
            return self.call(name)
        node = Term("name", (name,))
        if self.peek().text == "_" and name not in CONSTANTS:
            self.at += 1
            return Term("name", (f"{name}_{self.script_text()}",))
        return node

    def script_text(self) -> str:
        if not self.take("{"):
            token = self.peek()
            self.at += 1
            return token.text
        texts = []
        while not self.take("}"):
            if self.peek().kind == "end":
                raise NotationError("a subscript without end")
            texts.append(self.peek().text)
            self.at += 1
        return "".join(texts)

    def call(self, name: str) -> Term:
        base = power = None
        if name == "log" and self.take("_"):
            base = self.script()
        if self.take("^"):
            power = self.script()
        arguments = self.arguments()
        if name == "sqrt":
            called = Term("root", (arguments[0], number(2)))
        else:
            called = Term("call", (name, (*arguments, *([base] if base else ()))))
        if power == Term("neg", (number(1),)) and name in NAMES:
            return Term("call", (f"arc{name}", tuple(arguments)))
        return Term("pow", (called, power)) if power else called

    def arguments(self) -> list[Term]:
        """What a function is applied to: a group, or the product that follows it: ``\\sin 2x``."""
        if self.take("("):
            return self.inside(")")
        if self.take("{"):
            items = [self.sum()]
            self.expect("}")
            return items
        inner = self.factor()
        while (
            self.starts_factor() and self.peek().text != "(" and self.peek().text not in FUNCTIONS
        ):
            inner = Term("mul", (inner, self.factor()))
        return [inner]

    def inside(self, *closing: str) -> list[Term]:
        self.brackets += 1
        items = self.items()
        self.brackets -= 1
        self.expect(*closing)
        return items

    def group(self, sign: str) -> Term:
        if sign == "{":
            inner = self.answer()
            self.expect("}")
            return inner
        if sign == r"\{":
            if self.take(r"\}"):
                return Term("set", ())
            return Term("set", tuple(self.inside(r"\}")))
        if sign in ("|", "floor(", "ceil("):
            closing = {"|": "|", "floor(": ")floor", "ceil(": ")ceil"}[sign]
            inner = self.sum()
            self.expect(closing)
            return Term("call", ({"|": "abs"}.get(sign, sign[:-1]), (inner,)))
        if sign not in _CLOSING:
            raise NotationError(f"{sign!r} is not expected here")
        self.brackets += 1
        items = self.items()
        self.brackets -= 1
        closing = self.expect(*_CLOSING[sign])
        if len(items) == 1 and sign + closing in ("()", "[]"):
            return items[0]
        return Term("sequence", (sign + closing, tuple(items)))

    def command(self, name: str) -> Term:
        if name in ("frac", "binom"):
            upper, lower = self.argument(), self.argument()
            if name == "frac":
                return Term("div", (upper, lower))
            return Term("call", ("binom", (upper, lower)))
        if name == "sqrt":
            degree = number(2)
            if self.take("["):
                degree = self.sum()
                self.expect("]")
            return Term("root", (self.argument(), degree))
        if name == "begin":
            return self.matrix()
        if name in ("overline", "bar"):
            return Term("call", ("overline", (self.argument(),)))
        if name == "mathbb":
            return Term("name", (f"mathbb_{self.script_text()}",))
        raise NotationError(f"\\{name} is not expected here")

    def argument(self) -> Term:
        """An argument of a LaTeX command: a group, or one character: ``\\frac12``, ``\\sqrt3``."""
        if self.take("{"):
            inner = self.answer()
            self.expect("}")
            return inner
        token = self.peek()
        if token.kind == "number" and len(token.text) > 1 and "." not in token.text:
            self.tokens[self.at] = Token("number", token.text[1:], False)
            return number(int(token.text[0]))
        return self.base()

    def matrix(self) -> Term:
        kind = self.script_text()
        if not re.fullmatch(r"[pbBvV]?matrix|smallmatrix|array|cases|aligned", kind):
            raise NotationError(f"\\begin{{{kind}}} is not known")
        if kind == "array" and self.peek().text == "{":
            self.script_text()
        rows: list[list[Term]] = [[]]
        while True:
            rows[-1].append(self.relation())
            if self.take("&"):
                continue
            if self.take("\\\\") and self.peek()[:2] != ("command", "end"):
                rows.append([])
                continue
            self.expect("end")
            self.script_text()
            is_determinant = kind in ("vmatrix", "Vmatrix")
            return Term("matrix", (is_determinant, tuple(map(tuple, rows))))


def _signed(total: Term | None, sign: str, term: Term) -> Term:
    if sign in ("+-", "-+"):
        both = (term, Term("neg", (term,)))
        upper, lower = both if sign == "+-" else (both[1], both[0])
        if total is None:
            return Term("either", (upper, lower))
        return Term("either", (Term("add", (total, upper)), Term("add", (total, lower))))
    signed = Term("neg", (term,)) if sign == "-" else term
    return signed if total is None else Term("add", (total, signed))


def _renamed(node: Term, mark: str) -> Term:
    if node.kind != "name":
        raise NotationError(f"{mark} after something that is not a name")
    return Term("name", (f"{node.parts[0]}{mark}",))
