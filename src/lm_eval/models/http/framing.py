"""The bytes of an HTTP/1.1 reply → its head, and its body: with a length, in chunks, packed.

ValueError says what is wrong with bytes that cannot be read. Whoever feeds a ``Body`` bounds it.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

LARGE = 2**20
"""Bytes from which on a body counts as large."""
LONGEST_HEAD = 2**16
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*)?")
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
_PACKED = (b"gzip", b"x-gzip", b"deflate")


class HttpReply(NamedTuple):
    """What a server answered, whatever the status."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Head(NamedTuple):
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    length: int | None
    is_chunked: bool
    packing: bytes | None
    keeps_open: bool


def read_head(data: bytes) -> Head:
    """The head of a reply; ValueError says what is wrong with one that cannot be read."""
    first, *lines = data.split(b"\r\n")
    match = _STATUS.fullmatch(first)
    if match is None:
        raise ValueError(f"it begins with {first[:40].decode('latin-1')!r}")
    status, is_old = int(match[2]), match[1] == b"0"
    length: int | None = None
    coding = connection = b""
    packing: bytes | None = None
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name[0] in b" \t" or name[-1] in b" \t":
            raise ValueError(f"a line of its head is {line[:40].decode('latin-1')!r}")
        value = value.strip(b" \t")
        headers.append((name, value))
        name = name.lower()
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18 or length not in (None, int(value)):
                raise ValueError(f"its length is {value[:40].decode('latin-1')!r}")
            length = int(value)
        elif name == b"transfer-encoding":
            coding = value.lower()
        elif name == b"connection":
            connection = value.lower()
        elif name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            packing = value.lower()
    if coding not in (b"", b"chunked", b"identity"):
        raise ValueError(f"its transfer encoding is {coding[:40].decode('latin-1')!r}")
    if status in (204, 304):
        length, coding = 0, b""
    is_chunked = coding == b"chunked"
    keeps_open = b"keep-alive" in connection if is_old else b"close" not in connection
    is_framed = is_chunked or length is not None
    return Head(
        status,
        tuple(headers),
        None if is_chunked else length,
        is_chunked,
        packing,
        keeps_open and is_framed and status != 101,
    )


class Body:
    """Collects a body that does not come in one piece."""

    def __init__(self, length: int | None = 0, is_chunked: bool = False) -> None:
        self.size = 0
        self.most = LARGE
        self.surplus = b""
        self.ends_with_connection = length is None and not is_chunked
        self._length = length
        self._pieces: list[bytes] = []
        self._chunks = _Chunks() if is_chunked else None

    def feed(self, data: bytes) -> bool:
        """Take bytes; whether the body is whole. ValueError where chunks are not ones."""
        if self._chunks is not None:
            for piece in self._chunks.feed(data):
                self._pieces.append(piece)
                self.size += len(piece)
            self.surplus = self._chunks.surplus
            return self._chunks.is_over
        self._pieces.append(data)
        self.size += len(data)
        if self._length is None or self.size < self._length:
            return False
        if self.size > self._length:
            whole = self.content()
            self.surplus, self._pieces = whole[self._length :], [whole[: self._length]]
            self.size = self._length
        return True

    def content(self) -> bytes:
        return b"".join(self._pieces)

    @property
    def progress(self) -> str:
        """How much has come, for a message."""
        of = "" if self._length is None else f" of {self._length:,}"
        return f"after {self.size:,}{of} bytes"


class _Chunks:
    """Takes chunks apart (RFC 9112, 7.1)."""

    def __init__(self) -> None:
        self.is_over = False
        self.surplus = b""
        self._left = 0
        """Bytes of the chunk that are still to come, and of the line end behind it."""
        self._line = b""
        self._in_trailer = False

    def feed(self, data: bytes) -> list[bytes]:
        pieces = []
        at = 0
        while at < len(data) and not self.is_over:
            if self._left > 2:
                piece = data[at : at + self._left - 2]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
            elif self._left:
                if data[at] != b"\n\r"[self._left - 1]:
                    raise ValueError("a chunk is longer than it says")
                self._left -= 1
                at += 1
            else:
                at = self._read_line(data, at)
        self.surplus += data[at:]
        return pieces

    def _read_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at)
        if end < 0:
            self._line += data[at:]
            if len(self._line) > LONGEST_HEAD:
                raise ValueError("the size of a chunk has no end")
            return len(data)
        line, self._line = (self._line + data[at:end]).rstrip(b"\r"), b""
        if self._in_trailer:
            self.is_over = not line
            return end + 1
        size = line.partition(b";")[0].strip(b" \t")
        if not _SIZE.fullmatch(size):
            raise ValueError(f"the size of a chunk is {size[:40].decode('latin-1')!r}")
        self._left = int(size, 16) + 2
        if self._left == 2:
            self._left, self._in_trailer = 0, True
        return end + 1


def unpacked(content: bytes, packing: bytes, most: int) -> bytes | None:
    """A packed body, unpacked; None where that has more than ``most`` bytes."""
    if not content:
        return content
    if packing not in _PACKED:
        raise ValueError(f"it is packed as {packing[:40].decode('latin-1')!r}, unasked")
    is_raw = packing == b"deflate" and content[0] & 15 != 8
    unpacker = zlib.decompressobj(-15 if is_raw else 47)
    try:
        plain = unpacker.decompress(content, most + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if len(plain) > most:
        return None
    if not unpacker.eof:
        raise ValueError("its packed body is incomplete")
    return plain
