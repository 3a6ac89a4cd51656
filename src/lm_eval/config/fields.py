"""One field spec and one doc → one value.

A field spec is the value of ``doc_to_text``, ``doc_to_choice`` or ``doc_to_target`` in a task: a
column's name, a Jinja template, a Python callable or a literal. Jinja runs in a sandbox, undefined names
are errors, and every template is compiled once, however many docs it is rendered on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import GeneratorType
from typing import Any, Literal, NoReturn

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, Undefined, UndefinedError, nodes
from jinja2.exceptions import SecurityError

from lm_eval.config.filters import TEMPLATE_FILTERS, FilterError
from lm_eval.config.limits import COMPILE_ERRORS, JOINED, BudgetError, Sandbox, bounded, joined
from lm_eval.errors import FieldError, LmEvalError, did_you_mean, listing

Doc = Mapping[str, Any]
Kind = Literal["callable", "literal", "word", "text", "expression", "template"]

DOC = "doc"
"""The name of the whole doc in templates, for columns whose names are not words."""
BARE_WORD = re.compile(r"[^\W\d][\w.-]*")


def process_field(doc: Doc, spec: Any, default: Any = None) -> Any:
    """The value of a field spec on a doc; ``default`` if the spec is None.

    Types are kept: ``"choices"`` and ``"{{ choices.text }}"`` give lists, ``"{{ labels.index(key) }}"``
    an int. A name that the doc does not have is a ``FieldError``, never an empty string.
    """
    return default if spec is None else compile_field(spec)(doc)


def compile_field(spec: Any) -> Field:
    """A field spec, ready to be called on docs. Compiling the same string again is free."""
    if isinstance(spec, str) and not callable(spec):
        return _compile_string(str(spec))
    return Field(spec, "callable" if callable(spec) else "literal", None)


@lru_cache(maxsize=4096)
def compile_template(source: str) -> Callable[[Doc], str]:
    """A Jinja source as the harness renders it: always to text, and None prints as ``None``."""
    environment = _environment(prints_none=True)
    try:
        return _renderer(environment, source, environment.parse(source))
    except COMPILE_ERRORS as error:
        raise _syntax_problem(source, error) from None


@dataclass(frozen=True)
class Field:
    """A compiled field spec. Call it on a doc, or on a doc and further variables."""

    spec: Any
    kind: Kind
    evaluate: Callable[[Doc], Any] | None

    def __call__(self, doc: Doc, variables: Mapping[str, Any] | None = None) -> Any:
        if self.evaluate is not None:
            return self.evaluate({**doc, **variables} if variables else doc)
        if self.kind == "literal":
            return self.spec
        if self.kind == "callable":
            return _call(self.spec, doc)
        if self.spec in doc:
            return doc[self.spec]
        if self.kind == "word":
            raise FieldError(_unknown_word(self.spec, doc))
        return self.spec

    @property
    def is_jinja(self) -> bool:
        return self.evaluate is not None

    @property
    def expression(self) -> str | None:
        """The Jinja expression between the braces, for a spec that is one expression."""
        if self.kind != "expression":
            return None
        tokens = template_tokens(self.spec)
        kinds = [kind for kind, _ in tokens]
        start, end = kinds.index("variable_begin") + 1, kinds.index("variable_end")
        return "".join(text for _, text in tokens[start:end]).strip()

    @cached_property
    def literal_text(self) -> str:
        """The text of a template outside its braces; empty for every other kind of spec."""
        if self.kind != "template":
            return ""
        tree = _environment().parse(self.spec)
        return "".join(data.data for data in tree.find_all(nodes.TemplateData))


@lru_cache(maxsize=4096)
def _compile_string(source: str) -> Field:
    if not is_jinja(source):
        return Field(source, "word" if BARE_WORD.fullmatch(source) else "text", None)
    environment = _environment()
    try:
        tree = environment.parse(source)
        expression = _only_expression(tree)
        if expression is None:
            return Field(source, "template", _renderer(environment, source, tree))
        return Field(source, "expression", _evaluator(environment, source, expression))
    except COMPILE_ERRORS as error:
        raise _syntax_problem(source, error) from None


_NAME_WITH_BLANKS = re.compile(r"\{\{\s*(\w+(?: \w+)+)\s*\}\}")


def _syntax_problem(source: str, error: Exception) -> FieldError:
    if not isinstance(error, TemplateSyntaxError):
        return FieldError(
            f"{shorten(source)} is too long or too deeply nested to be compiled. Use a shorter "
            "template, or `!function`."
        )
    named = _NAME_WITH_BLANKS.fullmatch(source)
    advice = (
        f"Write a column whose name has blanks without braces: `{named[1]}`; in a longer template, "
        f"write `{{{{ doc['{named[1]}'] }}}}`."
        if named
        else ""
    )
    return FieldError(
        f"{shorten(source)} is not valid Jinja (line {error.lineno}): "
        f"{str(error.message).rstrip('.')}. {advice or 'Check the braces and names in it.'}"
    )


def is_jinja(source: str) -> bool:
    """Whether a string contains any Jinja mark-up."""
    return "{{" in source or "{%" in source or "{#" in source


def shorten(text: Any, limit: int = 80) -> str:
    """A spec or value for an error message: quoted, on one line, bounded."""
    shown = repr(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def template_tokens(source: str) -> list[tuple[str, str]]:
    """All tokens of a template, as ``(kind, text)``."""
    try:
        return [(kind, text) for _, kind, text in _environment().lex(source)]
    except COMPILE_ERRORS as error:
        raise _syntax_problem(source, error) from None


def template_parts(source: str) -> list[tuple[str, str]] | None:
    """The pieces of a template in order: ``("text", …)`` and ``("expression", …)``.

    None if it contains anything else: statements, comments, or braces that trim the text around them.
    """
    pieces: list[tuple[str, str]] = []
    inside: list[str] | None = None
    for _, kind, text in _environment().lex(source):
        if kind == "variable_begin" and text == "{{":
            inside = []
        elif kind == "variable_end" and text == "}}" and inside is not None:
            pieces.append(("expression", "".join(inside).strip()))
            inside = None
        elif inside is not None:
            inside.append(text)
        elif kind == "data":
            pieces.append(("text", text))
        else:
            return None
    return pieces


def _only_expression(tree: nodes.Template) -> nodes.Expr | None:
    """The expression of a template that is ``{{ expression }}`` and nothing else."""
    if len(tree.body) == 1 and isinstance(tree.body[0], nodes.Output):
        parts = tree.body[0].nodes
        if len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData):
            return parts[0]
    return None


def _template(environment: Sandbox, tree: nodes.Template) -> Template:
    template = environment.from_string(tree)
    # Jinja copies them for each doc; copying its ChainMap takes longer than everything else.
    template.globals = dict(template.globals)
    return template


def _renderer(environment: Sandbox, source: str, tree: nodes.Template) -> Callable[[Doc], str]:
    template = _template(environment, tree)
    visible = _with_itself if _reads_itself(tree) else _as_it_is

    def render(doc: Doc) -> str:
        try:
            return bounded(template.render, visible(doc))
        except Exception as error:
            _explain(error, source, doc)

    return render


def _evaluator(environment: Sandbox, source: str, expression: nodes.Expr) -> Callable[[Doc], Any]:
    assignment = nodes.Assign(nodes.Name("result", "store", lineno=1), expression, lineno=1)
    tree = nodes.Template([assignment], lineno=1)
    template = _template(environment, tree)
    visible = _with_itself if _reads_itself(tree) else dict

    def result(doc: Doc) -> Any:
        context = template.new_context(visible(doc))
        for _ in template.root_render_func(context):  # runs the assignment, prints nothing
            pass
        return _materialise(context.vars["result"])

    def evaluate(doc: Doc) -> Any:
        try:
            return bounded(result, doc)
        except Exception as error:
            _explain(error, source, doc)

    return evaluate


def _reads_itself(tree: nodes.Node) -> bool:
    return any(name.name == DOC for name in tree.find_all(nodes.Name))


def _with_itself(doc: Doc) -> dict[str, Any]:
    """The doc's fields and, as ``doc``, the doc itself; a column of that name comes first."""
    return {DOC: doc, **doc}


def _as_it_is(doc: Doc) -> Doc:
    return doc


def _materialise(value: Any) -> Any:
    """A value that can leave Jinja: lazy filters are run, undefined parts raise."""
    if isinstance(value, Undefined):
        str(value)  # raises, with the name
    if isinstance(value, GeneratorType | map | filter | zip | range):
        value = list(value)
    if isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, Undefined):
                str(item)
    return value


def _explain(error: Exception, source: str, doc: Doc) -> NoReturn:
    """Raise an error of a template as a ``FieldError`` that says what to do."""
    if isinstance(error, LmEvalError):
        raise error
    if isinstance(error, _NonePrintedError):
        empty = listing(fields_lacking(source, doc))
        problem = (
            f"{shorten(source)} would print None; the doc has no value for: {empty}. Give it one in "
            "the data, or say what to print: `{{ field if field is not none else '…' }}`."
        )
    elif isinstance(error, SecurityError):
        problem = (
            f"{shorten(source)} was refused: {str(error).rstrip('.')}. Templates run in a sandbox "
            "and can only read the doc's fields; use `!function` for anything more."
        )
    elif isinstance(error, BudgetError):
        problem = f"{shorten(source)} was stopped: {error}. Use a simpler one, or `!function`."
    elif isinstance(error, FilterError):
        problem = f"{shorten(source)} failed: {str(error).rstrip('.')}."
    elif isinstance(error, UndefinedError):
        problem = f"{shorten(source)} cannot be rendered: {_undefined(str(error), doc)}"
    else:
        problem = f"{shorten(source)} failed: {type(error).__name__}: {shorten(str(error), 200)}."
    raise FieldError(problem) from None


def _undefined(message: str, doc: Doc) -> str:
    name = re.match(r"'(.+?)' is undefined|'dict object' has no attribute '(.+?)'$", message)
    name_of = (name[1] or name[2]) if name else ""
    hint = did_you_mean(name_of, doc)
    return f"{message}.{hint} The doc's fields: {listing(doc)}."


def _unknown_word(word: str, doc: Doc) -> str:
    advice = f" For literal text, write {'{{ ' + repr(word) + ' }}'!r}."
    if "." in word and word.partition(".")[0] in doc:
        advice = f" To reach into a field, write {'{{' + word + '}}'!r}."
    hint = did_you_mean(word, doc)
    return f"{word!r} is not a column of the doc.{hint} The doc's fields: {listing(doc)}.{advice}"


def _call(function: Callable[[Doc], Any], doc: Doc) -> Any:
    try:
        return function(doc)
    except LmEvalError:
        raise
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        raise FieldError(f"{name}(doc) failed: {type(error).__name__}: {error}.") from error


@lru_cache(maxsize=2)
def _environment(*, prints_none: bool = False) -> Sandbox:
    """The sandbox for templates; printing None is an error unless ``prints_none``."""
    environment = Sandbox(
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        finalize=None if prints_none else _printed,
    )
    environment.filters |= TEMPLATE_FILTERS
    environment.filters[JOINED] = joined if prints_none else _joined_printed
    return environment


def _printed(value: Any) -> Any:
    """The value that ``{{ value }}`` prints; refuses None, which would print as the word None."""
    if value is None:
        raise _NonePrintedError
    return value


def _joined_printed(parts: list[Any]) -> str:
    """``a ~ b`` prints its parts, so it refuses None as well."""
    return joined([_printed(part) for part in parts])


class _NonePrintedError(Exception):
    """A template was about to print None."""


def equality(spec: Any) -> tuple[str, Any] | None:
    """``("category", "biology")`` for ``{{ category == 'biology' }}``; None for any other spec."""
    if not isinstance(spec, str) or not is_jinja(spec):
        return None
    compared = _only_expression(_environment().parse(spec))
    if not isinstance(compared, nodes.Compare) or len(compared.ops) != 1:
        return None
    name, operand = _column(compared.expr), compared.ops[0]
    if name is None or operand.op != "eq" or not isinstance(operand.expr, nodes.Const):
        return None
    return name, operand.expr.value


def _column(node: nodes.Expr) -> str | None:
    """The column that an expression is: ``category``, ``doc.category`` or ``doc['category']``."""
    if isinstance(node, nodes.Name):
        return None if node.name == DOC else node.name
    if isinstance(node, nodes.Getattr) and _is_doc(node.node):
        return node.attr
    if isinstance(node, nodes.Getitem) and _is_doc(node.node) and isinstance(node.arg, nodes.Const):
        return str(node.arg.value)
    return None


def fields_read(spec: Any) -> set[str]:
    """The names that a Jinja spec reads from the doc; a bare word reads itself."""
    if not isinstance(spec, str):
        return set()
    if not is_jinja(spec):
        return {spec} if BARE_WORD.fullmatch(spec) else set()
    return set(_names_read(str(spec)))


def fields_lacking(spec: Any, doc: Doc) -> list[str]:
    """The names that a spec reads and for which the doc has no value."""
    return [name for name in fields_read(spec) if doc.get(name) is None and name != DOC]


@lru_cache(maxsize=4096)
def _names_read(source: str) -> frozenset[str]:
    from jinja2 import meta

    tree = _environment().parse(source)
    names = meta.find_undeclared_variables(tree)
    if DOC in names:  # doc['Correct Answer'] reads that column
        keys = [item.arg for item in tree.find_all(nodes.Getitem) if _is_doc(item.node)]
        names |= {str(key.value) for key in keys if isinstance(key, nodes.Const)}
        names |= {item.attr for item in tree.find_all(nodes.Getattr) if _is_doc(item.node)}
    return frozenset(names)


def _is_doc(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == DOC
