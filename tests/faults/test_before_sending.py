"""Faults before anything is sent: repeated, and then `not_sent`, for money as for look-ups."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import aiohttp
import pytest
import trustme

from gateway_async import (
    BatchPolicy,
    CertificateError,
    ConfigurationError,
    NotSentError,
    OutcomeUnknownError,
    Timeouts,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import NoReply
from tests.faults.deeds import (
    ATTEMPTS,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    Attempts,
    Refund,
    Told,
    Trial,
    client,
    with_deeds,
)
from tests.orders import orders_for
from tests.support.clock import Clock
from tests.support.servers import AtOnce, Listener, Proxy, bind, full_backlog, tls_of, trust_in


def check_not_sent(trial: Trial, told: Told, attempts: Attempts) -> None:
    assert told.status is NOT_SENT
    assert type(told.error) is NotSentError
    assert attempts.count == ATTEMPTS
    assert trial.requests == 0
    if told.result is not None:
        assert (told.result.requests, told.result.retries) == (0, ATTEMPTS - 1)


@asynccontextmanager
async def refusing(_: Clock) -> AsyncIterator[str]:
    with bind() as bound:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def never_taken(clock: Clock) -> AsyncIterator[str]:
    with full_backlog() as url:
        async with clock.racing():
            yield url


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
    async with Listener(says, hangs_up=hangs_up) as listener:
        listener.on_silence = clock.advance
        yield listener.base_url.replace("http:", "https:")
    assert listener.connections == ATTEMPTS


UNREACHABLE: "dict[str, Callable[[Clock], AbstractAsyncContextManager[str]]]" = {
    "a connection that is refused": refusing,
    "a connection that is never taken": never_taken,
    "a name that cannot be resolved": unresolved,
    "a TLS handshake that never ends": partial(no_tls, hangs_up=False),
    "a TLS handshake that is cut": no_tls,
    "HTTP in the place of TLS": partial(no_tls, says=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "an alert of TLS": partial(no_tls, says=b"\x15\x03\x01\x00\x02\x02\x28"),
}


@with_deeds("where", UNREACHABLE)
async def test_what_reaches_no_gateway_is_tried_again_and_was_not_sent(
    trial: Trial, where: str, clock: Clock
) -> None:
    attempts = Attempts()
    async with UNREACHABLE[where](clock) as url:
        told = await trial.run(url, limiter=attempts)
    check_not_sent(trial, told, attempts)


async def test_a_connection_that_is_refused_once(trial: Trial, sandbox: Sandbox) -> None:
    with bind() as bound:
        proxy = Proxy(sandbox.base_url, bound=bound)
        attempts = Attempts(before_second=proxy.__aenter__)
        told = await trial.run(f"http://127.0.0.1:{bound.getsockname()[1]}", limiter=attempts)
        await proxy.__aexit__()
    assert told.status is SUCCEEDED
    assert (attempts.count, trial.requests) == (2, 1)


async def test_a_name_that_is_resolved_at_the_second_attempt(
    trial: Trial, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    async def recover() -> None:
        monkeypatch.undo()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    attempts = Attempts(before_second=recover)
    told = await trial.run(sandbox.base_url.replace("127.0.0.1", "localhost"), limiter=attempts)
    assert told.status is SUCCEEDED
    assert (attempts.count, trial.requests) == (2, 1)


async def test_a_connection_that_is_never_taken_until_the_time_is_over(
    trial: Trial, clock: Clock
) -> None:
    attempts, limits = Attempts(), Timeouts(total_seconds=5)
    async with never_taken(clock) as url:
        told = await trial.run(url, limiter=attempts, timeouts=limits)
    assert told.status is NOT_SENT
    assert attempts.count == 1


async def test_a_pool_that_is_exhausted(trial: Trial, sandbox: Sandbox, clock: Clock) -> None:
    """The one connection is held by another call, which is not answered."""
    sandbox.faults.add("capture", NoReply())
    attempts = Attempts()
    held = Refund(sandbox, size=1)
    async with client(
        sandbox,
        max_connections=1,
        limiter=attempts,
        timeouts=Timeouts(reply_seconds=10_000, total_seconds=10_000),
        policy=BatchPolicy(concurrency=1, drain_seconds=0),
    ) as gateway:
        call = asyncio.create_task(gateway.call("/v1/capture", {"capture_orders": []}))
        while not sandbox.requests["capture"]:  # noqa: ASYNC110  # the loop does the work
            await asyncio.sleep(0)
        async with clock.racing():
            told = await trial.run_with(gateway)
        call.cancel()
        await asyncio.wait([call])
    assert held.effects() == [0]
    attempts.count -= 1
    check_not_sent(trial, told, attempts)


async def test_batches_that_share_a_connection_take_turns(sandbox: Sandbox) -> None:
    """Else the first would keep it, and the others time out: no gateway need fail for that."""
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    async with client(sandbox, max_connections=1, policy=policy) as gateway:
        orders = orders_for("refund", sandbox.seed(60, status="captured"))
        batches = [gateway.refund(orders[start::3]) for start in range(3)]
        tasks = [asyncio.create_task(batch) for batch in batches]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        settled = [batch.progress.counts[SUCCEEDED] for batch in batches]
        await asyncio.gather(*tasks)
    assert max(settled) == 20
    assert min(settled) >= 18


async def test_who_got_no_connection_leaves_its_place_to_the_next(trial: Trial) -> None:
    with bind() as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        told = await trial.run(url, max_connections=1)
    assert told.status is NOT_SENT
    assert "Timeout" not in str(told.error)  # as the first attempt, so the last


async def test_who_is_cancelled_leaves_its_place_to_the_next(
    trial: Trial, sandbox: Sandbox
) -> None:
    sandbox.faults.add("capture", NoReply())
    policy = BatchPolicy(concurrency=1, drain_seconds=0)
    async with client(sandbox, max_connections=1, policy=policy) as gateway:
        holds, waits = (
            asyncio.create_task(gateway.call("/v1/capture", {"capture_orders": []}))
            for _ in range(2)
        )
        while not sandbox.requests["capture"]:  # noqa: ASYNC110  # the loop does the work
            await asyncio.sleep(0)
        for call in (waits, holds):
            call.cancel()
            await asyncio.wait([call])
        assert (await trial.run_with(gateway)).status is SUCCEEDED


async def test_who_waits_for_a_connection_hears_that_the_client_was_closed(
    sandbox: Sandbox,
) -> None:
    sandbox.faults.add("capture", NoReply())
    async with client(sandbox, max_connections=1) as gateway:
        calls = [
            asyncio.create_task(gateway.call("/v1/capture", {"capture_orders": []}))
            for _ in range(4)
        ]
        while not sandbox.requests["capture"]:  # noqa: ASYNC110  # the loop does the work
            await asyncio.sleep(0)
    first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert type(first) is OutcomeUnknownError
    assert [type(error) for error in others] == [ConfigurationError] * 3
    assert all("is closed" in str(error) for error in others)
    assert sandbox.requests["capture"] == 1


async def test_a_connection_that_is_reset_as_soon_as_it_is_taken(
    trial: Trial, proxy: Proxy
) -> None:
    """Whether anything was sent is a race; what the client says of it is no guess."""
    proxy.always(AtOnce())
    told = await trial.run(proxy.base_url)
    assert told.status in (NOT_SENT, UNKNOWN)
    assert trial.requests == 0
    if told.status is UNKNOWN and not trial.kind.is_read and told.result is not None:
        assert told.result.requests == 1


@pytest.mark.parametrize("wrong", ["authority", "name", "pin"])
async def test_a_certificate_that_is_not_the_right_one(
    trial: Trial,
    sandbox: Sandbox,
    authority: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    if wrong == "name":
        trust(authority, monkeypatch)
    tls = tls_of(authority, "other.example") if wrong == "name" else tls_of(authority)
    pinned = aiohttp.TCPConnector(ssl=aiohttp.Fingerprint(b"\xab" * 32))
    attempts = Attempts()
    async with (
        Proxy(sandbox.base_url, tls=tls) as proxy,
        aiohttp.ClientSession(connector=pinned) as session,
    ):
        given = {"session": session} if wrong == "pin" else {}
        told = await trial.run(proxy.base_url, limiter=attempts, **given)
    assert told.status is NOT_SENT
    assert {type(error) for error in told.errors} == {CertificateError}
    assert ("ab" * 32 if wrong == "pin" else "certificate") in str(told.error)
    assert (attempts.count, proxy.requests, trial.requests) == (1, 0, 0)


@pytest.mark.parametrize("trial", ["query", "refund"], indirect=True)
async def test_an_invalid_certificate_stops_the_batch(
    trial: Trial, sandbox: Sandbox, authority: trustme.CA
) -> None:
    attempts = Attempts()
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    async with (
        Proxy(sandbox.base_url, tls=tls_of(authority)) as proxy,
        client(sandbox, proxy.base_url, limiter=attempts, policy=policy) as gateway,
    ):
        told = await trial.run_with(gateway, size=5)
    assert told.statuses == [NOT_SENT] * 5
    assert type(told.error) is CertificateError
    assert all("certificate" in str(error) for error in told.errors)
    assert (attempts.count, proxy.requests) == (1, 0)


async def test_a_certificate_that_is_trusted(
    trial: Trial, sandbox: Sandbox, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(authority, monkeypatch)
    async with Proxy(sandbox.base_url, tls=tls_of(authority)) as proxy:
        told = await trial.run(proxy.base_url)
    assert told.status is SUCCEEDED
    assert (proxy.requests, trial.requests) == (1, 1)


def trust(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let aiohttp's own TLS settings trust an authority."""
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trust_in(authority))
