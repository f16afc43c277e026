"""The tables of a journal, read and changed past the library; and jobs to look at."""

import functools
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import attrs
import psycopg
import pytest

from gateway_async.journal import Job, Journal
from gateway_async.journal.rows import CHUNK_COLUMNS, ChunkState, Known, Merchant
from gateway_async.journal.submit import submit as submit_orders
from gateway_async.operations import OPERATIONS
from tests.support.orders import refunds

MERCHANT = Merchant("M1", "A1", "")
on_a_file = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""A test that needs no more than one database has a file."""


class Tables:
    """The tables of one database."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        return self._run([statement])[0]

    def _run(self, statements: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        """Carry statements out in one transaction; return the rows of each."""
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as file, file:
                return [file.execute(each).fetchall() for each in statements]
        with psycopg.connect(self.url) as server:
            cursors = [server.execute(each.encode()) for each in statements]
            return [each.fetchall() if each.description else [] for each in cursors]

    def end_leases(self) -> None:
        """Let every lease run out, by the database's clock."""
        self.run("UPDATE gateway_slices SET expires_at = 0")

    def end_leases_in(self, seconds: float) -> None:
        """Let every lease of a file run out so long from now, by the database's clock."""
        now = f"(julianday('now') - 2440587.5) * 86400.0 + {seconds}"
        self.run(f"UPDATE gateway_slices SET expires_at = {now}")  # noqa: S608  # ours

    def chunks(self) -> list[ChunkState]:
        """Return what is known, chunk by chunk; there is no gap in a job."""
        columns = ", ".join(CHUNK_COLUMNS)
        rows = self.run(f"SELECT {columns} FROM gateway_chunks ORDER BY job_id, first")  # noqa: S608  # ours
        found = [ChunkState.read(row) for row in rows]
        for one, two in pairwise(found):
            follows = max(one.known) + 1 if one.job_id == two.job_id else 0
            assert min(two.known) == follows
        return found

    def known(self) -> list[Known]:
        """Return what is known of each order, by job and position."""
        return [known for chunk in self.chunks() for known in chunk.known.values()]

    def states(self) -> list[str]:
        return [str(known.state) for known in self.known()]

    def put(self, *positions: int, **changes: Any) -> None:
        """Change what is known of orders of any job: of those at these positions, or all."""
        updates = []
        for chunk in self.chunks():
            known = {
                at: each._replace(**changes) if not positions or at in positions else each
                for at, each in chunk.known.items()
            }
            row = attrs.evolve(chunk, known=known).row()
            values = ", ".join(f"{name} = {_literal(value)}" for name, value in row.items())
            place = f"job_id = {chunk.job_id} AND first = {min(known)}"
            updates.append(f"UPDATE gateway_chunks SET {values} WHERE {place}")  # noqa: S608  # ours
        self._run(updates)

    def snapshot(self) -> list[list[tuple[Any, ...]]]:
        names = ("jobs", "slices", "orders", "chunks", "payout_keys")
        found = self._run([f"SELECT * FROM gateway_{name}" for name in names])  # noqa: S608  # of this list
        return [sorted(rows, key=repr) for rows in found]


def _literal(value: object) -> str:
    quoted = str(value).replace("'", "''")
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{quoted}'"


async def pages_of(orders: Sequence[Any], size: int = 1000) -> AsyncIterator[Sequence[Any]]:
    for start in range(0, len(orders), size):
        yield orders[start : start + size]


submit = functools.partial(  # a job, as a client does; it returns how many orders that has
    submit_orders, operation=OPERATIONS["refund"], merchant=MERCHANT, chunk_size=50, slice_size=0
)


async def submitted(
    journal: Journal, orders: Sequence[Any] | None = None, name: str = "job", slice_size: int = 0
) -> Job:
    """Return a job with these refunds, by default ten."""
    job = journal.job(name)
    await submit(job, pages_of(refunds(10) if orders is None else orders), slice_size=slice_size)
    return job


async def kept(journal: Journal, name: str = "job") -> list[Any]:
    """Return the outcomes of a job."""
    return [outcome async for outcome in journal.outcomes(name)]


CALLS = ("execute", "executemany", "commit")


@attrs.define
class Failures:
    """The statements and commits of drivers' connections that fail, by their number from 0.

    How they fail: they are "refused"; a commit is done and "in doubt"; or the file is "full".
    """

    fails: Callable[[int], bool]
    how: str = "refused"
    of: tuple[str, ...] = CALLS  # which calls are counted, and may fail
    counts: Counter[str] = attrs.field(factory=Counter)
    failed: int = 0

    def over(self, connect: Callable[[Any], Any]) -> Callable[[Any], "FailingDriver"]:
        """Return what connects as a database's engine does."""
        return lambda engine: FailingDriver(connect(engine), engine.error, self)

    def strike(self, journal: Journal) -> None:
        """Let them fail in a journal that is open."""
        database: Any = journal.database
        engine, connect = database._engine, database._engine.connect
        engine.connect = lambda: FailingDriver(connect(), engine.error, self)
        database._driver = FailingDriver(database._driver, engine.error, self)

    def call(self, failing: "FailingDriver", name: str, *given: Any) -> Any:
        call: Callable[..., Any] = getattr(failing.driver, name)
        number = sum(self.counts[each] for each in self.of)
        self.counts[name] += 1
        if name not in self.of or not self.fails(number):
            return call(*given)
        self.failed += 1
        if self.how == "refused":
            raise failing.error("disk I/O error")
        if self.how == "full":
            failing.driver.execute("PRAGMA max_page_count = 1")  # or as many as it has
            return call(*given)
        call()
        raise failing.error("the server is gone")


@attrs.frozen
class FailingDriver:
    """A driver's connection, or a cursor of it."""

    driver: Any
    error: type[Exception]
    failures: Failures

    def cursor(self) -> "FailingDriver":
        return attrs.evolve(self, driver=self.driver.cursor())

    def __getattr__(self, name: str) -> Any:
        if name in CALLS:
            return functools.partial(self.failures.call, self, name)
        return getattr(self.driver, name)
