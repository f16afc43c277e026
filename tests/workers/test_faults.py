"""Every refund is made once, whatever befalls workers and broker while a job runs."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest
from taskiq.exceptions import SendTaskError

from gateway_async import BatchPolicy, RecoveryPolicy, RetryPolicy
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from gateway_async.workers import WorkerPolicy, Workers
from tests.support.books import Books, Wrong, check_conserved, effects, judge, statuses, told_of
from tests.support.orders import seeded
from tests.support.postgres import postgres_url
from tests.support.processes import Process, write_start
from tests.workers.app import make_workers
from tests.workers.rabbit import Node, own_node

SETTLE_SECONDS = 1.0
"""Longer than a request lives in the sandbox: what was not done by then never will be."""
WORKERS, TASKS = 3, 4
"""How many processes there are, and how many slices each runs at once."""
_COMMAND = (
    *(sys.executable, "-m", "taskiq", "worker", "tests.workers.app:broker", "-w", "1"),
    *("--max-async-tasks", str(TASKS), "--ack-type", "when_executed"),
)
_OWNERS = (
    "SELECT owner FROM gateway_slices WHERE slice > 0 "
    "AND expires_at > EXTRACT(EPOCH FROM clock_timestamp())"
)


@attrs.frozen(kw_only=True)
class Scene:
    """One job under way, and the worker processes that something befell."""

    policy: WorkerPolicy
    sandbox: Sandbox
    node: Node
    workers: list[Process]
    jobs: Workers
    orders: list[Any]
    journal: str
    struck: list[Process] = attrs.field(factory=list)

    def _owners(self) -> list[int]:
        with psycopg.connect(self.journal) as journal:
            found = journal.execute(_OWNERS).fetchall()
        return [int(owner.split()[0].rpartition(":")[2]) for (owner,) in found]

    async def busy_worker(self) -> Process:
        """Return a process that has slices now, and that nothing befell yet."""
        while True:
            for process_id in await asyncio.to_thread(self._owners):
                for worker in self.workers:
                    if worker not in self.struck and worker.has(process_id):
                        self.struck.append(worker)
                        return worker
            await asyncio.sleep(0.01)

    async def kill_a_worker(self) -> None:
        (await self.busy_worker()).kill()

    async def freeze_a_worker(self) -> None:
        """Stop one for longer than its leases run, and let it go on."""
        await (await self.busy_worker()).freeze(1.3 * self.policy.lease_seconds)

    async def kill_the_broker(self) -> None:
        await asyncio.to_thread(self.node.wait_saved)
        await asyncio.to_thread(self.node.kill)
        self.node.start()
        await asyncio.to_thread(self.node.wait)

    async def deliver_twice(self) -> None:
        """Hand every slice over once more, while they are run."""
        for number in range(1, -(-len(self.orders) // self.policy.slice_size) + 1):
            with contextlib.suppress(SendTaskError):  # the broker may have been killed by now
                await self.jobs._enqueue("job", number)


FAULTS: tuple[tuple[float, Callable[[Scene], Coroutine[Any, Any, None]]], ...] = (
    (0.1, Scene.deliver_twice),
    (0.25, Scene.kill_a_worker),
    (0.45, Scene.freeze_a_worker),
    (0.66, Scene.kill_the_broker),
)
"""What befalls a job, and once which share of it was asked of the gateway."""


async def play(
    refunds: int, policy: WorkerPolicy, folder: Path
) -> tuple[Counter[Wrong], Counter[str]]:
    """Run one job with every fault.

    Return how many orders are wrong, by what is wrong with them, and what became of the orders, as
    the job says.
    """
    async with _scene(refunds, policy, folder) as scene:
        assert await scene.jobs.submit("refund", scene.orders, job="job") == refunds
        async with asyncio.TaskGroup() as striking:
            for share, strike in FAULTS:
                while scene.sandbox.requests["refund"] < share * refunds / 50:  # noqa: ASYNC110  # no event
                    await asyncio.sleep(0.01)
                striking.create_task(strike(scene))
        result = await scene.jobs.result("job")
    check_conserved(result, scene.orders)
    told = [attrs.evolve(told_of(outcome), reference="") for outcome in result]
    found = judge(Books(done=effects(scene.sandbox, scene.orders)), told, told)
    return Counter(kind for kind, _ in found), Counter(map(str, statuses(result)))


@contextlib.asynccontextmanager
async def _scene(refunds: int, policy: WorkerPolicy, folder: Path) -> AsyncIterator[Scene]:
    workers: list[Process] = []
    with own_node() as node, postgres_url() as journal:
        async with Sandbox() as sandbox:
            sandbox.faults.add("*", Latency(seconds=0.05))
            start = {
                "base_url": sandbox.base_url,
                "secret": sandbox.secret,
                "client": {
                    "policy": BatchPolicy(concurrency=1, stop_after_unknown=1000),
                    "recovery": RecoveryPolicy(settle_seconds=SETTLE_SECONDS, resend_absent=True),
                    "retry": RetryPolicy(first_pause_seconds=0.01, max_pause_seconds=0.1),
                },
                "amqp": node.url,
                "queue": "gateway",
                "tasks": TASKS,
                "journal": journal,
                "workers": policy,
            }
            around = write_start(folder / "start", **start)
            await asyncio.to_thread(node.wait)
            _, jobs = make_workers(start)
            try:
                for number in range(WORKERS):  # those that run are ended if the next fails
                    log = folder / f"{number}.log"
                    workers.append(Process(_COMMAND, log, env=around))
                async with jobs:
                    yield Scene(
                        policy=policy,
                        sandbox=sandbox,
                        node=node,
                        workers=workers,
                        jobs=jobs,
                        orders=seeded(sandbox, refunds),
                        journal=journal,
                    )
            finally:
                await asyncio.gather(*(worker.end() for worker in workers))


POLICY = WorkerPolicy(
    slice_size=100, lease_seconds=1.5, sweep_seconds=0.5, wake_seconds=3.0, watch_seconds=0.2
)


@pytest.mark.slow
async def test_no_refund_is_doubled_or_lost(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    refunds: int = pytestconfig.getoption("--refunds")
    assert await play(refunds, POLICY, tmp_path) == ({}, {"succeeded": refunds})
