"""The time limits of a request: each ends the request alone, and swallows no cancellation."""

import asyncio

import aiohttp
import pytest

from gateway_async import OutcomeUnknownError, Timeouts
from tests.orders import client_at
from tests.support.clock import BEYOND, PATIENT, Clock
from tests.support.servers import read_message, serving

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_reply_that_drips_beyond_the_total_time_is_not_asked_for_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pause is short enough, and together they are too long."""
    read, waits, requests = aiohttp.StreamReader.readany, asyncio.Event(), 0

    async def noted(stream: aiohttp.StreamReader) -> bytes:
        waits.set()
        return await read(stream)

    async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_message(reader)
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        while await waits.wait():
            waits.clear()
            clock.advance(30)
            writer.write(b"x")

    monkeypatch.setattr(aiohttp.StreamReader, "readany", noted)
    limits = Timeouts(connect_seconds=60, reply_seconds=60, total_seconds=600)
    async with serving(drips) as url, client_at(url, timeouts=limits) as gateway:
        with pytest.raises(OutcomeUnknownError, match="the time for this call was over"):
            await gateway.call("/v1/x", {}, repeatable=True)
    assert requests == 1


async def test_a_body_may_take_longer_to_write_than_a_connection_or_a_silence(
    clock: Clock,
) -> None:
    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        clock.advance()
        for _ in range(20):
            await asyncio.sleep(0)
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        writer.write(REPLY)

    async with serving(read_late) as url, client_at(url, timeouts=PATIENT) as gateway:
        reply = await gateway.call("/v1/x", {"text": "x" * 16 * 1024 * 1024}, reply="text")
    assert reply.data == "ok"


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_cancellation_in_the_same_turn_of_the_loop_is_not_swallowed(
    clock: Clock, *, is_before: bool
) -> None:
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()

    async def note(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_message(reader)
        has_come.set()
        await reader.read()

    async with serving(note) as url, client_at(url, timeouts=PATIENT) as gateway:
        task = asyncio.create_task(gateway.call("/v1/x", {}, repeatable=True))
        await has_come.wait()
        if is_before:  # what is ready is run before the timers that have come due
            loop.call_soon(task.cancel)
        else:
            loop.call_later(BEYOND - 0.5, task.cancel)
        clock.advance()
        await asyncio.wait([task])
    assert task.cancelled()
    assert task.cancelling() == 1
