"""What does a journal cost an order, beside one that is written by hand; and how much of the time?

Run as ``python -m benchmarks.journal [URL]``; without one the journal is a SQLite file below the
temporary directory. CPU time is that of this process with all of its threads; a database server's
is not in it.

The two commits of a chunk stand around a request that raw aiohttp sends: what is about to be sent,
and what became of it. The one by hand is what aiosqlite's users write: a row a chunk, changed once,
and a commit each, by the same PRAGMAs. What either adds is what it takes more than the requests
alone: the event loop then waits only for the journal, and what runs after a wait runs slower.

Whole jobs are measured beside the same batch without a journal; both capture, since a job of
refunds also looks up earlier ones.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import aiosqlite
import orjson

from benchmarks import refund_batch
from benchmarks.figures import Figure, alternate, at_most, median_of, ratio_of, show
from benchmarks.refund_batch import CONCURRENCY, REQUESTS
from benchmarks.replies import ORDERS, names
from benchmarks.stub import stub
from gateway_async import CaptureOrder
from gateway_async.journal import Journal
from gateway_async.journal.rows import DONE, Merchant
from gateway_async.journal.submit import submit
from gateway_async.operations import CAPTURE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway_async.journal import Job

ROUNDS = 9
LATENCY_SECONDS = 0.05
SLOW_ROUNDS = 5
TOTAL = REQUESTS * ORDERS
MADE = [
    CaptureOrder(**names(number), currency="EUR", amount=Decimal("100.00"))
    for number in range(ORDERS)
]
REFERENCES = [f"T{number:020}-01" for number in range(ORDERS)]
SUCCEEDED = [DONE] * ORDERS
MERCHANT = Merchant("M1", "A1", "")


def all_orders() -> list[CaptureOrder]:
    """Return the orders of one run; the stub knows no others, so they repeat."""
    return MADE * REQUESTS


async def submitted(job: "Job") -> "Job":
    """Keep all orders in the journal, and send none."""

    async def pages() -> "AsyncIterator[list[CaptureOrder]]":
        orders = all_orders()
        for start in range(0, TOTAL, 1000):
            yield orders[start : start + 1000]

    await submit(job, pages(), operation=CAPTURE, merchant=MERCHANT, chunk_size=ORDERS)
    return job


async def nothing(*_: object) -> None:
    """Record nothing."""


async def each_chunk(
    url: str,
    intend: "Callable[[int, range], Awaitable[object]]" = nothing,
    succeed: "Callable[[int, range], Awaitable[object]]" = nothing,
) -> float:
    """Send every chunk, recorded before and after; return the CPU time, in µs an order."""
    body, requests = refund_batch.make_body(), iter(range(1, REQUESTS + 1))
    async with aiohttp.ClientSession() as session:

        async def work() -> None:
            for request in requests:
                indices = range((request - 1) * ORDERS, request * ORDERS)
                await intend(request, indices)
                async with session.post(f"{url}/v1/refund", data=body) as reply:
                    orjson.loads(await reply.read())
                await succeed(request, indices)

        began = time.process_time()
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        return (time.process_time() - began) / TOTAL * 1e6


async def ours(url: str, journal_url: str) -> float:
    """Record the chunks of a job."""
    async with Journal.open(journal_url) as journal:
        lease = await (await submitted(journal.job(uuid.uuid4().hex))).take(MERCHANT)
        cost = await each_chunk(
            url,
            lambda _, indices: lease.change("intend", lambda orders: orders.intend(indices, "")),
            lambda _, indices: lease.change(
                "succeed", lambda orders: orders.conclude(indices, SUCCEEDED, REFERENCES, 0.0)
            ),
        )
        await lease.release()
    return cost


async def by_hand(url: str, path: Path) -> float:
    """Record them by hand, as durably."""
    async with aiosqlite.connect(path) as database:

        async def write(statement: str, *values: object) -> None:
            await database.execute(statement, values)
            await database.commit()

        for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1"):
            await database.execute(f"PRAGMA {setting}")
        await write("DROP TABLE IF EXISTS chunks")
        await write("CREATE TABLE chunks (id INTEGER, state TEXT, orders TEXT, found TEXT)")
        insert = "INSERT INTO chunks (id, state, orders) VALUES (?, 'intent', ?)"
        update = "UPDATE chunks SET state = 'succeeded', found = ? WHERE id = ?"
        return await each_chunk(
            url,
            lambda request, indices: write(insert, request, orjson.dumps(list(indices))),
            lambda request, _: write(update, orjson.dumps(REFERENCES), request),
        )


async def capture(url: str, journal_url: str | None, clock: "Callable[[], float]") -> float:
    """Return the seconds of a job that was submitted, or of a batch without a journal."""
    async with contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(refund_batch.client_at(url))
        if journal_url is None:
            batch = gateway.capture(all_orders())
        else:
            journal = await stack.enter_async_context(Journal.open(journal_url))
            batch = gateway.resume(await submitted(journal.job(uuid.uuid4().hex)))
        began = clock()
        result = await batch
        seconds = clock() - began
    refund_batch.expect(len(result) * result.ok, TOTAL)
    return seconds


def with_and_without(
    journal_url: str, latency: float, clock: "Callable[[], float]", rounds: int
) -> tuple[list[float], list[float]]:
    """Run the job and the batch in turn, against a gateway that takes so long to answer."""
    with stub("capture", latency, apart=False) as url:
        sides = {
            "job": lambda: asyncio.run(capture(url, journal_url, clock)),
            "batch": lambda: asyncio.run(capture(url, None, clock)),
        }
        seconds = alternate(sides, rounds)
    return seconds["job"], seconds["batch"]


def measure(journal_url: str | None = None) -> list[Figure]:
    """Return CPU time an order without latency, and the share of wall time with it."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        kept = journal_url or f"sqlite:///{folder / 'journal.db'}"
        with stub(apart=False) as url:
            costs = alternate(
                {
                    "none": lambda: asyncio.run(each_chunk(url)),
                    "ours": lambda: asyncio.run(ours(url, kept)),
                    "by hand": lambda: asyncio.run(by_hand(url, folder / "hand.db")),
                },
                ROUNDS,
            )
        quick = with_and_without(kept, 0.0, time.process_time, ROUNDS)
        slow = with_and_without(kept, LATENCY_SECONDS, time.perf_counter, SLOW_ROUNDS)
    added = {
        side: [one - none for one, none in zip(costs[side], costs["none"], strict=True)]
        for side in ("ours", "by hand")
    }
    what, unit = "two durable commits a chunk, added", "µs CPU an order"
    return [
        median_of(what, added["ours"], unit, goal=at_most(3.0)),
        median_of(f"{what} by aiosqlite and hand", added["by hand"], unit),
        Figure(
            name=what,
            value=statistics.median(added["ours"]) / statistics.median(added["by hand"]),
            unit="x by hand",
            goal=at_most(0.5),
            detail="of the medians",
        ),
        ratio_of("a job that was submitted", *quick, "x CPU of a batch"),
        ratio_of(
            f"a job that was submitted, at {LATENCY_SECONDS * 1000:.0f} ms",
            *slow,
            "x wall time of a batch",
            goal=at_most(1.05),
        ),
    ]


if __name__ == "__main__":
    show(measure(*sys.argv[1:2]))
