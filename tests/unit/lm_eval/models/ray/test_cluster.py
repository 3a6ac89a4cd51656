"""Clusters that cannot be entered: one message each, at once."""

from __future__ import annotations

import re
import socket
from importlib.util import find_spec

import pytest

from lm_eval.errors import LmEvalError, ModelError
from lm_eval.models.ray.cluster import Cluster, _not_connected

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@needs_ray
def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(
        ModelError, match=rf"No Ray cluster answers at {address} \(Connection refused"
    ):
        Cluster.connect(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ModelError, match=f"No Ray cluster answers at {address}"):
        Cluster.connect(None)


@needs_ray
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "Ray Client"),
        ("head", "No Ray cluster answers at head (invalid"),
        ("head:gcs", "No Ray cluster answers at head:gcs (invalid"),
    ],
)
def test_an_address_of_another_kind(address: str, words: str) -> None:
    with pytest.raises(LmEvalError, match=re.escape(words)):
        Cluster.connect(address)


@pytest.mark.parametrize(
    ("error", "printed", "words"),
    [
        (
            ConnectionError("Failed to connect to Ray cluster at h:1"),
            "gcs_client.cc:210: Unauthenticated: RPC error: InvalidAuthToken: …",
            "its token is missing or wrong",
        ),
        (
            OSError("No space left\non device"),
            "",
            "OSError: No space left on device. Give the addr",
        ),
    ],
)
def test_what_ray_raises_is_one_message(error: Exception, printed: str, words: str) -> None:
    assert words in str(_not_connected("h:1", error, printed))
