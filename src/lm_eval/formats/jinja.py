"""A format and a task's field specs as one Jinja source that stock Jinja renders to the prompt.

Result files show this source, and other tools can render it. The harness itself calls the format, which
is faster; both give the same bytes on every doc.
"""

from __future__ import annotations

import keyword
import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from lm_eval.config.fields import DOC, compile_field, fields_read, is_jinja
from lm_eval.formats.items import label_variables
from lm_eval.formats.prompt_format import JINJA_FIELDS, PromptFormat

LETTERS = string.ascii_uppercase
_RESERVED = frozenset(
    ["not", "and", "or", "is", "in", "if", "else", "none", "true", "false", "loop", "self"]
)
_TRIMS = re.compile(r"\{[{%#]-|-[}%#]\}")


class JinjaField(str):
    """A Jinja source that can also be called on a doc.

    As a ``str`` it is the template; a call gives the value without rendering the template.
    """

    _call: Callable[[Mapping[str, Any]], Any]

    def __new__(cls, source: str, call: Callable[[Mapping[str, Any]], Any]) -> JinjaField:
        field = super().__new__(cls, source)
        field._call = call
        return field

    def __call__(self, doc: Mapping[str, Any]) -> Any:
        return self._call(doc)

    def __reduce__(self) -> tuple[Any, ...]:
        return (str, (str(self),))


class _NoSourceError(Exception):
    """A field spec that stock Jinja cannot read: a callable, an odd column name, the whole ``doc``."""


def _or_none(make: Callable[..., str]) -> Callable[..., str | None]:
    """A source, or None where a field spec has none."""

    def source(*args: Any) -> str | None:
        try:
            return make(*args)
        except _NoSourceError:
            return None

    return source


@_or_none
def text_source(fmt: PromptFormat, question: Any, choices: Any, context: Any = None) -> str:
    """The Jinja source of a format's user text; None if a spec has none, or a blank is filled."""
    if fmt.fills_blank:
        raise _NoSourceError
    before, asked, passage = "", "", ""
    if fmt.show_question:
        before, asked = _bound("_question", question)
        if context is not None:
            statement, shown = _bound("_context", context)
            before, passage = before + statement, _passage(fmt, shown)
    texts = "".join(getattr(fmt, name) or "" for name in JINJA_FIELDS)
    if fmt.choice_labels is not None and (fmt.shows_labels or _reads_labels(texts)):
        before += _choices(choices) + _labels(fmt) + _about_labels(texts)

    def said(name: str) -> str:
        return (_literal if name in JINJA_FIELDS else _plain_text)(getattr(fmt, name) or "")

    return _sealed(before + fmt.layout(said, passage, _question(fmt, asked), _choice_lines(fmt)))


@_or_none
def choice_source(fmt: PromptFormat, choices: Any) -> str:
    """The Jinja source of what is scored: a list of labels, or of the choice texts."""
    if fmt.fills_blank or fmt.scored_format is not None:
        raise _NoSourceError
    if fmt.choice_labels is None or fmt.scores_texts:
        return _choices(choices) + '{{ _choices | map("string") | list }}'
    return _choices(choices) + _labels(fmt) + "{{ _choice_labels }}"


@_or_none
def target_source(
    fmt: PromptFormat, choices: Any, target: Any, target_type: str | None = None
) -> str:
    """The Jinja source of the target: the right choice's index, or the text a shot would show.

    It is for targets that name one choice, and reports no error for others.
    """
    if fmt.answers == "order" or target_type == "label":
        raise _NoSourceError
    is_list = "is sequence and _target is not string and _target is not mapping"
    first = f"_target[0] if _target {is_list} else _target"
    before, value = _bound("_target", target)
    before += _set("_target", value) + _set("_target", first)
    values = {"label": '""', "answer": "_target", "rationale": '""'}
    if choices is not None:
        before += _choices(choices) + _set_place(target_type)
        if fmt.output_type == "multiple_choice":
            return f"{before}{{{{ _place }}}}"
        values["answer"] = "_choices[_place]"
        if fmt.choice_labels is not None:
            before += _labels(fmt)
            values["label"] = "_choice_labels[_place]"
    return _sealed(before + _filled(fmt.target_format, values))


# Field specs


def _set(name: str, expression: str) -> str:
    return f"{{% set {name} = {expression} %}}"


def _bound(name: str, spec: Any) -> tuple[str, str]:
    """A field spec as the statement that comes first, if it needs one, and its expression."""
    compiled = compile_field(spec)
    if compiled.is_jinja and DOC not in fields_read(spec):
        if compiled.expression:
            return "", f"({compiled.expression})"
        return f"{{% set {name} %}}{compiled.spec}{{% endset %}}", name
    is_list = isinstance(spec, list | tuple) and all(isinstance(value, str) for value in spec)
    if is_list or isinstance(spec, int):
        return "", literal(spec)
    if compiled.kind == "word" and _is_name(compiled.spec):
        return "", str(compiled.spec)
    raise _NoSourceError


def _choices(spec: Any) -> str:
    """Sets ``_choices``; a list of names means the columns, if docs have all of them."""
    if spec is None:
        return _set("_choices", "[]")
    before, value = _bound("_choices", spec)
    if isinstance(spec, list | tuple):
        if any(map(is_jinja, spec)):
            raise _NoSourceError
        if all(map(_is_name, spec)):
            are_columns = " and ".join(f"{name} is defined" for name in spec)
            value = f'([{", ".join(spec)}] | reject("none") if {are_columns} else {value})'
    return before + _set("_choices", f"{value} | list")


def _set_place(target_type: str | None) -> str:
    """Sets ``_place`` to the index of the right choice: by index, text, letter, or digits."""
    texts = _set("_texts", '_choices | map("string") | map("trim") | list')
    texts += _set("_text", "_target | string | trim")
    by_text = _set("_place", "_texts.index(_text)")
    if target_type == "text":
        return texts + by_text
    texts += _set("_bare", '_text.strip("()[]{}<>.:, ")')
    if target_type is not None:
        return texts + _set("_place", f"_bare | int - {int(target_type == 'one_based')}")
    return (
        texts
        + "{% if _target is number and _target is not boolean and 0 <= _target < (_texts | length)"
        " and _target == _target | int %}"
        + _set("_place", "_target | int")
        + "{% elif _text in _texts %}"
        + by_text
        + f'{{% elif (_bare | length) == 1 and _bare in "{LETTERS}" %}}'
        + _set("_place", f'"{LETTERS}".index(_bare)')
        + "{% elif _bare.isdigit() %}"
        + _set("_place", "_bare | int")
        + "{% else %}"
        + _set("_place", '(_texts | map("lower") | list).index(_text | lower)')
        + "{% endif %}"
    )


# Parts of the user's text


def _passage(fmt: PromptFormat, shown: str) -> str:
    """The passage with the texts before and after it; nothing for a doc without one."""
    inner = f"{_literal(fmt.context_prefix)}{{{{ {shown} }}}}{_plain_text(fmt.context_delimiter)}"
    return f"{{% if {shown} is not none and ({shown} | string) %}}{inner}{{% endif %}}"


def _question(fmt: PromptFormat, asked: str) -> str:
    shown = f"{asked} | trim" if fmt.strip_question else asked
    if fmt.blank_marker is None or fmt.blank_position == "inline":
        return f"{{{{ {shown} }}}}"
    marker, blank = literal(fmt.blank_marker), literal(f" {fmt.blank_marker}")
    is_missing = f"{marker} not in ({shown} | string)"
    return f"{{{{ {shown} }}}}{{% if {is_missing} %}}{{{{ {blank} }}}}{{% endif %}}"


def _choice_lines(fmt: PromptFormat) -> str:
    line = _filled(fmt.choice_format, {"label": "_label", "choice": "_choices[loop.index0]"})
    gap = f"{{% if not loop.last %}}{_plain_text(fmt.choice_delimiter)}{{% endif %}}"
    return f"{{% for _label in _choice_labels %}}{line}{gap}{{% endfor %}}"


def _labels(fmt: PromptFormat) -> str:
    """Sets ``_choice_labels``."""
    style, name = fmt.choice_labels, "_choice_labels"
    if isinstance(style, tuple):
        return _set(name, f"{literal(style)}[:_choices | length]")
    if style == "choices":
        return _set(name, '_choices | map("string") | list')
    if style == "numbers":
        return _set(name, 'range(1, _choices | length + 1) | map("string") | list')
    at = "loop.index0"
    letters = (  # A … Z, AA, AB …
        f'{{{{ "{LETTERS}"[{at} // 26 - 1] if {at} >= 26 else "" }}}}{{{{ "{LETTERS}"[{at} % 26] }}}}'
    )
    counted = f"{{% for _ in _choices %}}{letters} {{% endfor %}}"
    return f"{{% set {name} %}}{counted}{{% endset %}}" + _set(name, f"{name}.split()")


def _reads_labels(texts: str) -> bool:
    return any(name in texts for name in label_variables(()))


def _about_labels(texts: str) -> str:
    """Sets the other variables about labels that these texts read."""
    statements = ""
    if "_num_choices" in texts:
        statements = _set("_num_choices", "_choice_labels | length")
    for word in ("and", "or"):
        if f"_choice_list_{word}" in texts:
            several = f'(_choice_labels[:-1] | join(", ")) ~ " {word} " ~ _choice_labels[-1]'
            value = f"{several} if _choice_labels | length > 1 else _choice_labels | join"
            statements += _set(f"_choice_list_{word}", value)
    return statements


# Texts


def _sealed(source: str) -> str:
    """A source whose last newline stock Jinja keeps."""
    return f'{source[:-1]}{{{{ "\\n" }}}}' if source.endswith("\n") else source


def _filled(text: str, values: Mapping[str, str]) -> str:
    """A ``{label}. {choice}`` text as Jinja, its literal parts quoted if necessary."""
    pieces = []
    for literal, name, _, _ in string.Formatter().parse(text):
        pieces.append(_plain_text(literal))
        if name is not None:
            pieces.append(f"{{{{ {values[name]} }}}}")
    return "".join(pieces)


def literal(value: Any) -> str:
    """A value as Jinja writes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
    if isinstance(value, Mapping):
        items = ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return f"({{{items}}})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return f"({value})"


def _literal(text: str) -> str:
    """A format's text in a Jinja source: plain, or a template.

    The white-space control of a template (``-}}``) must not affect the text beside it.
    """
    if not is_jinja(text):
        return _plain_text(text)
    fence = '{{ "" }}' if _TRIMS.search(text) else ""
    return f"{fence}{text}{fence}"


def _plain_text(text: str) -> str:
    """Literal text, written as an expression if stock Jinja would change it.

    Stock Jinja reads ``{{`` and ``{%`` and turns ``\\r`` into ``\\n``.
    """
    if "{" in text or "\r" in text or any("\ud800" <= c <= "\udfff" for c in text):
        return f"{{{{ {literal(text)} }}}}"
    return text


def _is_name(word: str) -> bool:
    return word.isidentifier() and word.lower() not in _RESERVED and not keyword.iskeyword(word)
