"""What is written of the orders of a job, under a lease or by an operator.

Every write finds all of its orders, locked, in states that the table of transitions names; else
nothing is changed. What is in doubt is changed by one transaction at a time, since what is decided
on an order depends on those of its transaction.
"""

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
import sqlalchemy as sa

from gateway_async.errors import JournalError
from gateway_async.journal.leases import verify, wake_slice
from gateway_async.journal.reads import find_job, read_chunks, read_identities
from gateway_async.journal.rows import BY_OPERATOR, Known, codec_of, cut, cut_all, storable
from gateway_async.journal.schema import (
    CHUNKS,
    EXCEPTIONS,
    JOBS,
    REQUESTS,
    DatabaseNow,
    lock_what_is_in_doubt,
)
from gateway_async.journal.states import IN_DOUBT, TRANSITIONS, JobState, Transition, sources
from gateway_async.models.values import describe
from gateway_async.operations import OperationClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gateway_async.journal.database import Transaction
    from gateway_async.journal.rows import ChunkState, LeaseKey, Settlement

    Change = Callable[[Known, int], Known]
    """Returns what is known of an order afterwards, by what was known and its position."""

_TEXTS = ("code", "text", "said", "reference")
"""What is no longer true of an order once it is sent again."""


def _word(word: str) -> "sa.ColumnElement[str]":
    """Write a word of ours into a statement: that is quicker than a parameter."""
    return sa.literal_column(f"'{word}'", sa.Text)


def _may_become(transition: Transition, target: JobState) -> "sa.ColumnElement[bool]":
    return CHUNKS.c.state.in_([_word(state) for state in sources(transition, target)])


_REQUEST = REQUESTS.insert().values(
    job_id=sa.bindparam("the_job"),
    epoch=sa.bindparam("the_epoch"),
    sent_at=DatabaseNow(),
    marker=sa.bindparam("the_marker"),
    alone=sa.bindparam("is_alone"),
    baseline=sa.bindparam("the_baseline"),
)
_IS_CHUNK = sa.and_(
    CHUNKS.c.job_id == sa.bindparam("the_job"), CHUNKS.c.first == sa.bindparam("the_first")
)
_WHOLE = CHUNKS.update().where(
    _IS_CHUNK,
    CHUNKS.c.last == sa.bindparam("the_last"),
    CHUNKS.c.slice == sa.bindparam("the_slice"),
    CHUNKS.c.exceptions == sa.literal_column("0"),
)
"""Changes a chunk whose orders are alike: in one statement, the usual case."""
_INTEND = _WHOLE.where(_may_become(Transition.INTEND, JobState.INTENT)).values(
    state=_word(JobState.INTENT),
    request_id=sa.bindparam("the_request"),
    ended_at=sa.null(),
    proof=sa.case((CHUNKS.c.proof == _word(BY_OPERATOR), _word(BY_OPERATOR)), else_=_word("")),
    **{name: _word("") for name in _TEXTS},
)
"""A person's decision to send an order holds until its request ends: it may be withdrawn."""
_SUCCEED = _WHOLE.where(
    _may_become(Transition.SETTLE, JobState.SUCCEEDED),
    CHUNKS.c.request_id == sa.bindparam("the_request"),
).values(
    state=_word(JobState.SUCCEEDED),
    ended_at=sa.bindparam("the_end"),
    reference=sa.bindparam("the_list"),
    proof=_word(""),
)
_CHANGE_CHUNK = (
    CHUNKS.update()
    .where(_IS_CHUNK)
    .values(
        exceptions=sa.bindparam("the_exceptions"),
        **{name: sa.bindparam(f"the_{name}") for name in Known._fields},
    )
)
_COUNT_EXCEPTIONS = (
    CHUNKS.update().where(_IS_CHUNK).values(exceptions=sa.bindparam("the_exceptions"))
)
_DROP_EXCEPTIONS = EXCEPTIONS.delete().where(
    EXCEPTIONS.c.job_id == sa.bindparam("the_job"),
    EXCEPTIONS.c.position.between(sa.bindparam("the_first"), sa.bindparam("the_last")),
)
_ADD_EXCEPTION = EXCEPTIONS.insert().values(
    job_id=sa.bindparam("the_job"),
    position=sa.bindparam("the_position"),
    slice=sa.bindparam("the_slice"),
    **{name: sa.bindparam(f"the_{name}") for name in Known._fields},
)
_LOCK_JOB = sa.select(JOBS.c.id).where(JOBS.c.id == sa.bindparam("the_job")).with_for_update()


# Under a lease


def intend(  # noqa: PLR0913  # what is noted of a request
    transaction: "Transaction",
    key: "LeaseKey",
    indices: "Sequence[int]",
    references: "Mapping[str, frozenset[str]]",
    *,
    marker: str | None,
    alone: bool,
) -> int:
    """Record that orders are about to be sent, and return the number of the request."""
    verify(transaction, key, alive=True)
    baseline = {name: sorted(known) for name, known in references.items()}
    request = transaction.insert(
        _REQUEST,
        the_job=key.job_id,
        the_epoch=key.epoch,
        the_marker=marker,
        is_alone=alone,
        the_baseline=orjson.dumps(baseline).decode() if baseline else "",
    )

    def change(known: Known, _: int) -> Known:
        proof = BY_OPERATOR if known.proof == BY_OPERATOR else ""
        return Known(JobState.INTENT, request, proof=proof, note=known.note)

    if not _is_whole(transaction, key, _INTEND, indices, the_request=request):
        _change(transaction, key, Transition.INTEND, indices, change)
    return request


def hold(transaction: "Transaction", key: "LeaseKey", settlements: "Sequence[Settlement]") -> None:
    """Record that new orders are not sent before a person decides."""
    verify(transaction, key, alive=True)
    _change(transaction, key, Transition.HOLD, *_settled(key, settlements))


def withdraw(
    transaction: "Transaction", key: "LeaseKey", request: int, indices: "Sequence[int]"
) -> None:
    """Record that nothing of these orders was sent."""
    verify(transaction, key)

    def change(known: Known, _: int) -> Known:
        return known._replace(state=JobState.NEW, request_id=None)

    _change(transaction, key, Transition.WITHDRAW, indices, change, request)


def succeed(  # noqa: PLR0913, PLR0917  # what is recorded of a request
    transaction: "Transaction",
    key: "LeaseKey",
    request: int,
    indices: "Sequence[int]",
    references: "Sequence[str]",
    ended_at: float,
) -> None:
    """Record that orders of a request succeeded, each with its reference or ""."""
    verify(transaction, key)
    references = cut_all(references)
    listed = _listed(references)
    if _is_whole(
        transaction, key, _SUCCEED, indices, the_request=request, the_end=ended_at, the_list=listed
    ):
        return
    by_index = dict(zip(indices, references, strict=True))

    def change(known: Known, index: int) -> Known:
        return Known(
            JobState.SUCCEEDED, request, ended_at, reference=by_index[index], note=known.note
        )

    _change(transaction, key, Transition.SETTLE, indices, change, request)


def settle(
    transaction: "Transaction",
    key: "LeaseKey",
    request: int,
    settlements: "Sequence[Settlement]",
    ended_at: float,
) -> None:
    """Record the outcomes of orders of a request."""
    verify(transaction, key)
    positions, change = _settled(key, settlements, ended_at=ended_at)
    _change(transaction, key, Transition.SETTLE, positions, change, request)


def recover(
    transaction: "Transaction",
    key: "LeaseKey",
    found: "Sequence[Settlement]",
    beside: "Mapping[int, JobState]",
) -> bool:
    """Record what was found out about unknown orders, all of it or nothing; see `Lease.recover`."""
    for each in found:
        sources(Transition.RECOVER, each.state)
    verify(transaction, key)
    lock_what_is_in_doubt(transaction.connection, key.job_id)
    expected = {**beside, **{each.index: JobState.UNKNOWN for each in found}}
    known = _known_at(_locked(transaction, key.job_id, sorted(expected)), expected)
    if {index: known_state.state for index, known_state in known.items()} != expected:
        return False
    _change(transaction, key, Transition.RECOVER, *_settled(key, found))
    return True


# By an operator


def resolve(
    transaction: "Transaction", name: str, order: object, state: JobState, note: str
) -> None:
    """Record what an operator decided on orders that are in doubt: on all of them, or on none.

    No lease is needed for that. The slice of an order is due then, and opened again where the order
    is to be sent. See `Journal.resolve`.
    """
    job = find_job(transaction, name)
    transaction.execute(_LOCK_JOB, {"the_job": job.id})  # a process that takes it reopens
    lock_what_is_in_doubt(transaction.connection, job.id)
    named = order if isinstance(order, list | tuple | range) else [order]
    if not named:
        raise JournalError("no order is named that could be decided on", job=name)
    positions = sorted({_position(transaction, job, each) for each in named})
    chunks = _locked(transaction, job.id, positions)
    known = _known_at(chunks, positions)
    for position, each in known.items():
        _check_in_doubt(name, position, each)
    sources(Transition.RESOLVE, state)
    decided: Any = {
        "state": state,
        "code": "",
        "text": cut(f"an operator decided: {note}"),
        "said": "",
        "proof": BY_OPERATOR,
        "note": storable(note),
    }
    _write(transaction, job.id, chunks, {at: k._replace(**decided) for at, k in known.items()})
    for number in {chunk.slice for chunk in chunks}:
        wake_slice(transaction, job.id, number, reopen=state is JobState.NEW)


def _check_in_doubt(name: str, position: int, known: Known) -> None:
    what = f"order {position} of job {name!r}"
    if known.state == JobState.INTENT:
        raise JournalError(
            f"{what} is in flight, or was when its process ended: run the job again first",
            job=name,
        )
    if known.state not in IN_DOUBT:
        raise JournalError(
            f"{what} is {known.state!r}: an operator decides only on what is unknown or held",
            job=name,
        )


def _position(transaction: "Transaction", job: "sa.Row[Any]", order: object) -> int:
    if isinstance(order, int) and not isinstance(order, bool):
        if not 0 <= order < job.total:
            raise JournalError(f"job {job.name!r} has no order {order}", job=job.name)
        return order
    codec = codec_of(job.operation)
    is_key = isinstance(order, str | UUID) and codec.operation.kind is OperationClass.KEYED
    if is_key:
        identity, shown = str(order).lower(), f"of request_id {str(order)!r}"
    else:
        codec.check(order)
        identity, shown = codec.identity(order), f"equal to {describe(order)}"
    alike = read_identities(transaction, job.id, {identity}, frozenset(JobState))
    found = [row.index for row in alike if is_key or row.order == order]
    if not found:
        raise JournalError(f"job {job.name!r} has no order {shown}", job=job.name)
    if len(found) > 1:
        raise JournalError(
            f"job {job.name!r} has {len(found)} orders {shown}: name one by its position: "
            f"{', '.join(map(str, found))}",
            job=job.name,
        )
    return found[0]


# Chunks


def _is_whole(
    transaction: "Transaction",
    key: "LeaseKey",
    statement: sa.Update,
    indices: "Sequence[int]",
    **values: object,
) -> bool:
    """Change a chunk whose orders are alike; return whether the orders are that, and changed."""
    if not indices or len(indices) != indices[-1] - indices[0] + 1:
        return False
    changed = transaction.execute_fast(
        statement,
        the_job=key.job_id,
        the_slice=key.slice_number,
        the_first=indices[0],
        the_last=indices[-1],
        **values,
    )
    return bool(changed.rowcount == 1)


def _settled(
    key: "LeaseKey", settlements: "Sequence[Settlement]", **more: float
) -> "tuple[list[int], Change]":
    """Return the positions of orders, ascending, and how each is changed.

    Raises:
        JournalError: If an order is named twice.
    """
    by_index = {each.index: each for each in settlements}
    if len(by_index) < len(settlements):
        counted = Counter(each.index for each in settlements)
        twice = next(index for index, count in counted.items() if count > 1)
        raise JournalError(f"job {key.name!r}: order {twice} is named twice", job=key.name)

    def change(known: Known, index: int) -> Known:
        each = by_index[index]
        texts: Any = {name: cut(getattr(each, name)) for name in (*_TEXTS, "proof")}
        return known._replace(state=each.state, **texts, **more)  # type: ignore[arg-type]  # `ended_at`

    return sorted(by_index), change


def _change(  # noqa: PLR0913, PLR0917  # what is changed, and why that is right
    transaction: "Transaction",
    key: "LeaseKey",
    transition: Transition,
    positions: "Sequence[int]",
    change: "Change",
    request: int | None = None,
) -> None:
    """Change orders of the slice.

    Raises:
        JournalError: If one of them was in no state that may become that, or of another request.
    """
    chunks = _locked(transaction, key.job_id, positions)
    own = [chunk for chunk in chunks if chunk.slice == key.slice_number]
    known = _known_at(own, positions)
    changed = {position: change(found, position) for position, found in known.items()}
    for position in positions:
        found = known.get(position)
        problem = None
        if found is None:
            problem = f"there is no order {position}"
        elif found.state not in sources(transition, JobState(changed[position].state)):
            problem = f"order {position} is {str(found.state)!r}"
        elif request is not None and found.request_id != request:
            problem = f"order {position} is {str(found.state)!r}, of another request"
        if problem is not None:
            wanted = " or ".join(repr(str(state)) for state in TRANSITIONS[transition])
            raise JournalError(
                f"job {key.name!r}: cannot {transition} orders {min(positions)} to "
                f"{max(positions)}: expected {wanted}, but {problem}; nothing was changed",
                job=key.name,
            )
    _write(transaction, key.job_id, own, changed)


def _locked(
    transaction: "Transaction", job_id: int, positions: "Sequence[int]"
) -> "list[ChunkState]":
    """Return the chunks that hold these orders, ascending, and let no other transaction in."""
    chunks: list[ChunkState] = []
    for first, last in _runs(positions):
        if not chunks or chunks[-1].last < last:
            start = max(first, chunks[-1].last + 1) if chunks else first
            chunks += read_chunks(transaction, job_id, start, last, lock=True)
    return chunks


def _runs(positions: "Sequence[int]") -> "Iterator[tuple[int, int]]":
    """Yield first and last of each run of positions without a gap."""
    for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
        found = [position for _, position in run]
        yield found[0], found[-1]


def _known_at(
    chunks: "Sequence[ChunkState]", positions: "Sequence[int] | Mapping[int, object]"
) -> dict[int, Known]:
    wanted = frozenset(positions)
    return {
        position: chunk.at(position)
        for chunk in chunks
        for position in range(chunk.first, chunk.last + 1)
        if position in wanted
    }


def _write(
    transaction: "Transaction",
    job_id: int,
    chunks: "Sequence[ChunkState]",
    changed: "Mapping[int, Known]",
) -> None:
    """Write what is known of orders after a change."""
    for chunk in chunks:
        span = range(chunk.first, chunk.last + 1)
        own = {at: changed[at] for at in span if at in changed}
        dropped = [at for at in own if at in chunk.exceptions]
        place = {"the_job": job_id, "the_first": chunk.first}
        if len(own) == len(span):  # most of them set what the chunk is, the others differ
            alike = Counter(each._replace(reference="") for each in own.values())
            ((most, _),) = alike.most_common(1)
            rest = {at: each for at, each in own.items() if each._replace(reference="") != most}
            listed = _listed(["" if at in rest else each.reference for at, each in own.items()])
            whole = _named(most._replace(reference=listed))
            transaction.execute_fast(_CHANGE_CHUNK, **place, the_exceptions=len(rest), **whole)
            own = rest
        else:
            left = len(chunk.exceptions.keys() | own.keys())
            transaction.execute_fast(_COUNT_EXCEPTIONS, **place, the_exceptions=left)
        for first, last in _runs(dropped):
            transaction.execute_fast(
                _DROP_EXCEPTIONS, the_job=job_id, the_first=first, the_last=last
            )
        for at, each in own.items():
            transaction.execute_fast(
                _ADD_EXCEPTION,
                the_job=job_id,
                the_position=at,
                the_slice=chunk.slice,
                **_named(each),
            )


def _named(known: Known) -> "dict[str, Any]":
    named = {f"the_{name}": value for name, value in zip(Known._fields, known, strict=True)}
    return {**named, "the_state": str(known.state)}


def _listed(references: "Sequence[str]") -> str:
    return orjson.dumps(references).decode() if any(references) else ""
