"""What the pages may ask for: an address such as ``columns/1f0c2a9b/44aa01de`` → values for JSON.

The server answers these addresses over HTTP, an export writes the same answers into files: the pages do
not know where they come from.

| Address | Answer |
| --- | --- |
| ``runs`` | every run with its scores, and files that could not be opened |
| ``run/ID`` | one run: table, settings, notes |
| ``compare/ID+ID`` | what the differences among these runs mean |
| ``columns/ID/KEY`` | the items of one result: right, wrong, unread, in columns |
| ``texts/ID/KEY/LINE`` | the first words of up to ``CHUNK`` samples, from a line on |
| ``samples/ID/KEY/LINE`` | whole samples: one over HTTP, a block in an export |
| ``judge/ID/KEY`` | nuggets, labels and passages of a run of ``nugget-eval`` |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any

import lm_eval
from lm_eval.errors import ComparisonError, LmEvalError
from lm_eval.lab.stored.select import model_names
from lm_eval.reports.items import ItemColumns, shortest
from lm_eval.screen.remarks import REASONS
from lm_eval.support.encode import to_json
from lm_eval.viewer.catalogue import AnyRun, Catalogue, UnfinishedRun, ViewedRun, undamaged
from lm_eval.viewer.figures import card, comparisons, run_page
from lm_eval.viewer.samples import GROUPING_DOCS, grouping_fields, text_row, whole_sample

CHUNK = 4096
"""Rows of first words in one answer."""
HASH_DIGITS = 8
"""Digits that tell docs of different runs apart."""
REFRESH_S = 1.0
"""The list of runs is looked for again after this time."""
RIGHT, WRONG, PARTLY, UNREAD, NUMBER, NONE = "rwpun."
"""States of an item: the last two are a score that is not a share, and no score."""


class UnknownAddressError(LmEvalError):
    """No page asks for this."""


class Contract:
    """Answers every address, from the files as they are now."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = Lock()
        self._comparing = Lock()  # a long comparison must not hold up the list of runs
        self._looked = time.monotonic()
        self._compared: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._fields: dict[tuple[str, str], list[str]] = {}
        self._answers: dict[str, tuple[Callable[..., Any], int]] = {
            "runs": (self._runs, 0),
            "run": (self._run, 1),
            "compare": (self._compare, 1),
            "columns": (self._columns, 2),
            "texts": (self._texts, 3),
            "samples": (self._samples, 3),
            "judge": (self._judge, 2),
        }
        """First part of an address → what answers it, and how many parts follow."""

    def json(self, address: str) -> bytes:
        """The answer as JSON text."""
        return encoded(self.answer(address))

    def answer(self, address: str) -> Any:
        """The answer; if there is none, an error with a message for people."""
        kind, *parts = address.split("/")
        answer, count = self._answers.get(kind, (None, 0))
        if answer is None or len(parts) != count:
            raise UnknownAddressError(f"There is nothing at {address!r}.")
        ids = parts[0].split("+") if parts else ()
        known = [
            str(self._catalogue.runs[each].path) for each in ids if each in self._catalogue.runs
        ]
        with undamaged(" or ".join(known)):
            return answer(*parts)

    # Runs

    def _runs(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() - self._looked > REFRESH_S:
                self._catalogue.refresh()
                self._looked = time.monotonic()
            runs, problems = list(self._catalogue.runs.values()), list(self._catalogue.problems)
        root = str(self._catalogue.root)
        cards, broken = [], [{"path": each.path, "message": each.message} for each in problems]
        called = model_names([run.stored for run in runs if isinstance(run, ViewedRun)])
        for run in runs:
            try:
                with undamaged(run.path):
                    cards.append({**card(run, root), "called": called.get(run.path, run.model)})
            except (LmEvalError, OSError) as error:
                broken.append({"path": str(run.path), "message": str(error)})
        return {
            "given": [str(path) for path in self._catalogue.paths],
            "version": lm_eval.VERSION,
            "runs": cards,
            "problems": broken,
            "reasons": REASONS,
        }

    def _run(self, run_id: str) -> dict[str, Any]:
        run = self._catalogue.run(run_id)
        root = str(self._catalogue.root)
        return card(run, root) if isinstance(run, UnfinishedRun) else run_page(run, root)

    def _compare(self, ids: str) -> dict[str, Any]:
        runs = [self._catalogue.run(run_id) for run_id in dict.fromkeys(ids.split("+"))]
        finished = [run for run in runs if isinstance(run, ViewedRun)]
        sign = tuple(id(run.stored) for run in finished)
        known = self._compared.get(ids)
        if known is None or known[0] != sign:
            with self._comparing:
                answer = comparisons(finished)
                live = [run.model for run in runs if run.is_live]
                answer["notes"] += [f"{name} is compared once it is finished." for name in live]
                known = self._compared[ids] = (sign, answer)
        return known[1]

    # Items

    def _columns(self, run_id: str, key: str) -> dict[str, Any]:
        run = self._catalogue.run(run_id)
        name = run.name_of(key)
        metric, filter_name = run.metric(name)
        columns = ItemColumns(name, filter_name) if run.is_live else run.columns(name)
        is_higher = run.is_higher_better(name, metric)
        return {
            "run": run_id,
            "key": key,
            "name": name,
            "metric": metric,
            "filter": filter_name,
            "higher": is_higher,
            "live": run.is_live,
            "missing": columns.missing,
            **item_columns(columns, metric, is_higher=is_higher),
            "problem": self._samples_problem(run, name),
        }

    def _samples_problem(self, run: AnyRun, name: str) -> str | None:
        """Why the texts of a result cannot be shown; None if they can."""
        try:
            next(run.source(name).samples(0, 1), None)
        except (LmEvalError, OSError) as error:
            return str(error)
        return None

    def _texts(self, run_id: str, key: str, start: str) -> dict[str, Any]:
        run = self._catalogue.run(run_id)
        name, first = run.name_of(key), _line(start)
        _, filter_name = run.metric(name)
        source = run.source(name)
        samples = source.samples(first, CHUNK)
        fields = self._grouping(run, name)
        answer = texts(samples, first, filter_name, fields, with_scores=run.is_live)
        answer["next"] = first + answer.pop("lines")
        answer["done"] = answer["next"] - first < CHUNK and not run.is_live
        answer["rest"] = getattr(source, "rest_bytes", 0) if answer["done"] else 0
        return answer

    def _grouping(self, run: AnyRun, name: str) -> list[str]:
        known = self._fields.get((run.id, name))
        if known is None:
            samples = run.source(name).samples(0, GROUPING_DOCS)
            known = grouping_fields([sample.get("doc") for sample in samples])
            if not run.is_live:  # later docs of a running one may differ more
                self._fields[run.id, name] = known
        return known

    def _samples(self, run_id: str, key: str, line: str) -> list[dict[str, Any]]:
        return list(self.whole(run_id, key, _line(line), 1))

    def whole(self, run_id: str, key: str, first: int, count: int) -> Iterator[dict[str, Any]]:
        """Whole samples from a line on."""
        run = self._catalogue.run(run_id)
        name = run.name_of(key)
        delimiter = run.delimiter(name)
        with undamaged(run.path):
            for sample in run.source(name).samples(first, count):
                yield whole_sample(sample, delimiter)

    def _judge(self, run_id: str, key: str) -> dict[str, Any]:
        run = self._catalogue.run(run_id)
        name = run.name_of(key)
        judged = getattr(run.stored, "judged", None) if isinstance(run, ViewedRun) else None
        if judged is None:
            raise ComparisonError(f"{run.path} is not a run of a judge.")
        answer: dict[str, Any] = judged(name)
        return answer


def _line(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise UnknownAddressError(f"{text!r} is not the number of a line.")
    return int(text)


def encoded(value: Any) -> bytes:
    """JSON as UTF-8; text that cannot be encoded is escaped."""
    return to_json(value).encode("utf-8", "surrogatepass")


def item_columns(columns: ItemColumns, metric: str, *, is_higher: bool) -> dict[str, Any]:
    """The items of a result as the pages hold them: a letter for each state, and numbers if needed."""
    values = columns.metrics.get(metric) or [None] * len(columns)
    known = [value for value in values if value is not None]
    is_share = is_higher and metric != "bypass" and all(0 <= value <= 1 for value in known)
    is_plain = is_share and all(value in (0, 1) for value in known)
    read = columns.read or [1.0] * len(columns)
    states = [state_of(v, share, is_share=is_share) for v, share in zip(values, read, strict=True)]
    return {
        "docs": _numbering(columns.doc_ids),
        "hashes": "".join(digits[:HASH_DIGITS] for digits in columns.docs),
        "states": "".join(states),
        "scores": None if is_plain else [shortest(value) for value in values],
        "share": is_share,
        "clusters": _coded(columns.clusters),
        "parts": {name: _coded(values) for name, values in columns.parts.items()},
    }


def state_of(value: float | None, read: float, *, is_share: bool = True) -> str:
    """One of the letters ``rwpun.``."""
    if value is None:
        return NONE
    if not read and value <= 0:
        return UNREAD
    if not is_share:
        return NUMBER
    return RIGHT if value >= 1 else WRONG if value <= 0 else PARTLY


def _numbering(doc_ids: Sequence[int]) -> Any:
    """The doc ids, or just their number if they count up from 0."""
    return len(doc_ids) if list(doc_ids) == list(range(len(doc_ids))) else list(doc_ids)


def _coded(values: Sequence[str] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    codes: dict[str, int] = {}
    return {
        "codes": [codes.setdefault(value, len(codes)) for value in values],
        "names": list(codes),
    }


_TEXT_COLUMNS = ("doc", "q", "r", "n", "a", "g")
_CODED_COLUMNS = ("why", "rule")


def texts(
    samples: Iterable[dict[str, Any]],
    first: int,
    filter_name: str,
    fields: Sequence[str],
    *,
    with_scores: bool,
) -> dict[str, Any]:
    """First words in columns. Samples of other filters are counted and left out."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    docs: list[dict[str, Any]] = []
    missing: list[int] = []
    states: list[str] = []
    number = first
    for number, sample in enumerate(islice(samples, CHUNK), start=first + 1):
        row = text_row(sample)
        if row["filter"] != filter_name:
            continue
        if sample.get("missing"):
            missing.append(len(rows))
        rows.append(row)
        lines.append(number - 1)
        doc = sample.get("doc")
        docs.append(doc if isinstance(doc, dict) else {})
        if with_scores:
            states.append(_state_in(sample))
    return {
        "lines": number - first,
        "line": _span_of(lines),
        **{name: [row[name] for row in rows] for name in _TEXT_COLUMNS},
        **{name: _coded([row[name] for row in rows]) for name in _CODED_COLUMNS},
        "missing": missing,
        "fields": {name: _coded([_field(doc.get(name)) for doc in docs]) for name in fields},
        "states": "".join(states) if with_scores else None,
    }


def _span_of(lines: Sequence[int]) -> Any:
    """The line numbers, or just the first if they are consecutive."""
    if lines and lines[-1] - lines[0] != len(lines) - 1:
        return list(lines)
    return lines[0] if lines else 0


def _field(value: Any) -> str:
    return "" if value is None else str(value)[:80]


def _state_in(sample: dict[str, Any]) -> str:
    """The state of a sample that has no columns yet, by its first metric."""
    metrics = sample.get("metrics")
    value = sample.get(str(metrics[0])) if isinstance(metrics, list) and metrics else None
    reading = sample.get("reading")
    is_unread = isinstance(reading, dict) and reading.get("no_answer") is not None
    if sample.get("missing") or not isinstance(value, int | float):
        return NONE
    return state_of(float(value), 0.0 if is_unread else 1.0, is_share=0 <= value <= 1)
