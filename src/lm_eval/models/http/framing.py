"""The bytes of an HTTP/1.1 reply → its status, headers and body, decompressed; parsed by httptools.

ValueError says what is wrong with bytes that cannot be read. Whoever feeds an ``Incoming`` bounds it.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from lm_eval.errors import MissingExtraError


def missing_packages() -> MissingExtraError:
    return MissingExtraError(
        "Models over HTTP need the packages aiohttp and httptools.",
        install="pip install 'lm-eval-formats[api]'",
    )


try:
    from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
except ImportError:
    raise missing_packages() from None

LARGE = 2**20
"""Bytes above which a body counts as large."""
LONGEST_HEAD = 2**16
_PACKED = (b"gzip", b"x-gzip", b"deflate")


class HttpReply(NamedTuple):
    """What a server answered, whatever the status."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Incoming:
    """One reply as its bytes arrive. The parser calls the methods named ``on_…``."""

    def __init__(self) -> None:
        self.status = 0
        self.has_begun = False
        """Whether a byte has arrived."""
        self.has_head = False
        self.is_whole = False
        self.has_surplus = False
        """Whether bytes followed the reply."""
        self.keeps_open = False
        self.length: int | None = None
        self.is_chunked = False
        self.packing: bytes | None = None
        self.size = 0
        self.most = LARGE
        """Bytes of the body above which whoever feeds this must decide."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._head_size = 0
        self._parser: Any = HttpResponseParser(self)
        # As tolerant of servers as aiohttp. If there are both chunks and a length, the chunks count.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def feed(self, data: bytes) -> None:
        """Take bytes; ValueError if they are not part of a reply."""
        self.has_begun = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise ValueError("it changes the protocol, unasked") from None
        except HttpParserError as error:
            if not self.is_whole:
                raise ValueError(str(error)) from None
            self.has_surplus = True
        if not self.has_head:
            self._head_size += len(data)
            if self._head_size > LONGEST_HEAD:
                raise ValueError("its head has no end")

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has neither a length nor chunks."""
        return self.has_head and self.length is None and not self.is_chunked

    @property
    def progress(self) -> str:
        """How much of the body has arrived, for a message."""
        of = "" if self.length is None else f" of {self.length:,}"
        return f"after {self.size:,}{of} bytes"

    def reply(self) -> HttpReply:
        return HttpReply(self.status, tuple(self._headers), b"".join(self._pieces))

    def drop(self) -> None:
        """Free the body and the parser, which holds on to this object; nothing can be fed after it."""
        self._parser = None
        self._pieces = []

    def on_message_begin(self) -> None:
        self.has_surplus = self.is_whole

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # not those that follow the chunks
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.is_whole:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:  # such as 100 Continue: the reply itself is still to come
            self._headers.clear()
            return
        self.has_head = True
        for name, value in self._headers:
            self._take(name.lower(), value.strip(b" \t"))
        if self.is_chunked or self.status in (204, 304):
            self.length = None if self.is_chunked else 0
        self.keeps_open = self._parser.should_keep_alive()

    def _take(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            self.length = int(value)
        elif name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            self.packing = value.lower()
        elif name == b"transfer-encoding" and value.lower() not in (b"", b"identity"):
            self.is_chunked = True
            if value.lower() != b"chunked":
                self.packing = value.lower()

    def on_body(self, piece: bytes) -> None:
        if not self.is_whole:
            self._pieces.append(piece)
            self.size += len(piece)

    def on_message_complete(self) -> None:
        self.is_whole = self.has_head


def unpacked(content: bytes, packing: bytes, most: int) -> bytes | None:
    """A compressed body, decompressed; None if that has more than ``most`` bytes."""
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
