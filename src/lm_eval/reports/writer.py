"""Writes the files of a run: one results JSON, and one samples JSONL for each task × format.

``ResultWriter`` finds out before the run whether it can write, and a file gets its final name only once
it is complete. ``results_file`` makes the content of the results file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from lm_eval.errors import OutputError
from lm_eval.scoring.results import order_of
from lm_eval.support.encode import sample_hashes
from lm_eval.support.files import (
    PARTIAL,
    open_held,
    publish,
    remove_abandoned,
    safe_model_name,
    unique_name,
    write_whole,
)
from lm_eval.support.secrets import known_secrets
from lm_eval.support.terminal import visible

_DIGESTS = 96  # bytes of the three SHA-256 digests of a sample
_DIGESTS_HELD = 2**21

_ADVICE = {
    errno.EEXIST: "There is a file where a folder is needed: choose another --output_path.",
    errno.ENOTDIR: "There is a file where a folder is needed: choose another --output_path.",
    errno.ENOSPC: "Free some space, or choose another disk with --output_path.",
    errno.EDQUOT: "Free some space, or choose another disk with --output_path.",
    errno.ENAMETOOLONG: "Choose a shorter --output_path.",
}
_OTHER_ADVICE = "Choose a folder that you can write to with --output_path."


class ResultWriter:
    """Writes the files of one run.

    The constructor creates the folder and checks that it can be written to, so call it before any
    model work. Samples are appended to ``….jsonl.partial`` as they come; ``finish`` puts them in
    the order of their docs, gives all files their final names, and returns the path of the results.
    A run that dies leaves its ``.partial`` files, with complete lines, until another run ends.
    """

    def __init__(
        self, output_path: str | Path, model_name: str, *, now: datetime | None = None
    ) -> None:
        time = (now or datetime.now()).isoformat(timespec="microseconds").replace(":", "-")
        path = Path(output_path).expanduser()
        self._secrets = known_secrets()
        self.time = time
        """The time in the names of this run's files."""
        with _explained(path):
            if path.suffix == ".json" and not path.is_dir():
                self.folder = path.parent
                self.results_path = path
                _check_replaceable(path)
            else:
                self.folder = path / safe_model_name(self._secrets.hide(model_name))
                self.results_path = self.folder / f"results_{time}.json"
            _check_writable(self.folder)
        self._files: dict[str, _SamplesFile] = {}
        self._stems: dict[str, str] = {}

    def add_sample(self, name: str, sample: Mapping[str, Any]) -> None:
        """Append one sample of the result ``name``, and flush it."""
        if name not in self._files:
            with _explained(self.folder):
                self._files[name] = _SamplesFile(self.samples_path(name))
        line = self._secrets.to_json(sample)
        with _explained(self.folder):
            self._files[name].append(sample, line)

    def samples_path(self, name: str) -> Path:
        """The samples file of the result ``name``."""
        if name not in self._stems:
            self._stems[name] = unique_name(name, self._stems.values())
        return self.folder / f"samples_{self._stems[name]}_{self.time}.jsonl"

    def task_hashes(self) -> dict[str, str]:
        """Result name → hash over the samples written so far, in the order of their docs."""
        return {name: file.task_hash() for name, file in self._files.items()}

    def finish(self, results: Mapping[str, Any], items: Mapping[str, Any] | None = None) -> Path:
        """Give the samples files their final names and write the results file.

        ``items`` are the run's scores item by item, for a separate file.
        """
        named = {name: file.path.name for name, file in self._files.items()}
        content = {**results, "samples_files": named} if named else dict(results)
        if items is not None:
            content["items_file"] = self._items_path.name
        text = self._secrets.to_json(content, indent=2) + "\n"
        with _explained(self.folder):
            for file in self._files.values():
                file.finish()
            if items is not None:
                write_whole(self._items_path, self._secrets.to_json(items) + "\n")
            write_whole(self.results_path, text)
        remove_abandoned(self.folder)
        return self.results_path

    def finish_samples(self, name: str) -> None:
        """Give one samples file its final name, if the results are written separately."""
        with _explained(self.folder):
            self._files[name].finish()

    @property
    def _items_path(self) -> Path:
        return self.folder / f"items_{self.time}.json"

    def close(self) -> None:
        """Close open files. What ``finish`` did not reach stays under its ``.partial`` name."""
        for file in self._files.values():
            file.close()

    def __enter__(self) -> ResultWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _SamplesFile:
    """A samples file being written: lines under a partial name, sorted and renamed at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(path.name + PARTIAL)
        self._file: IO[bytes] = open_held(self._partial, "wb")
        # A sample is a few numbers here and three digests, in a file if there are many: no objects.
        self._doc_ids = array("q")
        self._ends = array("q", [0])
        self._digests = tempfile.SpooledTemporaryFile(  # noqa: SIM115 (closed in ``close``)
            _DIGESTS_HELD, dir=str(path.parent)
        )
        self._other_hashes: dict[int, str] = {}
        self._hash: str | None = None

    def append(self, sample: Mapping[str, Any], text: str) -> None:
        line = text.encode("utf-8") + b"\n"
        self._file.write(line)
        self._file.flush()
        self._add_hashes(sample_hashes(sample))
        doc_id = sample.get("doc_id")
        self._doc_ids.append(doc_id if isinstance(doc_id, int) else len(self._doc_ids))
        self._ends.append(self._ends[-1] + len(line))
        self._hash = None

    def _add_hashes(self, hashes: str) -> None:
        packed = _packed(hashes)
        if packed is None:
            self._other_hashes[len(self._doc_ids)] = hashes
        self._digests.write(packed or bytes(_DIGESTS))

    def task_hash(self) -> str:
        """The hash over all samples so far, in the order of their docs."""
        if self._hash is None:
            self._hash = self._task_hash()
        return self._hash

    def _task_hash(self) -> str:
        digest = hashlib.sha256()
        for at in self._in_order():
            self._digests.seek(at * _DIGESTS)
            known = self._digests.read(_DIGESTS).hex()
            text = self._other_hashes.get(at, known)
            digest.update(text.encode("utf-8", "surrogatepass"))
        self._digests.seek(0, os.SEEK_END)
        return digest.hexdigest()

    def finish(self) -> None:
        if self._file.closed:
            return
        self.task_hash()  # while its digests are still there
        ordered = self._in_order()
        if isinstance(ordered, range):
            publish(self._file, self._partial, self.path)
        else:
            self._write_sorted(ordered)
        self.close()

    def close(self) -> None:
        for file in (self._file, self._digests):
            with suppress(OSError):
                file.close()

    def _in_order(self) -> Sequence[int]:
        """The lines in the order of their docs; a range if the file already has that order."""
        return order_of(self._doc_ids)

    def _write_sorted(self, ordered: Sequence[int]) -> None:
        """Write the lines by doc, so that answers in any order give the same file."""
        partial = self.path.with_name(self.path.name + ".sorted" + PARTIAL)
        with self._partial.open("rb") as source, open_held(partial, "wb") as target:
            for at in ordered:
                source.seek(self._ends[at])
                target.write(source.read(self._ends[at + 1] - self._ends[at]))
            publish(target, partial, self.path)
        self._file.close()
        with suppress(OSError):
            self._partial.unlink()


def _packed(hashes: str) -> bytes | None:
    """The digests of a sample in half the space; None if the text is something else."""
    try:
        packed = bytes.fromhex(hashes)
    except ValueError:
        return None
    return packed if len(packed) == _DIGESTS and packed.hex() == hashes else None


def _check_writable(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b" " * 4096)
        probe.flush()


_RESULTS_START = re.compile(rb"\s*\{\s*\"results\"\s*:")


def is_results_file(path: Path) -> bool:
    """Whether a file begins as results files do, whatever it is called."""
    try:
        with path.open("rb") as file:
            return _RESULTS_START.match(file.read(64)) is not None
    except OSError:
        return False


def _check_replaceable(path: Path) -> None:
    """Refuse to write results over a file that holds something else."""
    if path.is_file() and path.stat().st_size and not is_results_file(path):
        raise OutputError(
            f"{visible(str(path))!r} exists and is not a results file, so it is not replaced. Choose "
            "another name, or a folder, with --output_path."
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the system's error into one message that says what to do next."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        code = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(code) if code is not None else str(error)
        advice = _ADVICE.get(code or 0, _OTHER_ADVICE)
        raise OutputError(
            f"Cannot write results to {visible(str(path))!r}: {reason}. {advice}"
        ) from error


@contextmanager
def opened_writer(output_path: str, model_name: str) -> Iterator[ResultWriter]:
    """The writer of a run's files; a run that fails at once leaves no empty folder."""
    path = Path(output_path).expanduser()
    existing = {folder for folder in (path, *path.parents) if os.path.exists(folder)}
    with ResultWriter(path, model_name) as writer:
        try:
            yield writer
        except BaseException:
            with suppress(OSError):  # a folder with files in it stays
                for folder in (writer.folder, *writer.folder.parents):
                    if folder not in existing:
                        folder.rmdir()
            raise
