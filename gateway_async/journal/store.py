"""An open journal: what its methods do, on its thread. The first module here that needs the extra.

Law: nothing is opened and left open; a thread that was started is ended, also where opening fails.
"""

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import JournalError
from gateway_async.journal import deciding, importing, leases, reading, slices
from gateway_async.journal.engines import make_engine
from gateway_async.journal.lease import Lease, read_clocks
from gateway_async.journal.schema import prepare
from gateway_async.journal.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.journal.job import JobHead, JobStatus, SliceStatus
    from gateway_async.journal.location import Location
    from gateway_async.journal.rows import Row
    from gateway_async.journal.states import JobState


async def open_store(location: "Location", lease_seconds: float, *, create: bool = True) -> "Store":
    """Connect, and make the tables where there are none.

    Args:
        location: Where the journal is.
        lease_seconds: How long a lease runs.
        create: Whether a journal is made where there is none.

    Raises:
        ConfigurationError: If the URL cannot be read.
        ModuleNotFoundError: If the database's driver is not installed.
        JournalError: If the database cannot be opened, or is of another version, or there is no
            journal and none is to be made.
    """
    writer = Writer(functools.partial(make_engine, location, create=create))
    try:
        await writer.run(
            f"cannot open the journal {location.shown}",
            lambda inside: prepare(inside.connection, location, create=create),
        )
    except BaseException:
        await writer.aclose()
        raise
    return Store(writer, lease_seconds)


@attrs.frozen(eq=False)
class Store:
    """An open journal.

    Attributes:
        writer: Where operations run.
        lease_seconds: How long a lease runs.
    """

    writer: Writer
    lease_seconds: float

    async def aclose(self) -> None:
        """Carry out what waits, and end the thread."""
        await self.writer.aclose()

    async def statuses(self) -> "list[JobStatus]":
        """Return how far every job has come, the oldest first."""
        return await self.writer.run("cannot read the jobs", reading.read_statuses)

    async def head(self, name: str) -> "JobHead":
        """Return what a job is."""
        read = functools.partial(reading.read_head, name=name)
        return await self.writer.run(f"cannot read job {name!r}", read)

    async def status(self, name: str) -> "JobStatus":
        """Return how far a job has come."""
        read = functools.partial(reading.read_status, name=name)
        return await self.writer.run(f"cannot read job {name!r}", read)

    async def page(self, name: str, after: int, most: int) -> "list[Row]":
        """Return so many rows of a job, from behind a position."""
        read = functools.partial(reading.read_page, name=name, after=after, most=most)
        return await self.writer.run(f"cannot read job {name!r}", read)

    async def resolve(self, name: str, order: object, state: "JobState", note: str) -> None:
        """Keep what an operator decided: on one order, or on several at once."""
        decide = functools.partial(deciding.decide, name=name, order=order, state=state, note=note)
        await self.writer.run(f"cannot keep a decision on job {name!r}", decide)

    async def submit(
        self,
        name: str,
        subject: tuple[str, str, str],
        pages: "AsyncIterator[Sequence[Any]]",
        slice_size: int,
    ) -> int:
        """Keep the orders of a job, or compare them."""
        return await importing.submit(
            self.writer, name, subject, self.lease_seconds, pages, slice_size
        )

    async def slices(self, name: str) -> "list[SliceStatus]":
        """Return how far the slices of a job have come; none where it is in one piece."""
        read = functools.partial(slices.read_slices, name=name)
        return await self.writer.run(f"cannot read job {name!r}", read)

    async def slice(self, name: str, slice_number: int) -> "SliceStatus":
        """Return how far a slice has come."""
        read = functools.partial(slices.read_slice, name=name, slice_number=slice_number)
        return await self.writer.run(f"cannot read job {name!r}", read)

    async def take_due(
        self, merchant: tuple[str, str], seconds: float, most: int
    ) -> list[tuple[str, int]]:
        """Return slices that nobody has and that are due, job and number, and put them off."""
        take = functools.partial(slices.take_due, merchant=merchant, seconds=seconds, most=most)
        return await self.writer.run("cannot find slices that wait", take)

    async def put_off(self, names: "Sequence[tuple[str, int]]", seconds: float) -> None:
        """Let slices, job and number, be due in so long."""
        put_off = functools.partial(slices.put_off, names=names, seconds=seconds)
        await self.writer.run("cannot put slices off", put_off)

    async def take(self, name: str, owner: str, slice_number: int) -> Lease:
        """Take a lease; one that was taken, or may have been, and reaches no caller is released."""
        asked_at, what = read_clocks(), f"cannot take job {name!r}"
        taken: list[leases.LeaseKey] = []

        def take(inside: Any) -> leases.LeaseKey:  # noqa: ANN401  # a transaction
            taken.clear()  # of an attempt that was rolled back
            taken[:] = [leases.take_job(inside, name, slice_number, owner, self.lease_seconds)]
            return taken[0]

        def give_back(inside: Any) -> None:  # noqa: ANN401  # a transaction
            for key in taken:
                leases.release_of(inside, key.job_id, slice_number, owner)

        try:
            key = await self.writer.run(what, take)
        except (asyncio.CancelledError, JournalError):
            self.writer.post(what, give_back)
            raise
        return Lease(self.writer, key, self.lease_seconds, asked_at)
