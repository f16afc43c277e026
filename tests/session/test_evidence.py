"""The proof that nothing was sent: whether the body was ever asked to write itself."""

import asyncio
import contextlib
import socket
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import StreamWriter

from gateway_async import (
    BatchPolicy,
    Credentials,
    EvidenceError,
    GatewayClient,
    GatewayError,
    HmacSigner,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    ReplyTooLargeError,
    ReplyUnreadableError,
    RetryPolicy,
)
from gateway_async.transport import HttpRequest, SendTracker
from gateway_async.transport.tracked import TrackedPayload
from tests.orders import refunds
from tests.session.http import BodyWriter, mocked, replied

MESSAGE = HttpRequest("/v1/refund", "application/json", b'{"a":1}')


def tracked(tracker: SendTracker) -> TrackedPayload:
    """Return the body of `MESSAGE`."""
    return TrackedPayload(MESSAGE, tracker, lambda: None)


def connected() -> tuple[ResponseHandler, Mock]:
    """Return an open connection of aiohttp's, and the transport below it, which sends nothing."""
    connection, transport = ResponseHandler(asyncio.get_running_loop()), Mock()
    transport.get_protocol.return_value = connection
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value = False
    connection.connection_made(transport)
    connection.set_response_params()
    return connection, transport


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


@pytest.mark.parametrize("method", ["write", "write_with_length"])
async def test_writing_is_noted_before_the_first_byte(method: str) -> None:
    tracker, writer = SendTracker(), BodyWriter()
    payload = tracked(tracker)
    assert tracker.revoke() is False
    tracker = SendTracker()
    payload = tracked(tracker)
    arguments = (writer,) if method == "write" else (writer, None)
    await getattr(payload, method)(*arguments)
    assert tracker.started
    assert writer.written == MESSAGE.body


@pytest.mark.parametrize("method", ["write", "write_with_length"])
async def test_a_body_that_was_given_up_is_never_written(method: str) -> None:
    tracker, writer = SendTracker(), BodyWriter()
    payload = tracked(tracker)
    assert tracker.revoke() is False
    arguments = (writer,) if method == "write" else (writer, None)
    with pytest.raises(ConnectionAbortedError):
        await getattr(payload, method)(*arguments)
    assert writer.written == b""
    assert not tracker.started


@pytest.mark.parametrize("came", [STRAY, STRAY[:-1], b"no reply\r\n\r\n"])
async def test_no_body_is_written_where_something_came_that_nobody_asked_for(came: bytes) -> None:
    """It would be read as the reply: from Python 3.12 on, aiohttp writes before it reads."""
    connection, transport = connected()
    writer = StreamWriter(connection, asyncio.get_running_loop())
    tracker = SendTracker()
    await tracked(tracker).write_with_length(writer, None)
    assert tracker.started
    transport.reset_mock()
    connection.data_received(came)
    tracker = SendTracker()
    with pytest.raises(ConnectionAbortedError):
        await tracked(tracker).write_with_length(writer, None)
    assert not tracker.started
    assert not transport.write.called


@pytest.mark.parametrize("is_gone", [False, True])
async def test_no_body_is_written_to_a_connection_that_is_closed(is_gone: bool) -> None:
    """It ended after it was taken from the pool: nothing can be sent, so nothing is unknown."""
    connection, transport = connected()
    transport.is_closing.return_value = True
    if is_gone:
        connection.connection_lost(None)
    tracker = SendTracker()
    with pytest.raises(ConnectionAbortedError, match="closed before"):
        await tracked(tracker).write(StreamWriter(connection, asyncio.get_running_loop()))
    assert not tracker.started
    assert not transport.write.called


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_on_a_connection_that_nobody_looked_at_its_end_is_heard_of_first(turns: int) -> None:
    """One from a pool of the caller's own may have ended, and the loop not have noticed."""
    connection, transport = connected()

    def end(in_turns: int) -> None:
        if in_turns:
            asyncio.get_running_loop().call_soon(end, in_turns - 1)
        else:
            connection.connection_lost(None)

    tracker = SendTracker()
    payload = tracked(tracker)
    end(turns)
    with pytest.raises(ConnectionAbortedError, match="closed before"):
        await payload.write_with_length(StreamWriter(connection, asyncio.get_running_loop()), None)
    assert not tracker.started
    assert not transport.write.called


async def test_a_reply_that_comes_twice_is_not_taken_for_the_next() -> None:
    answered, repeated = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                name = parse_qs((await reader.readexactly(length)).decode())["name"][0]
                text = f"HTTP/1.1 200 OK\r\nContent-Length: {len(name)}\r\n\r\n{name}"
                writer.write(text.encode())
                await answered.wait()
                answered.clear()
                writer.write(text.encode())
                repeated.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))
    retry = RetryPolicy(attempts=1)  # a connection that cannot take it is no attempt
    async with server, GatewayClient(address, credentials, retry=retry) as gateway:
        for name in ("first", "second", "third"):
            assert (await gateway.call("/v1/x", {"name": name}, reply="text")).data == name
            answered.set()
            await repeated.wait()
            repeated.clear()
            for _ in range(5):  # what lies in the socket is read in a turn of the loop
                await asyncio.sleep(0)


async def test_what_was_given_up_is_not_kept_half_closed() -> None:
    """Over TLS, a connection that is closed waits half a minute for the other side's farewell."""
    connection, transport = connected()
    payload = tracked(SendTracker())
    payload.abort_closed()
    await payload.write(StreamWriter(connection, asyncio.get_running_loop()))
    payload.abort_closed()
    assert not transport.abort.called
    transport.is_closing.return_value = True
    payload.abort_closed()
    assert transport.abort.called


async def test_what_ends_before_it_is_written_to_was_sent_nothing() -> None:
    """Be it new: a balancer may take a connection, find nobody for it, and end it."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    _, connection = await loop.create_connection(lambda: ResponseHandler(loop), sock=ours)
    theirs.close()  # and the loop has not heard of it
    tracker = SendTracker()
    with pytest.raises(ConnectionAbortedError, match="closed before"):
        await tracked(tracker).write(StreamWriter(connection, asyncio.get_running_loop()))
    assert not tracker.started


def test_a_message_shows_nothing_of_its_body() -> None:
    assert repr(MESSAGE) == "HttpRequest(path='/v1/refund')"


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
