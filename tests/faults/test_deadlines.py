"""The time limits of a request: each ends the request alone, and swallows no cancellation."""

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from gateway_async import GatewayClient, OutcomeUnknownError, Timeouts
from tests.orders import client_at
from tests.support.servers import read_message, serving

if TYPE_CHECKING:
    from collections.abc import Callable

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def timed(url: str, **timeouts: float) -> GatewayClient:
    chosen = {"connect_seconds": 5, "reply_seconds": 5, "total_seconds": 20, **timeouts}
    return client_at(url, timeouts=Timeouts(**chosen))


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_message(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("serve", "timeouts", "named"),
    [
        (silent, {"reply_seconds": 0.1}, r"reply_seconds=0\.1"),
        (drips, {"reply_seconds": 0.2, "total_seconds": 0.5}, "the time for this call was over"),
    ],
)
async def test_a_limit_ends_the_request_and_leaves_its_task_as_it_was(
    serve: "Callable[..., object]", timeouts: dict[str, float], named: str
) -> None:
    async with serving(serve) as url, timed(url, **timeouts) as gateway:  # type: ignore[arg-type]  # a table
        with pytest.raises(OutcomeUnknownError, match=named):
            await gateway.call("/v1/x", {})
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_body_may_take_longer_to_write_than_a_connection_or_a_silence(
    later: "Callable[[float], None]",
) -> None:
    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        later(6)
        for _ in range(20):
            await asyncio.sleep(0)
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        writer.write(REPLY)

    async with serving(read_late) as url, timed(url) as gateway:
        reply = await gateway.call("/v1/x", {"text": "x" * 16 * 1024 * 1024}, reply="text")
    assert reply.data == "ok"


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_cancellation_in_the_same_turn_of_the_loop_is_not_swallowed(
    later: "Callable[[float], None]", *, is_before: bool
) -> None:
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()

    async def note(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_message(reader)
        has_come.set()
        await reader.read()

    async with serving(note) as url, timed(url, total_seconds=1000) as gateway:
        task = asyncio.create_task(gateway.call("/v1/x", {}, repeatable=True))
        await has_come.wait()
        if is_before:  # what is ready is run before the timers that have come due
            loop.call_soon(task.cancel)
        else:
            loop.call_later(50, task.cancel)
        later(60)
        await asyncio.wait([task])
    assert task.cancelled()
    assert task.cancelling() == 1


async def test_requests_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            writer.write(REPLY)

    loop = asyncio.get_running_loop()
    async with serving(answer) as url, timed(url) as gateway:
        await gateway.call("/v1/x", {}, reply="text")
        call_at = Mock(wraps=loop.call_at)
        monkeypatch.setattr(loop, "call_at", call_at)
        for _ in range(20):
            await gateway.call("/v1/x", {}, reply="text")
    assert not call_at.called
