"""What an operator decides on an order that is in doubt.

Law: it moves one order, and only one that is unknown or held, as the table of transitions says. No
lease is needed for that, since what is in doubt is moved by one transaction at a time; the slice of
the order is due then, and opened again where the order is to be sent.
"""

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from gateway_async.errors import JournalError
from gateway_async.journal.codec import codec_of, storable
from gateway_async.journal.reading import (
    find_job,
    read_at,
    read_of_transactions,
    read_stretches,
)
from gateway_async.journal.redrawing import cut, write_changes
from gateway_async.journal.schema import JOBS, lock_what_is_in_doubt
from gateway_async.journal.slices import hurry, reopen
from gateway_async.journal.states import IN_DOUBT, JobState, Move, sources
from gateway_async.journal.stretches import Change
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from gateway_async.journal.rows import Row
    from gateway_async.journal.writer import Transaction

_BY_OPERATOR = "operator"
_LOCK_JOB = sa.select(JOBS.c.id).where(JOBS.c.id == sa.bindparam("the_job")).with_for_update()


def decide(inside: "Transaction", name: str, order: object, state: JobState, note: str) -> None:
    """Keep what an operator decided on an order that is in doubt.

    Args:
        inside: The transaction.
        name: The name of the job.
        order: The order, or its position.
        state: What it becomes.
        note: Why.

    Raises:
        JobNotFoundError: If there is no such job.
        InvalidOrderError: If it is an order of another operation.
        JournalError: If there is no such order, more than one, or nothing to decide on it.
    """
    job = find_job(inside, name)
    inside.execute(_LOCK_JOB, {"the_job": job.id})  # whoever takes the job reopens what is held
    lock_what_is_in_doubt(inside.connection, job.id)
    row = _find(inside, job, order)
    what = f"order {row.index} of job {name!r}"
    if row.state is JobState.INTENT:
        raise JournalError(
            f"{what} is in flight, or was when its process ended: run the job again first", job=name
        )
    sources(Move.DECIDE, state)
    if row.state not in IN_DOUBT:
        raise JournalError(
            f"{what} is {str(row.state)!r}: an operator decides only on what is unknown or held",
            job=name,
        )
    told = {
        "state": str(state),
        "code": "",
        "text": cut(f"an operator decided: {note}"),
        "proof": _BY_OPERATOR,
        "note": storable(note),
    }
    known = read_stretches(inside, job.id, row.index, row.index)
    write_changes(inside, job.id, known, [Change(row.index, row.index, told)])
    (reopen if state is JobState.NEW else hurry)(inside, job.id, known[0].slice)


def _find(inside: "Transaction", job: "sa.Row[Any]", order: object) -> "Row":
    if isinstance(order, int) and not isinstance(order, bool):
        row = read_at(inside, job.id, order) if 0 <= order < job.total else None
        if row is None:
            raise JournalError(f"job {job.name!r} has no order {order}", job=job.name)
        return row
    codec_of(job.operation).encode(order)  # refuses what is no order of this operation
    transaction_id = str(getattr(order, "transaction_id", ""))
    alike = read_of_transactions(inside, job.id, {transaction_id}, frozenset(JobState))
    equal = [row for row in alike if row.order == order]
    if not equal:
        raise JournalError(
            f"job {job.name!r} has no order that is equal to {describe(order)}", job=job.name
        )
    if len(equal) > 1:
        positions = ", ".join(str(row.index) for row in equal)
        raise JournalError(
            f"job {job.name!r} has {len(equal)} orders equal to {describe(order)}: name one by its "
            f"position: {positions}",
            job=job.name,
        )
    return equal[0]
