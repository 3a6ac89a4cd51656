"""A format taken apart into slots of layout, and put together again with other values in them.

In: a ``PromptFormat``. Out: a ``Layout``: which slots the format has, what they hold, and a
function from slot values to a format. Parts of the format that are equal share one slot, so that they
change together. The values are those of FormatSpread's grammar (Sclar et al. 2024), each once; its gap
is the space between a word and a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lm_eval.config.fields import is_jinja
from lm_eval.formats.items import LabelStyle, counted_labels
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.readers import BoundReader

SEPARATORS = (
    *("", " ", "\t", ":", ": ", " : ", "::", ":: ", "::: ", "- ", " - "),
    *("\n ", "\n\t", "\n    ", " \n\t"),
)
"""Between a descriptor such as ``Question`` and what it describes."""
SPACES = (
    *("", " ", "  ", "\n", " \n", "\n ", " \n ", "; \n", ", ", " , ", " ,  ", ". "),
    *(" -- ", " || ", " <sep> "),
)
"""Between the parts of a prompt, and between choices."""
GAPS = ("", " ", "  ", "\t")
"""Between a choice's label and its text."""
WRAPPERS = ("{label}.", "{label})", "{label} )", "({label})", "[{label}]", "<{label}>")
"""How a choice's label is shown before the choice."""


def _title(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


CASINGS: dict[str, Callable[[str], str]] = {
    "as written": str,
    "title": _title,
    "upper": str.upper,
    "lower": str.lower,
}
"""How descriptors are written."""

_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
_ROMANS = (*_ROMAN, *(f"X{numeral}" for numeral in _ROMAN[:9]), "XX")
NUMBERINGS: dict[str, tuple[str, ...]] = {
    "letters": counted_labels("letters", 26),
    "small letters": tuple(label.lower() for label in counted_labels("letters", 26)),
    "numbers": counted_labels("numbers", 26),
    "roman": _ROMANS,
    "small roman": tuple(label.lower() for label in _ROMANS),
    "roman signs": tuple(chr(0x2160 + index) for index in range(12)),
}
"""The labels of choices. ``letters`` and ``numbers`` are endless if those of the base format are."""
_ENDLESS = ("letters", "numbers")
LABEL_WORDS = {"letters": "letter", "small letters": "letter", "numbers": "number"}
"""What texts call a label of each numbering; ``label`` for those that are not listed."""

_MOST_WORDS = 3
_MOST_CHARACTERS = 80
_LEAD = r"(?P<lead>(?:<\w+>|[^\w{}])*)"
_DESCRIPTOR = re.compile(
    rf"{_LEAD}"
    r"(?P<name>[^\W_](?:[^{}\n]*[^\W_])?)(?P<end>[^\w{}]*)"
)
_CHOICE = re.compile(
    r"(?P<word>(?:[^{}]*\w\s*)?)(?P<wrapper>[^\w{}]*\{label\}(?:[^\w{}]*[^\w{}\s])?)(?P<gap>\s*)"
    r"(?P<choice>\{choice\}[^{}]*)"
)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A short name in a field of a format, the text before it, and what follows it."""

    field: str
    lead: str
    name: str
    separator: str


def descriptors(fmt: PromptFormat) -> list[Descriptor]:
    """``Question`` and ``Answer`` and their like; longer texts and templates are not descriptors."""
    described = []
    for field, is_used in (
        ("context_prefix", True),
        ("question_prefix", True),
        ("choices_prefix", fmt.shows_labels),
        ("answer_prompt", True),
    ):
        text = (getattr(fmt, field) or "") if is_used else ""
        is_short = len(text) <= _MOST_CHARACTERS and not is_jinja(text)
        match = _DESCRIPTOR.fullmatch(text) if is_short else None
        if match is None or len(match["name"].split()) > _MOST_WORDS:
            continue
        # The blanks after "Answer:" belong to the answer, not to the prompt.
        after = fmt.target_delimiter if field == "answer_prompt" else ""
        described.append(Descriptor(field, match["lead"], match["name"], match["end"] + after))
    return described


def spaces(fmt: PromptFormat) -> dict[str, str]:
    """Name → text of the spaces between the parts of a prompt.

    ``choices_lead`` is the start of ``choices_prefix`` if nothing else separates question and choices.
    A passage counts if the format names it, with a ``context_prefix``.
    """
    texts = {"context_delimiter": fmt.context_delimiter} if fmt.context_prefix else {}
    if fmt.answer_instruction is not None or fmt.answer_prompt is not None:
        texts["section_separator"] = fmt.section_separator
    if fmt.shows_labels:
        texts |= _before_choices(fmt)
        texts["choice_delimiter"] = fmt.choice_delimiter
    return texts


def _before_choices(fmt: PromptFormat) -> dict[str, str]:
    delimiter = fmt.question_choice_delimiter
    if delimiter is None:
        return {"section_separator": fmt.section_separator}
    lead, _ = _split_lead(fmt.choices_prefix)
    is_in_prefix = not delimiter and lead
    return {"choices_lead": lead} if is_in_prefix else {"question_choice_delimiter": delimiter}


def _split_lead(text: str) -> tuple[str, str]:
    """The text before the first word, and the rest."""
    lead = re.match(_LEAD, text)
    size = lead.end() if lead else 0
    return text[:size], text[size:]


@dataclass(frozen=True)
class Layout:
    """The slots of a base format and how to fill them."""

    base: PromptFormat

    @cached_property
    def slots(self) -> dict[str, tuple[str, ...]]:
        """Slot → the values it can take, the base's own first; lookalikes are listed once."""
        values = {name: with_own(own, SEPARATORS) for name, own in self._separators.items()}
        if self._descriptors:
            values["casing"] = self._casings
        values |= {name: with_own(own, SPACES) for name, own in self._spaces.items()}
        if self._choice is not None:
            values["wrapper"] = with_own(self._choice["wrapper"], WRAPPERS)
            values["gap"] = with_own(self._choice["gap"], GAPS)
        if self._numbering is not None:
            values["numbering"] = with_own(self._numbering, tuple(NUMBERINGS))
        return values

    @property
    def own(self) -> dict[str, str]:
        """The base's own values."""
        return {name: values[0] for name, values in self.slots.items()}

    def fill(self, values: Mapping[str, str]) -> PromptFormat:
        """The base with these values in its slots; it has no name of its own yet."""
        changes = self._new_texts(values) | self._new_choices(values)
        return with_reading_side(replace(self.base, **changes), self.base)

    # What the base has

    @cached_property
    def _descriptors(self) -> list[Descriptor]:
        return descriptors(self.base)

    @cached_property
    def _separator_of(self) -> dict[str, str]:
        """Field → the slot that its separator belongs to."""
        groups = _groups(
            {descriptor.field: descriptor.separator for descriptor in self._descriptors}
        )
        names = {"answer_prompt": "answer_separator", "choices_prefix": "choices_separator"}
        return _named(groups, "separator", names)

    @cached_property
    def _space_of(self) -> dict[str, str]:
        """Name of a space → the slot that it belongs to."""
        groups = _groups(self._spaces_varied)
        return _named(groups, "space", {"choice_delimiter": "choice_space"})

    @property
    def _separators(self) -> dict[str, str]:
        return {
            self._separator_of[descriptor.field]: descriptor.separator
            for descriptor in self._descriptors
        }

    @property
    def _spaces(self) -> dict[str, str]:
        return {self._space_of[name]: text for name, text in self._spaces_varied.items()}

    @cached_property
    def _spaces_varied(self) -> dict[str, str]:
        """Spaces without words: ``\\n### `` is one, ``\\nNext: `` is not."""
        by_name = spaces(self.base).items()
        return {
            name: text for name, text in by_name if text in SPACES or not re.search(r"\w", text)
        }

    @property
    def _casings(self) -> tuple[str, ...]:
        written: dict[tuple[str, ...], str] = {}
        for name, change in CASINGS.items():
            written.setdefault(
                tuple(change(descriptor.name) for descriptor in self._descriptors), name
            )
        return tuple(written.values())

    @property
    def _has_labels(self) -> bool:
        """Whether choices are shown with labels, and not the choices alone."""
        is_shown = self.base.shows_labels and "{label}" in self.base.choice_format
        return is_shown and self.base.choice_labels != "choices"

    @cached_property
    def _choice(self) -> re.Match[str] | None:
        return _CHOICE.fullmatch(self.base.choice_format) if self._has_labels else None

    @cached_property
    def _numbering(self) -> str | None:
        return numbering_of(self.base.choice_labels) if self._has_labels else None

    # What is put into it

    def _new_texts(self, values: Mapping[str, str]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for descriptor in self._descriptors:
            name = CASINGS[values["casing"]](descriptor.name)
            separator = values[self._separator_of[descriptor.field]]
            if descriptor.field == "answer_prompt" and separator != descriptor.separator:
                shown = separator.rstrip()
                changes["target_delimiter"] = separator[len(shown) :]
                separator = shown
            elif descriptor.field == "answer_prompt":  # as the base has it, blank included
                separator = separator.removesuffix(self.base.target_delimiter)
            changes[descriptor.field] = f"{descriptor.lead}{name}{separator}"
        for name, slot in self._space_of.items():
            if name == "choices_lead":
                prefix = changes.get("choices_prefix", self.base.choices_prefix)
                changes["choices_prefix"] = values[slot] + _split_lead(prefix)[1]
            else:
                changes[name] = values[slot]
        return changes

    def _new_choices(self, values: Mapping[str, str]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if self._choice is not None:
            word, choice = self._choice["word"], self._choice["choice"]
            changes["choice_format"] = f"{word}{values['wrapper']}{values['gap']}{choice}"
        if self._numbering is not None:
            changes["choice_labels"] = self._labels(values["numbering"])
            if values["numbering"] != self._numbering:
                changes |= self._renamed_labels(values["numbering"])
        return changes

    def _labels(self, numbering: str) -> Any:
        labels = self.base.choice_labels
        if isinstance(labels, tuple):  # as many labels as the base, which may cut further choices
            return NUMBERINGS[numbering][: len(labels)]
        return numbering if numbering in _ENDLESS else NUMBERINGS[numbering]

    def _renamed_labels(self, numbering: str) -> dict[str, str]:
        """Texts in which ``[answer_letter]`` is renamed after the new kind of labels."""
        old, new = (LABEL_WORDS.get(name or "", "label") for name in (self._numbering, numbering))
        changes = {}
        for field in ("instruction", "answer_instruction", "answer_prompt"):
            text = getattr(self.base, field)
            if text is not None and old != new and "[" in text:
                changes[field] = renamed_placeholders(text, old, new)
        return changes


def numbering_of(labels: LabelStyle) -> str | None:
    """The numbering that a format's labels begin; None for labels of any other kind."""
    if not isinstance(labels, tuple):
        return labels if labels in _ENDLESS else None
    named = (name for name, known in NUMBERINGS.items() if known[: len(labels)] == labels)
    return next(named, None)


def label_word(fmt: PromptFormat) -> str:
    """What a text calls one of the format's labels: a letter, a number, a label."""
    return LABEL_WORDS.get(numbering_of(fmt.choice_labels) or "", "label")


def renamed_placeholders(text: str, old: str, new: str) -> str:
    """``text`` with the word ``old`` replaced inside square brackets, where it names a placeholder."""
    word = re.compile(rf"(?<![A-Za-z]){old}(?![A-Za-z])")
    return re.sub(r"\[[^\[\]\n]{1,40}\]", lambda match: word.sub(new, match[0]), text)


def with_own(own: str, values: Sequence[str]) -> tuple[str, ...]:
    """A format's own value first, then the others."""
    return (own, *(value for value in values if value != own))


def _groups(texts: Mapping[str, str]) -> list[list[str]]:
    """The keys of equal values together, in their order."""
    groups: dict[str, list[str]] = {}
    for key, text in texts.items():
        groups.setdefault(text, []).append(key)
    return list(groups.values())


def _named(groups: Sequence[Sequence[str]], main: str, others: Mapping[str, str]) -> dict[str, str]:
    """Key → slot. The first group is the main slot; others are named after their first key."""
    slots: dict[str, str] = {}
    for index, group in enumerate(groups):
        name = main if index == 0 else others.get(group[0], f"{main} of {group[0]}")
        slots |= dict.fromkeys(group, name)
    return slots


_FIELDS = ("instruction", "context_prefix", "question_prefix")
_FIRST_WORDS = 4


def with_reading_side(fmt: PromptFormat, base: PromptFormat) -> PromptFormat:
    """``fmt``, made from ``base``, with stop strings and a reader that fit its words."""
    return _with_stops(_with_phrase(fmt, base), base)


def _with_phrase(fmt: PromptFormat, base: PromptFormat) -> PromptFormat:
    """The reader looks for the new ``answer_prompt`` where it looked for the old one."""
    old, new = base.answer_prompt, fmt.answer_prompt
    if base.scorer is None or not old or not new or old == new:
        return fmt
    scorer = replaced_phrase(base.scorer, old.strip(), new.strip())
    return fmt if scorer == base.scorer else replace(fmt, scorer=scorer)


def replaced_phrase(reader: BoundReader, old: str, new: str) -> BoundReader:
    """The reader with ``new`` in place of a ``phrase`` that is ``old``, also in its alternatives."""
    options = tuple(
        (key, new if key == "phrase" and value == old else value) for key, value in reader.options
    )
    alternatives = tuple(
        replaced_phrase(alternative, old, new) for alternative in reader.alternatives
    )
    return replace(reader, options=options, alternatives=alternatives)


def phrase_of(reader: BoundReader | None) -> str | None:
    """The phrase that a reader looks for first, if it looks for one."""
    if reader is None:
        return None
    phrases = [dict(reader.options).get("phrase"), *map(phrase_of, reader.alternatives)]
    return next((phrase for phrase in phrases if phrase), None)


def _with_stops(fmt: PromptFormat, base: PromptFormat) -> PromptFormat:
    until = base.generation_kwargs.get("until")
    if not isinstance(until, list | tuple):
        return fmt
    stops = list(dict.fromkeys(_translated(list(until), fmt, base)))
    if stops == list(until):
        return fmt
    return replace(fmt, generation_kwargs={**base.generation_kwargs, "until": stops})


def _translated(until: list[Any], fmt: PromptFormat, base: PromptFormat) -> Iterator[Any]:
    for stop in until:
        field = _begun_by(stop, base)
        if field is None or getattr(fmt, field) == getattr(base, field):
            yield stop
            continue
        begin = _begin(getattr(fmt, field), is_instruction=field == "instruction")
        if begin:
            yield _lead(stop) + begin
    if base.instruction is None and fmt.instruction is not None:
        leads = [_lead(stop) for stop in until if _begun_by(stop, base)]
        yield from (lead + _begin(fmt.instruction, is_instruction=True) for lead in leads)


def _begun_by(stop: Any, base: PromptFormat) -> str | None:
    """The field of ``base`` that begins with this stop string's text."""
    text = stop.strip() if isinstance(stop, str) else ""
    begins = (name for name in _FIELDS if text and (getattr(base, name) or "").startswith(text))
    return next(begins, None)


def _lead(stop: str) -> str:
    return stop[: len(stop) - len(stop.lstrip())]


def _begin(text: str | None, *, is_instruction: bool) -> str:
    """How a text begins: a descriptor with its separator, or an instruction's first words."""
    if not text:
        return ""
    if is_instruction:
        literal = re.split(r"\{[{%#]|\n", text)[0]
        return " ".join(literal.split()[:_FIRST_WORDS])
    shown = text.rstrip()
    # A bare word as a stop string would cut a sentence that happens to begin with it.
    return text if shown[-1:].isalnum() else shown
