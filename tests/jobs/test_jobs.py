"""A job does what a batch does, once, however often it is run."""

from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, InvalidOrderError, RetryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from gateway_async.transport import AiohttpTransport
from tests.jobs.books import (
    NOT_SENT,
    SUCCEEDED,
    Make,
    check_conserved,
    effects,
    kept,
    references_of,
    refuse,
    seeded,
    statuses,
)
from tests.orders import MONEY_OPERATIONS

Given = Callable[[list[Any]], Any]


def _generated(orders: list[Any]) -> Iterator[Any]:
    yield from orders


async def _awaited(orders: list[Any]) -> AsyncIterator[Any]:
    for order in orders:
        yield order


INPUTS: list[Given] = [list, _generated, _awaited]


@pytest.mark.parametrize(
    ("operation", "given"), [*zip(MONEY_OPERATIONS, [*INPUTS, list], strict=True)]
)
async def test_the_same_line_again_sends_nothing_and_says_the_same(
    sandbox: Sandbox,
    make: Make,
    journal: Journal,
    other: Journal,
    operation: str,
    given: Given,
) -> None:
    orders = seeded(sandbox, 5, operation)
    batch = getattr(make(), operation)(given(orders), job=journal.job("job"))
    first = await batch
    assert first.ok
    check_conserved(first, orders)
    assert effects(sandbox, orders, operation) == [1] * 5
    before = sandbox.requests.total()
    assert (batch.progress.total, batch.progress.requests, first.requests) == (5, before, before)
    for again in (
        await getattr(make(), operation)(given(orders), job=journal.job("job")),
        await make().resume(other.job("job")),
    ):
        assert again.ok
        check_conserved(again, orders)
        assert again.requests == 0
        if operation == "refund":
            assert references_of(again) == references_of(await kept(other)) == references_of(first)
    assert sandbox.requests.total() == before


@pytest.mark.parametrize("given", INPUTS)
async def test_a_stream_tells_each_order_once(
    sandbox: Sandbox, make: Make, journal: Journal, given: Given
) -> None:
    orders = seeded(sandbox, 9)
    for _ in range(2):
        async with make().refund(given(orders), job=journal.job("job")) as batch:
            seen = [outcome async for outcome in batch]
        assert sorted(outcome.index for outcome in seen) == list(range(9))
        assert [orders[outcome.index] for outcome in seen] == [outcome.order for outcome in seen]
        assert set(statuses(seen)) == {SUCCEEDED}
        assert batch.progress.total == batch.progress.done == 9
        assert batch.result.exhausted
        assert batch.result.counts[SUCCEEDED] == 9
        assert len(batch.result) == 0
    assert effects(sandbox, orders) == [1] * 9


async def test_jobs_of_one_journal_know_nothing_of_each_other(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    result = await make().refund([], job=journal.job("nothing"))
    assert (result.ok, len(result), sandbox.requests.total()) == (True, 0, 0)
    for name in ("monday", "tuesday"):
        orders = seeded(sandbox, 3)
        check_conserved(await make().refund(orders, job=journal.job(name)), orders)
    found = await journal.jobs()
    assert [(status.name, status.total) for status in found] == [
        ("nothing", 0),
        ("monday", 3),
        ("tuesday", 3),
    ]
    assert all(status.done for status in found)


async def test_an_order_that_the_dialect_of_today_refuses_stops_no_other(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = seeded(sandbox, 5, refund_amount=Decimal("1.00"))
    orders[3] = attrs.evolve(orders[3], refund_amount=Decimal("1.255"))
    of_three = attrs.evolve(sandbox.dialect, currency_places={"EUR": 3})
    with monkeypatch.context() as patched:
        patched.setattr(AiohttpTransport, "send", refuse)
        first = make(dialect=of_three, retry=RetryPolicy(attempts=1))
        assert statuses(await first.refund(orders, job=journal.job("job"))) == [NOT_SENT] * 5
    resumed = await make().resume(journal.job("job"))
    assert [o.index for o in resumed.not_sent] == [3]
    assert isinstance(next(iter(resumed.not_sent)).error, InvalidOrderError)
    assert effects(sandbox, orders) == [1, 1, 1, 0, 1]


async def test_a_job_goes_on_in_smaller_requests_than_it_was_begun_with(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = seeded(sandbox, 10)
    with monkeypatch.context() as patched:
        patched.setattr(AiohttpTransport, "send", refuse)
        first = make(policy=BatchPolicy(chunk_size=4), retry=RetryPolicy(attempts=1))
        assert statuses(await first.refund(orders, job=journal.job("job"))) == [NOT_SENT] * 10
    smaller = BatchPolicy(chunk_size=3, concurrency=1)
    check_conserved(await make(policy=smaller).resume(journal.job("job")), orders)
    assert effects(sandbox, orders) == [1] * 10
    assert sandbox.requests["refund"] >= 4
