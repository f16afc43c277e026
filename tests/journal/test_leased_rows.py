"""What is kept under a lease is read back."""

import pytest

from gateway_async import OutcomeStatus
from gateway_async.batching.results import Sending
from gateway_async.journal import JobState, Journal
from gateway_async.journal.rows import Known
from tests.journal.tables import ALL, Tables, counts_of, sent, submitted, succeeded, taken
from tests.orders import made_up, orders_for, refunds

NEW, UNKNOWN = JobState.NEW, JobState.UNKNOWN


async def test_rows_are_paged_by_position(journal: Journal) -> None:
    lease = await taken(journal, refunds(2500))
    rows = await lease.rows({NEW})
    assert [row.index for row in rows] == list(range(1000))
    assert [row.order for row in rows[:3]] == refunds(3)
    more = await lease.rows({NEW}, after=rows[-1].index, limit=5)
    assert [row.index for row in more] == list(range(1000, 1005))
    assert await lease.rows({UNKNOWN, JobState.HELD}) == []
    assert await lease.rows(set()) == []
    assert [row.index for row in await lease.rows(ALL, after=6, last=9)] == [7, 8, 9]


async def test_a_request_is_noted(journal: Journal) -> None:
    lease = await taken(journal)
    references = {"T000001": frozenset({"a", "b"}), "T000002": frozenset[str]()}
    request = await sent(lease, (1, 2), references=references, marker="ga-1", alone=False)
    before, first, second = await lease.rows(ALL, after=-1, last=2)
    assert before.outcome().sending is None
    for row in (first, second):
        assert row.known.request == request
        assert row.outcome(ended_by=7.5).sending == Sending(
            ended_at=7.5, references=references, marker="ga-1", alone=False
        )
    await lease.settle(request, {1: Known(UNKNOWN)}, ended_at=12.5)
    (row,) = await lease.rows({UNKNOWN})
    sending = row.outcome().sending
    assert sending is not None
    assert sending.ended_at == 12.5


@pytest.mark.parametrize("indices", [range(2, 6), (2, 3, 5, 9), (7,)])
async def test_a_chunk_that_succeeded(journal: Journal, tables: Tables, indices: range) -> None:
    lease = await taken(journal)
    request = await sent(lease, indices)
    settlements = {index: Known(JobState.SUCCEEDED, reference=f"R{index}") for index in indices}
    await lease.settle(request, settlements, ended_at=1.0)
    rows = await lease.rows({JobState.SUCCEEDED})
    assert [(row.index, row.known.reference) for row in rows] == [(i, f"R{i}") for i in indices]
    assert tables.states().count("new") == 10 - len(indices)


async def test_a_request_is_settled_in_parts(journal: Journal) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(6))
    await lease.settle(request, succeeded((0, 2), reference="R"), ended_at=1.0)
    await lease.settle(
        request,
        {
            1: Known(JobState.DECLINED, code="V1", text="no"),
            **succeeded((3,), reference="S", proof="seen"),
            4: Known(UNKNOWN, text="x" * 1001),
        },
        ended_at=2.0,
    )
    rows = await lease.rows(ALL, after=-1, last=5)
    assert [row.known.reference for row in rows] == ["R", "", "R", "S", "", ""]
    assert [row.state[0] for row in rows] == ["s", "d", "s", "s", "u", "i"]
    assert (rows[1].known.code, rows[1].known.text, rows[3].known.proof) == ("V1", "no", "seen")
    assert rows[4].known.text == "x" * 1000
    counts = await counts_of(lease)
    assert counts == {
        JobState.NEW: 4,
        JobState.INTENT: 1,
        JobState.SUCCEEDED: 3,
        JobState.DECLINED: 1,
        JobState.UNKNOWN: 1,
        JobState.HELD: 0,
    }


async def test_an_order_that_is_sent_again_says_nothing_of_the_first_time(
    journal: Journal,
) -> None:
    lease = await taken(journal)
    request = await sent(lease, (4,), marker="first")
    lost = {4: Known(UNKNOWN, text="lost", reference="R")}
    await lease.settle(request, lost, ended_at=1.0)
    assert await lease.recover({4: Known(NEW, text="t", proof="p")})
    again = await sent(lease, (4,), marker="second")
    (row,) = await lease.rows(ALL, after=3, last=4)
    assert (row.known.text, row.known.proof, row.known.reference) == ("", "", "")
    sending = row.outcome().sending
    assert sending is not None
    assert (row.known.request, sending.marker) == (again, "second")


async def test_rows_of_transactions(journal: Journal) -> None:
    lease = await taken(journal, [*refunds(1200), *refunds(2)])
    await sent(lease, (1,))
    found = await lease.rows_of({"T000001", "T000000", "T000777", "nowhere"}, {NEW})
    assert [row.index for row in found] == [0, 777, 1200, 1201]
    everything = await lease.rows_of({row.transaction_id for row in refunds(1200)}, ALL)
    assert [row.index for row in everything] == list(range(1202))


async def test_a_witness_succeeded_and_has_a_reference(journal: Journal) -> None:
    lease = await taken(journal)
    assert await lease.witness() is None
    request = await sent(lease, range(4))
    lost = {0: Known(UNKNOWN, reference="R")}
    await lease.settle(request, {**lost, **succeeded((1,))}, ended_at=1.0)
    assert await lease.witness() is None
    await lease.settle(request, succeeded((2,), reference="R"), ended_at=1.0)
    witness = await lease.witness()
    assert witness is not None
    assert (witness.index, witness.known.reference) == (2, "R")


async def test_one_that_was_found_is_a_witness_too(journal: Journal) -> None:
    lease = await taken(journal)
    request = await sent(lease, (3,))
    await lease.settle(request, {3: Known(UNKNOWN)}, ended_at=1.0)
    assert await lease.recover(succeeded((3,), reference="R"))
    witness = await lease.witness()
    assert witness is not None
    assert (witness.index, witness.known.reference) == (3, "R")


async def test_jobs_do_not_touch_each_other(journal: Journal) -> None:
    lease = await taken(journal)
    second = await submitted(journal, orders_for("refund", made_up(10)), "second")
    await sent(lease, range(10))
    theirs = await second.take("me")
    assert (await counts_of(theirs))[NEW] == 10
    assert await theirs.witness() is None


async def test_texts_that_a_database_cannot_hold(journal: Journal) -> None:
    lease = await taken(journal)
    request = await sent(lease, (1,), references={"T\0": frozenset({"R\0"})})
    strange = {1: Known(UNKNOWN, code="\0", text="a\0b\ud800", reference="\ud800", proof="\0")}
    await lease.settle(request, strange, ended_at=1.0)
    (row,) = await lease.rows(ALL, after=0, last=1)
    known = row.known
    assert (known.code, known.text, known.reference) == (
        "\ufffd",
        "a\ufffdb\ufffd",
        "\ufffd",
    )
    assert row.outcome().status is OutcomeStatus.UNKNOWN
    sending = row.outcome().sending
    assert sending is not None
    assert sending.references == {"T\0": frozenset({"R\0"})}
