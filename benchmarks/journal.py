"""What does a journal cost an order, beside one that is written by hand; and how much of the time?

Run as ``python -m benchmarks.journal [URL]``; without one the journal is a SQLite file below the
temporary directory. Refunds go out with markers, so that all sides send the same requests. CPU
time is that of this process with all of its threads; a database server's is not in it.

The one by hand is what aiosqlite's users write: a row for each chunk before it is sent, what
became of it after that, and a commit each, by the same PRAGMAs and at the same two places.

Without latency the event loop waits only where a journal makes it wait, and what runs after a wait
runs slower: that is a part of what either journal adds.
"""

import asyncio
import contextlib
import gc
import itertools
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiosqlite
import attrs
import orjson

from benchmarks.figures import Figure, at_most, median_of, ratio_of, show
from benchmarks.refund_batch import CONCURRENCY, REQUESTS, made_orders
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async import BatchPolicy, Credentials, GatewayClient, HmacSigner, RecoveryPolicy
from gateway_async.batching.recorder import IntentRecorder
from gateway_async.batching.runner import BatchRunner
from gateway_async.journal import Journal
from gateway_async.operations import REFUND

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from gateway_async import BatchResult, RefundOrder
    from gateway_async.journal import Job

ROUNDS = 9
LATENCY_SECONDS = 0.05
SLOW_ROUNDS = 5
TOTAL = REQUESTS * ORDERS
POLICY = BatchPolicy(concurrency=CONCURRENCY, duplicates="allow")
RECOVERY = RecoveryPolicy(refund_evidence="marker")
MARKER = "000000000000"
UNIT = "µs CPU an order"


def all_orders() -> "list[RefundOrder]":
    """Return the orders of one run; the stub knows no others, so they repeat."""
    return list(itertools.chain.from_iterable(itertools.repeat(made_orders(), REQUESTS)))


def client_at(url: str) -> GatewayClient:
    """Return a client of the stub."""
    return GatewayClient(
        url,
        Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret")),
        policy=POLICY,
        recovery=RECOVERY,
    )


def check(result: "BatchResult[RefundOrder, Any]") -> None:
    """See that all of it was done."""
    if not result.ok or len(result) != TOTAL:
        raise RuntimeError(f"not every order succeeded: {result.counts}")


@attrs.frozen
class ByHand:
    """A journal as it is written by hand, a row a chunk, in the place of a job's lease."""

    database: aiosqlite.Connection

    def intend(
        self,
        indices: "Sequence[int]",
        *,
        references: object,
        marker: str | None,
        alone: bool,
        once: bool,
    ) -> "asyncio.Future[tuple[int, str]]":
        """Keep which orders are about to be sent."""
        del references, alone, once
        insert = "INSERT INTO chunks (state, orders, marker) VALUES ('intent', ?, ?)"
        values = orjson.dumps(list(indices)), marker
        return asyncio.ensure_future(self._intend(insert, values))

    async def _intend(self, insert: str, values: tuple[object, ...]) -> tuple[int, str]:
        return await self._write(insert, values), ""

    def succeed(
        self,
        request: int,
        indices: "Sequence[int]",
        references: "Sequence[str]",
        *,
        ended_at: float,
    ) -> "asyncio.Future[int]":
        """Keep what became of each order: all of them succeed here."""
        del indices
        update = "UPDATE chunks SET state = 'settled', told = ?, ended_at = ? WHERE id = ?"
        values = orjson.dumps(references), ended_at, request
        return asyncio.ensure_future(self._write(update, values))

    async def _write(self, statement: str, values: tuple[object, ...]) -> int:
        cursor = await self.database.execute(statement, values)
        await self.database.commit()
        return cursor.lastrowid or 0

    def check(self) -> None:
        """Nobody else writes to it."""


@contextlib.asynccontextmanager
async def by_hand(path: Path) -> "AsyncIterator[ByHand]":
    """Open a journal by hand, as durable as ours."""
    async with aiosqlite.connect(path) as database:
        for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1"):
            await database.execute(f"PRAGMA {setting}")
        await database.execute(
            "CREATE TABLE chunks (id INTEGER PRIMARY KEY, state TEXT, orders TEXT, marker TEXT, "
            "told TEXT, ended_at REAL)"
        )
        await database.commit()
        yield ByHand(database)


class Costs:
    """CPU and wall time of the runs of one side, in microseconds an order."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []

    @contextlib.contextmanager
    def measured(self) -> "Iterator[None]":
        """Measure what happens inside, and not what the sides before left behind."""
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu.append((time.process_time() - cpu) / TOTAL * 1e6)
        self.wall.append((time.perf_counter() - wall) / TOTAL * 1e6)

    def added_to(self, other: "Costs") -> list[float]:
        """Return the CPU time that this side takes more than another, round by round."""
        return [ours - theirs for ours, theirs in zip(self.cpu, other.cpu, strict=True)]


async def pages(orders: "list[RefundOrder]") -> "AsyncIterator[list[RefundOrder]]":
    """Yield the orders as a job takes them in."""
    for start in range(0, len(orders), 1000):
        yield orders[start : start + 1000]


async def import_orders(job: "Job", orders: "list[RefundOrder]") -> None:
    """Keep the orders in the journal, and send none."""
    await job.submit("refund", "M1", "A1", pages(orders))


async def refund_with(
    gateway: GatewayClient, orders: "list[RefundOrder]", recorder: IntentRecorder | None
) -> None:
    """Refund the orders, recorded before and after each request."""
    session = gateway._session  # noqa: SLF001  # the seam that both journals stand at
    run = BatchRunner(session, REFUND, orders, policy=POLICY, recovery=RECOVERY)
    if recorder is not None:
        run._open_feed(orders, POLICY, marker=MARKER, began_at=0.0, recorder=recorder)  # noqa: SLF001  # as a job
    check(await run.complete())


@attrs.frozen
class Sides:
    """What is compared; each round runs all of them.

    Attributes:
        none: The refunds without a journal.
        commits: With the journal's two commits a chunk alone.
        hand: With those of the one by hand.
        whole: As a job: kept first, then sent.
        kept: Keeping the orders, and sending none.
        resumed: A job whose orders are read from the journal.
    """

    none: Costs = attrs.field(factory=Costs)
    commits: Costs = attrs.field(factory=Costs)
    hand: Costs = attrs.field(factory=Costs)
    whole: Costs = attrs.field(factory=Costs)
    kept: Costs = attrs.field(factory=Costs)
    resumed: Costs = attrs.field(factory=Costs)


async def compare(url: str, journal_url: str, path: Path, rounds: int) -> Sides:
    """Run the same refunds on all sides, in turn; the first round only warms up."""
    sides, orders = Sides(), all_orders()
    async with (
        client_at(url) as gateway,
        Journal.open(journal_url) as journal,
        by_hand(path) as hand,
    ):
        for number in range(rounds + 1):
            now = sides if number else Sides()
            with now.none.measured():
                await refund_with(gateway, orders, None)
            first, second, third = (journal.job(uuid.uuid4().hex) for _ in range(3))
            with now.kept.measured():
                await import_orders(first, orders)
            lease = await first.take("benchmark")
            with now.commits.measured():
                await refund_with(gateway, orders, IntentRecorder(lease, REFUND))
            await lease.release()
            with now.hand.measured():
                await refund_with(gateway, orders, IntentRecorder(hand, REFUND))  # type: ignore[arg-type]  # in its place
            with now.whole.measured():
                check(await gateway.refund(orders, job=second))
            await import_orders(third, orders)
            with now.resumed.measured():
                check(await gateway.resume(third))
    return sides


def measure(journal_url: str | None = None) -> list[Figure]:
    """Return CPU an order without latency, and the share of wall time with it."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        chosen = journal_url or f"sqlite:///{folder / 'journal.db'}"
        with stub(apart=False) as url:
            sides = asyncio.run(compare(url, chosen, folder / "hand.db", ROUNDS))
        with stub(seconds=LATENCY_SECONDS, apart=False) as url:
            slow = asyncio.run(compare(url, chosen, folder / "slow.db", SLOW_ROUNDS))
    commits, hand = sides.commits.added_to(sides.none), sides.hand.added_to(sides.none)
    return [
        median_of("refunds without a journal", sides.none.cpu, UNIT),
        median_of(
            "durable journal, two commits a chunk, markers, added",
            commits,
            UNIT,
            goal=at_most(3.0),
            detail="intent before and outcome after each request, fsync at each commit",
        ),
        median_of("aiosqlite by hand, two commits a chunk, added", hand, UNIT),
        Figure(
            name="durable journal against aiosqlite by hand",
            value=statistics.median(commits) / statistics.median(hand),
            unit="x what aiosqlite adds",
            goal=at_most(0.5),
            detail="of the medians of what each adds",
        ),
        median_of("durable journal, keeping the orders", sides.kept.cpu, UNIT, detail="once"),
        median_of(
            "durable journal, whole job, added",
            sides.whole.added_to(sides.none),
            UNIT,
            detail="orders kept, sent, told; they are checked once on both sides",
        ),
        median_of(
            "durable journal, resumed job, added",
            sides.resumed.added_to(sides.none),
            UNIT,
            detail="orders were kept before, and are read from the journal",
        ),
        ratio_of(
            f"durable journal, wall time of a job with markers at {LATENCY_SECONDS * 1000:.0f} ms",
            slow.resumed.wall,
            slow.none.wall,
            "x without a journal",
            goal=at_most(1.05),
            detail="orders were kept before, and are read from the journal",
        ),
    ]


if __name__ == "__main__":
    show(measure(*sys.argv[1:2]))
