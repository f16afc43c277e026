"""Leases: the right to write to a job, or to a slice of it, for as long as it is renewed.

A lease has an epoch, which grows whenever it is taken. A write under a lease first finds its epoch
unchanged, in the same transaction: a process that lost its lease changes no row. All orders of one
transaction are in one slice, so that under a slice's lease no other process moves them. The local
view of how long a lease runs is always shorter than the database's, as long as one of its clocks
goes on.
"""

import time
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.errors import (
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    JournalError,
    LeaseLostError,
)
from gateway_async.journal.chunks import Orders
from gateway_async.journal.rows import SUBJECT, JobRow
from gateway_async.journal.states import UNFINISHED
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from gateway_async.journal.database import Database, Transaction

    # `merchant_id`, `account_id` and gateway of a client.
    Whose = tuple[str, str, str]

T = TypeVar("T")

_MOST_DOUBLINGS = 6
_TAKEN = "another process took it"

_OF_SLICE = "WHERE job_id = :job AND slice = :slice"
_OURS = f"{_OF_SLICE} AND epoch = :epoch"
_VERIFY = f"SELECT expires_at > NOW_SECONDS FROM gateway_slices {_OURS} FOR SHARE"
# It is due when the lease is over: a worker that was frozen may renew what was handed to another.
_RENEW = f"""
UPDATE gateway_slices SET expires_at = NOW_SECONDS + :seconds, due_at = NOW_SECONDS + :seconds
{_OURS}"""
_RELEASE = """
UPDATE gateway_slices SET expires_at = 0 WHERE slice = :slice AND owner = :owner
AND job_id = (SELECT id FROM gateway_jobs WHERE name = :name)"""
# It is due again when the lease is over: else a worker that was handed it, and died, would leave
# it for good. A finished one has something to do again: what is held is looked at. Of one that
# another process has, the row is not even locked: its owner would wait to renew it.
_TAKE = f"""
UPDATE gateway_slices SET epoch = epoch + 1, owner = :owner, expires_at = NOW_SECONDS + :seconds,
due_at = NOW_SECONDS + :seconds, finished = FALSE {_OF_SLICE} AND expires_at <= NOW_SECONDS"""
_LOOK = f"""
SELECT first, last, total, epoch, owner, expires_at - NOW_SECONDS FROM gateway_slices {_OF_SLICE}"""
_JOB = f"SELECT {', '.join(JobRow._fields)} FROM gateway_jobs WHERE name = :name"
_ADOPT = "UPDATE gateway_jobs SET gateway = :gateway WHERE id = :job"
LOCK = f"SELECT tries FROM gateway_slices {_OF_SLICE} FOR UPDATE"
_FINISH = f"UPDATE gateway_slices SET finished = TRUE {_OF_SLICE}"
_LEAVE = f"""
UPDATE gateway_slices SET due_at = NOW_SECONDS + :seconds, tries = tries + 1 {_OF_SLICE}"""


def read_clocks() -> tuple[float, float]:
    """Return seconds of two clocks, of which one may stand still, and the other be set.

    The first goes on while the machine sleeps, where there is one that does. The second is the
    wall's, which is right again soon after a virtual machine was paused.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    awake = time.monotonic() if clock is None else time.clock_gettime(clock)
    return awake, time.time()


@attrs.frozen
class LeaseKey:
    """What names a lease that was taken.

    Attributes:
        name: The name of the job.
        job_id: The job's number in the database.
        slice_number: Which slice of the job.
        owner: Who took it; nobody else, and no other time.
        epoch: How often this lease was taken, by any process.
        first: The position of the first order that it is about.
        last: The position of the last; of a slice, not all between them need be its own.
        total: How many they are.
    """

    name: str
    job_id: int
    slice_number: int = 0
    owner: str = ""
    epoch: int = 0
    first: int = 0
    last: int = -1
    total: int = 0

    @property
    def span(self) -> range:
        """From its first position to its last; of a slice, not all of them need be its own."""
        return range(self.first, self.last + 1)

    @property
    def place(self) -> "dict[str, Any]":
        """The slice, as parameters of a statement."""
        return {"job": self.job_id, "slice": self.slice_number}

    def orders(self, transaction: "Transaction") -> Orders:
        """Return the orders that it is about."""
        return Orders(transaction, self.job_id, self.slice_number)

    def verify(self, transaction: "Transaction", *, alive: bool = False) -> None:
        """Make sure that the lease is still ours, until the transaction ends.

        Args:
            transaction: The transaction.
            alive: Whether it must not have run out either.

        Raises:
            LeaseLostError: If it is not.
        """
        is_alive = transaction.leases.get(self)
        if is_alive is None:
            row = transaction.run(_VERIFY, **self.place, epoch=self.epoch).fetchone()
            if row is None:
                raise self._lost(_TAKEN)
            is_alive = transaction.leases[self] = bool(row[0])
        if alive and not is_alive:
            raise self._lost("it ran out")

    def renew(self, transaction: "Transaction", seconds: float) -> None:
        """Let the lease run for so long from now.

        Raises:
            LeaseLostError: If it is no longer ours.
        """
        transaction.leases.clear()
        named = {**self.place, "epoch": self.epoch}
        if transaction.run(_RENEW, **named, seconds=seconds).rowcount != 1:
            raise self._lost(_TAKEN)

    def _lost(self, reason: str) -> LeaseLostError:
        return LeaseLostError(
            f"the lease on job {self.name!r} is lost: {reason}; nothing was changed", job=self.name
        )


class Lease:
    """The right to write to a job, or to one slice of it.

    Attributes:
        key: What names it.
        failure: Why a change could not be recorded, the first time that happened.
        on_lost: Called when the lease turns out to be lost, by any of its methods.

    Args:
        database: Where operations run.
        key: What names it.
        seconds: How long it runs after it was taken or renewed.
        taken_at: What `read_clocks` said before it was asked for.
    """

    def __init__(
        self, database: "Database", key: LeaseKey, seconds: float, taken_at: tuple[float, float]
    ) -> None:
        self._database = database
        self.key = key
        self._seconds = seconds
        self._runs_from = taken_at
        self._is_lost = False
        self.failure: JournalError | None = None
        self.on_lost: Callable[[LeaseLostError], None] = lambda _: None

    def __repr__(self) -> str:
        return f"<Lease on job {self.key.name!r}, slice {self.key.slice_number}>"

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
            text = f"the lease on job {self.key.name!r} ran out or is lost"
            error = self.failure = LeaseLostError(text, job=self.key.name)
            self.on_lost(error)
            raise error

    async def renew(self) -> None:
        """Let it run for its whole time from now.

        Raises:
            LeaseLostError: If another process took it.
        """
        asked_at = read_clocks()
        await self._run("keep the lease", lambda tx: self.key.renew(tx, self._seconds))
        self._runs_from = max(self._runs_from, asked_at)

    async def release(self, *, is_through: bool = False) -> None:
        """End it, if it is ours still.

        Args:
            is_through: Whether the run of a slice came to its end. Then the slice is finished, if
                no run has anything more to do in it; else it is due again once the time of a lease
                has passed, or longer after each run.
        """

        def end(transaction: "Transaction") -> None:
            if is_through:
                self.key.verify(transaction)
                # Locked before it is looked at: an operator may decide at this very moment.
                (tries,) = transaction.run(LOCK, **self.key.place).fetchone()
                if self.key.orders(transaction).rows(UNFINISHED, limit=1):
                    seconds = self._seconds * 2 ** min(tries, _MOST_DOUBLINGS)
                    transaction.run(_LEAVE, **self.key.place, seconds=seconds)
                else:
                    transaction.run(_FINISH, **self.key.place)
            release(transaction, self.key)

        await self._run("release the lease", end)
        self._is_lost = True

    def read(self, operation: "Callable[[Orders], T]") -> "asyncio.Future[T]":
        """Read orders of the slice."""
        return self._run("read the orders", lambda tx: operation(self.key.orders(tx)))

    def change(
        self, what: str, operation: "Callable[[Orders], T]", *, alive: bool = False
    ) -> "asyncio.Future[T]":
        """Change orders of the slice, in a transaction that finds the lease to be ours.

        It is begun at once. It raises `LeaseLostError` if the lease is no longer ours, and
        `JournalError` if an order is in no state that may change so; then nothing was changed.

        Args:
            what: What is done, for errors: "keep the outcomes".
            operation: Changes the orders.
            alive: Whether the lease must not have run out either, by the database's clock.
        """

        def change(transaction: "Transaction") -> T:
            self.key.verify(transaction, alive=alive)
            return operation(self.key.orders(transaction))

        return self._run(what, change, is_change=True)

    def _run(
        self, what: str, operation: "Callable[[Transaction], T]", *, is_change: bool = False
    ) -> "asyncio.Future[T]":
        def note(done: "asyncio.Future[T]") -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, LeaseLostError):
                self._is_lost = True
                self.on_lost(error)
            if is_change and isinstance(error, JournalError):
                self.failure = self.failure or error

        done = self._database.run(f"job {self.key.name!r}: cannot {what}", operation)
        done.add_done_callback(note)
        return done


# In a transaction


def find_job(transaction: "Transaction", name: str) -> JobRow:
    """Return the row of a job.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    row = transaction.run(_JOB, name=name).fetchone()
    if row is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    return JobRow(*row)


def take_job(
    transaction: "Transaction", wanted: LeaseKey, seconds: float, whose: "Whose | None"
) -> LeaseKey:
    """Take a lease on a job whose orders are all there, and reopen what was left in doubt.

    See `Job.take`.
    """
    name = wanted.name
    job = find_job(transaction, name)
    if not job.imported:
        raise JournalError(
            f"job {name!r} was not submitted to its end: submit all of its orders again", job=name
        )
    if job.slice_size and not wanted.slice_number:
        raise JobConflictError(
            f"job {name!r} was cut into slices: name one, or let workers run them", job=name
        )
    subject = dict(zip(SUBJECT[1:], whose or (), strict=False))
    if difference := job.difference(subject):
        raise JobConflictError(
            f"job {name!r} is not this client's: {difference}; resume it with its own", job=name
        )
    key = acquire(transaction, attrs.evolve(wanted, job_id=job.id), seconds)
    if subject and not job.gateway:  # a job of an earlier version
        transaction.run(_ADOPT, job=job.id, gateway=subject["gateway"])
    key.orders(transaction).reopen(look_up=bool(OPERATIONS[job.operation].recovered_by))
    return key


def acquire(transaction: "Transaction", wanted: LeaseKey, seconds: float) -> LeaseKey:
    """Take a lease, whatever its epoch was.

    Raises:
        JobNotFoundError: If there is no such slice.
        JobBusyError: If another process has it.
    """
    transaction.leases.clear()
    name = wanted.name
    taking = {**wanted.place, "owner": wanted.owner, "seconds": seconds}
    is_taken = transaction.run(_TAKE, **taking).rowcount == 1
    row = transaction.run(_LOOK, **wanted.place).fetchone()
    if row is None:
        raise JobNotFoundError(f"job {name!r} has no slice {wanted.slice_number}", job=name)
    first, last, total, epoch, holder, seconds_left = row
    if not is_taken:
        raise JobBusyError(
            f"job {name!r} is with {holder!r}, whose lease runs for another "
            f"{seconds_left:.1f} s unless it is renewed",
            job=name,
            seconds_left=seconds_left,
        )
    return attrs.evolve(wanted, epoch=epoch, first=first, last=last, total=total)


def release(transaction: "Transaction", key: LeaseKey) -> None:
    """End a lease, if it is its owner's still, also where it is not known whether it was taken."""
    transaction.leases.clear()  # else a later operation of the transaction takes it for live
    transaction.run(_RELEASE, name=key.name, slice=key.slice_number, owner=key.owner)
