"""Payouts as a job: none is paid twice, and one in doubt is held for a person."""

import asyncio
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    Dialect,
    DuplicateOrderError,
    JobConflictError,
    JournalError,
    OutcomeUnknownError,
    PayoutRequest,
    PayoutResult,
    RetryPolicy,
)
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Latency, ResetBeforeEffect
from gateway_async.transport import AiohttpTransport
from tests.jobs.books import (
    DECLINED,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    Make,
    check_conserved,
    counts,
    kept,
    refuse,
    statuses,
    streamed,
)
from tests.jobs.paying import payouts_of
from tests.journal.tables import Tables

ROOT = Path(__file__).parents[2]
ONE_BY_ONE = BatchPolicy(concurrency=1)


def paid(sandbox: Sandbox, orders: Iterable[PayoutRequest]) -> list[int]:
    """Return how often each was paid."""
    return [len(sandbox.ledger.payouts_of(order.request_id)) for order in orders]


async def test_payouts_are_kept_paid_once_and_told_again(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    orders = payouts_of(60)
    first = await make().payouts(iter(orders), job=journal.job("job"))
    assert first.ok
    names = [outcome.record.transaction_id for outcome in first if outcome.record]
    again = await make().payouts(orders, job=other.job("job"))
    resumed = await make().resume(other.job("job"))
    for result in (again, resumed):
        check_conserved(result, orders)
        assert result.ok
        records: list[Any] = [outcome.record for outcome in result]
        assert all(isinstance(record, PayoutResult) for record in records)
        assert [record.transaction_id for record in records] == names
        assert [record.request_id for record in records] == [o.request_id for o in orders]
    assert sandbox.requests["payout"] == 60
    assert paid(sandbox, orders) == [1] * 60
    status = await other.status("job")
    assert (status.operation, status.done) == ("payout", True)


async def test_what_is_read_back_is_what_was_handed_in(
    make: Make, journal: Journal, other: Journal, sandbox: Sandbox
) -> None:
    orders = payouts_of(3, payment_amount=None, source_amount="1E+1", source_currency="EUR")
    await make().submit("payout", orders, job=journal.job("job"))
    outcomes = await kept(other)
    assert [outcome.order for outcome in outcomes] == orders
    assert str(outcomes[0].order.source_amount) == "1E+1"
    assert outcomes[0].order.beneficiary.person_documents[0].labels == ("front", "back")
    assert sandbox.requests.total() == 0


async def test_a_lost_reply_is_held_until_a_person_decides(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = payouts_of(5)
    gateway = make(policy=ONE_BY_ONE)
    sandbox.faults.add("payout", DropReply(times=1))
    sandbox.faults.add("payout", ResetBeforeEffect(times=1))
    result = await gateway.payouts(orders, job=journal.job("job"))
    assert statuses(result) == [UNKNOWN] * 2 + [SUCCEEDED] * 3
    assert await counts(journal) == {JobState.HELD: 2, JobState.SUCCEEDED: 3}
    for _ in range(2):  # a later run neither sends it again nor lets it go
        result = await gateway.resume(journal.job("job"))
        assert statuses(result) == [UNKNOWN] * 2 + [SUCCEEDED] * 3
    for outcome in result.unknown:
        assert isinstance(outcome.error, OutcomeUnknownError)
        assert outcome.error.request_id == outcome.order.request_id
        assert str(outcome.error).startswith(
            f"ask the gateway about request_id {outcome.order.request_id!r}"
        )
        assert str(outcome.error).count("decide (`resolve`)") == 1
    assert paid(sandbox, orders) == [1, 0, 1, 1, 1]
    await journal.resolve("job", orders[0].request_id.upper(), "succeeded", "they say it is paid")
    await journal.resolve("job", uuid.UUID(orders[1].request_id), "not_sent", "they never saw it")
    result = await gateway.resume(journal.job("job"))
    assert result.ok
    assert paid(sandbox, orders) == [1] * 5
    assert sandbox.requests["payout"] == 6


async def test_a_payout_of_two_jobs_at_once_is_paid_once(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    orders = payouts_of(20)
    batches = [
        make().payouts(orders[:15], job=journal.job("one")),
        make().payouts(orders[5:], job=other.job("two")),
        make().payouts(orders[::-1], job=journal.job("three")),
    ]
    ended = await asyncio.gather(*batches, return_exceptions=True)
    refused = [each for each in ended if isinstance(each, JobConflictError)]
    assert len(refused) == 2
    for error in refused:
        assert "has the request_id" in str(error)
        assert "which stands in job" in str(error)
    assert set(paid(sandbox, orders)) <= {0, 1}
    assert len([status for status in await journal.jobs() if status.imported]) == 1
    first = next(status.name for status in await journal.jobs() if status.imported)
    again = next(name for name in ("one", "two", "three") if name != first)
    with pytest.raises(JobConflictError, match=f"stands in job '{first}'"):
        await make().payouts(iter(orders), job=journal.job(again))
    assert set(paid(sandbox, orders)) <= {0, 1}


@pytest.mark.parametrize(
    ("state", "policy", "may"),
    [
        ("new", None, False),
        ("unknown", None, False),
        ("succeeded", None, False),
        ("declined", None, True),
        ("succeeded", BatchPolicy(duplicates="allow"), True),
    ],
)
async def test_a_payout_of_another_job(
    make: Make,
    journal: Journal,
    tables: Tables,
    state: str,
    policy: BatchPolicy | None,
    *,
    may: bool,
) -> None:
    orders = payouts_of(3)
    await make().submit("payout", orders, job=journal.job("first"))
    tables.put(state="declined")
    tables.put(1, state=state)
    second = make().submit("payout", orders[1:], job=journal.job("second"), policy=policy)
    if may:
        assert await second == 2
        return
    with pytest.raises(JobConflictError, match="its order 0 has the request_id"):
        await second
    assert not (await journal.status("second")).imported
    other = payouts_of(4)[3:]  # the name is free for other payouts
    assert await make().submit("payout", other, job=journal.job("second")) == 1


async def test_a_payout_that_the_gateway_deduplicates_may_be_in_two_jobs(
    make: Make, journal: Journal
) -> None:
    orders = payouts_of(2)
    gateway = make(dialect=Dialect(payout_deduplicates=True))
    for name in ("first", "second"):
        assert await gateway.submit("payout", orders, job=journal.job(name)) == 2


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_payout_that_another_job_has_begun_is_held(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal, *, is_lost: bool
) -> None:
    orders = payouts_of(6)
    deduplicating = make(dialect=attrs.evolve(sandbox.dialect, payout_deduplicates=True))
    await make().submit("payout", orders[:5], job=journal.job("first"))
    await deduplicating.submit("payout", orders, job=journal.job("second"))
    if is_lost:
        sandbox.faults.add("payout", DropReply(times=1))
    paying = make(policy=ONE_BY_ONE)
    begun = await paying.resume(journal.job("first"), slice_number=1)
    for _ in range(2):
        result = await paying.resume(other.job("second"), slice_number=1)
        assert statuses(result) == [NOT_SENT] * 5 + [SUCCEEDED]
        for outcome in result.not_sent:
            assert isinstance(outcome.error, DuplicateOrderError)
            assert f"job 'first' has the request_id {outcome.order.request_id!r}" in str(
                outcome.error
            )
    assert statuses(begun)[0] is (UNKNOWN if is_lost else SUCCEEDED)
    assert paid(sandbox, orders) == [1] * 6
    await other.resolve("second", 1, "not_sent", "it is meant twice")
    await other.resolve("second", [0, 2, 3, 4], "declined", "the first job has it")
    result = await paying.resume(other.job("second"), slice_number=1)
    assert statuses(result) == [DECLINED, SUCCEEDED] + [DECLINED] * 3 + [SUCCEEDED]
    assert paid(sandbox, orders) == [1, 2, 1, 1, 1, 1]


async def test_two_jobs_with_the_same_payouts_at_once_pay_each_once(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    orders = payouts_of(30)
    deduplicating = make(dialect=attrs.evolve(sandbox.dialect, payout_deduplicates=True))
    await deduplicating.submit("payout", orders, job=journal.job("one"))
    await deduplicating.submit("payout", orders[::-1], job=journal.job("two"))
    results = await asyncio.gather(
        make().resume(journal.job("one"), slice_number=1),
        make().resume(other.job("two"), slice_number=1),
    )
    assert paid(sandbox, orders) == [1] * 30
    assert sum(len(result.succeeded) for result in results) == 30
    assert sum(len(result.not_sent) for result in results) == 30


async def test_a_payout_reads_the_same_from_the_journal(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = payouts_of(3, client_data="café \0", source_amount="9.50", source_currency="USD")
    sandbox.faults.add("payout", DropReply(times=1))
    first = await make(policy=ONE_BY_ONE).payouts(orders, job=journal.job("job"))
    again = await make().payouts(orders, job=journal.job("job"))
    assert statuses(again) == statuses(first) == [UNKNOWN] + [SUCCEEDED] * 2
    assert again.to_dicts()[1:] == first.to_dicts()[1:]
    record: Any = again[1].record
    assert record.status == "COMPLETED"
    assert record.beneficiary.bank_details.account_number == "DE00000001"


async def test_a_person_may_say_that_it_was_not_paid(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = payouts_of(3)
    sandbox.faults.add("payout", ResetBeforeEffect(times=2))
    await make(policy=ONE_BY_ONE).payouts(orders, job=journal.job("job"))
    await journal.resolve("job", [orders[0], orders[1].request_id], "declined", "paid by hand")
    result = await make().payouts(orders, job=journal.job("job"))
    assert statuses(result) == [DECLINED, DECLINED, SUCCEEDED]
    assert paid(sandbox, orders) == [0, 0, 1]
    with pytest.raises(JournalError, match="an operator decides only on what is unknown or held"):
        await journal.resolve("job", orders[2].request_id, "not_sent", "again")
    with pytest.raises(JournalError, match="has no order of request_id 'nobody'"):
        await journal.resolve("job", "nobody", "not_sent", "again")


async def test_other_payouts_under_the_same_name_are_refused(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = payouts_of(60)
    assert (await make().payouts(orders, job=journal.job("job"))).ok
    others = [*orders]
    beneficiary: Any = orders[57].beneficiary
    bank = attrs.evolve(beneficiary.bank_details, account_number="DE99")
    beneficiary = attrs.evolve(beneficiary, bank_details=bank)
    others[57] = attrs.evolve(orders[57], beneficiary=beneficiary)
    with pytest.raises(JobConflictError, match=r"order 57 is .* differs in beneficiary") as caught:
        await make().payouts(others, job=journal.job("job"))
    assert "DE99" not in str(caught.value)
    assert "DE00000057" not in str(caught.value)
    with pytest.raises(DuplicateOrderError):
        await make().payouts([orders[0]] * 2, job=journal.job("another"))
    assert paid(sandbox, orders) == [1] * 60


async def test_payouts_in_slices(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    orders = payouts_of(9)
    sandbox.faults.add("payout", DropReply(times=1))
    assert await make().submit("payout", orders, job=journal.job("job"), slice_size=4) == 9
    first = await make(policy=ONE_BY_ONE).resume(journal.job("job"), slice_number=1)
    rest = await asyncio.gather(
        make().resume(journal.job("job"), slice_number=2),
        make().resume(other.job("job"), slice_number=3),
    )
    assert statuses(first) == [UNKNOWN] + [SUCCEEDED] * 3
    assert [len(result.succeeded) for result in rest] == [4, 1]
    assert [part.finished for part in await journal.slices("job")] == [True] * 3
    await journal.resolve("job", orders[0].request_id, "succeeded", "paid")
    assert statuses(await kept(journal)) == [SUCCEEDED] * 9
    assert paid(sandbox, orders) == [1] * 9


@pytest.mark.slow
async def test_a_process_that_is_killed_pays_nothing_twice(
    sandbox: Sandbox, make: Make, journal: Journal, url: str
) -> None:
    orders = payouts_of(12)
    sandbox.faults.add("payout", Latency(seconds=0.05))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.jobs.paying", url, sandbox.base_url, "12"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    seen: set[int] = set()
    try:
        async with asyncio.timeout(60):
            while len(seen) < 4:
                seen.add(int(await process.stdout.readline()))
    finally:
        process.kill()
        await process.communicate()
    before = await counts(journal)
    assert before[JobState.INTENT] > 0
    assert before[JobState.NEW] > 0
    result = await make().payouts(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert result.counts[UNKNOWN] == before[JobState.INTENT]
    assert result.counts[SUCCEEDED] == 12 - before[JobState.INTENT]
    assert all(result[index].status is SUCCEEDED for index in seen)
    for outcome in result.unknown:
        assert f"request_id {outcome.order.request_id!r}" in str(outcome.error)
        assert "in flight when its process ended" in str(outcome.error)
    times = paid(sandbox, orders)
    assert set(times) <= {0, 1}
    assert all(times[outcome.index] == 1 for outcome in result.succeeded)
    for outcome in result.unknown:  # now the gateway was asked
        said = "succeeded" if times[outcome.index] else "not_sent"
        await journal.resolve("job", outcome.order.request_id, said, "the gateway says so")
    assert (await make().resume(journal.job("job"))).ok
    assert paid(sandbox, orders) == [1] * 12


async def test_what_was_not_sent_is_paid_by_the_next_run(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = payouts_of(9)
    sandbox.faults.add("payout", DropReply(times=2))
    policy = attrs.evolve(ONE_BY_ONE, stop_after_unknown=2)
    outcomes = await streamed(make(policy=policy).payouts(orders, job=journal.job("job")))
    told = {outcome.index: outcome.status for outcome in outcomes}
    assert [told[index] for index in range(9)] == [UNKNOWN] * 2 + [NOT_SENT] * 7
    result = await make().resume(journal.job("job"))
    assert statuses(result) == [UNKNOWN] * 2 + [SUCCEEDED] * 7
    assert paid(sandbox, orders) == [1] * 9


async def test_a_request_id_is_told_whole_although_it_looks_like_a_card_number(
    sandbox: Sandbox, make: Make, journal: Journal, tables: Tables
) -> None:
    request_id = "41111111-1111-1111-8111-111111111114"
    (order,) = payouts_of(1)
    sandbox.faults.add("payout", DropReply(times=1))
    order = attrs.evolve(order, request_id=request_id)
    result: Any = await make().payouts([order], job=journal.job("job"))
    (outcome,) = result.unknown
    assert str(outcome.error).count(request_id) == 2  # whom to ask about, and what was sent
    assert "*" not in str(outcome.error)
    assert tables.states() == ["held"]


async def test_a_payout_that_stands_in_a_job_twice_is_paid_once_whatever_the_dialect_said(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (order,) = payouts_of(1)
    deduplicating = attrs.evolve(sandbox.dialect, payout_deduplicates=True)
    serial = BatchPolicy(duplicates="serialize")
    with monkeypatch.context() as patched:
        patched.setattr(AiohttpTransport, "send", refuse)
        first = make(dialect=deduplicating, retry=RetryPolicy(attempts=1))
        result = await first.payouts([order, order], job=journal.job("job"), policy=serial)
        assert statuses(result) == [NOT_SENT] * 2
    resumed = await make().resume(journal.job("job"))
    assert statuses(resumed) == [SUCCEEDED, NOT_SENT]
    assert paid(sandbox, [order]) == [1]


@pytest.mark.parametrize(
    ("duplicates", "is_lost"), [("serialize", True), ("serialize", False), ("allow", False)]
)
async def test_a_payout_that_was_sent_is_not_sent_again_under_another_dialect(
    sandbox: Sandbox, make: Make, journal: Journal, *, is_lost: bool, duplicates: str
) -> None:
    order, other = payouts_of(2)
    deduplicating = attrs.evolve(sandbox.dialect, payout_deduplicates=True)
    policy = BatchPolicy(concurrency=1, duplicates=duplicates)
    if is_lost:
        sandbox.faults.add("payout", DropReply(times=9))
    first = make(dialect=deduplicating, retry=RetryPolicy(attempts=1))
    job = journal.job("job")
    async with first.payouts([order, other, order], job=job, policy=policy) as batch:
        async for _ in batch:
            break
    sandbox.faults.clear()
    resumed = await make().resume(job)
    assert paid(sandbox, [order]) == [1]
    assert statuses(resumed)[0] is (UNKNOWN if is_lost else SUCCEEDED)
