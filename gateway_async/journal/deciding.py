"""What an operator decides on orders that are in doubt.

Law: it moves the orders that are named, all or none, and only what is unknown or held, as the table
of transitions says. No lease is needed for that, since what is in doubt is moved by one transaction
at a time; the slice of an order is due then, and opened again where the order is to be sent.
"""

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from gateway_async.errors import JournalError
from gateway_async.journal.codec import codec_of, storable
from gateway_async.journal.reading import find_job, read_of_transactions, read_stretches
from gateway_async.journal.redrawing import cut, write_changes
from gateway_async.journal.schema import JOBS, lock_what_is_in_doubt
from gateway_async.journal.slices import hurry, reopen
from gateway_async.journal.states import IN_DOUBT, JobState, Move, sources
from gateway_async.journal.stretches import Change, runs_of
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.journal.stretches import Stretch
    from gateway_async.journal.writer import Transaction

_BY_OPERATOR = "operator"
_LOCK_JOB = sa.select(JOBS.c.id).where(JOBS.c.id == sa.bindparam("the_job")).with_for_update()


def decide(inside: "Transaction", name: str, order: object, state: JobState, note: str) -> None:
    """Keep what an operator decided on orders that are in doubt.

    Args:
        inside: The transaction.
        name: The name of the job.
        order: The order, or its position; or several, as a list or a range.
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
    runs = list(runs_of(_positions(inside, job, order)))
    sources(Move.DECIDE, state)
    found = [each for first, last in runs for each in _in_doubt(inside, job, first, last)]
    known = list({each.first: each for each in found}.values())  # one may hold several runs
    told = {
        "state": str(state),
        "code": "",
        "text": cut(f"an operator decided: {note}"),
        "proof": _BY_OPERATOR,
        "note": storable(note),
    }
    write_changes(inside, job.id, known, [Change(first, last, told) for first, last in runs])
    for number in {each.slice for each in known}:
        (reopen if state is JobState.NEW else hurry)(inside, job.id, number)


def _in_doubt(
    inside: "Transaction", job: "sa.Row[Any]", first: int, last: int
) -> "Sequence[Stretch]":
    """Return the stretches that hold these orders.

    Raises:
        JournalError: If there is nothing to decide on one of them.
    """
    known = read_stretches(inside, job.id, first, last)
    for each in known:
        what = f"order {max(first, each.first)} of job {job.name!r}"
        if each.state == JobState.INTENT:
            raise JournalError(
                f"{what} is in flight, or was when its process ended: run the job again first",
                job=job.name,
            )
        if each.state not in IN_DOUBT:
            raise JournalError(
                f"{what} is {each.state!r}: an operator decides only on what is unknown or held",
                job=job.name,
            )
    return known


def _positions(inside: "Transaction", job: "sa.Row[Any]", order: object) -> list[int]:
    """Return the positions that are meant, ascending."""
    named = order if isinstance(order, list | tuple | range) else [order]
    if not named:
        raise JournalError("no order is named that could be decided on", job=job.name)
    return sorted({_position(inside, job, each) for each in named})


def _position(inside: "Transaction", job: "sa.Row[Any]", order: object) -> int:
    if isinstance(order, int) and not isinstance(order, bool):
        if not 0 <= order < job.total:
            raise JournalError(f"job {job.name!r} has no order {order}", job=job.name)
        return order
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
    return equal[0].index
