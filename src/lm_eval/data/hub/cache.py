"""The cache of data sets on this disk: complete files by commit, checked against the hub's digests.

The folders are those of the hub's own tools (``datasets--owner--name/snapshots/COMMIT/…``, blobs by
digest, refs), so that each can use what the other has downloaded. In addition, ``lm-eval/COMMIT.json``
lists the files of a commit, from which the splits of a data set are known without a network.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO

from lm_eval.config.budget import max_data_bytes
from lm_eval.data.hub.client import (
    HubClient,
    HubRefusalError,
    HubReply,
    UnreachableHubError,
    retried,
)
from lm_eval.errors import DataError
from lm_eval.text.files import rename, sync, write_whole
from lm_eval.text.progress import Progress

SHA = re.compile(r"[0-9a-f]{40}")
REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[\w.-]+(?:/[\w.-]+)*", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LISTS = "lm-eval"
_BLOCK = 2**20
_WAIT_SAID_S = 5.0


@dataclass(frozen=True)
class RepoFile:
    """A file of a data set at one commit, as the hub lists it."""

    path: str
    size: int | None = None
    sha256: str | None = None
    """Of large files."""
    git_sha1: str | None = None
    """Of the others: the digest that git gives to a file."""

    @property
    def digest(self) -> str | None:
        """The digest that the content must have; also the name of the blob."""
        return self.sha256 or self.git_sha1


def checked_path(path: object, repo_id: str) -> str:
    """A path inside a data set; a path that leads out of it is refused."""
    parts = path.split("/") if isinstance(path, str) else [""]
    leads_out = any(part in ("", ".", "..") for part in parts) or (
        os.name == "nt" and ":" in str(path)
    )
    if leads_out or re.search(r"[\\\x00-\x1f\x7f]", str(path)) or len(str(path)) > 1000:
        raise DataError(
            f"The data set {repo_id!r} lists a file {str(path)[:80]!r}, which is not a path inside it. "
            "Nothing is fetched from it."
        )
    return str(path)


def checked_name(repo_id: str) -> str:
    """A name on the hub: ``owner/name``, or a single word for old data sets."""
    if not REPO_ID.fullmatch(repo_id) or ".." in repo_id or "--" in repo_id:
        raise DataError(
            f"dataset_path {repo_id!r} is not a local file or folder, and not a name on the hub, which "
            "looks like `owner/name`. Correct it."
        )
    return repo_id


def checked_revision(revision: str) -> str:
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise DataError(
            f"dataset_revision {revision!r} is not a commit, branch or tag. Give one, such as `main` or "
            "the 40 digits of a commit."
        )
    return revision


class RepoFolder:
    """One data set in a cache or in a folder of ``lm-eval fetch --to``."""

    def __init__(self, cache: Path, repo_id: str, *, is_copy: bool = False) -> None:
        self.cache = cache
        self.repo_id = repo_id
        self.is_copy = is_copy
        name = f"datasets--{repo_id.replace('/', '--')}"
        self.folder = cache / name
        self._locks = cache / ".locks" / name

    # What is known about the data set

    def commit_of(self, revision: str) -> str | None:
        """The commit of a revision when it was last asked for."""
        if SHA.fullmatch(revision):
            return revision if self._has(revision) else None
        commit = _text(self.folder / "refs" / revision).strip()
        return commit if SHA.fullmatch(commit) and self._has(commit) else None

    def _has(self, commit: str) -> bool:
        return self._list_of(commit).is_file() or (self.folder / "snapshots" / commit).is_dir()

    def remember(self, revision: str, commit: str) -> None:
        if not SHA.fullmatch(revision):
            self._note(self.folder / "refs" / revision, commit)

    @property
    def moved_to(self) -> str | None:
        """The new name of the data set, if it was renamed."""
        name = _text(self.folder / _LISTS / "moved-to").strip()
        return name if REPO_ID.fullmatch(name) and name != self.repo_id else None

    def remember_move(self, name: str) -> None:
        self._note(self.folder / _LISTS / "moved-to", name)

    def files_at(self, commit: str) -> list[RepoFile] | None:
        """The files of a commit as the hub listed them; None if it was never asked."""
        try:
            listed = json.loads(_text(self._list_of(commit)) or "null")
            files = None if listed is None else [RepoFile(**entry) for entry in listed["files"]]
        except (ValueError, TypeError, KeyError):
            return None
        for file in files or ():
            checked_path(file.path, self.repo_id)
            if file.digest is not None and not _DIGEST.fullmatch(file.digest):
                return None  # it would be the name of a file
        return files

    def remember_files(self, commit: str, files: list[RepoFile]) -> None:
        listed = {"id": self.repo_id, "commit": commit, "files": [asdict(file) for file in files]}
        self._note(self._list_of(commit), json.dumps(listed, indent=0))

    def files_found(self, commit: str) -> list[RepoFile]:
        """The files of a commit that are here; it may have others."""
        base = self.folder / "snapshots" / commit
        paths = sorted(path for path in base.rglob("*") if path.is_file())
        return [RepoFile(path.relative_to(base).as_posix(), path.stat().st_size) for path in paths]

    def _list_of(self, commit: str) -> Path:
        return self.folder / _LISTS / f"{commit}.json"

    def _note(self, path: Path, text: str) -> None:
        """Save something for next time, if the cache can be written to."""
        with suppress(OSError):
            if _text(path) != text:
                self._make(path.parent)
                write_whole(path, text)
                _set_mode(path)

    # Files

    def path_at(self, commit: str, file: RepoFile) -> Path:
        """Where a file is, or would be."""
        return self.folder / "snapshots" / commit / file.path

    def blob_of(self, file: RepoFile) -> Path | None:
        """Where the content of a file is stored for all commits; None in a portable folder."""
        return None if self.is_copy or not file.digest else self.folder / "blobs" / file.digest

    def add(self, commit: str, file: RepoFile, fill: Callable[[Path], None]) -> Path:
        """The file, filled by ``fill`` if it is missing; only one process fills it at a time.

        ``fill`` gets a path to write to, which may contain the beginning from an earlier attempt.
        """
        path, blob = self.path_at(commit, file), self.blob_of(file)
        try:
            with self._locked(file):
                if not path.is_file():
                    target = path if blob is None else blob
                    if blob is None or not blob.is_file():
                        self._make(target.parent)
                        partial = target.with_name(f"{target.name}.incomplete")
                        fill(partial)
                        _set_mode(partial)
                        rename(partial, target)
                    if blob is not None:
                        self._link(blob, path)
        except OSError as error:
            raise self.unwritable(error, file.size) from None
        return path

    def remove(self, commit: str, file: RepoFile) -> None:
        """Remove a file whose content is not what it should be."""
        path, blob = self.path_at(commit, file), self.blob_of(file)
        for wrong in (path, blob):
            if wrong is not None:
                with suppress(OSError):
                    wrong.unlink()

    def unwritable(self, error: OSError, size: int | None) -> DataError:
        """The error for a folder that cannot be written to."""
        other = "choose another folder" + ("" if self.is_copy else " with HF_HOME")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            needed = f"The next file has {megabytes(size)}. " if size is not None else ""
            return DataError(
                f"The disk is full: {self.cache} cannot hold {self.repo_id!r}. {needed}Make room and "
                f"run the command again, which goes on where this one stopped, or {other}."
            )
        return DataError(
            f"{self.cache} cannot hold {self.repo_id!r}: {error.strerror or error}. Change that, or "
            f"{other}."
        )

    def check_room(self, size: int) -> None:
        """Raise if the disk has too little room."""
        with suppress(OSError):
            if shutil.disk_usage(_existing(self.cache)).free < size:
                raise self.unwritable(OSError(errno.ENOSPC, "full"), size)

    @contextmanager
    def _locked(self, file: RepoFile) -> Iterator[None]:
        """Hold the lock of one content, which the hub's own tools use too."""
        name = file.digest or hashlib.sha256(file.path.encode()).hexdigest()
        self._make(self._locks)
        with (self._locks / f"{name}.lock").open("ab") as lock:
            _wait_for(lock, file.path)
            yield

    def _make(self, folder: Path) -> None:
        """Create a folder: a new cache is private to the user; in a shared cache, folders are shared."""
        for path in reversed([self.cache, *self.cache.parents]):
            if not path.exists():
                with suppress(FileExistsError):  # another process has just made it
                    path.mkdir(mode=0o700)
        mode = self.cache.stat().st_mode & 0o777
        inside = [folder, *folder.parents]
        for path in reversed(inside[: inside.index(self.cache)]):
            if not path.is_dir():
                with suppress(FileExistsError):
                    path.mkdir(mode=mode)
                    path.chmod(mode)

    def _link(self, blob: Path, path: Path) -> None:
        """Link a snapshot's path to its content, or copy it if links are not possible."""
        self._make(path.parent)
        with suppress(FileNotFoundError):
            path.unlink()  # a link that leads nowhere
        try:
            path.symlink_to(os.path.relpath(blob, path.parent))
        except OSError:
            shutil.copyfile(blob, path)


def _set_mode(path: Path) -> None:
    with suppress(OSError):
        path.chmod(path.parent.stat().st_mode & 0o666)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _wait_for(lock: IO[bytes], path: str) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two downloads at once are possible, each is checked
        return
    said_at = time.monotonic() + _WAIT_SAID_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > said_at:
                import logging

                said_at = float("inf")
                logging.getLogger(__name__).warning(
                    "Waiting for another process that is fetching %s.", path
                )
            time.sleep(0.1)
        except OSError:  # a file system without locks
            return


def digests_of(path: Path) -> tuple[str, str]:
    """The SHA-256 of a file, and its SHA-1 in git."""
    sha256 = hashlib.sha256()
    git = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            git.update(block)
    return sha256.hexdigest(), git.hexdigest()


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


# Downloads: resumed where they broke off, limited in size, and checked


_PIECE = 2**18


def download(
    client: HubClient, name: str, address: str, file: RepoFile, path: Path, bar: Progress
) -> None:
    """Download the content at ``address`` to ``path``, which may contain its beginning.

    ``name`` is the name of the file in messages. Content that differs from what the hub lists is fetched
    once more, then refused.
    """
    problem = None
    if path.exists():
        bar.found(path.stat().st_size)
    for _ in range(2):
        retried(partial(_transfer, client, name, address, file, path, bar))
        problem = checked(path, file)[1]
        if problem is None:
            return
        path.unlink()
    raise DataError(
        f"{name}, as {client.settings.endpoint} sends it, {problem}, twice. Something on the way "
        "changes it, or the hub has it wrong: try another network or HF_ENDPOINT."
    )


def checked(path: Path, file: RepoFile) -> tuple[str, str | None]:
    """The SHA-256 of a file, and what is wrong with its content, or None."""
    sha256, git_sha1 = digests_of(path)
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return sha256, f"has {size:,} bytes instead of {file.size:,}"
    if file.digest is not None and file.digest not in (sha256, git_sha1):
        wrong = sha256 if file.sha256 else git_sha1
        return sha256, f"has the checksum {wrong[:12]}… instead of {file.digest[:12]}…"
    return sha256, None


def _transfer(
    client: HubClient, name: str, address: str, file: RepoFile, path: Path, bar: Progress
) -> None:
    """Append one answer of the hub to what is there already."""
    begun = path.stat().st_size if path.exists() else 0
    if file.size is not None and begun == file.size > 0:
        return
    if file.size is not None and begun > file.size:
        begun = 0
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    try:
        with client.opened(address, headers) as reply:
            if reply.status != 206 or not _starts_at(reply, begun):
                begun = 0
            expected = file.size if file.size is not None else begun + (reply.length or 0)
            written = _append(reply, name, path, begun, file.size, bar)
    except HubRefusalError as refusal:
        if refusal.status != 416:
            raise
        path.unlink()  # what is there is not the beginning of this file
        raise UnreachableHubError("the beginning of the file does not fit") from None
    if written < expected:
        raise UnreachableHubError("the transfer was cut off")


def _append(
    reply: HubReply, name: str, path: Path, begun: int, size: int | None, bar: Progress
) -> int:
    """Write the body of an answer from ``begun`` on; returns the new length of the file."""
    most = max_data_bytes() if size is None else size
    with path.open("ab" if begun else "wb") as sink:
        while block := reply.read(_PIECE):
            begun += len(block)
            if begun > most:
                raise DataError(f"{name} is longer than the hub says. Nothing more is read of it.")
            sink.write(block)
            bar.advance(len(block))
        sync(sink)
    return begun


def _starts_at(reply: HubReply, begun: int) -> bool:
    return reply.headers.get("content-range", "").startswith(f"bytes {begun}-")
