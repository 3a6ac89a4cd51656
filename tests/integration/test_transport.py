"""The HTTP engine over real sockets: faults, order, limits, certificates, Ctrl-C, notebooks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import ssl
import subprocess
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import RequestError, UnreachableError, UsageError
from lm_eval.models.http.client import TransportOptions
from lm_eval.models.http.failures import BrokenBody
from lm_eval.models.http.transport import Received, Transport
from tests.support.command_line import python_started
from tests.support.servers.faulty import (
    HARMLESS,
    TRANSIENT,
    Fault,
    FaultyServer,
    Seen,
    always,
    first,
    in_turn,
    nobody,
    some,
)

KEY = "sk-canary-0123456789"
Make = Callable[..., Transport]
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


def double(path: str, body: Any) -> tuple[int, Any]:
    """Twice the number that was sent, among enough text for a body to be cut in."""
    return 200, {"padding": "x" * 200, "twice": 2 * body["n"] if body else path}


def twice(body: bytes) -> Any:
    return json.loads(body)["twice"]


def redact(text: str) -> str:
    return text.replace(KEY, "[key]")


def make(**options: Any) -> Transport:
    return Transport(TransportOptions(**options), describe_secret=redact)


@pytest.fixture
def transport() -> Iterator[Make]:
    """Makes transports, and closes them after the test."""
    made: list[Transport] = []

    def build(**options: Any) -> Transport:
        made.append(make(**options))
        return made[-1]

    yield build
    for each in made:
        each.close()


@contextlib.contextmanager
def memory() -> Iterator[list[int]]:
    """Fills the list with the most bytes in use at a time inside the block, by client and server."""
    used: list[int] = []
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    try:
        yield used
    finally:
        used.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()


async def send(transport: Transport, url: str, n: int) -> Received[Any]:
    return await transport.request(f"{url}/v1/x", json.dumps({"n": n}).encode(), HEADERS, twice)


def ask(transport: Transport, url: str, n: int = 21) -> Received[Any]:
    return transport.run(send(transport, url, n))


def failure(transport: Transport, url: str) -> RequestError:
    """The error of one request; that the key is nowhere in it is checked here once and for all."""
    with pytest.raises(RequestError) as caught:
        ask(transport, url)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert KEY not in repr(chain)
        assert KEY not in str(chain)
        chain = chain.__cause__ or chain.__context__
    return caught.value


def doubled(transport: Transport, url: str) -> Callable[[int], Coroutine[Any, Any, Any]]:
    """Work for a window: a number is sent, and what comes back is the result."""

    async def work(n: int) -> Any:
        return (await send(transport, url, n)).value

    return work


def ask_all(transport: Transport, url: str, count: int) -> dict[int, Any]:
    return dict(transport.window(range(count), doubled(transport, url)))


# -- one request -----------------------------------------------------------------------------------


def test_a_request_and_its_reply(transport: Make) -> None:
    with FaultyServer(double) as server:
        engine = transport()
        received = ask(engine, server.url)
        assert (received.value, received.attempts) == (42, 1)
        assert (engine.sent, engine.retries) == (1, 0)
        [seen] = server.requests
        assert (seen.method, seen.path, seen.body) == ("POST", "/v1/x", {"n": 21})
        assert seen.headers["authorization"] == f"Bearer {KEY}"
        assert seen.headers["content-type"] == "application/json"


def test_get(transport: Make) -> None:
    with FaultyServer(double) as server:
        engine = transport()
        received = engine.run(engine.request(f"{server.url}/v1/models", None, HEADERS, twice))
        assert received.value == "/v1/models"
        assert server.requests[0].method == "GET"


@pytest.mark.parametrize("fault", TRANSIENT, ids=lambda fault: str(fault.kind))
def test_what_passes_is_sent_again(transport: Make, fault: Fault) -> None:
    with FaultyServer(double, faults=first(1, fault)) as server:
        engine = transport(timeout_s=20)
        received = ask(engine, server.url)
        assert (received.value, received.attempts) == (42, 2)
        assert (engine.sent, engine.retries) == (2, 1)
        assert server.requests[0].raw == server.requests[1].raw


@pytest.mark.parametrize("fault", HARMLESS, ids=lambda fault: str(fault.kind))
def test_what_is_odd_but_right_is_read(transport: Make, fault: Fault) -> None:
    with FaultyServer(double, faults=always(fault)) as server:
        assert ask(transport(timeout_s=20), server.url).attempts == 1


@pytest.mark.parametrize(
    ("kind", "status", "says"),
    [
        (500, 500, "500 Internal Server Error: made to fail"),
        ("reset", None, "closed the connection without an answer"),
        ("hang_up", None, "closed the connection without an answer"),
        ("short", None, "broke off in the middle"),
        ("truncated", 200, "a body that cannot be read"),
        ("garbage", None, "is not HTTP"),
        ("html", 502, "an HTML page titled '502 Bad Gateway & more'"),
        ("html_200", 200, "an HTML page titled '502 Bad Gateway & more'"),
    ],
)
def test_what_never_passes_says_so(
    transport: Make, kind: str | int, status: int | None, says: str
) -> None:
    with FaultyServer(double, faults=always(kind)) as server:
        error = failure(transport(max_retries=1), server.url)
        assert says in str(error)
        assert "(2 attempts)" in str(error)
        assert (error.status, error.attempts, error.retryable) == (status, 2, True)
        assert not isinstance(error, UnreachableError)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "stops"),
    [
        *((400, False), (413, False), (418, False), (422, False)),
        *((401, True), (403, True), (404, True), (405, True)),
    ],
)
def test_a_refused_request_is_sent_once(transport: Make, status: int, stops: bool) -> None:
    said = Fault(status, message=f"key {KEY} is no good")
    with FaultyServer(double, faults=always(said)) as server:
        error = failure(transport(), server.url)
        assert str(error).startswith(f"{server.url}/v1/x answered {status} ")
        assert ": key [key] is no good" in str(error)
        assert ("is no good. Check" in str(error)) == stops
        assert (error.status, error.attempts, error.stops_run) == (status, 1, stops)
        assert not error.retryable
        assert len(server.requests) == 1


def test_a_reply_that_decodes_to_nonsense_is_asked_for_again(transport: Make) -> None:
    replies = iter([{"other": 1}, {"twice": "NaN"}, {"twice": 42}])

    def decode(body: bytes) -> int:
        value = json.loads(body)["twice"]
        if value != 42:
            raise BrokenBody(f"{value} for {KEY}")
        return int(value)

    with FaultyServer(lambda path, body: (200, next(replies))) as server:
        engine = transport()
        received = engine.run(engine.request(server.url, b"{}", HEADERS, decode))
        assert (received.value, received.attempts) == (42, 3)


def test_decode_has_the_last_word(transport: Make) -> None:
    def decode(body: bytes) -> None:
        raise RequestError("the model was unloaded", stops_run=True)

    with FaultyServer(double) as server:
        engine = transport()
        with pytest.raises(RequestError, match="unloaded"):
            engine.run(engine.request(server.url, b'{"n": 1}', HEADERS, decode))
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["silent", "endless"])
def test_an_answer_that_does_not_end_runs_out_of_time(transport: Make, kind: str) -> None:
    with FaultyServer(double, faults=always(kind)) as server:
        error = failure(transport(timeout_s=2, max_retries=1), server.url)  # time enough to connect
        assert "did not finish its answer within 2 s (2 attempts)" in str(error)
        assert "timeout=SECONDS in --model_args" in str(error)
        assert error.retryable


@pytest.mark.parametrize("kind", ["flood", "huge", "bomb"])
def test_no_more_is_read_than_the_limit(transport: Make, kind: str) -> None:
    fault = Fault(kind, size=50 * 2**20)
    with FaultyServer(double, faults=always(fault)) as server:
        engine = transport(max_response_bytes=1_000_000)
        with pytest.raises(RequestError, match="more than 1,000,000 bytes"), memory() as used:
            ask(engine, server.url)
        assert used[0] < 25 * 2**20
        assert len(server.requests) == 4  # it may be this one reply


def test_large_replies_wait_for_one_another(transport: Make) -> None:
    """Thirty-two floods at a time hold no more than two bodies and a little of each other."""
    most = 8 * 2**20
    with FaultyServer(double, faults=lambda seen: Fault("flood") if seen.place else None) as server:
        engine = transport(num_concurrent=32, max_retries=0, max_response_bytes=most, timeout_s=60)
        with memory() as used:
            answers = ask_all(engine, server.url, 33)
        assert sum(isinstance(answer, RequestError) for answer in answers.values()) == 32
        assert used[0] < 2 * 2 * most + 33 * 3 * 2**20  # without waiting: 32 bodies, twice


def test_too_few_descriptors_are_one_message(transport: Make) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with FaultyServer(double, latency_s=0.2) as server:
        engine = transport(num_concurrent=2)
        ask(engine, server.url)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            with pytest.raises(RequestError, match=r"too few file descriptors for 2 conn.*ulimit"):
                ask_all(engine, server.url, 4)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_redirect_never_takes_the_key_along(transport: Make) -> None:
    with FaultyServer(double) as other:
        leads_away = Fault("redirect", location=f"{other.url}/v1/x?key={KEY}")
        with FaultyServer(double, faults=always(leads_away)) as server:
            error = failure(transport(), server.url)
            assert error.stops_run
            assert f"a redirect to {other.url}" in str(error)
            assert len(server.requests) == 1
        assert not other.requests


def test_cookies_are_not_kept(transport: Make) -> None:
    with FaultyServer(double, reply_headers=lambda seen: [("Set-Cookie", "who=me")]) as server:
        engine = transport()
        ask(engine, server.url, 1)
        ask(engine, server.url, 2)
        assert all("cookie" not in seen.headers for seen in server.requests)
        assert server.connections == 1


# -- nobody at home --------------------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[int]:
    """A port where nobody listens."""
    with nobody() as port:
        yield port


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_address_where_nobody_answers(transport: Make, host: str, port: int) -> None:
    error = failure(transport(num_concurrent=8), f"http://{host}:{port}")
    assert isinstance(error, UnreachableError)
    assert error.stops_run
    assert str(error).startswith(f"Nothing answers at http://{host}:")
    assert "Check the address" in str(error)


def test_a_host_that_swallows_everything_is_given_up(transport: Make) -> None:
    """A full backlog: connections are neither accepted nor refused."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(deaf.getsockname())
        error = failure(
            transport(timeout_s=3600, max_retries=0), f"http://127.0.0.1:{deaf.getsockname()[1]}"
        )
        for each in waiting:
            each.close()
        assert isinstance(error, UnreachableError)


def test_a_server_that_vanishes_stops_the_run(transport: Make) -> None:
    engine = transport(num_concurrent=4)
    with FaultyServer(double) as server:
        ask(engine, server.url)
    with pytest.raises(RequestError) as caught:
        ask_all(engine, server.url, 50)
    assert caught.value.stops_run
    assert caught.value.retryable
    assert caught.value.attempts == 4
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.parametrize(
    "address", ["localhost:8000/v1", "ftp://host/v1", "http://", "", "nonsense"]
)
def test_what_is_no_address(transport: Make, address: str) -> None:
    engine = transport()
    with pytest.raises(RequestError, match="is not the address of a server") as caught:
        engine.run(engine.request(address, None, {}, twice))
    assert caught.value.stops_run


def test_a_header_that_cannot_be_sent(transport: Make) -> None:
    engine = transport()
    with FaultyServer(double) as server:
        with pytest.raises(RequestError, match="cannot be sent") as caught:
            engine.run(
                engine.request(server.url, None, {"Authorization": f"Bearer {KEY}\n"}, twice)
            )
        assert KEY not in str(caught.value)
        assert not server.requests


def test_credentials_in_an_address_are_not_shown(transport: Make, port: int) -> None:
    engine = transport(max_retries=0)
    with pytest.raises(UnreachableError) as caught:
        engine.run(
            engine.request(f"http://me:pass-word@127.0.0.1:{port}/x?key=hidden", None, {}, twice)
        )
    assert "pass-word" not in str(caught.value)
    assert "hidden" not in str(caught.value)


# -- certificates ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody but itself vouches for, with its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", "key.pem", "-out", "cert.pem"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem"


@pytest.fixture
def secure(certificate: Path) -> Iterator[FaultyServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with FaultyServer(double, tls=context) as server:
        yield server


def test_an_unknown_certificate_is_refused(transport: Make, secure: FaultyServer) -> None:
    error = failure(transport(), secure.url)
    assert "is not trusted" in str(error)
    assert "ca_cert_path" in str(error)
    assert "verify_certificate=False" in str(error)
    assert (error.stops_run, error.attempts) == (True, 1)
    assert not secure.requests


def test_an_unknown_certificate_may_be_accepted(transport: Make, secure: FaultyServer) -> None:
    assert ask(transport(verify_certificate=False), secure.url).value == 42


def test_a_certificate_of_ones_own(
    transport: Make, secure: FaultyServer, certificate: Path
) -> None:
    assert ask(transport(ca_cert_path=str(certificate)), secure.url).value == 42


def test_a_certificate_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing here")
    for name, why in (("empty.pem", "holds no certificate"), ("gone.pem", "No such file")):
        with pytest.raises(UsageError, match=f"ca_cert_path.*{name}.*{why}"):
            make(ca_cert_path=str(tmp_path / name))


def test_https_to_a_server_without_it(transport: Make) -> None:
    with FaultyServer(double) as server:
        error = failure(transport(), server.url.replace("http:", "https:"))
        assert "No secure connection" in str(error)
        assert error.stops_run


def test_a_proxy_of_the_environment_is_used(
    transport: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer(double) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "inside.invalid")
        assert ask(transport(), "http://outside.invalid").value == 42
        assert proxy.requests[0].path == "http://outside.invalid/v1/x"
        with FaultyServer(double) as server:
            ask(transport(), server.url)  # this machine is never behind a proxy
        assert isinstance(
            failure(transport(max_retries=0), "http://inside.invalid"), UnreachableError
        )
        assert len(proxy.requests) == 1


# -- the window ------------------------------------------------------------------------------------


def test_a_window_answers_every_job_in_whatever_order(transport: Make) -> None:
    with FaultyServer(double, latency_s=(0.0, 0.05), gathers=8) as server:
        engine = transport(num_concurrent=8)

        done = list(engine.window(range(100), doubled(engine, server.url)))
        assert sorted(done) == [(n, 2 * n) for n in range(100)]
        assert done != sorted(done)
        assert server.most_at_once == 8
        assert server.connections <= 9


def test_a_faulty_network_changes_nothing_but_the_number_of_sendings(transport: Make) -> None:
    with FaultyServer(double) as server:
        clean = ask_all(transport(num_concurrent=16), server.url, 200)
    with FaultyServer(double, faults=some(0.3), latency_s=(0.0, 0.01)) as server:
        engine = transport(num_concurrent=16)
        assert ask_all(engine, server.url, 200) == clean
        assert engine.sent == len(server.requests) > 220
        assert engine.retries == engine.sent - 200


def test_one_job_travels_alone_until_something_is_answered(transport: Make) -> None:
    with FaultyServer(double, faults=always(401)) as server:
        with pytest.raises(RequestError, match="401"):
            ask_all(transport(num_concurrent=32), server.url, 100)
        assert len(server.requests) == 1


def test_jobs_are_pulled_as_slots_become_free(transport: Make) -> None:
    """In flight or not yet taken: never more than the window, also while the consumer dawdles."""
    with FaultyServer(double) as server:
        engine = transport(num_concurrent=4)
        ask(engine, server.url)
        pulled = 0

        def jobs() -> Iterator[int]:
            nonlocal pulled
            for n in range(40):
                pulled += 1
                yield n

        for taken, _ in enumerate(engine.window(jobs(), doubled(engine, server.url))):
            time.sleep(0.003)
            assert pulled - taken <= 4
            assert len(server.requests) - 1 - taken <= 4


def test_a_failed_job_is_a_result_beside_the_others(transport: Make) -> None:
    def too_long(seen: Seen) -> Fault | None:
        return Fault(400, message="too long") if seen.body["n"] % 10 == 3 else None

    with FaultyServer(double, faults=too_long) as server:
        answers = ask_all(transport(num_concurrent=4), server.url, 30)
        failed = {n for n, value in answers.items() if isinstance(value, RequestError)}
        assert failed == {3, 13, 23}
        assert "too long" in str(answers[13])
        assert answers[14] == 28


def test_an_error_that_stops_the_run_comes_after_the_results_that_are_there(
    transport: Make,
) -> None:
    with FaultyServer(double, faults=in_turn(*[None] * 20, *[403] * 20)) as server:
        engine = transport(num_concurrent=4)
        taken: list[tuple[int, Any]] = []

        with pytest.raises(RequestError, match="403"):
            taken.extend(engine.window(range(100), doubled(engine, server.url)))
        assert sorted(taken) == [(n, 2 * n) for n in range(20)]
        assert len(server.requests) <= 24


def test_an_error_of_the_callers_own_code_is_raised(transport: Make) -> None:
    with FaultyServer(double) as server:
        engine = transport(num_concurrent=4)

        async def work(n: int) -> Any:
            if n == 7:
                raise ZeroDivisionError("mine")
            return await send(engine, server.url, n)

        with pytest.raises(ZeroDivisionError, match="mine"):
            list(engine.window(range(100), work))

        def jobs() -> Iterator[int]:
            yield 1
            raise LookupError("no more")

        with pytest.raises(LookupError, match="no more"):
            list(engine.window(jobs(), work))
        assert ask(engine, server.url).value == 42


def test_a_slow_consumer_does_not_use_up_the_time_of_requests(transport: Make) -> None:
    """Requests that are answered while scores are computed are not late."""
    with FaultyServer(double, latency_s=(0, 0.4)) as server:
        engine = transport(num_concurrent=8, max_retries=0, timeout_s=3)

        slow = 1
        for n, answer in engine.window(range(17), doubled(engine, server.url)):
            assert answer == 2 * n
            if n and slow:
                slow -= 1
                time.sleep(3.5)


def test_an_empty_window(transport: Make) -> None:
    async def work(n: int) -> int:
        return n

    assert list(transport().window([], work)) == []


def test_requests_while_jobs_are_made(transport: Make) -> None:
    """A job may need an answer itself, such as a count of tokens, while others are in flight."""
    with FaultyServer(double, latency_s=0.01) as server:
        engine = transport(num_concurrent=4)

        jobs = (ask(engine, server.url, n).value for n in range(20))
        assert sorted(engine.window(jobs, doubled(engine, server.url))) == [
            (2 * n, 4 * n) for n in range(20)
        ]


def test_several_requests_for_one_job(transport: Make) -> None:
    with FaultyServer(double) as server:
        engine = transport(num_concurrent=4)

        async def work(n: int) -> Any:
            return (await send(engine, server.url, (await send(engine, server.url, n)).value)).value

        assert sorted(engine.window(range(20), work)) == [(n, 4 * n) for n in range(20)]


def test_leaving_a_window_early_leaves_nothing_behind(transport: Make) -> None:
    with FaultyServer(double, latency_s=0.02) as server:
        engine = transport(num_concurrent=8)

        async def work(n: int) -> Any:
            return (await send(engine, server.url, n)).value

        window = engine.window(range(1000), work)
        for _ in range(20):
            next(window)
        window.close()  # type: ignore[attr-defined]
        # The pool is as good as new. What was on its way at the close may reach the server late, but
        # nothing is sent any more: a window still at work would send 80 more during these ten.
        assert [ask(engine, server.url, 2000 + n).value for n in range(10)] == [
            4000 + 2 * n for n in range(10)
        ]
        late = [seen for seen in server.requests if json.loads(seen.raw)["n"] < 1000]
        assert 20 <= len(late) <= 28
        gc.collect()  # a task left pending would be complained about here


def test_inside_a_running_loop_as_in_a_notebook(transport: Make) -> None:
    with FaultyServer(double, latency_s=(0.0, 0.01)) as server:
        engine = transport(num_concurrent=8)
        plain = ask_all(engine, server.url, 50)

        async def cell() -> tuple[dict[int, Any], Any]:
            return ask_all(engine, server.url, 50), ask(engine, server.url).value

        assert asyncio.run(cell()) == (plain, 42)
        assert ask_all(engine, server.url, 50) == plain


def test_in_another_thread(transport: Make) -> None:
    with FaultyServer(double) as server:
        found: dict[int, Any] = {}
        engine = transport(num_concurrent=4)
        thread = threading.Thread(target=lambda: found.update(ask_all(engine, server.url, 30)))
        thread.start()
        thread.join(240)
        assert found == {n: 2 * n for n in range(30)}


def test_running_inside_its_own_loop_is_a_mistake_that_is_named(transport: Make) -> None:
    engine = transport()

    async def inner() -> None: ...

    async def outer() -> None:
        engine.run(inner())

    with pytest.raises(RuntimeError, match="await the coroutine"):
        engine.run(outer())


def test_a_closed_transport_opens_again() -> None:
    with FaultyServer(double) as server:
        engine = make()
        ask(engine, server.url)
        engine.close()
        engine.close()
        ask(engine, server.url)
        assert server.connections == 2
        engine.close()


def test_a_transport_that_is_dropped_closes_itself() -> None:
    """Warnings are errors here: an open session or loop would fail the test."""
    with FaultyServer(double) as server:
        engine = make()
        ask(engine, server.url)
        del engine
        gc.collect()


def test_memory_does_not_grow_with_the_number_of_jobs(transport: Make) -> None:
    with FaultyServer(double) as server:
        engine = transport(num_concurrent=8)
        padding = "y" * 10_000

        async def work(n: int) -> Any:
            body = json.dumps({"n": n, "padding": padding}).encode()
            return (await engine.request(server.url, body, HEADERS, twice)).value

        def peak(count: int) -> int:
            with memory() as used:
                for _ in engine.window(range(count), work):
                    server.requests.clear()
            return used[0]

        peak(20)
        assert peak(600) < peak(60) + 2_000_000


# -- slowing down ----------------------------------------------------------------------------------


def test_a_refusal_holds_back_the_whole_window(transport: Make) -> None:
    """While the server wants a pause no other request leaves, so no other is refused."""
    asked = Fault(429, headers=(("Retry-After", "1"),))
    with FaultyServer(double, faults=in_turn(*[None] * 8, asked), latency_s=0.005) as server:
        engine = transport(num_concurrent=4)
        answers = ask_all(engine, server.url, 40)
        assert answers == {n: 2 * n for n in range(40)}
        assert engine.retries == 1


def test_a_server_that_only_wants_it_slower_gets_it_slower(transport: Make) -> None:
    """Twelve workers at a server for two: refused more often than ``max_retries``, yet all succeed."""
    with FaultyServer(double, latency_s=0.05, capacity=2, refuses=True) as server:
        answers = ask_all(transport(num_concurrent=12, max_retries=1), server.url, 40)
        assert answers == {n: 2 * n for n in range(40)}
        assert server.most_at_once == 2
        assert len(server.requests) > 40


def test_an_allowance_that_is_used_up_is_waited_for(transport: Make) -> None:
    def allowance(seen: Seen) -> list[tuple[str, str]]:
        left = max(0, 9 - seen.place)
        return [
            ("x-ratelimit-remaining-requests", str(left)),
            ("x-ratelimit-reset-requests", "50ms"),
        ]

    with FaultyServer(double, reply_headers=allowance) as server:
        begun = time.monotonic()
        ask_all(transport(num_concurrent=1), server.url, 14)
        assert time.monotonic() - begun > 4 * 0.05


@pytest.mark.parametrize("refuses", [True, False])
def test_auto_finds_out_what_the_server_can_do(transport: Make, refuses: bool) -> None:
    with FaultyServer(double, latency_s=0.02, capacity=8, refuses=refuses) as server:
        engine = transport(num_concurrent="auto", max_retries=8)
        for _ in range(10):  # the first will do, unless the machine itself stutters
            answers = ask_all(engine, server.url, 400)
            assert answers == {n: 2 * n for n in range(400)}
            if server.most_at_once == 8:
                break
        assert server.most_at_once == 8  # it grew to what is there
        assert engine.retries < engine.sent / 2  # and does not hammer on the door


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_loop", [False, True], ids=["plain", "inside a loop"])
def test_ctrl_c_ends_at_once_and_leaves_nothing(tmp_path: Path, in_loop: bool) -> None:
    program = textwrap.dedent(
        """
        import asyncio, json, sys
        from lm_eval.models.http.client import TransportOptions
        from lm_eval.models.http.transport import Transport

        transport = Transport(TransportOptions(num_concurrent=8, timeout_s=120))

        async def work(n):
            body = json.dumps({"n": n}).encode()
            return (await transport.request(sys.argv[1], body, {}, json.loads)).value

        def main():
            try:
                for done, _ in enumerate(transport.window(range(10_000), work)):
                    if done == 5:
                        print("going", flush=True)
            except KeyboardInterrupt:
                transport.close()
                print("interrupted", flush=True)

        async def cell():
            main()

        if sys.argv[2] == "True":  # not asyncio.run, which keeps the first Ctrl-C to itself
            loop = asyncio.new_event_loop()
            loop.run_until_complete(cell())
            loop.close()
        else:
            main()
        """
    )

    def slow_later(seen: Seen) -> Fault | None:
        return Fault("silent") if seen.place > 30 else None

    with FaultyServer(double, faults=slow_later) as server:
        process = python_started(
            "-X", "dev", "-W", "error", "-c", program, server.url, str(in_loop)
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "going\n"
            # 31 that were answered and 8 that never will be: by now it waits.
            while len(server.requests) < 39 and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
            process.wait()
    assert out == "interrupted\n"
    complaints = [line for line in err.splitlines() if not line.startswith("Executing <")]
    assert complaints == []  # the development mode of Python tells of every slow step
    assert process.returncode == 0
