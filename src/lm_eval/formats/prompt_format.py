"""``PromptFormat``: how a question is asked and how its answer is read, in one frozen value.

Every spelling (``formats:``, ``template:``, ``task@format``) compiles to this class, and no later step
knows which one was used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from lm_eval.config.fields import Field, compile_field, fields_read, is_jinja
from lm_eval.errors import FieldError, GoldError
from lm_eval.formats.assemble import Turn
from lm_eval.formats.enforced import answer_grammar, read_enforced
from lm_eval.formats.fingerprints import format_fingerprint, plain
from lm_eval.formats.gold import check_not_cut, has_twins, told_apart, with_twins
from lm_eval.formats.grammar import Grammar
from lm_eval.formats.items import (
    AnswerKind,
    Item,
    LabelStyle,
    around_blank,
    label_variables,
    labels_for,
)
from lm_eval.formats.readers import BoundReader, Reading, fitted, read, without_copies

OutputType = Literal["multiple_choice", "generate_until", "loglikelihood"]
FormatKind = Literal["general", "convention", "special"]

JINJA_FIELDS = (
    "preamble",
    "instruction",
    "context_prefix",
    "question_prefix",
    "answer_instruction",
    "answer_prompt",
    "gen_prefix",
    "scored_format",
    "program",
)
"""The fields that may use ``{{ _num_choices }}`` and the fields of the doc."""
_AROUND_ITEM = {"instruction", "question_prefix", "answer_instruction", "answer_prompt"}
_SLOT = "\0"


@dataclass(frozen=True, kw_only=True)
class PromptFormat:
    """One way to ask and to read. Fields are in the order in which a prompt shows them."""

    name: str
    summary: str = ""
    version: int = 1
    kind: FormatKind = "general"
    """A convention is a published prompt for one benchmark, a special format measures something
    other than right answers to the whole question; ``task@*`` leaves both out."""
    num_fewshot: int | None = None
    """The examples of a convention; other formats take the task's number."""
    output_type: OutputType = "multiple_choice"
    answers: AnswerKind = "choice"

    preamble: str | None = None
    """Once, before the examples and after the task's description."""
    instruction: str | None = None
    context_prefix: str = ""
    """Before the passage of a task that has one (``doc_to_context``)."""
    context_delimiter: str = "\n"
    """Between that passage and the question's prefix."""
    question_prefix: str | None = None
    show_question: bool = True
    """False: neither passage nor question is in the prompt, since the scored texts contain them."""
    strip_question: bool = False
    blank_marker: str | None = None
    blank_position: Literal["end", "inline"] = "end"
    question_choice_delimiter: str | None = None
    """Between question and choices; None means ``section_separator``."""
    choices_prefix: str = ""
    show_choices: bool = True
    choice_labels: LabelStyle = None
    """None: choices are neither labelled nor shown, and their raw texts are scored."""
    choice_format: str = "{label}. {choice}"
    choice_delimiter: str = "\n"
    cut_choices: bool = False
    """With a label list that is too short: drop the choices beyond it instead of refusing the doc."""
    scored: Literal["labels", "texts", "rest"] | None = None
    """What is scored for each choice; None: its label if it has one, else its text."""
    scored_format: str | None = None
    """A template of what is scored, with ``_choice``, ``_label``, ``_question`` and ``_context``."""
    section_separator: str = "\n"
    answer_instruction: str | None = None
    answer_prompt: str | None = None
    gen_prefix: str | None = None

    target_format: str = "{label}"
    """What a shot's answer says: ``{label}``, ``{answer}`` (its text) or ``{rationale}``."""
    rationale_format: str = "{rationale}\n"
    """Comes before a shot's answer if the format asks for reasons and the task has them."""
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    scorer: BoundReader | None = None
    program: str | None = None
    """What is run to see whether an answer is right: a template with ``_answer``, ``_question`` and
    ``_target``. None: answers are compared with the target."""
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    grammar: str | Mapping[str, str] | None = None
    """What an enforced answer in words may be; None: one of the choices, or one line without any."""
    enforced: bool = False
    """Whether the model is held to the answers that the format asks for (``name+enforced``)."""
    metrics: tuple[str, ...] = ("acc",)
    """A metric, or ``name=metric`` to report it under another name."""
    filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Filter of EleutherAI's harness → its options: ``exact_match`` of what it leaves of a reply."""
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Language → name → text, for ``{{ _words.NAME }}``; empty once the language is known."""
    normalization: str | None = None
    """How scored choices are compared for the main score; None: as the first of ``metrics`` says."""

    @cached_property
    def reads_text(self) -> bool:
        """Whether answers are read from generated text; else continuations are scored."""
        return self.output_type == "generate_until"

    @cached_property
    def scores_target(self) -> bool:
        """Whether the target alone is scored, as the continuation of the prompt."""
        return self.output_type == "loglikelihood"

    @cached_property
    def has_words(self) -> bool:
        """Whether its texts contain words that depend on the language."""
        return bool(self.words) or "_words." in str(self.as_data())

    @property
    def needs_choices(self) -> bool:
        return self.answers != "text" or self.choice_labels is not None

    @cached_property
    def shows_labels(self) -> bool:
        """Whether the prompt shows the choices with their labels."""
        return self.show_choices and self.choice_labels is not None

    @property
    def scores_labels(self) -> bool:
        """Whether labels are scored, which are all equally long."""
        return not self.reads_text and not self.scores_texts and not self.fills_blank

    @cached_property
    def scores_texts(self) -> bool:
        """Whether the choices' own texts are scored, which differ in length."""
        if self.reads_text or self.fills_blank:
            return False
        is_text = self.scored == "texts" or self.scored_format is not None
        return is_text or self.choice_labels in (None, "choices")

    @cached_property
    def fills_blank(self) -> bool:
        """Whether each choice is put into the question's blank, and what follows the blank is scored."""
        return self.scored == "rest"

    @property
    def answer_separator(self) -> str:
        """What follows ``answer_instruction``; nothing if it ends with a newline itself."""
        return "" if (self.answer_instruction or "").endswith("\n") else self.section_separator

    @cached_property
    def reasons_first(self) -> bool:
        """Whether a reply gives reasons first and then announces its answer in words."""
        is_bare = (
            self.target_format in ("{label}", "{answer}") or "{rationale}" in self.target_format
        )
        return self.reads_text and self.gen_prefix is None and not is_bare

    # Asking

    def labels(self, item: Item) -> tuple[str, ...]:
        """The labels of the item's choices, in order; empty if the format has none."""
        return labels_for(
            self.choice_labels, item.choices, cuts=self.cut_choices, format_name=self.name
        )

    def question_turn(self, item: Item) -> Turn:
        """The item as the question at the end of a prompt."""
        labels = self.labels(item)
        return Turn(self._user_text(item, labels), None, self._prefix(item, labels))

    def questionless_turn(self, item: Item) -> Turn:
        """The request for an answer without the question; likelihoods after it are priors."""
        labels = self.labels(item)
        return Turn(self._said("answer_prompt", item, labels), None, self._prefix(item, labels))

    def content_free_turn(self, item: Item, words: str) -> Turn:
        """The item with ``words`` for its passage, its question and every choice beside a label.

        An answer that is likely after it is likely without any knowledge. Labels stay as they are.
        """
        choices = item.choices
        if self.choice_labels != "choices":
            choices = (words,) * len(choices)
        context = words if item.context else ""
        return self.question_turn(replace(item, context=context, question=words, choices=choices))

    def preamble_for(self, doc: Mapping[str, Any]) -> str:
        """The text that comes once, before the examples of a doc's prompt."""
        return self._said("preamble", Item(doc, "", (), ()), ())

    def shot_turn(self, item: Item) -> Turn:
        """The item as a few-shot example, answered."""
        if not item.rationale and "{rationale}" in self.target_format:
            raise GoldError(
                f"it has no worked reasoning, which format {self.name!r} shows in examples. Name the "
                "field that holds it: `doc_to_rationale: …`.",
                skip_reason="no worked reasoning",
            )
        turn = self.question_turn(item)
        return Turn(turn.user, self.target_text(item), turn.gen_prefix)

    def target_text(self, item: Item) -> str:
        """A right answer to this prompt, after gen_prefix; for a shot, with its reasons."""
        is_shown = item.rationale and self.reasons_first
        reasons = self.rationale_format.format(rationale=item.rationale) if is_shown else ""
        return reasons + self._answer_text(item)

    def _answer_text(self, item: Item) -> str:
        if self.fills_blank:
            return around_blank(item.question, self.blank_marker, self.name)[1]
        if self.answers == "text":
            return self._target(item, "", item.gold[0])
        labels = self.labels(item)
        if self.scored_format is not None:
            check_not_cut(item.gold, labels, item.choices, self.name)
            return self._sentence(item, labels, item.gold[0])
        indices = item.gold[0] if self.answers == "order" else item.gold[:1]
        check_not_cut(indices, labels, item.choices, self.name)
        label = ", ".join([labels[index] for index in indices]) if labels else ""
        return self._target(item, label, ", ".join([item.choices[index] for index in indices]))

    def _target(self, item: Item, label: str, answer: str) -> str:
        return self.target_format.format(label=label, answer=answer, rationale=item.rationale)

    def continuations(self, item: Item) -> tuple[str, ...]:
        """The text scored after the prompt for each choice; all are the same if a blank is filled."""
        if self.fills_blank:
            return (self._answer_text(item),) * len(item.choices)
        if self.scores_target:
            return (self.target_text(item),)
        labels = self.labels(item)
        if labels:
            check_not_cut(item.gold, labels, item.choices, self.name)
        if self.scored_format is not None:
            count = len(labels) or len(item.choices)
            return tuple([self._sentence(item, labels, index) for index in range(count)])
        return item.choices[: len(labels) or None] if self.scores_texts else labels

    def filled_turns(self, item: Item) -> tuple[str, ...]:
        """The user's text with each choice in the blank; empty if no blank is filled."""
        if not self.fills_blank:
            return ()
        return tuple([self._user_text(item, (), choice) for choice in item.choices])

    def question_shown(self, item: Item, choice: str | None = None) -> str:
        """The question as the prompt shows it; ``choice`` fills its blank, by default the right one."""
        question = item.question.strip() if self.strip_question else item.question
        if self.fills_blank:
            right = item.choices[item.gold[0]] if item.gold else ""
            before, _ = around_blank(question, self.blank_marker, self.name)
            return before + (right if choice is None else choice)
        marker = self.blank_marker
        if marker is None or self.blank_position == "inline" or marker in question:
            return question
        return f"{question} {marker}"

    def right_answers(self, item: Item) -> tuple[Any, ...]:
        """Every acceptable answer; without labels, each choice that has the text of a right one."""
        if self.scores_target:
            return (0,)
        if (self.scores_texts or self.fills_blank) and has_twins(item.choices):
            return with_twins(item.gold, item.choices)
        return item.gold

    # Reading

    def read(
        self, reply: str, item: Item, *, is_prefilled: bool = True, finish: str | None = None
    ) -> Reading:
        """The answer in a reply.

        ``is_prefilled`` says whether the model continued ``gen_prefix`` (some servers cannot);
        ``finish`` is why the reply ended, as far as the backend knows.
        """
        assert self.scorer is not None, "only formats that generate text read it"
        if not isinstance(reply, str):  # a model of the user's may return anything
            return Reading.unread("unreadable")
        if self.enforced:
            return read_enforced(self, reply, item, finish)
        labels = self.labels(item)
        prefix = self._prefix(item, labels) if is_prefilled else None
        choices = item.choices[: len(labels)] if labels else item.choices
        indices: Sequence[int] = ()
        if self.answers == "choice" and has_twins(choices):
            are_labels = self.choice_labels == "choices"
            indices, labels, choices = told_apart(labels, choices, item.gold, are_labels=are_labels)
        if self.answers == "choice":
            reply = without_copies(reply, item.question)
        reading = read(
            reply, (self.scorer,), labels=labels, choices=choices, prefix=prefix, finish=finish
        )
        answer = fitted(reading, self.answers, labels, choices)
        return (
            replace(answer, value=indices[answer.value]) if indices and answer.is_answer else answer
        )

    def program_for(self, item: Item, answer: str) -> str:
        """The program that shows whether an answer is right; empty if answers are compared."""
        if self.program is None:
            return ""
        known = {"_answer": answer, "_question": item.question, "_target": item.gold[0]}
        return self._rendered("program", item, (), known)

    def grammar_for(self, item: Item) -> Grammar | None:
        """The replies that the model may write; None if the format is not enforced."""
        return answer_grammar(self, item) if self.enforced else None

    def can_read(self, gold: str, item: Item) -> bool:
        """Whether a reply could be read as this text: one line, without a worked solution before it."""
        if self.program is not None:  # the gold is a text that tests it
            return True
        if "####" in gold:
            return False
        if "\n" not in gold.strip():
            return True
        reply = self._target(item, "", gold)
        return str(self.read(reply, item, is_prefilled=False).value).strip() == gold.strip()

    # Identity

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hex digits over everything that changes a prompt or a reading."""
        return format_fingerprint(self.as_data(), shows_labels=self.shows_labels)

    def as_data(self) -> dict[str, Any]:
        """Every field as plain YAML data."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    # Inside

    @cached_property
    def _patterns(self) -> dict[tuple[str, ...], str]:
        """Labels → what ``_pattern`` gives."""
        return {}

    def _user_text(self, item: Item, labels: tuple[str, ...], choice: str | None = None) -> str:
        """The user's text; ``choice`` is what fills the blank, by default the right one."""
        shown: tuple[str, ...] = (self.question_shown(item, choice),) if self.show_question else ()
        if self.shows_labels:
            shown += item.choices[: len(labels)]
        pattern = "" if item.context else self._pattern(item, labels, len(shown))
        return pattern % shown if pattern else self._laid_out(item, labels, shown)

    def _pattern(self, item: Item, labels: tuple[str, ...], slots: int) -> str:
        """The user's text with ``%s`` for question and choices, made once for many docs.

        Empty if more of it depends on the doc.
        """
        known = self._patterns.get(labels)
        if known is not None or self.choice_labels == "choices":
            return known or ""
        used = self._jinja_texts.keys() & _AROUND_ITEM
        pattern = ""
        if not used or (labels and used <= self._said_of_labels.keys()):
            blank = self._laid_out(item, labels, (_SLOT,) * slots)
            if blank.count(_SLOT) == slots:
                pattern = blank.replace("%", "%%").replace(_SLOT, "%s")
        self._patterns[labels] = pattern
        return pattern

    def layout(self, said: Callable[[str], str], passage: str, question: str, lines: str) -> str:
        """The parts of the user's text, in order: of a doc, or as Jinja if ``said`` gives fields so."""
        parts = [said("instruction")]
        if self.show_question:
            parts += [passage, said("question_prefix"), question]
        if self.shows_labels:
            is_own = self.question_choice_delimiter is not None
            before = "question_choice_delimiter" if is_own else "section_separator"
            parts += [said(before), said("choices_prefix"), lines]
        separator = "section_separator"
        for name in ("answer_instruction", "answer_prompt"):
            if getattr(self, name) is not None:
                parts += [said(separator), said(name)]
                separator = "answer_separator"
        return "".join(parts)

    def _laid_out(self, item: Item, labels: tuple[str, ...], shown: tuple[str, ...]) -> str:
        """Question and choices (``shown``), with the format's texts around them."""

        def said(name: str) -> str:
            return self._said(name, item, labels)

        passage = (
            said("context_prefix") + item.context + self.context_delimiter if item.context else ""
        )
        question, choices = (shown[0], shown[1:]) if self.show_question else ("", shown)
        line = self.choice_format.format
        lines = [
            line(label=label, choice=choice)
            for label, choice in zip(labels, choices, strict=self.shows_labels)
        ]
        return self.layout(said, passage, question, self.choice_delimiter.join(lines))

    def _sentence(self, item: Item, labels: tuple[str, ...], index: int) -> str:
        """What is scored for the choice at ``index``, by ``scored_format``."""
        variables = {
            "_choice": item.choices[index],
            "_label": labels[index] if labels else "",
            "_question": item.question.strip() if self.strip_question else item.question,
            "_context": item.context,
        }
        if "scored_format" not in self._jinja_texts:
            return self.scored_format or ""
        return self._rendered("scored_format", item, labels, variables)

    @cached_property
    def _jinja_texts(self) -> dict[str, Field]:
        """The text fields that are templates, compiled; a field without braces is used as it is."""
        sources = {name: getattr(self, name) for name in JINJA_FIELDS}
        return {n: compile_field(s) for n, s in sources.items() if s is not None and is_jinja(s)}

    @cached_property
    def _said_of_labels(self) -> dict[str, dict[tuple[str, ...], str]]:
        """Each template that reads no field of the doc → its text by labels, rendered once.

        Labels that are the doc's choices differ from doc to doc, so keeping their texts would not help.
        """
        if self.choice_labels == "choices":
            return {}
        known = label_variables(()).keys()
        return {n: {} for n, text in self._jinja_texts.items() if fields_read(text.spec) <= known}

    def _prefix(self, item: Item, labels: tuple[str, ...]) -> str | None:
        return None if self.gen_prefix is None else self._said("gen_prefix", item, labels)

    def _said(self, name: str, item: Item, labels: tuple[str, ...]) -> str:
        if name not in self._jinja_texts:
            return getattr(self, name) or ""
        known = self._said_of_labels.get(name)
        if known is None or not labels:
            return self._rendered(name, item, labels)
        if labels not in known:
            known[labels] = self._rendered(name, item, labels)
        return known[labels]

    def _rendered(
        self,
        name: str,
        item: Item,
        labels: tuple[str, ...],
        of_choice: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        variables = {**of_choice, **label_variables(labels)} if labels else dict(of_choice)
        if self.words:  # the language is not known yet
            variables["_words"] = self.words.get("en", {})
        try:
            return str(self._jinja_texts[name](item.doc, variables))
        except FieldError as error:
            raise error.located(field=f"{name} of format {self.name}") from None
