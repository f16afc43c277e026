"""What is cancelled in any turn of the loop, over real HTTP, says what became of it.

The simulation cancels batches of every kind, and tests/jobs those of a job, over HTTP too.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox, faults
from tests.memory import MemoryTransport, client_over
from tests.orders import client_of, direct_payment, refunds, seeded
from tests.support.books import effects

MOST_TURNS = 2000
SETTINGS: dict[str, Any] = {
    "policy": BatchPolicy(chunk_size=2, concurrency=2),
    "retry": RetryPolicy(first_pause_seconds=0, max_pause_seconds=0),
    "recovery": RecoveryPolicy(record_baseline=True, settle_seconds=0, hold_alike_hours=None),
}
PAIRS = [(first, first + gap) for gap in (1, 2, 3, 5) for first in range(0, 40, 2)]
"""The turns of a first cancellation and of a second."""


class SteppingLoop(asyncio.SelectorEventLoop):
    """Cancels a task in given turns; of what is ready to run, one callback is run a turn.

    Attributes:
        complaints: What its exception handler was told.
        given: How many of the cancellations found the task still running.
    """

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[dict[str, Any]] = []
        self.given, self._turn = 0, 0
        self._turns: tuple[int, ...] = ()
        self._victim: asyncio.Task[Any] | None = None
        self.set_exception_handler(lambda _, context: self.complaints.append(context))

    async def interrupt(self, call: Coroutine[Any, Any, Any], *turns: int) -> BaseException | None:
        """Run a call in a task of its own, which is cancelled in these turns of the loop."""
        before = asyncio.all_tasks()
        task = self.create_task(call)
        self._turn, self._turns, self._victim, self.given = 0, turns, task, 0
        await asyncio.wait({task})
        left = [getattr(one.get_coro(), "__qualname__", "") for one in asyncio.all_tasks() - before]
        assert [name for name in left if not name.startswith(("RequestHandler.", "Server."))] == []
        try:
            task.result()
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001  # it is what is asked for
            return error
        return None

    def _run_once(self) -> None:
        if self._victim is not None:
            if self._turn in self._turns:
                self.given += self._victim.cancel("by the test")
            self._turn += 1
        ready: Any = self._ready  # type: ignore[attr-defined]  # what is to be run
        later = [ready.pop() for _ in range(len(ready) - 1)]
        super()._run_once()  # type: ignore[misc]  # what every turn of the loop is
        ready.extendleft(later)


def _loop() -> SteppingLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppingLoop)
    return loop


async def _sweep(trial: Callable[[int], Awaitable[object]]) -> None:
    """Repeat a trial, cancelled ever later, until it is over before."""
    for turn in range(MOST_TURNS):
        await trial(turn)
        if not _loop().given:
            assert turn > 5
            return
    raise AssertionError(f"still running after {MOST_TURNS} turns of the loop")


def _run(main: Callable[[Sandbox], Awaitable[None]]) -> None:
    """Run a test on a stepping loop, which must have nothing to complain about."""
    loop = SteppingLoop()

    async def complete() -> None:
        async with Sandbox() as sandbox:
            await main(sandbox)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(complete())
        gc.collect()
    assert loop.complaints == []


def test_a_single_call_leaves_nothing_unknown_but_by_a_second_cancellation() -> None:
    known: dict[type, set[int]] = {NotSentError: {0}, OutcomeUnknownError: {0, 1}}

    async def main(sandbox: Sandbox) -> None:
        kinds: list[type] = []

        async def one(*turns: int) -> None:
            payment = direct_payment(f"P-{len(kinds)}")
            async with client_of(sandbox, **SETTINGS) as client:
                error = await _loop().interrupt(client.pay_direct(payment), *turns)
            assert type(error) in (asyncio.CancelledError, type(None))
            # It has no outcome where it had not begun.
            outcome = getattr(error, "outcome", NotSentError()) if error else object()
            kinds.append(type(outcome))
            assert len(sandbox.ledger.payments_of(payment.order_no)) in known.get(kinds[-1], {1})
            assert kinds[-1] in known or not isinstance(outcome, BaseException)

        await _sweep(one)
        assert NotSentError in kinds
        assert OutcomeUnknownError not in kinds
        for turns in PAIRS:
            await one(*turns)
        assert OutcomeUnknownError in kinds

    _run(main)


def test_a_recovery_tells_of_what_it_was_given() -> None:
    async def main(sandbox: Sandbox) -> None:
        orders, told = seeded(sandbox, 6), list[Any]()
        sandbox.faults.add("refund", faults.DropReply(times=1))
        async with client_of(sandbox, **SETTINGS) as client:
            lost = await client.refund(orders)
            before = effects(sandbox, orders)

            async def one(turn: int) -> None:
                error = await _loop().interrupt(client.recover(list(lost)), turn)
                assert isinstance(error, asyncio.CancelledError | None)
                if (came := getattr(error, "outcome", None)) is not None:
                    told.append(came)
                    assert [o.order for o in came] == orders
                    assert [o.status for o in came] == [o.status for o in lost]

            await _sweep(one)
            assert effects(sandbox, orders) == before
            assert OutcomeStatus.UNKNOWN in {outcome.status for outcome in told[-1]}
            assert (await client.recover(told[-1])).ok

    _run(main)


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
