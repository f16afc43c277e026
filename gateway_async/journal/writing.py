"""What is written under a lease, and what an operator decides.

Law: every update names the states it expects and counts the rows it changed; where they are not
all, nothing is changed. Each moves orders only as the table of transitions says.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import orjson
import sqlalchemy as sa

from gateway_async.errors import JournalError
from gateway_async.journal.codec import codec_of, storable
from gateway_async.journal.leases import verify
from gateway_async.journal.reading import find_job, read_at, read_of_transactions
from gateway_async.journal.schema import REQUESTS, STATES, DatabaseNow
from gateway_async.journal.states import IN_DOUBT, TRANSITIONS, JobState, Move, sources
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.journal.leases import LeaseKey
    from gateway_async.journal.rows import Row, Settlement
    from gateway_async.journal.writer import Transaction

_LONGEST_TEXT = 1000
_BY_OPERATOR = "operator"


@attrs.frozen
class _Update:
    """One update, for positions without a gap and for others.

    Attributes:
        ranged: From `first` to `last`.
        listed: For each of `positions`.
    """

    ranged: sa.Update
    listed: sa.Update


def _word(word: str) -> "sa.ColumnElement[str]":
    """Write a word of ours into a statement: that is quicker than a parameter."""
    return sa.literal_column(f"'{word}'", sa.Text)


def _update(move: Move, **values: object) -> _Update:
    expected = [STATES.c.state == _word(state) for state in TRANSITIONS[move]]
    changed = (
        STATES.update()
        .where(STATES.c.job_id == sa.bindparam("the_job"), sa.or_(*expected))
        .values(**values)
    )
    return _Update(
        changed.where(STATES.c.position.between(sa.bindparam("first"), sa.bindparam("last"))),
        changed.where(STATES.c.position.in_(sa.bindparam("positions", expanding=True))),
    )


def _narrowed(update: _Update, *criteria: "sa.ColumnElement[bool]") -> _Update:
    return _Update(update.ranged.where(*criteria), update.listed.where(*criteria))


_OF_SLICE = STATES.c.slice == sa.bindparam("the_slice")
_OF_REQUEST = STATES.c.request_id == sa.bindparam("the_request")
_TOLD: "Mapping[str, sa.BindParameter[str]]" = {
    name: sa.bindparam(f"the_{name}") for name in ("state", "code", "text", "proof")
}

_INTEND = _narrowed(
    _update(
        Move.INTEND,
        state=_word(JobState.INTENT),
        request_id=sa.bindparam("the_request"),
        code=_word(""),
        text=_word(""),
        reference=_word(""),
        proof=_word(""),
    ),
    _OF_SLICE,
)
_WITHDRAW = _narrowed(
    _update(Move.WITHDRAW, state=_word(JobState.NEW), request_id=sa.null()), _OF_SLICE, _OF_REQUEST
)
_SETTLE = _narrowed(_update(Move.SETTLE, **_TOLD), _OF_SLICE, _OF_REQUEST)
_RESOLVE = _update(Move.RESOLVE, **_TOLD, reference=sa.bindparam("the_reference"))
_DECIDE = _update(Move.DECIDE, **_TOLD, note=sa.bindparam("the_note"))

_REQUEST = REQUESTS.insert().values(
    job_id=sa.bindparam("the_job"),
    epoch=sa.bindparam("the_epoch"),
    sent_at=DatabaseNow(),
    marker=sa.bindparam("the_marker"),
    alone=sa.bindparam("is_alone"),
    baseline=sa.bindparam("the_baseline"),
)
_END = (
    REQUESTS.update()
    .where(REQUESTS.c.id == sa.bindparam("the_request"))
    .values(ended_at=sa.bindparam("the_end"), settled=sa.bindparam("references"))
)
_END_FIRST = _END.where(REQUESTS.c.settled.is_(None))
_SETTLED = sa.select(REQUESTS.c.settled).where(REQUESTS.c.id == sa.bindparam("the_request"))


def intend(  # noqa: PLR0913  # what is noted of a request
    inside: "Transaction",
    key: "LeaseKey",
    indices: Sequence[int],
    references: "Mapping[str, frozenset[str]]",
    *,
    marker: str | None,
    alone: bool,
) -> int:
    """Keep that orders are about to be sent.

    Returns:
        The number of the request.

    Raises:
        LeaseLostError: If the lease is no longer ours, or ran out.
        JournalError: If one of them is not new.
    """
    verify(inside, key, alive=True)
    baseline = {name: sorted(known) for name, known in references.items()}
    made = inside.execute(
        _REQUEST,
        {
            "the_job": key.job_id,
            "the_epoch": key.epoch,
            "the_marker": marker,
            "is_alone": alone,
            "the_baseline": orjson.dumps(baseline).decode() if baseline else "",
        },
    )
    request: int = made.inserted_primary_key[0]  # type: ignore[index]  # it has one
    _move(inside, key, _INTEND, Move.INTEND, JobState.INTENT, indices, {"the_request": request})
    return request


def withdraw(inside: "Transaction", key: "LeaseKey", request: int, indices: Sequence[int]) -> None:
    """Keep that nothing of these orders was sent.

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If one of them is not in flight with this request.
    """
    verify(inside, key)
    _move(inside, key, _WITHDRAW, Move.WITHDRAW, JobState.NEW, indices, {"the_request": request})


def settle(
    inside: "Transaction",
    key: "LeaseKey",
    request: int,
    settlements: "Sequence[Settlement]",
    ended_at: float,
) -> None:
    """Keep what became of orders of a request.

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If one of them is not in flight with this request.
    """
    verify(inside, key)
    alike: dict[tuple[JobState, str, str, str], list[int]] = {}
    for each in settlements:
        alike.setdefault((each.state, each.code, each.text, each.proof), []).append(each.index)
    for (state, code, text, proof), indices in alike.items():
        told = {"the_request": request, **_told(state, code, text, proof)}
        _move(inside, key, _SETTLE, Move.SETTLE, state, indices, told)
    _end(inside, request, {each.index: each.reference for each in settlements}, ended_at)


def succeed(
    inside: "Transaction",
    key: "LeaseKey",
    request: int,
    references: "Mapping[int, str]",
    ended_at: float,
) -> None:
    """Keep that orders of a request succeeded, each with its reference or "".

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If one of them is not in flight with this request.
    """
    verify(inside, key)
    told = {"the_request": request, **_told(JobState.SUCCEEDED, "", "", "")}
    _move(inside, key, _SETTLE, Move.SETTLE, JobState.SUCCEEDED, list(references), told)
    _end(inside, request, references, ended_at)


def _told(state: JobState, code: str, text: str, proof: str) -> dict[str, str]:
    return {
        "the_state": str(state),
        "the_code": _cut(code),
        "the_text": _cut(text),
        "the_proof": _cut(proof),
    }


def _cut(text: str) -> str:
    return storable(text[:_LONGEST_TEXT])


def _end(
    inside: "Transaction", request: int, references: "Mapping[int, str]", ended_at: float
) -> None:
    parameters = {"the_request": request, "the_end": ended_at}
    given = {str(index): _cut(text) for index, text in references.items() if text}
    if inside.execute(_END_FIRST, {**parameters, "references": _json(given)}).rowcount == 1:
        return
    known = inside.execute(_SETTLED, parameters).scalar_one()
    merged = {**orjson.loads(known or "{}"), **given}
    inside.execute(_END, {**parameters, "references": _json(merged)})


def _json(references: "dict[str, str]") -> str:
    return orjson.dumps(references).decode() if references else ""


def resolve_unknown(inside: "Transaction", key: "LeaseKey", found: "Settlement") -> bool:
    """Keep what was found out about an order.

    Returns:
        Whether it was still unknown.

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If what is unknown cannot become that.
    """
    verify(inside, key)
    sources(Move.RESOLVE, found.state)
    told = {
        "the_job": key.job_id,
        "first": found.index,
        "last": found.index,
        "the_reference": _cut(found.reference),
        **_told(found.state, found.code, found.text, found.proof),
    }
    return inside.execute(_RESOLVE.ranged, told).rowcount == 1


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
    row = _find(inside, job, order)
    what = f"order {row.index} of job {name!r}"
    if row.state is JobState.INTENT:
        raise JournalError(
            f"{what} is in flight, or was when its process ended: run the job again first", job=name
        )
    sources(Move.DECIDE, state)
    told = {
        "the_job": job.id,
        "first": row.index,
        "last": row.index,
        "the_note": storable(note),
        **_told(state, "", f"an operator decided: {note}", _BY_OPERATOR),
    }
    changed = inside.execute(_DECIDE.ranged, told).rowcount
    if row.state not in IN_DOUBT or changed != 1:
        raise JournalError(
            f"{what} is {str(row.state)!r}: an operator decides only on what is unknown or held",
            job=name,
        )


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


def _move(  # noqa: PLR0913, PLR0917  # one argument a part of the statement
    inside: "Transaction",
    key: "LeaseKey",
    update: _Update,
    move: Move,
    target: JobState,
    indices: Sequence[int],
    told: "Mapping[str, object]",
) -> None:
    """Move orders to a state.

    Raises:
        JournalError: If one of them was in no state that may become it, or of another request.
    """
    sources(move, target)
    parameters = {"the_job": key.job_id, "the_slice": key.slice_number, **told}
    first, last = (indices[0], indices[-1]) if indices else (0, -1)
    if list(indices) == list(range(first, last + 1)):
        changed = inside.execute(update.ranged, {**parameters, "first": first, "last": last})
    else:
        changed = inside.execute(update.listed, {**parameters, "positions": list(indices)})
    if changed.rowcount != len(indices):
        raise _refused(inside, key, move, target, indices, told["the_request"])


def _refused(  # noqa: PLR0913, PLR0917  # as above
    inside: "Transaction",
    key: "LeaseKey",
    move: Move,
    target: JobState,
    indices: Sequence[int],
    request: object,
) -> JournalError:
    """Return why; the rows that could be moved are moved, until the transaction is undone."""
    expected = sources(move, target)
    unmoved = (_unmoved(inside, key, index, target, request) for index in indices)
    found = next(filter(None, unmoved), f"one of them is {str(target)!r}, or named twice")
    wanted = " or ".join(repr(str(state)) for state in expected)
    return JournalError(
        f"job {key.name!r}: cannot {move} orders {indices[0]} to {indices[-1]}: expected {wanted}, "
        f"but {found}; nothing was changed",
        job=key.name,
    )


def _unmoved(
    inside: "Transaction", key: "LeaseKey", index: int, target: JobState, request: object
) -> str:
    row = read_at(inside, key.job_id, index)
    if row is None:
        return f"there is no order {index}"
    if row.sending is not None and row.sending.id != request:
        return f"order {index} is {str(row.state)!r}, of another request"
    return "" if row.state is target else f"order {index} is {str(row.state)!r}"
