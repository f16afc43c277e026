"""The tables of a journal, read and changed past the library; and what tests do to a journal."""

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from sqlalchemy import event

from gateway_async.journal import Job, JobState, Journal
from gateway_async.journal.lease import Lease
from gateway_async.journal.rows import Known, Settlement
from tests.orders import refunds

ALL = frozenset(JobState)


class Tables:
    """The tables of one database."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Carry out a statement and commit; return its rows."""
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as file, file:
                return file.execute(statement).fetchall()
        with psycopg.connect(self.url) as server:
            cursor = server.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def now(self) -> str:
        """The database's clock, in SQL."""
        if self.url.startswith("sqlite"):
            return "(julianday('now') - 2440587.5) * 86400.0"
        return "EXTRACT(EPOCH FROM clock_timestamp())::float"

    def end_leases(self) -> None:
        """Let every lease run out, by the database's clock."""
        self.run("UPDATE gateway_leases SET expires_at = 0")

    def known(self) -> list[dict[str, Any]]:
        """Return what is known of each order, by job and position; there is no gap."""
        names = ("slice", *Known._fields)
        listed = ", ".join(names)
        own = {
            (job, position): dict(zip(names, known, strict=True))
            for job, position, *known in self.run(
                f"SELECT job_id, position, {listed} FROM gateway_exceptions"  # noqa: S608  # ours
            )
        }
        found: list[dict[str, Any]] = []
        for job, first, last, exceptions, *known in self.run(
            f"SELECT job_id, first, last, exceptions, {listed} FROM gateway_chunks "  # noqa: S608  # ours
            "ORDER BY job_id, first"
        ):
            assert first in {0, len(found)}
            alike = dict(zip(names, known, strict=True))
            references = json.loads(alike["reference"] or "null") or [""] * (last - first + 1)
            found += [
                own.get((job, at), {**alike, "reference": reference})
                for at, reference in zip(range(first, last + 1), references, strict=True)
            ]
            assert exceptions == sum((job, at) in own for at in range(first, last + 1))
        return found

    def states(self) -> list[str]:
        """Return the state of each order, by position."""
        return [known["state"] for known in self.known()]

    def put(self, *positions: int, **changes: object) -> None:
        """Change what is known of orders of the only job: of those at these positions, or all."""
        known = self.known()
        for position in positions or range(len(known)):
            self.run(f"DELETE FROM gateway_exceptions WHERE position = {position}")  # noqa: S608  # ours
            one = {"job_id": 1, "position": position, **known[position], **changes}
            values = ", ".join(map(_literal, one.values()))
            self.run(f"INSERT INTO gateway_exceptions ({', '.join(one)}) VALUES ({values})")  # noqa: S608  # ours
        self.run(
            "UPDATE gateway_chunks SET exceptions = (SELECT count(*) FROM gateway_exceptions "
            "WHERE position BETWEEN first AND last)"
        )

    def snapshot(self) -> list[list[tuple[Any, ...]]]:
        """Return everything that there is."""
        names = ("jobs", "leases", "orders", "chunks", "exceptions", "requests", "slices")
        return [sorted(self.run(f"SELECT * FROM gateway_{name}"), key=repr) for name in names]  # noqa: S608  # of this list


def _literal(value: object) -> str:
    return "NULL" if value is None else repr(value if isinstance(value, int) else str(value))


async def pages_of(orders: Sequence[Any], size: int = 1000) -> AsyncIterator[Sequence[Any]]:
    for start in range(0, len(orders), size):
        yield orders[start : start + size]


async def submitted(
    journal: Journal, orders: Sequence[Any] | None = None, name: str = "job", slice_size: int = 0
) -> Job:
    """Return a job with these refunds, by default ten."""
    job = journal.job(name)
    pages = pages_of(refunds(10) if orders is None else orders)
    await job.submit("refund", "M1", "A1", pages, slice_size=slice_size)
    return job


async def taken(journal: Journal, orders: Sequence[Any] | None = None) -> Lease:
    """Return a lease on a new job."""
    return await (await submitted(journal, orders)).take("first")


async def sent(lease: Lease, indices: Sequence[int], **noted: Any) -> int:
    """Put orders in flight."""
    return await lease.intend(indices, **{"references": {}, "marker": None, "alone": True, **noted})


async def counts_of(lease: Lease) -> dict[JobState, int]:
    """Count the orders of a lease by their state."""
    counts = Counter(row.state for row in await lease.rows(ALL))
    return {state: counts[state] for state in JobState}


def succeeded(indices: Sequence[int], **told: Any) -> list[Settlement]:
    return [Settlement(index=index, state=JobState.SUCCEEDED, **told) for index in indices]


@contextmanager
def held_up(journal: Journal) -> Iterator[None]:
    """Keep the journal's thread busy, so that what is asked for meanwhile waits together."""
    begun, let_go = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        begun.set()
        let_go.wait(30)

    journal.database.post("cannot wait", wait)
    begun.wait(30)
    try:
        yield
    finally:
        let_go.set()


class Watch:
    """Counts a journal's commits, and breaks the statement whose turn it is."""

    def __init__(self, journal: Journal) -> None:
        self.commits = 0
        self.statements = 0
        self.broken: int | None = None
        self.fails_commit = False
        self.loses_next_commit = False
        engine = journal.database._engine
        journal.database._texts = _Texts(self)
        event.listen(engine, "commit", self._count_commit)
        event.listen(engine, "before_cursor_execute", self._count, retval=True)

    def _count_commit(self, connection: Any) -> None:
        self.commits += 1
        is_lost, self.loses_next_commit = self.loses_next_commit, False
        if is_lost:
            connection.connection.driver_connection.commit()
        if self.fails_commit or is_lost:
            connection.exec_driver_sql("SELECT broken FROM nowhere")

    def _count(
        self, _: object, __: object, statement: str, parameters: Any, *___: object
    ) -> tuple[str, Any]:
        if statement.startswith("SELECT broken"):
            return statement, parameters
        return ("SELECT broken FROM nowhere", ()) if self.breaks() else (statement, parameters)

    def breaks(self) -> bool:
        """Count a statement, and say whether it is the one to break."""
        self.statements += 1
        return self.statements - 1 == self.broken


class _Texts(dict[Any, Any]):
    """Statements that go by the driver: those that a watch breaks are others."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def get(self, statement: Any, default: Any = None) -> Any:
        """Return the text of a statement, and the names of its parameters."""
        known = super().get(statement, default)
        return ("SELECT broken FROM nowhere", _nothing) if self.watch.breaks() else known


def _nothing(_: object) -> tuple[()]:
    return ()
