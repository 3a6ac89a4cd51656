"""Stored runs as rows of plain values, or as a DataFrame.

``lm_eval.load_results`` and ``lm_eval.load_samples`` are these functions.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.errors import ComparisonError, LmEvalWarning, MissingExtraError
from lm_eval.lab.stored.run import StoredResult, StoredRun, open_runs
from lm_eval.lab.stored.samples import parsed_samples
from lm_eval.lab.stored.scores import group_scores, scores_of
from lm_eval.text.files import PARTIAL

Row = dict[str, Any]
_BOOLS = ("True", "False")


def load_results(path: str | Path | Sequence[str | Path], *, as_frame: bool | None = None) -> Any:
    """The scores of stored runs, one row for each metric of each result: score, ends, n, shots, ….

    ``path`` is a results file, a folder with such files at any depth, or several of either. Returns a
    ``pandas.DataFrame`` where pandas is installed, else a list of dicts; ``as_frame`` asks for one.
    """
    rows = [
        score.to_dict()
        for run in _runs(path)
        for score in (
            *group_scores(run, run.model),
            *(s for name in run.names for s in scores_of(StoredResult(run, name), run.model)),
        )
    ]
    return _frame(rows, as_frame)


def load_samples(path: str | Path | Sequence[str | Path], *, as_frame: bool | None = None) -> Any:
    """The samples of stored runs, one row for each doc: what was asked, answered, picked and scored.

    ``path`` is as for ``load_results``, or a samples file, also one that is still being written. Returns
    a ``pandas.DataFrame`` where pandas is installed, else a list of dicts; ``as_frame`` asks for one.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    rows: list[Row] = []
    for one in paths:
        file = Path(one).expanduser()
        if file.name.endswith((".jsonl", f".jsonl{PARTIAL}")) and file.is_file():
            rows += [_sample_row({"run": str(file)}, sample) for sample in _samples_in(file)]
        else:
            rows += [row for run in _runs(one) for row in _rows_of(run)]
    return _frame(rows, as_frame)


def _runs(path: str | Path | Sequence[str | Path]) -> list[StoredRun]:
    return open_runs([path] if isinstance(path, str | Path) else list(path))


def _rows_of(run: StoredRun) -> Iterator[Row]:
    for name in run.names:
        result = StoredResult(run, name)
        about = {
            "run": str(run.path),
            "model": run.model,
            "task": result.task,
            "format": result.format,
            "shots": result.fact("n-shot"),
        }
        for sample in run.samples(name):
            yield _sample_row(about, sample)


def _sample_row(about: Mapping[str, Any], sample: Mapping[str, Any]) -> Row:
    """One sample: metrics as columns, what was picked or read, the first prompt and reply."""
    scored, reading = sample.get("scored") or _scored(sample), sample.get("reading") or {}
    replies = (
        [] if scored else [reply for each in sample.get("resps") or () for reply in _texts(each)]
    )
    gold = scored.get("gold", (sample.get("read_with") or {}).get("gold"))
    return {
        **about,
        "doc_id": sample.get("doc_id"),
        "filter": sample.get("filter", "none"),
        **{metric: sample.get(metric) for metric in sample.get("metrics") or ()},
        "picked": scored.get("picked", reading.get("value")),
        "answer": scored.get("answer", reading.get("answer")),
        "target": sample.get("target"),
        "gold": gold,
        "no_answer": reading.get("no_answer"),
        "rule": reading.get("rule"),
        "reply": replies[0] if replies else None,
        "replies": replies if len(replies) > 1 else None,
        "finish": sample.get("finish"),
        "loglikelihoods": scored.get("loglikelihoods"),
        "prompt": _prompt(sample.get("arguments")),
        "missing": sample.get("missing"),
        "doc": sample.get("doc"),
    }


def _scored(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The log-likelihoods of a sample that has them as texts alone, as EleutherAI's harness does."""
    resps = sample.get("filtered_resps") or ()
    try:
        found = [float(logprob) for logprob, is_greedy in resps if str(is_greedy) in _BOOLS]
    except (TypeError, ValueError):
        return {}
    if not found or len(found) != len(resps):
        return {}
    is_choice = len(found) > 1 and "acc" in (sample.get("metrics") or ())
    picked = {"picked": max(range(len(found)), key=found.__getitem__)} if is_choice else {}
    return {**picked, "loglikelihoods": found}


def _texts(replies: Any) -> list[str]:
    """The replies to one request; what is scored has pairs there."""
    values = replies if isinstance(replies, list) else [replies]
    return [value for value in values if isinstance(value, str)]


def _prompt(arguments: Any) -> Any:
    """The first prompt of a sample: text, or chat messages."""
    first: Any = None
    if isinstance(arguments, Mapping):
        first = next(iter(arguments.values()), None)
    elif isinstance(arguments, list) and arguments:
        first = arguments[0]
    if isinstance(first, Mapping):
        return first.get("arg_0")
    return first[0] if isinstance(first, list) and first else first


def _samples_in(path: Path) -> Iterator[Mapping[str, Any]]:
    """The samples of one file; a last line that is not whole yet is left out, with a warning."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ComparisonError(f"{path} cannot be read: {error.strerror}.") from None
    if lines and not lines[-1].endswith(b"\n"):
        warnings.warn(
            f"{path}: the last line is not whole and is left out. The file is still being written, or "
            "was cut off.",
            LmEvalWarning,
            stacklevel=4,
        )
        lines.pop()
    for sample in parsed_samples(lines, path):
        if "doc_id" not in sample:
            raise ComparisonError(
                f"{path} is not a samples file: a line has no `doc_id`. Give one (samples_….jsonl), a "
                "results file, or the folder of a run."
            )
        yield sample


def _frame(rows: list[Row], as_frame: bool | None) -> Any:
    """The rows as a DataFrame where that is asked for, or where pandas is there and nothing is."""
    if as_frame is False:
        return rows
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        if as_frame is None:
            return rows
        raise MissingExtraError(
            "A DataFrame needs pandas, which is not installed.", install="pip install pandas"
        ) from None
    return pandas.DataFrame(rows)
