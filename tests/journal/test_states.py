"""The table of transitions: what it has is done, and what it lacks changes nothing."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from gateway_async.errors import JournalError
from gateway_async.journal import JobState, Journal
from gateway_async.journal.leases import Lease
from gateway_async.journal.rows import Known
from gateway_async.journal.states import TRANSITIONS
from tests.journal.tables import Tables, sent, taken

NEW, INTENT, SUCCEEDED, DECLINED, UNKNOWN, HELD = JobState
FOUND_OUT = {SUCCEEDED, DECLINED, HELD, NEW}
AGREED = {
    "intend": {NEW: {INTENT}},
    "hold": {NEW: {HELD}},
    "withdraw": {INTENT: {NEW}},
    "settle": {INTENT: {SUCCEEDED, DECLINED, UNKNOWN}},
    "reopen": {INTENT: {UNKNOWN}, HELD: {UNKNOWN}},
    "recover": {UNKNOWN: FOUND_OUT},
    "resolve": {UNKNOWN: FOUND_OUT, HELD: FOUND_OUT},
}
Move = Callable[[Lease, int, Sequence[int], JobState], Awaitable[Any]]
MOVES: list[tuple[str, Move, set[JobState]]] = [
    ("intend", lambda lease, _, at, __: sent(lease, at), {INTENT}),
    ("hold", lambda lease, _, at, after: lease.hold(all_of(at, after)), {HELD}),
    ("withdraw", lambda lease, request, at, _: lease.withdraw(request, at), {NEW}),
    (
        "settle",
        lambda lease, request, at, after: lease.settle(request, all_of(at, after), ended_at=1.0),
        set(JobState),
    ),
    (
        "settle",
        lambda lease, request, at, _: lease.succeed(request, at, ["R"] * len(at), ended_at=1.0),
        {SUCCEEDED},
    ),
    ("recover", lambda lease, _, at, after: lease.recover(all_of(at, after)), set(JobState)),
]


def all_of(indices: Sequence[int], state: JobState) -> dict[int, Known]:
    return {index: Known(state, text="seen", reference="R") for index in indices}


def test_the_table_is_the_one_that_was_agreed_on() -> None:
    table = {
        str(move): {before: set(after) for before, after in each.items()}
        for move, each in TRANSITIONS.items()
    }
    assert table == AGREED


@pytest.mark.parametrize(
    ("url", "at", "others"),
    [
        ("sqlite", range(10), range(10)),
        ("sqlite", range(10), (4,)),
        ("sqlite", range(3, 6), (4,)),
        ("postgresql", range(10), range(10)),
    ],
    ids=["a chunk", "a chunk but one", "a part", "a chunk on a server"],
    indirect=["url"],
)
@pytest.mark.parametrize(("name", "move", "targets"), MOVES)
async def test_orders_in_another_state_change_nothing(  # fixtures
    journal: Journal,
    tables: Tables,
    name: str,
    move: Move,
    targets: set[JobState],
    at: Sequence[int],
    others: Sequence[int],
) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(10))
    for after in targets:
        legal = [before for before, found in AGREED[name].items() if after in found]
        for before in JobState:
            tables.put(state=legal[0] if legal else before, request=request)
            tables.put(*others, state=before)
            known = tables.snapshot()
            if before in legal:
                await move(lease, request, at, after)
                assert {tables.states()[index] for index in at} == {after}
                continue
            said = f"expected '{legal[0]}'" if legal else f"no state becomes '{after}'"
            is_silent = name == "recover" and legal  # it may have been found out too late
            with nullcontext() if is_silent else pytest.raises(JournalError, match=said):
                assert await move(lease, request, at, after) is False
            assert tables.snapshot() == known


async def test_a_request_of_another_cannot_be_settled(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    first = await sent(lease, range(3))
    request = await sent(lease, range(3, 6))
    known = tables.snapshot()
    for write in (
        lease.withdraw(request, range(2, 5)),
        lease.succeed(first, range(3, 6), ["R"] * 3, ended_at=1.0),
    ):
        with pytest.raises(JournalError, match="of another request"):
            await write
    await lease.settle(first, {}, ended_at=1.0)
    assert tables.snapshot() == known
