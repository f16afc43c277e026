"""Does throughput grow with the worker processes?

Run as ``python -m benchmarks.workers``, where the tests find a RabbitMQ and a PostgreSQL. The
gateway is the sandbox, in this process, and answers after 50 ms. Each worker runs one slice at a
time, a request at a time, so that two cores are enough for four of them: what is shown is that
workers do not hinder each other, not how much one can do.
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import aio_pika

from benchmarks.figures import Figure, alternate, at_least, median_of, ratio_of, show
from benchmarks.refund_batch import expect
from gateway_async import BatchPolicy
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from gateway_async.workers import WorkerPolicy
from tests.support.orders import seeded
from tests.support.postgres import postgres_url
from tests.support.processes import Process, write_start
from tests.workers.app import make_workers
from tests.workers.rabbit import own_queue, server_url

if TYPE_CHECKING:
    from gateway_async.workers import Workers

PROCESSES = (1, 2, 4)
REFUNDS, SLICE_SIZE = 3000, 250
LATENCY_SECONDS = 0.05
ROUNDS = 3
COMMAND = (
    *(sys.executable, "-m", "taskiq", "worker", "tests.workers.app:broker", "-w", "1"),
    *("--max-async-tasks", "1", "--ack-type", "when_executed"),
)


async def listening(queue: str, count: int) -> None:
    """Wait until so many workers listen."""
    async with await aio_pika.connect(server_url()) as connection:
        channel, found = await connection.channel(), 0
        while found != count:
            await asyncio.sleep(0.1)
            declared = await channel.declare_queue(queue, passive=True)
            found = declared.declaration_result.consumer_count or 0


async def refunds_a_second(jobs: "Workers", sandbox: Sandbox) -> float:
    """Run one job on the workers that listen."""
    clock = asyncio.get_running_loop().time
    await jobs.submit("refund", seeded(sandbox, REFUNDS), job="job")
    began = clock()
    async for _ in jobs.watch("job"):
        pass
    seconds = clock() - began
    expect((await jobs.result("job")).ok, 1)
    return REFUNDS / seconds


async def rate(count: int) -> float:
    """Return the refunds a second of so many worker processes."""
    workers: list[Process] = []
    with TemporaryDirectory() as name, postgres_url() as journal:
        folder = Path(name)
        async with own_queue() as queue, Sandbox() as sandbox:
            sandbox.faults.add("*", Latency(seconds=LATENCY_SECONDS))
            start = {
                "base_url": sandbox.base_url,
                "secret": sandbox.secret,
                "client": {"policy": BatchPolicy(concurrency=1)},
                "amqp": server_url(),
                "queue": queue,
                "tasks": 1,
                "journal": journal,
                "workers": WorkerPolicy(slice_size=SLICE_SIZE, watch_seconds=0.05),
            }
            around = write_start(folder / "start", **start)
            _, jobs = make_workers(start)
            try:
                async with jobs:
                    logs = [folder / f"{number}.log" for number in range(count)]
                    workers += [Process(COMMAND, log, env=around) for log in logs]
                    await listening(queue, count)
                    return await refunds_a_second(jobs, sandbox)
            finally:
                await asyncio.gather(*(worker.end() for worker in workers))


def measure() -> list[Figure]:
    """Measure refunds a second with 1, 2 and 4 worker processes, in turn."""
    names = {count: f"{count} worker process{'es' * (count > 1)}" for count in PROCESSES}
    sides = {names[count]: lambda count=count: asyncio.run(rate(count)) for count in PROCESSES}
    rates = alternate(sides, ROUNDS)
    alone = rates[names[1]]
    how = f"{LATENCY_SECONDS * 1000:.0f} ms latency, a request at a time and worker"
    return [
        *(median_of(name, rates[name], "refunds a second", detail=how) for name in sides),
        *(
            ratio_of(
                name, rates[name], alone, "x one worker", goal=at_least(0.75 * count), detail=how
            )
            for count, name in names.items()
            if count > 1
        ),
    ]


if __name__ == "__main__":
    show(measure())
