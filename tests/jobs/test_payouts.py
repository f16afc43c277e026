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
    GatewayClient,
    JobConflictError,
    OutcomeUnknownError,
    PayoutRequest,
    PayoutResult,
    RetryPolicy,
)
from gateway_async.journal import Journal, OrderState, submit
from gateway_async.journal.database import Transaction
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, ResetBeforeEffect
from tests.jobs.books import counts
from tests.journal.tables import Tables, on_a_file
from tests.support import examples
from tests.support.books import DECLINED, SUCCEEDED, UNKNOWN, check_conserved, effects, statuses
from tests.support.orders import Make, payout_request

ONE_BY_ONE = BatchPolicy(concurrency=1, stop_after_unknown=9)


@pytest.fixture
def deduplicating(sandbox: Sandbox, make: Make) -> GatewayClient:
    """A client whose gateway is said to pay each `request_id` once."""
    dialect = attrs.evolve(sandbox.dialect, payout_deduplicates=True)
    return make(dialect=dialect, retry=RetryPolicy(attempts=1))


def payouts_of(count: int, **changes: Any) -> list[PayoutRequest]:
    """Return payouts; the last one has every field."""
    full = attrs.evolve(examples.payout_request(), request_id=uuid.UUID(int=count))
    made = [*(payout_request(number) for number in range(1, count)), full]
    return [attrs.evolve(one, **changes) for one in made]


async def test_payouts_are_kept_paid_once_and_told_again(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    given = {"client_data": "café \0", "source_amount": "1E+1", "source_currency": "USD"}
    orders = payouts_of(9, **given)
    first = await make().payouts(iter(orders), job=journal.job("job"))
    assert first.ok
    for result in (
        await make().payouts(orders, job=other.job("job")),
        await make().resume(other.job("job")),
    ):
        check_conserved(result, orders)
        assert result.to_dicts() == first.to_dicts()
        record: Any = result[8].record
        assert isinstance(result[8].record, PayoutResult)
        assert (record.request_id, record.status) == (orders[8].request_id, "COMPLETED")
        assert record.beneficiary.bank_details.account_number == "<account_number>"
    assert sandbox.requests["payout"] == 9
    beneficiary: Any = orders[8].beneficiary
    bank = attrs.evolve(beneficiary.bank_details, account_number="DE99")
    changed = attrs.evolve(orders[8], beneficiary=attrs.evolve(beneficiary, bank_details=bank))
    with pytest.raises(JobConflictError, match=r"order 8 is .* differs in beneficiary") as caught:
        await make().payouts([*orders[:8], changed], job=journal.job("job"))
    assert not any(secret in str(caught.value) for secret in ("DE99", "<account_number>"))
    assert effects(sandbox, orders) == [1] * 9


async def test_a_payout_in_doubt_is_held(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    orders = payouts_of(6)
    # One whose digits look like a card number is written whole all the same.
    orders[2] = attrs.evolve(orders[2], request_id="41111111-1111-1111-8111-111111111114")
    gateway = make(policy=ONE_BY_ONE)
    sandbox.faults.add("payout", DropReply(times=1))
    sandbox.faults.add("payout", ResetBeforeEffect(times=2))
    result = await gateway.payouts(orders, job=journal.job("job"))
    assert statuses(result) == [UNKNOWN] * 3 + [SUCCEEDED] * 3
    assert await counts(journal) == {OrderState.HELD: 3, OrderState.SUCCEEDED: 3}
    for _ in range(2):  # a later run neither sends it again nor lets it go
        result = await gateway.resume(journal.job("job"))
        assert statuses(result) == [UNKNOWN] * 3 + [SUCCEEDED] * 3
    for outcome in result.unknown:
        assert isinstance(outcome.error, OutcomeUnknownError)
        assert outcome.error.request_id == outcome.order.request_id
        said = str(outcome.error)
        assert said.startswith(f"ask the gateway about request_id {outcome.order.request_id!r}")
        assert said.count(outcome.order.request_id) == 2  # whom to ask about, and what was sent
        assert said.count("decide (`resolve`)") == 1
        assert "*" not in said
    assert effects(sandbox, orders) == [1, 0, 0, 1, 1, 1]
    await journal.resolve("job", orders[0].request_id.upper(), "succeeded", "they say it is paid")
    await journal.resolve("job", uuid.UUID(orders[1].request_id), "not_sent", "they never saw it")
    await journal.resolve("job", orders[2], "declined", "paid by hand")
    result = await gateway.resume(journal.job("job"))
    assert statuses(result) == [SUCCEEDED] * 2 + [DECLINED] + [SUCCEEDED] * 3
    assert effects(sandbox, orders) == [1, 1, 0, 1, 1, 1]
    assert sandbox.requests["payout"] == 7


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)  # SQLite has one writer
async def test_payouts_that_two_jobs_submit_at_once_are_kept_by_one(
    make: Make, journal: Journal, other: Journal, monkeypatch: pytest.MonkeyPatch
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
    first = asyncio.create_task(make().submit("payout", orders[:15], job=journal.job("one")))
    assert await asyncio.to_thread(is_kept.wait, 120)
    with pytest.raises(JobConflictError, match="which stands in job 'one'"):
        await make().submit("payout", orders[5:], job=other.job("two"))
    assert await first == 15
    assert [status.name for status in await journal.jobs()] == ["one"]


@pytest.mark.parametrize(
    ("state", "duplicates", "may"),
    [
        ("new", "reject", False),
        ("unknown", "reject", False),
        ("succeeded", "reject", False),
        ("declined", "reject", True),
        ("new", "allow", False),
        ("intent", "allow", False),
        ("unknown", "allow", True),
        ("succeeded", "allow", True),
    ],
)
async def test_a_payout_of_another_job(
    make: Make, journal: Journal, tables: Tables, state: str, duplicates: str, may: bool
) -> None:
    orders = payouts_of(4)
    await make().submit("payout", orders[:3], job=journal.job("first"))
    tables.put(state="declined")
    tables.put(1, state=state)
    gateway, job = make(policy=BatchPolicy(duplicates=duplicates)), journal.job("second")
    if may:
        assert await gateway.submit("payout", orders[1:3], job=job) == 2
        return
    with pytest.raises(JobConflictError, match="its order 0 has the request_id"):
        await gateway.submit("payout", orders[1:3], job=job)
    assert [status.name for status in await journal.jobs()] == ["first"]
    assert await gateway.submit("payout", orders[3:], job=job) == 1  # the name is free for others


@on_a_file
@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
async def test_a_payout_stands_in_a_job_once_whatever_the_gateway_does(
    make: Make, deduplicating: GatewayClient, journal: Journal, duplicates: str
) -> None:
    order, other = payouts_of(2)
    policy = BatchPolicy(duplicates=duplicates)
    for gateway in (deduplicating, make()):
        twice = gateway.payouts(iter([order, other, order]), job=journal.job("job"), policy=policy)
        with pytest.raises(DuplicateOrderError, match=r"order 2: .*stands in this batch already"):
            await twice
    await make().submit("payout", [order], job=journal.job("first"))
    with pytest.raises(JobConflictError, match="stands in job 'first'"):
        await deduplicating.submit("payout", [order, other], job=journal.job("second"))
