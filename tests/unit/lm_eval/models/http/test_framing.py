"""Heads and bodies of HTTP replies, whole, in pieces, and broken."""

from __future__ import annotations

import gzip
import zlib

import pytest

from lm_eval.models.http.framing import Body, read_head, unpacked


def head(*lines: str, first: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([first, *lines]).encode()


def test_a_head_is_read() -> None:
    read = read_head(head("Content-Type: application/json", "content-LENGTH:  12 "))
    assert (read.status, read.length, read.is_chunked, read.packing) == (200, 12, False, None)
    assert read.headers[0] == (b"Content-Type", b"application/json")
    assert read.keeps_open


@pytest.mark.parametrize(
    ("lines", "first", "keeps_open"),
    [
        (["Content-Length: 1", "Connection: close"], "HTTP/1.1 200 OK", False),
        (["Content-Length: 1"], "HTTP/1.0 200 OK", False),
        (["Content-Length: 1", "Connection: Keep-Alive"], "HTTP/1.0 200 OK", True),
        ([], "HTTP/1.1 200 OK", False),
        ([], "HTTP/1.1 204 No Content", True),
        (["Transfer-Encoding: chunked", "Content-Length: 1"], "HTTP/1.1 200", True),
    ],
)
def test_when_a_connection_can_be_used_again(
    lines: list[str], first: str, keeps_open: bool
) -> None:
    assert read_head(head(*lines, first=first)).keeps_open is keeps_open


def test_chunks_count_more_than_a_length() -> None:
    read = read_head(head("Content-Length: 5", "Transfer-Encoding: Chunked"))
    assert read.is_chunked
    assert read.length is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"220 mail.example ESMTP", "it begins with"),
        (b"HTTP/2 200", "it begins with"),
        (b"HTTP/1.1 20 OK", "it begins with"),
        (head("no colon"), "a line of its head"),
        (head(" folded: line"), "a line of its head"),
        (head("Name : value"), "a line of its head"),
        (head("Content-Length: -1"), "its length"),
        (head("Content-Length: 1_0"), "its length"),
        (head("Content-Length: 1", "Content-Length: 2"), "its length"),
        (head(f"Content-Length: {'9' * 5000}"), "its length"),
        (head("Transfer-Encoding: gzip, chunked"), "its transfer encoding"),
    ],
)
def test_what_is_not_a_head(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_head(data)


CHUNKED = b"4\r\nWiki\r\n6;name=value\r\npedia \r\nB\r\nin \r\nchunks\r\n0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(CHUNKED)])
def test_chunks_come_in_any_pieces(size: int) -> None:
    body = Body(None, is_chunked=True)
    pieces = [CHUNKED[at : at + size] for at in range(0, len(CHUNKED), size)]
    assert [body.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert body.content() == b"Wikipedia in \r\nchunks"
    assert body.size == len(body.content())
    assert not body.surplus


@pytest.mark.parametrize(
    "data",
    [b"x\r\n", b"\r\n", b"-4\r\nWiki\r\n", b"0x4\r\nWiki\r\n", b"3\r\nWiki\r\n", b"1" * 70_000],
)
def test_what_is_not_a_chunk(data: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        Body(None, is_chunked=True).feed(data)


def test_bytes_behind_a_body_are_not_part_of_it() -> None:
    for body, data in (
        (Body(3), b"abcHTTP/1.1"),
        (Body(None, is_chunked=True), b"3\r\nabc\r\n0\r\n\r\nHTTP/1.1"),
    ):
        assert body.feed(data)
        assert (body.content(), body.surplus) == (b"abc", b"HTTP/1.1")


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    body = Body(None)
    assert not body.feed(b"abc")
    assert body.ends_with_connection
    assert body.content() == b"abc"


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
        (b"gzip", b"text", "cannot be unpacked"),
        (b"gzip", gzip.compress(b"text", mtime=0)[:-3], "incomplete"),
    ],
)
def test_what_cannot_be_unpacked(packing: bytes, packed: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        unpacked(packed, packing, 100)
