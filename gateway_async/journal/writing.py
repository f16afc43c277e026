"""What is written under a lease.

Law: every update names the states it expects and finds all of the orders in them; else nothing is
changed. Each moves orders only as the table of transitions says. What is in doubt is moved by one
transaction at a time, since what is decided on an order depends on those of its transaction.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from gateway_async.errors import JournalError
from gateway_async.journal.leases import verify
from gateway_async.journal.reading import read_stretches
from gateway_async.journal.redrawing import LONGEST_TEXT, cut, write_changes
from gateway_async.journal.schema import REQUESTS, STATES, DatabaseNow, lock_what_is_in_doubt
from gateway_async.journal.states import TRANSITIONS, JobState, Move, sources
from gateway_async.journal.stretches import (
    Change,
    changes_of,
    obstacle,
    runs_of,
    write_references,
)

if TYPE_CHECKING:
    from gateway_async.journal.leases import LeaseKey
    from gateway_async.journal.rows import Settlement
    from gateway_async.journal.writer import Transaction

_SUCCEEDED = {"state": str(JobState.SUCCEEDED), "code": "", "text": "", "proof": ""}
_FORGOTTEN = {"code": "", "text": "", "reference_list": "", "proof": ""}


def _word(word: str) -> "sa.ColumnElement[str]":
    """Write a word of ours into a statement: that is quicker than a parameter."""
    return sa.literal_column(f"'{word}'", sa.Text)


_REQUEST = REQUESTS.insert().values(
    job_id=sa.bindparam("the_job"),
    epoch=sa.bindparam("the_epoch"),
    sent_at=DatabaseNow(),
    marker=sa.bindparam("the_marker"),
    alone=sa.bindparam("is_alone"),
    baseline=sa.bindparam("the_baseline"),
)
_WHOLE = STATES.update().where(
    STATES.c.job_id == sa.bindparam("the_job"),
    STATES.c.first == sa.bindparam("the_first"),
    STATES.c.last == sa.bindparam("the_last"),
    STATES.c.slice == sa.bindparam("the_slice"),
)
"""Changes a stretch that is a chunk, as a job's orders are cut when they are kept."""
_INTEND = _WHOLE.where(STATES.c.state == _word(JobState.NEW)).values(
    state=_word(JobState.INTENT),
    request_id=sa.bindparam("the_request"),
    ended_at=sa.null(),
    **{name: _word("") for name in _FORGOTTEN},
)
_SUCCEED = _WHOLE.where(
    STATES.c.state == _word(JobState.INTENT), STATES.c.request_id == sa.bindparam("the_request")
).values(
    state=_word(JobState.SUCCEEDED),
    ended_at=sa.bindparam("the_end"),
    reference_list=sa.bindparam("the_list"),
)


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
    request = inside.insert(
        _REQUEST,
        the_job=key.job_id,
        the_epoch=key.epoch,
        the_marker=marker,
        is_alone=alone,
        the_baseline=orjson.dumps(baseline).decode() if baseline else "",
    )
    told = {
        "state": str(JobState.INTENT),
        "request_id": request,
        "ended_at": None,
        **_FORGOTTEN,
    }
    changes = changes_of(indices, told)
    if not _is_whole(inside, key, _INTEND, changes, request):
        _move(inside, key, Move.INTEND, changes)
    return request


def withdraw(inside: "Transaction", key: "LeaseKey", request: int, indices: Sequence[int]) -> None:
    """Keep that nothing of these orders was sent.

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If one of them is not in flight with this request.
    """
    verify(inside, key)
    changes = changes_of(indices, {"state": str(JobState.NEW), "request_id": None})
    _move(inside, key, Move.WITHDRAW, changes, request)


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
    changes = [
        change
        for told, alike in groupby(settlements, key=_told)
        for change in _settled(list(alike), told, ended_at=ended_at)
    ]
    _move(inside, key, Move.SETTLE, changes, request)


def _settled(
    found: "Sequence[Settlement]", told: "Mapping[str, Any]", **more: object
) -> "list[Change]":
    references = [cut(each.reference) for each in found]
    return _changes([each.index for each in found], references, {**told, **more})


def _changes(
    indices: Sequence[int], references: "Sequence[str]", told: "Mapping[str, Any]"
) -> "list[Change]":
    """Return one change for each run of positions without a gap, with its references."""
    given = iter(references)
    return [
        Change(
            first,
            last,
            {**told, "reference_list": write_references(list(islice(given, last - first + 1)))},
        )
        for first, last in runs_of(indices)
    ]


def succeed(  # noqa: PLR0913, PLR0917  # what is told of a request
    inside: "Transaction",
    key: "LeaseKey",
    request: int,
    indices: Sequence[int],
    references: "Sequence[str]",
    ended_at: float,
) -> None:
    """Keep that orders of a request succeeded, each with its reference or "".

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If one of them is not in flight with this request.
    """
    verify(inside, key)
    changes = _changes(indices, _all_cut(references), {**_SUCCEEDED, "ended_at": ended_at})
    if not _is_whole(inside, key, _SUCCEED, changes, request):
        _move(inside, key, Move.SETTLE, changes, request)


def _all_cut(references: "Sequence[str]") -> "Sequence[str]":
    if max(map(len, references), default=0) <= LONGEST_TEXT and "".join(references).isascii():
        return references  # JSON writes a NUL as six characters
    return [cut(reference) for reference in references]


def _told(found: "Settlement") -> dict[str, str]:
    return {
        "state": str(found.state),
        "code": cut(found.code),
        "text": cut(found.text),
        "proof": cut(found.proof),
    }


def resolve_unknown(
    inside: "Transaction",
    key: "LeaseKey",
    found: "Sequence[Settlement]",
    beside: "Mapping[int, JobState]",
) -> bool:
    """Keep what was found out about unknown orders, all of it or nothing.

    Args:
        inside: The transaction.
        key: The lease.
        found: What was found out.
        beside: The states that other orders must be in as well.

    Returns:
        Whether all of them were still unknown, and those beside in their states.

    Raises:
        LeaseLostError: If the lease is no longer ours.
        JournalError: If what is unknown cannot become that.
    """
    for each in found:
        sources(Move.RESOLVE, each.state)
    verify(inside, key)
    lock_what_is_in_doubt(inside.connection, key.job_id)
    expected = {**beside, **{each.index: JobState.UNKNOWN for each in found}}
    for index, state in expected.items():
        known = read_stretches(inside, key.job_id, index, index)
        if [each.state for each in known] != [state]:
            return False
    changes = [
        change
        for each in sorted(found, key=lambda each: each.index)
        for change in _settled([each], _told(each))
    ]
    _move(inside, key, Move.RESOLVE, changes)
    return True


def _is_whole(
    inside: "Transaction",
    key: "LeaseKey",
    statement: sa.Update,
    changes: "Sequence[Change]",
    request: int,
) -> bool:
    """Carry out a statement for the usual case; return whether it is that, and done."""
    if len(changes) != 1:
        return False
    told = changes[0].told
    changed = inside.hot(
        statement,
        the_end=told["ended_at"],
        the_list=told["reference_list"],
        the_job=key.job_id,
        the_slice=key.slice_number,
        the_first=changes[0].first,
        the_last=changes[0].last,
        the_request=request,
    )
    return bool(changed.rowcount == 1)


def _move(
    inside: "Transaction",
    key: "LeaseKey",
    move: Move,
    changes: "Sequence[Change]",
    request: int | None = None,
) -> None:
    """Move orders of the slice.

    Raises:
        JournalError: If one of them was in no state that may become that, or of another request.
    """
    if not changes:
        return
    first, last = changes[0].first, changes[-1].last
    known = read_stretches(inside, key.job_id, first, last)
    expected = {
        state: sources(move, JobState(state))
        for state in {change.told["state"] for change in changes}
    }
    found = obstacle(known, changes, expected, slice_number=key.slice_number, request=request)
    if found is not None:
        wanted = " or ".join(repr(str(state)) for state in TRANSITIONS[move])
        raise JournalError(
            f"job {key.name!r}: cannot {move} orders {first} to {last}: expected {wanted}, but "
            f"{found}; nothing was changed",
            job=key.name,
        )
    write_changes(inside, key.job_id, known, changes)
