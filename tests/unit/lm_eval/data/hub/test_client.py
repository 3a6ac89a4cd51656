"""HTTP as the hub speaks it: redirects, pages, kept connections, broken answers, one deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_eval.data.hub import client
from lm_eval.data.hub.client import (
    HubClient,
    HubRefusalError,
    UnreachableHubError,
    next_page,
    retried,
)
from lm_eval.data.hub.settings import HubSettings
from tests.support.servers.data_hub import TOKEN, DataHub, Fault
from tests.support.servers.faulty import nobody


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[DataHub]:
    monkeypatch.setattr(client, "_FIRST_PAUSE_S", 0.01)
    with DataHub() as hub:
        hub.repos["o/n"] = {"main": {"a.jsonl": b"{}\n" * 1000, "b.parquet": b"b" * 5000}}
        yield hub


def client_of(endpoint: str, token: str | None = None) -> HubClient:
    return HubClient(HubSettings(endpoint, Path("unused"), token))


def resolve(hub: DataHub, path: str) -> str:
    return f"/datasets/o/n/resolve/{hub.commit('o/n')}/{path}"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("file:///etc/passwd", "not a web address"),
        ("ftp://host/x", "not a web address"),
        ("https:///x", "not a web address"),
        ("http://[x", "not a web address"),
    ],
)
def test_redirects_lead_to_web_addresses_only(target: str, said: str) -> None:
    with pytest.raises(UnreachableHubError, match=said):
        client._redirected("http://hub/a", target)


def test_no_redirect_from_https_to_http() -> None:
    assert client._redirected("http://hub/a", "https://cdn/b") == "https://cdn/b"
    assert client._redirected("https://hub/a", "/b?c=1") == "https://hub/b?c=1"
    with pytest.raises(UnreachableHubError, match="from https to http"):
        client._redirected("https://hub/a", "http://cdn/b")


def test_a_circle_of_redirects_ends(hub: DataHub) -> None:
    hub.renamed = {"o/a": "o/b", "o/b": "o/a"}
    with pytest.raises(UnreachableHubError, match="in a circle"):
        client_of(hub.url).get_json("/api/datasets/o/a/revision/main")
    assert len(hub.requests) == 8


def test_the_token_stays_with_the_hub(hub: DataHub) -> None:
    with client_of(hub.url, TOKEN).opened(resolve(hub, "b.parquet")) as reply:
        assert reply.read(10_000) == b"b" * 5000
    assert [(one.host.split(":")[0], one.authorization) for one in hub.requests] == [
        ("127.0.0.1", f"Bearer {TOKEN}"),
        ("localhost", ""),
    ]


def test_the_token_is_in_no_description() -> None:
    assert TOKEN not in repr(HubSettings("http://x", Path("x"), TOKEN))


def test_a_kept_connection_that_was_closed_is_opened_anew(hub: DataHub) -> None:
    asking = client_of(hub.url)
    asking.get_json("/api/datasets/o/n/revision/main")
    for connection in asking._connections.values():
        connection.sock.shutdown(socket.SHUT_RDWR)
    assert asking.get_json("/api/datasets/o/n/revision/main")[0]["id"] == "o/n"
    asking.close()


def test_an_answer_that_is_cut_off_is_asked_for_again(hub: DataHub) -> None:
    hub.faults = [Fault("/revision/", cut_at=5, times=2)]
    assert client_of(hub.url).get_json("/api/datasets/o/n/revision/main")[0]["id"] == "o/n"
    assert len(hub.requests) == 3


def test_refusals_are_not_asked_again(hub: DataHub) -> None:
    with pytest.raises(HubRefusalError) as info:
        client_of(hub.url).get_json("/api/datasets/o/none/revision/main")
    assert (info.value.status, info.value.code) == (401, "RepoNotFound")
    assert len(hub.requests) == 1


def test_a_server_can_ask_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    tries = iter([UnreachableHubError("busy", pause_s=3), UnreachableHubError("busy"), None])

    def call() -> str:
        error = next(tries)
        if error is not None:
            raise error
        return "done"

    assert retried(call) == "done"
    assert pauses == [3, 1.0]


def test_a_host_that_takes_no_connections_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full queue drops what arrives, as a network without a way out does."""
    monkeypatch.setattr(client, "CONNECT_S", 0.3)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        began = time.process_time()
        with pytest.raises(UnreachableHubError) as info:
            client_of(f"http://127.0.0.1:{full.getsockname()[1]}").get_json("/api")
        assert time.process_time() - began < 2
    assert str(info.value) in ("it does not answer in time", "the connection broke")


def test_looking_up_a_name_cannot_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(client, "CONNECT_S", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: held.wait(30))
    with pytest.raises(UnreachableHubError, match="it does not answer in time") as info:
        client_of("http://somewhere").get_json("/api")
    held.set()
    assert info.value.is_final


def test_a_host_with_several_addresses_is_reached_by_any(
    hub: DataHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(hub.url.rpartition(":")[2])
    kinds = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    with nobody() as dead:
        found = [(*kinds, ("127.0.0.1", dead)), (*kinds, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert client_of(hub.url).get_json("/api/datasets/o/n/revision/main")[0]["id"] == "o/n"


def test_a_proxy_is_used(hub: DataHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", hub.url.replace("http://", "http://user:pass@"))
    with pytest.raises(HubRefusalError):
        client_of("http://hub.example").get_json("/nothing")
    assert hub.requests[0].host == "hub.example"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert client_of(hub.url).get_json("/api/datasets/o/n/revision/main")[0]["id"] == "o/n"


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ('<https://huggingface.co/api/x?cursor=a%3D>; rel="next"', "/api/x?cursor=a%3D"),
        ('<https://h/a?b=1>; rel="prev", <https://h/c?d=2>; rel="next"', "/c?d=2"),
        ("", None),
        ("nonsense", None),
    ],
)
def test_pages(link: str, path: str | None) -> None:
    assert next_page({"link": link}) == path
