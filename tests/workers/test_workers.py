"""Jobs that are submitted by one process and run by any, whatever its queue is."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aio_pika
import attrs
import pytest
from taskiq import InMemoryBroker

from gateway_async.errors import (
    ConfigurationError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    JournalError,
)
from gateway_async.journal import JobStatus, Journal, OrderState
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Status
from gateway_async.workers import SliceEnd, WorkerPolicy, Workers
from gateway_async.workers.rabbit import rabbit_broker
from gateway_async.workers.rate import shared_rate
from tests.journal.tables import MERCHANT, Tables
from tests.support.books import NOT_SENT, SUCCEEDED, check_conserved, effects, statuses
from tests.support.interruptions import until
from tests.support.orders import (
    MONEY_OPERATIONS,
    POLICY as TWO_AT_ONCE,
    client_at,
    make_client,
    seeded,
)
from tests.workers.app import make_workers
from tests.workers.rabbit import own_queue, server_url

FINISHED, BUSY, LOST, LEFT = SliceEnd
POLICY = WorkerPolicy(slice_size=4, sweep_seconds=0.01, watch_seconds=0.01, lease_seconds=60)


@attrs.define
class Shop:
    """One merchant's workers, and what waits in their queue, which is a list."""

    sandbox: Sandbox  # the gateway
    url: str  # the journal
    # what was handed over, and nobody took yet
    queue: list[tuple[str, int]] = attrs.field(factory=list)

    async def enqueue(self, job: str, slice_number: int) -> None:
        self.queue.append((job, slice_number))

    def workers(self, enqueue: Callable[..., Any] | None = None) -> Workers:
        return Workers(
            enqueue or self.enqueue, lambda: make_client(self.sandbox), self.url, policy=POLICY
        )

    async def work(self, jobs: Workers) -> list[SliceEnd]:
        """Run what waits in the queue."""
        waiting, self.queue = self.queue, []
        return [await jobs.run_slice(*each) for each in waiting]


@pytest.fixture
def shop(sandbox: Sandbox, url: str) -> Shop:
    return Shop(sandbox, url)


@pytest.fixture
async def jobs(shop: Shop) -> AsyncIterator[Workers]:
    async with shop.workers() as jobs:
        yield jobs


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_a_job_is_cut_handed_over_run_once_watched_and_told(
    shop: Shop, jobs: Workers, sandbox: Sandbox, operation: str
) -> None:
    orders = seeded(sandbox, 10, operation)
    for _ in range(2):  # the second time, it is compared
        assert await jobs.submit(operation, orders, job="job") == 10
    assert shop.queue == [("job", 1), ("job", 2), ("job", 3)]
    with pytest.raises(JobConflictError, match="which differs in "):
        await jobs.submit(operation, orders[::-1], job="job")
    assert sandbox.requests.total() == 0
    seen: list[JobStatus] = []
    async for progress in jobs.watch("job"):
        seen.append(progress)
        if shop.queue:
            assert await jobs.run_slice(*shop.queue.pop(0)) is FINISHED
    assert [(each.settled, each.done) for each in seen] == [
        *((0, False), (4, False), (8, False), (10, True))
    ]
    assert seen[-1].total == seen[-1].counts[OrderState.SUCCEEDED] == 10
    before = sandbox.requests.total()
    assert await jobs.run_slice("job", 1) is FINISHED  # a slice that is delivered twice
    assert sandbox.requests.total() == before
    check_conserved(result := await jobs.result("job"), orders)
    assert result.ok
    assert effects(sandbox, orders, operation) == [1] * 10


async def test_processes_share_a_job(shop: Shop, jobs: Workers, sandbox: Sandbox, url: str) -> None:
    orders = seeded(sandbox, 8)
    await jobs.submit("refund", orders, job="job")
    async with shop.workers() as others, Journal.open(url) as journal:
        lease = await journal.job("job").take(MERCHANT, 1)
        assert await jobs.run_slice("job", 1) is BUSY
        assert jobs._opened()[0].lease_seconds == 60
        async with make_client(sandbox) as gateway:
            with pytest.raises(JobBusyError):  # a slice is not waited for
                await gateway.resume(journal.job("job"), slice_number=1)
        assert sandbox.requests["refund"] == 0
        await lease.release()
        running = (jobs.run_slice("job", 1), others.run_slice("job", 2))
        assert [*await asyncio.gather(*running)] == [FINISHED, FINISHED]
        assert (await others.result("job")).ok
    assert effects(sandbox, orders) == [1] * 8


async def test_a_refund_of_one_slice_shows_that_look_ups_of_another_are_whole(
    jobs: Workers, sandbox: Sandbox
) -> None:
    await jobs.submit("refund", seeded(sandbox, 8), job="job")
    assert await jobs.run_slice("job", 1) is FINISHED
    sandbox.faults.add("refund", Status(status=500))
    assert await jobs.run_slice("job", 2) is FINISHED
    assert statuses(await jobs.result("job")) == [SUCCEEDED] * 4 + [NOT_SENT] * 4
    before = sandbox.requests.total()
    assert await jobs.run_slice("job", 2) is FINISHED  # what it holds is not looked up again
    assert sandbox.requests.total() == before


async def test_a_queue_that_fails_loses_nothing_and_its_password_is_not_logged(
    shop: Shop, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def failing(job: str, slice_number: int) -> None:
        nonlocal tries
        tries += 1
        if tries in {2, 3}:
            raise ConnectionError("amqp://guest:password@host")
        await shop.enqueue(job, slice_number)

    async with shop.workers(failing) as jobs:
        with pytest.raises(ConnectionError):
            await jobs.submit("refund", seeded(sandbox, 10), job="job")
        assert shop.queue == [("job", 1)]
        sweeper = asyncio.create_task(jobs.keep_sweeping())
        await until(lambda: len(shop.queue) == 3)
        sweeper.cancel()
        assert shop.queue == [("job", 1), ("job", 2), ("job", 3)]
    assert caplog.messages == ["slices were not handed to the queue: ConnectionError"]
    assert caplog.records[0].name == "gateway_async.workers"


async def test_what_is_left_is_run_later_and_what_waits_for_a_person_once_it_is_decided(
    shop: Shop, sandbox: Sandbox, url: str, tables: Tables
) -> None:
    first = seeded(sandbox, 2)
    second = [attrs.evolve(order, refund_amount=order.amount / 2) for order in first]
    client = make_client(sandbox, policy=attrs.evolve(TWO_AT_ONCE, duplicates="serialize"))

    async def sweep_after_the_lease() -> int:
        tables.run(f"UPDATE gateway_slices SET due_at = due_at - {POLICY.lease_seconds}")  # noqa: S608  # ours
        return await workers.sweep()

    async with Workers(shop.enqueue, lambda: client, url, policy=POLICY) as workers:
        await workers.submit("refund", [*first, *second], job="job")
        sandbox.faults.add("*", Status(status=503))
        assert await shop.work(workers) == [LEFT]
        assert await workers.sweep() == 0  # not before its lease would have run out
        sandbox.faults.clear()
        sandbox.faults.add("refund", Status(status=500, times=1))
        assert await sweep_after_the_lease() == 1
        assert await shop.work(workers) == [LEFT]
        assert await sweep_after_the_lease() == 0
        async with Journal.open(url) as journal:
            assert (await journal.status("job")).counts[OrderState.HELD] == 2
            await journal.resolve("job", [0, 1], "not_sent", "not in the portal")
        assert await workers.sweep() == 1
        assert await shop.work(workers) == [FINISHED]
        assert (await workers.result("job")).ok
    assert effects(sandbox, first) == [2, 2]


async def test_a_job_in_slices_runs_by_slice(jobs: Workers, sandbox: Sandbox, url: str) -> None:
    orders = seeded(sandbox, 4)
    await jobs.submit("refund", orders, job="cut")
    await jobs.submit("refund", [], job="nothing")
    assert len(await jobs.result("nothing")) == 0
    with pytest.raises(ConfigurationError, match="operation of a job: expected one of 'capture'"):
        await jobs.submit("query", orders, job="job")
    async with Journal.open(url) as journal, make_client(sandbox) as gateway:
        job = journal.job("cut")
        for batch in (gateway.resume(job), gateway.refund(orders, job=job)):
            with pytest.raises(JobConflictError, match="was cut into slices"):
                await batch
        wrong: list[Any] = ["1", 1.0, True, None, -1, 9]
        for number in wrong:
            error = JobNotFoundError if number == 9 else ConfigurationError
            for call in (jobs.run_slice("cut", number), gateway.resume(job, slice_number=number)):
                with pytest.raises(error, match="slice"):
                    await call
        await gateway.refund(seeded(sandbox, 1), job=journal.job("whole"))
        sandbox.faults.add("*", Status(status=503))
        await gateway.refund(orders, job=journal.job("left"))
        sandbox.faults.clear()
    assert effects(sandbox, orders) == [0] * 4
    assert len(await jobs.result("whole")) == 1
    with pytest.raises(JobConflictError, match="'left' is in one piece"):
        await jobs.result("left")


# What they are given: a queue, and what makes a client


def _client() -> Any:
    return client_at("http://127.0.0.1")


async def _enqueue(*_: object) -> None: ...


RABBIT, SERVER, FILE = "amqp://host/", "postgresql://host/database", "sqlite:////journal.db"
WRONG: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (Workers, (RABBIT, _client, FILE), {}, "broker: expected a .*got str$"),
    (Workers, (_enqueue, _client(), FILE), {}, "gateway_factory: .*got <GatewayClient"),
    (rabbit_broker, (RABBIT,), {"queue": ""}, "queue: expected"),
    (rabbit_broker, (RABBIT,), {"slices_at_once": 0}, "slices_at_once: expected"),
    (shared_rate, (FILE, "M1"), {"requests": 1}, ".*aiolimiter"),
    (shared_rate, ("mysql://host/database", "M1"), {"requests": 1}, "journal URL"),
    (shared_rate, (SERVER, "M1"), {"requests": 0}, "requests: expected an int"),
    (shared_rate, (SERVER, "M1"), {"requests": 1, "seconds": 0}, "seconds: expected"),
    (shared_rate, (SERVER, "M1"), {"requests": 1, "seconds": "1"}, "seconds: expected"),
]


@pytest.mark.parametrize(("make", "given", "figures", "said"), WRONG)
def test_what_is_given_wrongly_is_refused(
    make: Any, given: tuple[Any, ...], figures: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{said}"):
        make(*given, **figures)


async def test_a_broker_in_memory_runs_what_is_submitted(shop: Shop, sandbox: Sandbox) -> None:
    jobs = Workers(InMemoryBroker(), lambda: make_client(sandbox), shop.url)
    orders = seeded(sandbox, 3)
    async with jobs:
        with pytest.raises(ConfigurationError, match="is open already"):
            await jobs.__aenter__()
        await jobs.submit("refund", orders, job="job")
        assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 3


async def test_a_store_that_is_away() -> None:
    with pytest.raises(JournalError, match="the shared rate 'M1' cannot be opened"):
        async with shared_rate("postgresql://me:secret@127.0.0.1:1/none", "M1", requests=1):
            pass


@pytest.mark.slow
async def test_no_order_and_no_secret_travels(sandbox: Sandbox, url: str) -> None:
    orders = seeded(sandbox, 10)
    async with own_queue() as name, await aio_pika.connect(server_url()) as connection:
        _, jobs = make_workers(
            {
                "amqp": server_url(),
                "queue": name,
                "tasks": 10,
                "journal": url,
                "base_url": sandbox.base_url,
                "secret": sandbox.secret,
                "client": {},
                "workers": POLICY,
            }
        )
        async with jobs:
            await jobs.submit("refund", orders, job="month-end")
        queue = await (await connection.channel()).get_queue(name)
        messages = [await queue.get(no_ack=True) for _ in range(3)]
        assert await queue.get(fail=False) is None
    for number, message in enumerate(messages, 1):
        body = json.loads(message.body)
        assert set(body) == {"task_id", "task_name", "labels", "labels_types", "args", "kwargs"}
        assert (body["args"], body["kwargs"]) == (["month-end", number], {})
        assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    everything = repr([(message.body, message.headers) for message in messages])
    for order in orders:
        assert order.transaction_id not in everything
        assert order.order_no not in everything
    assert sandbox.secret not in everything
