"""An open journal: what its methods do, on its thread. The first module here that needs the extra.

Law: nothing is opened and left open; a thread that was started is ended, also where opening fails.
"""

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import JournalError
from gateway_async.journal import deciding, leases, reading, slices
from gateway_async.journal.codec import codec_of
from gateway_async.journal.engines import make_engine
from gateway_async.journal.importing import Submission
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
        return await self.writer.run(f"cannot read job {name!r}", reading.read_head, name)

    async def status(self, name: str) -> "JobStatus":
        """Return how far a job has come."""
        return await self.writer.run(f"cannot read job {name!r}", reading.read_status, name)

    async def page(self, name: str, after: int, most: int) -> "list[Row]":
        """Return so many rows of a job, from behind a position."""
        what = f"cannot read job {name!r}"
        return await self.writer.run(what, reading.read_page, name, after, most)

    async def resolve(self, name: str, order: object, state: "JobState", note: str) -> None:
        """Keep what an operator decided: on one order, or on several at once."""
        what = f"cannot keep a decision on job {name!r}"
        await self.writer.run(what, deciding.decide, name, order, state, note)

    async def submit(
        self,
        name: str,
        subject: tuple[str, str, str],
        pages: "AsyncIterator[Sequence[Any]]",
        slice_size: int,
    ) -> int:
        """Keep the orders of a job, or compare them."""
        submission = Submission(
            writer=self.writer,
            name=name,
            subject=subject,
            seconds=self.lease_seconds,
            codec=codec_of(subject[0]),
            slice_size=slice_size,
        )
        return await submission.carry_out(pages)

    async def slices(self, name: str) -> "list[SliceStatus]":
        """Return how far the slices of a job have come; none where it is in one piece."""
        return await self.writer.run(f"cannot read job {name!r}", slices.read_slices, name)

    async def slice(self, name: str, slice_number: int) -> "SliceStatus":
        """Return how far a slice has come."""
        what = f"cannot read job {name!r}"
        return await self.writer.run(what, slices.read_slice, name, slice_number)

    async def take_due(
        self, merchant: tuple[str, str], seconds: float, most: int
    ) -> list[tuple[str, int]]:
        """Return slices that nobody has and that are due, job and number, and put them off."""
        what = "cannot find slices that wait"
        return await self.writer.run(what, slices.take_due, merchant, seconds, most)

    async def put_off(self, names: "Sequence[tuple[str, int]]", seconds: float) -> None:
        """Let slices, job and number, be due in so long."""
        await self.writer.run("cannot put slices off", slices.put_off, names, seconds)

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
