"""The proof that nothing was sent: whether the body was ever asked to write itself."""

import asyncio
import socket
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import pytest

from gateway_async import (
    BatchPolicy,
    EvidenceError,
    GatewayError,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    ReplyTooLargeError,
    ReplyUnreadableError,
    RetryPolicy,
)
from tests.orders import client_at, refunds
from tests.session.http import mocked, replied
from tests.support.servers import body_of, read_message, serving

STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LOST = [
    aiohttp.ServerDisconnectedError(),
    aiohttp.ClientOSError(104, "Connection reset by peer"),
    aiohttp.ServerTimeoutError(),
    aiohttp.ConnectionTimeoutError(),
    aiohttp.ClientConnectionError("closed"),
    TimeoutError(),
    ConnectionResetError(),
    OSError("broken"),
]
UNREADABLE = [
    aiohttp.ClientPayloadError("quoted reply"),
    aiohttp.http_exceptions.BadHttpMessage("quoted reply"),
]


@pytest.mark.parametrize("came", [STRAY, STRAY[:-1], b"no reply\r\n\r\n", b""])
@pytest.mark.parametrize("turns", [0, 1, 20])
async def test_nothing_is_written_to_a_connection_that_is_not_silent(
    came: bytes, turns: int
) -> None:
    """It ends, or says something, when the session has chosen it: this would be the reply."""
    writers: list[asyncio.StreamWriter] = []
    requests: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(writers)
        writers.append(writer)
        while True:
            await read_message(reader)
            requests.append(number)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def chosen(*_: object) -> None:
        if came:
            writers[0].write(came)
        else:
            writers[0].get_extra_info("socket").shutdown(socket.SHUT_WR)
        for _turn in range(turns):
            await asyncio.sleep(0)

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(chosen)
    retry = RetryPolicy(first_pause_seconds=0)
    async with (
        serving(serve) as url,
        aiohttp.ClientSession(trace_configs=[trace]) as session,
        client_at(url, session=session, retry=retry) as gateway,
    ):
        for _ in range(2):
            assert (await gateway.call("/v1/x", {}, reply="text")).data == "ok"
    assert requests == [0, 1]


async def test_a_reply_that_comes_twice_is_not_taken_for_the_next() -> None:
    answered, repeated = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            name = parse_qs(body_of(await read_message(reader)).decode())["name"][0]
            text = f"HTTP/1.1 200 OK\r\nContent-Length: {len(name)}\r\n\r\n{name}"
            writer.write(text.encode())
            await answered.wait()
            answered.clear()
            writer.write(text.encode())
            repeated.set()

    retry = RetryPolicy(attempts=1)
    async with serving(serve) as url, client_at(url, retry=retry) as gateway:
        for name in ("first", "second", "third"):
            assert (await gateway.call("/v1/x", {"name": name}, reply="text")).data == name
            answered.set()
            await repeated.wait()
            repeated.clear()
            for _ in range(5):  # what lies in the socket is read in a turn of the loop
                await asyncio.sleep(0)


async def test_a_reply_to_a_body_that_was_never_written_is_a_loud_error() -> None:
    """So a mock that does not write bodies is found out, and no order is called done."""
    async with mocked(replied(b"{}"), path="/v1/refund") as (gateway, server):
        server.writes = False
        result = await gateway.refund(refunds(500), policy=BatchPolicy(concurrency=1))
    assert isinstance(result[0].error, EvidenceError)
    assert "HTTP 200" in str(result[0].error)
    assert len(server.calls) == 1
    assert result.counts[OutcomeStatus.UNKNOWN] == 50
    assert result.counts[OutcomeStatus.NOT_SENT] == 450


@pytest.mark.parametrize("failure", LOST + UNREADABLE, ids=lambda one: type(one).__name__)
async def test_the_same_failure_means_unknown_once_the_body_was_written(failure: Any) -> None:
    async with mocked(failure, path="/v1/refund") as (gateway, server):
        result = await gateway.refund(refunds(1))
    assert len(server.calls) == 1
    assert result.counts[OutcomeStatus.UNKNOWN] == 1
    _check_error(result[0].error, OutcomeUnknownError)
    assert isinstance(result[0].error, ReplyUnreadableError) is (failure in UNREADABLE)


@pytest.mark.parametrize("failure", LOST + UNREADABLE, ids=lambda one: type(one).__name__)
async def test_the_same_failure_means_not_sent_where_it_was_not(failure: Any) -> None:
    async with mocked(failure, path="/v1/refund") as (gateway, server):
        server.writes = False
        result = await gateway.refund(refunds(1))
    assert len(server.calls) == 4
    assert result.counts[OutcomeStatus.NOT_SENT] == 1
    assert result.requests == 0
    assert result.retries == 3
    _check_error(result[0].error, NotSentError)


def _check_error(error: GatewayError | None, wanted: type[GatewayError]) -> None:
    """Check that the error is ours, quotes no reply, and carries no frame of aiohttp's."""
    assert isinstance(error, wanted)
    assert "quoted" not in str(error)
    link: BaseException | None = error
    while link is not None:
        assert link.__traceback__ is None
        link = link.__cause__ or link.__context__


async def test_a_reply_above_the_limit_is_given_up() -> None:
    limits = {"max_reply_bytes": 1000}
    async with mocked(replied(b" " * 1001), path="/v1/x", **limits) as (gateway, _):
        with pytest.raises(ReplyTooLargeError, match="max_reply_bytes=1000"):
            await gateway.call("/v1/x", {}, reply="text")
    async with mocked(replied(b" " * 1000), path="/v1/x", **limits) as (gateway, _):
        assert len((await gateway.call("/v1/x", {}, reply="text")).data) == 1000


async def test_a_cancelled_call_says_what_became_of_it() -> None:
    async with mocked(replied(b'{"a":"1"}'), path="/v1/x") as (gateway, server):
        task = asyncio.create_task(gateway.call("/v1/x", {}))
        server.before = task.cancel
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    outcome = getattr(caught.value, "outcome", None)
    assert isinstance(outcome, NotSentError) or getattr(outcome, "data", None) == {"a": "1"}
    assert isinstance(outcome, NotSentError) is (server.bodies == [])
