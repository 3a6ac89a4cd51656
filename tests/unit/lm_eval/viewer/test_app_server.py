"""Who may ask the server, and what it answers: checked with plain sockets, as a browser would be."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from lm_eval.errors import UsageError
from lm_eval.viewer import app
from lm_eval.viewer.app import HOST, ViewerServer, open_server
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract
from tests.support.viewed_runs import four_formats


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    return Contract(Catalogue([four_formats(tmp_path_factory.mktemp("runs"), limit=3).output]))


@pytest.fixture(scope="module")
def server(contract: Contract) -> Iterator[ViewerServer]:
    opened = open_server(contract)
    thread = threading.Thread(target=opened.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield opened
    opened.shutdown()
    opened.server_close()
    thread.join()


def ask(
    server: ViewerServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=30)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    response = connection.getresponse()
    found = response.status, response.read(), dict(response.getheaders())
    connection.close()
    return found


def test_the_page_and_its_policy(server: ViewerServer) -> None:
    status, content, headers = ask(server, f"/{server.token}/")
    assert status == 200
    assert b"<div id=" in content
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers


def test_data(server: ViewerServer) -> None:
    status, content, headers = ask(server, f"/{server.token}/data/runs")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert len(json.loads(content)["runs"]) == 1
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/wrong/", "/data/runs", "/wrong/data/runs", "/favicon.ico"])
def test_without_the_token_there_is_nothing(server: ViewerServer, path: str) -> None:
    status, content, _ = ask(server, path)
    assert status == 404
    assert server.token.encode() not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
def test_only_get(server: ViewerServer, method: str) -> None:
    assert ask(server, f"/{server.token}/data/runs", method)[0] == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:7575"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_sites_are_refused(server: ViewerServer, headers: dict[str, str]) -> None:
    assert ask(server, f"/{server.token}/data/runs", **headers)[0] == 403


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_names_of_this_machine(server: ViewerServer, name: str) -> None:
    host = f"{name}:{server.server_port}"
    path = f"/{server.token}/data/runs"
    assert (
        ask(server, path, Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin")[0]
        == 200
    )


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "../../etc/passwd", "nope", "runs/x"])
def test_no_address_leads_to_a_file(server: ViewerServer, path: str) -> None:
    status, content, _ = ask(server, f"/{server.token}/data/{path}")
    assert status == 404
    assert "error" in json.loads(content)


def test_an_expected_error_is_a_message(server: ViewerServer) -> None:
    status, content, _ = ask(server, f"/{server.token}/data/run/ffffffff")
    assert status == 409
    assert "no run 'ffffffff'" in json.loads(content)["error"]


def test_a_defect_is_an_answer_too(server: ViewerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> bytes:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(server.contract, "json", fail)
    status, content, _ = ask(server, f"/{server.token}/data/runs")
    assert (status, json.loads(content)["error"]) == (
        500,
        "This page cannot be shown (ZeroDivisionError: oh).",
    )


def test_what_is_not_http(server: ViewerServer) -> None:
    with socket.create_connection((HOST, server.server_port), timeout=30) as connection:
        connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b"token" not in connection.recv(4096)


def test_it_listens_on_loopback_alone(server: ViewerServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_gives_way_to_the_next(contract: Contract) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        opened = open_server(contract, port)
        assert port < opened.server_port < port + app.PORTS_TRIED
        opened.server_close()


def test_no_port_is_free(contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "PORTS_TRIED", 1)
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(UsageError, match="are all taken"):
            open_server(contract, taken.getsockname()[1])


def test_tokens_differ(contract: Contract) -> None:
    servers_opened = [open_server(contract) for _ in range(2)]
    for opened in servers_opened:
        opened.server_close()
    assert len({opened.token for opened in servers_opened}) == 2
