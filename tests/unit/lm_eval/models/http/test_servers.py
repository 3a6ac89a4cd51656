"""Which of several servers the next request goes to."""

from __future__ import annotations

import asyncio

import pytest

from lm_eval.errors import RequestError
from lm_eval.models.http.failures import HUNG_UP, REFUSED
from lm_eval.models.http.servers import FAULTS_IN_A_ROW, ONLY, Server, Servers


def taken(servers: Servers, count: int) -> list[int]:
    async def take() -> list[int]:
        return [(await servers.take()).number for _ in range(count)]

    return asyncio.run(take())


def test_places_go_to_the_least_busy_and_each_server_has_its_own_window() -> None:
    servers = Servers(4, 3)
    assert sorted(taken(servers, 12)) == [0] * 4 + [1] * 4 + [2] * 4
    assert servers.size == 12
    assert [server.has_room for server in servers.all] == [False] * 3


def test_without_room_a_request_waits_until_a_place_is_given_back() -> None:
    async def main() -> tuple[bool, int]:
        servers = Servers(1, 2)
        first, _ = await servers.take(), await servers.take()
        waiting = asyncio.ensure_future(servers.take())
        await asyncio.sleep(0)
        was_waiting = not waiting.done()
        servers.give_back(first)
        return was_waiting, (await waiting).number - first.number

    assert asyncio.run(main()) == (True, 0)


def test_a_failed_request_goes_elsewhere() -> None:
    async def main() -> tuple[int, int]:
        servers = Servers(4, 2)
        first = await servers.take()
        servers.give_back(first)
        second = await servers.take(but=[first])
        return first.number, second.number

    first, second = asyncio.run(main())
    assert first != second


def test_a_paused_server_is_passed_over() -> None:
    servers = Servers(2, 2)
    servers.all[0].pace.pause(60)
    assert taken(servers, 2) == [1, 1]
    assert servers.size == 2
    servers.all[1].pace.pause(60)
    assert servers.size == 4  # all want one: then requests wait at any of them


def test_what_takes_a_server_out() -> None:
    servers = Servers(2, 2)
    first, second = servers.all
    for fault in range(FAULTS_IN_A_ROW):
        assert first.is_in, fault
        servers.failed(first, HUNG_UP)
    assert not first.is_in
    servers.failed(second, HUNG_UP)
    servers.answered(second)
    servers.failed(second, HUNG_UP)
    assert second.is_in  # an answer in between
    servers.failed(second, REFUSED)
    assert not second.is_in


def back(servers: Servers, server: Server) -> bool:
    """Whether a server that is out is in again after its check."""

    async def main() -> bool:
        server._due_at = 0.0
        other = await servers.take()
        servers.give_back(other)
        while servers._checks:
            await asyncio.sleep(0)
        return server.is_in

    return asyncio.run(main())


def test_a_server_is_checked_before_it_is_back() -> None:
    asked: list[int] = []
    answers: list[str | Exception | None] = [RequestError("still dead"), None]

    async def check(number: int) -> str | None:
        asked.append(number)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    servers = Servers(2, 2, check)
    servers.take_out(servers.all[0], "gone")
    assert not back(servers, servers.all[0])
    assert servers.all[0].why_out == "still dead"
    assert back(servers, servers.all[0])
    assert asked == [0, 0]
    assert servers.all[0].times_out == 1


def test_a_server_that_comes_back_with_another_model_is_out_for_good() -> None:
    async def check(_: int) -> str | None:
        return "it serves another model."

    servers = Servers(2, 2, check)
    servers.take_out(servers.all[0], "gone")
    assert not back(servers, servers.all[0])
    assert servers.all[0].is_refused
    assert not back(servers, servers.all[0])


def test_one_server_can_be_asked_whatever_its_state() -> None:
    servers = Servers(1, 2)
    servers.take_out(servers.all[0], "gone")
    token = ONLY.set(0)
    try:
        assert taken(servers, 2) == [0, 0]
    finally:
        ONLY.reset(token)


def test_when_all_are_refused_the_run_stops() -> None:
    servers = Servers(1, 2)
    for server in servers.all:
        servers.take_out(server, f"number {server.number} is another model.")
        server.is_refused = True
    with pytest.raises(RequestError, match="None of the 2 servers answers: number 0 is") as caught:
        taken(servers, 1)
    assert caught.value.stops_run
