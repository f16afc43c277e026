"""A connection that died while it was idle is no lost reply: after a pause it is not used."""

import asyncio
import socket
from typing import Any

import aiohttp
import attrs
import pytest
import trustme

from gateway_async import GatewayClient, OutcomeUnknownError
from tests.faults.trial import Trial
from tests.orders import client_at
from tests.support.clock import Clock
from tests.support.collaborators import Limiter
from tests.support.servers import End, Proxy, read_message, serving, tls_of, trust_in

KEPT_SECONDS, WARY_SECONDS = 1.01, 60.1
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def called(gateway: GatewayClient) -> bool:
    """Make a call, and say whether it was answered."""
    try:
        return bool((await gateway.call("/v1/x", {}, reply="text")).data == "ok")
    except OutcomeUnknownError:
        return False


@pytest.mark.parametrize(
    ("end", "pause_seconds", "used"),
    [
        *((end, KEPT_SECONDS, 3) for end in End),
        *((end, 0, 3) for end in (End.RESET, End.CLOSE)),  # which is seen
        (None, 0, 1),
    ],
)
async def test_a_connection_that_ended_is_not_used(
    trial: Trial, proxy: Proxy, clock: Clock, end: End | None, pause_seconds: float, used: int
) -> None:
    async with trial.client(proxy.base_url) as gateway:
        for number in (1, 2, 3):
            assert (await trial.run_with(gateway)).ok
            assert (proxy.connections, proxy.requests) == (min(number, used), number)
            if end is not None:
                proxy.end_idle(end)
            for _ in range(0 if pause_seconds else 20):  # what has arrived is seen
                await asyncio.sleep(0)
            clock.advance(pause_seconds)


@pytest.mark.parametrize("over_tls", [False, True])
async def test_the_end_of_a_connection_is_seen_before_it_is_used_again(
    authority: trustme.CA, over_tls: bool
) -> None:
    """The loop has not heard of it. By TLS it comes a turn later, and without a farewell."""
    connections, idle = 0, list[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_message(reader)
        writer.write(OK)
        idle.append(writer)
        await reader.read()

    def end_idle(_: int) -> None:
        """End a connection as a limiter is entered: right before the next request leaves."""
        while idle:
            idle.pop().get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    tls = tls_of(authority) if over_tls else None
    settings: dict[str, Any] = {"ssl": trust_in(authority), "limiter": Limiter(end_idle)}
    async with serving(serve, tls=tls) as url, client_at(url, **settings) as client:
        for number in (1, 2, 3):
            reply = await client.call("/v1/x", {}, body="json", reply="text")
            assert (reply.data, connections) == ("ok", number)


@attrs.define
class Grudging:
    """A gateway that answers the first requests of each connection as it should."""

    most: int = 1  # how many
    last_word: bytes = b""  # what it says to the next one
    connections: int = 0  # how many it took

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self.most):
            await read_message(reader)
            writer.write(OK)
        await read_message(reader)  # the next: it may be carried out
        writer.write(self.last_word)


TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def test_a_connection_over_tls_is_used_again_by_uvloop(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: 0.0)  # none is too old
    gateway, uvloop = Grudging(most=3), pytest.importorskip("uvloop")

    async def work() -> list[bool]:
        async with (
            serving(gateway.serve, tls=tls_of(authority)) as address,
            client_at(address, ssl=trust_in(authority)) as client,
        ):
            return [await called(client) for _ in range(3)]

    assert uvloop.run(work()) == [True] * 3
    assert gateway.connections == 1


@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize("last_word", [b"", TIMED_OUT])
async def test_that_a_gateway_ends_used_connections_is_learnt_and_tried_again_with_one(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, last_word: bytes, *, is_given: bool
) -> None:
    """Tried by all at once, each minute lost as many replies, and they stopped a batch."""
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: 0.0)  # none is too old
    gateway = Grudging(last_word=last_word)
    async with (
        aiohttp.ClientSession() as given,
        serving(gateway.serve) as address,
        client_at(address, session=given if is_given else None) as client,
    ):
        assert [await called(client) for _ in range(6)] == [True, False] * 3
        for _ in range(3):
            assert all(await asyncio.gather(*(called(client) for _ in range(8))))
            clock.advance(WARY_SECONDS)
            answered = await asyncio.gather(*(called(client) for _ in range(8)))
            assert answered.count(False) == 1
        gateway.most = 100
        assert await called(client)
        before = gateway.connections
        clock.advance(WARY_SECONDS)
        assert all([await called(client) for _ in range(10)])
        assert gateway.connections == before
