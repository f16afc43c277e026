"""What is read from the tables: rows, and how far jobs have come."""

from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import orjson
import sqlalchemy as sa

from gateway_async.errors import JobNotFoundError
from gateway_async.journal.codec import body_of, codec_of, lookup_key, unpack_keys
from gateway_async.journal.job import JobHead, JobStatus
from gateway_async.journal.rows import RequestNote, Row, read_text
from gateway_async.journal.schema import (
    BLOCK,
    JOBS,
    LEASES,
    ORDERS,
    REQUESTS,
    STATES,
    DatabaseNow,
)
from gateway_async.journal.states import JobState
from gateway_async.journal.stretches import Stretch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gateway_async.journal.leases import LeaseKey
    from gateway_async.journal.writer import Transaction

_ASKED_AT_ONCE = 500
_BLOCKS_AT_ONCE = 100
_KEYS_AT_ONCE = 5000

_JOB: "sa.BindParameter[int]" = sa.bindparam("the_job")
_SLICE: "sa.BindParameter[int]" = sa.bindparam("the_slice")
_STATES: "sa.BindParameter[Sequence[str]]" = sa.bindparam("the_states", expanding=True)

_EARLIER = STATES.alias("earlier")
_HOLDING_START = (
    sa.select(sa.func.max(_EARLIER.c.first))
    .where(_EARLIER.c.job_id == _JOB, _EARLIER.c.first <= sa.bindparam("start"))
    .scalar_subquery()
)
"""Where the stretch begins that holds a position: found by the key, however many there are."""
_STRETCHES = (
    sa.select(*(STATES.c[name] for name in Stretch._fields))
    .where(
        STATES.c.job_id == _JOB,
        STATES.c.first >= _HOLDING_START,
        STATES.c.last >= sa.bindparam("start"),
    )
    .order_by(STATES.c.first)
)
_UP_TO = _STRETCHES.where(STATES.c.first <= sa.bindparam("end"))
_MOST = _STRETCHES.limit(sa.bindparam("most"))
_IN_STATES = _MOST.where(
    STATES.c.slice == _SLICE,
    STATES.c.first <= sa.bindparam("the_last"),
    STATES.c.state.in_(_STATES),
)
_WITH_REFERENCE = _MOST.where(
    STATES.c.state == str(JobState.SUCCEEDED), STATES.c.reference_list != ""
)

_BODIES = (
    sa.select(ORDERS.c.first, ORDERS.c.bodies)
    .where(ORDERS.c.job_id == _JOB, ORDERS.c.first.in_(sa.bindparam("blocks", expanding=True)))
    .order_by(ORDERS.c.first)
)
_KEYS = (
    sa.select(ORDERS.c.first, ORDERS.c.lookup_keys)
    .where(ORDERS.c.job_id == _JOB, ORDERS.c.first > sa.bindparam("after"))
    .order_by(ORDERS.c.first)
    .limit(sa.bindparam("most"))
)
_ONE_JOB = sa.select(JOBS.c.name, JOBS.c.operation).where(JOBS.c.id == _JOB)

_REQUESTS = sa.select(REQUESTS).where(REQUESTS.c.id.in_(sa.bindparam("requests", expanding=True)))
_COUNTS = sa.select(
    STATES.c.job_id, STATES.c.state, sa.func.sum(STATES.c.last - STATES.c.first + 1)
).group_by(STATES.c.job_id, STATES.c.state)
_COUNTS_OF_JOB = _COUNTS.where(STATES.c.job_id == _JOB)
_COUNTS_OF_SLICE = _COUNTS_OF_JOB.where(
    STATES.c.slice == _SLICE,
    STATES.c.first.between(sa.bindparam("the_first"), sa.bindparam("the_last")),
)
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


def read_head(inside: "Transaction", name: str) -> JobHead:
    """Return what a job is.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    return JobHead(**_head(find_job(inside, name)))


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
    parameters = {
        "the_job": key.job_id,
        "the_slice": key.slice_number,
        "the_first": key.first,
        "the_last": key.last,
    }
    counts = _counts(inside.execute(_COUNTS_OF_SLICE, parameters)).get(key.job_id, {})
    return {state: counts.get(state, 0) for state in JobState}


def read_stretches(inside: "Transaction", job_id: int, first: int, last: int) -> list[Stretch]:
    """Return the stretches that hold the orders from one position to another, both included."""
    cursor = inside.hot(_UP_TO, the_job=job_id, start=first, end=last)
    return [Stretch(*row) for row in cursor.fetchall()]


def read_page(inside: "Transaction", name: str, after: int, most: int) -> list[Row]:
    """Return rows of a job in all states, by position, from behind a position.

    Raises:
        JobNotFoundError: If there is no such job.
    """
    job_id = find_job(inside, name).id
    parameters = {"the_job": job_id, "start": after + 1, "most": most}
    return _rows(inside, job_id, _pieces(inside, _MOST, parameters))


def read_rows(
    inside: "Transaction", key: "LeaseKey", states: "Collection[JobState]", after: int, most: int
) -> list[Row]:
    """Return rows of a slice in these states, by position, from behind a position."""
    return _rows(inside, key.job_id, _pieces_in(inside, key, states, after, most))


def read_new(
    inside: "Transaction", key: "LeaseKey", after: int, most: int
) -> "list[tuple[int, Sequence[Any]]]":
    """Return position and values of new orders of a slice, from behind a position."""
    pieces = _pieces_in(inside, key, (JobState.NEW,), after, most)
    job = inside.execute(_ONE_JOB, {"the_job": key.job_id}).one()
    values = _values(inside, key.job_id, job, pieces)
    return list(zip(_positions(pieces), values, strict=True))


def read_fields(inside: "Transaction", job_id: int) -> tuple[str, ...] | None:
    """Return the fields that the orders of a job were kept with; None where it has no order.

    Raises:
        JournalError: If this release cannot make orders of them.
    """
    found = inside.execute(_BODIES, {"the_job": job_id, "blocks": [0]}).one_or_none()
    if found is None:
        return None
    row = inside.execute(_ONE_JOB, {"the_job": job_id}).one()
    return codec_of(row.operation).fields_of(found.bodies, row.name)


def read_new_positions(inside: "Transaction", key: "LeaseKey", after: int, most: int) -> list[int]:
    """Return the positions of new orders of a slice, from behind a position."""
    return list(_positions(_pieces_in(inside, key, (JobState.NEW,), after, most)))


def read_between(inside: "Transaction", key: "LeaseKey", first: int, last: int) -> list[Row]:
    """Return the rows of a slice from one position to another, both included."""
    found = read_stretches(inside, key.job_id, first, last)
    pieces = [each.clipped(first, last) for each in found if each.slice == key.slice_number]
    return _rows(inside, key.job_id, pieces)


def read_of_transactions(
    inside: "Transaction",
    job_id: int,
    transaction_ids: "Collection[str]",
    states: "Collection[JobState]",
) -> list[Row]:
    """Return the rows of these transactions in these states, by position."""
    asked = frozenset(transaction_ids)
    rows = _rows(inside, job_id, _singles(inside, job_id, _with_keys(inside, job_id, asked)))
    return [row for row in rows if row.state in states and row.order.transaction_id in asked]


def read_at(inside: "Transaction", job_id: int, position: int) -> Row | None:
    """Return the row at a position; None if there is none."""
    rows = _rows(inside, job_id, _singles(inside, job_id, [position]))
    return rows[0] if rows else None


def read_witness(inside: "Transaction", job_id: int) -> Row | None:
    """Return a row that succeeded and has a reference; None if none is found."""
    for stretch in _pieces(inside, _WITH_REFERENCE, {"the_job": job_id, "start": 0, "most": 1000}):
        references = stretch.references()
        at = stretch.first + next(at for at, reference in enumerate(references) if reference)
        return read_at(inside, job_id, at)
    return None


def _pieces_in(
    inside: "Transaction", key: "LeaseKey", states: "Collection[JobState]", after: int, most: int
) -> list[Stretch]:
    parameters = {
        "the_job": key.job_id,
        "the_slice": key.slice_number,
        "the_last": key.last,
        "the_states": [str(state) for state in states],
        "start": max(after + 1, key.first),
        "most": most,
    }
    return _pieces(inside, _IN_STATES, parameters)


def _pieces(
    inside: "Transaction", statement: "sa.Select[Any]", parameters: "Mapping[str, Any]"
) -> list[Stretch]:
    """Return stretches from a position on, of as many orders as are asked for at most."""
    start, most = parameters["start"], parameters["most"]
    pieces: list[Stretch] = []
    found: Sequence[Any] = inside.execute(statement, parameters).all()
    for row in found:
        first = max(start, row.first)
        piece = Stretch(*row).clipped(first, first + most - 1)
        pieces.append(piece)
        most -= piece.last - piece.first + 1
        if most <= 0:
            break
    return pieces


def _positions(pieces: "Sequence[Stretch]") -> "Iterator[int]":
    return chain.from_iterable(range(each.first, each.last + 1) for each in pieces)


def _singles(inside: "Transaction", job_id: int, positions: "Iterable[int]") -> list[Stretch]:
    """Return what is known of orders, a piece each."""
    return [
        stretch.clipped(position, position)
        for position in positions
        for stretch in read_stretches(inside, job_id, position, position)
    ]


def _with_keys(inside: "Transaction", job_id: int, transaction_ids: "Collection[str]") -> list[int]:
    """Return the positions of orders that may be of these transactions: nearly all of them are."""
    wanted = {lookup_key(each) for each in transaction_ids}
    positions: list[int] = []
    last = -1
    while found := _keys(inside, job_id, last):
        for first, packed in found:
            keys = unpack_keys(packed)
            if not wanted.isdisjoint(keys):
                positions += (at for at, key in enumerate(keys, first) if key in wanted)
        last = found[-1][0]
    return positions


def _keys(inside: "Transaction", job_id: int, last: int) -> "Sequence[Any]":
    """Return first position and keys of blocks, from behind a position."""
    parameters = {"the_job": job_id, "after": last, "most": _KEYS_AT_ONCE}
    return inside.execute(_KEYS, parameters).all()


def _rows(inside: "Transaction", job_id: int, pieces: "Sequence[Stretch]") -> list[Row]:
    if not pieces:
        return []
    job = inside.execute(_ONE_JOB, {"the_job": job_id}).one()
    notes = _notes(inside, {each.request_id for each in pieces if each.request_id is not None})
    values = _values(inside, job_id, job, pieces)
    rows: list[Row] = []
    for each in pieces:
        note = None if each.request_id is None else notes[each.request_id]
        if note is not None and each.ended_at is not None:
            note = attrs.evolve(note, ended_at=each.ended_at)
        text, said = read_text(each.text)
        rows += (
            Row(
                index=position,
                state=JobState(each.state),
                body=body_of(next(values)),
                operation=job.operation,
                code=each.code,
                text=text,
                said=said,
                reference=reference,
                proof=each.proof,
                sending=note,
            )
            for position, reference in enumerate(each.references(), each.first)
        )
    return rows


def _values(
    inside: "Transaction", job_id: int, job: "sa.Row[Any]", pieces: "Sequence[Stretch]"
) -> "Iterator[Sequence[Any]]":
    """Yield the values of each order of some pieces, ascending."""
    codec = codec_of(job.operation)
    starts = dict.fromkeys(
        start
        for each in pieces
        for start in range(each.first - each.first % BLOCK, each.last + 1, BLOCK)
    )
    blocks = _blocks(inside, job_id, list(starts))
    start = -BLOCK
    for each in pieces:
        at = each.first
        while at <= each.last:
            if at >= start + BLOCK:
                start, block = next(blocks)
                values = codec.read_block(block, job.name)
            end = min(each.last + 1, start + BLOCK)
            yield from values[at - start : end - start]
            at = end


def _blocks(
    inside: "Transaction", job_id: int, starts: "Sequence[int]"
) -> "Iterator[tuple[int, str]]":
    for at in range(0, len(starts), _BLOCKS_AT_ONCE):
        wanted = starts[at : at + _BLOCKS_AT_ONCE]
        found: Sequence[Any] = inside.execute(_BODIES, {"the_job": job_id, "blocks": wanted}).all()
        yield from found


def _notes(inside: "Transaction", requests: "Collection[int]") -> "dict[int, RequestNote]":
    wanted = sorted(requests)
    return {
        found.id: _note(found)
        for start in range(0, len(wanted), _ASKED_AT_ONCE)
        for found in inside.execute(
            _REQUESTS, {"requests": wanted[start : start + _ASKED_AT_ONCE]}
        ).all()
    }


def _note(row: Any) -> RequestNote:  # noqa: ANN401  # a row of requests
    baseline = orjson.loads(row.baseline or "{}")
    return RequestNote(
        id=row.id,
        ended_at=None,
        references={name: frozenset(references) for name, references in baseline.items()},
        marker=row.marker,
        alone=row.alone,
    )


def _counts(rows: "Iterable[Any]") -> dict[int, dict[JobState, int]]:
    counts: dict[int, dict[JobState, int]] = {}
    for job_id, state, count in rows:
        counts.setdefault(job_id, {})[JobState(state)] = int(count)  # PostgreSQL adds decimals up
    return counts


def _status(row: Any, counts: "Mapping[JobState, int]") -> JobStatus:  # noqa: ANN401  # a row of jobs
    return JobStatus(
        **_head(row),
        total=sum(counts.values()),
        counts={state: counts.get(state, 0) for state in JobState},
        is_running=bool(row.is_running),
    )


def _head(row: Any) -> dict[str, Any]:  # noqa: ANN401  # a row of jobs
    return {
        "name": row.name,
        "operation": row.operation,
        "merchant_id": row.merchant_id,
        "account_id": row.account_id,
        "created_at": datetime.fromtimestamp(row.created_at, UTC),
        "imported": row.imported,
        "is_cut": bool(row.slice_size),
    }
