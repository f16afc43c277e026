"""What is read from the tables: the state of orders, and how far jobs have come."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import orjson
import sqlalchemy as sa

from gateway_async.errors import JobNotFoundError
from gateway_async.journal.rows import (
    ChunkState,
    JobHead,
    JobStatus,
    Known,
    RequestNote,
    Row,
    codec_of,
    lookup_key,
    unpack_keys,
)
from gateway_async.journal.schema import (
    BLOCK,
    CHUNKS,
    EXCEPTIONS,
    JOBS,
    LEASES,
    ORDERS,
    REQUESTS,
    DatabaseNow,
)
from gateway_async.journal.states import JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gateway_async.journal.database import Transaction
    from gateway_async.journal.rows import LeaseKey

_ASKED_AT_ONCE = 500
_BLOCKS_AT_ONCE = 100
_CHUNKS_AT_ONCE = 200
_KEYS_AT_ONCE = 5000

_JOB: "sa.BindParameter[int]" = sa.bindparam("the_job")
_SLICE: "sa.BindParameter[int]" = sa.bindparam("the_slice")
_STATES: "sa.BindParameter[Sequence[str]]" = sa.bindparam("the_states", expanding=True)

_EARLIER = CHUNKS.alias("earlier")
_HOLDING_START = (
    sa.select(sa.func.max(_EARLIER.c.first))
    .where(_EARLIER.c.job_id == _JOB, _EARLIER.c.first <= sa.bindparam("start"))
    .scalar_subquery()
)
"""Where the chunk begins that holds a position: found by the key, however many there are."""
_CHUNKS = (
    sa.select(
        CHUNKS.c.first,
        CHUNKS.c.last,
        CHUNKS.c.slice,
        CHUNKS.c.exceptions,
        *(CHUNKS.c[name] for name in Known._fields),
    )
    .where(
        CHUNKS.c.job_id == _JOB,
        CHUNKS.c.first >= _HOLDING_START,
        CHUNKS.c.last >= sa.bindparam("start"),
    )
    .order_by(CHUNKS.c.first)
)
_UP_TO = _CHUNKS.where(CHUNKS.c.first <= sa.bindparam("end"))
_UP_TO_LOCKED = _UP_TO.with_for_update(of=CHUNKS)
_PAGE = _CHUNKS.limit(_CHUNKS_AT_ONCE)
_MAYBE_IN_STATES = sa.or_(CHUNKS.c.state.in_(_STATES), CHUNKS.c.exceptions > 0)
_IN_SLICE = _PAGE.where(
    CHUNKS.c.slice == _SLICE, CHUNKS.c.first <= sa.bindparam("the_last"), _MAYBE_IN_STATES
)
_IN_JOB = _PAGE.where(_MAYBE_IN_STATES)
_EXCEPTIONS = sa.select(
    EXCEPTIONS.c.position, *(EXCEPTIONS.c[name] for name in Known._fields)
).where(
    EXCEPTIONS.c.job_id == _JOB,
    EXCEPTIONS.c.position.between(sa.bindparam("start"), sa.bindparam("end")),
)

_NEW = frozenset({str(JobState.NEW)})
_SUCCEEDED = frozenset({str(JobState.SUCCEEDED)})

_BODIES = (
    sa.select(ORDERS.c.first, ORDERS.c.bodies)
    .where(ORDERS.c.job_id == _JOB, ORDERS.c.first.in_(sa.bindparam("blocks", expanding=True)))
    .order_by(ORDERS.c.first)
)
_KEYS = (
    sa.select(ORDERS.c.first, ORDERS.c.lookup_keys)
    .where(ORDERS.c.job_id == _JOB, ORDERS.c.first > sa.bindparam("after"))
    .order_by(ORDERS.c.first)
    .limit(_KEYS_AT_ONCE)
)
_ONE_JOB = sa.select(JOBS.c.name, JOBS.c.operation).where(JOBS.c.id == _JOB)
_REQUESTS = sa.select(REQUESTS).where(REQUESTS.c.id.in_(sa.bindparam("requests", expanding=True)))
_JOBS = sa.select(
    JOBS,
    sa.exists()
    .where(LEASES.c.job_id == JOBS.c.id, LEASES.c.expires_at > DatabaseNow())
    .label("is_running"),
).order_by(JOBS.c.id)
_JOB_NAMED = _JOBS.where(JOBS.c.name == sa.bindparam("the_name"))


def _counted(*, of_one_job: bool) -> "sa.CompoundSelect[Any]":
    """Return a statement that counts orders by job and state, in one look at both tables."""
    chunks = sa.select(
        CHUNKS.c.job_id,
        CHUNKS.c.state,
        sa.func.sum(CHUNKS.c.last - CHUNKS.c.first + 1 - CHUNKS.c.exceptions),
    ).group_by(CHUNKS.c.job_id, CHUNKS.c.state)
    exceptions = sa.select(EXCEPTIONS.c.job_id, EXCEPTIONS.c.state, sa.func.count()).group_by(
        EXCEPTIONS.c.job_id, EXCEPTIONS.c.state
    )
    if of_one_job:
        chunks = chunks.where(CHUNKS.c.job_id == _JOB)
        exceptions = exceptions.where(EXCEPTIONS.c.job_id == _JOB)
    return sa.union_all(chunks, exceptions)


_COUNTS, _COUNTS_OF_JOB = _counted(of_one_job=False), _counted(of_one_job=True)


# Jobs


def read_statuses(transaction: "Transaction") -> list[JobStatus]:
    """Return how far every job has come, the oldest first."""
    found = transaction.execute(_JOBS).all()
    counts = _counts(transaction.execute(_COUNTS))
    return [_status(row, counts.get(row.id, {})) for row in found]


def read_status(transaction: "Transaction", name: str) -> JobStatus:
    """Return how far a job has come.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    row = find_job(transaction, name)
    counts = _counts(transaction.execute(_COUNTS_OF_JOB, {"the_job": row.id}))
    return _status(row, counts.get(row.id, {}))


def read_head(transaction: "Transaction", name: str) -> JobHead:
    """Return what a job is.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    return JobHead(**_head(find_job(transaction, name)))


def find_job(transaction: "Transaction", name: str) -> "sa.Row[Any]":
    """Return the row of a job.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    row = transaction.execute(_JOB_NAMED, {"the_name": name}).one_or_none()
    if row is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    return row


def _counts(rows: "Iterable[Any]") -> dict[int, dict[JobState, int]]:
    counts: dict[int, dict[JobState, int]] = {}
    for job_id, state, count in rows:
        of_job = counts.setdefault(job_id, dict.fromkeys(JobState, 0))
        of_job[JobState(state)] += int(count)  # PostgreSQL adds decimals up
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


# States


def read_chunks(
    transaction: "Transaction", job_id: int, first: int, last: int, *, lock: bool = False
) -> list[ChunkState]:
    """Return the chunks that hold the orders from one position to another, both included.

    Args:
        transaction: The transaction.
        job_id: The job's number in the database.
        first: The first position.
        last: The last one.
        lock: Whether no other transaction may change them until this one ends.
    """
    statement = _UP_TO_LOCKED if lock else _UP_TO
    cursor = transaction.execute_fast(statement, the_job=job_id, start=first, end=last)
    return _chunk_states(transaction, job_id, cursor.fetchall())


def _chunk_states(
    transaction: "Transaction", job_id: int, rows: "Sequence[Any]"
) -> list[ChunkState]:
    mixed = [row for row in rows if row[3]]
    found: dict[int, Known] = {}
    if mixed:
        cursor = transaction.execute_fast(
            _EXCEPTIONS, the_job=job_id, start=mixed[0][0], end=mixed[-1][1]
        )
        found = {position: Known(*known) for position, *known in cursor.fetchall()}
    return [
        ChunkState(
            first=first,
            last=last,
            slice=slice_number,
            alike=known._replace(reference=""),
            references=orjson.loads(known.reference) if known.reference else (),
            exceptions={
                position: found[position]
                for position in (range(first, last + 1) if count else ())
                if position in found
            },
        )
        for first, last, slice_number, count, *columns in rows
        for known in (Known(*columns),)
    ]


def _scan(
    transaction: "Transaction",
    statement: "sa.Select[Any]",
    parameters: "Mapping[str, Any]",
    start: int,
) -> "Iterator[ChunkState]":
    """Yield chunks from a position on, as many as there are."""
    is_over = False
    while not is_over:
        rows = transaction.execute(statement, {**parameters, "start": start}).all()
        yield from _chunk_states(transaction, parameters["the_job"], rows)
        is_over = len(rows) < _CHUNKS_AT_ONCE
        start = 0 if is_over else rows[-1].last + 1


def _chunks_of(
    transaction: "Transaction", key: "LeaseKey", states: "Collection[JobState]", start: int
) -> "Iterator[ChunkState]":
    """Yield the chunks of a slice that may have orders in these states."""
    parameters = {
        "the_job": key.job_id,
        "the_slice": key.slice_number,
        "the_last": key.last,
        "the_states": [str(state) for state in states],
    }
    return _scan(transaction, _IN_SLICE, parameters, start)


def has_any(transaction: "Transaction", key: "LeaseKey", states: "Collection[JobState]") -> bool:
    """Return whether a slice has orders in these states."""
    wanted, found = frozenset(map(str, states)), _chunks_of(transaction, key, states, key.first)
    return any(chunk.in_states(wanted, key.first, key.last + 1) for chunk in found)


def _known_at(
    transaction: "Transaction", job_id: int, positions: "Iterable[int]"
) -> "list[tuple[int, Known]]":
    """Return what is known of orders, ascending."""
    found: list[tuple[int, Known]] = []
    chunks: list[ChunkState] = []
    for position in positions:
        if not chunks or chunks[0].last < position:
            chunks = read_chunks(transaction, job_id, position, position)
        found += [(position, chunk.at(position)) for chunk in chunks]
    return found


# Rows


def read_page(transaction: "Transaction", name: str, after: int, most: int) -> list[Row]:
    """Return rows of a job in all states, by position, from behind a position.

    Raises:
        JobNotFoundError: If there is no such job.
    """
    job_id = find_job(transaction, name).id
    chunks = _scan(transaction, _PAGE, {"the_job": job_id}, after + 1)
    return _picked(transaction, job_id, chunks, frozenset(JobState), after + 1, most)


def read_rows(
    transaction: "Transaction",
    key: "LeaseKey",
    states: "Collection[JobState]",
    after: int,
    most: int,
) -> list[Row]:
    """Return rows of a slice in these states, by position, from behind a position."""
    start = max(after + 1, key.first)
    chunks = _chunks_of(transaction, key, states, start)
    return _picked(transaction, key.job_id, chunks, states, start, most)


def read_between(transaction: "Transaction", key: "LeaseKey", first: int, last: int) -> list[Row]:
    """Return the rows of a slice from one position to another, both included."""
    found = read_chunks(transaction, key.job_id, first, last)
    own = [chunk for chunk in found if chunk.slice == key.slice_number]
    states, most = frozenset(JobState), last - first + 1
    picked = _picked(transaction, key.job_id, iter(own), states, first, most)
    return [row for row in picked if row.index <= last]


def read_new(
    transaction: "Transaction", key: "LeaseKey", after: int, most: int, *, orders: bool
) -> "list[tuple[Sequence[int], Sequence[Any]]]":
    """Return new orders of a slice with their positions, chunk by chunk; see `Lease.new`."""
    start, count = max(after + 1, key.first), 0
    groups: list[Sequence[int]] = []
    for chunk in _chunks_of(transaction, key, (JobState.NEW,), start):
        positions = chunk.in_states(_NEW, start, key.last + 1)
        if positions:
            groups.append(positions)
        count += len(positions)
        if count >= most:
            break
    if not orders:
        return [(group, ()) for group in groups]
    found = iter(_orders(transaction, key.job_id, [at for group in groups for at in group]))
    return [(group, [next(found) for _ in group]) for group in groups]


def read_identities(
    transaction: "Transaction",
    job_id: int,
    identities: "Collection[str]",
    states: "Collection[JobState]",
) -> list[Row]:
    """Return the rows of these transactions, or `request_id`s, in these states, by position."""
    asked = frozenset(identities)
    identity = codec_of(transaction.execute(_ONE_JOB, {"the_job": job_id}).one().operation).identity
    positions = _with_keys(transaction, job_id, asked)
    rows = _rows(transaction, job_id, _known_at(transaction, job_id, positions))
    return [row for row in rows if row.state in states and identity(row.order) in asked]


def read_witness(transaction: "Transaction", job_id: int) -> Row | None:
    """Return a row that succeeded and has a reference; None if none is found."""
    parameters = {"the_job": job_id, "the_states": [str(JobState.SUCCEEDED)]}
    for chunk in _scan(transaction, _IN_JOB, parameters, 0):
        for position in chunk.in_states(_SUCCEEDED, chunk.first, chunk.last + 1):
            known = chunk.at(position)
            if known.reference:
                return _rows(transaction, job_id, [(position, known)])[0]
    return None


def read_blocks(transaction: "Transaction", job_id: int, starts: "Sequence[int]") -> list[str]:
    """Return blocks of orders as they are stored, by the positions where they begin."""
    return [bodies for _, bodies in _blocks(transaction, job_id, starts)]


def _picked(  # noqa: PLR0913, PLR0917  # what is picked, and from what
    transaction: "Transaction",
    job_id: int,
    chunks: "Iterator[ChunkState]",
    states: "Collection[JobState]",
    start: int,
    most: int,
) -> list[Row]:
    wanted = frozenset(map(str, states))
    picked: list[tuple[int, Known]] = []
    for chunk in chunks:
        positions = chunk.in_states(wanted, start, chunk.last + 1)
        picked += [(at, chunk.at(at)) for at in positions[: most - len(picked)]]
        if len(picked) >= most:
            break
    return _rows(transaction, job_id, picked)


def _rows(
    transaction: "Transaction", job_id: int, picked: "Sequence[tuple[int, Known]]"
) -> list[Row]:
    if not picked:
        return []
    notes = _notes(transaction, {known.request_id for _, known in picked})
    orders = _orders(transaction, job_id, [position for position, _ in picked])
    rows = []
    for (position, known), order in zip(picked, orders, strict=True):
        note = notes.get(known.request_id)
        if note is not None and known.ended_at is not None:
            note = attrs.evolve(note, ended_at=known.ended_at)
        rows.append(Row(index=position, order=order, known=known, sending=note))
    return rows


def _orders(transaction: "Transaction", job_id: int, positions: "Sequence[int]") -> list[Any]:
    """Return the orders at some positions."""
    job = transaction.execute(_ONE_JOB, {"the_job": job_id}).one()
    codec = codec_of(job.operation)
    starts = list(dict.fromkeys(position - position % BLOCK for position in positions))
    blocks = {
        start: codec.decode(bodies, job.name)
        for start, bodies in _blocks(transaction, job_id, starts)
    }
    return [blocks[position - position % BLOCK][position % BLOCK] for position in positions]


def _blocks(
    transaction: "Transaction", job_id: int, starts: "Sequence[int]"
) -> "Iterator[tuple[int, str]]":
    for at in range(0, len(starts), _BLOCKS_AT_ONCE):
        parameters = {"the_job": job_id, "blocks": starts[at : at + _BLOCKS_AT_ONCE]}
        for row in transaction.execute(_BODIES, parameters).all():
            yield row.first, row.bodies


def _notes(
    transaction: "Transaction", requests: "set[int | None]"
) -> "dict[int | None, RequestNote]":
    wanted = sorted(request for request in requests if request is not None)
    return {
        row.id: RequestNote(
            id=row.id,
            ended_at=None,
            references={
                name: frozenset(references)
                for name, references in orjson.loads(row.baseline or "{}").items()
            },
            marker=row.marker,
            alone=row.alone,
        )
        for start in range(0, len(wanted), _ASKED_AT_ONCE)
        for row in transaction.execute(
            _REQUESTS, {"requests": wanted[start : start + _ASKED_AT_ONCE]}
        ).all()
    }


def _with_keys(transaction: "Transaction", job_id: int, identities: "Collection[str]") -> list[int]:
    """Return the positions of orders that may have these identities: nearly all of them do."""
    wanted = {lookup_key(each) for each in identities}
    positions: list[int] = []
    last = -1
    while found := transaction.execute(_KEYS, {"the_job": job_id, "after": last}).all():
        for row in found:
            first, keys = row.first, unpack_keys(row.lookup_keys)
            if not wanted.isdisjoint(keys):
                positions += (at for at, key in enumerate(keys, first) if key in wanted)
        last = found[-1].first
    return positions
