"""Which of several servers the next request goes to."""

from __future__ import annotations

import asyncio

from lm_eval.models.http.servers import Server, Servers


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


def test_a_server_that_comes_back_with_another_model_is_out_for_good() -> None:
    async def check(_: Server) -> str | None:
        return "it serves another model."

    servers = Servers(2, 2, check)
    servers.take_out(servers.all[0], "gone")
    assert not back(servers, servers.all[0])
    assert servers.all[0].is_refused
    assert not back(servers, servers.all[0])
