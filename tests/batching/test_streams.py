"""Streams and awaited batches: used once, bounded, stopped, and nothing lost by a defect."""

import asyncio
import json
from typing import Any

import pytest

from gateway_async import (
    Batch,
    BatchPolicy,
    InvalidOrderError,
    NotSentError,
    OutcomeStatus,
    RetryPolicy,
)
from tests.memory import Asked, HttpResponse, MemoryTransport, all_done, client_over
from tests.orders import refunds

SUCCEEDED, UNKNOWN, NOT_SENT = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.UNKNOWN,
    OutcomeStatus.NOT_SENT,
)
BROKEN = HttpResponse(500, {}, b"")


async def outcomes_of(batch: Batch[Any, Any], *, streamed: bool) -> list[Any]:
    """Return the outcomes in the order of the input."""
    if not streamed:
        return list(await batch)
    async with batch:
        return sorted([outcome async for outcome in batch], key=lambda outcome: outcome.index)


async def test_twenty_thousand_orders_take_no_more_tasks_than_workers() -> None:
    most = 0

    async def handler(asked: Asked) -> dict[str, Any]:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
        return asked.done()

    before = len(asyncio.all_tasks())
    gateway = client_over(MemoryTransport(handler), policy=BatchPolicy(concurrency=5))
    assert len(await outcomes_of(gateway.refund(iter(refunds(20_000))), streamed=True)) == 20_000
    assert most <= before + 5


class _Broken(str):
    """A currency that cannot be compared."""

    __slots__ = ()

    def casefold(self) -> str:
        raise LookupError("a defect of the judge")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_defect_while_a_reply_is_judged_loses_no_order(*, streamed: bool) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        items = asked.done()["refund_orders"]
        return asked.done(refund_orders=[{**item, "currency": "eur"} for item in items])

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
    expected = [SUCCEEDED] * 10 + [UNKNOWN] * 10 + [NOT_SENT] * 20
    assert [outcome.status for outcome in outcomes] == expected
    assert len(transport.asked) == 2


async def test_a_reply_that_is_nested_too_deep_for_the_reader_loses_no_outcome() -> None:
    """It was judged on the shallow stack of a worker, and is read again on a deep one."""
    nested = "[" * 850 + "]" * 850

    def answer(asked: Asked) -> bytes:
        (order,) = asked.fields["refund_orders"]
        reply = asked.done(refund_orders=[{**order, "refund_status": "9", "note": "nested"}])
        return json.dumps(reply).replace('"nested"', nested).encode()

    async def deep(levels: int, batch: Batch[Any, Any]) -> list[Any]:
        return await (deep(levels - 1, batch) if levels else outcomes_of(batch, streamed=True))

    (outcome,) = await deep(250, client_over(MemoryTransport(answer)).refund(refunds(1)))
    assert outcome.status is UNKNOWN


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_batch_stops_after_so_many_chunks_without_a_reply(
    limit: int, streamed: bool
) -> None:
    transport = MemoryTransport(
        lambda asked: BROKEN if int(asked.transactions[0][1:]) >= 100 else asked.done()
    )
    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=limit)
    batch = client_over(transport, policy=policy).refund(iter(refunds(300)))
    outcomes = await outcomes_of(batch, streamed=streamed)
    assert [outcome.status for outcome in outcomes] == (
        [SUCCEEDED] * 100 + [UNKNOWN] * 10 * limit + [NOT_SENT] * (200 - 10 * limit)
    )
    assert len(transport.asked) == 10 + limit
    assert "stop_after_unknown" in str(outcomes[-1].error)


def _not_sent(_: Asked) -> Any:
    raise NotSentError("as if the connection were refused")


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (_not_sent, 3),  # which counts too
        (lambda asked: BROKEN if int(asked.transactions[0][1:]) % 30 else asked.done(), 30),
    ],
    ids=["not sent", "a readable reply in between starts the count anew"],
)
async def test_what_counts_as_without_a_reply(answer: Any, requests: int) -> None:
    transport = MemoryTransport(answer)
    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=3)
    gateway = client_over(transport, policy=policy, retry=RetryPolicy(attempts=1))
    assert len(await gateway.refund(refunds(300))) == 300
    assert len(transport.asked) == requests


async def test_a_batch_is_used_once_and_knows_nothing_before() -> None:
    batch = client_over(MemoryTransport(all_done)).refund(refunds(1))
    assert (batch.progress.done, batch.progress.requests, batch.progress.total) == (0, 0, None)
    with pytest.raises(RuntimeError, match="no result"):
        _ = batch.result
    with pytest.raises(RuntimeError, match="async with"):
        await anext(batch)
    await batch
    for streamed in (False, True):
        with pytest.raises(RuntimeError, match="once"):
            await outcomes_of(batch, streamed=streamed)


def test_a_batch_that_is_dropped_warns_but_not_one_that_was_refused() -> None:
    gateway: Any = client_over(MemoryTransport(all_done))
    with pytest.warns(RuntimeWarning, match="Batch refund new.* never awaited"):
        gateway.refund(refunds(1))
    with pytest.raises(InvalidOrderError):
        gateway.refund("T1")


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
    assert list(batch.result) == []
