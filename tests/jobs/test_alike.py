"""A refund that the gateway lists already is held, whatever the journal has forgotten."""

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import attrs

from gateway_async import BatchPolicy, RecoveryPolicy, RetryPolicy
from gateway_async.errors import AlikeRefundError, NotSentError
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import (
    DECLINED,
    NOT_SENT,
    SUCCEEDED,
    Make,
    counts,
    effects,
    kept,
    references_of,
    seeded,
    statuses,
)

SERIAL = BatchPolicy(concurrency=2, chunk_size=2, duplicates="serialize")


async def test_the_same_orders_under_another_name_are_held(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, 6, refund_amount=Decimal("5.00"))
    first = await make().refund(orders[:4], job=journal.job("first"))
    result = await make().refund(orders, job=journal.job("second"))
    assert statuses(result) == [NOT_SENT] * 4 + [SUCCEEDED] * 2
    assert effects(sandbox, orders) == [1] * 6
    assert await counts(journal, "second") == {JobState.HELD: 4, JobState.SUCCEEDED: 2}
    for outcome, reference in zip(result, references_of(first), strict=False):
        error = outcome.error
        assert isinstance(error, AlikeRefundError)
        assert error.reference == reference
        assert error.refund_date is not None
        assert reference in str(error)
        assert "journal.resolve" in str(error)


async def test_what_is_held_stays_so_until_a_person_decides(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    orders = seeded(sandbox, 3, refund_amount=Decimal("5.00"))
    assert (await make().refund(orders, job=journal.job("first"))).ok
    for _ in range(2):  # held when it is run, and held when it is run again
        result = await make().refund(orders, job=other.job("second"))
        assert statuses(result) == [NOT_SENT] * 3
    assert all(isinstance(outcome.error, AlikeRefundError) for outcome in result)
    assert effects(sandbox, orders) == [1] * 3
    await other.resolve("second", orders[0], "not_sent", "another one is meant")
    await other.resolve("second", orders[1], "declined", "the first job did it")
    result = await make().resume(other.job("second"))
    assert statuses(result) == [SUCCEEDED, DECLINED, NOT_SENT]
    assert effects(sandbox, orders) == [2, 1, 1]
    assert statuses(await kept(other, "second")) == [SUCCEEDED, DECLINED, NOT_SENT]


class _Closed:
    """A limiter that lets nothing leave."""

    async def __aenter__(self) -> None:
        raise NotSentError("nothing was sent: the limiter is closed")

    async def __aexit__(self, *_: object) -> None: ...


async def test_a_journal_that_was_restored_moves_no_money_twice(
    sandbox: Sandbox, make: Make, tmp_path: Path
) -> None:
    path, backup = tmp_path / "journal.db", tmp_path / "backup.db"
    orders = seeded(sandbox, 6)
    once = RetryPolicy(attempts=1)
    async with Journal.open(f"sqlite:///{path}") as journal:
        result = await make(limiter=_Closed(), retry=once).refund(orders, job=journal.job("job"))
    assert statuses(result) == [NOT_SENT] * 6
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    async with Journal.open(f"sqlite:///{path}") as journal:
        assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6
    async with Journal.open(f"sqlite:///{backup}") as journal:
        result = await make().resume(journal.job("job"))
        assert await counts(journal) == {JobState.HELD: 6}
    assert statuses(result) == [NOT_SENT] * 6
    assert effects(sandbox, orders) == [1] * 6


async def test_another_amount_passes_and_so_do_alike_refunds_of_one_job(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, 2, refund_amount=Decimal("5.00"))
    assert (await make().refund(orders, job=journal.job("first"))).ok
    parts = [attrs.evolve(order, refund_amount=Decimal("2.00")) for order in orders]
    result = await make(policy=SERIAL).refund([*parts, *parts], job=journal.job("parts"))
    assert statuses(result) == [SUCCEEDED] * 4
    assert effects(sandbox, orders) == [3, 3]


async def test_alike_refunds_pass_where_the_guard_is_off(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, 2, refund_amount=Decimal("5.00"))
    off = RecoveryPolicy(settle_seconds=0, hold_alike_hours=None)
    for name in ("first", "second"):
        assert (await make(recovery=off).refund(orders, job=journal.job(name))).ok
    assert effects(sandbox, orders) == [2, 2]
