"""Slices on a queue of your own: Procrastinate, in the PostgreSQL where the journal is.

Run as ``python procrastinate_workers.py postgresql://user@host/database``, against a gateway that
runs inside this script. A shop has the tasks in a module of its own, submits jobs where they
arise, and runs ``procrastinate worker``.
It needs ``pip install 'gateway-async[journal]' procrastinate``.
"""

import asyncio
import contextlib
import sys
from decimal import Decimal

from procrastinate import App, PsycopgConnector

from gateway_async import GatewayClient, RefundOrder
from gateway_async.sandbox import Sandbox
from gateway_async.workers import WorkerPolicy, Workers


def make_jobs(app: App, sandbox: Sandbox, journal_url: str) -> Workers:
    """Make the jobs of a shop: these are the lines that the queue needs."""

    async def enqueue(job: str, slice_number: int) -> None:
        await run_slice.defer_async(job=job, slice_number=slice_number)

    jobs = Workers(
        enqueue,
        lambda: GatewayClient(sandbox.base_url, sandbox.credentials, dialect=sandbox.dialect),
        journal_url,
        policy=WorkerPolicy(slice_size=250),
    )

    @app.task(name="run_slice")
    async def run_slice(job: str, slice_number: int) -> None:
        await jobs.run_slice(job, slice_number)

    @app.periodic(cron="* * * * *")
    @app.task(name="sweep")
    async def sweep(timestamp: int) -> None:
        del timestamp
        await jobs.sweep()

    return jobs


async def main(url: str) -> None:
    """Refund 1,000 orders in four slices, and tell how far that has come."""
    app = App(connector=PsycopgConnector(conninfo=url))
    async with Sandbox() as sandbox, app.open_async(), make_jobs(app, sandbox, url) as jobs:
        await app.schema_manager.apply_schema_async()
        orders = [
            RefundOrder(
                transaction_id=paid.transaction_id,
                order_no=paid.order_no,
                currency=paid.currency,
                amount=paid.amount,
                refund_amount=Decimal("1.00"),
            )
            for paid in sandbox.seed(1000, status="captured")
        ]
        await jobs.submit("refund", orders, job="month-end")
        worker = asyncio.create_task(app.run_worker_async(concurrency=4))
        async for progress in jobs.watch("month-end"):
            print(f"{progress.settled} of {progress.total} orders", file=sys.stderr)
        result = await jobs.result("month-end")
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker
    print(", ".join(f"{count} {status}" for status, count in result.counts.items() if count))


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(f"usage: python {sys.argv[0]} postgresql://user@host/database")
    asyncio.run(main(sys.argv[1]))
