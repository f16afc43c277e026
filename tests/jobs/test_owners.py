"""A job has one owner: the others wait, and one that lost it sends and changes nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from gateway_async.errors import JobBusyError, LeaseLostError
from gateway_async.journal import JobState, Journal
from gateway_async.journal.leases import Lease
from gateway_async.sandbox import Sandbox
from gateway_async.transport import AiohttpTransport, HttpRequest, HttpResponse, SendTracker
from tests.jobs.books import (
    NOT_SENT,
    POLICY,
    RESENDING,
    SUCCEEDED,
    UNKNOWN,
    Make,
    check_books,
    counts,
    effects,
    seeded,
    statuses,
)
from tests.journal.tables import Tables, submitted

LEASE_SECONDS = 0.4


@pytest.fixture
async def brief(url: str) -> AsyncIterator[Journal]:
    """A journal whose leases are short."""
    async with Journal.open(url, lease_seconds=LEASE_SECONDS) as journal:
        yield journal


@attrs.define
class Halted:
    """A transport that stops before the first byte of a refund, as a frozen process does.

    Attributes:
        inner: Where the request goes once it may.
        reached: Set when a refund stops here.
        goes_on: Lets all of them go on.
    """

    inner: AiohttpTransport
    reached: asyncio.Event = attrs.field(factory=asyncio.Event)
    goes_on: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        if message.path.endswith("/refund"):
            self.reached.set()
            await self.goes_on.wait()
        return await self.inner.send(message, tracker=tracker, seconds=seconds)

    async def aclose(self) -> None:
        await self.inner.aclose()


def _halted(gateway: Any) -> Halted:
    halted = Halted(gateway._session.transport)
    gateway._session = attrs.evolve(gateway._session, transport=halted)
    return halted


@pytest.fixture
def frozen(brief: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this journal renew nothing, and say nothing of it: as a frozen process does."""
    real, writer = Lease.renew, brief.database

    async def renew(lease: Lease) -> None:
        if lease._database is writer:
            await asyncio.Event().wait()
        await real(lease)

    monkeypatch.setattr(Lease, "renew", renew)


async def test_a_lease_that_ran_out_is_taken_over(
    sandbox: Sandbox, make: Make, brief: Journal, url: str
) -> None:
    orders = seeded(sandbox)
    async with Journal.open(url, lease_seconds=0.3) as other:
        await (await submitted(other, orders)).take("one that died")
    result = await make().refund(orders, job=brief.job("job"))
    assert result.ok
    assert effects(sandbox, orders) == [1] * 6


async def _reach(halted: Any, task: "asyncio.Task[Any]") -> None:
    """Wait until a request is held; a job that ended before, as on a starved machine, fails."""
    reached = asyncio.create_task(halted.reached.wait())
    await asyncio.wait({reached, task}, return_when=asyncio.FIRST_COMPLETED)
    assert halted.reached.is_set(), "the job ended before a request was held"


@pytest.mark.usefixtures("frozen")
async def test_one_that_lost_its_lease_sends_nothing_and_changes_nothing(
    sandbox: Sandbox, make: Make, brief: Journal, other: Journal, tables: Tables
) -> None:
    orders = seeded(sandbox)
    gateway = make()
    halted = _halted(gateway)
    batch = gateway.refund(orders, job=brief.job("job"))
    task = asyncio.create_task(batch)
    await _reach(halted, task)
    result = await make(recovery=RESENDING).resume(other.job("job"))
    assert result.counts[SUCCEEDED] >= 2
    before, requests = tables.snapshot(), sandbox.requests["refund"]
    halted.goes_on.set()
    with pytest.raises(LeaseLostError):
        await task
    assert tables.snapshot() == before
    assert sandbox.requests["refund"] == requests
    assert NOT_SENT not in statuses(batch.result)
    check_books(sandbox, result)
    check_books(sandbox, batch.result)
    assert {UNKNOWN, SUCCEEDED} >= set(statuses(batch.result))


@pytest.mark.usefixtures("frozen")
async def test_one_that_cannot_renew_stops_before_its_lease_is_over(
    sandbox: Sandbox, make: Make, brief: Journal
) -> None:
    orders = seeded(sandbox, 20)
    gateway = make(policy=attrs.evolve(POLICY, concurrency=1))
    halted = _halted(gateway)
    batch = gateway.refund(orders, job=brief.job("job"))
    task = asyncio.create_task(batch)
    await _reach(halted, task)
    await asyncio.sleep(LEASE_SECONDS)
    halted.goes_on.set()
    with pytest.raises(LeaseLostError):
        await task
    assert effects(sandbox, orders) == [0] * 20
    assert NOT_SENT not in statuses(batch.result)


async def test_a_job_that_runs_longer_than_its_lease_keeps_it(
    sandbox: Sandbox, make: Make, brief: Journal, other: Journal
) -> None:
    orders = seeded(sandbox)
    gateway = make()
    halted = _halted(gateway)
    task = asyncio.create_task(gateway.refund(orders, job=brief.job("job")))
    await _reach(halted, task)
    with pytest.raises(JobBusyError) as caught:
        await make().resume(other.job("job"))
    assert 0 < caught.value.seconds_left <= LEASE_SECONDS
    halted.goes_on.set()
    assert (await task).ok
    assert effects(sandbox, orders) == [1] * 6
    assert await counts(other) == {JobState.SUCCEEDED: 6}


async def test_what_an_operator_decides_meanwhile_is_not_proved_again(
    sandbox: Sandbox,
    make: Make,
    journal: Journal,
    other: Journal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (order,) = seeded(sandbox, 1)
    await make().refund([order])
    lease = await (await submitted(journal, [order, order])).take("one that died")
    none: dict[str, frozenset[str]] = {order.transaction_id: frozenset()}
    for index in range(2):
        await lease.intend((index,), references=none, marker=None, alone=False)
    await lease.release()
    real = Lease.recover

    async def late(lease: Lease, *arguments: Any, **named: Any) -> bool:
        if (await counts(other))[JobState.UNKNOWN] == 2:
            await other.resolve("job", 1, "succeeded", "it is this one")
        return await real(lease, *arguments, **named)

    monkeypatch.setattr(Lease, "recover", late)
    result = await make().resume(journal.job("job"))
    assert effects(sandbox, [order]) == [1]
    assert statuses(result) == [UNKNOWN, SUCCEEDED]
