"""Whether a format asks the same question as the format it was made from: checks, each with a reason.

In: a ``Probe`` of a base format and a changed one. Out: the name of the first check that fails, or None.
Nothing is assumed about how the changed format was made. The numbers in brackets are those of the
project's rules for equivalent formats.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import Any

from lm_eval.config.fields import compile_field, fields_read, is_jinja
from lm_eval.errors import LmEvalError
from lm_eval.formats.assemble import Joints, spoken
from lm_eval.formats.items import Item, label_variables
from lm_eval.formats.prompt_format import JINJA_FIELDS, PromptFormat
from lm_eval.lab.grammar.layout import CASINGS, descriptors, label_word, spaces

SHOWN_CHOICES = 4
# Made-up words: no format uses them, no reader takes them for a label. The second set contains blanks,
# full stops, commas and digits, as real texts do.
PASSAGES = {"qqzq": "ccqc", "Kuvo zeti, 7 rano?": "Miso, 4 levu. Tapi rulo"}
"""The passage that a question of either set is about."""
MARKS = ("qqzq", ("xxzx", "yyzy", "wwzw", "vvzv"))
WORDS = ("Kuvo zeti, 7 rano?", ("belo rami", "difu. nuko", "3 sapi; toru", "wex, luno"))


@dataclass(frozen=True)
class Probe:
    """A changed format beside its base, rendered for the checks."""

    base: PromptFormat
    format: PromptFormat
    most_choices: int = 9
    """The largest number of choices for which the labels are checked."""

    @cached_property
    def text(self) -> str:
        """What the user says, with the second set of texts."""
        return self._shown.question_turn(self.item).user

    @cached_property
    def item(self) -> Item:
        return self.item_of(WORDS, 0)

    def item_of(self, texts: tuple[str, tuple[str, ...]], gold: int) -> Item:
        """The question and choices as an item whose right answer has the index ``gold``."""
        question, choices = texts
        labels = self.format.choice_labels
        if labels == "choices":  # then they are words of the format, which may occur anywhere in it
            choices = WORDS[1]
        count = min(len(choices), len(labels)) if isinstance(labels, tuple) else len(choices)
        kept = choices[:count]
        right: Any = gold
        if self.format.answers == "text":
            right = kept[gold]
        elif self.format.answers == "order":
            right = (*range(gold, count), *range(gold))
        context = PASSAGES[question] if self.format.context_prefix else ""
        if self.format.fills_blank:
            question = f"{question} {self.format.blank_marker} jjzj"
        return Item({}, question, kept, (right,), context)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """What a reader of the prompt must be able to find: passage, question and shown choices."""
        return self._fields_of(self.item)

    def _fields_of(self, item: Item) -> tuple[str, ...]:
        passage = (item.context,) if item.context else ()
        shown = item.choices if self.format.shows_labels else ()
        is_filled = self.format.fills_blank
        return (*passage, self.format.question_shown(item) if is_filled else item.question, *shown)

    @cached_property
    def pieces(self) -> list[str] | None:
        """The text around the fields, from the first set; None unless each field occurs exactly once."""
        marked = self.item_of(MARKS, 0)
        text = self._shown.question_turn(marked).user
        pieces, at = [], 0
        for mark in self._fields_of(marked):
            start = text.find(mark, at)
            if start < 0 or text.count(mark) != 1:
                return None
            pieces.append(text[at:start])
            at = start + len(mark)
        return [*pieces, text[at:]]

    @cached_property
    def parsed(self) -> list[str] | None:
        """The fields found in the second text by cutting it at the pieces; None if that fails."""
        return None if self.pieces is None else parse(self.text, self.pieces)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.format.labels(self.item)

    @cached_property
    def _shown(self) -> PromptFormat:
        """The format without templates that read docs, as made-up items have none."""
        changes: dict[str, Any] = {
            name: literal(getattr(self.format, name))
            for name in JINJA_FIELDS
            if reads_doc(getattr(self.format, name))
        }
        return replace(self.format, **changes) if changes else self.format

    @cached_property
    def digests(self) -> tuple[bytes, bytes]:
        """Hashes of an answered example and the question, as plain text and as in chat."""
        shot = self._shown.shot_turn(self.item_of(MARKS, 1))
        joints = Joints(self.format.target_delimiter, self.format.fewshot_delimiter)
        plain = f"{joints.shot_text(shot)}\0{self.text}\0{shot.gen_prefix}"
        chat = f"{shot.user}\0{spoken(shot)}\0{self.text}\0{shot.gen_prefix}"
        return _digest(plain), _digest(chat)


def parse(text: str, pieces: Sequence[str]) -> list[str] | None:
    """The text between ``pieces`` in ``text``, if there is exactly one way to split it.

    Each piece is found from the left, and again from the right. Only if both agree is every border
    certain.
    """
    left = _borders(text, pieces)
    mirrored = _borders(text[::-1], [piece[::-1] for piece in reversed(pieces)])
    if left is None or mirrored is None:
        return None
    size = len(text)
    right = [(size - end, size - start) for start, end in reversed(mirrored)]
    return [text[start:end] for start, end in left] if left == right else None


def _borders(text: str, pieces: Sequence[str]) -> list[tuple[int, int]] | None:
    if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return None
    spans, at = [], len(pieces[0])
    for piece in pieces[1:-1]:
        end = text.find(piece, at + 1) if piece else -1
        if end < 0:
            return None
        spans.append((at, end))
        at = end + len(piece)
    return [*spans, (at, len(text) - len(pieces[-1]))]


@lru_cache(maxsize=1024)
def literal(source: str) -> str:
    """A template's text outside its braces; a text without braces as it is."""
    return compile_field(source).literal_text if is_jinja(source) else source


@lru_cache(maxsize=1024)
def reads_doc(source: str | None) -> bool:
    """Whether a text is a template that reads more than labels, and so needs a real doc."""
    if source is None or not is_jinja(source):
        return False
    return not fields_read(source) <= label_variables(()).keys()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# --- the checks -----------------------------------------------------------------------------------


def parses_back(probe: Probe) -> bool:
    """(1) Cut at the format's own words, a prompt gives back every field once and in order."""
    return probe.parsed == list(probe.fields)


def labels_are_told_apart(probe: Probe) -> bool:
    """(2) Labels differ; none begins another where text is read; texts name them as they are shown."""
    labels = _labels_of(probe.format, _most_labels(probe))
    if labels is None or len(set(labels)) != len(labels):
        return False
    if probe.format.reads_text and _has_prefix(labels):
        return False
    return names_its_labels(probe)


def names_its_labels(probe: Probe) -> bool:
    """(2) A text that spells out the base's labels, or calls them letters, allows no others."""
    if probe.format.choice_labels == probe.base.choice_labels:
        return True
    words = _own_words(tuple(getattr(probe.base, name) for name in JINJA_FIELDS))
    shown = min(SHOWN_CHOICES, _most_labels(probe))
    old, new = (_labels_of(fmt, shown) or () for fmt in (probe.base, probe.format))
    if old == new:
        return True
    if any(label in words and following in words for label, following in pairwise(old)):
        return False  # two labels in a row; "A question on vitamin C" does not name any
    word = label_word(probe.base)
    return word == label_word(probe.format) or not words & {word, f"{word}s"}


def newlines_are_enclosed(probe: Probe) -> bool:
    """(3) A newline after a descriptor or between choices needs one between the parts as well."""
    by_name = spaces(probe.format)
    outer = [text for name, text in by_name.items() if name != "choice_delimiter"]
    inner = [descriptor.separator for descriptor in descriptors(probe.format)]
    inner += [by_name["choice_delimiter"]] if "choice_delimiter" in by_name else []
    is_broken = any("\n" in text for text in inner)
    return not is_broken or all("\n" in text for text in outer)


def nothing_runs_together(probe: Probe) -> bool:
    """(4) No separator is empty, except after a label: no word runs into a text."""
    pieces = probe.pieces or []
    ends = [piece[-1:] for piece in pieces[:-1]]
    starts = [piece[:1] for piece in pieces[1:]]
    if any(edge.isalnum() for edge in (*ends, *starts)):
        return False
    fmt = probe.format
    answer = fmt.target_delimiter + (fmt.gen_prefix or fmt.target_text(probe.item))
    return not (probe.text[-1:].isalnum() and answer[:1].isalnum())


def equal_slots_stay_equal(probe: Probe) -> bool:
    """(5) What is equal in the base is still equal: spaces, separators, and the descriptors' case."""
    old, new = descriptors(probe.base), descriptors(probe.format)
    separators = [
        {descriptor.field: descriptor.separator for descriptor in side} for side in (old, new)
    ]
    if list(separators[0]) != list(separators[1]):
        return False
    if not _keeps_equal(*separators) or not _keeps_equal(spaces(probe.base), spaces(probe.format)):
        return False
    names = list(zip(old, new, strict=True))
    return any(all(change(a.name) == b.name for a, b in names) for change in CASINGS.values())


def gold_is_a_shown_label(probe: Probe) -> bool:
    """(6) The label shown beside a choice is the one that is scored, or written as the answer."""
    if not probe.format.shows_labels:
        return True
    labels, line = probe.labels, probe.format.choice_format.format
    for label, choice in zip(labels, probe.item.choices, strict=True):
        shown = line(label=label, choice=choice)
        if label not in shown or shown not in probe.text:
            return False
    if probe.format.scores_labels and probe.format.continuations(probe.item) != labels:
        return False
    return _targets_agree(probe, labels)


def fields_stay_apart(probe: Probe) -> bool:
    """(7) No field's text is part of another's, or of the words around them."""
    parsed = probe.parsed or []
    around = "".join(probe.pieces or [])
    for index, text in enumerate(probe.fields):
        others = (other for at, other in enumerate(parsed) if at != index)
        if text in around or any(text in other for other in others):
            return False
    return True


def reads_back(probe: Probe) -> bool:
    """(2) The reader finds the right choice in the answer that the format itself writes."""
    fmt = probe.format
    if not fmt.reads_text:
        return True
    return _reads_back(replace(fmt, **_UNREAD), len(probe.item.choices))


def is_not_cut_short(probe: Probe) -> bool:
    """(2) No stop string of the format occurs in the answer that it asks for."""
    until = probe.format.generation_kwargs.get("until") if probe.format.reads_text else None
    stops = until if isinstance(until, list | tuple) else [until] if until else []
    delimiter = "" if probe.format.gen_prefix else probe.format.target_delimiter
    answer = delimiter + probe.format.target_text(probe.item)
    return not any(isinstance(stop, str) and stop and stop in answer for stop in stops)


def echo_is_no_answer(probe: Probe) -> bool:
    """(2) A reply that only repeats the last words of the prompt is not read as an answer."""
    fmt, prompt = probe.format, probe.format.answer_prompt
    if not fmt.reads_text or not prompt or _is_echo_read(probe.base, probe.base.answer_prompt):
        return True
    return not _is_echo_read(fmt, prompt)


Check = Callable[[Probe], bool]

CHECKS: dict[str, Check] = {
    "newlines": newlines_are_enclosed,
    "labels": labels_are_told_apart,
    "parses back": parses_back,
    "fields apart": fields_stay_apart,
    "empty separator": nothing_runs_together,
    "joint change": equal_slots_stay_equal,
    "gold": gold_is_a_shown_label,
    "stop strings": is_not_cut_short,
    "reads back": reads_back,
    "echo": echo_is_no_answer,
}
"""Reason → check, the cheap ones first. ``duplicate`` is the sampler's own."""
BASE_CHECKS = (
    "parses back",
    "fields apart",
    "labels",
    "gold",
    "stop strings",
    "reads back",
    "echo",
)
"""The checks that a base itself must pass; the others are about taste or about what was changed."""


def failed_check(probe: Probe, names: Sequence[str] = tuple(CHECKS)) -> str | None:
    """The first check that fails, or None. A format that cannot be rendered fails the first."""
    for name in names:
        try:
            is_kept = CHECKS[name](probe)
        except LmEvalError:
            is_kept = False
        if not is_kept:
            return name
    return None


# --- inside ---------------------------------------------------------------------------------------

# Fields that do not affect reading, set to fixed values, so that formats that read alike share a result.
_UNREAD: dict[str, Any] = {
    "name": "probe",
    "context_prefix": "",
    "context_delimiter": "\n",
    "question_prefix": None,
    "choice_format": "{label} {choice}",
    "choice_delimiter": "\n",
    "section_separator": "\n",
    "question_choice_delimiter": None,
    "choices_prefix": "",
    "generation_kwargs": (),
    "words": (),
    "filters": (),
    "target_delimiter": " ",
    "instruction": None,
    "answer_instruction": None,
    "answer_prompt": None,
}


@lru_cache(maxsize=4096)
def _reads_back(fmt: PromptFormat, count: int) -> bool:
    probe = Probe(fmt, fmt)
    items = [probe.item_of(WORDS, gold) for gold in range(count)]
    return all(
        _value(fmt, f" {fmt.target_text(item)}", item, is_prefilled=True) == _right(item)
        and _value(fmt, spoken(fmt.shot_turn(item)), item, is_prefilled=False) == _right(item)
        for item in items
    )


def _is_echo_read(fmt: PromptFormat, prompt: str | None) -> bool:
    """Whether the format's reader takes its own answer prompt for an answer."""
    if not prompt or reads_doc(prompt):
        return False
    plain = replace(fmt, **{**_UNREAD, "answer_prompt": prompt})
    return _reads_echo(plain)


@lru_cache(maxsize=4096)
def _reads_echo(fmt: PromptFormat) -> bool:
    item = Probe(fmt, fmt).item
    echo = fmt.questionless_turn(item).user
    return any(fmt.read(echo, item, is_prefilled=way).is_answer for way in (True, False))


def _value(fmt: PromptFormat, reply: str, item: Item, *, is_prefilled: bool) -> Any:
    value = fmt.read(reply, item, is_prefilled=is_prefilled).value
    return tuple(value) if isinstance(value, list) else value


def _right(item: Item) -> Any:
    return item.gold[0]


def _targets_agree(probe: Probe, labels: tuple[str, ...]) -> bool:
    if probe.format.answers == "text" or "{label}" not in probe.format.target_format:
        return True
    for gold, label in enumerate(labels):
        if label not in probe.format.target_text(probe.item_of(WORDS, gold)):
            return False
    return True


def _most_labels(probe: Probe) -> int:
    """For how many choices labels are needed: at most as many as a base with a list of labels has."""
    labels = probe.base.choice_labels
    return min(len(labels), probe.most_choices) if isinstance(labels, tuple) else probe.most_choices


def _labels_of(fmt: PromptFormat, most: int) -> tuple[str, ...] | None:
    """The labels of this many choices; empty if choices are labels, None if there are too few."""
    style = fmt.choice_labels
    if style is None or style == "choices":
        return ()
    if isinstance(style, tuple) and fmt.cut_choices:
        return style[:most]
    item = Item({}, "", tuple(map(str, range(most))), (0,))
    try:
        return fmt.labels(item)
    except LmEvalError:
        return None


def _has_prefix(labels: Sequence[str]) -> bool:
    ordered = sorted(labels)
    return any(b.startswith(a) for a, b in pairwise(ordered))


@lru_cache(maxsize=256)
def _own_words(texts: tuple[str | None, ...]) -> frozenset[str]:
    """Every word of a format itself, outside templates and ``[placeholders]``."""
    joined = " ".join(literal(text) for text in texts if text)
    return frozenset(re.findall(r"\w+", re.sub(r"\[[^\[\]\n]{1,40}\]", " ", joined)))


def _keeps_equal(old: dict[str, str], new: dict[str, str]) -> bool:
    return all(
        new.get(name) == new.get(other)
        for name, other in combinations(old, 2)
        if old[name] == old[other]
    )
