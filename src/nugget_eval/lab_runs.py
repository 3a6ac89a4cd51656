"""Runs of ``nugget-eval`` as the format lab sees them: nuggets are items, topics are their clusters.

In: a folder that ``nugget-eval run`` or ``compare`` wrote. Out: a run whose results are
``data@prompt_type×format_type``. A nugget scores 1 if its label is that of the gold; without
gold, it scores the gain of its label. A missing label scores 0 and counts as not read. ``lm_eval`` finds
``READER`` by the entry point ``lm_eval.runs``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.errors import ComparisonError, listing
from lm_eval.lab.stored.run import StoredRun
from lm_eval.support.encode import doc_hash
from nugget_eval.files import COMPARISON, REPLIES, SUMMARY

if TYPE_CHECKING:
    from lm_eval.formats.readers import BoundReader
    from lm_eval.lab.reread.items import Rereading
    from nugget_eval.lab.nuggets import JudgedFolder, JudgedNugget

MORE_FORMATS = "nugget-eval compare --prompt_types short_cot,optimized --format_types json,csv …"
"""The command that judges the same nuggets under other prompts: shown if there is nothing to compare."""


class NuggetRuns:
    """Finds and opens runs of ``nugget-eval``; registered under ``lm_eval.runs``."""

    def reads(self, path: Path) -> bool:
        """Whether a file or folder is one of these runs."""
        return bool(_folders(path))

    def open(self, path: Path) -> list[StoredRun]:
        """The run there; the trials of a comparison are its results."""
        return [NuggetRun.of(path, _folders(path))]


READER = NuggetRuns()


@dataclass(frozen=True)
class NuggetRun(StoredRun):
    """One run of ``nugget-eval``, with a result for each prompt and format type."""

    folders: Mapping[str, JudgedFolder]
    """Result → what was written about it."""

    @classmethod
    def of(cls, path: Path, folders: Sequence[Path]) -> NuggetRun:
        """The run in these folders, which must be of the same judges."""
        from nugget_eval.lab.nuggets import JudgedFolder  # late: to look at a folder needs no judge

        opened = [JudgedFolder(folder) for folder in folders]
        judges = sorted({folder.model for folder in opened})
        if len(judges) > 1:
            raise ComparisonError(
                f"{path} holds runs of several judges: {listing(judges)}. Give the folder of one of "
                "them at a time."
            )
        file = SUMMARY if [path] == list(folders) else COMPARISON
        summary = path if path.is_file() else path / file
        asked = _trials(summary)
        opened.sort(key=lambda folder: asked.get(folder.format()["format"], len(asked)))
        by_name = {folder.name: folder for folder in opened}
        if len(by_name) < len(opened):
            raise ComparisonError(
                f"{path} holds two runs of one prompt and format type. Give the folder of one of them."
            )
        return cls(summary, _results(by_name), by_name)

    def samples_path(self, name: str) -> Path:
        """The replies file of a result."""
        return self._folder(name).folder / REPLIES

    def samples(self, name: str) -> Iterator[dict[str, Any]]:
        """The nuggets of a result in the shape of samples, one after the other."""
        folder = self._folder(name)
        for nugget in folder.nuggets():
            yield _sample(folder, nugget)

    def reread(self, name: str, reader: BoundReader) -> Rereading:
        """The labels of a result, read from the replies with another reader."""
        from nugget_eval.lab.nuggets import reread_folder

        return reread_folder(self._folder(name), reader)

    def judged(self, name: str) -> dict[str, Any]:
        """The texts of a result with their nuggets, labels and quotations, for the viewer."""
        from nugget_eval.lab.judgements import judgements

        return judgements(self._folder(name))

    def _folder(self, name: str) -> JudgedFolder:
        if name not in self.folders:
            raise ComparisonError(f"{self.path} has no result {name!r}: {listing(self.folders)}.")
        return self.folders[name]


def _folders(path: Path) -> list[Path]:
    """The folders of a run or of a comparison; none if this is something else."""
    folder = path.parent if path.is_file() and path.name in (SUMMARY, COMPARISON) else path
    if not folder.is_dir():
        return []
    if _is_run(folder) and path.name != COMPARISON:
        return [folder]
    if not (folder / COMPARISON).is_file():
        return []
    return sorted(trial for trial in folder.iterdir() if trial.is_dir() and _is_run(trial))


def _trials(path: Path) -> dict[str, int]:
    """The trials of a comparison in the order in which they were asked for: the first is the default."""
    try:
        names = list(json.loads(path.read_text(encoding="utf-8"))["trials"])
    except (OSError, ValueError, KeyError, TypeError):  # the folders have all else
        return {}
    return {str(name): rank for rank, name in enumerate(names)}


def _is_run(folder: Path) -> bool:
    return (folder / SUMMARY).is_file() and (folder / REPLIES).is_file()


def _results(folders: Mapping[str, JudgedFolder]) -> dict[str, Any]:
    """What a results file would hold, as far as the lab asks for it."""
    first = next(iter(folders.values()))
    model = first.summary["config"]["model"]
    data = first.summary["config"]["data"]
    return {
        "results": {name: _scores(run) for name, run in folders.items()},
        "configs": {name: run.config() for name, run in folders.items()},
        "formats": {name: run.format() for name, run in folders.items()},
        "versions": {name: run.prompt.get("version") for name, run in folders.items()},
        "n-samples": {name: {"effective": run.counted()[0]} for name, run in folders.items()},
        "higher_is_better": {name: {run.metric: True} for name, run in folders.items()},
        "primary_metrics": {name: {f"{run.metric},none": None} for name, run in folders.items()},
        "notes": {name: run.notes() for name, run in folders.items()},
        "more_formats": MORE_FORMATS,
        "accounting": {"tasks": {name: run.usage() for name, run in folders.items()}},
        "config": {
            "model": model.get("backend"),
            "model_args": model.get("model_args"),
            "limit": data.get("limit"),
            "gen_kwargs": model.get("gen_kwargs"),
            "random_seed": model.get("seed"),
        },
        "model_source": model.get("backend"),
        "model_name": first.model,
        "lm_eval_version": first.summary.get("version"),
    }


def _scores(folder: JudgedFolder) -> dict[str, Any]:
    count, total = folder.counted()
    return {f"{folder.metric},none": total / count} if count else {}


def _sample(folder: JudgedFolder, nugget: JudgedNugget) -> dict[str, Any]:
    doc = {"qid": nugget.qid, "unit": nugget.unit, "nugget": nugget.text}
    row = nugget.row or {}
    prompt = row.get("prompt")
    return {
        "doc_id": nugget.number,
        "doc": doc,
        "doc_hash": doc_hash(doc),
        "target": nugget.gold,
        "arguments": {} if prompt is None else {"gen_args_0": {"arg_0": prompt}},
        "prompt_key": folder.prompt_key,
        "resps": [[row.get("reply", "")]],
        "filter": "none",
        "metrics": [folder.metric],
        folder.metric: nugget.score,
        "reading": {
            "value": nugget.label,
            "answer": nugget.label,
            "rule": row.get("format_used"),
            "span": row.get("span"),
            "no_answer": None if nugget.label is not None else row.get("problem") or "missing",
        },
        "finish": row.get("finish"),
        "cluster": nugget.qid,
    }
