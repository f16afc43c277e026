"""A job that is cut into slices: which orders each has, and which of them wait for a process."""

import asyncio
from collections import Counter, defaultdict
from random import Random

import pytest

from gateway_async.journal import Journal
from gateway_async.journal.rows import Merchant
from tests.journal.tables import MERCHANT, Tables, submitted
from tests.memory import MemoryTransport, client_over
from tests.orders import made_up, orders_for, refunds


@pytest.mark.parametrize("seed", range(5))
async def test_a_transaction_is_in_one_slice(journal: Journal, tables: Tables, seed: int) -> None:
    random = Random(seed)
    names = made_up(40)
    orders = orders_for("refund", random.choices(names[: 20 + seed], k=50) + names[30:])
    size = random.randrange(2, 12)
    await submitted(journal, orders, slice_size=size)
    most = max(Counter(order.transaction_id for order in orders).values())
    of_slice: dict[int, list[int]] = defaultdict(list)
    for chunk in tables.chunks():
        of_slice[chunk.slice] += chunk.span
    names_of = [{orders[at].transaction_id for at in found} for found in of_slice.values()]
    assert sum(map(len, names_of)) == len(set.union(*names_of))
    for each in await journal.slices("job"):
        found = of_slice.pop(each.number)
        assert (found[0], found[-1], len(found)) == (each.first, each.last, each.total)
        assert each.total < size + most
    assert not of_slice


async def test_a_decision_makes_its_slice_due_again(journal: Journal, tables: Tables) -> None:
    await submitted(journal, refunds(1) * 3, slice_size=3)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    await journal.resolve("job", 2, "not_sent", "not seen")  # it waits behind the others
    assert await journal.claim_due(MERCHANT, 60) == [("job", 1)]
    assert await journal.claim_due(MERCHANT, 60) == []
    await journal.resolve("job", 0, "succeeded", "seen")
    assert await journal.claim_due(MERCHANT, 60) == [("job", 1)]


async def test_a_run_or_a_decision_opens_a_finished_slice(journal: Journal, tables: Tables) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    tables.run("UPDATE gateway_slices SET finished = (1 = 1) WHERE slice > 0")
    await job.take(2)
    assert [each.finished for each in await journal.slices("job")] == [True, False]
    tables.end_leases()
    await journal.make_due([("job", 1), ("job", 2)])
    assert await journal.claim_due(MERCHANT, 60) == [("job", 2)]
    await client_over(MemoryTransport()).resume(job, slice_number=2)  # all is held again
    await journal.resolve("job", 0, "succeeded", "seen")
    assert [each.finished for each in await journal.slices("job")] == [True, True]
    await journal.resolve("job", 3, "not_sent", "not seen")
    assert [each.finished for each in await journal.slices("job")] == [True, False]


async def test_slices_that_are_due_are_told_once_in_a_while(
    journal: Journal, other: Journal, tables: Tables
) -> None:
    job = await submitted(journal, refunds(6), slice_size=2)
    await submitted(journal, name="whole")
    assert await journal.claim_due(Merchant("M2", "A1", ""), 60) == []
    claimed = await asyncio.gather(*(one.claim_due(MERCHANT, 60) for one in (journal, other)))
    assert sorted(claimed[0] + claimed[1]) == [("job", 1), ("job", 2), ("job", 3)]
    assert await journal.claim_due(MERCHANT, 60) == []
    await other.make_due([("job", 1), ("job", 2)])
    await job.take(2)
    await other.make_due([("job", 2)])
    assert await other.claim_due(MERCHANT, 60) == [("job", 1)]
    tables.end_leases()
    assert await other.claim_due(MERCHANT, 60) == [("job", 2)]


async def test_a_slice_whose_process_died_is_due(journal: Journal, tables: Tables) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    assert len(await journal.claim_due(MERCHANT, 60)) == 2
    lease = await job.take(2)
    for _ in range(2):
        # The time of a lease passes.
        tables.run("UPDATE gateway_slices SET expires_at = expires_at - 15, due_at = due_at - 15")
        assert await journal.claim_due(MERCHANT, 60) == [("job", 2)]
        await lease.renew()  # it was frozen, and has the slice again before any other takes it
