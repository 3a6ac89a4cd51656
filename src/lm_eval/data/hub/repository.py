"""One data set of the hub at one commit: its files, listed and fetched with ``huggingface_hub``.

Files are in the cache of the hub's own tools, or as plain files in a folder of ``lm-eval fetch --to``.
``lm-eval/COMMIT.json`` beside them lists all files of a commit, so that splits are known offline.

The hub is asked for the current commit of a branch once per run. If it does not answer, the last known
commit is used, with a warning; if there is none, an error says what can be done.
"""

from __future__ import annotations

import concurrent.futures
import errno
import hashlib
import json
import re
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lm_eval.config.limits import MAX_DATA_VARIABLE, max_data_bytes
from lm_eval.data.hub.settings import RUNS, HubSettings
from lm_eval.errors import (
    DataError,
    LmEvalWarning,
    MissingExtraError,
    NotFetchedError,
    did_you_mean,
    listing,
)
from lm_eval.support.files import write_whole
from lm_eval.support.progress import Progress

T = TypeVar("T")

SILENCE_S = 60.0
"""How long the hub may take for an answer, or for the next piece of a file."""
_PIECE = 2**18
_PAUSES_S = (0.5, 1.0, 2.0)
_SHA = re.compile(r"[0-9a-f]{40}")
_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_MAX_README_BYTES = 8 * 2**20
_LISTS = "lm-eval"


class UnreachableHubError(Exception):
    """There was no usable answer; the message says why."""


class MissingRevisionError(DataError):
    """The data set has no such revision."""


@dataclass(frozen=True)
class RepoFile:
    """A file of a data set at one commit, as the hub lists it."""

    path: str
    size: int | None = None
    sha256: str | None = None
    """Of large files."""
    git_sha1: str | None = None
    """Of the others: the digest that git gives to a file."""


@dataclass(frozen=True)
class FetchedFile:
    """A complete file on this machine, with the digest of its content."""

    file: RepoFile
    path: Path
    sha256: str


class HubRun:
    """What one run knows about a hub: each name keeps its commit, and a dead host is not asked again."""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings
        self.began_at = time.monotonic()
        self.down: str | None = settings.offline
        """Why the hub is not asked, or no longer; None if it is."""
        self._opened: dict[tuple[str, str], HubRepo] = {}

    def repo(self, repo_id: str, revision: str) -> HubRepo:
        """A data set at a revision. Raises ``DataError`` if it is not available."""
        key = (repo_id, revision)
        if key not in self._opened:
            self._opened[key] = HubRepo.open(self, _checked_name(repo_id), revision)
        return self._opened[key]


_RUN_S = 900.0
"""How long a run lasts in a program that does not say when its runs begin."""


def hub_run(settings: HubSettings) -> HubRun:
    """The run that these settings belong to."""
    run: HubRun | None = RUNS.get(settings)
    if run is None or time.monotonic() - run.began_at > _RUN_S:
        run = RUNS[settings] = HubRun(settings)
    return run


class HubRepo:
    """A data set at one commit."""

    def __init__(self, run: HubRun, name: str, revision: str, commit: str) -> None:
        self.run = run
        self.id = name
        """Its name on the hub, which may be newer than the one that was asked for."""
        self.revision = revision
        self.commit = commit
        self.files: dict[str, RepoFile] = {}
        self._asked_id = name
        self._fetched_files: dict[str, tuple[int, FetchedFile]] = {}
        """Path → when the file was last changed, and the file as it was checked."""

    @classmethod
    def open(cls, run: HubRun, repo_id: str, revision: str) -> HubRepo:
        repo = cls(run, repo_id, revision, revision)
        if _SHA.fullmatch(revision) and repo._read_list():
            return repo  # a commit never changes
        if run.down is None:
            try:
                repo._ask()
                return repo
            except UnreachableHubError as error:
                run.down = f"{run.settings.endpoint} is not available: {error}"
        repo._remember()
        return repo

    @property
    def paths(self) -> list[str]:
        return list(self.files)

    def __str__(self) -> str:
        return f"The data set {self.id!r}"

    def readme(self) -> str:
        """The README, which may say which files belong to which split; empty without one."""
        file = self.files.get("README.md")
        if file is None or (file.size or 0) > _MAX_README_BYTES:
            return ""
        fetched = self.fetch([file], "README.md", Progress("README.md", None, enabled=False))[0]
        return fetched.path.read_text(encoding="utf-8", errors="replace")

    def is_here(self, file: RepoFile) -> bool:
        """Whether a file need not be fetched."""
        return self._path_of(file).is_file()

    # What is known about the data set

    def _ask(self) -> None:
        """Take the commit and its files from the hub, and note them for next time."""
        hub = _library(self.id)
        try:
            api = hub.HfApi(endpoint=self.run.settings.endpoint)
            facts = _answer(
                partial(api.dataset_info, self.id, revision=self.revision, files_metadata=True)
            )
        except hub.errors.HfHubHTTPError as refusal:
            is_revision = isinstance(refusal, hub.errors.RevisionNotFoundError)
            kind = MissingRevisionError if is_revision else DataError
            raise kind(self._refused(refusal)) from None
        self.commit = facts.sha
        self._name(_checked_name(facts.id))
        self.files = {
            entry.rfilename: RepoFile(
                _checked_path(entry.rfilename, self.id),
                entry.size,
                *((entry.lfs.sha256, None) if entry.lfs else (None, entry.blob_id)),
            )
            for entry in facts.siblings or ()
        }
        listed = {"id": self.id, "files": [asdict(file) for file in self.files.values()]}
        self._note(self._list, json.dumps(listed, indent=0))
        if not _SHA.fullmatch(self.revision):
            self._note(self._ref, self.commit)

    def _name(self, name: str) -> None:
        if name != self.id and "/" in self.id:
            warnings.warn(
                f"The data set {self.id!r} is called {name!r} on the hub now. Write `dataset_path: "
                f"{name}`.",
                LmEvalWarning,
                stacklevel=2,
            )
        self.id = name

    def _remember(self) -> None:
        """Take the commit and its files as they were when the hub was last asked."""
        settings = self.run.settings
        if settings.copies_from is not None and not self._ref.is_file():
            with suppress(OSError, DataError):
                self._copy_facts(settings.copies_from)
        if not _SHA.fullmatch(self.revision):
            self.commit = _text(self._ref).strip()
        has_list = self._read_list()
        snapshot = self._folder / "snapshots" / self.commit
        if not _SHA.fullmatch(self.commit) or not (has_list or snapshot.is_dir()):
            raise NotFetchedError(self._nothing_here())
        if settings.offline is None:
            warnings.warn(
                f"{self.run.down}. Using {self.id} as it was when it was last fetched (commit "
                f"{self.commit[:12]}).",
                LmEvalWarning,
                stacklevel=2,
            )
        if not has_list:
            warnings.warn(
                f"The list of files of {self.id} at commit {self.commit[:12]} is not in "
                f"{settings.cache}, so its splits are taken to be what is there. Where there is a "
                "network, `lm-eval fetch` completes it.",
                LmEvalWarning,
                stacklevel=2,
            )
            paths = sorted(path for path in snapshot.rglob("*") if path.is_file())
            found = [RepoFile(p.relative_to(snapshot).as_posix(), p.stat().st_size) for p in paths]
            self.files = {file.path: file for file in found}

    def _copy_facts(self, cache: Path) -> None:
        """Copy the ref and the list of files from another folder that has them."""
        here = self.run.settings.cache
        if not _SHA.fullmatch(self.revision):
            self.commit = _text(cache / self._ref.relative_to(here)).strip()
            self._note(self._ref, self.commit)
        self._note(self._list, (cache / self._list.relative_to(here)).read_text(encoding="utf-8"))

    def _read_list(self) -> bool:
        """Take the files of the commit from the list beside them; whether there is one."""
        try:
            listed = json.loads(_text(self._list))
            files = [RepoFile(**entry) for entry in listed["files"]]
            self.id = str(listed["id"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        self.files = {_checked_path(file.path, self.id): file for file in files}
        return True

    @property
    def _folder(self) -> Path:
        return self.run.settings.cache / f"datasets--{self._asked_id.replace('/', '--')}"

    @property
    def _ref(self) -> Path:
        return self._folder / "refs" / self.revision

    @property
    def _list(self) -> Path:
        return self._folder / _LISTS / f"{self.commit}.json"

    def _path_of(self, file: RepoFile) -> Path:
        return self._folder / "snapshots" / self.commit / file.path

    def _note(self, path: Path, text: str) -> None:
        """Save something for next time, if the cache can be written to."""
        with suppress(OSError):
            if _text(path) != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, text)

    # Files

    def fetch(
        self, files: Sequence[RepoFile], what: str, bar: Progress | None = None
    ) -> list[FetchedFile]:
        """The files, fetched if they are not here yet, each checked against its digest.

        ``bar`` shows the bytes; by default a new one, called ``what``.
        """
        for file in files:
            if (file.size or 0) > max_data_bytes():
                raise DataError(
                    f"{self}: {file.path} has {megabytes(file.size or 0)}, more than "
                    f"{MAX_DATA_VARIABLE} allows ({max_data_bytes() // 2**20:,}). Set it to the MB that "
                    "one data file may hold."
                )
        name = f"{self.id} {what}"
        if bar is not None:
            bar.describe(name)
            return [self._fetched(file, bar) for file in files]
        size = sum(file.size or 0 for file in files if not self.is_here(file))
        with Progress(name, size or None, enabled=size > 0, unit="bytes") as own_bar:
            return [self._fetched(file, own_bar) for file in files]

    def _fetched(self, file: RepoFile, bar: Progress) -> FetchedFile:
        path = self._path_of(file)
        changed_at, known = self._fetched_files.get(file.path, (None, None))
        if known is not None and path.is_file() and path.stat().st_mtime_ns == changed_at:
            return known
        was_here = self.is_here(file)
        if not was_here:
            self._fetch(file, bar)
        sha256, problem = _checked(path, file)
        if problem is not None and self.run.down is None:  # changed on the way, or damaged since
            self._fetch(file, bar, again=True)
            sha256, problem = _checked(path, file)
        if problem is not None:
            path.resolve().unlink(missing_ok=True)
            why = f"{self.run.down}. " if self.run.down else ""
            raise DataError(f"{self}: {file.path} {problem}. It was removed. {why}Fetch it again.")
        fetched = FetchedFile(file, path, sha256)
        self._fetched_files[file.path] = (path.stat().st_mtime_ns, fetched)
        return fetched

    def _fetch(self, file: RepoFile, bar: Progress, *, again: bool = False) -> None:
        """Get a file to its place: from the cache that has it, or from the hub."""
        settings, path = self.run.settings, self._path_of(file)
        try:
            if settings.copies_from is not None and not again:
                source = settings.copies_from / path.relative_to(settings.cache)
                if source.is_file():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, path)
                    bar.advance(file.size or 0)
                    return
            if self.run.down is not None:
                raise DataError(self._not_here(file))
            self._download(file, bar, again=again)
        except OSError as error:
            if error.errno is None:
                raise
            raise self._unwritable(error) from error

    def _download(self, file: RepoFile, bar: Progress, *, again: bool) -> None:
        hub, settings = _library(self.id), self.run.settings
        hub.constants.DOWNLOAD_CHUNK_SIZE = _PIECE  # its 10 MB would hide that a slow file moves
        pulse = _Pulse(f"{self}: {file.path}", file.size or max_data_bytes(), bar)
        call = partial(
            hub.hf_hub_download,
            self._asked_id,
            file.path,
            repo_type="dataset",
            revision=self.commit,
            endpoint=settings.endpoint,
            cache_dir=settings.copies_from or settings.cache,
            local_dir=self._folder / "snapshots" / self.commit if settings.is_copy else None,
            force_download=again,
            tqdm_class=pulse.bar_class(),
        )
        try:
            _answer(call, pulse)
        except UnreachableHubError as error:
            raise DataError(
                f"{self}: {file.path} cannot be fetched: {settings.endpoint} is not available: {error}. "
                "Try again."
            ) from None
        except hub.errors.HfHubHTTPError as refusal:
            raise DataError(self._refused(refusal)) from None

    # What is wrong

    def _unwritable(self, error: OSError) -> DataError:
        settings = self.run.settings
        what = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = "the disk is full. Make room"
        other = "choose another folder" + ("" if settings.is_copy else " with HF_HOME")
        return DataError(f"{settings.cache} cannot hold {self.id!r}: {what}, or {other}.")

    def _not_here(self, file: RepoFile) -> str:
        present = [file.path for file in self.files.values() if self.is_here(file)]
        return (
            f"{self}: {file.path} is not in {self.run.settings.cache}, and {self.run.down}. Files of it "
            f"there: {listing(present, 8)}. {_ELSEWHERE}"
        )

    def _nothing_here(self) -> str:
        cache = self.run.settings.cache
        of_it = sorted(path.name for path in (self._folder / "refs").glob("*"))
        cached = sorted(
            path.name.removeprefix("datasets--").replace("--", "/")
            for path in cache.glob("datasets--*")
        )
        there = f"Revisions of it there: {listing(of_it, 8)}." if of_it else ""
        there = there or f"Data sets there: {listing(cached, 8)}."
        return (
            f"The data set {self.id!r} ({self.revision}) is not in {cache}, and {self.run.down}. "
            f"{there} {_ELSEWHERE}"
        )

    def _refused(self, refusal: Any) -> str:
        """What the hub's refusal means, and what can be done."""
        hub = _library(self.id)
        endpoint, has_token = self.run.settings.endpoint, hub.get_token() is not None
        status = refusal.response.status_code
        if isinstance(refusal, hub.errors.GatedRepoError):
            page = f"{endpoint}/datasets/{self.id}"
            if has_token:
                return (
                    f"{self} is gated, and the owner of this machine's token has not been let in. Ask "
                    f"for access at {page}, logged in as that user."
                )
            return (
                f"{self} is gated: its owners want to know who uses it. Accept their conditions at "
                f"{page}, make a token at {endpoint}/settings/tokens, and set HF_TOKEN to it (or run "
                "`hf auth login`)."
            )
        if isinstance(refusal, hub.errors.RevisionNotFoundError):
            there = self._revisions()
            return f"{self} has no revision {self.revision!r}.{there} Correct dataset_revision."
        if isinstance(refusal, hub.errors.RepositoryNotFoundError) or status == 404:
            private = "" if has_token else ", or it is private and needs HF_TOKEN"
            return (
                f"There is no data set {self.id!r} at {endpoint}{private}.{self._near_names()} Search "
                f"for {self.id.rpartition('/')[2]!r} at {endpoint}/datasets. A local file or folder is "
                "written `dataset_path: ./file.jsonl`."
            )
        said = refusal.server_message or f"HTTP {status}"
        if status == 401:
            return (
                f"{endpoint} refuses this machine's token ({said}). Correct or unset HF_TOKEN, or log "
                "in again with `hf auth login`."
            )
        return f"{endpoint} refuses the data set {self.id!r}: HTTP {status}, {said}."

    def _near_names(self) -> str:
        """Similar names among what the hub finds for the last part of this one."""
        api = _library(self.id).HfApi(endpoint=self.run.settings.endpoint, token=False)
        owner, _, word = self.id.rpartition("/")
        names: list[str] = []
        with suppress(Exception):  # a hint is not worth an error
            for query in ({"search": word}, {"author": owner}):
                found = partial(api.list_datasets, **query, limit=100)
                names += [entry.id for entry in _answer(lambda found=found: [*found()])]  # type: ignore[misc]
        return did_you_mean(self.id, names)

    def _revisions(self) -> str:
        api = _library(self.id).HfApi(endpoint=self.run.settings.endpoint)
        names: list[str] = []
        with suppress(Exception):
            refs = _answer(partial(api.list_repo_refs, self.id, repo_type="dataset"))
            names = [ref.name for ref in (*refs.branches, *refs.tags)]
        return f"{did_you_mean(self.revision, names)} Revisions: {listing(names, 8)}."


_ELSEWHERE = (
    "Where there is a network, `lm-eval fetch TASKS --to DIR`; then copy DIR here and add "
    "`--data_path DIR`."
)


def _checked_name(repo_id: str) -> str:
    """A name on the hub: ``owner/name``, or a single word for old data sets."""
    if not _REPO_ID.fullmatch(repo_id) or ".." in repo_id or "--" in repo_id:
        raise DataError(
            f"dataset_path {repo_id!r} is not a local file or folder, and not a name on the hub, which "
            "looks like `owner/name`. Correct it."
        )
    return repo_id


def _checked_path(path: str, repo_id: str) -> str:
    """A path inside a data set; a path that leads out of it is refused."""
    if any(part in ("", ".", "..") for part in path.split("/")) or re.search(
        r"[\\\x00-\x1f]", path
    ):
        raise DataError(
            f"The data set {repo_id!r} lists a file {path[:80]!r}, which is not a path inside it. "
            "Nothing is fetched from it."
        )
    return path


def _checked(path: Path, file: RepoFile) -> tuple[str, str | None]:
    """The SHA-256 of a file, and what is wrong with its content, or None."""
    size = path.stat().st_size
    with path.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    if file.size is not None and size != file.size:
        return sha256, f"has {size:,} bytes instead of {file.size:,}"
    digest = sha256
    if file.git_sha1 is not None:
        start = b"blob %d\0" % size
        digest = hashlib.sha1(start + path.read_bytes(), usedforsecurity=False).hexdigest()
    expected = file.sha256 or file.git_sha1
    if expected not in (None, digest):
        return sha256, f"has the checksum {digest[:12]}… instead of {expected[:12]}…"
    return sha256, None


def megabytes(size: int) -> str:
    """``3.5 MB``, ``12 KB``."""
    if size < 10**6:
        return f"{max(1, round(size / 1000)) if size else 0:,} KB"
    return f"{size / 10**6:,.1f} MB" if size < 10**8 else f"{size / 10**6:,.0f} MB"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


# Calls to the hub


def _library(repo_id: str) -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise MissingExtraError(
            f"The data set {repo_id!r} is on the Hugging Face hub, which needs huggingface_hub; it is "
            "not installed.",
            install="pip install 'lm-eval-formats[hub]'",
        ) from None
    return huggingface_hub


class _Pulse:
    """When the transfer of a file last moved, how much of it may come, and the bar that shows it."""

    def __init__(self, what: str = "", most: int = 0, bar: Progress | None = None) -> None:
        self.at = time.monotonic()
        self._what, self._left, self._bar = what, most, bar

    def beat(self, size: float | None) -> None:
        self.at = time.monotonic()
        if self._bar is None or not size:
            return
        self._left -= int(size)
        if self._left < 0:
            raise DataError(
                f"{self._what} is longer than the hub says. Nothing more is read of it."
            )
        self._bar.advance(int(size))

    def bar_class(self) -> type:
        """What ``huggingface_hub`` is given instead of its own bar."""
        from huggingface_hub.utils import tqdm

        pulse = self

        class HiddenBar(tqdm):  # type: ignore[misc]
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **{**options, "disable": True})

            def update(self, n: float | None = 1) -> None:
                pulse.beat(n)

            def update_transfer(self, _: float) -> None:  # the same bytes on their way, with Xet
                pulse.beat(0)

        return HiddenBar


def _answer(call: Callable[[], T], pulse: _Pulse | None = None) -> T:
    """What a call to the hub returns; failures that may pass are tried again after a pause.

    Raises ``UnreachableHubError``, or what the library raises for a refusal.
    """
    for pause_s in (*_PAUSES_S, None):
        try:
            return _in_time(call, pulse or _Pulse())
        except Exception as raised:
            # The library wraps what went wrong into "not found in the cache".
            wrapped = raised.__cause__ if isinstance(raised, FileNotFoundError) else None
            error = wrapped or raised
            status = getattr(getattr(error, "response", None), "status_code", None)
            if isinstance(error, DataError) or getattr(error, "errno", None) is not None:
                raise
            if status is not None and status < 500 and status not in (408, 429):
                raise error from None
            if status is None or pause_s is None:
                why = f"it answers with HTTP {status}" if status else str(error)
                why = re.sub(r"^\[Errno -?\d+\] ", "", why) or type(error).__name__
                raise UnreachableHubError(why) from error
            time.sleep(pause_s)
    raise AssertionError("the last attempt returns or raises")


def _in_time(call: Callable[[], T], pulse: _Pulse) -> T:
    """What a call returns, unless the hub is silent for too long.

    It runs in a thread that is left to itself then: a server that sends a byte a second never meets the
    time-out of a socket.
    """
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    pulse.beat(0)
    threading.Thread(target=work, daemon=True, name="hub").start()
    while not future.done():
        left_s = pulse.at + SILENCE_S - time.monotonic()
        if left_s <= 0:
            raise UnreachableHubError(f"it has sent next to nothing for {SILENCE_S:.0f} s")
        concurrent.futures.wait([future], left_s)
    return future.result()
