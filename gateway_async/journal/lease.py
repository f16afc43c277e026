"""A lease that was taken: the right to write to a job, for as long as it is renewed.

Every write finds, in its own transaction, that the lease is still ours. The local view of how
long it runs is always shorter than the database's, as long as one of its clocks goes on.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from gateway_async.errors import JournalError, LeaseLostError
from gateway_async.journal import leases, reads, writes

if TYPE_CHECKING:
    from gateway_async.journal.database import Database, Transaction
    from gateway_async.journal.rows import LeaseKey, Row, Settlement
    from gateway_async.journal.states import JobState

P = ParamSpec("P")
T = TypeVar("T")


def read_clocks() -> tuple[float, float]:
    """Return seconds of two clocks, of which one may stand still, and the other be set.

    The first goes on while the machine sleeps, where there is one that does. The second is the
    wall's, which is right again soon after a virtual machine was paused.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    awake = time.monotonic() if clock is None else time.clock_gettime(clock)
    return awake, time.time()


class Lease:
    """The right to write to a job, or to one slice of it.

    Args:
        database: Where operations run.
        key: What names it.
        seconds: How long it runs after it was taken or renewed.
        taken_at: What `read_clocks` said before it was asked for.
    """

    def __init__(
        self, database: "Database", key: "LeaseKey", seconds: float, taken_at: tuple[float, float]
    ) -> None:
        self._database = database
        self._key = key
        self._seconds = seconds
        self._runs_from = taken_at
        self._is_lost = False

    def __repr__(self) -> str:
        return f"<Lease on job {self.job!r}, slice {self.slice_number}, epoch {self.epoch}>"

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._key.name

    @property
    def slice_number(self) -> int:
        """Which slice of the job."""
        return self._key.slice_number

    @property
    def epoch(self) -> int:
        """How often it was taken, by any process."""
        return self._key.epoch

    @property
    def span(self) -> range:
        """From its first position to its last; of a slice, not all of them need be its own."""
        return range(self._key.first, self._key.last + 1)

    @property
    def total(self) -> int:
        """How many orders it is about."""
        return self._key.total

    def expires_in(self) -> float:
        """Return the seconds that are left for certain; 0 where it is lost."""
        passed = max(now - then for now, then in zip(read_clocks(), self._runs_from, strict=True))
        return 0.0 if self._is_lost else max(0.0, self._seconds - passed)

    def check(self) -> None:
        """Make sure, without asking the database, that the lease still runs.

        Raises:
            LeaseLostError: If it ran out, or was found to be lost.
        """
        if self.expires_in() <= 0:
            raise LeaseLostError(f"the lease on job {self.job!r} ran out or is lost", job=self.job)

    async def renew(self) -> None:
        """Let it run for its whole time from now.

        Raises:
            LeaseLostError: If another process took it.
        """
        asked_at = read_clocks()
        await self._run("keep the lease", leases.renew, self._key, self._seconds)
        self._runs_from = max(self._runs_from, asked_at)

    async def confirm(self) -> None:
        """Make sure, by the database, that no other process took the lease.

        Raises:
            LeaseLostError: If another process took it.
        """
        await self._run("keep the lease", leases.verify, self._key)

    async def release(self) -> None:
        """End it, if it is ours still."""
        await self._run("release the lease", leases.release, self._key)
        self._is_lost = True

    async def finish(self) -> bool:
        """Note that the slice is finished, if no run has anything more to do in it.

        Otherwise it is due again once the time of a lease has passed, or longer after each run.

        Returns:
            Whether it is.

        Raises:
            LeaseLostError: If another process took the lease.
        """
        return await self._run("finish the slice", leases.finish_slice, self._key, self._seconds)

    async def rows(
        self, states: "Collection[JobState]", *, after: int = -1, limit: int = 1000
    ) -> "list[Row]":
        """Return rows in these states, by position.

        Args:
            states: Which states.
            after: Behind which position to begin.
            limit: How many at most.
        """
        return await self._run("read the orders", reads.read_rows, self._key, states, after, limit)

    async def new(
        self, *, after: int, limit: int, orders: bool
    ) -> "list[tuple[Sequence[int], Sequence[Any]]]":
        """Return the positions of new orders, and the orders, chunk by chunk.

        Args:
            after: Behind which position to begin.
            limit: After how many orders no further chunk is begun.
            orders: Whether the orders are read, too; else there are only positions.
        """
        read = reads.read_new
        return await self._run("read the orders", read, self._key, after, limit, orders=orders)

    async def rows_between(self, first: int, last: int) -> "list[Row]":
        """Return the rows from one position to another, both included, in all states."""
        return await self._run("read the orders", reads.read_between, self._key, first, last)

    async def rows_of(
        self, transaction_ids: Collection[str], states: "Collection[JobState]"
    ) -> "list[Row]":
        """Return the rows of these transactions in these states, by position, of all slices."""
        read = reads.read_identities
        return await self._run("read the orders", read, self._key.job_id, transaction_ids, states)

    async def witness(self) -> "Row | None":
        """Return a row that succeeded and has a reference; None if none is found."""
        return await self._run("read the orders", reads.read_witness, self._key.job_id)

    def intend(
        self,
        indices: Sequence[int],
        *,
        references: Mapping[str, frozenset[str]],
        marker: str | None,
        alone: bool,
    ) -> "asyncio.Future[int]":
        """Keep that new orders are about to be sent: they are in flight.

        Args:
            indices: Their positions, ascending; at least one.
            references: By transaction, the refund references it has already.
            marker: What the marker of each begins with, if any is sent.
            alone: Whether no other order of a transaction of theirs can be in flight beside it.

        Returns:
            The number of the request.

        Raises:
            LeaseLostError: If the lease is no longer ours, or ran out by the database's clock.
            JournalError: If one of them is not new.
        """
        return self._run(
            "keep what is about to be sent",
            writes.intend,
            self._key,
            indices,
            references,
            marker=marker,
            alone=alone,
        )

    def withdraw(self, request: int, indices: Sequence[int]) -> "asyncio.Future[None]":
        """Keep that nothing of orders in flight was sent, which is proved: they are new.

        Raises:
            LeaseLostError: If the lease is no longer ours.
            JournalError: If one of them is not in flight with this request.
        """
        return self._run("keep that nothing was sent", writes.withdraw, self._key, request, indices)

    def hold(self, settlements: "Sequence[Settlement]") -> "asyncio.Future[None]":
        """Record that new orders are not sent before a person decides.

        Raises:
            LeaseLostError: If the lease is no longer ours, or ran out.
            JournalError: If one of them is not new.
        """
        return self._run("hold orders", writes.hold, self._key, settlements)

    def settle(
        self, request: int, settlements: "Sequence[Settlement]", *, ended_at: float
    ) -> "asyncio.Future[None]":
        """Record the outcomes of orders in flight: succeeded, declined or unknown.

        Args:
            request: The number of their request; it may be settled in parts.
            settlements: The new state of each.
            ended_at: When the request ended, in seconds since the epoch.

        Raises:
            LeaseLostError: If the lease is no longer ours.
            JournalError: If one of them is not in flight with this request.
        """
        what = "keep the outcomes"
        return self._run(what, writes.settle, self._key, request, settlements, ended_at)

    def succeed(
        self,
        request: int,
        indices: Sequence[int],
        references: Sequence[str],
        *,
        ended_at: float,
    ) -> "asyncio.Future[None]":
        """Keep that orders in flight succeeded: `settle`, for the usual case.

        Args:
            request: The number of their request.
            indices: Their positions, ascending.
            references: The gateway's reference of each, or "".
            ended_at: When the request ended, in seconds since the epoch.

        Raises:
            LeaseLostError: If the lease is no longer ours.
            JournalError: If one of them is not in flight with this request.
        """
        what = "keep the outcomes"
        return self._run(what, writes.succeed, self._key, request, indices, references, ended_at)

    async def recover(
        self,
        settlements: "Sequence[Settlement]",
        *,
        beside: "Mapping[int, JobState]" = MappingProxyType({}),
    ) -> bool:
        """Keep what was found out about unknown orders, all of it or nothing.

        Args:
            settlements: What was found out.
            beside: The states in which other orders must still be, by position, since what was
                found out rests on them.

        Returns:
            Whether they were still unknown, and those beside in their states; an operator may
            have decided.

        Raises:
            LeaseLostError: If the lease is no longer ours.
            JournalError: If what is unknown cannot become that.
        """
        recover = writes.recover
        return await self._run("keep what was found out", recover, self._key, settlements, beside)

    def _run(
        self,
        what: str,
        operation: "Callable[Concatenate[Transaction, P], T]",
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> "asyncio.Future[T]":
        done = self._database.run(
            f"job {self.job!r}: cannot {what}", operation, *arguments, **named
        )
        done.add_done_callback(self._note_loss)
        return done

    def _note_loss(self, done: "asyncio.Future[Any]") -> None:
        if not done.cancelled() and isinstance(done.exception(), LeaseLostError):
            self._is_lost = True


async def take_lease(
    database: "Database", name: str, slice_number: int, owner: str, seconds: float
) -> Lease:
    """Take a lease; one that was taken, or may have been, and reaches no caller is released.

    Raises:
        JobNotFoundError: If there is no such job, or no such slice of it.
        JobConflictError: If it was cut into slices, and none is named.
        JobBusyError: If another process has it.
        JournalError: If not all of its orders were submitted.
    """
    asked_at, what = read_clocks(), f"cannot take job {name!r}"
    taken: list[LeaseKey] = []

    def take(transaction: "Transaction") -> "LeaseKey":
        taken.clear()  # of an attempt that was rolled back
        taken[:] = [leases.take_job(transaction, name, slice_number, owner, seconds)]
        return taken[0]

    def give_back(transaction: "Transaction") -> None:
        for key in taken:
            leases.release_of(transaction, key.job_id, slice_number, owner)

    try:
        key = await database.run(what, take)
    except (asyncio.CancelledError, JournalError):
        database.post(what, give_back)
        raise
    return Lease(database, key, seconds, asked_at)
