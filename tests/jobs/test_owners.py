"""A job has one owner: the others wait, and one that lost it sends and changes nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gateway_async import GatewayClient, jobs
from gateway_async.errors import JobBusyError, LeaseLostError
from gateway_async.journal import JobState, Journal, leases
from gateway_async.journal.leases import Lease
from gateway_async.sandbox import Sandbox
from gateway_async.transport import HttpRequest, HttpResponse
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
from tests.memory import put_transport

LEASE_SECONDS = 15.0
"""What a journal gives by default: no test here waits for so long."""


class Halted:
    """A transport that stops before the first byte of a refund, as a frozen process does.

    Attributes:
        reached: Set when a refund stops here.
        goes_on: Lets all of them go on.
    """

    def __init__(self, gateway: GatewayClient) -> None:
        self._inner = gateway._session.transport
        self.reached = asyncio.Event()
        self.goes_on = asyncio.Event()
        put_transport(gateway, self)

    async def send(self, message: HttpRequest, **how: Any) -> HttpResponse:
        if message.path.endswith("/refund"):
            self.reached.set()
            await self.goes_on.wait()
        return await self._inner.send(message, **how)

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.fixture
def frozen(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this journal renew nothing, and say nothing of it: as a frozen process does."""
    real, writer = Lease.renew, journal.database

    async def renew(lease: Lease) -> None:
        if lease._database is writer:
            await asyncio.Event().wait()
        await real(lease)

    monkeypatch.setattr(Lease, "renew", renew)


@pytest.fixture
def let_it_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the time of a lease pass, by this process's clocks."""
    real, passed = leases.read_clocks, [0.0]

    def clocks() -> tuple[float, float]:
        awake, wall = real()
        return awake + passed[0], wall + passed[0]

    def let_it_pass() -> None:
        passed[0] += LEASE_SECONDS

    monkeypatch.setattr(leases, "read_clocks", clocks)
    return let_it_pass


@pytest.mark.usefixtures("frozen")
async def test_one_that_lost_its_lease_sends_nothing_and_changes_nothing(
    sandbox: Sandbox,
    make: Make,
    journal: Journal,
    other: Journal,
    tables: Tables,
    let_it_pass: Callable[[], None],
) -> None:
    orders = seeded(sandbox)
    gateway = make()
    halted = Halted(gateway)
    batch = gateway.refund(orders, job=journal.job("job"))
    task = asyncio.create_task(batch)
    await halted.reached.wait()
    let_it_pass()
    tables.end_leases()
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
    sandbox: Sandbox, make: Make, journal: Journal, let_it_pass: Callable[[], None]
) -> None:
    orders = seeded(sandbox, 20)
    gateway = make(policy=attrs.evolve(POLICY, concurrency=1))
    halted = Halted(gateway)
    batch = gateway.refund(orders, job=journal.job("job"))
    task = asyncio.create_task(batch)
    await halted.reached.wait()
    let_it_pass()
    halted.goes_on.set()
    with pytest.raises(LeaseLostError):
        await task
    assert effects(sandbox, orders) == [0] * 20
    assert NOT_SENT not in statuses(batch.result)


async def test_a_job_that_runs_longer_than_its_lease_keeps_it(
    sandbox: Sandbox,
    make: Make,
    journal: Journal,
    other: Journal,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "_RENEWALS_A_LEASE", 300)
    orders = seeded(sandbox)
    gateway = make()
    halted = Halted(gateway)
    task = asyncio.create_task(gateway.refund(orders, job=journal.job("job")))
    await halted.reached.wait()
    tables.end_leases()
    while not (await other.status("job")).is_running:  # noqa: ASYNC110  # the keeper renews by itself
        await asyncio.sleep(0)
    with pytest.raises(JobBusyError) as caught:
        await other.job("job").take("another process")
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
        await lease.intend((index,), references=none, marker=None)
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
