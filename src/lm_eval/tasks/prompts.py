"""Turns a doc into the turns of a prompt under a format.

``Prompts`` is the interface that this module and the harness's rules (``lm_eval.harness``) share: a task
asks for the question turn, the shot turn and what is scored, and does not know which of the two answers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lm_eval.config.fields import (
    Field,
    compile_field,
    fields_lacking,
    is_jinja,
    shorten,
    template_parts,
)
from lm_eval.errors import FieldError, GoldError, LmEvalError, did_you_mean, listing
from lm_eval.formats.assemble import Turn
from lm_eval.formats.gold import GoldColumn, Row
from lm_eval.formats.items import (
    Item,
    build_item,
    choice_texts,
    counted_labels,
    data_labels,
    passage_text,
    question_text,
    reordered,
    written_choices,
)
from lm_eval.formats.prompt_format import PromptFormat

Doc = Mapping[str, Any]


@dataclass(frozen=True)
class RawFields:
    """The field specs as the task wrote them, before any format."""

    text: Any = None
    choice: Any = None
    target: Any = None
    context: Any = field(default=None, repr=False)  # fingerprints are older than it
    rationale: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DocPrompt:
    """A doc ready to be asked: its turn, what is scored after it, and what is right."""

    turn: Turn
    continuations: tuple[str, ...]
    """Scored one by one after the prompt; empty where text is generated."""
    choices: tuple[str, ...]
    gold: tuple[Any, ...]
    """Every acceptable answer: indices of choices, texts, or orders."""
    target: str
    """The target as text, for the samples file."""
    target_value: Any = None
    """The target as the task's field gives it."""
    item: Item | None = None
    inputs: tuple[str, ...] = ()
    """If each choice is part of the question: one user text for each continuation."""


class Prompts(Protocol):
    """How one task turns docs into turns."""

    def ask(self, doc: Doc) -> DocPrompt: ...

    def shot(self, doc: Doc) -> Turn: ...

    def text(self, doc: Doc) -> Any: ...

    def scored(self, doc: Doc) -> Any: ...

    def target(self, doc: Doc) -> Any: ...


class FormatPrompts:
    """Docs under a format: raw fields in, the format's prompt out.

    ``docs`` gives all docs of the task, to settle what an ambiguous target means.
    """

    def __init__(
        self,
        fmt: PromptFormat,
        raw: RawFields,
        *,
        target_type: str | None = None,
        shuffle: Any = None,
        docs: Callable[[], Sequence[Doc]] | None = None,
    ) -> None:
        self.format = fmt
        self._shuffle = shuffle
        self._text = _named(raw.text, "doc_to_text")
        self._context = None if raw.context is None else _named(raw.context, "doc_to_context")
        self._rationale = (
            None if raw.rationale is None else _named(raw.rationale, "doc_to_rationale")
        )
        self._choice = None if raw.choice is None else _choice_field(raw.choice)
        self._labels = None if self._choice is None else _labels_beside(self._choice)
        self._choice_name = "choices" if self._choice is None else self._choice.jinja_name
        self._target = _named(raw.target, "doc_to_target")
        self._docs = docs
        is_column = self._target.compiled.kind in ("word", "text")
        self._column = GoldColumn(
            target_type,
            None if docs is None else self._gold_rows,
            is_data=is_column,
            name=str(raw.target) if is_column else "target",
        )

    def item(self, doc: Doc) -> Item:
        """The doc's question, choices and gold."""
        choices = None if self._choice is None else self._choice.given(doc)
        item = build_item(
            doc,
            self._text.given(doc),
            choices,
            self._target(doc),
            answers=self.format.answers,
            labels=() if self._labels is None else self._labels_of(doc),
            column=self._column,
            choice_name=self._choice_name,
            context="" if self._context is None else passage_text(self._context(doc)),
        )
        if self.format.answers == "text" and self.format.reads_text:
            self._check_readable(item)
        return item if self._shuffle is None else shuffled(item, self._shuffle)

    def items(self, docs: Iterable[Doc]) -> Iterator[Item]:
        """The docs that can be asked, as items."""
        for doc in docs:
            with suppress(LmEvalError):
                yield self.item(doc)

    def data_order(self, item: Item) -> list[int]:
        """The index in the data of each choice that is shown, in order."""
        assert self._choice is not None
        in_data = choice_texts(self._choice(item.doc))
        return shuffled_order(self._shuffle, item.question, in_data)

    def _check_readable(self, item: Item) -> None:
        """Refuse a gold that cannot be read from any reply."""
        if any(self.format.can_read(gold, item) for gold in item.gold):
            return
        gold, name = str(item.gold[0]), self._target.jinja_name
        ending = "splitlines()[-1]" if "####" not in gold else "split('####')[-1].strip()"
        remedy = (
            "Ask the task under a format that shows labels, such as mcqa."
            if item.choices
            else f'If its end is the answer, write `doc_to_target: "{{{{ {name}.{ending} }}}}"`.'
        )
        raise GoldError(
            f"the gold {shorten(gold, 60)} can never be read from a reply: format "
            f"{self.format.name!r} reads an answer on one line. {remedy}",
            skip_reason="a gold answer that no reply can be read as",
        )

    def _labels_of(self, doc: Doc) -> tuple[str, ...]:
        """The labels that the doc keeps beside its choices' texts."""
        assert self._labels is not None
        try:
            labels = self._labels(doc)
        except LmEvalError:
            return ()
        return tuple(map(str, labels)) if isinstance(labels, list | tuple) else ()

    def _gold_rows(self) -> Iterator[Row]:
        """Target, choices and labels of each doc of the task that has them."""
        assert self._docs is not None
        assert self._choice is not None
        for doc in self._docs():
            try:
                choices = written_choices(self._choice.given(doc))
                labels = data_labels(choices) if self._labels is None else self._labels_of(doc)
                yield self._target(doc), choice_texts(choices), labels
            except LmEvalError:  # raised again when the doc is asked
                continue

    def ask(self, doc: Doc) -> DocPrompt:
        return self.ask_item(self.item(doc))

    def ask_item(self, item: Item) -> DocPrompt:
        """As ``ask``, for a doc whose fields are extracted already."""
        fmt = self.format
        turn = fmt.question_turn(item)
        continuations = () if fmt.reads_text else fmt.continuations(item)
        gold = fmt.right_answers(item)
        return DocPrompt(
            turn,
            continuations,
            item.choices,
            gold,
            item.choices[item.gold[0]] if fmt.fills_blank else fmt.target_text(item),
            item=item,
            inputs=fmt.filled_turns(item),
        )

    def shot(self, doc: Doc) -> Turn:
        item = self.item(doc)
        if self._rationale is not None:
            reasons = passage_text(self._rationale(doc), self._rationale.name)
            item = replace(item, rationale=reasons)
        return self.format.shot_turn(item)

    # The task's ``doc_to_*`` under this format

    def text(self, doc: Doc) -> str:
        """The whole user text."""
        return self.format.question_turn(self.unanswered(doc)).user

    def scored(self, doc: Doc) -> list[str]:
        """What is scored or read for each choice: labels, or the texts themselves."""
        item, fmt = self.unanswered(doc), self.format
        if fmt.fills_blank:
            return list(fmt.filled_turns(item))
        if fmt.scored_format is not None:
            return list(fmt.continuations(item))
        labels = fmt.labels(item)
        return list(
            item.choices[: len(labels) or None] if fmt.scores_texts else labels or item.choices
        )

    def target(self, doc: Doc) -> Any:
        """The right choice's index, or for generated answers the text that a shot shows."""
        item = self.item(doc)
        is_place = self.format.output_type == "multiple_choice"
        return item.gold[0] if is_place else self.format.target_text(item)

    def unanswered(self, doc: Doc) -> Item:
        """As ``item``, with no gold."""
        choices = () if self._choice is None else choice_texts(self._choice(doc))
        context = "" if self._context is None else passage_text(self._context(doc))
        item = Item(doc, question_text(self._text(doc)), choices, (), context)
        return item if self._shuffle is None else shuffled(item, self._shuffle)


@dataclass(frozen=True)
class _Named:
    """A compiled field that puts its own name into its errors."""

    compiled: Field
    name: str
    column: str | None = None
    """The column that the spec names, if docs have it."""

    def __call__(self, doc: Doc) -> Any:
        if self.column is not None and self.column in doc:
            return doc[self.column]
        try:
            if self.compiled.kind == "text":
                self._check_not_misspelt(doc)
            return self.compiled(doc)
        except FieldError as error:
            raise error.located(field=self.name) from error.__cause__

    def _check_not_misspelt(self, doc: Doc) -> None:
        """Refuse a text that is almost a column's name: every doc would have it as literal text."""
        text = self.compiled.spec
        if text in doc or len(text) > _LONGEST_NAME:
            return
        for name in doc:
            if _spelt(name) == _spelt(text):
                raise FieldError(
                    f"{text!r} is not a column of the doc, but {name!r} is. Write `{self.name}: "
                    f"{name if name == name.strip() else repr(name)}`."
                )

    @property
    def jinja_name(self) -> str:
        """How Jinja reaches the value."""
        if self.compiled.kind == "word":
            return str(self.compiled.spec)
        return self.compiled.expression or self.name.removeprefix("doc_to_")

    def given(self, doc: Doc) -> Any:
        """The value; None is an error that names the field that the doc lacks."""
        value = self(doc)
        if value is not None:
            return value
        lacking = fields_lacking(self.compiled.spec, doc)
        raise FieldError(
            f"{shorten(self.compiled.spec)} gives None"
            f"{f': the doc has no value for {listing(lacking)}' if lacking else ''}. "
            f"The doc's fields: {listing(doc)}. Give it a value in the data.",
            field=self.name,
            skip_reason=f"no value for {self.name}",
        )


def _named(spec: Any, name: str) -> _Named:
    try:
        compiled = compile_field("" if spec is None else spec)
    except FieldError as error:
        raise error.located(field=name) from None
    return _Named(compiled, name, compiled.spec if compiled.kind in ("word", "text") else None)


_LONGEST_NAME = 100


def _spelt(name: str) -> str:
    return "".join(name.split()).casefold()


def _choice_field(spec: Any) -> _Named:
    """``doc_to_choice``, compiled; a list of names may mean the columns of these names."""
    is_names = isinstance(spec, list | tuple) and all(isinstance(name, str) for name in spec)
    return _named(_Columns(tuple(spec)) if spec and is_names else spec, "doc_to_choice")


@dataclass(frozen=True)
class _Columns:
    """A list in a task file: the values of these columns if docs have all of them, else the list."""

    names: tuple[str, ...]

    def __call__(self, doc: Doc) -> list[Any]:
        if not self.are_columns(doc):
            return [compile_field(name)(doc) if is_jinja(name) else name for name in self.names]
        values = [doc[name] for name in self.names]
        while values and values[-1] is None:  # a doc with fewer choices leaves the last ones empty
            values.pop()
        return values

    def are_columns(self, doc: Doc) -> bool:
        """Whether all names are columns; an error if the only others are misspelt columns."""
        others = [name for name in self.names if name not in doc]
        if not others:
            return True
        hints = [did_you_mean(name, doc) for name in others]
        if len(others) < len(self.names) and all(hints):
            raise FieldError(
                f"the list has columns of the doc and {others[0]!r}, which is not one.{hints[0]} The "
                f"doc's fields: {listing(doc)}."
            )
        return False


_TEXTS_OF = re.compile(r"(?P<parent>[^\W\d][\w.]*)\.texts?")


def _labels_beside(choice: _Named) -> Field | None:
    """The labels that the data keeps beside the texts: ``{{ choices.label }}`` of ``choices.text``."""
    columns = choice.compiled.spec
    if isinstance(columns, _Columns):
        return compile_field(lambda doc: columns.names if columns.are_columns(doc) else ())
    parted = _TEXTS_OF.fullmatch(choice.compiled.expression or "")
    return None if parted is None else compile_field(f"{{{{ {parted['parent']}.label }}}}")


# The order of a doc's choices if the task shuffles them (``shuffle_choices``). It depends only on the
# seed and on these texts, so it is the same under every format, in examples, and in a copy of the data
# that lists the choices in another order.


def shuffled_order(seed: Any, question: str, choices: Sequence[str]) -> list[int]:
    """The indices of the choices, in the order in which they are shown."""
    start = hashlib.sha256(f"{seed}\0{question}\0".encode("utf-8", "surrogatepass"))
    seen: dict[str, int] = {}
    keys = []
    for choice in choices:
        seen[choice] = seen.get(choice, 0) + 1
        digest = start.copy()
        digest.update(f"{seen[choice]}\0{choice}".encode("utf-8", "surrogatepass"))
        keys.append(digest.digest())
    return sorted(range(len(choices)), key=keys.__getitem__)


def shuffled(item: Item, seed: Any) -> Item:
    """The item with its choices in the order that the seed gives."""
    if not item.choices:
        return item
    return reordered(item, shuffled_order(seed, item.question, item.choices))


# A prompt that a task lays out itself → raw fields, if that is certain
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
