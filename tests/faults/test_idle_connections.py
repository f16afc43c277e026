"""A connection that died while it was idle is no lost reply: after a pause it is not used."""

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import trustme

from gateway_async import GatewayClient, OutcomeUnknownError, RetryPolicy
from tests.faults.deeds import SUCCEEDED, Trial
from tests.orders import client_at
from tests.support.clock import Clock
from tests.support.servers import End, Proxy, bind, read_message, serving, tls_of, trust_in

if TYPE_CHECKING:
    import ssl

KEPT_SECONDS, WARY_SECONDS = 1.01, 60.1
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def called(gateway: GatewayClient) -> bool:
    """Make a call, and say whether it was answered."""
    try:
        return bool((await gateway.call("/v1/x", {}, reply="text")).data == "ok")
    except OutcomeUnknownError:
        return False


async def turn_the_loop() -> None:
    """Let what has arrived be seen."""
    for _ in range(20):
        await asyncio.sleep(0)


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
            assert (await trial.run_with(gateway)).status is SUCCEEDED
            assert (proxy.connections, proxy.requests) == (min(number, used), number)
            if end is not None:
                proxy.end_idle(end)
            if not pause_seconds:
                await turn_the_loop()
            clock.advance(pause_seconds)


class Abrupt:
    """A gateway on a thread of its own: it ends a connection while the client's loop stands still.

    Attributes:
        connections: How many it took.
    """

    def __init__(self, bound: socket.socket, tls: "ssl.SSLContext | None") -> None:
        self.connections = 0
        self._tls, self._is_open = tls, False
        self._listening = bound
        self._ends, self._ended = threading.Event(), threading.Event()
        bound.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    async def __aenter__(self) -> None:
        """End the connection under way, as a limiter: right before the next request leaves."""
        if self._is_open:
            self._is_open = False
            self._ends.set()
            self._ended.wait()
            self._ended.clear()

    async def __aexit__(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the test closes what it listens on
            while True:
                taken, _ = self._listening.accept()
                self.connections += 1
                if self._tls is not None:
                    taken = self._tls.wrap_socket(taken, server_side=True)
                while b"}" not in taken.recv(65536):
                    pass
                self._is_open = True
                taken.sendall(OK)
                self._ends.wait()
                self._ends.clear()
                taken.close()
                self._ended.set()


@pytest.mark.parametrize("over_tls", [False, True])
async def test_the_end_of_a_connection_is_seen_before_it_is_used_again(
    authority: trustme.CA, *, over_tls: bool
) -> None:
    """The loop has not heard of it. By TLS it comes a turn later, and without a farewell."""
    tls = tls_of(authority) if over_tls else None
    with bind() as bound:
        gateway = Abrupt(bound, tls)
        url = f"http{'s' * over_tls}://127.0.0.1:{bound.getsockname()[1]}"
        settings: dict[str, Any] = {"ssl": trust_in(authority), "limiter": gateway}
        async with client_at(url, **settings) as client:
            for number in (1, 2, 3):
                reply = await client.call("/v1/x", {}, body="json", reply="text")
                assert (reply.data, gateway.connections) == ("ok", number)
        bound.shutdown(socket.SHUT_RDWR)


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
            writer.write(OK)
        if self.idles is None:
            await read_message(reader)  # the next: it may be carried out
            writer.write(self.last_word)
            return
        await self.idles.wait()
        self.idles.clear()
        writer.write(self.last_word)
        await reader.read()  # until the other side has closed


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


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("last_word", [b"", TIMED_OUT])
async def test_that_a_gateway_ends_used_connections_is_learnt(last_word: bytes) -> None:
    """Each loss may have been carried out; that every other request is lost need not go on."""
    gateway = Grudging(last_word=last_word)
    async with serving(gateway.serve) as address, client_at(address) as client:
        assert [await called(client) for _ in range(12)] == [True, False] * 3 + [True] * 6


async def test_whether_a_gateway_still_ends_used_connections_is_learnt_from_one(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried by all at once, each minute lost as many replies, and they stopped a batch."""
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: 0.0)  # none is too old
    gateway = Grudging()
    async with serving(gateway.serve) as address, client_at(address) as client:
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


async def test_a_reply_to_nothing_on_a_connection_of_a_given_session_spoils_no_request() -> None:
    """As some gateways end what idles. The session knows nothing of it, nor does aiohttp look."""
    gateway = Grudging(last_word=TIMED_OUT)
    gateway.idles = asyncio.Event()
    retry = RetryPolicy(first_pause_seconds=0)
    async with (
        serving(gateway.serve) as address,
        aiohttp.ClientSession() as session,
        client_at(address, session=session, retry=retry) as client,
    ):
        for number in range(4):
            assert await called(client)
            assert gateway.connections == number + 1
            gateway.idles.set()
            await turn_the_loop()
