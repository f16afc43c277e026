"""The time limits of a request: one timer keeps those of all, and cancels nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import pytest

from gateway_async import OutcomeUnknownError, Timeouts
from gateway_async.transport import AiohttpTransport, ConnectionOptions, HttpRequest, SendTracker
from tests.support.servers import read_message, serving

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request_of(size: int = 10) -> HttpRequest:
    return HttpRequest("/v1/x", "text/plain", b"x" * size)


@contextlib.asynccontextmanager
async def transport_to(url: str, **timeouts: float) -> AsyncIterator[AiohttpTransport]:
    chosen: dict[str, Any] = {"connect_seconds": 5, "reply_seconds": 5, **timeouts}
    transport = AiohttpTransport(
        url,
        timeouts=Timeouts(**chosen),
        max_reply_bytes=1000,
        options=ConnectionOptions(limit=10),
        session=None,
    )
    try:
        yield transport
    finally:
        await transport.aclose()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_silence_ends_the_request_and_leaves_its_task_as_it_was() -> None:
    tracker = SendTracker()
    async with serving(silent) as url, transport_to(url, reply_seconds=0.1) as transport:
        with pytest.raises(OutcomeUnknownError, match=r"reply_seconds=0\.1"):
            await transport.send(request_of(), tracker=tracker, seconds=5)
    task = asyncio.current_task()
    assert task is not None
    assert (tracker.started, task.cancelling()) == (True, 0)


async def test_the_time_for_all_of_it_ends_a_reply_that_goes_on() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with serving(drip) as url, transport_to(url, reply_seconds=0.2) as transport:
        with pytest.raises(OutcomeUnknownError, match="the time for this call was over"):
            await transport.send(request_of(), tracker=SendTracker(), seconds=0.5)


async def test_a_body_may_take_longer_to_write_than_a_connection_or_a_silence() -> None:
    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2.2)
        await read_message(reader)
        writer.write(REPLY)

    async with (
        serving(read_late) as url,
        transport_to(url, connect_seconds=2, reply_seconds=2) as transport,
    ):
        large = request_of(16 * 1024 * 1024)
        reply = await transport.send(large, tracker=SendTracker(), seconds=20)
    assert reply.body == b"ok"


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_cancellation_in_the_same_turn_of_the_loop_is_not_swallowed(
    *, is_before: bool
) -> None:
    loop = asyncio.get_running_loop()
    async with serving(silent) as url, transport_to(url, reply_seconds=0.1) as transport:
        tracker = SendTracker()
        task = asyncio.create_task(transport.send(request_of(), tracker=tracker, seconds=5))
        while not tracker.started:  # noqa: ASYNC110  # the loop does the work
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        (opened,) = transport._opened.values()
        (deadline,) = opened.alarm.deadlines
        if is_before:
            loop.call_soon(task.cancel)
        loop.call_soon(deadline.expire)
        if not is_before:
            loop.call_soon(task.cancel)
        await asyncio.wait([task])
        assert task.cancelled()
        assert task.cancelling() == 1


async def test_requests_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            writer.write(REPLY)

    loop = asyncio.get_running_loop()
    async with serving(answer) as url, transport_to(url) as transport:
        await transport.send(request_of(), tracker=SendTracker(), seconds=60)
        call_at = Mock(wraps=loop.call_at)
        monkeypatch.setattr(loop, "call_at", call_at)
        for _ in range(20):
            await transport.send(request_of(), tracker=SendTracker(), seconds=60)
    assert not call_at.called
