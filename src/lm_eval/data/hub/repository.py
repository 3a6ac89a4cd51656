"""One data set of the hub at one commit: its name, commit and list of files, and the files themselves.

The hub is asked for the current commit of a branch once per run. If it does not answer, the last known
commit is used, with a warning; if there is none, an error says what can be done.
"""

from __future__ import annotations

import re
import shutil
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lm_eval.config.budget import MAX_DATA_VARIABLE, max_data_bytes
from lm_eval.data.hub.cache import (
    SHA,
    RepoFile,
    RepoFolder,
    checked,
    checked_name,
    checked_path,
    checked_revision,
    download,
    megabytes,
)
from lm_eval.data.hub.client import (
    HubClient,
    HubRefusalError,
    UnreachableHubError,
    next_page,
    quoted,
)
from lm_eval.data.hub.settings import HubSettings, at_each_run
from lm_eval.errors import DataError, LmEvalWarning, did_you_mean, listing
from lm_eval.text.progress import Progress

_MAX_PAGES = 1000
_MAX_README_BYTES = 8 * 2**20


class MissingRevisionError(DataError):
    """The data set has no such revision."""


class HubRun:
    """What one run knows about a hub: each name keeps its commit, and a dead host is not asked again."""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings
        self.client = HubClient(settings)
        self.began_at = time.monotonic()
        self.down: str | None = settings.offline
        """Why the hub is not asked, or no longer; None if it is."""
        self._opened: dict[tuple[str, str], HubRepo] = {}

    def repo(self, repo_id: str, revision: str) -> HubRepo:
        """A data set at a revision. Raises ``DataError`` if it is not available."""
        key = (repo_id, revision)
        if key not in self._opened:
            self._opened[key] = HubRepo.open(
                self, checked_name(repo_id), checked_revision(revision)
            )
        return self._opened[key]

    def folder(self, repo_id: str) -> RepoFolder:
        settings = self.settings
        return RepoFolder(settings.cache, repo_id, is_copy=settings.is_copy)


_RUNS: dict[HubSettings, HubRun] = {}
_RUN_S = 900.0
"""How long a run lasts in a program that does not say when its runs begin."""


def _forget_runs() -> None:
    while _RUNS:
        _RUNS.popitem()[1].client.close()


at_each_run(_forget_runs)


def hub_run(settings: HubSettings) -> HubRun:
    """The run that these settings belong to."""
    run = _RUNS.get(settings)
    if run is None or time.monotonic() - run.began_at > _RUN_S:
        run = _RUNS[settings] = HubRun(settings)
    return run


@dataclass(frozen=True)
class FetchedFile:
    """A complete file on this machine, with the digest of its content."""

    file: RepoFile
    path: Path
    sha256: str


class HubRepo:
    """A data set at one commit."""

    def __init__(
        self,
        run: HubRun,
        folder: RepoFolder,
        revision: str,
        commit: str,
        files: Sequence[RepoFile],
    ) -> None:
        self.run = run
        self.folder = folder
        self.id = folder.repo_id
        self.revision = revision
        self.commit = commit
        self.files = {file.path: file for file in files}
        self._fetched_files: dict[str, tuple[int, FetchedFile]] = {}
        """Path → when the file was last changed, and the file as it was checked."""

    @classmethod
    def open(cls, run: HubRun, repo_id: str, revision: str) -> HubRepo:
        folder = run.folder(repo_id)
        if SHA.fullmatch(revision) and (files := folder.files_at(revision)) is not None:
            return cls(run, folder, revision, revision, files)  # a commit never changes
        if run.down is None:
            try:
                return _asked(run, folder, revision)
            except UnreachableHubError as error:
                run.down = f"{run.settings.endpoint} is not available: {error}"
        return _remembered(run, folder, revision)

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
        return self.folder.path_at(self.commit, file).is_file()

    def fetch(
        self, files: Sequence[RepoFile], what: str, bar: Progress | None = None
    ) -> list[FetchedFile]:
        """The files, fetched if they are not here yet, each checked against its digest.

        ``bar`` shows the bytes; by default a new one, called ``what``.
        """
        for file in files:
            self._check_size(file)
        missing = [file for file in files if not self.is_here(file)]
        size = sum(file.size or 0 for file in missing)
        if missing:
            self.folder.check_room(size)
        if bar is not None:
            bar.describe(f"{self.id} {what}")
            return [self._fetched(file, bar) for file in files]
        name = f"{self.id} {what}"
        with Progress(name, size or None, enabled=bool(missing), unit="bytes") as own_bar:
            return [self._fetched(file, own_bar) for file in files]

    def _fetched(self, file: RepoFile, bar: Progress) -> FetchedFile:
        was_here = self.is_here(file)
        changed_at, known = self._fetched_files.get(file.path, (None, None))
        if known is not None and was_here and known.path.stat().st_mtime_ns == changed_at:
            return known
        path = self.folder.add(self.commit, file, partial(self._fill, file, bar))
        sha256, problem = checked(path, file)
        if problem is None:
            fetched = FetchedFile(file, path, sha256)
            self._fetched_files[file.path] = (path.stat().st_mtime_ns, fetched)
            return fetched
        self.folder.remove(self.commit, file)
        if was_here and self.run.down is None:  # damaged since it was fetched
            return self._fetched(file, bar)
        raise DataError(
            f"{self}: {file.path} {problem}. It was removed; fetch it again."
            + (f" {self.run.down}." if self.run.down else "")
        )

    def _check_size(self, file: RepoFile) -> None:
        if (file.size or 0) > max_data_bytes():
            raise DataError(
                f"{self}: {file.path} has {megabytes(file.size or 0)}, more than {MAX_DATA_VARIABLE} "
                f"allows ({max_data_bytes() // 2**20:,}). Set it to the MB that one data file may hold."
            )

    def _fill(self, file: RepoFile, bar: Progress, partial_path: Path) -> None:
        """Get a file to ``partial_path``: from another folder that has it, or from the hub."""
        cache = self.run.settings.copies_from
        source = None if cache is None else RepoFolder(cache, self.id).path_at(self.commit, file)
        if source is not None and source.is_file() and checked(source, file)[1] is None:
            shutil.copyfile(source, partial_path)
            bar.advance(file.size or 0)
            return
        if self.run.down is not None:
            raise DataError(self._not_here(file))
        try:
            download(
                self.run.client,
                f"{self}: {file.path}",
                self._address(file),
                file,
                partial_path,
                bar,
            )
        except UnreachableHubError as error:
            raise DataError(
                f"{self}: {file.path} cannot be fetched: {self.run.settings.endpoint} is not available: "
                f"{error}. {_so_far(partial_path)}Try again: it goes on where it stopped."
            ) from None
        except HubRefusalError as refusal:
            raise DataError(_refused(self.run, self.id, self.revision, refusal)) from None

    def _address(self, file: RepoFile) -> str:
        return f"/datasets/{quoted(self.id)}/resolve/{self.commit}/{quoted(file.path)}"

    def _not_here(self, file: RepoFile) -> str:
        present = [file.path for file in self.files.values() if self.is_here(file)]
        return (
            f"{self}: {file.path} is not in {self.folder.cache}, and {self.run.down}. Files of it "
            f"there: {listing(present, 8)}. {elsewhere()}"
        )


def elsewhere() -> str:
    """How a machine without a network gets its data."""
    return (
        "Where there is a network, `lm-eval fetch TASKS --to DIR`; then copy DIR here and add "
        "`--data_path DIR`."
    )


def _asked(run: HubRun, folder: RepoFolder, revision: str) -> HubRepo:
    """A data set as the hub describes it now."""
    repo_id = folder.repo_id
    base = f"/api/datasets/{quoted(repo_id)}"
    try:
        facts, _ = run.client.get_json(f"{base}/revision/{quoted(revision).replace('/', '%2F')}")
        commit, name = _commit_and_name(facts, repo_id)
        if name != repo_id:
            folder.remember_move(name)
            if "/" in repo_id:
                warnings.warn(
                    f"The data set {repo_id!r} is called {name!r} on the hub now. Write `dataset_path: "
                    f"{name}`.",
                    LmEvalWarning,
                    stacklevel=2,
                )
            folder = run.folder(name)
        files = folder.files_at(commit)
        if files is None:
            files = _listed(run.client, name, commit)
            folder.remember_files(commit, files)
        folder.remember(revision, commit)
    except HubRefusalError as refusal:
        kind = MissingRevisionError if refusal.code == "RevisionNotFound" else DataError
        raise kind(_refused(run, repo_id, revision, refusal)) from None
    return HubRepo(run, folder, revision, commit, files)


def _commit_and_name(facts: Any, repo_id: str) -> tuple[str, str]:
    commit = facts.get("sha") if isinstance(facts, dict) else None
    if not isinstance(commit, str) or not SHA.fullmatch(commit):
        raise UnreachableHubError("its answer names no commit", is_final=True)
    return commit, checked_name(str(facts.get("id") or repo_id))


def _listed(client: HubClient, repo_id: str, commit: str) -> list[RepoFile]:
    """All files of a commit."""
    path = f"/api/datasets/{quoted(repo_id)}/tree/{commit}?recursive=true&expand=false"
    files: list[RepoFile] = []
    for _ in range(_MAX_PAGES):
        entries, headers = client.get_json(path)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            break
        files += [_listed_file(entry, repo_id) for entry in entries if entry.get("type") == "file"]
        following = next_page(headers)
        if following is None:
            return files
        path = following.removeprefix(urlsplit(client.settings.endpoint).path)
    raise UnreachableHubError("its list of files cannot be read", is_final=True)


def _listed_file(entry: dict[str, Any], repo_id: str) -> RepoFile:
    path, lfs = checked_path(entry.get("path"), repo_id), entry.get("lfs")
    if isinstance(lfs, dict):  # a large file, whose ``oid`` is that of a pointer to it
        return RepoFile(path, _size_in(lfs), sha256=_digest_in(lfs, 64))
    return RepoFile(path, _size_in(entry), git_sha1=_digest_in(entry, 40))


def _size_in(entry: dict[str, Any]) -> int | None:
    size = entry.get("size")
    return size if isinstance(size, int) and size >= 0 else None


def _digest_in(entry: dict[str, Any], digits: int) -> str | None:
    digest = entry.get("oid")
    return (
        digest
        if isinstance(digest, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)
        else None
    )


def _remembered(run: HubRun, folder: RepoFolder, revision: str) -> HubRepo:
    """A data set as it was when the hub was last asked."""
    if folder.moved_to is not None:
        folder = run.folder(folder.moved_to)
    commit = folder.commit_of(revision)
    if commit is None and run.settings.copies_from is not None:
        commit = _copied_facts(
            RepoFolder(run.settings.copies_from, folder.repo_id), folder, revision
        )
    if commit is None:
        raise DataError(_nothing_here(run, folder, revision))
    if run.settings.offline is None:
        warnings.warn(
            f"{run.down}. Using {folder.repo_id} as it was when it was last fetched (commit "
            f"{commit[:12]}).",
            LmEvalWarning,
            stacklevel=2,
        )
    files = folder.files_at(commit)
    if files is not None:
        return HubRepo(run, folder, revision, commit, files)
    warnings.warn(
        f"The list of files of {folder.repo_id} at commit {commit[:12]} is not in {folder.cache}, so "
        "its splits are taken to be what is there. Where there is a network, `lm-eval fetch` completes "
        "it.",
        LmEvalWarning,
        stacklevel=2,
    )
    return HubRepo(run, folder, revision, commit, folder.files_found(commit))


def _copied_facts(cache: RepoFolder, folder: RepoFolder, revision: str) -> str | None:
    """The commit of a revision, from another folder that knows it."""
    commit = cache.commit_of(revision)
    files = None if commit is None else cache.files_at(commit)
    if commit is None or files is None:
        return None
    folder.remember_files(commit, files)
    folder.remember(revision, commit)
    return commit


def _nothing_here(run: HubRun, folder: RepoFolder, revision: str) -> str:
    cached = sorted(
        path.name.removeprefix("datasets--").replace("--", "/")
        for path in folder.cache.glob("datasets--*")
    )
    of_it = (
        sorted(p.name for p in (folder.folder / "refs").glob("*")) if folder.folder.is_dir() else []
    )
    there = f"Data sets there: {listing(cached, 8)}."
    if of_it:
        there = f"Revisions of it there: {listing(of_it, 8)}."
    return (
        f"The data set {folder.repo_id!r} ({revision}) is not in {folder.cache}, and {run.down}. "
        f"{there} {elsewhere()}"
    )


def _so_far(path: Path) -> str:
    with suppress(OSError):
        return f"{megabytes(path.stat().st_size)} of it are here. "
    return ""


# --- refusals ---


def _refused(run: HubRun, repo_id: str, revision: str, refusal: HubRefusalError) -> str:
    """What the hub's refusal means, and what can be done."""
    endpoint, has_token = run.settings.endpoint, run.settings.token is not None
    page = f"{endpoint}/datasets/{repo_id}"
    if refusal.code == "GatedRepo" and has_token:
        return (
            f"The data set {repo_id!r} is gated, and the owner of this machine's token has not been let "
            f"in. Ask for access at {page}, logged in as that user."
        )
    if refusal.code == "GatedRepo":
        return (
            f"The data set {repo_id!r} is gated: its owners want to know who uses it. Accept their "
            f"conditions at {page}, make a token at {endpoint}/settings/tokens, and set HF_TOKEN to it "
            f"(or run `hf auth login`)."
        )
    if refusal.code == "RevisionNotFound":
        return (
            f"The data set {repo_id!r} has no revision {revision!r}."
            f"{_known_revisions(run, repo_id, revision)} Correct dataset_revision."
        )
    if refusal.status == 401 and has_token and refusal.code != "RepoNotFound":
        return (
            f"{endpoint} refuses this machine's token ({refusal.message or 'HTTP 401'}). Correct or "
            f"unset HF_TOKEN, or log in again with `hf auth login`."
        )
    if refusal.status in (401, 404):
        private = "" if has_token else ", or it is private and needs HF_TOKEN"
        return (
            f"There is no data set {repo_id!r} at {endpoint}{private}.{_near_names(run, repo_id)} "
            f"Search for {repo_id.rpartition('/')[2]!r} at {endpoint}/datasets. A local file or folder "
            f"is written `dataset_path: ./file.jsonl`."
        )
    return f"{endpoint} refuses the data set {repo_id!r}: {refusal}."


def _near_names(run: HubRun, repo_id: str) -> str:
    """Similar names: what the hub finds for it, and other data sets of its owner."""
    owner, _, word = repo_id.rpartition("/")
    names: dict[str, None] = {}
    for query in (f"search={quoted(word)}", f"author={quoted(owner)}"):
        with suppress(UnreachableHubError, HubRefusalError):
            answer, _headers = run.client.get_json(f"/api/datasets?{query}&limit=100")
            names |= {
                str(entry["id"]): None
                for entry in answer
                if isinstance(entry, dict) and "id" in entry
            }
    return did_you_mean(repo_id, names) if names else ""


def _known_revisions(run: HubRun, repo_id: str, revision: str) -> str:
    with suppress(UnreachableHubError, HubRefusalError, AttributeError, TypeError):
        answer, _ = run.client.get_json(f"/api/datasets/{quoted(repo_id)}/refs")
        names = [str(o["name"]) for key in ("branches", "tags") for o in answer.get(key) or ()]
        return f"{did_you_mean(revision, names)} Revisions: {listing(names, 8)}."
    return ""
