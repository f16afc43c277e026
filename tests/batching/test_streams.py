"""Streams: left early, stopped, drained, and never ahead of whoever takes the outcomes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway_async import (
    Batch,
    BatchPolicy,
    InvalidOrderError,
    NotSentError,
    OutcomeStatus,
    RefundOrder,
    RetryPolicy,
)
from tests.memory import Asked, HttpResponse, MemoryTransport, all_done, client_over
from tests.orders import refunds
from tests.simulation.clock import VirtualLoop

SUCCEEDED, UNKNOWN, NOT_SENT = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.UNKNOWN,
    OutcomeStatus.NOT_SENT,
)
BROKEN = HttpResponse(500, {}, b"")


class _Counted:
    """Orders that are made when they are pulled, and know how many were."""

    def __init__(self, count: int) -> None:
        self.pulled = 0
        self.closed = False
        self._count = count

    def __iter__(self) -> Iterator[RefundOrder]:
        try:
            for order in refunds(self._count):
                self.pulled += 1
                yield order
        finally:
            self.closed = True

    async def later(self) -> AsyncIterator[RefundOrder]:
        try:
            for order in refunds(self._count):
                await asyncio.sleep(0)
                self.pulled += 1
                yield order
        finally:
            self.closed = True


async def _settle_down() -> None:
    """Give everybody who can go on enough turns to do so."""
    for _ in range(500):
        await asyncio.sleep(0)


async def test_twenty_thousand_orders_take_no_more_tasks_than_workers() -> None:
    most = 0

    async def handler(asked: Asked) -> dict[str, Any]:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
        return asked.done()

    before = len(asyncio.all_tasks())
    gateway = client_over(MemoryTransport(handler), policy=BatchPolicy(concurrency=5))
    total = 0
    async with gateway.refund(iter(refunds(20_000))) as batch:
        async for _ in batch:
            total += 1
    assert total == 20_000
    assert most <= before + 5


async def test_a_burst_of_free_places_is_filled_in_several_turns_of_the_loop() -> None:
    turns: list[int] = []
    turn = 0

    def tick() -> None:
        nonlocal turn
        turn += 1
        ticking.append(asyncio.get_running_loop().call_soon(tick))

    async def answer(asked: Asked) -> Any:
        turns.append(turn)
        await asyncio.sleep(0.001)
        return asked.done()

    ticking: list[asyncio.Handle] = []
    tick()
    policy = BatchPolicy(concurrency=50, chunk_size=1)
    result = await client_over(MemoryTransport(answer), policy=policy).refund(iter(refunds(50)))
    ticking[-1].cancel()
    assert result.ok
    assert max(turns.count(one) for one in set(turns)) == 8


class _Endless:
    """An iterator that cannot be closed, and knows how many orders were taken from it."""

    def __init__(self, orders: _Counted) -> None:
        self._orders = orders
        self._left = iter(refunds(500))

    def __iter__(self) -> Iterator[RefundOrder]:
        return self

    def __next__(self) -> RefundOrder:
        self._orders.pulled += 1
        return next(self._left)


@pytest.mark.parametrize("kind", ["sequence", "iterable", "iterator", "asynchronous"])
async def test_leaving_early_sends_and_reads_nothing_more_and_keeps_what_is_known(
    kind: str,
) -> None:
    orders = _Counted(500)
    given: Any = {
        "sequence": refunds(500),
        "iterable": orders,
        "iterator": _Endless(orders),
        "asynchronous": orders.later(),
    }[kind]
    transport = MemoryTransport(all_done)
    policy = BatchPolicy(concurrency=2, chunk_size=10)
    seen = []
    async with client_over(transport, policy=policy).refund(given) as batch:
        async for outcome in batch:
            seen.append(outcome.index)
            if len(seen) == 15:
                break
    sent, pulled = len(transport.asked), orders.pulled
    await _settle_down()
    assert (len(transport.asked), orders.pulled) == (sent, pulled)
    result = batch.result
    taken = 500 if kind == "sequence" else pulled
    assert sorted(seen + [outcome.index for outcome in result]) == list(range(taken))
    assert result.counts[SUCCEEDED] == 10 * sent
    assert result.counts[NOT_SENT] == taken - 10 * sent
    assert result.exhausted is (kind == "sequence")
    assert orders.closed is (kind in ("iterable", "asynchronous"))


class _Broken(str):
    """A currency that cannot be compared."""

    __slots__ = ()

    def casefold(self) -> str:
        raise LookupError("a defect of the judge")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_defect_while_a_reply_is_judged_loses_no_order(*, streamed: bool) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        reply = asked.done()
        for item in reply["refund_orders"]:
            item["currency"] = "eur"
        return reply

    orders = refunds(40)
    object.__setattr__(orders[15], "currency", _Broken("EUR"))
    policy = BatchPolicy(concurrency=1, chunk_size=10)
    transport = MemoryTransport(answer)
    batch, seen = client_over(transport, policy=policy).refund(orders), list[Any]()

    async def read() -> None:
        async with batch:
            async for outcome in batch:
                seen.append(outcome)

    with pytest.raises(LookupError, match="a defect of the judge"):
        await (read() if streamed else batch)
    outcomes = sorted([*seen, *batch.result], key=lambda outcome: outcome.index)
    assert [outcome.status for outcome in outcomes] == (
        [SUCCEEDED] * 10 + [UNKNOWN] * 10 + [NOT_SENT] * 20
    )
    assert len(transport.asked) == 2


async def test_an_error_in_the_body_is_not_replaced_and_leaves_a_result() -> None:
    batch = client_over(MemoryTransport(all_done)).refund(refunds(200))

    async def read() -> None:
        async with batch:
            async for _ in batch:
                raise LookupError

    with pytest.raises(LookupError):
        await read()
    assert sum(batch.result.counts.values()) == 200


class _Held:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.held = asyncio.Event()

    async def __call__(self, asked: Asked) -> dict[str, Any]:
        self.held.set()
        await self.release.wait()
        return asked.done()


async def test_leaving_waits_for_what_is_in_flight() -> None:
    held = _Held()
    policy = BatchPolicy(concurrency=1, chunk_size=10, drain_seconds=30)
    async with client_over(MemoryTransport(held), policy=policy).refund(refunds(30)) as batch:
        await held.held.wait()
        asyncio.get_running_loop().call_soon(held.release.set)
    assert [outcome.index for outcome in batch.result.succeeded] == list(range(10))
    assert [outcome.index for outcome in batch.result.not_sent] == list(range(10, 30))


async def test_what_does_not_end_within_the_drain_time_is_unknown() -> None:
    held = _Held()
    policy = BatchPolicy(concurrency=1, chunk_size=10, drain_seconds=0)
    async with client_over(MemoryTransport(held), policy=policy).refund(refunds(30)) as batch:
        await held.held.wait()
    assert [outcome.index for outcome in batch.result.unknown] == list(range(10))
    assert [outcome.index for outcome in batch.result.not_sent] == list(range(10, 30))


async def test_a_cancelled_call_drains_and_leaves_a_result() -> None:
    held = _Held()
    policy = BatchPolicy(concurrency=1, chunk_size=10)
    batch = client_over(MemoryTransport(held), policy=policy).refund(refunds(30))
    task = asyncio.create_task(batch)
    await held.held.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(held.release.set)
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert getattr(caught.value, "outcome", None) is batch.result
    assert batch.result.counts[SUCCEEDED] == 10
    assert batch.result.counts[NOT_SENT] == 20


def _failing_from(first: int) -> Any:
    """Answer 500 to the chunks that begin at this order or later."""
    return lambda asked: BROKEN if int(asked.transactions[0][1:]) >= first else asked.done()


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_batch_stops_after_so_many_chunks_without_a_reply(
    limit: int, streamed: bool
) -> None:
    transport = MemoryTransport(_failing_from(100))
    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=limit)
    batch = client_over(transport, policy=policy).refund(iter(refunds(300)))
    if streamed:
        async with batch:
            outcomes = [outcome async for outcome in batch]
    else:
        outcomes = list(await batch)
    statuses = [outcome.status for outcome in sorted(outcomes, key=lambda o: o.index)]
    assert statuses == (
        [SUCCEEDED] * 100 + [UNKNOWN] * 10 * limit + [NOT_SENT] * (200 - 10 * limit)
    )
    assert len(transport.asked) == 10 + limit
    assert "stop_after_unknown" in str(batch_error(outcomes))


def batch_error(outcomes: list[Any]) -> object:
    """Return why the last order was not sent."""
    return max(outcomes, key=lambda outcome: outcome.index).error


async def test_a_readable_reply_in_between_starts_the_count_anew() -> None:
    def handler(asked: Asked) -> Any:
        return asked.done() if int(asked.transactions[0][1:]) % 30 == 0 else BROKEN

    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=3)
    result = await client_over(MemoryTransport(handler), policy=policy).refund(refunds(300))
    assert result.counts[NOT_SENT] == 0
    assert result.counts[UNKNOWN] == 200


async def test_chunks_that_were_not_sent_count_too() -> None:
    def handler(_: Asked) -> Any:
        raise NotSentError("as if the connection were refused")

    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=2)
    transport = MemoryTransport(handler)
    gateway = client_over(transport, policy=policy, retry=RetryPolicy(attempts=1))
    result = await gateway.refund(refunds(100))
    assert len(transport.asked) == 2
    assert result.counts[NOT_SENT] + result.counts[UNKNOWN] == 100


async def test_a_batch_is_used_once() -> None:
    gateway = client_over(MemoryTransport(all_done))
    batch = gateway.refund(refunds(1))
    await batch
    with pytest.raises(RuntimeError, match="once"):
        await batch
    with pytest.raises(RuntimeError, match="once"):
        async with batch:
            pytest.fail("entered")


async def test_a_batch_tells_nothing_before_it_knows() -> None:
    batch = client_over(MemoryTransport(all_done)).refund(refunds(1))
    assert (batch.progress.done, batch.progress.requests, batch.progress.total) == (0, 0, None)
    with pytest.raises(RuntimeError, match="no result"):
        _ = batch.result
    with pytest.raises(RuntimeError, match="async with"):
        await anext(batch)
    await batch


def test_a_batch_that_is_dropped_warns() -> None:
    with pytest.warns(RuntimeWarning, match="Batch refund new.* never awaited"):
        client_over(MemoryTransport(all_done)).refund(refunds(1))


def test_a_batch_that_was_refused_does_not_warn() -> None:
    with pytest.raises(InvalidOrderError):
        client_over(MemoryTransport(all_done)).refund("T1")  # type: ignore[arg-type]  # on purpose


async def test_a_forgotten_await_is_named() -> None:
    batch: Any = client_over(MemoryTransport(all_done)).refund(refunds(1))
    with pytest.raises(AttributeError, match="no attribute 'counts'; the result has: await"):
        _ = batch.counts
    with pytest.raises(AttributeError, match=r"no attribute 'count_all'$"):
        _ = batch.count_all
    assert not hasattr(batch, "_no_such_thing")
    assert (await batch).ok


async def test_progress_grows_to_the_whole() -> None:
    policy = BatchPolicy(concurrency=1, chunk_size=10)
    async with client_over(MemoryTransport(all_done), policy=policy).refund(refunds(40)) as batch:
        assert batch.progress.total == 40
        done = [batch.progress.done async for _ in batch]
        assert batch.progress.requests == 4
    assert done == sorted(done)
    assert done[-1] == 40
    assert batch.result.counts[SUCCEEDED] == 40
    assert list(batch.result) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_deadline_within_a_pause_leaves_no_order_out(*, streamed: bool) -> None:
    """In Python 3.11, `wait_for` swallows a cancellation that comes with its end."""

    async def work() -> int:
        busy = HttpResponse(503, {"Retry-After": "20"}, b"")
        policy = BatchPolicy(chunk_size=1, deadline_seconds=5, stop_after_unknown=100)
        gateway = client_over(MemoryTransport(lambda _: busy), policy=policy)
        batch = gateway.refund(iter(refunds(50)))
        if not streamed:
            return len(await batch)
        async with batch:
            return len([outcome async for outcome in batch])

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(work()) == 50


async def test_a_reply_that_is_nested_too_deep_for_the_reader_loses_no_outcome() -> None:
    """It was judged on the shallow stack of a worker, and is read again on a deep one."""

    def answer(asked: Asked) -> HttpResponse:
        nested: Any = "x"
        for _ in range(850):
            nested = [nested]
        (order,) = asked.fields["refund_orders"]
        reply = asked.done(refund_orders=[{**order, "refund_status": "9", "note": nested}])
        return HttpResponse(200, {}, json.dumps(reply, indent=1).encode())

    async def deep(levels: int, batch: Batch[Any, Any]) -> list[Any]:
        if levels:
            return await deep(levels - 1, batch)
        return [outcome async for outcome in batch]

    gateway = client_over(MemoryTransport(answer))
    async with gateway.refund(refunds(1)) as batch:
        outcomes = await deep(250, batch)
    assert [outcome.status for outcome in outcomes] == [OutcomeStatus.UNKNOWN]
    assert len(batch.result) == 0
