"""How much memory does a batch take, however many orders there are?

Run as ``python -m benchmarks.memory``. Each batch runs in a process of its own, which first runs
a small one, so that what is loaded at first use does not count; the figure is how far the peak of
its resident memory (VmHWM, so on Linux alone) lies above where it was then. Orders are made as
they are taken, and dropped by whoever reads their outcomes; an awaited result keeps every reply.
"""

import asyncio
import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import refund_batch
from benchmarks.figures import Figure, at_most, show
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async import OutcomeStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from gateway_async import RefundOrder

FEW, MANY = 100_000, 1_000_000
WARM_UP = 10_000
MEGABYTE = 1_000_000


def peak_bytes() -> int:
    """Return the peak of this process's resident memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("this system does not tell the peak of a process's memory")
    return int(found[1]) * 1024


def orders(count: int) -> "Iterator[RefundOrder]":
    """Make the stub's orders over and over."""
    made = (order for _ in itertools.count() for order in refund_batch.made_orders())
    return itertools.islice(made, count)


async def streamed(url: str, count: int) -> None:
    """Stream a batch, and keep nothing."""
    done = 0
    async with refund_batch.client_at(url) as gateway, gateway.refund(orders(count)) as batch:
        async for outcome in batch:
            done += outcome.status is OutcomeStatus.SUCCEEDED
    refund_batch.expect(done, count)


async def awaited(url: str, count: int) -> None:
    """Await a batch, and keep all of its result; the caller has the orders anyhow."""
    kept = refund_batch.made_orders()
    repeated = itertools.chain.from_iterable(itertools.repeat(kept, count // ORDERS))
    async with refund_batch.client_at(url) as gateway:
        result = await gateway.refund(repeated)
    refund_batch.expect(result.counts[OutcomeStatus.SUCCEEDED], count)


WAYS: "dict[str, Callable[[str, int], Awaitable[None]]]" = {
    "streamed": streamed,
    "awaited": awaited,
}


def growth(way: str, count: int) -> float:
    """Run a batch in a process of its own, and return by how many megabytes its memory grew."""
    with stub() as url:
        command = [sys.executable, "-m", "benchmarks.memory", way, url, str(count)]
        done = subprocess.run(  # noqa: S603  # this interpreter, and this module
            command, stdout=subprocess.PIPE, check=True, text=True
        )
    return int(done.stdout) / MEGABYTE


def grow(way: str, url: str, count: int) -> int:
    """Run a batch in this process, and return by how many bytes its memory grew."""
    run = WAYS[way]
    asyncio.run(run(url, WARM_UP))  # type: ignore[arg-type]  # a coroutine function
    before = peak_bytes()
    asyncio.run(run(url, count))  # type: ignore[arg-type]  # a coroutine function
    return peak_bytes() - before


def measure() -> list[Figure]:
    """Measure how the memory grows."""
    detail = "peak of resident memory above that of a small batch before it"
    return [
        Figure(
            name=f"{count:,} orders {way}",
            value=growth(way, count),
            unit="MB",
            goal=at_most(goal),
            detail=detail,
        )
        for way, count, goal in (
            ("streamed", FEW, 1),
            ("streamed", MANY, 1),
            ("awaited", MANY, 310),
        )
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        print(grow(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    else:
        show(measure())
