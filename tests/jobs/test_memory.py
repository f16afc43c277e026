"""What a streamed job needs of memory does not grow with its orders."""

import tracemalloc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from gateway_async import BatchPolicy, RefundOrder
from gateway_async.journal import Journal
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import made_up, orders_for

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

FEW, MANY = 2_000, 4_000
MOST_GROWTH = 250
"""Bytes an order, at most; an order that is kept takes about 1,000."""


def _generated(count: int) -> Iterator[RefundOrder]:
    for number in range(count):
        yield from orders_for("refund", made_up(1, number))


async def _peak(batch: Any, count: int) -> int:
    """Return the most bytes that were held while a batch was streamed."""
    tracemalloc.start()
    try:
        told = 0
        async with batch:
            async for _ in batch:
                told += 1
        assert told == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_a_stream_and_its_resume_stay_small(journal: Journal) -> None:
    peaks: dict[str, list[int]] = {"stream": [], "resume": []}
    forgetful: Any = deque(maxlen=0)
    transport = MemoryTransport(all_done, forgetful)
    async with client_over(
        transport, policy=BatchPolicy(duplicates="allow", concurrency=1)
    ) as gateway:
        await gateway.refund(_generated(10), job=journal.job("what is loaded at first use"))
        for count in (FEW, MANY):
            job = journal.job(f"job {count}")
            peaks["stream"].append(await _peak(gateway.refund(_generated(count), job=job), count))
            peaks["resume"].append(await _peak(gateway.resume(job), count))
    for few, many in peaks.values():
        assert many - few < MOST_GROWTH * (MANY - FEW)
