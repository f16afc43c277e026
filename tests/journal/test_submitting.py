"""Orders come in once and whole; a job may be cut into slices, some of which wait for a process."""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import RefundOrder
from gateway_async.errors import JobConflictError
from gateway_async.journal import Journal
from gateway_async.journal.rows import Merchant
from tests.journal.tables import MERCHANT, Tables, pages_of, submit, submitted
from tests.support.memory import MemoryTransport, client_over
from tests.support.orders import made_up, orders_for, refunds


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
        of_slice[chunk.slice] += chunk.known
    names_of = [{orders[at].transaction_id for at in found} for found in of_slice.values()]
    assert sum(map(len, names_of)) == len(set.union(*names_of))
    assert len(names_of) <= 2 * math.ceil(len(orders) / size)
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
    await job.take(MERCHANT, 2)
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
    await job.take(MERCHANT, 2)
    await other.make_due([("job", 2)])
    assert await other.claim_due(MERCHANT, 60) == [("job", 1)]
    tables.end_leases()
    assert await other.claim_due(MERCHANT, 60) == [("job", 2)]


async def test_a_slice_whose_process_died_is_due(journal: Journal, tables: Tables) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    assert len(await journal.claim_due(MERCHANT, 60)) == 2
    lease = await job.take(MERCHANT, 2)
    for _ in range(2):
        # The time of a lease passes.
        tables.run("UPDATE gateway_slices SET expires_at = expires_at - 15, due_at = due_at - 15")
        assert await journal.claim_due(MERCHANT, 60) == [("job", 2)]
        await lease.renew()  # it was frozen, and has the slice again before any other takes it


# Orders come in once and whole; a rerun is compared


amounts = st.one_of(
    st.decimals(min_value=0, allow_nan=False, allow_infinity=False),
    st.decimals(min_value=0, max_value=10**6, places=2),
    st.builds(
        lambda digits, zeros, power: Decimal(f"{digits}{'0' * zeros}E{power}"),
        st.integers(0, 10**12),
        st.integers(0, 40),
        st.integers(-45, 45),
    ),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
identifiers = texts.map(lambda text: f"T{text}".strip())


drawn_orders = st.builds(
    lambda amount, **fields: RefundOrder(amount=amount, refund_amount=amount, **fields),
    amount=amounts.map(lambda amount: amount or Decimal(1)),
    transaction_id=identifiers,
    order_no=identifiers,
    currency=st.just("EUR"),
    refund_reason=texts,
)


@settings(max_examples=50)
@given(st.lists(drawn_orders, min_size=1, max_size=5))
def test_orders_are_read_back_as_they_were(orders: list[RefundOrder]) -> None:
    async def check(url: str) -> None:
        async with Journal.open(url) as journal:
            for _ in range(2):  # and are equal to those that are given again
                assert await submit(journal.job("job"), pages_of(orders)) == len(orders)
            found = [outcome.order async for outcome in journal.outcomes("job")]
            assert found == orders
            assert [str(order.amount) for order in found] == [str(o.amount) for o in orders]

    with TemporaryDirectory() as folder:
        asyncio.run(check(f"sqlite:///{Path(folder) / 'journal.db'}"))


async def test_of_two_that_submit_at_once_one_is_compared(journal: Journal, other: Journal) -> None:
    async def given(size: int) -> AsyncIterator[Sequence[Any]]:
        yield refunds(size)
        await asyncio.sleep(0)

    ended = await asyncio.gather(
        *(submit(each.job("job"), given(size)) for each in (journal, other) for size in (3, 5)),
        return_exceptions=True,
    )
    kept = [size for size in ended if isinstance(size, int)]
    assert kept in ([3, 3], [5, 5])
    assert len([error for error in ended if isinstance(error, JobConflictError)]) == 2
    assert [o.order async for o in other.outcomes("job")] == refunds(kept[0])
