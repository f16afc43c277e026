"""One job on several worker processes, what befalls them meanwhile, and what the books say then.

The sandbox is in this process, the workers in theirs, and the queue in a RabbitMQ of its own.
"""

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import attrs
import psycopg
from taskiq.exceptions import SendTaskError

from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from gateway_async.workers import WorkerPolicy, Workers
from tests.jobs.books import SUCCEEDED, check_conserved, effects, statuses
from tests.orders import seeded
from tests.postgres import postgres_url
from tests.workers.app import make_workers
from tests.workers.processes import WorkerProcess, worker_processes
from tests.workers.rabbit import Node, own_node

SETTLE_SECONDS = 1.0
"""Longer than a request lives in the sandbox: what was not done by then never will be."""
WORKERS, TASKS = 3, 4
"""How many processes there are, and how many slices each runs at once."""
OWNERS = (
    "SELECT owner FROM gateway_slices WHERE slice > 0 "
    "AND expires_at > EXTRACT(EPOCH FROM clock_timestamp())"
)


@attrs.frozen(kw_only=True)
class Scene:
    """One job under way, and the worker processes that something befell."""

    policy: WorkerPolicy
    sandbox: Sandbox
    node: Node
    workers: list[WorkerProcess]
    jobs: Workers
    orders: list[Any]
    journal: str
    struck: list[WorkerProcess] = attrs.field(factory=list)

    def _owners(self) -> list[int]:
        """Return the processes that have slices."""
        with psycopg.connect(self.journal) as journal:
            found = journal.execute(OWNERS).fetchall()
        return [int(owner.split()[0].rpartition(":")[2]) for (owner,) in found]

    async def busy_worker(self) -> WorkerProcess:
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
        (await self.busy_worker()).signal(signal.SIGKILL)

    async def freeze_a_worker(self) -> None:
        """Stop one for longer than its leases run, and let it go on."""
        worker = await self.busy_worker()
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(1.3 * self.policy.lease_seconds)
        worker.signal(signal.SIGCONT)

    async def kill_the_broker(self) -> None:
        """End RabbitMQ, and start it again."""
        await asyncio.to_thread(self.node.kill)
        self.node.start()
        await asyncio.to_thread(self.node.wait)

    async def deliver_twice(self) -> None:
        """Hand every slice over once more, while they are run."""
        for number in range(1, -(-len(self.orders) // self.policy.slice_size) + 1):
            with contextlib.suppress(SendTaskError):  # the broker may have been killed by now
                await self.jobs._enqueue("job", number)


FAULTS: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    "double": Scene.deliver_twice,
    "kill": Scene.kill_a_worker,
    "freeze": Scene.freeze_a_worker,
    "broker": Scene.kill_the_broker,
}


@attrs.frozen(kw_only=True)
class Verdict:
    """What the gateway's books say of a job, beside what it came to.

    Attributes:
        doubled: How many refunds were made more than once.
        lost: How many were not made.
        misreported: How many were called something else than what became of them.
        counts: What became of the orders, as the job says.
        seconds: From each fault to the end of the job.
    """

    doubled: int
    lost: int
    misreported: int
    counts: dict[str, int]
    seconds: dict[str, float]

    @property
    def is_right(self) -> bool:
        """Whether every refund was made once, and is told so."""
        return not (self.doubled or self.lost or self.misreported)


async def play(
    faults: "dict[str, float]",
    *,
    refunds: int,
    latency_seconds: float,
    policy: WorkerPolicy,
    folder: Path,
) -> Verdict:
    """Run one job, with each of these faults once that share of it was asked of the gateway."""
    clock, struck = asyncio.get_running_loop().time, dict[str, float]()
    async with _scene(refunds, latency_seconds, policy, folder) as scene:
        assert await scene.jobs.submit("refund", scene.orders, job="job") == refunds
        async with asyncio.TaskGroup() as striking:
            for name, share in faults.items():
                while scene.sandbox.requests["refund"] < share * refunds / 50:  # noqa: ASYNC110  # no event
                    await asyncio.sleep(0.01)
                struck[name] = clock()
                striking.create_task(FAULTS[name](scene))
        result = await scene.jobs.result("job")
        seconds = {name: clock() - then for name, then in struck.items()}
    check_conserved(result, scene.orders)
    made, told = effects(scene.sandbox, scene.orders), statuses(result)
    return Verdict(
        doubled=sum(times > 1 for times in made),
        lost=made.count(0),
        misreported=sum(
            (said is SUCCEEDED) != (times == 1) for said, times in zip(told, made, strict=True)
        ),
        counts=Counter(map(str, told)),
        seconds=seconds,
    )


@contextlib.asynccontextmanager
async def _scene(
    refunds: int, latency_seconds: float, policy: WorkerPolicy, folder: Path
) -> AsyncIterator[Scene]:
    with own_node() as node, postgres_url() as journal:
        async with Sandbox() as sandbox:
            sandbox.faults.add("*", Latency(seconds=latency_seconds))
            start = {
                "amqp": node.url,
                "queue": "gateway",
                "tasks": TASKS,
                "journal": journal,
                "base_url": sandbox.base_url,
                "secret": sandbox.secret,
                "policy": {"concurrency": 1, "stop_after_unknown": 1000},
                "recovery": {"settle_seconds": SETTLE_SECONDS, "resend_absent": True},
                "workers": attrs.asdict(policy),
            }
            path = folder / "start.json"
            path.write_text(json.dumps(start))
            await asyncio.to_thread(node.wait)
            _, jobs = make_workers(start)
            async with worker_processes(WORKERS, path, tasks=TASKS) as workers, jobs:
                yield Scene(
                    policy=policy,
                    sandbox=sandbox,
                    node=node,
                    workers=workers,
                    jobs=jobs,
                    orders=seeded(sandbox, refunds),
                    journal=journal,
                )
