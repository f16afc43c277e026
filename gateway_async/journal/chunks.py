"""The orders of a job and what is known of them: read and changed chunk by chunk.

Every change finds all of its orders, locked, in states that the table of transitions names; else
nothing is changed. Who may change them is checked by `leases`, in the same transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gateway_async.errors import JournalError
from gateway_async.journal.rows import (
    ALIKE,
    BLOCK,
    BY_OPERATOR,
    CHUNK_COLUMNS,
    NOT_DONE,
    ChunkState,
    Known,
    OrderCodec,
    Row,
    codec_of,
    cut,
    cut_all,
    lookup_key,
    unpack_keys,
    written,
)
from gateway_async.journal.states import TRANSITIONS, JobState, Transition, sources
from gateway_async.models.values import describe
from gateway_async.operations import OperationClass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from gateway_async.journal.database import Transaction

    Change = Callable[[Known, int], Known]
    """Returns what is known of an order afterwards, by what was known and its position."""

_ALL = frozenset(JobState)
_CHUNKS_AT_ONCE = 200
_KEYS_AT_ONCE = 5000
_ANYWHERE = 2**62
_INTERRUPTED = "it was in flight when its process ended"
_EARLIER = "earlier, "

_CHUNKS = f"""
SELECT {", ".join(CHUNK_COLUMNS)} FROM gateway_chunks
WHERE job_id = :job AND first <= :last AND first >= (
    SELECT max(first) FROM gateway_chunks WHERE job_id = :job AND first <= :start
)"""
"""The chunks that hold the positions from `start` to `last`, found by the key."""
_LOCKED_CHUNKS = f"{_CHUNKS} ORDER BY first FOR UPDATE"
_UP_TO = f"{_CHUNKS} ORDER BY first"
_IN_STATES = f"""{_CHUNKS} AND (slice = :slice OR :slice < 0)
AND (:states LIKE '%,' || state || ',%' OR exceptions <> '')
ORDER BY first LIMIT {_CHUNKS_AT_ONCE}"""
_ORDERS = """
SELECT first, bodies FROM gateway_orders
WHERE job_id = :job AND first BETWEEN :start AND :last ORDER BY first"""
_KEYS = f"""
SELECT first, lookup_keys FROM gateway_orders
WHERE job_id = :job AND first > :after ORDER BY first LIMIT {_KEYS_AT_ONCE}"""
_JOB = "SELECT name, operation FROM gateway_jobs WHERE id = :job"

_WHOLE = """ WHERE job_id = :job AND first = :first AND last = :last AND slice = :slice
AND texts = '' AND exceptions = ''"""
"""A chunk whose orders are alike, and no person decided on: changed by one statement."""


def _becoming(transition: Transition, target: JobState) -> str:
    """Write the change of a whole chunk's state, where it is in one that may become the target."""
    before = ", ".join(f"'{state}'" for state in sources(transition, target))
    return f"state = '{target}' {_WHOLE} AND state IN ({before})"


_INTEND = f"""
UPDATE gateway_chunks SET request = :request, ended_at = NULL, sent = :sent, reference_list = '',
{_becoming(Transition.INTEND, JobState.INTENT)}"""
_SUCCEED = f"""
UPDATE gateway_chunks SET ended_at = :ended_at, reference_list = :listed,
{_becoming(Transition.SETTLE, JobState.SUCCEEDED)} AND request = :request"""
_WRITE = f"""
UPDATE gateway_chunks SET {", ".join(f"{name} = :{name}" for name in CHUNK_COLUMNS[4:])}
WHERE job_id = :job_id AND first = :first"""


# Reading


def read_rows(  # noqa: PLR0913, PLR0917  # which rows
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    states: "Collection[JobState]",
    after: int,
    most: int,
    last: int = _ANYWHERE,
) -> list[Row]:
    """Return rows in some states, by position, from behind a position.

    Args:
        transaction: The transaction.
        job_id: The job's number in the database.
        slice_number: Which slice; -1 for all of them.
        states: Which states.
        after: Behind which position to begin.
        most: How many at most.
        last: Up to which position.
    """
    picked: list[tuple[int, Known]] = []
    for chunk in _scan(transaction, job_id, slice_number, states, after + 1, last):
        picked += chunk.in_states(states, after + 1)
        if len(picked) >= most:
            break
    return _rows(transaction, job_id, [each for each in picked[:most] if each[0] <= last])


def read_new(  # noqa: PLR0913  # which orders
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    after: int,
    most: int,
    *,
    orders: bool,
) -> list[tuple[Sequence[int], Sequence[Any]]]:
    """Return new orders of a slice with their positions, chunk by chunk; see `Lease.new`."""
    groups: list[list[int]] = []
    count = 0
    for chunk in _scan(transaction, job_id, slice_number, (JobState.NEW,), after + 1):
        found = [at for at, _ in chunk.in_states((JobState.NEW,), after + 1)]
        if found:
            groups.append(found)
            count += len(found)
        if count >= most:
            break
    read = iter(_orders(transaction, job_id, [*chain(*groups)]) if orders else ())
    return [(found, [next(read) for _ in found] if orders else ()) for found in groups]


def read_identities(
    transaction: "Transaction",
    job_id: int,
    identities: "Collection[str]",
    states: "Collection[JobState]",
) -> list[Row]:
    """Return the rows of these transactions, or `request_id`s, in these states, by position."""
    codec, _ = _codec(transaction, job_id)
    asked = frozenset(identities)
    wanted = {lookup_key(each) for each in asked}
    positions: list[int] = []
    last = -1
    while found := transaction.run(_KEYS, job=job_id, after=last).fetchall():
        for first, packed in found:
            keys = unpack_keys(packed)
            if not wanted.isdisjoint(keys):
                positions += (at for at, key in enumerate(keys, first) if key in wanted)
        last = found[-1][0]
    chunks = _chunks_at(transaction, job_id, positions)
    rows = _rows(transaction, job_id, list(_known_at(chunks, positions).items()))
    return [row for row in rows if row.state in states and codec.identity(row.order) in asked]


def read_witness(transaction: "Transaction", job_id: int) -> Row | None:
    """Return a row that succeeded and has a reference; None if none is found."""
    succeeded = (JobState.SUCCEEDED,)
    for chunk in _scan(transaction, job_id, -1, succeeded, 0):
        for at, known in chunk.in_states(succeeded, 0):
            if known.reference:
                return _rows(transaction, job_id, [(at, known)])[0]
    return None


def has_any(
    transaction: "Transaction", job_id: int, slice_number: int, states: "Collection[JobState]"
) -> bool:
    """Return whether a slice has orders in these states."""
    found = _scan(transaction, job_id, slice_number, states, 0)
    return any(chunk.in_states(states, 0) for chunk in found)


def read_blocks(transaction: "Transaction", job_id: int, first: int, last: int) -> list[str]:
    """Return the blocks of orders from one position to another, as they are stored."""
    found = transaction.run(_ORDERS, job=job_id, start=first, last=last).fetchall()
    return [bodies for _, bodies in found]


def read_position(transaction: "Transaction", job_id: int, position: int) -> Known:
    """Return what is known of one order."""
    return _known_at(_chunks_at(transaction, job_id, [position]), [position])[position]


def find_position(
    transaction: "Transaction", job_id: int, job: str, total: int, order: object
) -> int:
    """Return the position of an order that an operator names by it, itself, or a `request_id`.

    Raises:
        InvalidOrderError: If it is neither an order of the job's operation nor a position.
        JournalError: If there is no such order, or more than one.
    """
    if isinstance(order, int) and not isinstance(order, bool):
        if not 0 <= order < total:
            raise JournalError(f"job {job!r} has no order {order}", job=job)
        return order
    codec, _ = _codec(transaction, job_id)
    is_key = isinstance(order, str | UUID) and codec.operation.kind is OperationClass.KEYED
    if is_key:
        identity, shown = str(order).lower(), f"of request_id {str(order)!r}"
    else:
        codec.check(order)
        identity, shown = codec.identity(order), f"equal to {describe(order)}"
    alike = read_identities(transaction, job_id, {identity}, _ALL)
    found = [row.index for row in alike if is_key or row.order == order]
    if not found:
        raise JournalError(f"job {job!r} has no order {shown}", job=job)
    if len(found) > 1:
        raise JournalError(
            f"job {job!r} has {len(found)} orders {shown}: name one by its position: "
            f"{', '.join(map(str, found))}",
            job=job,
        )
    return found[0]


def _scan(  # noqa: PLR0913, PLR0917  # which chunks
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    states: "Collection[JobState]",
    start: int,
    last: int = _ANYWHERE,
) -> "Iterator[ChunkState]":
    """Yield the chunks from a position on that may have orders in these states."""
    listed = f",{','.join(states)},"
    rows: list[Any] = []
    while not rows or len(rows) == _CHUNKS_AT_ONCE:
        given = {"job": job_id, "slice": slice_number, "states": listed, "start": start}
        rows = transaction.run(_IN_STATES, **given, last=last).fetchall()
        if not rows:
            break
        yield from map(ChunkState.read, rows)
        start = rows[-1][2] + 1


def _chunks_at(
    transaction: "Transaction", job_id: int, positions: "Sequence[int]", *, lock: bool = False
) -> list[ChunkState]:
    """Return the chunks that hold these orders; locked, no other transaction changes them."""
    statement = _LOCKED_CHUNKS if lock else _UP_TO
    chunks: list[ChunkState] = []
    for first, last in _runs(positions):
        start = max(first, chunks[-1].span.stop) if chunks else first
        if start <= last:
            rows = transaction.run(statement, job=job_id, start=start, last=last).fetchall()
            chunks += map(ChunkState.read, rows)
    return chunks


def _runs(positions: "Sequence[int]", step: int = 1) -> "Iterator[tuple[int, int]]":
    """Yield first and last of each run of ascending positions without a gap."""
    for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - step * pair[0]):
        found = [position for _, position in run]
        yield found[0], found[-1]


def _known_at(chunks: "Iterable[ChunkState]", positions: "Iterable[int]") -> dict[int, Known]:
    wanted = frozenset(positions)
    return {
        at: known
        for chunk in chunks
        for at, known in zip(chunk.span, chunk.known, strict=True)
        if at in wanted
    }


def _rows(
    transaction: "Transaction", job_id: int, picked: "Sequence[tuple[int, Known]]"
) -> list[Row]:
    orders = _orders(transaction, job_id, [position for position, _ in picked])
    return [
        Row(index=position, order=order, known=known)
        for (position, known), order in zip(picked, orders, strict=True)
    ]


def _orders(transaction: "Transaction", job_id: int, positions: "Sequence[int]") -> list[Any]:
    """Return the orders at some positions."""
    if not positions:
        return []
    codec, name = _codec(transaction, job_id)
    starts = list(dict.fromkeys(position - position % BLOCK for position in positions))
    blocks = {
        start: codec.decode(bodies, name)
        for first, last in _runs(starts, BLOCK)
        for start, bodies in transaction.run(_ORDERS, job=job_id, start=first, last=last)
    }
    return [blocks[position - position % BLOCK][position % BLOCK] for position in positions]


def _codec(transaction: "Transaction", job_id: int) -> tuple[OrderCodec, str]:
    name, operation = transaction.run(_JOB, job=job_id).fetchone()
    return codec_of(operation), name


# Changing


def intend(  # noqa: PLR0913, PLR0917  # what is noted of a request
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    request: int,
    indices: "Sequence[int]",
    sent: str,
) -> None:
    """Record that orders are about to be sent."""
    given = {"job": job_id, "slice": slice_number, "request": request, "sent": sent}
    if _is_whole(transaction, _INTEND, indices, given):
        return

    def change(known: Known, _: int) -> Known:
        # A person's decision to send an order holds until its request ends: it may be withdrawn.
        proof = BY_OPERATOR if known.proof == BY_OPERATOR else ""
        return Known(JobState.INTENT, proof=proof, note=known.note, request=request, sent=sent)

    change_all(transaction, job_id, slice_number, Transition.INTEND, indices, change)


def succeed(  # noqa: PLR0913, PLR0917  # what is recorded of a request
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    request: int,
    indices: "Sequence[int]",
    references: "Sequence[str]",
    ended_at: float,
) -> None:
    """Record that orders of a request succeeded, each with its reference or ""."""
    references = cut_all(references)
    given = {"job": job_id, "slice": slice_number, "request": request, "ended_at": ended_at}
    if not _is_whole(transaction, _SUCCEED, indices, {**given, "listed": written(references)}):
        found = {
            index: Known(JobState.SUCCEEDED, reference=reference)
            for index, reference in zip(indices, references, strict=True)
        }
        settle(transaction, job_id, slice_number, Transition.SETTLE, found, request, ended_at)


def withdraw(
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    request: int,
    indices: "Sequence[int]",
) -> None:
    """Record that nothing of these orders was sent."""

    def change(known: Known, _: int) -> Known:
        return known._replace(state=JobState.NEW, request=None, sent="")

    transition = Transition.WITHDRAW
    change_all(transaction, job_id, slice_number, transition, indices, change, request)


def settle(  # noqa: PLR0913, PLR0917  # what is recorded of orders
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    transition: Transition,
    found: "Mapping[int, Known]",
    request: int | None = None,
    ended_at: float | None = None,
) -> None:
    """Record what was found out about orders, by position: state, texts and proof of each."""

    def change(known: Known, index: int) -> Known:
        new = found[index]
        return known._replace(
            state=new.state,
            code=cut(new.code),
            text=cut(new.text),
            said=cut(new.said),
            reference=cut(new.reference),
            proof=cut(new.proof),
            ended_at=known.ended_at if ended_at is None else ended_at,
        )

    change_all(transaction, job_id, slice_number, transition, sorted(found), change, request)


def recover(
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    found: "Mapping[int, Known]",
    beside: "Mapping[int, JobState]",
) -> bool:
    """Record what was found out about unknown orders, all of it or nothing; see `Lease.recover`."""
    for each in found.values():
        sources(Transition.RECOVER, JobState(each.state))
    expected = {**beside, **dict.fromkeys(found, JobState.UNKNOWN)}
    chunks = _chunks_at(transaction, job_id, sorted(expected), lock=True)
    states = {at: known.state for at, known in _known_at(chunks, expected).items()}
    if states != expected:
        return False
    settle(transaction, job_id, slice_number, Transition.RECOVER, found)
    return True


def reopen(transaction: "Transaction", job_id: int, slice_number: int, *, look_up: bool) -> None:
    """Let what was in flight, and what is held, be looked up, since a process takes the slice.

    Args:
        transaction: The transaction.
        job_id: The job's number in the database.
        slice_number: Which slice.
        look_up: Whether its orders can be looked up; else only a person can know more of what is
            held.
    """
    before = [
        state for state in TRANSITIONS[Transition.REOPEN] if look_up or state != JobState.HELD
    ]

    def change(known: Known) -> Known:
        if known.state not in before or known.proof == ALIKE:
            return known
        text = f"{_EARLIER}{known.text}" if known.proof == NOT_DONE else known.text
        text = _INTERRUPTED if known.state == JobState.INTENT else text
        return known._replace(state=JobState.UNKNOWN, text=text, proof="")

    for chunk in _scan(transaction, job_id, slice_number, before, 0):
        known = [change(each) for each in chunk.known]
        if known != chunk.known:
            _write(transaction, [ChunkState(job_id, chunk.first, chunk.slice, known)])


def decide(
    transaction: "Transaction", job_id: int, positions: "Sequence[int]", change: "Change"
) -> None:
    """Change orders of any slice, as a person decided; `change` refuses what is not in doubt."""
    chunks = _chunks_at(transaction, job_id, positions, lock=True)
    _apply(transaction, chunks, positions, change)


def slices_of(transaction: "Transaction", job_id: int, positions: "Sequence[int]") -> list[int]:
    """Return the slices that orders are in; that never changes."""
    return sorted({chunk.slice for chunk in _chunks_at(transaction, job_id, positions)})


def change_all(  # noqa: PLR0913, PLR0917  # what is changed, and why that is right
    transaction: "Transaction",
    job_id: int,
    slice_number: int,
    transition: Transition,
    positions: "Sequence[int]",
    change: "Change",
    request: int | None = None,
) -> None:
    """Change orders of the slice.

    Raises:
        JournalError: If one of them was in no state that may become that, or of another request.
    """
    chunks = _chunks_at(transaction, job_id, positions, lock=True)
    own = [chunk for chunk in chunks if chunk.slice == slice_number]
    known = _known_at(own, positions)
    changed = {position: change(found, position) for position, found in known.items()}
    for position in positions:
        found = known.get(position)
        problem = None
        if found is None:
            problem = f"there is no order {position}"
        elif found.state not in sources(transition, JobState(changed[position].state)):
            problem = f"order {position} is {str(found.state)!r}"
        elif request is not None and found.request != request:
            problem = f"order {position} is {str(found.state)!r}, of another request"
        if problem is not None:
            _, name = _codec(transaction, job_id)
            wanted = " or ".join(repr(str(state)) for state in TRANSITIONS[transition])
            raise JournalError(
                f"job {name!r}: cannot {transition} orders {min(positions)} to {max(positions)}: "
                f"expected {wanted}, but {problem}; nothing was changed",
                job=name,
            )
    _apply(transaction, own, positions, lambda _, position: changed[position])


def _apply(
    transaction: "Transaction",
    chunks: "Sequence[ChunkState]",
    positions: "Iterable[int]",
    change: "Change",
) -> None:
    wanted = frozenset(positions)
    _write(
        transaction,
        [
            ChunkState(
                chunk.job_id,
                chunk.first,
                chunk.slice,
                [
                    change(known, at) if at in wanted else known
                    for at, known in zip(chunk.span, chunk.known, strict=True)
                ],
            )
            for chunk in chunks
        ],
    )


def _write(transaction: "Transaction", chunks: "Iterable[ChunkState]") -> None:
    for chunk in chunks:
        transaction.run(_WRITE, **chunk.row())


def _is_whole(
    transaction: "Transaction",
    statement: str,
    indices: "Sequence[int]",
    given: "Mapping[str, object]",
) -> bool:
    """Change a chunk whose orders are alike; return whether the orders are that, and changed."""
    if not indices or len(indices) != indices[-1] - indices[0] + 1:
        return False
    return bool(
        transaction.run(statement, first=indices[0], last=indices[-1], **given).rowcount == 1
    )
