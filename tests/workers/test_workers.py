"""Jobs that are submitted by one process and run by any, whatever its queue is."""

import asyncio
import json
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
)
from gateway_async.journal import JobStatus, Journal, OrderState
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Status
from gateway_async.workers import SliceEnd, Workers
from gateway_async.workers.rabbit import rabbit_broker
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
from tests.workers.conftest import POLICY, Shop
from tests.workers.rabbit import own_queue, server_url

FINISHED, BUSY, LOST, LEFT = SliceEnd


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


async def test_what_is_left_is_run_later_and_what_is_held_once_it_is_decided(
    shop: Shop, jobs: Workers, sandbox: Sandbox, url: str
) -> None:
    orders = seeded(sandbox, 4)
    await jobs.submit("refund", orders, job="job")
    async with Journal.open(url) as journal:
        sandbox.faults.add("*", Status(status=503))
        assert await shop.work(jobs) == [LEFT]
        assert await jobs.sweep() == 0
        sandbox.faults.clear()
        await journal.make_due([("job", 1)])
        assert await jobs.sweep() == 1
        sandbox.faults.add("refund", Status(status=500, times=1))
        assert await shop.work(jobs) == [FINISHED]
        before = sandbox.requests.total()
        assert await jobs.run_slice("job", 1) is FINISHED
        assert sandbox.requests.total() == before
        result = await jobs.result("job")
        assert result.counts[NOT_SENT] == 2
        for outcome in result.not_sent:
            await journal.resolve("job", outcome.index, "not_sent", "it was not made")
    assert await jobs.sweep() == 1
    assert await shop.work(jobs) == [FINISHED]
    assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 4


async def test_a_slice_that_waits_for_a_person_is_handed_over_once_it_is_decided(
    shop: Shop, sandbox: Sandbox, url: str, tables: Tables
) -> None:
    first = seeded(sandbox, 2)
    second = [attrs.evolve(order, refund_amount=order.amount / 2) for order in first]
    client = make_client(sandbox, policy=attrs.evolve(TWO_AT_ONCE, duplicates="serialize"))

    async def sweep_after_the_lease() -> int:
        tables.run(f"UPDATE gateway_slices SET due_at = due_at - {POLICY.lease_seconds}")  # noqa: S608  # ours
        return await jobs.sweep()

    async with Workers(shop.enqueue, lambda: client, url, policy=POLICY) as jobs:
        await jobs.submit("refund", [*first, *second], job="job")
        sandbox.faults.add("*", Status(status=503))
        assert await shop.work(jobs) == [LEFT]
        sandbox.faults.clear()
        sandbox.faults.add("refund", Status(status=500, times=1))
        assert await sweep_after_the_lease() == 1
        assert await shop.work(jobs) == [LEFT]
        assert await sweep_after_the_lease() == 0
        async with Journal.open(url) as journal:
            assert (await journal.status("job")).counts[OrderState.HELD] == 2
            await journal.resolve("job", [0, 1], "not_sent", "not in the portal")
        assert await jobs.sweep() == 1
        assert await shop.work(jobs) == [FINISHED]
        assert (await jobs.result("job")).ok
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


@pytest.mark.parametrize(
    ("wrong", "name", "got"),
    [
        ("amqp://host/", "broker", "got str$"),
        (None, "broker", "got NoneType$"),
        (None, "gateway_factory", "got None"),
        (client_at("http://127.0.0.1"), "gateway_factory", "got <GatewayClient"),
    ],
)
def test_a_wrong_queue_or_client_is_refused(shop: Shop, wrong: Any, name: str, got: str) -> None:
    right = {"broker": shop.enqueue, "gateway_factory": lambda: make_client(shop.sandbox)}
    given: Any = {**right, "journal_url": shop.url, name: wrong}
    with pytest.raises(ConfigurationError, match=f"^{name}: expected a .*{got}"):
        Workers(**given)


async def test_a_broker_in_memory_runs_what_is_submitted(shop: Shop, sandbox: Sandbox) -> None:
    jobs = Workers(InMemoryBroker(), lambda: make_client(sandbox), shop.url)
    orders = seeded(sandbox, 3)
    async with jobs:
        with pytest.raises(ConfigurationError, match="is open already"):
            await jobs.__aenter__()
        await jobs.submit("refund", orders, job="job")
        assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 3


@pytest.mark.parametrize(
    ("name", "value"), [("queue", ""), ("queue", 5), ("slices_at_once", 0), ("slices_at_once", "9")]
)
def test_a_broker_of_a_wrong_figure_is_not_made(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
        rabbit_broker("amqp://host/", **{name: value})


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
