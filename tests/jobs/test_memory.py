"""What a streamed job needs of memory does not grow with its orders."""

import tracemalloc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from gateway_async import BatchPolicy, RefundOrder, jobs
from gateway_async.journal import Journal
from tests.memory import Answer, Asked, MemoryTransport, client_over
from tests.orders import made_up, orders_for
from tests.support.books import SUCCEEDED

FEW, MANY, PAGE = 500, 1_000, 100
MOST_GROWTH = 250
"""Bytes an order, at most; an order that is kept takes about 1,000."""


def _generated(count: int) -> Iterator[RefundOrder]:
    for number in range(count):
        yield from orders_for("refund", made_up(1, number))


def _done(asked: Asked) -> Answer:
    """Say that everything was done, and that there were no refunds before."""
    return (
        asked.done(refund_orders=[]) if asked.operation.name == "search_refunds" else asked.done()
    )


async def _peak(batch: Any, count: int) -> int:
    """Return the most bytes that were held while a batch was streamed."""
    tracemalloc.start()
    try:
        async with batch:
            assert {outcome.status async for outcome in batch} == {SUCCEEDED}
        assert batch.progress.done == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_stream_and_its_resume_stay_small(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_ROWS_AT_ONCE", "_NEW_AT_ONCE"):
        monkeypatch.setattr(jobs, name, PAGE)
    forgetful: Any = deque(maxlen=0)
    policy = BatchPolicy(duplicates="allow", concurrency=1)
    streams, resumes = list[int](), list[int]()
    async with client_over(MemoryTransport(_done, forgetful), policy=policy) as gateway:
        await gateway.refund(_generated(10), job=journal.job("what is loaded at first use"))
        for count in (FEW, MANY):
            job = journal.job(f"job {count}")
            streams.append(await _peak(gateway.refund(_generated(count), job=job), count))
            resumes.append(await _peak(gateway.resume(job), count))
    for few, many in (streams, resumes):
        assert many - few < MOST_GROWTH * (MANY - FEW)
