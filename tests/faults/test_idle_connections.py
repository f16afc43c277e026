"""A connection that died while it was idle is no lost reply: after a pause it is not used."""

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trustme

from gateway_async import GatewayClient, OutcomeUnknownError
from tests.faults.trial import Trial
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


@attrs.define
class Grudging:
    """A gateway that answers the first requests of each connection as it should.

    Attributes:
        most: How many.
        last_word: What it says to the next one.
        connections: How many it took.
    """

    most: int = 1
    last_word: bytes = b""
    connections: int = 0

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
