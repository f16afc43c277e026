"""Payouts as a job: none is paid twice, and one in doubt is held for a person."""

import asyncio
import threading
import uuid
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    DuplicateOrderError,
    JobConflictError,
    OutcomeUnknownError,
    PayoutRequest,
    PayoutResult,
)
from gateway_async.journal import OrderState, submit
from gateway_async.journal.database import Transaction
from gateway_async.sandbox.faults import DropReply, ResetBeforeEffect
from tests.jobs.conftest import Shop
from tests.journal.tables import on_a_file
from tests.support import examples
from tests.support.books import DECLINED, SUCCEEDED, UNKNOWN, check_conserved, statuses
from tests.support.orders import payout_request

ONE_BY_ONE = BatchPolicy(concurrency=1, stop_after_unknown=9)


def payouts_of(count: int, **changes: Any) -> list[PayoutRequest]:
    """Return payouts; the last one has every field."""
    full = attrs.evolve(examples.full(PayoutRequest), request_id=uuid.UUID(int=count))
    made = [*(payout_request(number) for number in range(1, count)), full]
    return [attrs.evolve(one, **changes) for one in made]


async def submitted(shop: Shop, orders: list[PayoutRequest], name: str, **settings: Any) -> int:
    kept: int = await shop.client(**settings).submit("payout", orders, job=shop.journal.job(name))
    return kept


async def test_payouts_are_kept_paid_once_and_told_again(shop: Shop) -> None:
    given = {"client_data": "café \0", "source_amount": "1E+1", "source_currency": "USD"}
    orders = payouts_of(9, **given)
    first = await shop.batch("payout", iter(orders))
    assert first.ok
    for result in (await shop.elsewhere.batch("payout", orders), await shop.elsewhere.resume()):
        check_conserved(result, orders)
        assert result.to_dicts() == first.to_dicts()
        record: Any = result[8].record
        assert isinstance(result[8].record, PayoutResult)
        assert (record.request_id, record.status) == (orders[8].request_id, "COMPLETED")
        assert record.beneficiary.bank_details.account_number == "<account_number>"
    assert shop.sandbox.requests["payout"] == 9
    beneficiary: Any = orders[8].beneficiary
    bank = attrs.evolve(beneficiary.bank_details, account_number="DE99")
    changed = attrs.evolve(orders[8], beneficiary=attrs.evolve(beneficiary, bank_details=bank))
    with pytest.raises(JobConflictError, match=r"order 8 is .* differs in beneficiary") as caught:
        await shop.batch("payout", [*orders[:8], changed])
    assert not any(secret in str(caught.value) for secret in ("DE99", "<account_number>"))
    assert shop.effects(orders) == [1] * 9


async def test_a_payout_in_doubt_is_held(shop: Shop) -> None:
    orders = payouts_of(6)
    # One whose digits look like a card number is written whole all the same.
    orders[2] = attrs.evolve(orders[2], request_id="41111111-1111-1111-8111-111111111114")
    shop.sandbox.faults.add("payout", DropReply(times=1))
    shop.sandbox.faults.add("payout", ResetBeforeEffect(times=2))
    result = await shop.batch("payout", orders, policy=ONE_BY_ONE)
    assert statuses(result) == [UNKNOWN] * 3 + [SUCCEEDED] * 3
    assert await shop.counts() == {OrderState.HELD: 3, OrderState.SUCCEEDED: 3}
    for _ in range(2):  # a later run neither sends it again nor lets it go
        result = await shop.resume()
        assert statuses(result) == [UNKNOWN] * 3 + [SUCCEEDED] * 3
    for outcome in result.unknown:
        assert isinstance(outcome.error, OutcomeUnknownError)
        assert outcome.error.request_id == outcome.order.request_id
        said = str(outcome.error)
        assert said.startswith(f"ask the gateway about request_id {outcome.order.request_id!r}")
        assert said.count(outcome.order.request_id) == 2  # whom to ask about, and what was sent
        assert said.count("decide (`resolve`)") == 1
        assert "*" not in said
    assert shop.effects(orders) == [1, 0, 0, 1, 1, 1]
    await shop.journal.resolve(
        "job", orders[0].request_id.upper(), "succeeded", "they say it is paid"
    )
    await shop.journal.resolve(
        "job", uuid.UUID(orders[1].request_id), "not_sent", "they never saw it"
    )
    await shop.journal.resolve("job", orders[2], "declined", "paid by hand")
    result = await shop.resume()
    assert statuses(result) == [SUCCEEDED] * 2 + [DECLINED] + [SUCCEEDED] * 3
    assert shop.effects(orders) == [1, 1, 0, 1, 1, 1]
    assert shop.sandbox.requests["payout"] == 7


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)  # SQLite has one writer
async def test_payouts_that_two_jobs_submit_at_once_are_kept_by_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has kept them, and not committed that yet, when the second looks."""
    orders = payouts_of(20)
    is_kept, is_looked_at = threading.Event(), threading.Event()
    add, lock = submit._add_payouts, Transaction.lock

    def add_slowly(*given: Any, repeats: bool) -> None:
        add(*given, repeats=repeats)
        if not is_kept.is_set():
            is_kept.set()
            assert is_looked_at.wait(120)
        is_looked_at.set()

    def lock_late(transaction: Transaction, number: int) -> None:
        if is_kept.is_set():
            is_looked_at.set()
        lock(transaction, number)

    monkeypatch.setattr(submit, "_add_payouts", add_slowly)
    monkeypatch.setattr(Transaction, "lock", lock_late)
    first = asyncio.create_task(submitted(shop, orders[:15], "one"))
    assert await asyncio.to_thread(is_kept.wait, 120)
    with pytest.raises(JobConflictError, match="which stands in job 'one'"):
        await submitted(shop.elsewhere, orders[5:], "two")
    assert await first == 15
    assert [status.name for status in await shop.journal.jobs()] == ["one"]


@pytest.mark.parametrize(
    ("state", "duplicates", "may"),
    [
        *((state, "reject", False) for state in ("new", "unknown", "succeeded")),
        ("declined", "reject", True),
        *((state, "allow", False) for state in ("new", "intent")),
        *((state, "allow", True) for state in ("unknown", "succeeded")),
    ],
)
async def test_a_payout_of_another_job(shop: Shop, state: str, duplicates: str, may: bool) -> None:
    orders, policy = payouts_of(4), BatchPolicy(duplicates=duplicates)
    await submitted(shop, orders[:3], "first")
    shop.tables.put(state="declined")
    shop.tables.put(1, state=state)
    if may:
        assert await submitted(shop, orders[1:3], "second", policy=policy) == 2
        return
    with pytest.raises(JobConflictError, match="its order 0 has the request_id"):
        await submitted(shop, orders[1:3], "second", policy=policy)
    assert [status.name for status in await shop.journal.jobs()] == ["first"]
    # The name is free for others.
    assert await submitted(shop, orders[3:], "second", policy=policy) == 1


@on_a_file
@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
async def test_a_payout_stands_in_a_job_once_whatever_the_gateway_does(
    shop: Shop, duplicates: str
) -> None:
    order, other = payouts_of(2)
    policy = BatchPolicy(duplicates=duplicates)
    deduplicating = attrs.evolve(shop.sandbox.dialect, payout_deduplicates=True)
    for dialect in (deduplicating, shop.sandbox.dialect):
        twice = shop.batch("payout", iter([order, other, order]), policy=policy, dialect=dialect)
        with pytest.raises(DuplicateOrderError, match=r"order 2: .*stands in this batch already"):
            await twice
    await submitted(shop, [order], "first")
    with pytest.raises(JobConflictError, match="stands in job 'first'"):
        await submitted(shop, [order, other], "second", dialect=deduplicating)
