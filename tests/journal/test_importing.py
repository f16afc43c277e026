"""Orders come in once and whole; a rerun is compared, and a killed import begins anew."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import attrs
import psycopg
import pytest

from gateway_async.errors import (
    InvalidOrderError,
    JobBusyError,
    JobConflictError,
    JournalError,
    LeaseLostError,
)
from gateway_async.journal import JobState, Journal
from tests.journal.tables import Tables, pages_of, submitted
from tests.orders import made_up, orders_for, refunds
from tests.postgres import emptied


async def _never() -> AsyncIterator[Sequence[Any]]:
    raise AssertionError("a page was pulled")
    yield  # type: ignore[unreachable]


async def _killed(orders: Sequence[Any]) -> AsyncIterator[Sequence[Any]]:
    yield orders
    raise RuntimeError("killed")


async def test_orders_are_kept_in_their_order(journal: Journal) -> None:
    orders = refunds(2500)
    job = journal.job("job")
    assert await job.submit("refund", "M1", "A1", pages_of(orders, 1700)) == 2500
    status = await journal.status(job.name)
    assert (status.operation, status.merchant_id, status.account_id) == ("refund", "M1", "A1")
    assert (status.imported, status.total, status.counts[JobState.NEW]) == (True, 2500, 2500)
    assert not status.done
    assert not status.is_running
    assert [outcome.order async for outcome in journal.outcomes("job")] == orders


async def test_a_rerun_writes_nothing(journal: Journal, tables: Tables) -> None:
    job = await submitted(journal, refunds(1500))
    known = tables.snapshot()
    equal = [attrs.evolve(order, refund_amount=Decimal("1.0")) for order in refunds(1500)]
    assert await job.submit("refund", "M1", "A1", pages_of(equal, 70)) == 1500
    assert tables.snapshot() == known


@pytest.mark.parametrize(
    ("subject", "difference"),
    [
        (("cancel", "M1", "A1"), "its operation is 'refund', not 'cancel'"),
        (("refund", "M2", "A1"), "its merchant_id is 'M1', not 'M2'"),
        (("refund", "M1", "A2"), "its account_id is 'A1', not 'A2'"),
    ],
)
async def test_another_subject_is_a_conflict_before_a_page_is_pulled(
    journal: Journal, subject: tuple[str, str, str], difference: str
) -> None:
    job = await submitted(journal)
    with pytest.raises(JobConflictError, match=difference):
        await job.submit(*subject, _never())


async def test_an_order_of_another_operation_ends_the_import(journal: Journal) -> None:
    orders = [*refunds(3), *orders_for("cancel", made_up(1))]
    with pytest.raises(InvalidOrderError, match="expected RefundOrder, got CancelOrder"):
        await submitted(journal, orders)
    assert not (await journal.status("job")).imported


async def test_a_killed_import_begins_anew_whatever_the_orders(
    journal: Journal, tables: Tables
) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        await journal.job("job").submit("refund", "M1", "A1", _killed(refunds(2300)))
    status = await journal.status("job")
    assert (status.imported, status.total, status.is_running, status.done) == (
        False,
        2000,
        False,
        False,
    )
    with pytest.raises(JournalError, match="was not submitted to its end"):
        await journal.job("job").take("me")
    orders = orders_for("cancel", made_up(4))
    assert await journal.job("job").submit("cancel", "M2", "A2", pages_of(orders)) == 4
    assert [outcome.order async for outcome in journal.outcomes("job")] == orders
    assert tables.states() == ["new"] * 4
    assert tables.run("SELECT first FROM gateway_orders") == [(0,)]
    assert (await journal.status("job")).merchant_id == "M2"


async def test_one_of_two_importers_goes_on(journal: Journal, other: Journal) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[Sequence[Any]]:
        begun.set()
        await go_on.wait()
        yield refunds(5)

    first = asyncio.create_task(journal.job("job").submit("refund", "M1", "A1", slowly()))
    await begun.wait()
    with pytest.raises(JobBusyError) as caught:
        await other.job("job").submit("refund", "M1", "A1", _never())
    assert 0 < caught.value.seconds_left <= 15
    go_on.set()
    assert await first == 5
    assert await other.job("job").submit("refund", "M1", "A1", pages_of(refunds(5))) == 5


async def test_an_importer_that_was_overtaken_changes_nothing(
    journal: Journal, other: Journal, tables: Tables
) -> None:
    async def overtaken() -> AsyncIterator[Sequence[Any]]:
        yield refunds(3)
        tables.end_leases()
        assert await other.job("job").submit("refund", "M1", "A1", pages_of(refunds(5))) == 5
        yield refunds(3)

    with pytest.raises(LeaseLostError):
        await journal.job("job").submit("refund", "M1", "A1", overtaken())
    assert [o.order async for o in other.outcomes("job")] == refunds(5)
    assert (await other.status("job")).imported


async def test_two_that_make_a_job_at_once(journal: Journal, other: Journal) -> None:
    ended = await asyncio.gather(
        *(
            each.job("job").submit("refund", "M1", "A1", pages_of(refunds(50)))
            for each in (journal, other, journal, other)
        ),
        return_exceptions=True,
    )
    assert 50 in ended
    assert all(each == 50 or isinstance(each, JobBusyError) for each in ended), ended
    assert (await journal.status("job")).counts[JobState.NEW] == 50


async def test_a_cancelled_import_gives_its_lease_back(journal: Journal) -> None:
    begun = asyncio.Event()

    async def forever() -> AsyncIterator[Sequence[Any]]:
        begun.set()
        await asyncio.Event().wait()
        yield []

    task = asyncio.create_task(journal.job("job").submit("refund", "M1", "A1", forever()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await submitted(journal)
    assert (await journal.status("job")).imported


@pytest.mark.parametrize("length", [499, 500, 501, 8000])
async def test_a_long_transaction_id(journal: Journal, length: int) -> None:
    random = Random(length)
    start = "".join(random.choices("\U0001f4b6äxyz0123456789", k=length))
    names = [start, f"{start}a", f"{start}b"]
    orders = [
        order for name in names for order in orders_for("refund", made_up(1), transaction_id=name)
    ]
    job = await submitted(journal, orders)
    lease = await job.take("me")
    for number, name in enumerate(names):
        (row,) = await lease.rows_of({name}, {JobState.NEW})
        assert (row.index, row.order) == (number, orders[number])
    assert await lease.rows_of({f"{start}c", start[:498]}, {JobState.NEW}) == []


async def test_whoever_ends_an_import_takes_no_lock_before_the_jobs(
    postgres: str,
) -> None:
    url = emptied(postgres)
    with psycopg.connect(url) as beside, psycopg.connect(url, autocommit=True) as looking:

        async def pages() -> AsyncIterator[Sequence[Any]]:
            yield refunds(5)
            beside.execute("SELECT id FROM gateway_jobs FOR UPDATE")

        async with Journal.open(url) as journal:
            submitting = asyncio.create_task(
                journal.job("job").submit("refund", "M1", "A1", pages())
            )
            waits = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
            while not looking.execute(  # noqa: ASYNC110  # nobody tells when a lock is waited for
                waits, (beside.info.backend_pid,)
            ).fetchall():
                await asyncio.sleep(0)
            beside.execute("SELECT epoch FROM gateway_slices FOR UPDATE NOWAIT")
            beside.commit()
            assert await submitting == 5


async def test_texts_that_a_database_cannot_hold(journal: Journal) -> None:
    orders = orders_for("refund", made_up(2), refund_reason="a\0b", transaction_id="T\0x")
    job = journal.job("job")
    assert await job.submit("refund", "M\0", "A", pages_of(orders)) == 2
    assert await job.submit("refund", "M\0", "A", pages_of(orders)) == 2
    lease = await job.take("me")
    assert [row.order for row in await lease.rows_of({"T\0x"}, {JobState.NEW})] == orders
