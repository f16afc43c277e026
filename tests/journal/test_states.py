"""The table of transitions, in words and in the database."""

from itertools import product

import pytest

from gateway_async.errors import JournalError
from gateway_async.journal import JobState, Journal
from gateway_async.journal.rows import Known
from gateway_async.journal.states import TRANSITIONS, Transition, sources
from tests.journal.tables import ALL, Tables, sent, taken

ALLOWED = {
    (move, before, after)
    for move, table in TRANSITIONS.items()
    for before, targets in table.items()
    for after in targets
}
STATES = list(JobState)


def test_the_table_is_the_one_that_was_agreed_on() -> None:
    found_out = {"succeeded", "declined", "held", "new"}
    assert {(str(move), str(before), str(after)) for move, before, after in ALLOWED} == {
        ("intend", "new", "intent"),
        ("hold", "new", "held"),
        ("withdraw", "intent", "new"),
        *(("settle", "intent", after) for after in ("succeeded", "declined", "unknown")),
        ("reopen", "intent", "unknown"),
        ("reopen", "held", "unknown"),
        *(("recover", "unknown", after) for after in found_out),
        *(("resolve", before, after) for before in ("unknown", "held") for after in found_out),
    }


@pytest.mark.parametrize(("move", "after"), list(product(Transition, JobState)))
def test_sources_are_those_of_the_table(move: Transition, after: JobState) -> None:
    expected = {before for before in JobState if (move, before, after) in ALLOWED}
    if expected:
        assert set(sources(move, after)) == expected
    else:
        with pytest.raises(JournalError, match=f"no state becomes '{after}' by '{move}'"):
            sources(move, after)


@pytest.mark.parametrize("before", STATES)
async def test_hold(journal: Journal, tables: Tables, before: JobState) -> None:
    lease = await taken(journal)
    tables.put(4, state=before)
    held = {4: Known(JobState.HELD, proof="alike")}
    if (Transition.HOLD, before, JobState.HELD) in ALLOWED:
        await lease.hold(held)
        assert tables.states()[4] == "held"
        return
    known = tables.snapshot()
    with pytest.raises(JournalError, match=f"expected 'new', but o.* '{before}'"):
        await lease.hold(held)
    assert tables.snapshot() == known


@pytest.mark.parametrize("before", STATES)
async def test_intend(journal: Journal, tables: Tables, before: JobState) -> None:
    lease = await taken(journal)
    tables.put(4, state=before)
    if (Transition.INTEND, before, JobState.INTENT) in ALLOWED:
        await sent(lease, range(3, 6))
        assert tables.states()[3:6] == ["intent"] * 3
        return
    known = tables.snapshot()
    for indices in (range(3, 6), (2, 4)):
        with pytest.raises(JournalError, match=f"expected 'new', but o.* '{before}'"):
            await sent(lease, indices)
    assert tables.snapshot() == known


@pytest.mark.parametrize("before", STATES)
async def test_withdraw(journal: Journal, tables: Tables, before: JobState) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(3, 6))
    tables.put(4, state=before)
    if (Transition.WITHDRAW, before, JobState.NEW) in ALLOWED:
        await lease.withdraw(request, range(3, 6))
        assert tables.states() == ["new"] * 10
        assert [row.outcome().sending for row in await lease.rows(ALL, after=2, last=5)] == [
            None
        ] * 3
        return
    known = tables.snapshot()
    with pytest.raises(JournalError, match="expected 'intent'"):
        await lease.withdraw(request, range(3, 6))
    assert tables.snapshot() == known


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
async def test_settle(journal: Journal, tables: Tables, before: JobState, after: JobState) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(3, 6))
    tables.put(4, state=before)
    settlements = {index: Known(after) for index in range(3, 6)}
    if (Transition.SETTLE, before, after) in ALLOWED:
        await lease.settle(request, settlements, ended_at=1.0)
        assert tables.states()[3:6] == [after] * 3
        return
    known = tables.snapshot()
    with pytest.raises(JournalError):
        await lease.settle(request, settlements, ended_at=1.0)
    assert tables.snapshot() == known


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
async def test_recover(journal: Journal, tables: Tables, before: JobState, after: JobState) -> None:
    lease = await taken(journal)
    tables.put(4, state=before)
    known = tables.snapshot()
    found = {4: Known(after, text="seen", reference="R-1", proof="record")}
    if (Transition.RECOVER, JobState.UNKNOWN, after) not in ALLOWED:
        with pytest.raises(JournalError, match="no state becomes"):
            await lease.recover(found)
    else:
        is_allowed = (Transition.RECOVER, before, after) in ALLOWED
        assert await lease.recover(found) is is_allowed
        if is_allowed:
            (row,) = await lease.rows(ALL, after=3, last=4)
            told = (row.known.state, row.known.text, row.known.reference, row.known.proof)
            assert told == (after, "seen", "R-1", "record")
            return
    assert tables.snapshot() == known


@pytest.mark.parametrize("before", STATES)
async def test_a_chunk_as_a_whole(journal: Journal, tables: Tables, before: JobState) -> None:
    """One statement changes it, and finds its state to be right as well."""
    lease = await taken(journal)
    request = await sent(lease, range(10))
    tables.put(state=before)
    known = tables.snapshot()
    if before is not JobState.NEW:
        with pytest.raises(JournalError, match=f"expected 'new', but o.* '{before}'"):
            await sent(lease, range(10))
    if before is not JobState.INTENT:
        with pytest.raises(JournalError, match=f"expected 'intent', but o.* '{before}'"):
            await lease.succeed(request, range(10), ["R"] * 10, ended_at=1.0)
    with pytest.raises(JournalError, match="expected 'intent'"):
        await lease.succeed(request + 1, range(10), ["R"] * 10, ended_at=1.0)
    assert tables.snapshot() == known
    if before is JobState.NEW:
        await sent(lease, range(10))
        assert tables.states() == ["intent"] * 10
    if before is JobState.INTENT:
        await lease.succeed(request, range(10), ["R"] * 10, ended_at=1.0)
        assert tables.states() == ["succeeded"] * 10


async def test_a_request_of_another_cannot_be_settled(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    await sent(lease, range(3))
    request = await sent(lease, range(3, 6))
    known = tables.snapshot()
    with pytest.raises(JournalError, match="of another request"):
        await lease.withdraw(request, range(2, 5))
    assert tables.snapshot() == known


async def test_no_orders_are_no_mistake_to_settle(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(3))
    await lease.settle(request, {}, ended_at=1.0)
    assert tables.states()[:3] == ["intent"] * 3
