"""One file of the hub → a file on this disk: resumed where it broke, bounded, and checked."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lm_eval.config.budget import max_data_bytes
from lm_eval.data.hub.cache import RepoFile, digests_of
from lm_eval.data.hub.client import (
    HubClient,
    HubRefusalError,
    HubReply,
    UnreachableHubError,
    retried,
)
from lm_eval.errors import DataError
from lm_eval.text.files import sync
from lm_eval.text.progress import Progress

_BLOCK = 2**18


def download(
    client: HubClient, name: str, address: str, file: RepoFile, path: Path, bar: Progress
) -> None:
    """Bring the content at ``address`` to ``path``, which may hold the beginning of it.

    ``name`` is what messages call the file. A content that is not what the hub lists is fetched once
    more, then refused.
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
    """The SHA-256 of a file, and what is wrong with its content."""
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
    """One answer of the hub, appended to what is there already."""
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
        path.unlink()  # what was begun is not a beginning of this file
        raise UnreachableHubError("the beginning of the file does not fit") from None
    if written < expected:
        raise UnreachableHubError("the transfer was cut off")


def _append(
    reply: HubReply, name: str, path: Path, begun: int, size: int | None, bar: Progress
) -> int:
    """Write an answer's body from ``begun`` on; how long the file is then."""
    most = max_data_bytes() if size is None else size
    with path.open("ab" if begun else "wb") as sink:
        while block := reply.read(_BLOCK):
            begun += len(block)
            if begun > most:
                raise DataError(f"{name} is longer than the hub says. Nothing more is read of it.")
            sink.write(block)
            bar.advance(len(block))
        sync(sink)
    return begun


def _starts_at(reply: HubReply, begun: int) -> bool:
    return reply.headers.get("content-range", "").startswith(f"bytes {begun}-")
