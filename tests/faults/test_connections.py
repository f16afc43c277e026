"""Faults before anything is sent: repeated, and then `not_sent`, for money as for look-ups."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import attrs
import pytest
import trustme

from gateway_async import (
    BatchPolicy,
    CertificateError,
    ConfigurationError,
    GatewayClient,
    OutcomeUnknownError,
    RetryPolicy,
    Timeouts,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import NoReply
from tests.faults.conftest import ATTEMPTS, Trial, check_not_sent, status_of
from tests.support.books import NOT_SENT, SUCCEEDED
from tests.support.clock import Clock
from tests.support.collaborators import Limiter
from tests.support.interruptions import until
from tests.support.orders import client_at
from tests.support.servers import End, Proxy, bind, read_message, serving, tls_of, trust_in

ONE_BY_ONE = BatchPolicy(concurrency=1, chunk_size=1)
HASTY = BatchPolicy(concurrency=1, drain_seconds=0)


@asynccontextmanager
async def refusing(_: Clock) -> AsyncIterator[str]:
    with bind() as bound:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def never_taken(clock: Clock) -> AsyncIterator[str]:
    """Keep a port at which connections are neither taken nor refused: its queue is full."""
    with ExitStack() as stack:
        listening = stack.enter_context(bind())
        listening.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0)
            filler.connect_ex(listening.getsockname())
        async with clock.racing():
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def unresolved(_: Clock) -> AsyncIterator[str]:
    async def fail(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
        yield "https://gateway.invalid"


@asynccontextmanager
async def no_tls(clock: Clock, *, says: bytes = b"", hangs_up: bool = True) -> AsyncIterator[str]:
    """Listen, and speak no TLS to those who begin with it."""
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(says)
        await reader.read(65_536)
        if not hangs_up:
            clock.advance()
            await reader.read(-1)

    async with serving(answer) as url:
        yield url.replace("http:", "https:")
    assert connections == ATTEMPTS


UNREACHABLE: dict[str, Callable[[Clock], AbstractAsyncContextManager[str]]] = {
    "a connection that is refused": refusing,
    "a connection that is never taken": never_taken,
    "a name that cannot be resolved": unresolved,
    "a TLS handshake that never ends": partial(no_tls, hangs_up=False),
    "a TLS handshake that is cut": no_tls,
    "HTTP in the place of TLS": partial(no_tls, says=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}


@pytest.mark.parametrize("where", UNREACHABLE)
async def test_what_reaches_no_gateway_is_not_sent(trial: Trial, where: str, clock: Clock) -> None:
    attempts = Limiter()
    async with UNREACHABLE[where](clock) as url:
        result = await trial.run(url, limiter=attempts)
    check_not_sent(trial, result, attempts)


# One connection for all


async def hold(sandbox: Sandbox, gateway: GatewayClient, calls: int) -> list[asyncio.Task[Any]]:
    """Take the one connection by a call that is not answered; the other calls wait for it."""
    sandbox.faults.add("capture", NoReply())
    fields = {"capture_orders": list[object]()}
    tasks = [asyncio.create_task(gateway.call("/v1/capture", fields)) for _ in range(calls)]
    await until(lambda: sandbox.requests["capture"])
    return tasks


async def test_a_pool_that_is_exhausted(trial: Trial, sandbox: Sandbox, clock: Clock) -> None:
    attempts = Limiter()
    limits = Timeouts(reply_seconds=10_000, total_seconds=10_000)
    async with trial.client(
        limiter=attempts, timeouts=limits, policy=HASTY, max_connections=1
    ) as gateway:
        (call,) = await hold(sandbox, gateway, 1)
        attempts.entered = 0
        async with clock.racing():
            result = await trial.run_with(gateway)
        call.cancel()
        await asyncio.wait([call])
    check_not_sent(trial, result, attempts)


async def test_batches_that_share_a_connection_take_turns(sandbox: Sandbox) -> None:
    """Else the first would keep it, and the others time out: no gateway need fail for that."""
    trial = Trial(sandbox, "refund")
    orders = trial.orders(60)
    async with trial.client(max_connections=1, policy=ONE_BY_ONE) as gateway:
        batches = [gateway.refund(orders[start::3]) for start in range(3)]
        tasks = [asyncio.create_task(batch) for batch in batches]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        settled = [batch.progress.counts[SUCCEEDED] for batch in batches]
        await asyncio.gather(*tasks)
    assert max(settled) == 20
    assert min(settled) >= 18


async def test_a_failed_wait_frees_its_place(trial: Trial, sandbox: Sandbox, clock: Clock) -> None:
    async with refusing(clock) as url:
        result = await trial.run(url, max_connections=1)
    assert status_of(result) is NOT_SENT
    assert "Timeout" not in str(result[0].error)  # as the first attempt, so the last
    async with trial.client(max_connections=1, policy=HASTY) as gateway:
        for call in reversed(await hold(sandbox, gateway, 2)):
            call.cancel()
            await asyncio.wait([call])
        assert (await trial.run_with(gateway)).ok


@pytest.mark.parametrize("way", ["here", "with a session that stays open", "on another loop"])
async def test_no_wait_sends_once_the_client_is_closed(sandbox: Sandbox, way: str) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        made: dict[str, Any] = {"session": session} if "session" in way else {"max_connections": 1}
        async with Trial(sandbox, "capture").client(policy=HASTY, **made) as gateway:
            calls = await hold(sandbox, gateway, 4)
            if way == "on another loop":
                await asyncio.to_thread(asyncio.run, gateway.aclose())
            else:
                await gateway.aclose()
            if way != "here":
                calls[0].cancel()
            async with asyncio.timeout(120):
                first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert type(first) is (OutcomeUnknownError if way == "here" else asyncio.CancelledError)
    assert [type(error) for error in others] == [ConfigurationError] * 3
    assert all("is closed" in str(error) for error in others)
    assert sandbox.requests["capture"] == 1


# Certificates


@pytest.mark.parametrize("wrong", ["authority", "name", "pin"])
async def test_a_certificate_that_is_not_the_right_one_stops_the_batch(
    trial: Trial, sandbox: Sandbox, authority: trustme.CA, wrong: str
) -> None:
    tls = tls_of(authority, "other.example") if wrong == "name" else tls_of(authority)
    pinned = aiohttp.TCPConnector(ssl=aiohttp.Fingerprint(b"\xab" * 32))
    attempts = Limiter()
    async with (
        Proxy(sandbox.base_url, tls=tls) as proxy,
        aiohttp.ClientSession(connector=pinned) as session,
    ):
        settings: dict[str, dict[str, Any]] = {
            "authority": {},
            "name": {"ssl": trust_in(authority)},
            "pin": {"session": session},
        }
        result = await trial.run(
            proxy.base_url, limiter=attempts, policy=ONE_BY_ONE, **settings[wrong]
        )
    check_not_sent(trial, result, attempts, CertificateError)
    shown = "ab" * 32 if wrong == "pin" else "certificate"
    assert all(shown in str(outcome.error) for outcome in result)
    assert proxy.requests == 0


# A connection that died while it was idle is no lost reply: after a pause it is not used


WARY_SECONDS = 60.1
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
        ("reset", 0, 3),  # which is seen
        ("close", 0, 3),
        ("silence", 1.01, 3),  # which is not; it was idle for too long
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


STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    ("over_tls", "turns", "said"),
    [
        *((over_tls, None, b"") for over_tls in (False, True)),
        *(
            (False, turns, said)
            for turns in (0, 1, 20)
            for said in (STRAY, STRAY[:-1], b"no reply\r\n\r\n", b"")
        ),
    ],
)
async def test_nothing_is_written_to_a_connection_that_ended_or_said_something(
    authority: trustme.CA, over_tls: bool, turns: int | None, said: bytes
) -> None:
    """Right before it is chosen, or so many turns of the loop later; this would be the reply.

    By TLS its end comes a turn later, and without a farewell. Where what came reads as a reply,
    taking another connection is no second attempt.
    """
    numbers, requests, idle = itertools.count(), list[int](), list[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        idle.append(writer)
        while True:
            await read_message(reader)
            requests.append(number)
            writer.write(OK)

    async def end_idle(*_: object) -> None:
        for writer in idle:
            writer.write(said)
            if not said:
                how = socket.SHUT_RDWR if turns is None else socket.SHUT_WR
                writer.get_extra_info("socket").shutdown(how)
        idle.clear()
        for _turn in range(turns or 0):
            await asyncio.sleep(0)

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(end_idle)
    own: dict[str, Any] = {"ssl": trust_in(authority), "limiter": Limiter(end_idle)}
    retry = RetryPolicy(attempts=1 if said.startswith(STRAY[:-1]) else 2, first_pause_seconds=0)
    tls = tls_of(authority) if over_tls else None
    async with (
        serving(serve, tls=tls) as url,
        aiohttp.ClientSession(trace_configs=[trace]) as session,
        client_at(url, retry=retry, **(own if turns is None else {"session": session})) as client,
    ):
        for _ in range(3):
            assert await called(client)
    assert requests == [0, 1, 2]


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
