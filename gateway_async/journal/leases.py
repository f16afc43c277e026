"""Leases in the database: who may write to a job, by the database's own clock.

Law: a lease has an epoch, which grows whenever it is taken. Whoever writes under a lease first
finds its epoch unchanged, in the same transaction, so that one who lost it changes no row.
"""

from typing import TYPE_CHECKING, Any

import attrs
import sqlalchemy as sa

from gateway_async.errors import (
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    JournalError,
    LeaseLostError,
)
from gateway_async.journal.rows import NOT_DONE
from gateway_async.journal.schema import JOBS, LEASES, SECONDS_FROM_NOW, SLICES, STATES, DatabaseNow
from gateway_async.journal.states import TRANSITIONS, JobState, Move

if TYPE_CHECKING:
    from gateway_async.journal.writer import Transaction

IMPORT_SLICE = -1
"""The lease of one who submits a job."""
_INTERRUPTED = "it was in flight when its process ended"
_EARLIER = "earlier, "


@attrs.frozen
class LeaseKey:
    """What names a lease that was taken.

    Attributes:
        name: The name of the job.
        job_id: The job's number in the database.
        slice_number: Which slice of the job.
        epoch: How often this lease was taken; 0 for one that is to be taken.
        first: The position of the first order that it is about.
        last: The position of the last; of a slice, not all between them need be its own.
        total: How many they are.
    """

    name: str
    job_id: int
    slice_number: int = 0
    epoch: int = 0
    first: int = 0
    last: int = -1
    total: int = 0


_IS_LEASE = sa.and_(
    LEASES.c.job_id == sa.bindparam("the_job"), LEASES.c.slice == sa.bindparam("the_slice")
)
_IS_OURS = sa.and_(_IS_LEASE, LEASES.c.epoch == sa.bindparam("the_epoch"))
_LEFT = (LEASES.c.expires_at - DatabaseNow()).label("seconds_left")

_FIND_JOB = sa.select(JOBS.c.id, JOBS.c.imported, JOBS.c.total, JOBS.c.slice_size).where(
    JOBS.c.name == sa.bindparam("the_name")
)
IS_SLICE = sa.and_(
    SLICES.c.job_id == sa.bindparam("the_job"), SLICES.c.slice == sa.bindparam("the_slice")
)
_FIND_SLICE = sa.select(SLICES.c.first, SLICES.c.last, SLICES.c.total).where(IS_SLICE)
PUT_OFF = SLICES.update().where(IS_SLICE).values(due_at=SECONDS_FROM_NOW)
"""Lets a slice be due, for somebody to be told of it, in so long."""
_BEGIN = PUT_OFF.values(finished=False)
"""The same, and a finished one has something to do again: what was held is looked at."""
_READ = sa.select(LEASES.c.epoch, _LEFT, LEASES.c.owner).where(_IS_LEASE)
_READ_SHARED = _READ.with_for_update(read=True)
_READ_ALONE = _READ.with_for_update()
_INSERT = LEASES.insert().values(
    job_id=sa.bindparam("the_job"),
    slice=sa.bindparam("the_slice"),
    epoch=1,
    owner=sa.bindparam("the_owner"),
    expires_at=SECONDS_FROM_NOW,
)
_TAKE_OVER = (
    LEASES.update()
    .where(_IS_OURS)
    .values(
        epoch=LEASES.c.epoch + 1,
        owner=sa.bindparam("the_owner"),
        expires_at=SECONDS_FROM_NOW,
    )
)
_RENEW = LEASES.update().where(_IS_OURS).values(expires_at=SECONDS_FROM_NOW)
_RELEASE = LEASES.update().where(_IS_OURS).values(expires_at=0.0)
_RELEASE_OF = (
    LEASES.update()
    .where(_IS_LEASE, LEASES.c.owner == sa.bindparam("the_owner"))
    .values(expires_at=0.0)
)
_REOPEN = (
    STATES.update()
    .where(
        STATES.c.job_id == sa.bindparam("the_job"),
        STATES.c.slice == sa.bindparam("the_slice"),
        STATES.c.first.between(sa.bindparam("the_first"), sa.bindparam("the_last")),
        STATES.c.state.in_([str(state) for state in sorted(TRANSITIONS[Move.REOPEN])]),
    )
    .values(
        state=str(JobState.UNKNOWN),
        text=sa.case(
            (STATES.c.state == str(JobState.INTENT), _INTERRUPTED),
            (STATES.c.proof == NOT_DONE, _EARLIER + STATES.c.text),
            else_=STATES.c.text,
        ),
        proof="",
    )
)


def _parameters(key: LeaseKey) -> dict[str, object]:
    return {"the_job": key.job_id, "the_slice": key.slice_number, "the_epoch": key.epoch}


def take_job(
    inside: "Transaction", name: str, slice_number: int, owner: str, seconds: float
) -> LeaseKey:
    """Take a lease on a job whose orders are all there, and reopen what was left in doubt.

    Raises:
        JobNotFoundError: If there is no such job, or no such slice of it.
        JobConflictError: If it was cut into slices, and none is named.
        JobBusyError: If another has it.
        JournalError: If not all of its orders were submitted.
    """
    found = inside.execute(_FIND_JOB.with_for_update(), {"the_name": name}).one_or_none()
    if found is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    if not found.imported:
        raise JournalError(
            f"job {name!r} was not submitted to its end: submit all of its orders again", job=name
        )
    key = take(inside, _key(inside, name, found, slice_number), owner, seconds)
    named = {"the_job": key.job_id, "the_slice": slice_number}
    inside.execute(_REOPEN, {**named, "the_first": key.first, "the_last": key.last})
    if slice_number:  # else whoever was told of it last may have died with that
        inside.execute(_BEGIN, {**named, "seconds": seconds})
    return key


def _key(inside: "Transaction", name: str, job: "sa.Row[Any]", slice_number: int) -> LeaseKey:
    """Name the lease on a job in one piece, or on a slice.

    Raises:
        JobConflictError: If the job was cut into slices, and none is named.
        JobNotFoundError: If it has no such slice.
    """
    if not slice_number and job.slice_size:
        raise JobConflictError(
            f"job {name!r} was cut into slices: name one, or let workers run them", job=name
        )
    if not slice_number:
        return LeaseKey(name, job.id, first=0, last=job.total - 1, total=job.total)
    named = {"the_job": job.id, "the_slice": slice_number}
    found = inside.execute(_FIND_SLICE, named).one_or_none()
    if found is None:
        raise JobNotFoundError(f"job {name!r} has no slice {slice_number}", job=name)
    return LeaseKey(
        name, job.id, slice_number, first=found.first, last=found.last, total=found.total
    )


def take(inside: "Transaction", key: LeaseKey, owner: str, seconds: float) -> LeaseKey:
    """Take a lease, whatever its epoch was; the job's own row is locked, or new.

    Raises:
        JobBusyError: If another has it.
    """
    inside.leases.clear()
    parameters = {**_parameters(key), "the_owner": owner, "seconds": seconds}
    row = inside.execute(_READ_ALONE, parameters).one_or_none()
    if row is None:
        inside.execute(_INSERT, parameters)
        return attrs.evolve(key, epoch=1)
    if row.seconds_left > 0:
        raise JobBusyError(
            f"job {key.name!r} is with {row.owner!r}, whose lease runs for another "
            f"{row.seconds_left:.1f} s unless it is renewed",
            job=key.name,
            seconds_left=row.seconds_left,
        )
    inside.execute(_TAKE_OVER, {**parameters, "the_epoch": row.epoch})
    return attrs.evolve(key, epoch=row.epoch + 1)


def verify(inside: "Transaction", key: LeaseKey, *, alive: bool = False) -> None:
    """Make sure that a lease is still ours, until the transaction ends.

    Args:
        inside: The transaction.
        key: The lease.
        alive: Whether it must not have run out either.

    Raises:
        LeaseLostError: If it is not.
    """
    is_alive = inside.leases.get(key)
    if is_alive is None:
        row = inside.hot(_READ_SHARED, the_job=key.job_id, the_slice=key.slice_number).fetchone()
        if row is None or row[0] != key.epoch:
            raise _lost(key, "another process took it")
        is_alive = inside.leases[key] = row[1] > 0
    if alive and not is_alive:
        raise _lost(key, "it ran out")


def renew(inside: "Transaction", key: LeaseKey, seconds: float) -> None:
    """Let a lease run for so long from now.

    Raises:
        LeaseLostError: If it is no longer ours.
    """
    inside.leases.clear()
    if inside.execute(_RENEW, {**_parameters(key), "seconds": seconds}).rowcount != 1:
        raise _lost(key, "another process took it")


def release(inside: "Transaction", key: LeaseKey) -> None:
    """End a lease, if it is ours still."""
    inside.leases.clear()
    inside.execute(_RELEASE, _parameters(key))


def release_of(inside: "Transaction", job_id: int, slice_number: int, owner: str) -> None:
    """End a lease, if it is this owner's, whatever its epoch is."""
    inside.leases.clear()
    parameters = {"the_job": job_id, "the_slice": slice_number, "the_owner": owner}
    inside.execute(_RELEASE_OF, parameters)


def _lost(key: LeaseKey, reason: str) -> LeaseLostError:
    return LeaseLostError(
        f"the lease on job {key.name!r} is lost: {reason}; nothing was changed", job=key.name
    )
