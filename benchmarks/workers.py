"""Does throughput grow with the worker processes?

Run as ``python -m benchmarks.workers``. It needs a RabbitMQ on 127.0.0.1:5672 and a PostgreSQL
whose URL is in GATEWAY_TEST_POSTGRES (``postgresql://postgres@127.0.0.1:5432/postgres`` by
default), where it makes a database. The gateway is the sandbox, in this process, and answers after
50 ms. Each worker runs one slice at a time, a request at a time, so that two cores are enough for
four of them: what is shown is that workers do not hinder each other, not how much one can do.
"""

import asyncio
import contextlib
import json
import os
import sys
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import aio_pika
import psycopg
from psycopg import sql
from taskiq import TaskiqEvents

from benchmarks.figures import Figure, at_least, show
from gateway_async import BatchPolicy, Credentials, GatewayClient, HmacSigner, RefundOrder
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from gateway_async.workers import WorkerPolicy, Workers
from gateway_async.workers.rabbit import rabbit_broker, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from taskiq import AsyncBroker

PROCESSES = (1, 2, 4)
REFUNDS = 6000
SLICE_SIZE = 250
LATENCY_SECONDS = 0.05
_POSTGRES = "postgresql://postgres@127.0.0.1:5432/postgres"
_RABBIT = "amqp://guest:guest@127.0.0.1:5672/"


def measure() -> list[Figure]:
    """Measure refunds a second with 1, 2 and 4 worker processes."""
    with database() as url:
        rates = {count: asyncio.run(_rate(url, count)) for count in PROCESSES}
    alone = rates[PROCESSES[0]]
    how = f"{LATENCY_SECONDS * 1000:.0f} ms latency, a request at a time and worker"
    return [
        *(
            Figure(name=_name(count), value=rate, unit="refunds a second", detail=how)
            for count, rate in rates.items()
        ),
        *(
            Figure(
                name=_name(count),
                value=rates[count] / alone,
                unit="x one worker",
                goal=at_least(0.75 * count),
            )
            for count in PROCESSES[1:]
        ),
    ]


def _name(count: int) -> str:
    return f"{count} worker processes" if count > 1 else "1 worker process"


async def _rate(url: str, count: int) -> float:
    """Return refunds a second, from when all workers are ready to the end of the job."""
    clock = asyncio.get_running_loop().time
    async with Sandbox() as sandbox:
        sandbox.faults.add("*", Latency(seconds=LATENCY_SECONDS))
        start = {
            "journal": url,
            "queue": f"gateway-benchmark-{uuid.uuid4().hex}",
            "base_url": sandbox.base_url,
            "secret": sandbox.secret,
        }
        orders = [
            RefundOrder(
                transaction_id=order.transaction_id,
                order_no=order.order_no,
                currency=order.currency,
                amount=order.amount,
                refund_amount=Decimal("1.00"),
            )
            for order in sandbox.seed(REFUNDS, status="captured")
        ]
        _, jobs = make_workers(start)
        name = f"{count} workers"
        async with deleted(start["queue"]), worker_processes(count, start), jobs:
            await jobs.submit("refund", orders, job=name)
            began = clock()
            async for _ in jobs.watch(name):
                pass
            seconds = clock() - began
            result = await jobs.result(name)
    if not result.ok:
        raise RuntimeError(f"not every order succeeded: {result.counts}")
    return REFUNDS / seconds


def make_workers(start: dict[str, Any]) -> "tuple[AsyncBroker, Workers]":
    """Make what every process has."""
    name = start["queue"]
    broker = rabbit_broker(_RABBIT, queue=name, slices_at_once=1)

    def make_gateway() -> GatewayClient:
        return GatewayClient(
            start["base_url"],
            Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner(start["secret"])),
            policy=BatchPolicy(concurrency=1),
        )

    policy = WorkerPolicy(slice_size=SLICE_SIZE, watch_seconds=0.1)
    return broker, Workers(broker, make_gateway, start["journal"], policy=policy)


@contextlib.asynccontextmanager
async def deleted(queue: str) -> "AsyncIterator[None]":
    """Delete the queue at the end."""
    yield
    async with await aio_pika.connect(_RABBIT) as connection:
        channel = await connection.channel()
        for each in (queue, f"{queue}.dead"):
            await channel.queue_delete(each)
        await channel.exchange_delete(queue)


@contextlib.asynccontextmanager
async def worker_processes(count: int, start: dict[str, Any]) -> "AsyncIterator[None]":
    """Run workers in processes of their own, until they are not needed any more."""
    started: list[asyncio.subprocess.Process] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.workers", json.dumps(start)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            started.append(process)
        for process in started:
            if process.stdout is None or not await process.stdout.readline():
                raise RuntimeError("a worker did not start")
        yield
    finally:
        for process in started:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()


async def work(start: dict[str, Any]) -> None:
    """Work, until the standard input is closed."""
    broker, _ = make_workers(start)
    broker.on_event(TaskiqEvents.WORKER_STARTUP)(lambda _: print("ready", flush=True))
    until = asyncio.Event()
    working = asyncio.create_task(serve(broker, until, slices_at_once=1))
    await asyncio.to_thread(sys.stdin.read)
    until.set()
    await working


@contextlib.contextmanager
def database() -> "Iterator[str]":
    """Make a database, give its URL, and drop it."""
    server = os.environ.get("GATEWAY_TEST_POSTGRES", _POSTGRES)
    name = f"gateway_benchmark_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(work(json.loads(sys.argv[1])))
    else:
        show(measure())
