"""Leases: the right to write to a job, or to a slice of it, for as long as it is renewed.

A lease has an epoch, which grows whenever it is taken, and an owner, which no other lease has. A
write under a lease first finds both unchanged, in the same transaction: a process that lost its
lease changes no row. The owner tells where a database was exchanged for one that lacks the last
commits, after a failover or from a backup: there, the same number and epoch may be another's.

All orders of one `transaction_id` are in one slice, so that under a slice's lease no other process
moves them. The process itself takes the lease to end earlier than the database does, as long as one
of its two clocks runs.
"""

import asyncio
import contextlib
import math
import os
import socket
import time
import uuid
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from gateway_async.errors import (
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    JournalError,
    LeaseLostError,
)
from gateway_async.journal.chunk_store import ANYWHERE, ChunkStore, find_job, read_pages
from gateway_async.journal.states import UNFINISHED, OrderState, Proof
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from gateway_async.journal.database import Database, Transaction
    from gateway_async.journal.rows import JobOrder, JobRow, Merchant

T = TypeVar("T")

_RENEWALS_A_LEASE = 3

OF_SLICE = "WHERE job_id = :job AND slice = :slice"
_OURS = f"{OF_SLICE} AND epoch = :epoch AND owner = :owner"
# Locked: a person may decide at this very moment whether the slice has something to do again.
_VERIFY = f"SELECT expires_at > NOW_SECONDS FROM gateway_slices {_OURS} FOR UPDATE"
# The slice is due when the lease ends. While this worker was frozen, the slice may have been handed
# to another one, and its `due_at` been put off.
_RENEW = f"""
UPDATE gateway_slices SET expires_at = NOW_SECONDS + :seconds, due_at = NOW_SECONDS + :seconds
{_OURS}"""
_RELEASE = """
UPDATE gateway_slices SET expires_at = 0 WHERE slice = :slice AND owner = :owner
AND job_id = (SELECT id FROM gateway_jobs WHERE name = :name)"""
# The slice is due again when the lease ends: if this worker dies, another one takes it over. It is
# no longer finished, since what is held is looked at again. The row of a slice that another process
# has is not locked: that process would have to wait to renew its lease.
_TAKE = f"""
UPDATE gateway_slices SET epoch = epoch + 1, owner = :owner, expires_at = NOW_SECONDS + :seconds,
due_at = NOW_SECONDS + :seconds, finished = FALSE {OF_SLICE} AND expires_at <= NOW_SECONDS"""
_LOOK = f"""
SELECT first, last, total, epoch, owner, expires_at - NOW_SECONDS FROM gateway_slices {OF_SLICE}"""
_ADOPT = "UPDATE gateway_jobs SET gateway = :gateway WHERE id = :job"
_FINISH = f"UPDATE gateway_slices SET finished = TRUE {_OURS}"
# A decision makes it due at once; the hour is for a refund that the gateway lists late.
_PUT_OFF = f"UPDATE gateway_slices SET due_at = NOW_SECONDS + 3600 {_OURS}"


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

    Attributes:
        job: The job, once it was taken.
        span: From the position of its first order to that of its last; of a slice, not all
            between them need be its own.
        total: How many orders it has.
        taken_at: When it was taken, in seconds since the epoch, by this machine's clock.
        lost: Why it is lost, once one of its methods found that.
        on_lost: Called when it turns out to be lost.

    Args:
        database: Where actions run.
        seconds: How long it runs after it was taken or renewed.
        name: The name of the job.
        slice_number: Which slice, from 1; 0 for a job that is in one piece.
    """

    def __init__(self, database: "Database", seconds: float, name: str, slice_number: int) -> None:
        self._database = database
        self._seconds = seconds
        self._name = name
        self._slice_number = slice_number
        # It names this lease alone, also among those of this process.
        self._owner = f"{socket.gethostname()}:{os.getpid()} {uuid.uuid4()}"
        self._key: dict[str, Any] = {}  # slice, epoch and owner, as parameters of a statement
        self._runs_from = read_clocks()
        self.taken_at: float = 0.0
        self.job: JobRow
        self.span: range = range(0)
        self.total: int = 0
        self.lost: LeaseLostError | None = None
        self.on_lost: Callable[[], None] = lambda: None

    async def take(self, merchant: "Merchant") -> None:
        """Take it, on a job whose orders are all there; see `Job.take`."""
        try:
            await self.run("take it", lambda transaction: self._take(transaction, merchant))
            self.taken_at = time.time()
        except (asyncio.CancelledError, JournalError):  # it is not known whether it was taken
            self._database.post("release it", self._end)
            raise

    def expires_in(self) -> float:
        """Return the seconds that are left for certain; 0 where it is lost."""
        passed = max(now - then for now, then in zip(read_clocks(), self._runs_from, strict=True))
        return 0.0 if self.lost is not None else max(0.0, self._seconds - passed)

    def check(self, because: JournalError | None = None) -> None:
        """Make sure, without asking the database, that the lease still runs.

        Args:
            because: Why it could not be renewed.

        Raises:
            LeaseLostError: If it ran out, or was found to be lost.
        """
        if self.expires_in() <= 0:
            text = f"the lease on job {self._name!r} ran out or is lost"
            text += "" if because is None else f", since it could not be renewed: {because}"
            error = LeaseLostError(text, job=self._name)
            self._lose(error)
            raise error

    async def keep(self) -> None:
        """Renew it from time to time; return once it is lost."""
        pause = self._seconds / _RENEWALS_A_LEASE
        with contextlib.suppress(LeaseLostError):  # which is in `lost`
            while True:
                # However long the renewal before took: it runs from when that was asked for.
                await asyncio.sleep(max(self.expires_in() - (self._seconds - pause), pause / 4))
                await self.renew()

    async def renew(self) -> None:
        """Let it run for its whole time from now; a failure is no loss while some of it is left.

        Raises:
            LeaseLostError: If another process took it, it ran out, or was found to be lost before.
        """
        if self.lost is not None:  # another process may take it
            self.check()
        asked_at = read_clocks()
        try:
            await self.run("keep the lease", self._renew)
        except LeaseLostError:
            raise
        except JournalError as error:  # the next renewal may be in time
            self.check(error)
        else:
            self._runs_from = max(self._runs_from, asked_at)

    async def release(self, *, is_serial: bool = False) -> None:
        """End it, if it is ours still.

        A slice is finished if no run has anything more to do in it. If all that is left waits for
        a person, it is due once a person decides, or in an hour; else when the lease would have
        run out.

        Args:
            is_serial: Whether no order may follow one of its transaction that is in doubt.
        """

        def release(transaction: "Transaction") -> None:
            # Of a whole job, nothing asks whether it is finished.
            if self._slice_number and transaction.run(_VERIFY, **self._key).fetchone():
                orders = self._orders(transaction)
                if not orders.select(UNFINISHED, most=1):
                    transaction.run(_FINISH, **self._key)
                elif is_serial and _waits_for_a_person(orders):
                    transaction.run(_PUT_OFF, **self._key)
            self._end(transaction)

        await self.run("release the lease", release)
        self._runs_from = (-math.inf, -math.inf)

    def read(self, action: "Callable[[ChunkStore], T]") -> "asyncio.Future[T]":
        """Read orders of the slice; it raises `LeaseLostError` if the job's number is another's."""

        def read(transaction: "Transaction") -> T:
            if find_job(transaction, self._name) != self.job:
                raise LeaseLostError(
                    f"the lease on job {self._name!r} is lost: the database was exchanged, and the "
                    "job in it is another one",
                    job=self._name,
                )
            return action(self._orders(transaction))

        return self.run("read the orders", read)

    def pages(
        self, states: "Collection[OrderState]", span: range = ANYWHERE
    ) -> "AsyncIterator[list[JobOrder]]":
        """Yield the orders of the slice that are in some states, page by page."""
        return read_pages(self.read, states, span)

    def change(
        self, what: str, action: "Callable[[ChunkStore], T]", *, alive: bool = False
    ) -> "asyncio.Future[T]":
        """Change orders of the slice, in a transaction that finds the lease to be ours.

        It is begun at once. It raises `LeaseLostError` if the lease is no longer ours, and
        `JournalError` if an order is in no state that may change so; then nothing was changed.

        Args:
            what: What is done, for errors: "keep the outcomes".
            action: Changes the orders.
            alive: Whether the lease must not have run out either, by the database's clock.
        """

        def change(transaction: "Transaction") -> T:
            self._verify(transaction, alive=alive)
            return action(self._orders(transaction))

        return self.run(what, change)

    def run(self, what: str, action: "Callable[[Transaction], T]") -> "asyncio.Future[T]":
        """Carry out an action, whether the lease is ours or not."""

        def note(done: "asyncio.Future[T]") -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, LeaseLostError):
                self._lose(error)

        done = self._database.run(f"job {self._name!r}: cannot {what}", action)
        done.add_done_callback(note)
        return done

    def _lose(self, error: LeaseLostError) -> None:
        if self.lost is None:
            self.lost = error
            self.on_lost()

    # In a transaction

    def _orders(self, transaction: "Transaction") -> ChunkStore:
        return ChunkStore(transaction, self.job, self._slice_number)

    def _take(self, transaction: "Transaction", merchant: "Merchant") -> None:
        """Take it, whatever its epoch was, if this client may run the job.

        Raises:
            JobNotFoundError: If there is no such job or slice.
            JobConflictError: If it is another client's, or was cut into slices, and none is named.
            JobBusyError: If another process has it.
        """
        name, number = self._name, self._slice_number
        job = find_job(transaction, name)
        if job.is_sliced and not number:
            raise JobConflictError(
                f"job {name!r} was cut into slices: name one, or let workers run them", job=name
            )
        if difference := job.difference(merchant._asdict()):
            raise JobConflictError(
                f"job {name!r} is not this client's: {difference}; resume it with its own", job=name
            )
        key = {"job": job.id, "slice": number}
        transaction.locked.clear()  # the lease before may be in the same transaction
        taken = transaction.run(_TAKE, **key, owner=self._owner, seconds=self._seconds)
        row = transaction.run(_LOOK, **key).fetchone()
        if row is None:
            raise JobNotFoundError(f"job {name!r} has no slice {number}", job=name)
        first, last, total, epoch, holder, seconds_left = row
        if taken.rowcount != 1:
            raise JobBusyError(
                f"job {name!r} is with {holder!r}, whose lease runs for another "
                f"{seconds_left:.1f} s unless it is renewed; wait until that process has ended, or "
                "run the job again later",
                job=name,
                seconds_left=seconds_left,
            )
        if not job.gateway:  # a job of an earlier version
            transaction.run(_ADOPT, job=job.id, gateway=merchant.gateway)
            job = find_job(transaction, name)
        self.job, self.span, self.total = job, range(first, last + 1), total
        self._key = {**key, "epoch": epoch, "owner": self._owner}
        can_look_up = bool(OPERATIONS[job.operation].recovered_by)
        self._orders(transaction).reopen(look_up=can_look_up)

    def _verify(self, transaction: "Transaction", *, alive: bool = False) -> None:
        """Make sure that it is still ours, until the transaction ends.

        Args:
            transaction: The transaction.
            alive: Whether it must not have run out either.

        Raises:
            LeaseLostError: If it is not.
        """
        if self not in transaction.locked:
            transaction.locked[self] = transaction.run(_VERIFY, **self._key).fetchone()
        row = transaction.locked[self]
        if row is None or (alive and not row[0]):
            reason = "another process took it" if row is None else "it ran out"
            raise LeaseLostError(
                f"the lease on job {self._name!r} is lost: {reason}; nothing was changed",
                job=self._name,
            )

    def _renew(self, transaction: "Transaction") -> None:
        self._verify(transaction)
        transaction.run(_RENEW, **self._key, seconds=self._seconds)

    def _end(self, transaction: "Transaction") -> None:
        """End it, if it is its owner's still."""
        named = {"name": self._name, "slice": self._slice_number, "owner": self._owner}
        transaction.run(_RELEASE, **named)
        transaction.locked.pop(self, None)  # what an earlier action found


def _waits_for_a_person(orders: ChunkStore) -> bool:
    """Return whether every order that is left stands behind a held one of its transaction."""
    identity = orders.codec.identity
    held = {
        identity(each.order)
        for each in chain(*orders.select((OrderState.HELD,), most=orders.job.total))
        if each.known.proof != Proof.NEVER_SENT
    }
    left = chain(*orders.select(UNFINISHED, most=orders.job.total))
    return all(each.state is OrderState.NEW and identity(each.order) in held for each in left)
