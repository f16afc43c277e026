"""The proof that nothing was sent: whether the body was ever asked to write itself."""

import asyncio
import socket
from typing import Any
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
from aioresponses import aioresponses

from gateway_async import (
    BatchPolicy,
    EvidenceError,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    ReplyUnreadableError,
    RetryPolicy,
)
from tests.orders import client_at, refunds
from tests.support.servers import body_of, read_message, serving

STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LOST = [
    *(aiohttp.ServerDisconnectedError(), aiohttp.ClientOSError(104, "Connection reset by peer")),
    *(aiohttp.ServerTimeoutError(), aiohttp.ConnectionTimeoutError()),
    *(aiohttp.ClientConnectionError("closed"), TimeoutError()),
    *(ConnectionResetError(), OSError("broken")),
]
UNREADABLE = [
    aiohttp.ClientPayloadError("quoted reply"),
    aiohttp.http_exceptions.BadHttpMessage("quoted reply"),
]


@pytest.mark.parametrize("came", [STRAY, STRAY[:-1], b"no reply\r\n\r\n", b""])
@pytest.mark.parametrize("turns", [0, 1, 20])
async def test_nothing_is_written_to_a_talking_connection(came: bytes, turns: int) -> None:
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
    """That another connection is taken is no second attempt."""
    answered, repeated = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            name = body_of(await read_message(reader)).partition(b"name=")[2].partition(b"&")[0]
            text = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name)
            writer.write(text)
            await answered.wait()
            answered.clear()
            writer.write(text)
            repeated.set()

    async with serving(serve) as url, client_at(url, retry=RetryPolicy(attempts=1)) as gateway:
        for name in ("first", "second", "third"):
            assert (await gateway.call("/v1/x", {"name": name}, reply="text")).data == name
            answered.set()
            await repeated.wait()
            repeated.clear()
            for _ in range(5):  # what lies in the socket is read in a turn of the loop
                await asyncio.sleep(0)


class MockedResponse(aiohttp.ClientResponse):
    """A response with the writer that aiohttp asks for and aioresponses does not give."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"stream_writer": Mock(), **kwargs})


async def test_a_reply_to_a_body_that_was_never_written_is_a_loud_error() -> None:
    """So a mock that does not write bodies is found out, and no order is called done."""
    policy, url = BatchPolicy(concurrency=1), "https://gateway.example"
    with aioresponses() as mock:
        mock.post(f"{url}/v1/refund", body=b"{}", response_class=MockedResponse, repeat=True)
        async with client_at(url) as gateway:
            result = await gateway.refund(refunds(500), policy=policy)
    assert isinstance(result[0].error, EvidenceError)
    assert "HTTP 200" in str(result[0].error)
    assert [len(calls) for calls in mock.requests.values()] == [1]
    assert result.counts[OutcomeStatus.UNKNOWN] == 50
    assert result.counts[OutcomeStatus.NOT_SENT] == 450


async def test_a_body_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever repeats a request behind the client's back."""
    writers: list[AsyncMock] = []

    async def send_twice(*_: object, data: Any, **__: object) -> Any:
        for writer in (AsyncMock(), AsyncMock()):
            writers.append(writer)
            await data.write_with_length(writer, None)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", send_twice)
    async with client_at("https://gateway.example") as gateway:
        result = await gateway.refund(refunds(1))
    assert [writer.write.await_count for writer in writers] == [1, 0]
    assert result.counts[OutcomeStatus.UNKNOWN] == 1


@pytest.mark.parametrize("failure", LOST + UNREADABLE, ids=lambda one: type(one).__name__)
async def test_the_same_failure_means_unknown_once_the_body_was_written(
    failure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for writes in (True, False):

        async def send(*_: object, data: Any, writes: bool = writes, **__: object) -> Any:
            if writes:
                await data.write_with_length(AsyncMock(), None)
            raise failure

        monkeypatch.setattr(aiohttp.ClientSession, "_request", send)
        retry = RetryPolicy(first_pause_seconds=0)
        async with client_at("https://gateway.example", retry=retry) as gateway:
            result = await gateway.refund(refunds(1))
        assert (result.requests, result.retries) == ((1, 0) if writes else (0, 3))
        assert result.counts[OutcomeStatus.UNKNOWN if writes else OutcomeStatus.NOT_SENT] == 1
        error = result[0].error
        assert isinstance(error, OutcomeUnknownError if writes else NotSentError)
        assert isinstance(error, ReplyUnreadableError) is (writes and failure in UNREADABLE)
        assert "quoted" not in str(error)
        link: BaseException | None = error
        while link is not None:  # none carries a frame of aiohttp's
            assert link.__traceback__ is None
            link = link.__cause__ or link.__context__
