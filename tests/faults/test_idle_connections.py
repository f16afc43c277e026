"""A connection that died while it was idle is no lost reply: after a pause it is not used."""

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import trustme
from aiohttp.client_proto import ResponseHandler

from gateway_async import (
    Credentials,
    GatewayClient,
    HmacSigner,
    OutcomeUnknownError,
    RetryPolicy,
    Timeouts,
)
from gateway_async.transport import http
from gateway_async.transport.http import KEEP_IDLE_SECONDS, Pool
from gateway_async.transport.tracked import arrivals_on, has_unread
from tests.faults.deeds import SUCCEEDED, UNKNOWN, Trial, client
from tests.support.servers import End, Proxy, read_message, serving, tls_of, trust_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp.connector import Connection

HASTY = Timeouts(connect_seconds=5, reply_seconds=0.3, total_seconds=20)


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> "Callable[[float], None]":
    """Let time go by for the pool of connections, by this alone and for nothing else."""
    now = 1000.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: now)
    return advance


async def turn_the_loop() -> None:
    """Let what has arrived be seen."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("end", End)
async def test_a_connection_that_dies_in_a_pause(
    trial: Trial, proxy: Proxy, wait: "Callable[[float], None]", end: End
) -> None:
    async with client(trial.sandbox, proxy.base_url) as gateway:
        for used in (1, 2, 3):
            told = await trial.run_with(gateway)
            assert told.status is SUCCEEDED
            assert (proxy.connections, proxy.requests) == (used, used)
            proxy.end_idle(end)
            wait(KEEP_IDLE_SECONDS + 0.01)


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE])
async def test_a_connection_that_is_seen_to_end_is_not_used(
    trial: Trial, proxy: Proxy, end: End
) -> None:
    async with client(trial.sandbox, proxy.base_url) as gateway:
        for _ in range(3):
            assert (await trial.run_with(gateway)).status is SUCCEEDED
            proxy.end_idle(end)
            await turn_the_loop()
    assert (proxy.connections, proxy.requests) == (3, 3)


async def test_a_connection_that_ends_once_it_is_chosen_is_not_written_to(
    trial: Trial, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it goes with a gateway that closes after each reply, and does not say so."""
    ending = 1

    class Connector(Pool):
        async def connect(self, *arguments: Any, **named: Any) -> "Connection":
            nonlocal ending
            connection = await super().connect(*arguments, **named)
            if ending and connection.transport is not None:
                ending -= 1
                connection.transport.close()
            return connection

    monkeypatch.setattr(http, "Pool", Connector)
    async with client(trial.sandbox, proxy.base_url) as gateway:
        assert (await trial.run_with(gateway)).status is SUCCEEDED
    assert (proxy.requests, ending) == (1, 0)


async def is_at_rest(protocol: ResponseHandler) -> bool:
    """Say whether a connection is open and silent, once what has arrived by now is read."""
    transport = protocol.transport
    assert transport is not None
    return not await has_unread(arrivals_on(transport)) and protocol.is_connected()


async def test_the_end_of_a_connection_is_seen_before_it_is_used_again() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    _, protocol = await loop.create_connection(lambda: ResponseHandler(loop), sock=ours)
    assert await is_at_rest(protocol)
    theirs.close()  # and the loop has not heard of it
    assert not await is_at_rest(protocol)


async def test_a_silent_connection_is_used_again_without_a_turn_of_the_loop() -> None:
    """Else whoever has its reply waits until all others have judged theirs."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with theirs:
        _, protocol = await loop.create_connection(lambda: ResponseHandler(loop), sock=ours)
        turns: list[None] = []
        loop.call_soon(turns.append, None)
        assert await is_at_rest(protocol)
        assert not turns


async def test_the_end_of_a_connection_by_tls_is_seen_before_it_is_used_again() -> None:
    """It comes a turn of the loop later: a gateway that closes its socket alone says no word."""
    loop, authority = asyncio.get_running_loop(), trustme.CA()
    of_gateway = tls_of(authority, "localhost")
    of_gateway.maximum_version = ssl.TLSVersion.TLSv1_2  # in which nothing follows the handshake
    of_client = trust_in(authority)
    ours, bare = socket.socketpair()
    (_, protocol), theirs = await asyncio.gather(
        loop.create_connection(
            lambda: ResponseHandler(loop), sock=ours, ssl=of_client, server_hostname="localhost"
        ),
        asyncio.to_thread(of_gateway.wrap_socket, bare, server_side=True),
    )
    assert await is_at_rest(protocol)
    theirs.close()
    assert not await is_at_rest(protocol)


@pytest.mark.usefixtures("wait")
async def test_a_connection_is_used_again_at_once(trial: Trial, proxy: Proxy) -> None:
    async with client(trial.sandbox, proxy.base_url) as gateway:
        for _ in range(3):
            assert (await trial.run_with(gateway)).status is SUCCEEDED
    assert (proxy.connections, proxy.requests) == (1, 3)


@pytest.mark.usefixtures("wait")
async def test_a_connection_that_dies_unseen_between_two_calls_at_once(
    trial: Trial, proxy: Proxy
) -> None:
    """Nobody could know: the look-up is repeated on a new one, the money is `unknown`."""
    async with client(trial.sandbox, proxy.base_url, timeouts=HASTY) as gateway:
        assert (await trial.run_with(gateway)).status is SUCCEEDED
        proxy.end_idle(End.SILENCE)
        told = await trial.run_with(gateway)
    assert told.status is trial.by_kind(read=SUCCEEDED, money=UNKNOWN)
    assert proxy.requests == trial.by_kind(read=3, money=2)
    assert trial.by_kind(read=True, money=not any(trial.effects))


def test_idle_connections_are_kept_for_a_second_at_most() -> None:
    assert 0 < KEEP_IDLE_SECONDS <= 1


class Grudging:
    """A gateway that answers the first requests of each connection as it should.

    Args:
        most: How many.
        last_word: What it says to the next one, or, where `idles` is set, of its own.
    """

    def __init__(self, *, most: int = 1, last_word: bytes = b"") -> None:
        self.most = most
        self.last_word = last_word
        self.connections = 0
        self.idles: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self.most):
            await read_message(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if self.idles is None:
            await read_message(reader)  # the next: it may be carried out
            writer.write(self.last_word)
            return
        await self.idles.wait()
        self.idles.clear()
        writer.write(self.last_word)
        await reader.read()  # until the other side has closed


TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def _fast() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return loop


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, _fast])
def test_a_connection_over_tls_is_used_again(
    new_loop: "Callable[[], asyncio.AbstractEventLoop]",
) -> None:
    authority = trustme.CA()
    gateway = Grudging(most=3)

    async def work() -> list[bool]:
        async with (
            serving(gateway.serve, tls=tls_of(authority)) as address,
            aiohttp.ClientSession(connector=Pool(ssl=trust_in(authority))) as session,
            GatewayClient(address, CREDENTIALS, session=session) as client,
        ):
            return [await called(client) for _ in range(3)]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(work()) == [True] * 3
    assert gateway.connections == 1


async def called(gateway: GatewayClient) -> bool:
    """Make a call, and say whether it was answered."""
    try:
        return bool((await gateway.call("/v1/x", {}, reply="text")).data == "ok")
    except OutcomeUnknownError:
        return False


CREDENTIALS = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))


@pytest.mark.parametrize("last_word", [b"", TIMED_OUT])
async def test_that_a_gateway_ends_used_connections_is_learnt(last_word: bytes) -> None:
    """Each loss may have been carried out; that every other request is lost need not go on."""
    gateway = Grudging(last_word=last_word)
    async with serving(gateway.serve) as address, GatewayClient(address, CREDENTIALS) as client:
        assert [await called(client) for _ in range(12)] == [True, False] * 3 + [True] * 6


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """The pools that clients make."""
    made: list[Pool] = []

    class Connector(Pool):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr(http, "Pool", Connector)
    return made


@contextlib.asynccontextmanager
async def wary(gateway: Grudging) -> "AsyncIterator[GatewayClient]":
    """A client that has learnt that a gateway ends used connections."""
    async with serving(gateway.serve) as address, GatewayClient(address, CREDENTIALS) as client:
        assert [await called(client) for _ in range(6)] == [True, False] * 3
        yield client


async def lost_after_the_minute(client: GatewayClient, pool: Pool) -> int:
    """Fill the pool, and say how many of as many calls are lost once the minute is over."""
    assert all(await asyncio.gather(*(called(client) for _ in range(8))))
    pool._distrusts_until = 0.0
    answered = await asyncio.gather(*(called(client) for _ in range(8)))
    return answered.count(False)


async def test_that_a_gateway_still_ends_used_connections_is_learnt_from_one(
    pools: list[Pool],
) -> None:
    """Tried by all at once, each minute lost as many replies, and they stopped a batch."""
    async with wary(Grudging()) as client:
        assert [await lost_after_the_minute(client, pools[0]) for _ in range(3)] == [1, 1, 1]


async def test_that_a_gateway_ends_them_no_longer_is_learnt_from_one(pools: list[Pool]) -> None:
    gateway = Grudging()
    async with wary(gateway) as client:
        gateway.most = 100
        assert await called(client)
        before, pools[0]._distrusts_until = gateway.connections, 0.0  # as if the minute were over
        assert all([await called(client) for _ in range(10)])
        assert gateway.connections == before


async def test_a_reply_of_before_does_not_end_the_minute(pools: list[Pool]) -> None:
    """Else all would be tried at once when it is over: the losses in a row were forgotten."""
    async with wary(Grudging()) as client:
        pools[0].note(is_lost=False, is_trial=False)
        assert await lost_after_the_minute(client, pools[0]) == 1


async def test_a_reply_to_nothing_on_a_connection_of_a_given_session_spoils_no_request() -> None:
    """As some gateways end what idles. The session knows nothing of it, nor does aiohttp look."""
    gateway = Grudging(last_word=TIMED_OUT)
    gateway.idles = asyncio.Event()
    retry = RetryPolicy(first_pause_seconds=0)
    async with (
        serving(gateway.serve) as address,
        aiohttp.ClientSession() as session,
        GatewayClient(address, CREDENTIALS, session=session, retry=retry) as client,
    ):
        for number in range(4):
            assert await called(client)
            assert gateway.connections == number + 1
            gateway.idles.set()
            await turn_the_loop()
