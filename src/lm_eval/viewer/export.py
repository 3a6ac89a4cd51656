"""Runs as files that open without a server: a folder for any static host, or one HTML file to send.

Both hold the answers of the contract, compressed. A page that was opened from a disk may not read files,
but may load scripts: so each answer is a small script that hands over its text.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from lm_eval.errors import LmEvalError, OutputError, UsageError
from lm_eval.support.encode import to_json
from lm_eval.support.files import write_whole
from lm_eval.viewer.app import app_html, policy_of, with_policy
from lm_eval.viewer.catalogue import AnyRun, Catalogue, result_key
from lm_eval.viewer.contract import CHUNK, Contract, encoded

BLOCK_SAMPLES = 256
BLOCK_BYTES = 4_000_000
"""A block of samples ends when it has this many of either."""
ONE_FILE_BYTES = 20_000_000
"""The most samples that one HTML file may hold, before compression."""
PAIRED_RUNS = 8
"""Up to this many runs, every pair is compared in advance."""
DATA, INDEX = "data", "index.html"
_PLACE = b'<div id="app">'
_CALL = 'lmEvalData("'
"""How each script of a folder begins: what begins otherwise is not ours, and stays."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    num_files: int
    num_bytes: int
    notes: tuple[str, ...]
    """What could not be exported."""


class _Answers:
    """Every address that the pages of an export may ask for, with its answer."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._runs = list(catalogue.runs.values())
        self._contract = Contract(catalogue)
        self.blocks: dict[str, list[int]] = {}
        """Result → the first line of each block of its samples."""
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        yield "runs", self._contract.json("runs")
        for run in self._runs:
            yield from self._known(f"run/{run.id}")
            for name in run.names:
                yield from self._result(run, result_key(name))
        for ids in self._compared():
            yield from self._known(f"compare/{'+'.join(ids)}")

    def _known(self, address: str) -> Iterator[tuple[str, bytes]]:
        """The answer, or a note why there is none."""
        try:
            yield address, self._contract.json(address)
        except LmEvalError as error:
            self.notes.append(str(error))

    def _result(self, run: AnyRun, key: str) -> Iterator[tuple[str, bytes]]:
        yield from self._known(f"columns/{run.id}/{key}")
        if run.is_foreign:
            yield from self._judged(run, key)
        try:
            yield from self._texts(run, key)
            yield from self._samples(run, key)
        except LmEvalError as error:  # scores and states are there all the same
            self.notes.append(f"prompts and replies, because {error}")

    def _judged(self, run: AnyRun, key: str) -> Iterator[tuple[str, bytes]]:
        if hasattr(getattr(run, "stored", None), "judged"):
            yield from self._known(f"judge/{run.id}/{key}")

    def _texts(self, run: AnyRun, key: str) -> Iterator[tuple[str, bytes]]:
        """First words, chunk by chunk; an unfinished run is done with what it has now."""
        start, is_done = 0, False
        while not is_done:
            address = f"texts/{run.id}/{key}/{start}"
            answer = self._contract.answer(address)
            is_done = answer["done"] = answer["next"] - start < CHUNK
            yield address, encoded(answer)
            start = answer["next"]

    def _samples(self, run: AnyRun, key: str) -> Iterator[tuple[str, bytes]]:
        """Blocks of 256 samples, or fewer if they are very long."""
        source = run.source(run.name_of(key))
        starts = self.blocks[f"{run.id}/{key}"] = []
        block: list[bytes] = []
        size = first = 0
        for line, sample in enumerate(self._contract.whole(run.id, key, 0, source.count())):
            block.append(encoded(sample))
            size += len(block[-1])
            if len(block) == BLOCK_SAMPLES or size > BLOCK_BYTES:
                starts.append(first)
                yield f"samples/{run.id}/{key}/{first}", _listed(block)
                block, size, first = [], 0, line + 1
        if block or not starts:
            starts.append(first)
            yield f"samples/{run.id}/{key}/{first}", _listed(block)

    def _compared(self) -> Iterator[tuple[str, ...]]:
        finished = [run.id for run in self._runs if not run.is_live]
        yield from ((one,) for one in finished)
        if 1 < len(finished) <= PAIRED_RUNS:
            yield from combinations(finished, 2)
        if len(finished) > 2:
            yield tuple(finished)


def _listed(samples: list[bytes]) -> bytes:
    return b"[" + b",".join(samples) + b"]"


def export(catalogue: Catalogue, target: Path) -> Exported:
    """Write the runs to ``target``: one file if its name ends in ``.html``, else a folder."""
    if target.suffix.lower() in (".html", ".htm"):
        return _one_file(catalogue, target)
    return _folder(catalogue, target)


def _one_file(catalogue: Catalogue, target: Path) -> Exported:
    _check_size(catalogue, target)
    answers = _Answers(catalogue)
    data = {address: _packed(content) for address, content in answers}
    page = _page(answers.blocks, {"lm-eval-data": data})
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, page.decode())
    except OSError as error:
        raise _not_written(target, error) from None
    return Exported(target, 1, len(page), tuple(answers.notes))


def _check_size(catalogue: Catalogue, target: Path) -> None:
    size = sum(_sample_bytes(run) for run in catalogue.runs.values())
    if size > ONE_FILE_BYTES:
        raise UsageError(
            f"These runs have {size / 1e6:,.0f} MB of samples, and one file holds at most "
            f"{ONE_FILE_BYTES / 1e6:.0f} MB. Export a folder, which opens from a disk as well: "
            f"--export {target.with_suffix('')}/; or give the results file of one run."
        )


def _sample_bytes(run: AnyRun) -> int:
    total = 0
    for name in run.names:
        try:
            source = run.source(name)
            total += getattr(source, "path", run.path).stat().st_size
        except (LmEvalError, OSError):  # samples that are gone take no space
            continue
    return total


def _folder(catalogue: Catalogue, target: Path) -> Exported:
    data = target / DATA
    if target.exists() and not _is_ours(target):
        raise UsageError(
            f"{str(target)!r} exists and is not an export of `lm-eval view`. Give a new folder, or a "
            "file that ends in .html."
        )
    answers = _Answers(catalogue)
    count = size = 0
    try:
        data.mkdir(parents=True, exist_ok=True)
        for old in data.iterdir():
            old.unlink()
        for address, content in answers:
            name = address.replace("/", "_").replace("+", "-")
            script = f'{_CALL}{name}","{_packed(content)}")\n'
            (data / f"{name}.js").write_text(script, encoding="ascii")
            count, size = count + 1, size + len(script)
        page = _page(answers.blocks, {"lm-eval-folder": {}}, scripts=" 'self' file:")
        write_whole(target / INDEX, page.decode())
    except OSError as error:
        raise _not_written(target, error) from None
    return Exported(target / INDEX, count + 1, size + len(page), tuple(answers.notes))


def _is_ours(target: Path) -> bool:
    """Whether a folder is empty, or holds an earlier export and nothing else."""
    entries = list(target.iterdir()) if target.is_dir() else [target]
    return all(
        not entry.is_symlink()
        and (
            (entry.name == DATA and all(_begins(file, _CALL) for file in entry.glob("*")))
            or (entry.name == INDEX and 'id="lm-eval-folder"' in entry.read_text("utf-8", "ignore"))
        )
        for entry in entries
    )


def _begins(file: Path, start: str) -> bool:
    """Whether it is a file, not a link to one, that begins with this text."""
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(start)) == start.encode()


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _page(blocks: dict[str, list[int]], data: dict[str, Any], scripts: str = "") -> bytes:
    """The application with what it needs to know about the files around it."""
    app = app_html()
    policy = policy_of(app, scripts=scripts)
    values = {"lm-eval-blocks": blocks, **data}
    inserted = "".join(
        f'<script type="application/json" id="{name}">{_inert(value)}</script>'
        for name, value in values.items()
    )
    return with_policy(app.replace(_PLACE, inserted.encode() + _PLACE, 1), policy)


def _inert(value: Any) -> str:
    """JSON that cannot end the element it is in."""
    return to_json(value).replace("<", "\\u003c")


def _not_written(target: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{error.filename or target} cannot be written: {error.strerror}. Choose a place that you can "
        "write to."
    )
