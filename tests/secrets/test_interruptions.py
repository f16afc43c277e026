"""Cancellations, time-outs and failing siblings show nothing, nor does a talkative event loop."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async import BatchPolicy, Timeouts
from gateway_async.sandbox import faults
from tests.cancellation.places import asked
from tests.secrets.data import direct_payment
from tests.secrets.driving import OPERATIONS, some

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway_async.sandbox import Sandbox
    from tests.secrets.conftest import Opened
    from tests.secrets.dragnet import Dragnet

PATIENT = Timeouts(reply_seconds=30)
POLICY = BatchPolicy(chunk_size=2, drain_seconds=0.05)


async def _cancelled_twice(work: "Awaitable[object]", sandbox: "Sandbox") -> None:
    task = asyncio.ensure_future(work)
    await asked(sandbox)
    task.cancel("enough")
    await asyncio.sleep(0)
    task.cancel("enough!")
    await task


async def _timed_out(work: "Awaitable[object]", sandbox: "Sandbox") -> None:
    del sandbox
    async with asyncio.timeout(0.1):
        await work


async def _beside_a_failure(work: "Awaitable[object]", sandbox: "Sandbox") -> None:
    async def fail() -> None:
        await asked(sandbox)
        raise LookupError("the sibling failed")

    async def run() -> None:
        await work

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        group.create_task(fail())


INTERRUPTIONS: list[Any] = [_cancelled_twice, _timed_out, _beside_a_failure]


@pytest.mark.parametrize("interrupt", INTERRUPTIONS)
async def test_an_interruption_shows_nothing(
    net: "Dragnet",
    opened: "Opened",
    sandbox: "Sandbox",
    interrupt: "Callable[[Awaitable[object], Sandbox], Awaitable[None]]",
) -> None:
    names = some(INTERRUPTIONS.index(interrupt))
    sandbox.faults.add("*", faults.NoReply())
    client = opened(timeouts=PATIENT, policy=POLICY)
    ends = await asyncio.gather(
        *(interrupt(OPERATIONS[name](client, sandbox), sandbox) for name in names),
        return_exceptions=True,
    )
    for name, end in zip(names, ends, strict=True):
        assert isinstance(end, asyncio.CancelledError | TimeoutError | ExceptionGroup)
        net.catch_error(name, end)


async def test_a_loop_that_logs_all_it_runs_shows_nothing(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 0
    client = opened()
    await client.pay_direct(direct_payment())
    for fault in (faults.DropReply(times=1), faults.Status(times=1)):
        sandbox.faults.add("*", fault)
        await asyncio.gather(client.pay_direct(direct_payment()), return_exceptions=True)
    assert sum(label == "log" for label, _ in net.texts) > 10


async def test_tasks_that_nobody_awaits_show_nothing(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    sandbox.faults.add("*", faults.DropReply())
    forgotten = asyncio.create_task(opened().pay_direct(direct_payment()))
    await asyncio.wait({forgotten})
    net.catch_object("task", forgotten)
    del forgotten
    assert any("never retrieved" in text for label, text in net.texts if label == "event loop")
