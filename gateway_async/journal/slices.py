"""The slices of a job: how its orders are shared out, and which slices wait for somebody.

Law: all orders of one transaction are in one slice, so that under a slice's lease nobody else
moves them: what one process knows of a job that is in one piece, it knows of a slice. A slice is
finished once a run has nothing more to do in it.
"""

from typing import TYPE_CHECKING

import sqlalchemy as sa

from gateway_async.errors import JobNotFoundError
from gateway_async.journal.codec import storable
from gateway_async.journal.job import SliceStatus
from gateway_async.journal.leases import IS_SLICE, PUT_OFF, verify
from gateway_async.journal.reading import find_job, read_counts
from gateway_async.journal.schema import JOBS, LEASES, SECONDS_FROM_NOW, SLICES, STATES, DatabaseNow
from gateway_async.journal.states import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.journal.leases import LeaseKey
    from gateway_async.journal.writer import Transaction

_MOST_DOUBLINGS = 6

_JOB: "sa.BindParameter[int]" = sa.bindparam("the_job")
_SLICE: "sa.BindParameter[int]" = sa.bindparam("the_slice")

_LIST = SLICES.insert().from_select(
    ["job_id", "slice", "first", "last", "total", "finished", "due_at", "tries"],
    sa.select(
        STATES.c.job_id,
        STATES.c.slice,
        sa.func.min(STATES.c.first),
        sa.func.max(STATES.c.last),
        sa.func.sum(STATES.c.last - STATES.c.first + 1),
        sa.false(),
        sa.literal(0.0, sa.Double),
        sa.literal(0, sa.Integer),
    )
    .where(STATES.c.job_id == _JOB, STATES.c.slice > 0)
    .group_by(STATES.c.job_id, STATES.c.slice),
)
_LOCK = sa.select(SLICES.c.tries).where(IS_SLICE).with_for_update()
_FINISH = SLICES.update().where(IS_SLICE).values(finished=True)
_LEAVE = SLICES.update().where(IS_SLICE).values(due_at=SECONDS_FROM_NOW, tries=SLICES.c.tries + 1)
_HURRY = SLICES.update().where(IS_SLICE).values(due_at=0.0, tries=0)
_REOPEN = _HURRY.values(finished=False)

_IS_TAKEN = sa.exists().where(
    LEASES.c.job_id == SLICES.c.job_id,
    LEASES.c.slice == SLICES.c.slice,
    LEASES.c.expires_at > DatabaseNow(),
)
_READ = (
    sa.select(SLICES, _IS_TAKEN.label("is_running"))
    .join(JOBS, JOBS.c.id == SLICES.c.job_id)
    .where(JOBS.c.name == sa.bindparam("the_name"))
    .order_by(SLICES.c.slice)
)
_READ_ONE = _READ.where(SLICES.c.slice == _SLICE)
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
_PUT_OFF_NAMED = (
    SLICES.update()
    .where(
        SLICES.c.slice == _SLICE,
        SLICES.c.job_id
        == sa.select(JOBS.c.id).where(JOBS.c.name == sa.bindparam("the_name")).scalar_subquery(),
    )
    .values(due_at=SECONDS_FROM_NOW)
)


def list_slices(inside: "Transaction", job_id: int) -> None:
    """Write down which slices a job has, once each of its orders is in one."""
    inside.execute(_LIST, {"the_job": job_id})


def read_slices(inside: "Transaction", name: str) -> list[SliceStatus]:
    """Return how far every slice of a job has come; none where it is in one piece.

    Raises:
        JobNotFoundError: If there is no such job.
    """
    find_job(inside, name)
    return [_status(row) for row in inside.execute(_READ, {"the_name": name})]


def read_slice(inside: "Transaction", name: str, slice_number: int) -> SliceStatus:
    """Return how far a slice has come.

    Raises:
        JobNotFoundError: If there is no such job, or no such slice.
    """
    parameters = {"the_name": name, "the_slice": slice_number}
    row = inside.execute(_READ_ONE, parameters).one_or_none()
    if row is None:
        raise JobNotFoundError(f"the journal has no slice {slice_number} of job {name!r}", job=name)
    return _status(row)


def finish(inside: "Transaction", key: "LeaseKey", seconds: float) -> bool:
    """Note that a slice is finished, if it is; return whether it is.

    Otherwise nobody is told of it for so long, and for twice as long the next time.

    Raises:
        LeaseLostError: If the lease is no longer ours.
    """
    verify(inside, key)
    named = {"the_job": key.job_id, "the_slice": key.slice_number}
    # Locked before it is counted: an operator may decide at this very moment.
    tries = inside.execute(_LOCK, named).scalar_one()
    counts = read_counts(inside, key)
    if any(counts[state] for state in UNFINISHED):
        inside.execute(_LEAVE, {**named, "seconds": seconds * 2 ** min(tries, _MOST_DOUBLINGS)})
        return False
    inside.execute(_FINISH, named)
    return True


def reopen(inside: "Transaction", job_id: int, slice_number: int) -> None:
    """Note that there is something to do again in a slice, where the job was cut."""
    inside.execute(_REOPEN, {"the_job": job_id, "the_slice": slice_number})


def hurry(inside: "Transaction", job_id: int, slice_number: int) -> None:
    """Let a slice that is not finished be due now: what held it up may be settled."""
    inside.execute(_HURRY, {"the_job": job_id, "the_slice": slice_number})


def take_due(
    inside: "Transaction", merchant: tuple[str, str], seconds: float, most: int
) -> list[tuple[str, int]]:
    """Return slices that nobody has and that are due, job and number, and put them off.

    Args:
        inside: The transaction.
        merchant: Whose jobs: `merchant_id` and `account_id`.
        seconds: For how long nobody else is told of them.
        most: How many at most.
    """
    merchant_id, account_id = map(storable, merchant)
    whose = {"the_merchant": merchant_id, "the_account": account_id, "most": most}
    found = inside.execute(_DUE, whose).all()
    if found:
        inside.execute(
            PUT_OFF,
            [{"the_job": row.job_id, "the_slice": row.slice, "seconds": seconds} for row in found],
        )
    return [(row.name, row.slice) for row in found]


def put_off(inside: "Transaction", names: "Sequence[tuple[str, int]]", seconds: float) -> None:
    """Let slices, job and number, be due in so long."""
    for name, slice_number in names:
        parameters = {"the_name": name, "the_slice": slice_number, "seconds": seconds}
        inside.execute(_PUT_OFF_NAMED, parameters)


def _status(row: "sa.Row[tuple[int, ...]]") -> SliceStatus:
    return SliceStatus(
        number=row.slice,
        first=row.first,
        last=row.last,
        total=row.total,
        finished=bool(row.finished),
        is_running=bool(row.is_running),
    )
