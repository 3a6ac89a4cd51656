"""Frames between a driver and a replica: whole, in order, and only for who knows the secret."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lm_eval.models.ray.line import SECRET_BYTES, Door, ReplicaLine, readable

HOST = "127.0.0.1"
SECRET = b"s" * SECRET_BYTES


@pytest.fixture
def ends() -> Iterator[tuple[ReplicaLine, ReplicaLine]]:
    """The driver's end and the replica's."""
    door = Door(HOST)
    with ThreadPoolExecutor(1) as replica:
        admitted = replica.submit(door.admit, SECRET)
        driver = ReplicaLine.to(HOST, door.port, SECRET)
        other = admitted.result(10)
    yield driver, other
    driver.close()
    other.close()


def test_frames_arrive_whole_and_in_order(ends: tuple[ReplicaLine, ReplicaLine]) -> None:
    driver, replica = ends
    large = bytes(range(256)) * 8192  # more than one read brings
    with ThreadPoolExecutor(1) as sender:
        sent = sender.submit(lambda: [replica.send(frame) for frame in (b"one", b"", large)])
        frames: list[bytes] = []
        while len(frames) < 3:
            assert readable([driver], 10) == [driver]
            frames += driver.receive()
        sent.result(10)
    assert frames == [b"one", b"", large]
    assert readable([driver], 0) == []


def test_two_frames_in_one_read_are_both_there(ends: tuple[ReplicaLine, ReplicaLine]) -> None:
    driver, replica = ends
    peer = socket.socket(fileno=socket.dup(replica.fileno()))
    with peer:
        peer.sendall(b"\0\0\0\0\0\0\0\3old\0\0\0\0\0\0\0\3new")
    assert driver.receive() == [b"old", b"new"]


def test_the_end_of_the_other_side_is_noticed(ends: tuple[ReplicaLine, ReplicaLine]) -> None:
    driver, replica = ends
    driver.send(b"last words")
    driver.close()
    assert list(replica.frames()) == [b"last words"]
    replica.close()


def test_an_end_without_a_frame_is_an_error(ends: tuple[ReplicaLine, ReplicaLine]) -> None:
    driver, replica = ends
    replica.close()
    assert readable([driver], 10) == [driver]
    with pytest.raises(OSError, match="the other end is gone"):
        driver.receive()


@pytest.mark.parametrize("said", [b"t" * SECRET_BYTES, b"s" * (SECRET_BYTES - 1), b""])
def test_strangers_are_turned_away_and_the_driver_is_not(said: bytes) -> None:
    door = Door(HOST)
    with ThreadPoolExecutor(1) as replica:
        admitted = replica.submit(door.admit, SECRET)
        with socket.create_connection((HOST, door.port)) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""  # closed from there
        driver = ReplicaLine.to(HOST, door.port, SECRET)
        other = admitted.result(10)
    other.send(b"hello")
    assert driver.receive() == [b"hello"]
    for line in (driver, other):
        line.close()
    with pytest.raises(OSError, match="refused"):
        ReplicaLine.to(HOST, door.port, SECRET)  # one driver, once
