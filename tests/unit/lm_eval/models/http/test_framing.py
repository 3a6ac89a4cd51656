"""HTTP replies: whole, in pieces, and broken; packed bodies."""

from __future__ import annotations

import gzip
import zlib

import pytest

from lm_eval.models.http.framing import HttpReply, Incoming, unpacked


def message(*lines: str, first: str = "HTTP/1.1 200 OK", body: bytes = b"") -> bytes:
    return "\r\n".join([first, *lines, "", ""]).encode() + body


def read(data: bytes, size: int | None = None) -> Incoming:
    """A reply whose bytes come in pieces of a size."""
    incoming = Incoming()
    for at in range(0, len(data), size or len(data)):
        incoming.feed(data[at : at + (size or len(data))])
    return incoming


@pytest.mark.parametrize("size", [1, 5, None])
def test_a_reply_is_read(size: int | None) -> None:
    data = message("Content-Type: application/json", "content-LENGTH:  2 ", body=b"{}")
    incoming = read(data, size)
    assert incoming.is_whole
    assert incoming.keeps_open
    assert (incoming.length, incoming.packing) == (2, None)
    headers = ((b"Content-Type", b"application/json"), (b"content-LENGTH", b"2"))
    reply = incoming.reply()
    assert (reply.status, reply.body) == (200, b"{}")
    assert tuple((name, value.strip()) for name, value in reply.headers) == headers


@pytest.mark.parametrize(
    ("lines", "first", "keeps_open"),
    [
        (["Content-Length: 0", "Connection: close"], "HTTP/1.1 200 OK", False),
        (["Content-Length: 0"], "HTTP/1.0 200 OK", False),
        (["Content-Length: 0", "Connection: Keep-Alive"], "HTTP/1.0 200 OK", True),
        ([], "HTTP/1.1 200 OK", False),
        ([], "HTTP/1.1 204 No Content", True),
        (["Transfer-Encoding: chunked", "Content-Length: 1"], "HTTP/1.1 200", True),
    ],
)
def test_when_a_connection_can_be_used_again(
    lines: list[str], first: str, keeps_open: bool
) -> None:
    assert read(message(*lines, first=first)).keeps_open is keeps_open


@pytest.mark.parametrize("size", [1, None])
def test_word_that_the_reply_is_to_come_is_not_the_reply(size: int | None) -> None:
    early = message("X: early", first="HTTP/1.1 100 Continue")
    incoming = read(early, size)
    assert not incoming.has_head
    assert not incoming.is_whole
    incoming.feed(message("Content-Length: 1", body=b"a"))
    assert incoming.reply() == HttpReply(200, ((b"Content-Length", b"1"),), b"a")


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example ESMTP",
        b"HTTP/2 200",
        message(first="HTTP/1.1 20 OK"),
        message("no colon"),
        message("Name : value"),
        message("Content-Length: -1"),
        message("Content-Length: 1_0"),
        message("Content-Length: 1", "Content-Length: 2"),
        message(f"Content-Length: {'9' * 5000}"),
        message("Upgrade: x", "Connection: upgrade", first="HTTP/1.1 101 Switching"),
        message(f"Long: {'a' * 70_000}")[:-4],
    ],
)
def test_what_is_not_a_head(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(data, 1000)


CHUNKED = b"4\r\nWiki\r\n6;name=value\r\npedia \r\nB\r\nin \r\nchunks\r\n0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, None])
def test_chunks_come_in_any_pieces(size: int | None) -> None:
    incoming = read(message("Content-Length: 5", "Transfer-Encoding: Chunked", body=CHUNKED), size)
    assert incoming.is_whole
    assert not incoming.has_surplus
    reply = incoming.reply()
    assert reply.body == b"Wikipedia in \r\nchunks"
    assert incoming.size == len(reply.body)
    assert len(reply.headers) == 2, "what comes behind the chunks is left out"


@pytest.mark.parametrize(
    "data",
    [b"x\r\n", b"\r\n", b"-4\r\nWiki\r\n", b"0x4\r\nWiki\r\n", b"3\r\nWiki\r\n", b"1" * 70],
)
def test_what_is_not_a_chunk(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"(?i)chunk"):
        read(message("Transfer-Encoding: chunked", body=data))


def test_bytes_behind_a_body_are_not_part_of_it() -> None:
    for data in (
        message("Content-Length: 3", body=b"abcHTTP/1.1"),
        message("Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\nHTTP/1.1"),
        message("Content-Length: 3", "Connection: close", body=b"abcHTTP/1.1"),
        message("Content-Length: 3", body=b"abc") + message("Content-Length: 2", body=b"de"),
    ):
        incoming = read(data)
        assert incoming.is_whole
        assert incoming.has_surplus
        assert incoming.reply().body == b"abc"


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    incoming = read(message(body=b"abc"))
    assert not incoming.is_whole
    assert incoming.ends_with_connection
    assert incoming.reply().body == b"abc"


def _raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("packing", "packed"),
    [
        (b"gzip", gzip.compress(b"text", mtime=0)),
        (b"x-gzip", gzip.compress(b"text", mtime=0)),
        (b"deflate", zlib.compress(b"text")),
        (b"deflate", _raw(b"text")),
        (b"gzip", b""),
    ],
)
def test_packed_bodies(packing: bytes, packed: bytes) -> None:
    assert unpacked(packed, packing, 100) == (b"text" if packed else b"")


def test_a_packed_body_is_bounded() -> None:
    bomb = gzip.compress(bytes(10**7))
    assert unpacked(bomb, b"gzip", 1000) is None
    assert unpacked(gzip.compress(bytes(1000)), b"gzip", 1000) == bytes(1000)


@pytest.mark.parametrize(
    ("packing", "packed", "says"),
    [
        (b"br", b"text", "packed as 'br'"),
        (b"gzip, chunked", b"text", "packed as 'gzip, chunked'"),
        (b"gzip", b"text", "cannot be unpacked"),
        (b"gzip", gzip.compress(b"text", mtime=0)[:-3], "incomplete"),
    ],
)
def test_what_cannot_be_unpacked(packing: bytes, packed: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        unpacked(packed, packing, 100)
