"""The journal: jobs that outlive their process.

What a method records is on the disk when it returns. Every statement runs on the one
thread that a journal owns; nothing of a database is imported before a journal is entered.
"""

import copy
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs
import orjson

from gateway_async.errors import ConfigurationError, JournalError, hide_given, require_extra
from gateway_async.journal import leases, schema
from gateway_async.journal.chunk_store import (
    ANYWHERE,
    OF_MERCHANT,
    ChunkStore,
    find_job,
    read_pages,
)
from gateway_async.journal.database import Database
from gateway_async.journal.engines import locate
from gateway_async.journal.leases import Lease
from gateway_async.journal.rows import JOB_COLUMNS, JobRow, JobStatus, Known, SliceStatus
from gateway_async.journal.states import DECISIONS, OrderState, Proof, Transition
from gateway_async.models.orders import OutcomeStatus
from gateway_async.settings import DEFAULT_LEASE_SECONDS, LEASE, choose, expect, is_count

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Sequence

    from gateway_async.journal.database import Transaction
    from gateway_async.journal.engines import Engine
    from gateway_async.journal.rows import JobOrder, Merchant
    from gateway_async.outcomes import Outcome
    from gateway_async.settings import Kind

T = TypeVar("T")

_EXTRA = ("alembic", "sqlalchemy", "psycopg", "psycopg_binary", "psycopg_c")
_LONGEST_NAME = 200
# A database would take a text for a number.
_SLICE: "Kind" = (is_count, "the number of a slice, an int")


class Journal:
    """Where jobs are kept: a SQLite file, or a PostgreSQL database that many processes share.

    Use it as an async context manager, in one event loop:

        async with Journal.open("sqlite:////srv/refunds.db") as journal:
            ...

    Attributes:
        lease_seconds: Without renewal for so long, another process may take a job over.
    """

    def __init__(self, engine: "Engine", lease_seconds: float) -> None:
        self.lease_seconds: float = lease_seconds
        self._engine = engine
        self._database: Database | None = None

    def __repr__(self) -> str:
        return f"<Journal {self._engine.shown}>"

    @classmethod
    @hide_given
    def open(cls, url: str, *, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> Self:
        """Make a journal; it connects when it is entered.

        Args:
            url: `sqlite:////path/to/file.db`, with four slashes before the absolute path, or
                `postgresql://user@host/database`.
            lease_seconds: Without renewal for so long, another process may take a job over.

        Raises:
            ConfigurationError: For another kind of URL, a relative path, which would be another
                journal in another working directory, or another lease than of up to a day.
        """
        engine = locate(url)
        engine.check_absolute()
        return cls(engine, expect("lease_seconds", lease_seconds, LEASE))

    async def __aenter__(self) -> Self:
        """Connect, and make the tables where there are none.

        Raises:
            ModuleNotFoundError: If the extra is not installed.
            JournalError: If the database cannot be opened, or is of a newer version.
        """
        if self._database is not None:
            raise JournalError(f"{self!r} is open already")
        what = f"cannot open the journal {self._engine.shown}"
        with require_extra("the journal", *_EXTRA, install="'gateway-async[journal]'"):
            # A copy: what it notes of a file holds until the journal is closed.
            database = Database(copy.copy(self._engine))
            try:
                await database.run(what, schema.prepare)
            except BaseException:  # raised again; also a cancellation leaves the thread behind
                await database.aclose()
                raise
        self._database = database
        return self

    async def __aexit__(self, *error: object) -> None:
        """Carry out what was asked for, and end the thread."""
        database, self._database = self._database, None
        if database is not None:
            await database.aclose()

    @property
    def database(self) -> "Database":
        """Where actions run; for the modules of this package.

        Raises:
            JournalError: If the journal is not open.
        """
        if self._database is None:
            raise JournalError(f"{self!r} is not open: use it as `async with ... as journal`")
        return self._database

    def job(self, name: str) -> "Job":
        """Name a job, which may or may not exist.

        Raises:
            ConfigurationError: For a name that is not 1 to 200 printable characters.
        """
        if not (isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()):  # type: ignore[redundant-expr]  # anything may be given
            raise ConfigurationError(
                f"job: expected a name of 1 to {_LONGEST_NAME} printable characters"
            )
        return Job(name=name, journal=self)

    async def jobs(self) -> list[JobStatus]:
        """Return every job, the oldest first."""
        return await self.database.run("cannot read the jobs", _statuses)

    async def status(self, name: str) -> JobStatus:
        """Return how far a job has come.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        found = await self.job(name).read(lambda of: _statuses(of.transaction, of.job))
        return found[0]

    async def slices(self, name: str) -> "list[SliceStatus]":
        """Return how far each slice of a job has come; none where the job is in one piece.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        return await self.job(name).read(
            lambda of: [SliceStatus(*row) for row in of.transaction.run(_SLICES, job=of.job.id)]
        )

    async def outcomes(self, name: str) -> "AsyncIterator[Outcome[Any, Any]]":
        """Yield the outcome of each order of a job, in the order of the input.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        async for page in self.pages(name):
            for each in page:
                yield each.outcome()

    def pages(self, name: str) -> "AsyncIterator[list[JobOrder]]":
        """Yield what is known of the orders of a job, in the order of the input, page by page.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        return read_pages(self.job(name).read, tuple(OrderState), ANYWHERE)

    async def resolve(
        self, name: str, order: object, status: OutcomeStatus | str, note: str
    ) -> None:
        """Keep what a person decided on orders whose outcome is in doubt.

        A decision that orders were not sent can be changed until the next run sends them.

        Args:
            name: The name of the job.
            order: The order, or its position in the job, from 0, or the `request_id` of a payout;
                or a list or a range of such, and then it is decided on all of them, or on none.
            status: `succeeded`, `declined`, `not_sent` (the next run sends it), or `unknown` (it
                is held, and looked at again by the next run).
            note: Why; it is kept.

        Raises:
            ConfigurationError: For another status, or an empty note.
            JobNotFoundError: If there is no job of this name.
            InvalidOrderError: If `order` is neither an order of the job's operation nor a position.
            JournalError: If there is no such order, more than one, or nothing to decide on it.

        Whichever is raised, nothing was changed; only where a `JournalError` `is_in_doubt`, the
        decision may be kept all the same.
        """
        if not (isinstance(note, str) and note.strip()):  # type: ignore[redundant-expr]  # anything may be given
            raise ConfigurationError("note: expected a text that says why")
        state = choose("status", status, DECISIONS)
        named = order if isinstance(order, list | tuple | range) else [order]
        if not named:
            raise JournalError("no order is named that could be decided on", job=name)
        text = f"decided by a person: {note}"
        decided = Known(state, text=text, proof=Proof.BY_PERSON, note=note)
        reopens = state is OrderState.NEW  # only then a finished slice has something to do again

        def decide(transaction: "Transaction") -> None:
            """Change all of them, or none; no lease is needed for that."""
            orders = ChunkStore(transaction, find_job(transaction, name))
            keys = orders.keys() if len(named) > 1 else None
            positions = sorted({orders.find(each, keys) for each in named})
            for number in orders.slices(positions):  # locked before their orders, as by a lease
                transaction.run(_WAKE, job=orders.job.id, slice=number, reopens=reopens)
            orders.change(Transition.RESOLVE, dict.fromkeys(positions, decided))

        name = self.job(name).name
        try:
            await self.database.run(f"cannot keep a decision on job {name!r}", decide)
        except JournalError as error:
            if not error.is_in_doubt:
                raise
            text = f"{error}; it may be kept all the same: look before you decide again"
            raise JournalError(text, job=name, is_in_doubt=True) from None

    async def claim_due(self, merchant: "Merchant", seconds: float) -> list[tuple[str, int]]:
        """Return up to 1,000 slices that no process has and that are due, job and number.

        They are not returned again for so many seconds, to any process.

        Args:
            merchant: Whose jobs.
            seconds: For how long.
        """
        given = {**merchant._asdict(), "seconds": seconds}
        found = await self.database.run(
            "cannot find slices that wait", lambda tx: tx.run(_CLAIM, **given).fetchall()
        )
        return sorted((name, number) for name, number in found)

    async def make_due(self, slices: "Sequence[tuple[str, int]]") -> None:
        """Let slices, job and number, be due now."""
        rows = [{"name": name, "slice": number} for name, number in slices]
        await self.database.run("cannot make slices due", lambda tx: tx.run_many(_MAKE_DUE, rows))


@attrs.frozen(kw_only=True)
class Job:
    """One job of a journal; whether it exists is not known here.

    Attributes:
        name: Its name.
        journal: Where it is kept.
    """

    name: str
    journal: "Journal"

    def read(self, action: "Callable[[ChunkStore], T]") -> "asyncio.Future[T]":
        """Read something of the job; it raises `JobNotFoundError` if there is no such job."""
        what, name = f"cannot read job {self.name!r}", self.name
        return self.journal.database.run(
            what, lambda tx: action(ChunkStore(tx, find_job(tx, name)))
        )

    async def take(self, merchant: "Merchant", slice_number: int = 0) -> Lease:
        """Take the job, or one slice of one that was cut, for this process.

        What was in flight under the lease before, and what is held, becomes `unknown`.

        Args:
            merchant: Whose client sends its orders.
            slice_number: Which slice, from 1; 0 for a job that is in one piece.

        Raises:
            ConfigurationError: If the number is negative, or no int.
            JobNotFoundError: If there is no such job, or no such slice of it.
            JobConflictError: If it is another client's, or was cut into slices, and none is named.
            JobBusyError: If another process has it.
        """
        journal, number = self.journal, expect("slice_number", slice_number, _SLICE)
        lease = Lease(journal.database, journal.lease_seconds, self.name, number)
        await lease.take(merchant)
        return lease


# In a transaction

_JOBS = f"""
SELECT {", ".join(JOB_COLUMNS)}, EXISTS (
    SELECT 1 FROM gateway_slices WHERE job_id = gateway_jobs.id AND expires_at > NOW_SECONDS
) FROM gateway_jobs WHERE id BETWEEN :lowest AND :highest ORDER BY id"""
# Orders that are alike and those that differ in one look: one of them may change meanwhile.
_COUNTS = """
SELECT job_id, state, exceptions, sum(last - first + 1), count(*) FROM gateway_chunks
WHERE job_id BETWEEN :lowest AND :highest GROUP BY job_id, state, exceptions"""
_SLICES = """
SELECT slice, first, last, total, finished, expires_at > NOW_SECONDS FROM gateway_slices
WHERE job_id = :job AND slice > 0 ORDER BY slice"""
_CLAIM = f"""
UPDATE gateway_slices SET due_at = NOW_SECONDS + :seconds WHERE (job_id, slice) IN (
    SELECT s.job_id, s.slice FROM gateway_slices s JOIN gateway_jobs j ON j.id = s.job_id
    WHERE NOT s.finished AND s.slice > 0 AND s.due_at <= NOW_SECONDS
    AND s.expires_at <= NOW_SECONDS AND {OF_MERCHANT}
    ORDER BY s.due_at, s.job_id, s.slice LIMIT 1000 FOR UPDATE OF s SKIP LOCKED
) RETURNING (SELECT name FROM gateway_jobs WHERE id = job_id), slice"""
_MAKE_DUE = """
UPDATE gateway_slices SET due_at = 0
WHERE slice = :slice AND job_id = (SELECT id FROM gateway_jobs WHERE name = :name)"""
_WAKE = f"""
UPDATE gateway_slices SET due_at = 0, finished = finished AND NOT :reopens
{leases.OF_SLICE}"""


def _statuses(transaction: "Transaction", job: JobRow | None = None) -> list[JobStatus]:
    """Return how far a job has come, or every job, the oldest first."""
    lowest, highest = (0, 2**62) if job is None else (job.id, job.id)
    edges = {"lowest": lowest, "highest": highest}
    jobs = {row[0]: JobStatus(*row) for row in transaction.run(_JOBS, **edges).fetchall()}
    for job_id, state, exceptions, count, chunks in transaction.run(_COUNTS, **edges).fetchall():
        if job_id not in jobs:
            continue  # it was made in between
        counts = jobs[job_id].counts
        for group in orjson.loads(exceptions) if exceptions else ():
            differing = len(group["at"]) * chunks
            counts[OrderState(group["known"]["state"])] += differing
            count -= differing  # noqa: PLW2901  # what is left
        counts[OrderState(state)] += int(count)  # PostgreSQL adds decimals up
    return list(jobs.values())
