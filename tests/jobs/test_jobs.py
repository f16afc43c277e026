"""A job does what a batch does, once, however often it is run; or nothing, with a wrong order."""

import asyncio
import gc
import itertools
import tracemalloc
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    ConfigurationError,
    Credentials,
    Dialect,
    GatewayClient,
    HmacSigner,
    InvalidOrderError,
    OutcomeStatus,
    RefundOrder,
)
from gateway_async.errors import JobConflictError, JobNotFoundError, NotSentError
from gateway_async.jobs import input as job_input, recorder, work
from gateway_async.journal import Journal, OrderState, chunk_store
from gateway_async.journal.rows import Merchant
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, ResetBeforeEffect
from tests.jobs.conftest import Shop, references_of, refuse
from tests.journal.tables import kept, on_a_file
from tests.support.books import DECLINED, NOT_SENT, SUCCEEDED, check_conserved, statuses, streamed
from tests.support.interruptions import until
from tests.support.memory import Asked, Handler, HttpRequest, MemoryTransport, client_over, listing
from tests.support.orders import (
    LOOK_UPS,
    MONEY_OPERATIONS,
    RESENDING,
    awaited,
    made_up,
    make_client,
    orders_for,
    references,
    refunds,
    reply_to,
)

INPUTS: list[Any] = [list, iter, awaited, list]
LATE = BatchPolicy(deadline_seconds=1e-9)


async def test_a_result_is_freed_once_its_caller_drops_it(shop: Shop) -> None:
    orders, freed = shop.orders(4), list[bool]()
    makes: tuple[Callable[[], Any], ...] = (
        lambda: shop.client().refund(orders),
        lambda: shop.refund(orders),
        shop.resume,
    )
    gc.disable()  # a large one would wait long for it
    try:
        for make, is_streamed in itertools.product(makes, (False, True)):
            batch = make()
            if is_streamed:
                async with batch:
                    await anext(batch)
                dropped = weakref.ref(batch.result)
            else:
                dropped = weakref.ref(await batch)
            del batch
            freed.append(dropped() is None)
    finally:
        gc.enable()
    assert freed == [True] * 6


@pytest.mark.parametrize(("operation", "given"), [*zip(MONEY_OPERATIONS, INPUTS, strict=True)])
async def test_the_same_line_again_sends_nothing_and_says_the_same(
    shop: Shop, operation: str, given: Any
) -> None:
    orders = shop.orders(5, operation)
    batch = shop.batch(operation, given(orders))
    first = await batch
    assert first.ok
    check_conserved(first, orders)
    assert shop.effects(orders) == [1] * 5
    before = shop.sandbox.requests.total()
    assert (batch.progress.total, batch.progress.requests, first.requests) == (5, before, before)
    for again in (await shop.batch(operation, given(orders)), await shop.elsewhere.resume()):
        assert again.ok
        check_conserved(again, orders)
        assert again.requests == 0
        if operation == "refund":
            assert references_of(again) == references_of(await shop.kept()) == references_of(first)
    assert shop.sandbox.requests.total() == before


@on_a_file
@pytest.mark.parametrize("given", [list, iter])
async def test_a_deadline_that_passes_before_the_job_begins_loses_no_order(
    shop: Shop, given: Any
) -> None:
    orders = shop.orders(5)
    for result in (await shop.refund(given(orders), policy=LATE), await shop.resume(policy=LATE)):
        check_conserved(result, orders)
        assert statuses(result) == [NOT_SENT] * 5
        assert "the deadline had passed" in str(result[0].error)
        assert result.exhausted
    assert shop.sandbox.requests.total() == 0
    assert (await shop.resume()).ok


async def _pausing(orders: list[Any]) -> AsyncIterator[Any]:
    yield orders[0]
    await asyncio.Event().wait()


def _raising(orders: list[Any]) -> Iterator[Any]:
    yield orders[0]
    raise LookupError("the file ended")


@on_a_file
@pytest.mark.parametrize("use", [streamed, lambda batch: asyncio.wait_for(batch, 5)])
@pytest.mark.parametrize(
    ("given", "seconds", "error", "said"),
    [
        (_pausing, 0.01, NotSentError, "before all of its orders were kept"),
        (_raising, None, LookupError, "the file ended"),
    ],
)
async def test_of_an_input_that_does_not_come_to_its_end_nothing_is_sent_or_left(
    shop: Shop, use: Any, given: Any, seconds: float | None, error: type[Exception], said: str
) -> None:
    orders = shop.orders()
    batch = shop.refund(given(orders), policy=BatchPolicy(deadline_seconds=seconds))
    with pytest.raises(error, match=said):
        await use(batch)
    assert (len(batch.result), batch.result.exhausted) == (0, False)
    assert shop.sandbox.requests.total() == 0
    with pytest.raises(JobNotFoundError):
        await shop.resume()
    check_conserved(await shop.refund(orders), orders)


@on_a_file
async def test_a_job_goes_on_in_smaller_requests(shop: Shop) -> None:
    orders = shop.orders(12)
    unsent = await shop.refund(orders, before=refuse, policy=BatchPolicy(chunk_size=4))
    assert statuses(unsent) == [NOT_SENT] * 12
    check_conserved(await shop.resume(policy=BatchPolicy(chunk_size=3, concurrency=1)), orders)
    assert shop.effects(orders) == [1] * 12
    assert shop.sandbox.requests["refund"] > 12 // 4


@on_a_file
async def test_the_next_page_of_a_job_is_read_while_orders_of_this_one_are_sent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    select, pages = chunk_store.ChunkStore.select, list[int]()
    read_by_then: list[list[int]] = []

    def note(orders: Any, states: Any, span: range = chunk_store.ANYWHERE, **how: Any) -> Any:
        if states == (OrderState.NEW,):
            pages.append(span.start)
        return select(orders, states, span, **how)

    async def look(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            read_by_then.append([*pages])

    monkeypatch.setattr(chunk_store.ChunkStore, "select", note)
    monkeypatch.setattr(recorder, "_NEW_AT_ONCE", 20)
    client = shop.client(look, policy=BatchPolicy(concurrency=1, chunk_size=1))
    await client.refund(shop.orders(21), job=shop.journal.job("job"))
    assert (read_by_then[0], read_by_then[19]) == ([0], [0, 20])


@on_a_file
@pytest.mark.parametrize("operation", ["capture", "refund"])
async def test_what_is_declined_among_others_is_kept_as_declined(
    journal: Journal, operation: str
) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        reply = asked.done()
        if asked.operation.status_field == f"{operation}_status":
            reply[asked.operation.list_field][1][f"{operation}_status"] = "0"
        return reply

    client = client_over(answer, dialect=Dialect(declined_statuses={"0"}))
    orders = orders_for(operation, made_up(3))
    result = await client.batch(operation, orders, job=journal.job("job"))
    told = await kept(journal)
    assert statuses(result) == statuses(told) == [SUCCEEDED, DECLINED, SUCCEEDED]


@on_a_file
async def test_reasons_are_noted_of_so_many_orders_only(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_MOST_REASONS", 3)
    orders = [attrs.evolve(order, refund_amount=Decimal("0.255")) for order in refunds(5)]
    transport, job = MemoryTransport(listing([])), journal.job("job")
    precise = client_over(transport, dialect=Dialect(currency_places={"EUR": 3}))
    await precise.refund(orders, job=job, policy=LATE)
    result = await client_over(transport).resume(job)
    check_conserved(result, orders)
    assert statuses(result) == [NOT_SENT] * 5
    kinds = [type(outcome.error) for outcome in result]
    assert kinds == [InvalidOrderError] * 3 + [NotSentError] * 2
    assert "nothing was sent: this run did not send it" in str(result[4].error)
    assert not transport.asked


@on_a_file
async def test_what_was_unknown_and_proved_not_done_is_not_sent_where_the_job_has_stopped(
    shop: Shop,
) -> None:
    """Why it was unknown is not why it is not sent."""
    orders = shop.orders(3)
    one_by_one = BatchPolicy(concurrency=1, chunk_size=1, stop_after_unknown=1)
    async with shop.refund(orders, policy=one_by_one, recovery=RESENDING) as batch:
        told = [await anext(batch)]  # no more is sent before this is taken
        shop.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
        told += [outcome async for outcome in batch]
    assert statuses(told) == [SUCCEEDED, NOT_SENT, NOT_SENT]
    assert all("stop_after_unknown" in str(outcome.error) for outcome in told[1:])
    assert shop.effects(orders) == [1, 0, 0]
    assert (await shop.resume(recovery=RESENDING)).ok
    assert shop.effects(orders) == [1, 1, 1]


@on_a_file
async def test_a_stream_that_is_left_waits_for_no_room(shop: Shop) -> None:
    orders = shop.orders()
    await shop.refund(orders)
    async with shop.resume(policy=BatchPolicy(concurrency=1, drain_seconds=3600)) as batch:
        await until(lambda: batch.progress.done == len(orders))  # and none of them is taken
    check_conserved(batch.result, orders)


@on_a_file
@pytest.mark.parametrize("given", [list, iter])
@pytest.mark.parametrize("how", ["awaited", "streamed", "submitted"])
async def test_nothing_is_sent_or_left_of_orders_with_a_wrong_one_or_a_duplicate(
    shop: Shop, how: str, given: Any
) -> None:
    orders: list[Any] = refunds(1200)
    begin: Any = {
        "awaited": shop.refund,
        "streamed": lambda given: streamed(shop.refund(given)),
        "submitted": lambda given: shop.make().submit("refund", given, job=shop.journal.job("job")),
    }[how]
    for wrong in ("no order", orders[0]):
        with pytest.raises(InvalidOrderError, match="1200"):
            await begin(given([*orders, wrong]))
        assert shop.tables.run("SELECT count(*) FROM gateway_orders") == [(0,)]
    assert shop.sandbox.requests.total() == 0
    orders = shop.orders()
    check_conserved(await shop.refund(given(orders)), orders)  # a corrected line works
    with pytest.raises(InvalidOrderError, match=r"; this run sent nothing$"):
        await shop.refund(iter([*orders[:3], 7]))
    assert shop.effects(orders) == [1] * 6


# What a streamed job needs of memory does not grow with its orders

FEW, MANY, PAGE = 500, 1_000, 100
MOST_GROWTH = 250
"""Bytes an order, at most; an order that is kept takes about 1,000."""


def _made_before(asked: Asked) -> Any:
    """Answer as if each refund were made just now by another job."""
    if asked.operation.name != "search_refunds":
        return asked.done()
    made = {"refund_amount": "1.00", "refund_reference_id": "R1"}
    return reply_to("search_refunds", [{**made, "transaction_id": t} for t in asked.transactions])


async def _peak(batch: Any, count: int, status: OutcomeStatus) -> int:
    """Return the most bytes that were held while a batch was streamed."""
    gc.collect()
    gc.disable()  # a full collection empties the lists in which CPython keeps tuples for later,
    [tuple(range(size)) for size in range(20) for _ in range(2000)]  # and filling them is no growth
    tracemalloc.start()
    try:
        async with batch:
            assert {outcome.status async for outcome in batch} == {status}
        assert batch.progress.done == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@on_a_file
@pytest.mark.parametrize(("answer", "status"), [(listing([]), SUCCEEDED), (_made_before, NOT_SENT)])
async def test_a_stream_and_its_resume_stay_small(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, answer: Handler, status: OutcomeStatus
) -> None:
    for room, name in (
        (job_input, "_SUBMITTED_AT_ONCE"),
        (recorder, "_NEW_AT_ONCE"),
        (work, "_READ_AT_ONCE"),
        (chunk_store, "_ORDERS_AT_ONCE"),
    ):
        monkeypatch.setattr(room, name, PAGE)

    def given(count: int) -> Iterator[RefundOrder]:
        return (orders_for("refund", made_up(1, number))[0] for number in range(count))

    forgetful: Any = deque(maxlen=0)
    policy = BatchPolicy(duplicates="allow", concurrency=1)
    streams, resumes = list[int](), list[int]()
    async with client_over(MemoryTransport(answer, forgetful), policy=policy) as gateway:
        await gateway.refund(given(10), job=journal.job("what is loaded at first use"))
        for count in (FEW, MANY):
            job = journal.job(f"job {count}")
            streams.append(await _peak(gateway.refund(given(count), job=job), count, status))
            resumes.append(await _peak(gateway.resume(job), count, status))
    for few, many in (streams, resumes):
        assert many - few < MOST_GROWTH * (MANY - FEW)


# A name belongs to one job: what else is asked of it is refused, and nothing is sent


async def _refused(batch: Any, said: str) -> None:
    with pytest.raises(JobConflictError, match=said) as caught:
        await batch
    assert caught.value.job == "job"


async def test_other_orders_or_subject(shop: Shop) -> None:
    given = shop.orders(51)  # the last is of another block in the journal
    await shop.refund(given)
    shop.sandbox.requests.clear()
    changed = [
        [*given[:-1], attrs.evolve(given[-1], **{field: value})]
        for field, value in (("refund_amount", "2.00"), ("refund_reason", "torn"))
    ]
    for orders, said in (
        (given + shop.orders(1), "it has 51 in all, and 52 were given"),
        (given[::-1], "its order 0 is .*which differs in "),
        (changed[0], "which differs in refund_amount;"),
        (changed[1], "which differs in refund_reason;"),
        ([], "and 0 were given"),
        (iter(given[:-1]), "it has 51 in all, and 50"),
    ):
        await _refused(shop.refund(orders), f"{said}.*sent again")
    batch = shop.refund(given[1:])
    await _refused(streamed(batch), "which differs in ")
    assert sum(batch.result.counts.values()) in {0, 50}
    credentials = Credentials(merchant_id="M2", account_id="A1", signer=HmacSigner("x"))
    async with GatewayClient(shop.sandbox.base_url, credentials) as stranger:
        await _refused(stranger.resume(shop.journal.job("job")), "merchant_id is 'M1', not 'M2'")
    assert shop.sandbox.requests.total() == 0
    assert await shop.counts() == {OrderState.SUCCEEDED: 51}


@pytest.mark.parametrize("sends", [False, True], ids=["kept", "in doubt"])
async def test_another_gateway(shop: Shop, sends: bool) -> None:
    orders, first = shop.orders(2), shop.make()
    job, number = shop.journal.job("job"), 0 if sends else 1
    async with Sandbox() as elsewhere, make_client(elsewhere) as other:
        if sends:
            shop.sandbox.faults.add("refund", DropReply(times=1))
            await first.refund(orders, job=job)
            shop.tables.put(state="unknown")
        else:
            await first.submit("refund", orders, job=job, slice_size=2)
        before = shop.tables.snapshot()
        with pytest.raises(JobConflictError) as caught:
            await other.resume(job, slice_number=number)
        assert first.gateway in str(caught.value)
        assert other.gateway in str(caught.value)
        await _refused(other.refund(orders, job=job), "its gateway is")
        assert await shop.journal.claim_due(Merchant("M1", "A1", other.gateway), 60) == []
        assert shop.tables.snapshot() == before
        assert elsewhere.requests.total() == 0
    # One of an earlier version belongs to the next client's.
    shop.tables.run("UPDATE gateway_jobs SET gateway = ''")
    assert (await shop.make().resume(job, slice_number=number)).ok
    assert (await shop.journal.status(job.name)).gateway == first.gateway


@on_a_file
async def test_what_is_no_job_and_a_job_of_no_orders(shop: Shop) -> None:
    gateway: Any = shop.make()
    for job in ("job", 7):
        for begin in (lambda job: gateway.refund(shop.orders(), job=job), gateway.resume):
            with pytest.raises(ConfigurationError, match="job: expected Job, got "):
                begin(job)
    for operation in LOOK_UPS:
        with pytest.raises(TypeError, match="job"):
            getattr(gateway, operation)(references(1), job=None)
    with pytest.raises(JobNotFoundError, match="'job'"):
        await shop.resume()
    nothing = await shop.refund([], "nothing")
    assert (nothing.ok, len(nothing)) == (True, 0)
    assert (await shop.journal.status("nothing")).done
