"""What is cancelled says what became of it, in any turn of the loop and by any tool of asyncio's.

The simulation cancels batches of every kind, and tests/jobs those of a job, over HTTP too.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    GatewayClient,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox, faults
from tests.coalescer.held import HeldReplies
from tests.memory import MemoryTransport, client_over
from tests.orders import client_of, direct_payment, refunds, seeded
from tests.support.books import effects
from tests.support.interruptions import WAYS, Call, Way, beside_a_failure, timed_out

SETTINGS: dict[str, Any] = {
    "policy": BatchPolicy(chunk_size=2, concurrency=2),
    "retry": RetryPolicy(first_pause_seconds=0, max_pause_seconds=0),
    "recovery": RecoveryPolicy(record_baseline=True, settle_seconds=0, hold_alike_hours=None),
}
PAIRS = [(first, first + gap) for gap in (1, 2, 3, 5) for first in range(0, 40, 2)]
"""The turns of a first cancellation and of a second."""
_OF_THE_SANDBOX = ("RequestHandler.", "Server.", "BaseSelectorEventLoop.")
"""What the tasks of the sandbox run, in the same loop."""


async def interrupted(call: Coroutine[Any, Any, Any], *turns: int) -> tuple[Any, bool]:
    """Cancel a call in these turns; return what it raised, and whether the last one found it."""
    before, was_found = asyncio.all_tasks(), False
    task = asyncio.create_task(call)
    for turn in range(turns[-1] + 1):
        if turn in turns:
            was_found = task.cancel("by the test")
        await asyncio.sleep(0)
    await asyncio.wait({task})
    left = [getattr(one.get_coro(), "__qualname__", "") for one in asyncio.all_tasks() - before]
    assert [name for name in left if not name.startswith(_OF_THE_SANDBOX)] == []
    with pytest.raises(asyncio.CancelledError) if task.cancelled() else nullcontext() as caught:
        task.result()
    return caught.value if caught else None, was_found


async def test_a_single_call_leaves_nothing_unknown_but_by_a_second_cancellation(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    known: dict[type, set[int]] = {NotSentError: {0}, OutcomeUnknownError: {0, 1}}
    kinds: list[type] = []

    async def one(*turns: int) -> bool:
        payment = direct_payment(f"P-{len(kinds)}")
        async with client_of(sandbox, **SETTINGS) as client:
            error, was_found = await interrupted(client.pay_direct(payment), *turns)
        assert type(error) in (asyncio.CancelledError, type(None))
        # It has no outcome where it had not begun.
        outcome = getattr(error, "outcome", NotSentError()) if error else object()
        kinds.append(type(outcome))
        assert len(sandbox.ledger.payments_of(payment.order_no)) in known.get(kinds[-1], {1})
        assert kinds[-1] in known or not isinstance(outcome, BaseException)
        return was_found

    for turn in itertools.count():
        if not await one(turn):
            break
    assert NotSentError in kinds
    assert OutcomeUnknownError not in kinds
    for turns in PAIRS:
        await one(*turns)
    assert OutcomeUnknownError in kinds
    assert "asyncio" not in {record.name for record in caplog.records}


async def test_a_recovery_tells_of_what_it_was_given(sandbox: Sandbox) -> None:
    orders, told = seeded(sandbox, 6), list[Any]()
    sandbox.faults.add("refund", faults.DropReply(times=1))
    async with client_of(sandbox, **SETTINGS) as client:
        lost = await client.refund(orders)
        before = effects(sandbox, orders)
        for turn in itertools.count():
            error, was_found = await interrupted(client.recover(list(lost)), turn)
            if not was_found:
                break
            assert isinstance(error, asyncio.CancelledError | None)
            if (came := getattr(error, "outcome", None)) is not None:
                told.append(came)
                assert [o.order for o in came] == orders
                assert [o.status for o in came] == [o.status for o in lost]
        assert effects(sandbox, orders) == before
        assert OutcomeStatus.UNKNOWN in {outcome.status for outcome in told[-1]}
        assert (await client.recover(told[-1])).ok


async def test_a_stream_whose_only_worker_was_cancelled_says_that_not_all_was_done() -> None:
    gateway = MemoryTransport(steps=2)
    client = client_over(gateway, policy=BatchPolicy(chunk_size=2, concurrency=1))
    async with client.refund(iter(refunds(3000))) as batch:
        (worker,) = (task for task in asyncio.all_tasks() if "worker" in task.get_name())
        while not gateway.effects:  # noqa: ASYNC110  # it has no event for it
            await asyncio.sleep(0)
        worker.cancel()
        with pytest.raises(RuntimeError, match="other code cancelled a task of the batch"):
            async for _ in batch:
                pass


CALLS: dict[str, Callable[[GatewayClient], Call]] = {
    "payment": lambda client: client.pay_direct(direct_payment()),
    "refund": lambda client: client.refund(refunds(6)),
    "page": lambda client: client.recent_transactions(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_call_ends_with_what_holds_it(way: Way, name: str) -> None:
    """The gateway takes every request, carries it out, and says nothing."""
    held, task = HeldReplies(), asyncio.current_task()
    client = held.client(policy=BatchPolicy(chunk_size=2, concurrency=2, drain_seconds=0))
    expected: dict[Way, type] = {timed_out: TimeoutError, beside_a_failure: ExceptionGroup}
    with pytest.raises(expected.get(way, asyncio.CancelledError)) as caught:
        await way(CALLS[name](client), held.asked.wait())
    assert task is not None
    if way is timed_out:
        assert type(caught.value.__cause__) is asyncio.CancelledError
        assert task.cancelling() == 0
    if isinstance(caught.value, ExceptionGroup):
        assert [type(error) for error in caught.value.exceptions] == [LookupError]
    for _ in range(20):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {task}
