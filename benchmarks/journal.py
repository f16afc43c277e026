"""What does a journal cost an order, and how much of the time?

Run as ``python -m benchmarks.journal [URL]``; without one the journal is a SQLite file below the
temporary directory. Refunds go out with markers, so that both sides send the same requests. CPU
time is that of this process, its writer thread included; the database server's is not in it.
"""

import asyncio
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.refund_batch import CONCURRENCY, REQUESTS, make_orders
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async import BatchPolicy, Credentials, GatewayClient, HmacSigner, RecoveryPolicy
from gateway_async.journal import Journal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gateway_async import BatchResult, RefundOrder
    from gateway_async.journal import Job

ROUNDS = 7
LATENCY_SECONDS = 0.05
TOTAL = REQUESTS * ORDERS


def all_orders() -> "list[RefundOrder]":
    """Return the orders of one run; the stub knows no others, so they repeat."""
    return list(itertools.chain.from_iterable(itertools.repeat(make_orders(), REQUESTS)))


def client_at(url: str) -> GatewayClient:
    """Return a client of the stub."""
    return GatewayClient(
        url,
        Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret")),
        policy=BatchPolicy(concurrency=CONCURRENCY, duplicates="allow"),
        recovery=RecoveryPolicy(refund_evidence="marker"),
    )


def check(result: "BatchResult[RefundOrder, Any]") -> None:
    """See that all of it was done."""
    if not result.ok or len(result) != TOTAL:
        raise RuntimeError(f"not every order succeeded: {result.counts}")


class Costs:
    """CPU and wall time of one step, in microseconds an order."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []

    @contextlib.contextmanager
    def measured(self) -> "Iterator[None]":
        """Measure what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu.append((time.process_time() - cpu) / TOTAL * 1e6)
        self.wall.append((time.perf_counter() - wall) / TOTAL * 1e6)


async def pages(orders: "list[RefundOrder]") -> "AsyncIterator[list[RefundOrder]]":
    """Yield the orders as a job takes them in."""
    for start in range(0, len(orders), 1000):
        yield orders[start : start + 1000]


async def import_orders(job: "Job", orders: "list[RefundOrder]") -> None:
    """Keep the orders in the journal, and send none."""
    await job.submit("refund", "M1", "A1", pages(orders))


async def compare(url: str, journal_url: str, rounds: int) -> tuple[Costs, Costs, Costs]:
    """Run the same refunds without and with a journal, in turn."""
    plain, imported, resumed = Costs(), Costs(), Costs()
    orders = all_orders()
    async with client_at(url) as gateway, Journal.open(journal_url) as journal:
        check(await gateway.refund(orders))
        for _ in range(rounds):
            with plain.measured():
                check(await gateway.refund(orders))
            job = journal.job(uuid.uuid4().hex)
            with imported.measured():
                await import_orders(job, orders)
            with resumed.measured():
                check(await gateway.resume(job))
    return plain, imported, resumed


def main() -> None:
    """Print CPU an order without latency, and the share of wall time with it."""
    median = statistics.median
    with tempfile.TemporaryDirectory() as directory:
        journal = sys.argv[1] if sys.argv[1:] else f"sqlite:///{Path(directory, 'journal.db')}"
        with stub() as url:
            plain, imported, resumed = asyncio.run(compare(url, journal, ROUNDS))
        with stub(seconds=LATENCY_SECONDS) as url:
            slow, _, slow_resumed = asyncio.run(compare(url, journal, 3))
    added = [with_it - without for without, with_it in zip(plain.cpu, resumed.cpu, strict=True)]
    lower, middle, upper = statistics.quantiles(added, n=4)
    print(f"without a journal    {median(plain.cpu):6.2f} µs CPU an order")
    print(f"with it              {median(resumed.cpu):6.2f} µs CPU an order")
    print(f"added                {middle:6.2f} µs CPU an order ({lower:.2f} to {upper:.2f})")
    print(f"keeping the orders   {median(imported.cpu):6.2f} µs CPU an order, once")
    share = 1 - median(slow.wall) / median(slow_resumed.wall)
    print(f"share of wall time   {share:6.1%} at {LATENCY_SECONDS * 1000:.0f} ms latency")


if __name__ == "__main__":
    main()
