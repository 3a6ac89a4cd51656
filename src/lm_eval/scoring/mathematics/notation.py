"""How answers are written, made uniform: LaTeX and Unicode → one plain notation, and tokens of it.

``\\dfrac12``, ``\\frac{1}{2}`` and ``½`` become the same tokens; sizes, spaces, fonts, dollar signs and
the box around an answer go. Words stay words: whether they are a unit, a name or a remark is for
``equal`` to say.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lm_eval.config.filters import last_box

LONGEST = 2000
"""Characters of an answer that is taken apart; a longer one is compared as a text."""


class NotationError(ValueError):
    """A text that is not a formula."""


class Token(NamedTuple):
    """A piece of a formula: ``number``, ``name`` (``x``, ``\\pi``, ``sin``), ``word`` or ``sign``."""

    kind: str
    text: str
    has_gap: bool
    """Whether blanks come before it."""


_UNICODE = {
    **{"−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*"},
    **{"÷": "/", "∕": "/", "⁄": "/", "π": r"\pi ", "∞": r"\infty ", "√": r"\sqrt "},
    **{"°": r"^\circ "},
    **{"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "±": r"\pm ", "∓": r"\mp "},
    **{"∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}"},
    **{"⟨": r"\langle ", "⟩": r"\rangle ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta "},
    **{"½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}"},
    **{"¾": r"\frac{3}{4}", "⅕": r"\frac{1}{5}", "⅛": r"\frac{1}{8}", "′": "'", "，": ","},
}
_UNICODE_TABLE = str.maketrans(_UNICODE)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_DISPLAY = (
    re.compile(r"\A\\\((.*)\\\)\Z", re.DOTALL),
    re.compile(r"\A\\\[(.*)\\\]\Z", re.DOTALL),
    re.compile(r"\A\$\$(.*)\$\$\Z", re.DOTALL),
    re.compile(r"\A\$(.*)\$\Z", re.DOTALL),
)
_GONE = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|quad|qquad|phantom\{[^{}]*\}"
    r"|hspace\{[^{}]*\}|allowbreak|nolimits|mathopen|mathclose)(?![a-zA-Z])\s?"
)
_THIN = re.compile(r"(?<!\\)\\[;:> ]|~")
_DIGIT_GAP = re.compile(r"(?<=\d)\\,(?=\d{3}(?!\d))")
_FONT = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|boldsymbol|bm|operatorname\*?|bf|rm|it)(?![a-zA-Z])\s?"
)
_TEXT = re.compile(
    r"\\(text|textbf|textit|textrm|textnormal|mbox|hbox|mathrm|operatorname\*?)\s?\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_DEGREES = re.compile(r"\^\s?\{?\s?\\(?:circ|degree)\s?\}?|\\degree(?![a-zA-Z])")
_LIST_WORDS = re.compile(r"(?:,\s*)?(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])")
_SPACED = re.compile(r"(?<!\\)\\[,](?!\d{3}(?!\d))")
_BREAK = re.compile(r"\\(?:newline|par)(?![a-zA-Z])")


def bare_answer(text: str) -> str:
    """An answer without what is around it: a box, dollar signs, emphasis, the final period."""
    answer = text.strip()
    for _ in range(4):
        before = answer
        box = last_box(answer) if "box" in answer else None
        answer = answer if box is None else box
        for pattern in _DISPLAY:
            inner = pattern.match(answer)
            if inner and "$" not in inner[1]:
                answer = inner[1]
        answer = answer.strip().strip("*`").strip()
        if answer.endswith((".", ";", ",", "。")) and not answer.endswith("..."):
            answer = answer[:-1].rstrip()
        if answer == before:
            break
    return answer


def uniform(text: str) -> str:
    """The text in one notation: signs for Unicode, no sizes, fonts or spacing commands."""
    text = _SUPERSCRIPT.sub(lambda match: f"^{{{match[0].translate(_SUPERSCRIPTS)}}}", text)
    text = text.translate(_UNICODE_TABLE).replace("{,}", ",").replace(r"\lbrace", r"\{")
    text = text.replace(r"\rbrace", r"\}").replace(r"\dots", "...").replace(r"\ldots", "...")
    text = _DIGIT_GAP.sub("", text.replace(r"\!", ""))
    text = _THIN.sub(" ", _SPACED.sub(" ", _GONE.sub("", _BREAK.sub(" ", text))))
    text = _FRACTION.sub(r"\\frac", text).replace(",  ", ", ")
    text = _TEXT.sub(_marked, text)
    text = _FONT.sub(" ", text)
    text = _DEGREES.sub("°", text).replace("\\$", "$").replace("\\%", "%")
    return _LIST_WORDS.sub(",", text).strip()


TEXT_START, TEXT_END = "⟪", "⟫"
"""Commands around words that LaTeX sets as text."""


def _marked(match: re.Match[str]) -> str:
    words = match[2].strip()
    is_constant = words in ("e", "i", "d") and match[1] == "mathrm"
    is_formula = is_constant or words in FUNCTIONS or not any(map(str.isalpha, words))
    if is_formula or _LIST_WORDS.fullmatch(words):
        return f" {words} "
    return f"{TEXT_START}{words}{TEXT_END}"


NAMES = frozenset(
    {"sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"}
)
FUNCTIONS = NAMES | {"log", "ln", "lg", "exp", "sqrt", "max", "min", "gcd", "lcm", "det", "deg"}
_GREEK = frozenset(
    {"alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "iota"}
    | {"kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "phi", "varphi", "chi", "psi"}
    | {"omega", "Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi", "Psi", "Omega", "ell"}
)
CONSTANTS = frozenset({"pi", "infty", "emptyset", "varnothing"})
_COMMANDS = frozenset(
    {"frac", "binom", "sqrt", "begin", "end", "overline", "bar", "mathbb", "bmod", "pmod"}
)
_SIGNS = {
    **{r"\cdot": "*", r"\times": "*", r"\ast": "*", r"\div": "/", r"\le": "<=", r"\leq": "<="},
    **{r"\ge": ">=", r"\geq": ">=", r"\leqslant": "<=", r"\geqslant": ">=", r"\lt": "<"},
    **{r"\gt": ">", r"\ne": "!=", r"\neq": "!=", r"\approx": "=", r"\{": r"\{", r"\}": r"\}"},
    **{r"\cup": "cup", r"\cap": "cap", r"\in": "in", r"\pm": "+-", r"\mp": "-+", r"\mid": "|"},
    **{r"\langle": "<<", r"\rangle": ">>", r"\lvert": "|", r"\rvert": "|", r"\vert": "|"},
    **{r"\to": "->", r"\colon": ":", r"\setminus": "minus", r"\\": "\\\\", r"\|": "||"},
    **{r"\lfloor": "floor(", r"\rfloor": ")floor", r"\lceil": "ceil(", r"\rceil": ")ceil"},
}
_TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<command>\\(?:[a-zA-Z]+|.))|(?P<letters>[a-zA-Z]+)"
    r"|(?P<sign><=|>=|!=|\*\*|\.\.\.|[-+*/^_(){}\[\]|,;:=<>!'%$°&])|(?P<blank>\s+)",
    re.DOTALL,
)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text in uniform notation; ``NotationError`` if it has other characters."""
    tokens: list[Token] = []
    at, has_gap = 0, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotationError(f"{text[at]!r} is not part of a formula")
        at = match.end()
        if match.lastgroup == "blank":
            has_gap = True
            continue
        tokens += _tokens(match, has_gap)
        has_gap = False
    return tokens


def _tokens(match: re.Match[str], has_gap: bool) -> list[Token]:
    kind, text = str(match.lastgroup), match[0]
    if kind == "command":
        return [_command(text, has_gap)]
    if kind == "letters":
        return _letters(text, has_gap)
    if text == "**":
        text = "^"
    return [Token(kind, text, has_gap)]


def _command(text: str, has_gap: bool) -> Token:
    name = text[1:]
    if text in _SIGNS:
        return Token("sign", _SIGNS[text], has_gap)
    if name != "sqrt" and (name in FUNCTIONS or name in _GREEK or name in CONSTANTS):
        return Token("name", name, has_gap)
    if name in _COMMANDS:
        return Token("command", name, has_gap)
    raise NotationError(f"{text} is not known")


def _letters(text: str, has_gap: bool) -> list[Token]:
    """A run of letters: a function, a constant, one or two variables, or a word."""
    if text in FUNCTIONS or text in _GREEK or text == "pi":
        return [Token("name", text, has_gap)]
    if text in ("inf", "infinity", "Infinity", "oo"):
        return [Token("name", "infty", has_gap)]
    if len(text) > 2:
        return [Token("word", text, has_gap)]
    return [Token("name", letter, has_gap and at == 0) for at, letter in enumerate(text)]
