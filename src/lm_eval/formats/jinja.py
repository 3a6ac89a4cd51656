"""A format and a task's field specs as one Jinja source that stock Jinja renders to the prompt.

Result files show this source, and other tools can render it. The harness itself calls the format, which
is faster; both give the same bytes on every doc. ``unwrapped`` goes the other way.
"""

from __future__ import annotations

import keyword
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lm_eval.config.fields import DOC, Field, compile_field, fields_read, is_jinja, template_parts
from lm_eval.formats.items import counted_labels
from lm_eval.formats.prompt_format import JINJA_FIELDS, PromptFormat

if TYPE_CHECKING:
    from lm_eval.tasks.prompts import RawFields


LETTERS = string.ascii_uppercase
_LABEL_MACRO = (
    "{% macro _letter(i) %}{% if i >= 26 %}{{ _letter(i // 26 - 1) }}{% endif %}"
    f'{{{{ "{LETTERS}"[i % 26] }}}}{{% endmacro %}}'
)
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


@dataclass(frozen=True)
class Fragment:
    """A field spec as Jinja: statements that come first, and the expression for its value."""

    before: str
    expression: str


def fragment(spec: Any, variable: str) -> Fragment | None:
    """A field spec as Jinja, or None if it has no Jinja source (callables, odd column names).

    None also for a spec that reads ``doc``, which stock Jinja does not know.
    """
    compiled: Field = compile_field(spec)
    if compiled.is_jinja and DOC in fields_read(spec):
        return None
    if compiled.kind == "word":
        return Fragment("", compiled.spec) if _is_name(compiled.spec) else None
    if compiled.kind == "expression":
        return Fragment("", f"({compiled.expression})")
    if compiled.kind == "template":
        return Fragment(f"{{% set {variable} %}}{compiled.spec}{{% endset %}}", variable)
    if compiled.kind == "literal":
        return _literal_fragment(compiled.spec)
    return None


def _choices_of(spec: Any) -> Fragment | None:
    """``doc_to_choice`` as Jinja; a list of names means the columns, if docs have all of them."""
    if not isinstance(spec, list | tuple) or not all(isinstance(name, str) for name in spec):
        return fragment(spec, "_choices")
    if any(map(is_jinja, spec)):
        return None
    if not all(map(_is_name, spec)):
        return fragment(spec, "_choices")
    are_defined = " and ".join(f"{name} is defined" for name in spec)
    columns = f'[{", ".join(spec)}] | reject("none") | list'
    return Fragment("", f"({columns} if {are_defined} else {_list(spec)})")


def text_source(fmt: PromptFormat, question: Any, choices: Any, context: Any = None) -> str | None:
    """The Jinja source of a format's user text; None if a spec has none, or a blank is filled."""
    if fmt.fills_blank:
        return None
    if not fmt.show_question:
        question, context = "{{ '' }}", None
    asked = fragment(question, "_question")
    has_choices = fmt.choice_labels is not None and choices is not None
    shown = _choices_of(choices) if has_choices else Fragment("", "[]")
    passage = Fragment("", "") if context is None else fragment(context, "_context")
    if asked is None or shown is None or passage is None:
        return None
    before = asked.before + passage.before + shown.before
    variables = _label_variables(fmt, shown.expression)

    def said(name: str) -> str:
        return (_literal if name in JINJA_FIELDS else _plain_text)(getattr(fmt, name) or "")

    lines = _choice_lines(fmt, shown.expression) if fmt.shows_labels else ""
    body = fmt.layout(said, _passage(fmt, passage), _question(fmt, asked), lines)
    return _sealed(before + variables + body)


def choice_source(fmt: PromptFormat, choices: Any) -> str | None:
    """The Jinja source of what is scored: a list of labels, or of the choice texts."""
    shown = _choices_of(choices)
    if shown is None or fmt.fills_blank or fmt.scored_format is not None:
        return None
    each = shown.expression
    style = fmt.choice_labels
    if style in (None, "choices") or fmt.scores_texts:
        return f'{shown.before}{{{{ {each} | map("string") | list }}}}'
    if isinstance(style, tuple):
        return f"{shown.before}{{{{ {_list(style)}[:{each} | length] }}}}"
    comma = "{% if not loop.last %}, {% endif %}"
    macro, label = _counted(style)
    loop = f"{{% for _choice in {each} %}}'{{{{ {label} }}}}'{comma}{{% endfor %}}"
    return f"{shown.before}{macro}[{loop}]"


def target_source(
    fmt: PromptFormat, choices: Any, target: Any, target_type: str | None = None
) -> str | None:
    """The Jinja source of the target: the right choice's index, or the text a shot would show.

    It is for targets that name one choice, and reports no error for others.
    """
    wanted = fragment(target, "_target")
    if wanted is None or fmt.answers == "order" or target_type == "label":
        return None
    before = wanted.before + _first_target(wanted.expression)
    if choices is None:
        return _sealed(before + _target_text(fmt, label='""', answer="_target"))
    shown = _choices_of(choices)
    if shown is None:
        return None
    before += shown.before + _set_place(shown.expression, target_type)
    if fmt.output_type == "multiple_choice":
        return f"{before}{{{{ _place }}}}"
    label = '""'
    if fmt.choice_labels is not None:
        before += _choice_labels(fmt, shown.expression)
        label = "_choice_labels[_place]"
    answer = f"({shown.expression})[_place]"
    return _sealed(before + _target_text(fmt, label=label, answer=answer))


def _first_target(target: str) -> str:
    """Sets ``_target`` to the first of several right answers, or to the only one."""
    is_list = "is sequence and _target is not string and _target is not mapping"
    return (
        f"{{% set _target = {target} %}}"
        f"{{% set _target = _target[0] if _target {is_list} else _target %}}"
    )


def _set_place(choices: str, target_type: str | None) -> str:
    """Sets ``_place`` to the index of the right choice: by index, text, letter, or digits."""
    texts = (
        f'{{% set _texts = {choices} | map("string") | map("trim") | list %}}'
        "{% set _text = _target | string | trim %}"
    )
    by_text = "{% set _place = _texts.index(_text) %}"
    if target_type == "text":
        return texts + by_text
    bare = '{% set _bare = _text.strip("()[]{}<>.:, ") %}'
    if target_type is not None:
        first = 1 if target_type == "one_based" else 0
        return f"{texts}{bare}{{% set _place = _bare | int - {first} %}}"
    return (
        f"{texts}{bare}"
        "{% if _target is number and _target is not boolean and 0 <= _target < (_texts | length)"
        " and _target == _target | int %}"
        "{% set _place = _target | int %}"
        f"{{% elif _text in _texts %}}{by_text}"
        f'{{% elif (_bare | length) == 1 and _bare in "{LETTERS}" %}}'
        f'{{% set _place = "{LETTERS}".index(_bare) %}}'
        "{% elif _bare.isdigit() %}{% set _place = _bare | int %}"
        '{% else %}{% set _place = (_texts | map("lower") | list).index(_text | lower) %}{% endif %}'
    )


def _sealed(source: str) -> str:
    """A source whose last newline stock Jinja keeps."""
    return f'{source[:-1]}{{{{ "\\n" }}}}' if source.endswith("\n") else source


def _target_text(fmt: PromptFormat, *, label: str, answer: str) -> str:
    return _filled(fmt.target_format, {"label": label, "answer": answer, "rationale": '""'})


def _passage(fmt: PromptFormat, passage: Fragment) -> str:
    """The passage with the texts before and after it; empty for a doc without one."""
    if not passage.expression:
        return ""
    value, prefix = passage.expression, _literal(fmt.context_prefix)
    is_there = f"{value} is not none and ({value} | string)"
    inner = f"{prefix}{{{{ {value} }}}}{_plain_text(fmt.context_delimiter)}"
    return f"{{% if {is_there} %}}{inner}{{% endif %}}"


def _question(fmt: PromptFormat, asked: Fragment) -> str:
    value = f"{asked.expression} | trim" if fmt.strip_question else asked.expression
    if fmt.blank_marker is None or fmt.blank_position == "inline":
        return f"{{{{ {value} }}}}"
    marker = jinja_string(fmt.blank_marker)
    blank = jinja_string(f" {fmt.blank_marker}")
    return (
        f"{{{{ {value} }}}}"
        f"{{% if {marker} not in ({value} | string) %}}{{{{ {blank} }}}}{{% endif %}}"
    )


def _choice_lines(fmt: PromptFormat, choices: str) -> str:
    style = fmt.choice_labels
    shown = choices
    if isinstance(style, tuple):
        label = f"{_list(style)}[loop.index0]"
        shown = f"({choices})[:{len(style)}]"
    else:
        label = "_choice" if style == "choices" else _counted(style)[1]
    line = _filled(fmt.choice_format, {"label": label, "choice": "_choice"})
    gap = f"{{% if not loop.last %}}{_plain_text(fmt.choice_delimiter)}{{% endif %}}"
    return f"{{% for _choice in {shown} %}}{line}{gap}{{% endfor %}}"


def _counted(style: Any) -> tuple[str, str]:
    """For labels that are counted, the macro that comes first and a label inside a loop."""
    is_letters = style == "letters"
    return (_LABEL_MACRO, "_letter(loop.index0)") if is_letters else ("", "loop.index")


def _filled(text: str, values: Mapping[str, str]) -> str:
    """A ``{label}. {choice}`` text as Jinja, its literal parts quoted if necessary."""
    pieces = []
    for literal, name, _, _ in string.Formatter().parse(text):
        pieces.append(_plain_text(literal))
        if name is not None:
            pieces.append(f"{{{{ {values[name]} }}}}")
    return "".join(pieces)


def _label_variables(fmt: PromptFormat, choices: str) -> str:
    """The statements that define what the format's texts and choice lines refer to."""
    if fmt.choice_labels is None:
        return ""
    before = fmt.instruction, fmt.context_prefix, fmt.question_prefix
    texts = "".join(filter(None, (*before, fmt.answer_instruction, fmt.answer_prompt)))
    if not any(name in texts for name in ("_num_choices", "_choice_labels", "_choice_list")):
        return _LABEL_MACRO if fmt.choice_labels == "letters" and fmt.shows_labels else ""
    statements = _choice_labels(fmt, choices)
    if "_num_choices" in texts:
        statements += "{% set _num_choices = _choice_labels | length %}"
    for word in ("and", "or"):
        if f"_choice_list_{word}" in texts:
            statements += (
                f"{{% set _choice_list_{word} = (_choice_labels[:-1] | join(', ')) ~ "
                f'" {word} " ~ _choice_labels[-1] if _choice_labels | length > 1 '
                "else _choice_labels | join %}"
            )
    return statements


def _choice_labels(fmt: PromptFormat, choices: str) -> str:
    style = fmt.choice_labels
    if isinstance(style, tuple):
        return f"{{% set _choice_labels = {_list(style)}[:{choices} | length] %}}"
    if style == "choices":
        return f'{{% set _choice_labels = {choices} | map("string") | list %}}'
    macro, label = _counted(style)
    loop = f"{{% for _choice in {choices} %}}{{{{ {label} }}}} {{% endfor %}}"
    return (
        f"{macro}{{% set _choice_labels %}}{loop}{{% endset %}}"
        "{% set _choice_labels = _choice_labels.split() %}"
    )


def _literal_fragment(value: Any) -> Fragment | None:
    if isinstance(value, bool):
        return Fragment("", "true" if value else "false")
    if isinstance(value, int):
        return Fragment("", str(value))
    if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return Fragment("", _list(value))
    return None


def _list(values: Any) -> str:
    return f"[{', '.join(jinja_string(value) for value in values)}]"


def jinja_string(text: str) -> str:
    """A string literal that Jinja reads back as exactly this text."""
    escaped = text.encode("unicode_escape").decode("ascii")
    quoted = escaped.replace('"', '\\"')
    return f'"{quoted}"'


def _literal(text: str | None) -> str:
    """A format's text in a Jinja source: a template as it is, plain text quoted if necessary."""
    if not text:
        return ""
    if is_jinja(text):
        return _fenced(text)
    return _plain_text(text)


def _fenced(template: str) -> str:
    """A template whose white-space control (``-}}``) does not affect the text beside it."""
    if _TRIMS.search(template) is None:
        return template
    fence = '{{ "" }}'
    return f"{fence}{template}{fence}"


def _plain_text(text: str) -> str:
    """Literal text, written as an expression if stock Jinja would change it.

    Stock Jinja reads ``{{`` and ``{%`` and turns ``\\r`` into ``\\n``.
    """
    if "{" in text or "\r" in text or any("\ud800" <= c <= "\udfff" for c in text):
        return f"{{{{ {jinja_string(text)} }}}}"
    return text


def _is_name(word: str) -> bool:
    return word.isidentifier() and word.lower() not in _RESERVED and not keyword.iskeyword(word)


# The other way: a prompt that a task lays out itself → raw fields, if that is certain
#
# Task files for EleutherAI's harness write ``Question: {{question}}\\nAnswer:`` into ``doc_to_text``,
# some with the choices between the two. Under ``task@format`` the format adds such words itself. Only
# known words are removed: those that announce a question or ask for an answer, and labelled lines of one
# field each. Anything else stays as it is.


_QUESTION = (
    r"questions?|q|problem|frage|question|pregunta|domanda|pergunta|questão|вопрос|问题|問題|質問|질문|문제"
    r"|سؤال|السؤال|प्रश्न"
)
_ANSWER = (
    r"(?:the |your )?(?:final |correct |best )?answer|a|response|antwort|réponse|respuesta|risposta"
    r"|resposta|ответ|答案|回答|答え|정답|답|الإجابة|إجابة|उत्तर"
)
_OPENS = re.compile(rf"\s*(?:{_QUESTION})\s?[:：.]\s*", re.IGNORECASE)
_CLOSES = re.compile(rf"\s*(?:(?:{_ANSWER})\s?[:：]\s*)?", re.IGNORECASE)
_LINE = re.compile(
    r"\s*(?:(?:answer )?(?:choices|options)\s?:\s*)?[(\[]?(?P<label>[A-Z]|[0-9]{1,2})[.):\]]\s*",
    re.IGNORECASE,
)


def unwrapped(raw: RawFields) -> RawFields:
    """The fields without the words around the question; the same object if nothing is certain."""
    parts = None
    if isinstance(raw.text, str) and not callable(raw.text) and is_jinja(raw.text):
        parts = template_parts(str(raw.text))
    texts, fields = _alternating(parts or [])
    if not fields or not _is_wrapper(texts[0], texts[-1]):
        return raw
    question, *choices = fields
    if not choices:
        has_words = bool(texts[0].strip() or texts[-1].strip())
        return replace(raw, text=_as_template(question)) if has_words else raw
    lines = [_LINE.fullmatch(text) for text in texts[1:-1]]
    labels = tuple(line["label"].upper() for line in lines if line is not None)
    if labels in _countings(len(choices)) and _are_these(raw.choice, choices, labels):
        listed = _as_template(f"[{', '.join(choices)}]")
        return replace(raw, text=_as_template(question), choice=listed)
    return raw


def _is_wrapper(opening: str, closing: str) -> bool:
    """Whether the words at both ends, if any, announce a question and ask for an answer."""
    opens = not opening.strip() or _OPENS.fullmatch(opening) is not None
    return opens and _CLOSES.fullmatch(closing) is not None


def _alternating(parts: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The texts around the fields, one more than there are fields, and the fields."""
    texts, fields = [""], []
    for kind, piece in parts:
        if kind == "text":
            texts[-1] += piece
        else:
            fields.append(piece)
            texts.append("")
    return texts, fields


def _countings(count: int) -> tuple[tuple[str, ...], ...]:
    return tuple(counted_labels(style, count) for style in ("letters", "numbers"))


def _are_these(spec: object, choices: list[str], labels: tuple[str, ...]) -> bool:
    """Whether ``doc_to_choice`` names the choices that the text lays out, by label or by text."""
    if isinstance(spec, list | tuple):
        return tuple(str(label).strip(" ().:[]").upper() for label in spec) == labels
    if not isinstance(spec, str):
        return False
    parts = template_parts(spec) if is_jinja(spec) else [("expression", spec)]
    if parts is None or len(parts) != 1 or parts[0][0] != "expression":
        return False
    written, shown = _compact(parts[0][1]), [_compact(choice) for choice in choices]
    return shown == [f"{written}[{at}]" for at in range(len(shown))] or written == (
        f"[{','.join(shown)}]"
    )


def _compact(expression: str) -> str:
    return "".join(expression.split())


def _as_template(source: str) -> str:
    return f"{{{{ {source} }}}}"
