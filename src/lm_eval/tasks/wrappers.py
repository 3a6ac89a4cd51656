"""A prompt that a task lays out itself → the raw fields that a format wants, where that can be proved.

Task files for EleutherAI's harness write ``Question: {{question}}\\nAnswer:`` into ``doc_to_text``, some
with the choices between the two. Under ``task@format`` the format brings such words itself. What is
taken off is known: words that announce a question or ask for an answer, and labelled lines that hold one
field each. Anything else stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lm_eval.config.fields import is_jinja, template_parts
from lm_eval.formats.items import counted_labels
from lm_eval.tasks.prompts import RawFields

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
    """The fields without the words around the question; the same object where nothing is proved."""
    parts = None
    if isinstance(raw.text, str) and not callable(raw.text) and is_jinja(raw.text):
        parts = template_parts(str(raw.text))
    texts, fields = _alternating(parts or [])
    if not fields or not _is_wrapper(texts[0], texts[-1]):
        return raw
    question, *choices = fields
    if not choices:
        has_words = bool(texts[0].strip() or texts[-1].strip())
        return replace(raw, text=_expression(question)) if has_words else raw
    lines = [_LINE.fullmatch(text) for text in texts[1:-1]]
    labels = tuple(line["label"].upper() for line in lines if line is not None)
    if labels in _countings(len(choices)) and _are_these(raw.choice, choices, labels):
        listed = _expression(f"[{', '.join(choices)}]")
        return replace(raw, text=_expression(question), choice=listed)
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
    """Whether ``doc_to_choice`` names the choices that the text lays out: by label or themselves."""
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


def _expression(source: str) -> str:
    return f"{{{{ {source} }}}}"
