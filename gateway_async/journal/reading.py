"""What is read from the tables: rows, and how far jobs have come."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from gateway_async.errors import JobNotFoundError
from gateway_async.journal.codec import lookup_key
from gateway_async.journal.job import JobStatus
from gateway_async.journal.rows import RequestNote, Row
from gateway_async.journal.schema import JOBS, LEASES, ORDERS, REQUESTS, STATES, DatabaseNow
from gateway_async.journal.states import JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gateway_async.journal.leases import LeaseKey
    from gateway_async.journal.writer import Transaction

_ASKED_AT_ONCE = 500
_REQUESTS_SEARCHED = 20

_JOB: "sa.BindParameter[int]" = sa.bindparam("the_job")
_SLICE: "sa.BindParameter[int]" = sa.bindparam("the_slice")
_STATES: "sa.BindParameter[Sequence[str]]" = sa.bindparam("the_states", expanding=True)

_ROWS = (
    sa.select(
        STATES.c.position,
        STATES.c.state,
        STATES.c.request_id,
        STATES.c.code,
        STATES.c.text,
        STATES.c.reference,
        STATES.c.proof,
        ORDERS.c.body,
        JOBS.c.operation,
    )
    .join(
        ORDERS, sa.and_(ORDERS.c.job_id == STATES.c.job_id, ORDERS.c.position == STATES.c.position)
    )
    .join(JOBS, JOBS.c.id == STATES.c.job_id)
    .where(STATES.c.job_id == _JOB)
    .order_by(STATES.c.position)
)
_OF_SLICE = STATES.c.slice == _SLICE
_AFTER = _ROWS.where(STATES.c.position > sa.bindparam("after")).limit(sa.bindparam("most"))
_IN_STATES = _AFTER.where(_OF_SLICE, STATES.c.state.in_(_STATES))
_BETWEEN = _ROWS.where(
    _OF_SLICE, STATES.c.position.between(sa.bindparam("first"), sa.bindparam("last"))
)
_OF_TRANSACTIONS = _ROWS.where(
    ORDERS.c.job_id == _JOB,
    ORDERS.c.transaction_id.in_(sa.bindparam("transactions", expanding=True)),
)
_NEW = (
    sa.select(STATES.c.position, ORDERS.c.body)
    .join(
        ORDERS, sa.and_(ORDERS.c.job_id == STATES.c.job_id, ORDERS.c.position == STATES.c.position)
    )
    .where(
        STATES.c.job_id == _JOB,
        _OF_SLICE,
        STATES.c.state == str(JobState.NEW),
        STATES.c.position > sa.bindparam("after"),
    )
    .order_by(STATES.c.position)
    .limit(sa.bindparam("most"))
)
_AT = _ROWS.where(STATES.c.position == sa.bindparam("position"))
_WITH_REFERENCE = _ROWS.where(
    STATES.c.state == str(JobState.SUCCEEDED), STATES.c.reference != ""
).limit(1)

_REQUESTS = sa.select(REQUESTS).where(REQUESTS.c.id.in_(sa.bindparam("requests", expanding=True)))
_SETTLED = (
    sa.select(REQUESTS.c.settled)
    .where(REQUESTS.c.job_id == _JOB, REQUESTS.c.settled != "")
    .order_by(REQUESTS.c.id.desc())
    .limit(_REQUESTS_SEARCHED)
)

_COUNTS = sa.select(STATES.c.job_id, STATES.c.state, sa.func.count().label("count")).group_by(
    STATES.c.job_id, STATES.c.state
)
_COUNTS_OF_JOB = _COUNTS.where(STATES.c.job_id == _JOB)
_COUNTS_OF_SLICE = _COUNTS_OF_JOB.where(_OF_SLICE)
_JOBS = sa.select(
    JOBS,
    sa.exists()
    .where(LEASES.c.job_id == JOBS.c.id, LEASES.c.expires_at > DatabaseNow())
    .label("is_running"),
).order_by(JOBS.c.id)
_JOB_NAMED = _JOBS.where(JOBS.c.name == sa.bindparam("the_name"))


def read_statuses(inside: "Transaction") -> list[JobStatus]:
    """Return how far every job has come, the oldest first."""
    found = inside.execute(_JOBS).all()
    counts = _counts(inside.execute(_COUNTS))
    return [_status(row, counts.get(row.id, {})) for row in found]


def read_status(inside: "Transaction", name: str) -> JobStatus:
    """Return how far a job has come.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    row = find_job(inside, name)
    return _status(
        row, _counts(inside.execute(_COUNTS_OF_JOB, {"the_job": row.id})).get(row.id, {})
    )


def find_job(inside: "Transaction", name: str) -> "sa.Row[Any]":
    """Return the row of a job.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    row = inside.execute(_JOB_NAMED, {"the_name": name}).one_or_none()
    if row is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    return row


def read_counts(inside: "Transaction", key: "LeaseKey") -> "Mapping[JobState, int]":
    """Return how many orders of a slice are in each state."""
    parameters = {"the_job": key.job_id, "the_slice": key.slice_number}
    counts = _counts(inside.execute(_COUNTS_OF_SLICE, parameters)).get(key.job_id, {})
    return {state: counts.get(state, 0) for state in JobState}


def read_page(inside: "Transaction", name: str, after: int, most: int) -> list[Row]:
    """Return rows of a job in all states, by position, from behind a position.

    Raises:
        JobNotFoundError: If there is no such job.
    """
    job_id = find_job(inside, name).id
    return _read(inside, _AFTER, {"the_job": job_id, "after": after, "most": most})


def read_rows(
    inside: "Transaction", key: "LeaseKey", states: "Collection[JobState]", after: int, most: int
) -> list[Row]:
    """Return rows of a slice in these states, by position, from behind a position."""
    parameters = {
        "the_job": key.job_id,
        "the_slice": key.slice_number,
        "the_states": _names(states),
        "after": after,
        "most": most,
    }
    return _read(inside, _IN_STATES, parameters)


def read_new(
    inside: "Transaction", key: "LeaseKey", after: int, most: int
) -> list[tuple[int, str]]:
    """Return position and body of new orders of a slice, from behind a position."""
    parameters = {
        "the_job": key.job_id,
        "the_slice": key.slice_number,
        "after": after,
        "most": most,
    }
    return [(row.position, row.body) for row in inside.execute(_NEW, parameters)]


def read_between(inside: "Transaction", key: "LeaseKey", first: int, last: int) -> list[Row]:
    """Return the rows of a slice from one position to another, both included."""
    parameters = {
        "the_job": key.job_id,
        "the_slice": key.slice_number,
        "first": first,
        "last": last,
    }
    return _read(inside, _BETWEEN, parameters)


def read_of_transactions(
    inside: "Transaction",
    job_id: int,
    transaction_ids: "Collection[str]",
    states: "Collection[JobState]",
) -> list[Row]:
    """Return the rows of these transactions in these states, by position."""
    asked = frozenset(transaction_ids)
    wanted = list({lookup_key(each) for each in asked})
    rows = [
        row
        for start in range(0, len(wanted), _ASKED_AT_ONCE)
        for row in _read(
            inside,
            _OF_TRANSACTIONS,
            {"the_job": job_id, "transactions": wanted[start : start + _ASKED_AT_ONCE]},
        )
        if row.state in states and row.order.transaction_id in asked
    ]
    return sorted(rows, key=lambda row: row.index)


def read_at(inside: "Transaction", job_id: int, position: int) -> Row | None:
    """Return the row at a position; None if there is none."""
    rows = _read(inside, _AT, {"the_job": job_id, "position": position})
    return rows[0] if rows else None


def read_witness(inside: "Transaction", job_id: int) -> Row | None:
    """Return a row that succeeded and has a reference; None if none is found."""
    for (settled,) in inside.execute(_SETTLED, {"the_job": job_id}).all():
        for position in map(int, orjson.loads(settled)):
            row = read_at(inside, job_id, position)
            if row is not None and row.state is JobState.SUCCEEDED and row.reference:
                return row
    rows = _read(inside, _WITH_REFERENCE, {"the_job": job_id})
    return rows[0] if rows else None


def _names(states: "Iterable[JobState]") -> list[str]:
    return [str(state) for state in states]


def _read(
    inside: "Transaction", statement: "sa.Select[Any]", parameters: "Mapping[str, object]"
) -> list[Row]:
    found: Sequence[Any] = inside.execute(statement, parameters).all()
    notes = _notes(inside, {row.request_id for row in found if row.request_id is not None})
    return [_row(notes, *row) for row in found]


_NOTHING: "tuple[None, Mapping[str, str]]" = (None, {})


def _notes(
    inside: "Transaction", requests: "Collection[int]"
) -> "dict[int, tuple[RequestNote, Mapping[str, str]]]":
    wanted = sorted(requests)
    return {
        found.id: (_note(found), orjson.loads(found.settled or "{}"))
        for start in range(0, len(wanted), _ASKED_AT_ONCE)
        for found in inside.execute(
            _REQUESTS, {"requests": wanted[start : start + _ASKED_AT_ONCE]}
        ).all()
    }


def _note(row: Any) -> RequestNote:  # noqa: ANN401  # a row of requests
    baseline = orjson.loads(row.baseline or "{}")
    return RequestNote(
        id=row.id,
        ended_at=row.ended_at,
        references={name: frozenset(references) for name, references in baseline.items()},
        marker=row.marker,
        alone=row.alone,
    )


def _row(  # noqa: PLR0913, PLR0917  # the columns of `_ROWS`, in their order: a row costs little
    notes: "Mapping[int, tuple[RequestNote, Mapping[str, str]]]",
    position: int,
    state: str,
    request_id: int | None,
    code: str,
    text: str,
    reference: str,
    proof: str,
    body: str,
    operation: str,
) -> Row:
    note, settled = _NOTHING if request_id is None else notes[request_id]
    return Row(
        index=position,
        state=JobState(state),
        body=body,
        operation=operation,
        code=code,
        text=text,
        reference=reference or settled.get(str(position), ""),
        proof=proof,
        sending=note,
    )


def _counts(rows: "Iterable[Any]") -> dict[int, dict[JobState, int]]:
    counts: dict[int, dict[JobState, int]] = {}
    for job_id, state, count in rows:
        counts.setdefault(job_id, {})[JobState(state)] = count
    return counts


def _status(row: Any, counts: "Mapping[JobState, int]") -> JobStatus:  # noqa: ANN401  # a row of jobs
    return JobStatus(
        name=row.name,
        operation=row.operation,
        merchant_id=row.merchant_id,
        account_id=row.account_id,
        created_at=datetime.fromtimestamp(row.created_at, UTC),
        imported=row.imported,
        total=sum(counts.values()),
        counts={state: counts.get(state, 0) for state in JobState},
        is_running=bool(row.is_running),
    )
