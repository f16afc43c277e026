"""A job that is cut into slices: who may have which orders, and which slices wait for somebody."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest

from gateway_async.errors import JobBusyError, JobConflictError, JobNotFoundError, JournalError
from gateway_async.journal import JobState, Journal
from gateway_async.journal.rows import Known
from tests.journal.tables import ALL, Tables, sent, submitted, succeeded
from tests.orders import made_up, orders_for, refunds

WHO = ("M1", "A1", "")


async def test_slices_have_leases_and_orders_of_their_own(
    journal: Journal, other: Journal, tables: Tables
) -> None:
    job = await submitted(journal, slice_size=4)
    leases = [
        await each.job("job").take("me", number)
        for number, each in ((1, journal), (2, other), (3, other))
    ]
    spans = [[row.index for row in await lease.rows(ALL)] for lease in leases]
    assert spans == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    first, second, _ = leases
    await sent(first, range(3))
    before = tables.snapshot()
    with pytest.raises(JournalError, match="cannot intend"):
        await sent(second, range(3, 5))
    assert tables.snapshot() == before
    await second.release()
    assert (await job.take("fourth", 2)).key.epoch == 2
    assert tables.states() == ["intent"] * 3 + ["new"] * 7
    assert [each.is_running for each in await journal.slices("job")] == [True] * 3
    with pytest.raises(JobBusyError):
        await job.take("fifth", 1)


@pytest.mark.parametrize("seed", range(5))
async def test_all_orders_of_a_transaction_are_in_one_slice(
    journal: Journal, tables: Tables, seed: int
) -> None:
    random = Random(seed)
    names = made_up(40)
    orders = orders_for("refund", random.choices(names[: 20 + seed], k=50) + names[30:])
    size = random.randrange(2, 12)
    await submitted(journal, orders, slice_size=size)
    most = max(Counter(order.transaction_id for order in orders).values())
    of_transaction: dict[str, set[int]] = defaultdict(set)
    seen: list[int] = []
    for each in await journal.slices("job"):
        rows = await (await journal.job("job").take("me", each.number)).rows(ALL)
        assert len(rows) == each.total < size + most
        assert (rows[0].index, rows[-1].index) == (each.first, each.last)
        seen += [row.index for row in rows]
        for row in rows:
            of_transaction[row.order.transaction_id].add(each.number)
    assert sorted(seen) == list(range(len(orders)))
    assert all(len(numbers) == 1 for numbers in of_transaction.values())
    assert tables.run("SELECT COUNT(*) FROM gateway_chunks WHERE slice = 0") == [(0,)]


async def test_a_job_is_cut_or_in_one_piece(journal: Journal, tables: Tables) -> None:
    cut, whole = await submitted(journal, slice_size=4), await submitted(journal, name="whole")
    before = tables.snapshot()
    await submitted(journal, slice_size=7)  # it keeps its slices
    assert (await cut.head()).is_cut
    assert not (await whole.head()).is_cut
    assert await journal.slices("whole") == []
    with pytest.raises(JobConflictError, match="was cut into slices: name one"):
        await cut.take("me")
    with pytest.raises(JobConflictError, match="was cut into slices"):
        await submitted(journal)
    with pytest.raises(JobConflictError, match="is in one piece"):
        await submitted(journal, name="whole", slice_size=4)
    for job, number in ((cut, 4), (cut, -1), (whole, 1)):
        with pytest.raises(JobNotFoundError, match=f"has no slice {number}"):
            await job.take("me", number)
    assert (await cut.slice(3)).total == 2
    with pytest.raises(JobNotFoundError, match="job 'job' has no slice 4"):
        await cut.slice(4)
    assert tables.snapshot() == before


async def test_a_submission_that_ended_early_is_cut_anew(journal: Journal) -> None:
    async def broken() -> AsyncIterator[Sequence[object]]:
        yield refunds(10)
        raise KeyError

    with pytest.raises(KeyError):
        await journal.job("job").submit("refund", "M1", "A1", broken(), slice_size=3)
    assert await journal.slices("job") == []
    assert await journal.claim_due(WHO, 0, 10) == []
    await submitted(journal, slice_size=5)
    assert [each.total for each in await journal.slices("job")] == [5, 5]


async def test_a_slice_is_finished_once_nothing_is_left_to_do(journal: Journal) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    lease = await job.take("me", 1)
    assert not await lease.finish()
    request = await sent(lease, range(2))
    assert not await lease.finish()
    await lease.settle(request, succeeded(range(2)), ended_at=1.0)
    assert await lease.finish()
    assert [each.finished for each in await journal.slices("job")] == [True, False]


async def test_a_decision_that_an_order_is_to_be_sent_opens_its_slice(
    journal: Journal, tables: Tables
) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    tables.run("UPDATE gateway_slices SET finished = (1 = 1) WHERE slice > 0")
    await journal.resolve("job", 0, "succeeded", "seen")
    assert all(each.finished for each in await journal.slices("job"))
    await journal.resolve("job", 3, "not_sent", "not seen")
    assert [each.finished for each in await journal.slices("job")] == [True, False]
    assert await journal.claim_due(WHO, 0, 10) == [("job", 2)]
    assert (await job.take("me", 2)).key.total == 2


async def test_a_decision_lets_a_slice_be_due_that_it_held_up(
    journal: Journal, tables: Tables
) -> None:
    await submitted(journal, refunds(1) * 3, slice_size=3)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    await journal.resolve("job", 2, "not_sent", "not seen")  # it waits behind the others
    assert await journal.claim_due(WHO, 60, 10) == [("job", 1)]
    tables.run("UPDATE gateway_slices SET tries = 9")
    assert await journal.claim_due(WHO, 60, 10) == []
    await journal.resolve("job", 0, "succeeded", "seen")
    assert await journal.claim_due(WHO, 60, 10) == [("job", 1)]
    assert tables.run("SELECT tries FROM gateway_slices WHERE slice > 0") == [(0,)]


async def test_a_finished_slice_that_is_run_again_is_not_before_that_run_ends(
    journal: Journal, tables: Tables
) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    tables.run("UPDATE gateway_slices SET finished = (1 = 1) WHERE slice > 0")
    lease = await job.take("dies", 2)
    assert [each.finished for each in await journal.slices("job")] == [True, False]
    await lease.release()
    await journal.postpone([("job", 1), ("job", 2)], 0)
    assert await journal.claim_due(WHO, 60, 9) == [("job", 2)]
    lease = await job.take("goes on", 2)
    held = {index: Known(JobState.HELD) for index in (2, 3)}
    assert await lease.recover(held)
    assert await lease.finish()
    assert all(each.finished for each in await journal.slices("job"))


async def test_slices_that_are_due_are_told_once_in_a_while(
    journal: Journal, other: Journal
) -> None:
    job = await submitted(journal, refunds(6), slice_size=2)
    await submitted(journal, name="whole")
    assert await journal.claim_due(("M2", "A1", ""), 60, 9) == []
    assert await journal.claim_due(WHO, 60, 2) == [("job", 1), ("job", 2)]
    assert await other.claim_due(WHO, 60, 2) == [("job", 3)]
    assert await journal.claim_due(WHO, 60, 2) == []
    await other.postpone([("job", 1), ("job", 2)], 0)
    await (await job.take("me", 3)).release()
    await job.take("me", 2)
    await other.postpone([("job", 2)], 0)
    assert await other.claim_due(WHO, 60, 9) == [("job", 1)]


async def test_a_slice_whose_process_died_is_due(url: str) -> None:
    async with Journal.open(url, lease_seconds=0.01) as journal:
        job = await submitted(journal, refunds(4), slice_size=2)
        assert len(await journal.claim_due(WHO, 60, 9)) == 2
        await job.take("me", 2)
        await asyncio.sleep(0.02)
        assert await journal.claim_due(WHO, 60, 9) == [("job", 2)]


async def test_a_slice_that_is_left_unfinished_is_due_later_each_time(
    journal: Journal, tables: Tables
) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    due_in: list[float] = []
    for _ in range(9):
        lease = await job.take("me", 1)
        assert not await lease.finish()
        await lease.release()
        ((due, now),) = tables.run(
            f"SELECT due_at, {tables.now} FROM gateway_slices WHERE slice = 1"  # noqa: S608  # ours
        )
        due_in.append(due - now)
    assert due_in == pytest.approx([15, 30, 60, 120, 240, 480, 960, 960, 960], abs=10)
