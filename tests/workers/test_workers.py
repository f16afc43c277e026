"""Jobs that are submitted by one process and run by any, whatever its queue is."""

import asyncio
import subprocess
import sys
from typing import Any

import attrs
import pytest

from gateway_async.errors import (
    ConfigurationError,
    DuplicateOrderError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
)
from gateway_async.journal import JobState, Journal, SliceStatus
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Latency, Status
from gateway_async.workers import JobProgress, SliceEnd, WorkerPolicy, Workers
from gateway_async.workers.workers import look
from tests.jobs.books import (
    NOT_SENT,
    POLICY as BATCHES,
    RESENDING,
    SUCCEEDED,
    check_conserved,
    effects,
    make_client,
    seeded,
    statuses,
)
from tests.orders import orders_for
from tests.workers.conftest import Shop

FINISHED, BUSY, LOST, LEFT = SliceEnd


async def test_a_job_is_cut_handed_over_run_and_told(
    shop: Shop, jobs: Workers, sandbox: Sandbox
) -> None:
    orders = seeded(sandbox, 10)
    assert await jobs.submit("refund", orders, job="job") == 10
    assert shop.queue == [("job", 1), ("job", 2), ("job", 3)]
    assert sandbox.requests["refund"] == 0
    assert await shop.work(jobs) == [FINISHED] * 3
    result = await jobs.result("job")
    check_conserved(result, orders)
    assert result.ok
    assert effects(sandbox, orders) == [1] * 10


@pytest.mark.parametrize("operation", ["capture", "cancel", "review"])
async def test_every_operation_that_moves_money(
    shop: Shop, jobs: Workers, sandbox: Sandbox, operation: str
) -> None:
    orders = seeded(sandbox, 5, operation)
    await jobs.submit(operation, orders, job="job")
    assert await shop.work(jobs) == [FINISHED] * 2
    assert (await jobs.result("job")).ok
    assert effects(sandbox, orders, operation) == [1] * 5


async def test_two_processes_share_a_job(shop: Shop, jobs: Workers, sandbox: Sandbox) -> None:
    orders = seeded(sandbox, 8)
    async with shop.workers() as others:
        await jobs.submit("refund", orders, job="job")
        sandbox.faults.add("refund", Latency(seconds=0.1))
        ended = await asyncio.gather(
            jobs.run_slice("job", 1), others.run_slice("job", 2), others.run_slice("job", 1)
        )
        assert sorted(ended) == [BUSY, FINISHED, FINISHED]
        assert (await others.result("job")).counts[SUCCEEDED] == 8
    assert effects(sandbox, orders) == [1] * 8


async def test_a_slice_that_is_delivered_twice_is_run_once(
    shop: Shop, jobs: Workers, sandbox: Sandbox
) -> None:
    await jobs.submit("refund", seeded(sandbox, 4), job="job")
    await jobs.enqueue("job", 1)
    assert await shop.work(jobs) == [FINISHED] * 2
    before = sandbox.requests.total()
    assert await jobs.run_slice("job", 1) is FINISHED
    assert sandbox.requests.total() == before


async def test_what_a_queue_lost_is_handed_over_again(
    shop: Shop, jobs: Workers, sandbox: Sandbox, url: str
) -> None:
    await jobs.submit("refund", seeded(sandbox, 10), job="job")
    await jobs.run_slice("job", 2)
    async with shop.workers() as others, Journal.open(url) as journal:
        shop.queue.clear()
        await journal.postpone([("job", number) for number in (1, 2, 3)], 0)
        swept = await asyncio.gather(jobs.sweep(), others.sweep())
        assert (sum(swept), sorted(shop.queue)) == (2, [("job", 1), ("job", 3)])
        shop.queue.clear()
        await journal.postpone([("job", 3)], 0)
        sweeper = asyncio.create_task(others.keep_sweeping())
        while not shop.queue:  # noqa: ASYNC110  # a list has no event
            await asyncio.sleep(0.01)
        sweeper.cancel()
        assert shop.queue == [("job", 3)]


async def test_a_slice_is_left_to_the_queue_for_a_while(
    shop: Shop, jobs: Workers, sandbox: Sandbox
) -> None:
    await jobs.submit("refund", seeded(sandbox, 10), job="job")
    async with shop.workers() as others:
        assert [await jobs.sweep(), await others.sweep(), await jobs.sweep()] == [0, 0, 0]
    assert len(shop.queue) == 3


async def test_a_queue_that_fails_loses_nothing(shop: Shop, sandbox: Sandbox) -> None:
    tries = 0

    async def failing(job: str, slice_number: int) -> None:
        nonlocal tries
        tries += 1
        if tries in {2, 3}:
            raise ConnectionError
        await shop.enqueue(job, slice_number)

    async with shop.workers(failing) as jobs:
        with pytest.raises(ConnectionError):
            await jobs.submit("refund", seeded(sandbox, 10), job="job")
        assert shop.queue == [("job", 1)]
        sweeper = asyncio.create_task(jobs.keep_sweeping())
        while len(shop.queue) < 3:  # noqa: ASYNC110  # a list has no event
            await asyncio.sleep(0.01)
        sweeper.cancel()
        assert shop.queue == [("job", 1), ("job", 2), ("job", 3)]


async def test_a_sweeper_says_that_it_failed_and_nothing_secret(
    shop: Shop, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*_: object) -> None:
        raise ConnectionError("amqp://guest:password@host")

    async with shop.workers(failing) as jobs:
        with pytest.raises(ConnectionError):
            await jobs.submit("refund", seeded(sandbox, 1), job="job")
        sweeper = asyncio.create_task(jobs.keep_sweeping())
        while not caplog.messages:  # noqa: ASYNC110  # nor has a log
            await asyncio.sleep(0.01)
        sweeper.cancel()
    assert caplog.messages[0] == "slices were not handed to the queue: ConnectionError"
    assert caplog.records[0].name == "gateway_async.workers"


async def test_a_gateway_that_is_away_leaves_the_slice_for_later(
    shop: Shop, jobs: Workers, sandbox: Sandbox, url: str
) -> None:
    orders = seeded(sandbox, 3)
    await jobs.submit("refund", orders, job="job")
    sandbox.faults.add("*", Status(status=503))
    assert await shop.work(jobs) == [LEFT]
    assert await jobs.sweep() == 0
    sandbox.faults.clear()
    async with Journal.open(url) as journal:
        await journal.postpone([("job", 1)], 0)
    assert await jobs.sweep() == 1
    assert await shop.work(jobs) == [FINISHED]
    assert effects(sandbox, orders) == [1] * 3


async def test_a_lost_reply_is_looked_up_within_its_slice(shop: Shop, sandbox: Sandbox) -> None:
    orders = seeded(sandbox, 8)
    async with shop.workers(recovery=RESENDING) as jobs:
        await jobs.submit("refund", orders, job="job")
        sandbox.faults.add("refund", DropReply(times=3))
        assert await shop.work(jobs) == [FINISHED] * 2
        assert statuses(await jobs.result("job")) == [SUCCEEDED] * 8
    assert effects(sandbox, orders) == [1] * 8


async def test_refunds_of_one_transaction_never_meet(shop: Shop, sandbox: Sandbox) -> None:
    """Else the two look-ups before them, and the lost reply, would prove nothing."""
    held = sandbox.seed(6, status="captured")
    orders = orders_for("refund", [*held, *held, *held])
    policy = attrs.evolve(BATCHES, duplicates="serialize")
    async with shop.workers(recovery=RESENDING, policy=policy) as jobs:
        await jobs.submit("refund", orders, job="job")
        sandbox.faults.add("refund", DropReply(times=2))
        sandbox.faults.add("refund", Latency(seconds=0.02))
        waiting, shop.queue = shop.queue, []
        for _ in range(4):  # what waits for one that is unknown is sent by the next run
            ended = await asyncio.gather(*(jobs.run_slice(*each) for each in waiting))
        assert set(ended) == {FINISHED}
        result = await jobs.result("job")
    made = {order.transaction_id: 0 for order in orders}
    for outcome in result:
        made[outcome.order.transaction_id] += outcome.status is SUCCEEDED
    assert [sandbox.ledger.effects("refund", name) for name in made] == list(made.values())


async def test_a_wrong_order_or_a_duplicate_in_another_slice_keeps_nothing(
    shop: Shop, jobs: Workers, sandbox: Sandbox
) -> None:
    orders = seeded(sandbox, 10)
    with pytest.raises(DuplicateOrderError):
        await jobs.submit("refund", [*orders, orders[0]], job="job")
    with pytest.raises(ConfigurationError, match="operation: expected one of capture"):
        await jobs.submit("query", orders, job="job")
    assert shop.queue == []
    with pytest.raises(JobNotFoundError):
        await jobs.result("job")


async def test_submitting_again(shop: Shop, jobs: Workers, sandbox: Sandbox) -> None:
    orders = seeded(sandbox, 4)
    for _ in range(2):
        assert await jobs.submit("refund", orders, job="job") == 4
    assert shop.queue == [("job", 1)]
    with pytest.raises(JobConflictError, match="which differs in "):
        await jobs.submit("refund", orders[::-1], job="job")


async def test_a_job_that_was_cut_is_run_by_its_slices_only(
    jobs: Workers, sandbox: Sandbox, url: str
) -> None:
    orders = seeded(sandbox, 4)
    await jobs.submit("refund", orders, job="cut")
    async with Journal.open(url) as journal, make_client(sandbox) as gateway:
        with pytest.raises(JobConflictError, match="was cut into slices"):
            await gateway.resume(journal.job("cut"))
        with pytest.raises(JobConflictError, match="was cut into slices"):
            await gateway.refund(orders, job=journal.job("cut"))
        await gateway.refund(seeded(sandbox, 1), job=journal.job("whole"))
    with pytest.raises(JobConflictError, match="'whole' is in one piece"):
        await jobs.result("whole")
    with pytest.raises(JobNotFoundError, match="no slice 9"):
        await jobs.run_slice("cut", 9)


async def test_a_busy_slice_is_not_waited_for(jobs: Workers, sandbox: Sandbox, url: str) -> None:
    await jobs.submit("refund", seeded(sandbox, 4), job="job")
    async with Journal.open(url) as journal, make_client(sandbox) as gateway:
        await journal.job("job").take("another", 1)
        with pytest.raises(JobBusyError):
            await gateway.resume(journal.job("job"), slice_number=1)
        assert await jobs.run_slice("job", 1) is BUSY
    assert sandbox.requests["refund"] == 0


async def test_a_job_is_watched(shop: Shop, jobs: Workers, sandbox: Sandbox) -> None:
    await jobs.submit("refund", seeded(sandbox, 10), job="job")
    seen: list[JobProgress] = []
    async for progress in jobs.watch("job"):
        seen.append(progress)
        if shop.queue:
            assert await jobs.run_slice(*shop.queue.pop(0)) is FINISHED
    assert [(each.settled, each.finished) for each in seen] == [(0, 0), (4, 1), (8, 2), (10, 3)]
    assert [each.done for each in seen] == [False, False, False, True]
    assert (seen[-1].total, seen[-1].slices, seen[-1].running) == (10, 3, 0)
    assert seen[-1].counts[JobState.SUCCEEDED] == 10


async def test_a_job_that_is_submitted_while_it_is_looked_at_is_not_done(
    jobs: Workers, sandbox: Sandbox, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Journal.open(url) as journal:
        read = journal.slices

        async def submit_meanwhile(name: str) -> list[SliceStatus]:
            await jobs.submit("refund", [], job="begun")
            found = await read("begun")  # none, as of one that is being submitted
            await jobs.submit("refund", seeded(sandbox, 3), job=name, wake=False)
            return found

        monkeypatch.setattr(journal, "slices", submit_meanwhile)
        seen = await look(journal, "job")
        assert (seen.total, seen.submitted, seen.done) == (3, False, False)
        monkeypatch.undo()
        seen = await look(journal, "job")
        assert (seen.slices, seen.submitted, seen.done) == (1, True, False)


async def test_a_job_without_orders_is_done_at_once(jobs: Workers) -> None:
    await jobs.submit("refund", [], job="job")
    assert len(await jobs.result("job")) == 0


async def test_what_is_held_is_told_and_can_be_decided(
    shop: Shop, jobs: Workers, sandbox: Sandbox, url: str
) -> None:
    orders = seeded(sandbox, 4)
    await jobs.submit("refund", orders, job="job")
    sandbox.faults.add("refund", Status(status=500, times=1))
    assert await shop.work(jobs) == [FINISHED]
    before = sandbox.requests.total()
    assert await jobs.run_slice("job", 1) is FINISHED
    assert sandbox.requests.total() == before
    result = await jobs.result("job")
    assert result.counts[NOT_SENT] == 2
    async with Journal.open(url) as journal:
        for outcome in result.not_sent:
            await journal.resolve("job", outcome.index, "not_sent", "it was not made")
    assert await jobs.sweep() == 1
    assert await shop.work(jobs) == [FINISHED]
    assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 4


@pytest.mark.parametrize("number", ["1", 1.0, True, None, -1, 2**40, 2**70], ids=repr)
async def test_what_is_no_number_of_a_slice_runs_none(
    jobs: Workers, sandbox: Sandbox, url: str, number: Any
) -> None:
    error = JobNotFoundError if type(number) is int else ConfigurationError
    orders = seeded(sandbox, 3)
    await jobs.submit("refund", orders, job="job")
    with pytest.raises(error, match="slice"):
        await jobs.run_slice("job", number)
    async with Journal.open(url) as journal, make_client(sandbox) as gateway:
        with pytest.raises(error, match="slice"):
            await gateway.resume(journal.job("job"), slice_number=number)
    assert effects(sandbox, orders) == [0] * 3


async def test_the_jobs_of_another_merchant_are_not_swept(
    shop: Shop, jobs: Workers, sandbox: Sandbox, url: str
) -> None:
    await jobs.submit("refund", seeded(sandbox, 4), job="job")
    async with Journal.open(url) as journal:
        await journal.postpone([("job", 1)], 0)
    async with shop.workers(merchant_id="M2") as others:
        assert await others.sweep() == 0
        with pytest.raises(JobConflictError, match="this client speaks for 'M2'"):
            await others.run_slice("job", 1)


async def test_workers_that_are_not_open(shop: Shop, jobs: Workers) -> None:
    with pytest.raises(ConfigurationError, match="are not open"):
        await shop.workers().run_slice("job", 1)
    with pytest.raises(ConfigurationError, match="is open already"):
        await jobs.__aenter__()
    with pytest.raises(ConfigurationError, match="journal URL"):
        Workers(shop.enqueue, lambda: make_client(shop.sandbox), "mysql://host/database")
    with pytest.raises(ConfigurationError, match=r"WorkerPolicy\.slice_size"):
        WorkerPolicy(slice_size=0)


@pytest.mark.slow
def test_importing_the_package_loads_neither_queue_nor_database() -> None:
    code = (
        "import sys, gateway_async.workers; "
        "print([name for name in ('taskiq', 'sqlalchemy', 'psycopg') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # noqa: S603  # ours
    assert said.stdout.strip() == b"[]"
