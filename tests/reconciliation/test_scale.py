"""A long ledger takes no more memory than a short one."""

import tracemalloc
from typing import Any

from gateway_async.reconciliation import reconcile
from tests.memory import MemoryTransport, client_over
from tests.reconciliation.books import Books, entries

FEW = 500
MOST_GROWTH = 150
"""Bytes an entry at most, since rubbish piles up for a while; one that is kept takes hundreds."""


class _Forgetful(list[Any]):
    """Keeps nothing."""

    def append(self, _: Any) -> None:
        """Let it go."""


async def _stream(count: int) -> None:
    books = Books({f"T{number:06d}": None for number in range(0, count, 500)})
    gateway = client_over(MemoryTransport(books, _Forgetful()))
    told = 0
    async with reconcile(gateway, entries(count), window=100) as reconciliation:
        async for _ in reconciliation:
            told += 1
    summary = reconciliation.summary
    assert (told, summary.entries) == (count // 500, count)
    assert summary.matched == count - told
    assert books.requests == 2 * count // 100


async def _peak(count: int) -> int:
    tracemalloc.start()
    try:
        await _stream(count)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_the_ledger() -> None:
    await _stream(FEW)
    few, more = await _peak(FEW), await _peak(5 * FEW)
    assert more - few < MOST_GROWTH * 4 * FEW
