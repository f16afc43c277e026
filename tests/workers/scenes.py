"""One job on several worker processes, what befalls them meanwhile, and what the books say then.

The sandbox is in this process, the workers in theirs, and the queue in a RabbitMQ of its own.
"""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import attrs
import psycopg
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

_SETTLE_SECONDS = 1.0
"""Longer than a request lives in the sandbox: what was not done by then never will be."""
_WORKERS, _TASKS = 3, 4
"""How many processes there are, and how many slices each runs at once."""
_COMMAND = (
    *(sys.executable, "-m", "taskiq", "worker", "tests.workers.app:broker", "-w", "1"),
    *("--max-async-tasks", str(_TASKS), "--ack-type", "when_executed"),
)
_OWNERS = (
    "SELECT owner FROM gateway_slices WHERE slice > 0 "
    "AND expires_at > EXTRACT(EPOCH FROM clock_timestamp())"
)


@attrs.frozen
class Scene:
    """One job under way, and the worker processes that something befell."""

    policy: WorkerPolicy
    node: Node
    workers: list[Process]
    jobs: Workers
    journal: str
    slices: int
    struck: list[Process] = attrs.field(factory=list)

    def _owners(self) -> list[int]:
        """Return the processes that have slices."""
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
        """End one as a machine ends that loses its power."""
        (await self.busy_worker()).kill()

    async def freeze_a_worker(self) -> None:
        """Stop one for longer than its leases run, and let it go on."""
        await (await self.busy_worker()).freeze(1.3 * self.policy.lease_seconds)

    async def kill_the_broker(self) -> None:
        """End RabbitMQ, and start it again."""
        await asyncio.to_thread(self.node.kill)
        self.node.start()
        await asyncio.to_thread(self.node.wait)

    async def deliver_twice(self) -> None:
        """Hand every slice over once more, while they are run."""
        for number in range(1, self.slices + 1):
            with contextlib.suppress(SendTaskError):  # the broker may have been killed by now
                await self.jobs._enqueue("job", number)


FAULTS: dict[str, tuple[float, Callable[[Scene], Coroutine[Any, Any, None]]]] = {
    "double": (0.1, Scene.deliver_twice),
    "kill": (0.25, Scene.kill_a_worker),
    "freeze": (0.45, Scene.freeze_a_worker),
    "broker": (0.66, Scene.kill_the_broker),
}
"""What befalls a job, and once which share of it was asked of the gateway."""


async def play(
    refunds: int, latency_seconds: float, policy: WorkerPolicy, folder: Path
) -> tuple[Counter[Wrong], Counter[str], dict[str, float]]:
    """Run one job with every fault.

    Return how many orders are wrong, by what is wrong with them; what became of the orders, as the
    job says; and the seconds from each fault to the end of the job.
    """
    clock, struck = asyncio.get_running_loop().time, dict[str, float]()
    async with contextlib.AsyncExitStack() as stack:
        node, journal = stack.enter_context(own_node()), stack.enter_context(postgres_url())
        sandbox = await stack.enter_async_context(Sandbox())
        sandbox.faults.add("*", Latency(seconds=latency_seconds))
        start = {
            "base_url": sandbox.base_url,
            "secret": sandbox.secret,
            "client": {
                "policy": BatchPolicy(concurrency=1, stop_after_unknown=1000),
                "recovery": RecoveryPolicy(settle_seconds=_SETTLE_SECONDS, resend_absent=True),
                "retry": RetryPolicy(first_pause_seconds=0.01, max_pause_seconds=0.1),
            },
            "amqp": node.url,
            "queue": "gateway",
            "tasks": _TASKS,
            "journal": journal,
            "workers": policy,
        }
        around, workers = write_start(folder / "start", **start), list[Process]()

        async def end() -> None:  # those that run, also if the next cannot be started
            await asyncio.gather(*(worker.end() for worker in workers))

        stack.push_async_callback(end)
        await asyncio.to_thread(node.wait)
        for number in range(_WORKERS):
            workers.append(Process(_COMMAND, folder / f"{number}.log", env=around))
        jobs = await stack.enter_async_context(make_workers(start)[1])
        orders = seeded(sandbox, refunds)
        scene = Scene(policy, node, workers, jobs, journal, -(-refunds // policy.slice_size))
        assert await jobs.submit("refund", orders, job="job") == refunds
        async with asyncio.TaskGroup() as striking:
            for name, (share, strike) in FAULTS.items():
                while sandbox.requests["refund"] < share * refunds / 50:  # noqa: ASYNC110  # no event
                    await asyncio.sleep(0.01)
                struck[name] = clock()
                striking.create_task(strike(scene))
        result = await jobs.result("job")
        seconds = {name: clock() - then for name, then in struck.items()}
    check_conserved(result, orders)
    told = [attrs.evolve(told_of(outcome), reference="") for outcome in result]
    found = judge(Books(done=effects(sandbox, orders)), told, told)
    return Counter(kind for kind, _ in found), Counter(map(str, statuses(result))), seconds
