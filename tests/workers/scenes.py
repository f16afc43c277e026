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

from gateway_async import BatchResult, OutcomeStatus
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from gateway_async.workers import Workers
from tests.orders import orders_for
from tests.workers.app import make_workers
from tests.workers.processes import WorkerProcess, worker_processes
from tests.workers.rabbit import Node

SETTLE_SECONDS = 1.0
"""Longer than a request lives in the sandbox: what was not done by then never will be."""
TASKS = 4
"""How many slices a process runs at once."""


@attrs.frozen(kw_only=True)
class Scale:
    """How large a scene is.

    Attributes:
        refunds: How many refunds the job has.
        slice_size: How many of them a slice has.
        lease_seconds: How long a slice stays with a worker that says nothing more.
        wake_seconds: How long a slice is left to the queue.
        sweep_seconds: How often slices are looked for that nobody has.
        latency_seconds: How long the gateway takes for each answer.
        workers: How many worker processes there are.
    """

    refunds: int
    slice_size: int
    lease_seconds: float
    wake_seconds: float
    sweep_seconds: float
    latency_seconds: float
    workers: int = 3


@attrs.frozen(kw_only=True)
class Scene:
    """One job under way.

    Attributes:
        scale: How large it is.
        sandbox: The gateway.
        node: The queue.
        workers: The worker processes.
        jobs: What the job was submitted with.
        orders: The orders.
        journal: Where the job is.
        struck: The processes that something befell.
    """

    scale: Scale
    sandbox: Sandbox
    node: Node
    workers: list[WorkerProcess]
    jobs: Workers
    orders: list[Any]
    journal: str
    struck: list[WorkerProcess] = attrs.field(factory=list)

    async def busy_worker(self) -> WorkerProcess:
        """Return a process that has slices now, and that nothing befell yet."""
        while True:
            for process_id in await asyncio.to_thread(_owners, self.journal):
                for worker in self.workers:
                    if worker not in self.struck and worker.has(process_id):
                        self.struck.append(worker)
                        return worker
            await asyncio.sleep(0.01)

    async def requests(self, share: float) -> None:
        """Wait until so much of the job was asked of the gateway."""
        wanted = share * self.scale.refunds / 50
        while self.sandbox.requests["refund"] < wanted:  # noqa: ASYNC110  # the sandbox has no event for it
            await asyncio.sleep(0.01)

    async def kill_a_worker(self) -> None:
        """End one as a machine ends that loses its power."""
        worker = await self.busy_worker()
        worker.signal(signal.SIGKILL)

    async def freeze_a_worker(self) -> None:
        """Stop one for longer than its leases run, and let it go on."""
        worker = await self.busy_worker()
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(1.3 * self.scale.lease_seconds)
        worker.signal(signal.SIGCONT)

    async def kill_the_broker(self) -> None:
        """End RabbitMQ, and start it again."""
        await asyncio.to_thread(self.node.kill)
        self.node.start()
        await asyncio.to_thread(self.node.wait)

    async def deliver_twice(self) -> None:
        """Hand every slice over once more, while they are run."""
        for number in range(1, -(-self.scale.refunds // self.scale.slice_size) + 1):
            with contextlib.suppress(SendTaskError):  # the broker may have been killed by now
                await self.jobs.enqueue("job", number)


Fault = Callable[[Scene], Coroutine[Any, Any, None]]

FAULTS: dict[str, Fault] = {
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
        total_seconds: From handing the job in to its end.
    """

    doubled: int
    lost: int
    misreported: int
    counts: Counter[str]
    seconds: dict[str, float]
    total_seconds: float

    @property
    def is_right(self) -> bool:
        """Whether every refund was made once, and is told so."""
        return not (self.doubled or self.lost or self.misreported)


async def play(
    scale: Scale, faults: "dict[str, float]", *, node: Node, journal: str, folder: Path
) -> Verdict:
    """Run one job, with each of these faults once so much of it was asked of the gateway.

    Args:
        scale: How large it is.
        faults: The share of the job at which each fault strikes, ascending.
        node: A RabbitMQ, which may not listen yet.
        journal: The URL of the journal.
        folder: Where files may be.
    """
    clock = asyncio.get_running_loop().time
    struck: dict[str, float] = {}
    async with _scene(scale, node, journal, folder) as scene:
        began = clock()
        given = await scene.jobs.submit("refund", scene.orders, job="job")
        assert given == scale.refunds
        async with asyncio.TaskGroup() as striking:
            for name, share in faults.items():
                await scene.requests(share)
                struck[name] = clock()
                striking.create_task(FAULTS[name](scene))
        result = await scene.jobs.result("job")
        ended = clock()
        return judge(
            scene.sandbox,
            scene.orders,
            result,
            seconds={name: ended - then for name, then in struck.items()},
            total_seconds=ended - began,
        )


@contextlib.asynccontextmanager
async def _scene(scale: Scale, node: Node, journal: str, folder: Path) -> AsyncIterator[Scene]:
    async with Sandbox() as sandbox:
        sandbox.faults.add("*", Latency(seconds=scale.latency_seconds))
        start = {
            "amqp": node.url,
            "queue": "gateway",
            "tasks": TASKS,
            "journal": journal,
            "base_url": sandbox.base_url,
            "secret": sandbox.secret,
            "policy": {"concurrency": 1, "stop_after_unknown": 1000},
            "recovery": {"settle_seconds": SETTLE_SECONDS, "resend_absent": True},
            "workers": {
                "slice_size": scale.slice_size,
                "lease_seconds": scale.lease_seconds,
                "sweep_seconds": scale.sweep_seconds,
                "wake_seconds": scale.wake_seconds,
                "watch_seconds": 0.2,
            },
        }
        path = folder / "start.json"
        path.write_text(json.dumps(start))
        await asyncio.to_thread(node.wait)
        _, jobs = make_workers(start)
        async with worker_processes(scale.workers, path, tasks=TASKS) as workers, jobs:
            orders = orders_for("refund", sandbox.seed(scale.refunds, status="captured"))
            yield Scene(
                scale=scale,
                sandbox=sandbox,
                node=node,
                workers=workers,
                jobs=jobs,
                orders=orders,
                journal=journal,
            )


def _owners(url: str) -> list[int]:
    """Return the processes that have slices."""
    with psycopg.connect(url) as journal:
        found = journal.execute(
            "SELECT owner FROM gateway_slices WHERE slice > 0 "
            "AND expires_at > EXTRACT(EPOCH FROM clock_timestamp())"
        ).fetchall()
    return [int(owner.split()[0].rpartition(":")[2]) for (owner,) in found]


def judge(
    sandbox: Sandbox,
    orders: list[Any],
    result: BatchResult[Any, Any],
    *,
    seconds: dict[str, float],
    total_seconds: float,
) -> Verdict:
    """Compare a result with the books."""
    assert [outcome.index for outcome in result] == list(range(len(orders)))
    assert [outcome.order for outcome in result] == orders
    made = [sandbox.ledger.effects("refund", order.transaction_id) for order in orders]
    told = [outcome.status for outcome in result]
    return Verdict(
        doubled=sum(times > 1 for times in made),
        lost=sum(times == 0 for times in made),
        misreported=sum(
            (status is OutcomeStatus.SUCCEEDED) != (times == 1)
            for status, times in zip(told, made, strict=True)
        ),
        counts=Counter(str(status) for status in told),
        seconds=seconds,
        total_seconds=total_seconds,
    )
