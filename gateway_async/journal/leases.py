"""Leases, and the slices that they are taken on: who may write to a job, by the database's clock.

A lease has an epoch, which grows whenever it is taken. A write under a lease first finds its epoch
unchanged, in the same transaction: a process that lost its lease changes no row. All orders of one
transaction are in one slice, so that under a slice's lease no other process moves them.
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
from gateway_async.journal.reads import find_job, has_any
from gateway_async.journal.rows import ALIKE, NOT_DONE, LeaseKey, SliceStatus, storable
from gateway_async.journal.schema import (
    CHUNKS,
    EXCEPTIONS,
    JOBS,
    LEASES,
    SECONDS_FROM_NOW,
    SLICES,
    DatabaseNow,
)
from gateway_async.journal.states import TRANSITIONS, UNFINISHED, JobState, Transition
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.journal.database import Transaction

IMPORT_SLICE = -1
"""The lease of a process that submits a job."""
_INTERRUPTED = "it was in flight when its process ended"
_EARLIER = "earlier, "
_MOST_DOUBLINGS = 6

_IS_LEASE = sa.and_(
    LEASES.c.job_id == sa.bindparam("the_job"), LEASES.c.slice == sa.bindparam("the_slice")
)
_IS_OURS = sa.and_(_IS_LEASE, LEASES.c.epoch == sa.bindparam("the_epoch"))
_LEFT = (LEASES.c.expires_at - DatabaseNow()).label("seconds_left")

_FIND_JOB = sa.select(
    JOBS.c.id, JOBS.c.imported, JOBS.c.total, JOBS.c.slice_size, JOBS.c.operation
).where(JOBS.c.name == sa.bindparam("the_name"))
_IS_SLICE = sa.and_(
    SLICES.c.job_id == sa.bindparam("the_job"), SLICES.c.slice == sa.bindparam("the_slice")
)
_FIND_SLICE = sa.select(SLICES.c.first, SLICES.c.last, SLICES.c.total).where(_IS_SLICE)
_POSTPONE = SLICES.update().where(_IS_SLICE).values(due_at=SECONDS_FROM_NOW)
"""Lets a slice be due, to be handed to a queue, in so long."""
_BEGIN_SLICE = _POSTPONE.values(finished=False)
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
_REOPEN = tuple(
    table.update()
    .where(
        table.c.job_id == sa.bindparam("the_job"),
        table.c.slice == sa.bindparam("the_slice"),
        position.between(sa.bindparam("the_first"), sa.bindparam("the_last")),
        table.c.state.in_(sa.bindparam("the_states", expanding=True)),
        table.c.proof != ALIKE,
    )
    .values(
        state=str(JobState.UNKNOWN),
        text=sa.case(
            (table.c.state == str(JobState.INTENT), _INTERRUPTED),
            (table.c.proof == NOT_DONE, _EARLIER + table.c.text),
            else_=table.c.text,
        ),
        proof="",
    )
    for table, position in ((CHUNKS, CHUNKS.c.first), (EXCEPTIONS, EXCEPTIONS.c.position))
)

_LIST = SLICES.insert().from_select(
    ["job_id", "slice", "first", "last", "total", "finished", "due_at", "tries"],
    sa.select(
        CHUNKS.c.job_id,
        CHUNKS.c.slice,
        sa.func.min(CHUNKS.c.first),
        sa.func.max(CHUNKS.c.last),
        sa.func.sum(CHUNKS.c.last - CHUNKS.c.first + 1),
        sa.false(),
        sa.literal(0.0, sa.Double),
        sa.literal(0, sa.Integer),
    )
    .where(CHUNKS.c.job_id == sa.bindparam("the_job"), CHUNKS.c.slice > 0)
    .group_by(CHUNKS.c.job_id, CHUNKS.c.slice),
)
_LOCK_SLICE = sa.select(SLICES.c.tries).where(_IS_SLICE).with_for_update()
_FINISH_SLICE = SLICES.update().where(_IS_SLICE).values(finished=True)
_LEAVE = SLICES.update().where(_IS_SLICE).values(due_at=SECONDS_FROM_NOW, tries=SLICES.c.tries + 1)
_MAKE_DUE = SLICES.update().where(_IS_SLICE).values(due_at=0.0, tries=0)
_OPEN_SLICE = _MAKE_DUE.values(finished=False)

_IS_TAKEN = sa.exists().where(
    LEASES.c.job_id == SLICES.c.job_id,
    LEASES.c.slice == SLICES.c.slice,
    LEASES.c.expires_at > DatabaseNow(),
)
_SLICES = (
    sa.select(SLICES, _IS_TAKEN.label("is_running"))
    .join(JOBS, JOBS.c.id == SLICES.c.job_id)
    .where(JOBS.c.name == sa.bindparam("the_name"))
    .order_by(SLICES.c.slice)
)
_DUE = (
    sa.select(SLICES.c.job_id, SLICES.c.slice, JOBS.c.name)
    .join(JOBS, JOBS.c.id == SLICES.c.job_id)
    .where(
        SLICES.c.finished.is_(False),
        SLICES.c.due_at <= DatabaseNow(),
        ~_IS_TAKEN,
        JOBS.c.merchant_id == sa.bindparam("the_merchant"),
        JOBS.c.account_id == sa.bindparam("the_account"),
    )
    .order_by(SLICES.c.due_at, SLICES.c.job_id, SLICES.c.slice)
    .limit(sa.bindparam("most"))
    .with_for_update(of=SLICES, skip_locked=True)
)
_POSTPONE_NAMED = (
    SLICES.update()
    .where(
        SLICES.c.slice == sa.bindparam("the_slice"),
        SLICES.c.job_id
        == sa.select(JOBS.c.id).where(JOBS.c.name == sa.bindparam("the_name")).scalar_subquery(),
    )
    .values(due_at=SECONDS_FROM_NOW)
)


def _parameters(key: LeaseKey) -> dict[str, object]:
    return {"the_job": key.job_id, "the_slice": key.slice_number, "the_epoch": key.epoch}


def take_job(
    transaction: "Transaction", name: str, slice_number: int, owner: str, seconds: float
) -> LeaseKey:
    """Take a lease on a job whose orders are all there, and reopen what was left in doubt.

    Raises:
        JobNotFoundError: If there is no such job, or no such slice of it.
        JobConflictError: If it was cut into slices, and none is named.
        JobBusyError: If another has it.
        JournalError: If not all of its orders were submitted.
    """
    found = transaction.execute(_FIND_JOB.with_for_update(), {"the_name": name}).one_or_none()
    if found is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    if not found.imported:
        raise JournalError(
            f"job {name!r} was not submitted to its end: submit all of its orders again", job=name
        )
    key = take(transaction, _key(transaction, name, found, slice_number), owner, seconds)
    named = {"the_job": key.job_id, "the_slice": slice_number}
    is_looked_up = bool(OPERATIONS[found.operation].recovered_by)
    reopened = {
        "the_first": key.first,
        "the_last": key.last,
        "the_states": [
            str(state)
            for state in sorted(TRANSITIONS[Transition.REOPEN])
            if is_looked_up or state is not JobState.HELD  # else only a person can know more
        ],
    }
    for statement in _REOPEN:
        transaction.execute(statement, {**named, **reopened})
    if slice_number:  # else a worker that was handed it, and died, would leave it for good
        transaction.execute(_BEGIN_SLICE, {**named, "seconds": seconds})
    return key


def _key(transaction: "Transaction", name: str, job: "sa.Row[Any]", slice_number: int) -> LeaseKey:
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
    found = transaction.execute(_FIND_SLICE, named).one_or_none()
    if found is None:
        raise JobNotFoundError(f"job {name!r} has no slice {slice_number}", job=name)
    return LeaseKey(
        name, job.id, slice_number, first=found.first, last=found.last, total=found.total
    )


def take(transaction: "Transaction", key: LeaseKey, owner: str, seconds: float) -> LeaseKey:
    """Take a lease, whatever its epoch was; the job's own row is locked, or new.

    Raises:
        JobBusyError: If another has it.
    """
    transaction.leases.clear()
    parameters = {**_parameters(key), "the_owner": owner, "seconds": seconds}
    row = transaction.execute(_READ_ALONE, parameters).one_or_none()
    if row is None:
        transaction.execute(_INSERT, parameters)
        return attrs.evolve(key, epoch=1)
    if row.seconds_left > 0:
        raise JobBusyError(
            f"job {key.name!r} is with {row.owner!r}, whose lease runs for another "
            f"{row.seconds_left:.1f} s unless it is renewed",
            job=key.name,
            seconds_left=row.seconds_left,
        )
    transaction.execute(_TAKE_OVER, {**parameters, "the_epoch": row.epoch})
    return attrs.evolve(key, epoch=row.epoch + 1)


def verify(transaction: "Transaction", key: LeaseKey, *, alive: bool = False) -> None:
    """Make sure that a lease is still ours, until the transaction ends.

    Args:
        transaction: The transaction.
        key: The lease.
        alive: Whether it must not have run out either.

    Raises:
        LeaseLostError: If it is not.
    """
    is_alive = transaction.leases.get(key)
    if is_alive is None:
        row = transaction.execute_fast(
            _READ_SHARED, the_job=key.job_id, the_slice=key.slice_number
        ).fetchone()
        if row is None or row[0] != key.epoch:
            raise _lost(key, "another process took it")
        is_alive = transaction.leases[key] = row[1] > 0
    if alive and not is_alive:
        raise _lost(key, "it ran out")


def renew(transaction: "Transaction", key: LeaseKey, seconds: float) -> None:
    """Let a lease run for so long from now.

    Raises:
        LeaseLostError: If it is no longer ours.
    """
    transaction.leases.clear()
    if transaction.execute(_RENEW, {**_parameters(key), "seconds": seconds}).rowcount != 1:
        raise _lost(key, "another process took it")


def release(transaction: "Transaction", key: LeaseKey) -> None:
    """End a lease, if it is ours still."""
    transaction.leases.clear()
    transaction.execute(_RELEASE, _parameters(key))


def release_of(transaction: "Transaction", job_id: int, slice_number: int, owner: str) -> None:
    """End a lease, if it is this owner's, whatever its epoch is."""
    transaction.leases.clear()
    parameters = {"the_job": job_id, "the_slice": slice_number, "the_owner": owner}
    transaction.execute(_RELEASE_OF, parameters)


def _lost(key: LeaseKey, reason: str) -> LeaseLostError:
    return LeaseLostError(
        f"the lease on job {key.name!r} is lost: {reason}; nothing was changed", job=key.name
    )


# Slices


def list_slices(transaction: "Transaction", job_id: int) -> None:
    """Write down which slices a job has, once each of its orders is in one."""
    transaction.execute(_LIST, {"the_job": job_id})


def read_slices(
    transaction: "Transaction", name: str, slice_number: int | None = None
) -> list[SliceStatus]:
    """Return how far every slice of a job has come, or one; none where it is in one piece.

    Raises:
        JobNotFoundError: If there is no such job, or no such slice.
    """
    find_job(transaction, name)
    wanted = _SLICES if slice_number is None else _SLICES.where(SLICES.c.slice == slice_number)
    found = transaction.execute(wanted, {"the_name": name}).all()
    if slice_number is not None and not found:
        raise JobNotFoundError(f"the journal has no slice {slice_number} of job {name!r}", job=name)
    return [
        SliceStatus(
            number=row.slice,
            first=row.first,
            last=row.last,
            total=row.total,
            finished=bool(row.finished),
            is_running=bool(row.is_running),
        )
        for row in found
    ]


def finish_slice(transaction: "Transaction", key: LeaseKey, seconds: float) -> bool:
    """Note that a slice is finished, if it is; return whether it is.

    Otherwise it is handed to no queue for so long, and for twice as long the next time.

    Raises:
        LeaseLostError: If the lease is no longer ours.
    """
    verify(transaction, key)
    named = {"the_job": key.job_id, "the_slice": key.slice_number}
    # Locked before it is looked at: an operator may decide at this very moment.
    tries = transaction.execute(_LOCK_SLICE, named).scalar_one()
    if has_any(transaction, key, UNFINISHED):
        transaction.execute(
            _LEAVE, {**named, "seconds": seconds * 2 ** min(tries, _MOST_DOUBLINGS)}
        )
        return False
    transaction.execute(_FINISH_SLICE, named)
    return True


def wake_slice(transaction: "Transaction", job_id: int, slice_number: int, *, reopen: bool) -> None:
    """Let a slice be due now, where the job was cut; a finished one only if it is reopened."""
    statement = _OPEN_SLICE if reopen else _MAKE_DUE
    transaction.execute(statement, {"the_job": job_id, "the_slice": slice_number})


def claim_due(
    transaction: "Transaction", merchant: tuple[str, str], seconds: float, most: int
) -> list[tuple[str, int]]:
    """Return slices that no process has and that are due, job and number, and postpone them.

    Args:
        transaction: The transaction.
        merchant: Whose jobs: `merchant_id` and `account_id`.
        seconds: For how long they are not returned again.
        most: How many at most.
    """
    merchant_id, account_id = map(storable, merchant)
    whose = {"the_merchant": merchant_id, "the_account": account_id, "most": most}
    found = transaction.execute(_DUE, whose).all()
    if found:
        transaction.execute(
            _POSTPONE,
            [{"the_job": row.job_id, "the_slice": row.slice, "seconds": seconds} for row in found],
        )
    return [(row.name, row.slice) for row in found]


def postpone(
    transaction: "Transaction", names: "Sequence[tuple[str, int]]", seconds: float
) -> None:
    """Let slices, job and number, be due in so long."""
    for name, slice_number in names:
        parameters = {"the_name": name, "the_slice": slice_number, "seconds": seconds}
        transaction.execute(_POSTPONE_NAMED, parameters)
