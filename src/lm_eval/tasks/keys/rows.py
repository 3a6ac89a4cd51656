"""Keys of a task about its rows: which docs they make, with which examples, in which cluster or part.

In: the keys ``unfold``, ``where``, ``skip_docs``, ``fewshot_config.ids``, ``fewshot_match``,
``cluster``, ``score_by`` and ``checks``, and rows. Out: the docs of a row, the rows that are kept, the
reason why a doc is left out, the examples that are named, the value that a doc shares with its
examples, its cluster and part, and the checks of its reply. The most common ``where``, one column
compared with one value, is not run as a template: fifty tasks of one data set may read every row of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lm_eval.config.fields import Field, compile_field, equality, shorten
from lm_eval.errors import DataError, FieldError, did_you_mean, listing

Doc = Mapping[str, Any]
_SHOWN_VALUES = 20


@dataclass(frozen=True)
class RowFilter:
    """``where``: an expression that is true for the rows to keep."""

    spec: Any

    def kept(self, rows: Sequence[Doc], *, split: str) -> list[int]:
        """The indices of the rows for which it is true; an error if there are none."""
        compared = self._compared
        if compared is not None and rows and compared[0] in rows[0]:
            name, value = compared
            indices = [at for at, row in enumerate(rows) if row[name] == value]
        else:
            indices = [at for at, row in enumerate(rows) if self._is_true(row, at, split)]
        if rows and not indices:
            raise DataError(
                f"where {shorten(self.spec)} is true for none of the {len(rows):,} rows of split "
                f"{split!r}.{self._values_there(rows)}"
            )
        return indices

    def _is_true(self, row: Doc, at: int, split: str) -> bool:
        where = f"where, row {at} of split {split!r}"
        try:
            value = self._compiled(row)
        except FieldError as error:
            raise FieldError(f"{where}: {error}") from None
        if not isinstance(value, bool):
            raise FieldError(
                f"{where}: {shorten(self.spec)} gives {shorten(value)}, which is neither true nor "
                "false. Compare it with something: `where: \"{{ category == 'biology' }}\"`."
            )
        return value

    @cached_property
    def _compiled(self) -> Field:
        return compile_field(self.spec)

    @cached_property
    def _compared(self) -> tuple[str, Any] | None:
        return equality(self.spec)

    def _values_there(self, rows: Sequence[Doc]) -> str:
        """The values of the column, if one column is compared with one value."""
        if self._compared is None:
            return ""
        name, wanted = self._compared
        values = [str(value) for value, _ in Counter(str(row[name]) for row in rows).most_common()]
        hint = did_you_mean(str(wanted), values)
        return f"{hint} Its column {name!r} has {listing(values, _SHOWN_VALUES)}."


@dataclass(frozen=True)
class Unfolding:
    """``unfold``: a variable and the list of its values in a row; each value makes a separate doc."""

    spec: Mapping[str, Any]

    def docs(self, rows: Iterable[Doc], *, split: str) -> list[dict[str, Any]]:
        """The docs of all rows in order; each has the columns of its row, and the variable."""
        ((name, spec),) = self.spec.items()
        values_of = compile_field(spec)
        docs: list[dict[str, Any]] = []
        for at, row in enumerate(rows):
            where = f"unfold, row {at} of split {split!r}"
            if name in row:
                raise DataError(
                    f"{where}: the rows have a column {name!r} already. Give the variable another name."
                )
            try:
                values = values_of(row)
            except FieldError as error:
                raise FieldError(f"{where}: {error}") from None
            if not isinstance(values, list | tuple):
                raise FieldError(
                    f"{where}: {shorten(spec)} gives {shorten(values)}; expected a list, such as "
                    f"`unfold: {UNFOLD_EXAMPLE}`."
                )
            docs += [{**row, name: value} for value in values]
        return docs


UNFOLD_EXAMPLE = '{turn: "{{ range(questions | length) | list }}"}'


class KnownBadDocs:
    """``skip_docs``: the docs that a task leaves out, and why.

    A reason has a list of doc numbers or ids (the column ``id``), or an expression.
    """

    def __init__(self, reasons: Mapping[str, Any], docs: Sequence[Doc]) -> None:
        self._docs = docs
        self._listed: dict[Any, str] = {}
        self._filters: dict[str, Field] = {}
        for reason, named in reasons.items():
            if isinstance(named, list):
                self._listed |= dict.fromkeys(named, str(reason))
            else:
                self._filters[str(reason)] = compile_field(named)
        self._has_ids = any(isinstance(name, str) for name in self._listed)
        self._check_there()

    def reason(self, doc_id: int) -> str | None:
        """Why a doc is left out; None if it is not."""
        doc = self._docs[doc_id]
        listed = self._listed.get(doc_id)
        if listed is None and self._has_ids:
            listed = self._listed.get(doc["id"]) if isinstance(doc["id"], str) else None
        return listed or self.reason_of(doc)

    def reason_of(self, doc: Doc) -> str | None:
        """Why an expression leaves out a doc of any split."""
        return next((reason for reason, is_bad in self._filters.items() if is_bad(doc)), None)

    def _check_there(self) -> None:
        """Refuse numbers and ids that no doc has."""
        if self._has_ids and self._docs and "id" not in self._docs[0]:
            raise DataError(
                "skip_docs names docs by text, but they have no column `id`. Give their numbers, or "
                "an expression such as `\"{{ question_id in ['q7', 'q9'] }}\"`."
            )
        ids = {doc["id"] for doc in self._docs} if self._has_ids else set()
        for name, reason in self._listed.items():
            if name not in ids if isinstance(name, str) else not 0 <= name < len(self._docs):
                raise DataError(
                    f"skip_docs ({reason}) names doc {name!r}, which is not there. A number counts from "
                    f"0 to {len(self._docs) - 1}; a text is the doc's value in the column `id`."
                )


def shared_value(spec: Any) -> Callable[[Doc], Any]:
    """A function from a doc to the value that its examples must have too."""
    compiled, key = compile_field(spec), "fewshot_match"

    def value(doc: Doc) -> Any:
        try:
            shared = compiled(doc)
        except FieldError as error:
            raise error.located(field=key) from error.__cause__
        if not isinstance(shared, str | int | float):
            raise FieldError(
                f"{shorten(spec)} gives {shorten(shared)}. Docs and examples are matched by a text or "
                "a number.",
                field=key,
            )
        return shared

    return value


def indices_by_value(pool: Iterable[Doc], value: Callable[[Doc], Any]) -> dict[Any, list[int]]:
    """Value → the indices in the pool of the docs that have it."""
    indices: dict[Any, list[int]] = {}
    for at, doc in enumerate(pool):
        indices.setdefault(value(doc), []).append(at)
    return indices


def named_examples(docs: Sequence[Doc], ids: Sequence[Any], spec: Any, *, split: str) -> list[Doc]:
    """The docs that ``fewshot_config.ids`` names, in its order; ``spec`` gives a doc's id."""
    value_of = compile_field(spec)
    by_id: dict[str, list[Doc]] = {str(name): [] for name in ids}
    seen = []
    for doc in docs:
        try:
            name = str(value_of(doc))
        except FieldError as error:
            raise error.located(field="fewshot_config.id") from error.__cause__
        seen.append(name)
        if name in by_id:
            by_id[name].append(doc)
    for name, matches in by_id.items():
        if not matches:
            raise DataError(
                f"fewshot_config.ids names {name!r}, and no row of split {split!r} has it in "
                f"{shorten(spec)}.{did_you_mean(name, seen)} The data set may have changed since; "
                "correct the list, or take it out to draw examples."
            )
        if any(doc != matches[0] for doc in matches):
            raise DataError(
                f"fewshot_config.ids names {name!r}, and {len(matches)} different rows of split "
                f"{split!r} have it in {shorten(spec)}. Tell them apart: "
                '`fewshot_config: {id: "{{ id }} {{ source }}", ids: […]}`.'
            )
    return [by_id[str(name)][0] for name in ids]


def instructions(ids: Any, arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    """``checks``: the ids of a doc's checks, each with its arguments."""
    if not isinstance(ids, list | tuple) or not ids or not all(isinstance(i, str) for i in ids):
        raise FieldError(f"ids is {shorten(ids)}; expected a list of names of checks.")
    arguments = [{} if each is None else each for each in arguments or [{}] * len(ids)]
    if len(arguments) != len(ids) or not all(isinstance(each, Mapping) for each in arguments):
        raise FieldError(
            f"arguments is {shorten(arguments)}; expected a mapping for each of the {len(ids)} checks."
        )
    return [
        (name, {key: value for key, value in each.items() if value is not None})
        for name, each in zip(ids, arguments, strict=True)
    ]


def part_name(value: Any, name: str) -> str:
    """``score_by``: the part that a doc belongs to."""
    if isinstance(value, list | tuple | dict | set):
        raise FieldError(
            f"{name!r} is {shorten(value)} here, and a doc is in one part. Give a field or an "
            "expression whose value is a text or a number."
        )
    return "(none)" if value is None or value == "" else str(value)


def cluster_name(value: Any) -> str:
    """``cluster``: the cluster that a doc belongs to."""
    is_nan = isinstance(value, float) and math.isnan(value)
    if not isinstance(value, str | int | float) or is_nan or value == "":
        raise FieldError(
            f"the doc has {shorten(value)} there. Every doc needs a text or a number that it shares "
            "with the docs it belongs to; give docs that belong to no other one of their own."
        )
    return str(value)
