"""Ways in which a program ends a call, once something has happened."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gateway_async.sandbox import Sandbox

_MOST_TURNS = 3_000_000
"""So many take many seconds on any machine; a defect is to end as a failure, and not to hang."""

Call = Coroutine[Any, Any, Any]
Way = Callable[[Call, Awaitable[object]], Awaitable[object]]


async def until(holds: Callable[[], object]) -> None:
    """Let the loop go on until something holds for which there is no event."""
    for _ in range(_MOST_TURNS):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("what was awaited never held")


async def asked(sandbox: Sandbox, times: int = 1) -> None:
    """Wait until so many requests came."""
    await until(lambda: sandbox.requests.total() >= times)


async def cancelled_twice(call: Call, begun: Awaitable[object]) -> None:
    task = asyncio.create_task(call)
    await begun
    task.cancel("enough")
    await asyncio.sleep(0)
    task.cancel("enough!")
    await task


async def timed_out(call: Call, begun: Awaitable[object]) -> None:
    async with asyncio.timeout(None) as limit:
        coming = asyncio.ensure_future(begun)
        coming.add_done_callback(lambda _: limit.reschedule(0))
        await call


async def beside_a_failure(call: Call, begun: Awaitable[object]) -> None:
    async def fail() -> None:
        await begun
        raise LookupError("the sibling failed")

    async with asyncio.TaskGroup() as group:
        group.create_task(call)
        group.create_task(fail())


async def gathered(call: Call, begun: Awaitable[object]) -> None:
    both = asyncio.gather(call, asyncio.sleep(1000))
    await begun
    both.cancel()
    await both


WAYS: tuple[Way, ...] = (cancelled_twice, timed_out, beside_a_failure, gathered)
