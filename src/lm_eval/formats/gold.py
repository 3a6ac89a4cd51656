"""Finds the choice that a target names; a target that may name two is an error.

In: a target as the data has it, the choices' texts and, if the data has them, their labels. Out:
the index of the right choice. A target that could mean two different choices is an
``AmbiguousGoldError`` that shows the line to write; one that names none is a ``GoldError``, and its doc
can be skipped. A format's labels play no part.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import AmbiguousGoldError, GoldError, LmEvalWarning

TARGET_TYPES: dict[str, str] = {
    "index": "the choice's number, counted from 0",
    "one_based": "the choice's number, counted from 1",
    "label": "the choice's label in the data, else its letter",
    "text": "the choice's own text",
}
"""What ``target_type`` can be, and what a target then is."""

NO_GOLD = "no gold answer"
NO_MATCH = "the target matches none of the choices"
TWICE = "the target is the text of two choices"
BY_LUCK = 0.001
"""Below this chance that no target is 0, a column of numbers is said to look as if it counts from 1."""
_AROUND_LABELS = "()[]{}<>.:, \t\n"

Readings = dict[str, int]
"""What a target may be (a key of ``TARGET_TYPES``) → the index of the choice it then names."""
Row = tuple[Any, Sequence[str], Sequence[str]]
"""A doc's target, its choices' texts and their labels in the data, if it has any."""


@dataclass(eq=False)
class GoldColumn:
    """How to understand the targets of a task: as the task says, else by what all of them can be.

    If one target alone may mean two choices, docs are read, once, until the meaning is settled; for most
    columns, the first few are enough.
    """

    target_type: str | None = None
    """One of ``TARGET_TYPES``, if the task says which."""
    rows: Callable[[], Iterable[Row]] | None = None
    """None: there is only one doc."""
    is_data: bool = False
    """Whether targets come straight from the data; a number that the task computes is an index."""
    name: str = "answer"
    """The column's name, for the lines that messages suggest."""
    _fits: frozenset[str] | None = field(default=None, init=False)

    def fits(self) -> frozenset[str]:
        """The types that all targets with a meaning may have; empty for a mixture."""
        if self._fits is None:
            self._fits = frozenset(TARGET_TYPES)
            luck, count = 1.0, 0
            for target, choices, labels in self.rows() if self.rows else ():
                for answer in target if isinstance(target, list | tuple) else (target,):
                    readings = readings_of(answer, choices, labels)
                    if readings:
                        count += 1
                        luck *= 1 - 1 / len(choices)
                        self._fits &= readings.keys()
                if len(self._fits) < 2:
                    break
            if luck < BY_LUCK and self._fits == {"index", "one_based"}:
                warnings.warn(
                    f"None of the {count} targets ({self.name}) is 0, as some would be if they counted "
                    "from 0. If they count from 1, write `target_type: one_based` in the task, else "
                    "`target_type: index`.",
                    LmEvalWarning,
                    stacklevel=2,
                )
        return self._fits

    @property
    def holds_indices(self) -> bool:
        """Whether numbers are indices, so that the texts of a doc need not be compared."""
        return self.rows is None or not self.is_data or self.fits() == {"index"}

    @property
    def holds_labels(self) -> bool:
        """Whether other docs show that targets are labels: upper-case letters, or those of the data."""
        return self.rows is not None and "label" in self.fits() != frozenset(TARGET_TYPES)


ALONE = GoldColumn()
"""The column of a single doc."""


def resolve_gold(
    target: Any,
    choices: Sequence[str],
    labels: Sequence[str] = (),
    column: GoldColumn = ALONE,
) -> int:
    """The index of the right choice.

    ``target`` may be a 0-based index, the choice's own text, its label in the data, an upper-case
    letter, or digits. A target that could mean two choices is an error, unless the column settles it.
    """
    if column.target_type is not None:
        return _as_type(target, choices, labels, column.target_type)
    if type(target) is int and 0 <= target < len(choices) and column.holds_indices:
        return target
    if type(target) is str and not labels:
        index = _plain_index(target, choices)
        if index is not None:
            return index
    if is_missing(target):
        raise no_gold(target)
    readings = readings_of(target, choices, labels)
    if not readings:
        raise _unmatched(target, choices, column)
    if len(set(readings.values())) == 1 and not _is_doubtful(target, readings, column):
        return next(iter(readings.values()))
    return _by_column(target, choices, readings, column)


def _plain_index(target: str, choices: Sequence[str]) -> int | None:
    """The index of a text that is neither a letter nor digits, or of a letter that is not a text.

    Most targets are such, and this costs a fraction of looking at all readings.
    """
    if target[:2].isalpha() and len(target) > 1:
        indices = _indices_of(target, choices)
        return indices[0] if len(indices) == 1 else None
    index = ascii_uppercase.find(target) if len(target) == 1 else -1
    is_letter = 0 <= index < len(choices) and all(text.strip() != target for text in choices)
    return index if is_letter else None


def readings_of(target: Any, choices: Sequence[str], labels: Sequence[str] = ()) -> Readings:
    """Everything that a target may be, with the choice that it then names."""
    count = len(choices)
    written = _written(target)
    readings: Readings = {}
    at_text = _indices_of(str(target), choices) or _indices_of(written, choices)
    if len(at_text) == 1:
        readings["text"] = at_text[0]
    bare = written.strip(_AROUND_LABELS)
    at_label = _label_index(written, bare, labels, count)
    if at_label is not None:
        readings["label"] = at_label
    number = int(bare) if _is_count(bare) else -1
    if 0 <= number < count:
        readings["index"] = number
    if 1 <= number <= count:
        readings["one_based"] = number - 1
    if not readings and not at_text and written.strip():
        same = [at for at, choice in enumerate(choices) if _folded(choice) == _folded(written)]
        if len(same) == 1:
            readings["text"] = same[0]
    return readings


def no_gold(target: Any) -> GoldError:
    """The error of a doc without a right answer."""
    shown = "an empty list" if isinstance(target, list | tuple) else shorten(target)
    return GoldError(
        f"doc_to_target gives {shown}: the doc has no gold answer. Give it one in the data.",
        skip_reason=NO_GOLD,
    )


def has_twins(choices: Sequence[str]) -> bool:
    """Whether any two choices have the same text."""
    return len({choice.strip() for choice in choices}) < len(choices)


def with_twins(gold: Sequence[int], choices: Sequence[str]) -> tuple[int, ...]:
    """The indices of the right choices, then of the others that have the text of a right one."""
    texts = {choices[index].strip() for index in gold}
    others = (at for at, choice in enumerate(choices) if at not in gold and choice.strip() in texts)
    return (*gold, *others)


def one_of_each_text(choices: Sequence[str], gold: Sequence[int]) -> list[int]:
    """One index for each text among the choices: of the right choice, else of the first that has it."""
    first: dict[str, int] = {}
    for index, choice in enumerate(choices):
        first.setdefault(choice.strip(), index)
    for index in reversed(gold):
        if index < len(choices):
            first[choices[index].strip()] = index
    return sorted(first.values())


def check_not_cut(
    indices: Sequence[int], labels: Sequence[str], choices: Sequence[str], format_name: str
) -> None:
    """Refuse a right choice that the format drops, because it has too few labels."""
    if labels and max(indices) >= len(labels):
        raise GoldError(
            f"the right choice is number {max(indices) + 1} of {len(choices)}, but format "
            f"{format_name!r} has {len(labels)} labels and drops what is beyond them. Give it "
            f"{len(choices)} choice_labels."
        )


def told_apart(
    labels: tuple[str, ...],
    choices: tuple[str, ...],
    gold: Sequence[int],
    *,
    are_labels: bool,
) -> tuple[Sequence[int], tuple[str, ...], tuple[str, ...]]:
    """The indices, labels and texts of choices, with every text once.

    A text that several choices share means the right one of them, else the first. Labels stay as they
    are, unless the texts are the labels (``are_labels``).
    """
    kept = one_of_each_text(choices, gold)
    if are_labels:
        texts = tuple(choices[index] for index in kept)
        return kept, texts, texts
    texts = tuple(choice if index in kept else "" for index, choice in enumerate(choices))
    return range(len(choices)), labels, texts


def _written(target: Any) -> str:
    """A target as it would be written in a text."""
    if isinstance(target, float) and target.is_integer():
        target = int(target)
    return str(target)


def is_missing(target: Any) -> bool:
    """Whether the data has no value: None, or NaN in a column of numbers."""
    if isinstance(target, str):
        return False
    return target is None or (isinstance(target, float) and math.isnan(target))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _indices_of(written: str, choices: Sequence[str]) -> list[int]:
    """The indices of a text, with or without white space around it."""
    text = written.strip()
    return [at for at, choice in enumerate(choices) if choice == written or choice.strip() == text]


def _label_index(
    written: str, bare: str, labels: Sequence[str], count: int, *, any_case: bool = False
) -> int | None:
    """The index of a label of the data; if the data has none, of an upper-case letter."""
    if labels:
        index = _index_in(labels, (written, bare), any_case=any_case)
        if index is not None or any(len(label.strip()) == 1 for label in labels):
            return index
    letters = ascii_uppercase[:count]
    wanted = bare.upper() if any_case else bare
    return letters.index(wanted) if len(wanted) == 1 and wanted in letters else None


def _index_in(labels: Sequence[str], spellings: Iterable[str], *, any_case: bool) -> int | None:
    for wanted in spellings:
        for fold in (str.strip, _folded) if any_case else (str.strip,):
            same = [at for at, label in enumerate(labels) if fold(label) == fold(wanted)]
            if len(same) == 1:
                return same[0]
    return None


def _as_type(target: Any, choices: Sequence[str], labels: Sequence[str], target_type: str) -> int:
    """The index that a target names if the task states its type."""
    if is_missing(target):
        raise no_gold(target)
    written = _written(target)
    bare = written.strip(_AROUND_LABELS)
    index: int | None
    if target_type == "label":
        index = _label_index(written, bare, labels, len(choices), any_case=True)
    elif target_type == "text":
        if len(_indices_of(str(target), choices)) > 1:
            raise _text_twice(target)
        index = readings_of(target, choices).get("text")
    else:
        number = int(target) if isinstance(target, bool) else int(bare) if _is_count(bare) else -1
        index = number - (target_type == "one_based")
        index = index if 0 <= index < len(choices) else None
    if index is None:
        known = f" ({', '.join(labels)})" if target_type == "label" and labels else ""
        raise GoldError(
            f"target {shorten(target)} is not {TARGET_TYPES[target_type]}{known}, as `target_type: "
            f"{target_type}` says, for the {len(choices)} choices ({_shown(choices)}).",
            skip_reason=NO_MATCH,
        )
    return index


def _is_doubtful(target: Any, readings: Readings, column: GoldColumn) -> bool:
    """Whether other docs may show that the only choice named is not the right one."""
    if readings.keys() == {"one_based"}:
        return True
    return "index" in readings and not isinstance(target, str) and not column.holds_indices


def _by_column(target: Any, choices: Sequence[str], readings: Readings, column: GoldColumn) -> int:
    """The only index left after a look at the whole column; an error if two are left."""
    by_label = readings.get("label")
    if by_label is not None:
        if readings.get("text", by_label) == by_label:
            return by_label  # digits too: the data gives the choice this label
        both = {kind: readings[kind] for kind in ("label", "text")}
        raise _ambiguous(target, choices, both, column)
    fits = column.fits()
    if readings.keys() == {"one_based"} and (column.rows is None or "one_based" not in fits):
        raise _unmatched(target, choices, column)
    left = {kind: index for kind, index in readings.items() if kind in fits} or dict(readings)
    if "index" in left and not isinstance(target, str):
        left.pop("one_based", None)  # a number counts from 0 unless the column shows otherwise
    if left.keys() != {"one_based"} and len(set(left.values())) == 1:
        return next(iter(left.values()))
    raise _ambiguous(target, choices, left if len(left) > 1 else readings, column)


def _ambiguous(
    target: Any, choices: Sequence[str], readings: Readings, column: GoldColumn
) -> AmbiguousGoldError:
    meanings = "; ".join(
        f"`target_type: {kind}` for {TARGET_TYPES[kind]}, here {shorten(choices[index], 40)}"
        for kind, index in readings.items()
    )
    return AmbiguousGoldError(
        f"target {shorten(target)} may mean more than one choice. {_seems(readings, column)}Write in "
        f"the task what it is: {meanings}."
    )


def _seems(readings: Readings, column: GoldColumn) -> str:
    """What the whole column looks like, if that supports one of the readings."""
    if column.rows is None:
        return ""
    fits = column.fits()
    if "one_based" in fits and "index" not in fits:
        return (
            f"No {column.name!r} of this task is 0 and the highest is the number of choices, so they "
            "seem to count from 1: `target_type: one_based`. "
        )
    alike = fits & readings.keys()
    return (
        f"Every {column.name!r} of this task could be its {min(alike)}. " if len(alike) == 1 else ""
    )


def _unmatched(target: Any, choices: Sequence[str], column: GoldColumn) -> GoldError:
    written = _written(target)
    if len(_indices_of(str(target), choices)) > 1:
        return _text_twice(target)
    if not written.strip():
        return no_gold(target)
    if isinstance(target, bool):
        return AmbiguousGoldError(
            f"target {target} is none of the choices ({_shown(choices)}). If true means the second "
            "choice and false the first, write `target_type: index` in the task."
        )
    letter = written.strip(_AROUND_LABELS).upper()
    is_letter = len(letter) == 1 and letter in ascii_uppercase[: len(choices)]
    if is_letter and not column.holds_labels:
        return AmbiguousGoldError(
            f"target {shorten(target)} is none of the choices' texts ({_shown(choices)}), and only "
            "upper-case letters count as letters. If it is one, write `target_type: label` in the "
            "task."
        )
    return GoldError(
        f"target {shorten(target)} matches none of the {len(choices)} choices ({_shown(choices)}). It "
        "may be a 0-based index, a choice's own text, an upper-case letter, or digits.",
        skip_reason=NO_MATCH,
    )


def _text_twice(target: Any) -> GoldError:
    return GoldError(
        f"target {shorten(target)} is the text of more than one choice, so it does not say which is "
        "right. Make the choices distinct, or give the right one's index.",
        skip_reason=TWICE,
    )


def _shown(choices: Sequence[str]) -> str:
    return ", ".join(shorten(choice, 40) for choice in choices[:8])
