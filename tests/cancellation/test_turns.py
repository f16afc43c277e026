"""What is cancelled in any turn of the loop, over real HTTP, says what became of it.

The simulation cancels batches and single calls of every kind; here the transport is real.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway_async import (
    Batch,
    BatchPolicy,
    GatewayClient,
    NotSentError,
    Outcome,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
)
from gateway_async.sandbox import Sandbox, faults
from tests.cancellation.places import ORDERS, SETTINGS, Loopback, payment
from tests.cancellation.stepping import Ending, interrupted, pairs, run, sweep
from tests.memory import MemoryTransport, client_over
from tests.orders import payout_request, refunds

BASELINE = RecoveryPolicy(record_baseline=True, settle_seconds=0, hold_alike_hours=None)
Pay = Callable[[GatewayClient, int], Coroutine[Any, Any, object]]
Books = Callable[[Loopback, int], int]

_MISSING = object()
SINGLES: list[tuple[Pay, Books]] = [
    (
        lambda client, number: client.pay_direct(payment(number)),
        lambda place, number: place.payments(payment(number)),
    ),
    (
        lambda client, number: client.payout(payout_request(number)),
        lambda place, number: place.payouts(payout_request(number)),
    ),
]
EACH = pytest.mark.parametrize(("pay", "count"), SINGLES, ids=["payment", "payout"])


def check(ending: Ending, effects: int, *, may_be_unknown: bool = False) -> type:
    """Check what the cancellation says against what was really done; return the kind of outcome."""
    if ending.error is None:
        assert effects == 1
        return object
    assert type(ending.error) is asyncio.CancelledError
    outcome = getattr(ending.error, "outcome", _MISSING)
    if outcome is _MISSING or isinstance(outcome, NotSentError):
        assert effects == 0
    elif isinstance(outcome, OutcomeUnknownError):
        assert may_be_unknown
        assert effects in (0, 1)
    else:
        assert not isinstance(outcome, BaseException)
        assert effects == 1
    return type(outcome)


@EACH
def test_a_single_call_leaves_nothing_unknown(pay: Pay, count: Books) -> None:
    async def main() -> int:
        endings: dict[int, Ending] = {}
        async with Sandbox() as sandbox:
            here = Loopback(sandbox)

            async def one(turn: int) -> Ending:
                async with here.client() as client:
                    endings[turn] = await interrupted(pay(client, turn), (turn,))
                return endings[turn]

            turns = await sweep(one)()
        kinds = {check(ending, count(here, turn)) for turn, ending in endings.items()}
        assert NotSentError in kinds
        return turns

    assert run(main) > 5


@EACH
def test_a_second_cancellation_ends_the_wait(pay: Pay, count: Books) -> None:
    async def main() -> int:
        endings: dict[int, Ending] = {}
        async with Sandbox() as sandbox:
            here = Loopback(sandbox)
            for number, (first, gap) in enumerate(itertools.islice(pairs(), 100)):
                async with here.client() as client:
                    turns = (first, first + gap)
                    endings[number] = await interrupted(pay(client, number), turns)
        kinds = {
            check(ending, count(here, number), may_be_unknown=True)
            for number, ending in endings.items()
        }
        assert any(issubclass(kind, OutcomeUnknownError) for kind in kinds)
        return 0

    run(main)


@pytest.mark.parametrize("recovery", [RecoveryPolicy(), BASELINE])
def test_a_streamed_batch_leaves_nothing_unknown(recovery: RecoveryPolicy) -> None:
    async def main() -> int:
        kept: list[tuple[list[Any], list[Outcome[Any, Any]]]] = []
        async with Sandbox() as sandbox:
            here = Loopback(sandbox)

            async def one(turn: int) -> Ending:
                orders, seen = here.refunds(), list[Outcome[Any, Any]]()
                batches: list[Batch[Any, Any]] = []

                async def stream(client: GatewayClient) -> None:
                    async with client.refund(orders) as batch:
                        batches.append(batch)
                        async for outcome in batch:
                            seen.append(outcome)
                            await asyncio.sleep(0)

                async with here.client(recovery=recovery) as client:
                    ending = await interrupted(stream(client), (turn,))
                kept.append((orders, seen))
                if batches:
                    result = batches[0].result
                    seen += result
                    assert sorted(outcome.index for outcome in seen) == list(range(ORDERS))
                    assert Counter(result.counts) == Counter(one.status for one in seen)
                assert ending.error is None or isinstance(ending.error, asyncio.CancelledError)
                return ending

            turns = await sweep(one)()
        for orders, outcomes in kept:
            done = {one.order.transaction_id: one.status for one in outcomes}
            assert set(done.values()) <= {OutcomeStatus.SUCCEEDED, OutcomeStatus.NOT_SENT}
            for order in orders:
                succeeded = done.get(order.transaction_id) is OutcomeStatus.SUCCEEDED
                assert here.effects(order) == succeeded
        return turns

    assert run(main) > 5


def test_a_recovery_tells_of_what_it_was_given() -> None:
    async def main() -> int:
        async with Sandbox() as sandbox:
            here = Loopback(sandbox)
            orders = here.refunds()
            async with here.client(recovery=BASELINE) as client:
                sandbox.faults.add("refund", faults.DropReply(times=1))
                lost = await client.refund(orders)
                assert lost.counts[OutcomeStatus.UNKNOWN]
                before = [here.effects(order) for order in orders]
                told: list[Any] = []

                async def one(turn: int) -> Ending:
                    ending = await interrupted(client.recover(list(lost)), (turn,))
                    assert isinstance(ending.error, asyncio.CancelledError | None)
                    if (came := getattr(ending.error, "outcome", None)) is not None:
                        told.append(came)
                        assert [o.order for o in came] == orders
                        assert [o.status for o in came] == [o.status for o in lost]
                    return ending

                turns = await sweep(one)()
                assert [here.effects(order) for order in orders] == before
                assert (await client.recover(told[-1])).ok
        return turns

    assert run(main) > 5


async def test_a_stream_whose_only_worker_was_cancelled_says_that_not_all_was_done() -> None:
    gateway = MemoryTransport(steps=2)
    policy = BatchPolicy(chunk_size=2, concurrency=1)
    client = client_over(gateway, **{**SETTINGS, "policy": policy})
    async with client.refund(iter(refunds(3000))) as batch:
        (worker,) = (task for task in asyncio.all_tasks() if "worker" in task.get_name())
        while not gateway.effects:  # noqa: ASYNC110  # it has no event for it
            await asyncio.sleep(0)
        worker.cancel()
        with pytest.raises(RuntimeError, match="one of the batch's own tasks was cancelled"):
            async for _ in batch:
                pass
